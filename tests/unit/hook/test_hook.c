#include "unit/hook/fake.h"

static int try_new(const char *point, enum hook_kind kind, struct err *e)
{
    struct fake f = {0};
    struct hook_spec spec = {
        .point = str_of(point), .kind = kind, .terms = {.target = &fake_target, .data = &f}};
    struct hook *h;
    int rc = hook_new(&h, &spec, e);
    CHECK((h != NULL) == (rc == 0));
    hook_unref(h);
    CHECK_INT(f.releases, rc == 0); // what was refused was not taken over
    return rc;
}

TEST(a_point_of_the_agent_has_one_kind)
{
    struct err e;
    CHECK_INT(try_new("on_tool_call", HOOK_CHAIN, &e), 0);
    CHECK_INT(try_new("on_tool_call", HOOK_OBSERVE, &e), ERR_INVALID);
    CHECK_STR(e.msg, "hook point 'on_tool_call' is of kind chain, not observe");
    CHECK_INT(try_new("on_permission", HOOK_VETO, &e), 0);
    CHECK_INT(try_new("on_resolve_tool", HOOK_FIRST, &e), 0);
}

TEST(a_free_event_is_observed_or_intercepted)
{
    struct err e;
    CHECK_INT(try_new("agent_created", HOOK_OBSERVE, &e), 0);
    CHECK_INT(try_new("agent_created", HOOK_CHAIN, &e), 0);
    CHECK_INT(try_new("agent_created", HOOK_VETO, &e), ERR_INVALID);
    CHECK_INT(try_new("", HOOK_OBSERVE, &e), ERR_INVALID);
}

TEST(the_short_name_is_the_same_point)
{
    CHECK(hook_point_find(STR("tool_call")) == &hook_points[POINT_TOOL_CALL]);
    CHECK(hook_point_find(STR("on_tool_call")) == &hook_points[POINT_TOOL_CALL]);
    CHECK(hook_point_find(STR("on_")) == NULL);
    CHECK(hook_point_find(STR("agent_created")) == NULL);
    CHECK_STR(hook_point_nearest(STR("on_tool_cal")), "on_tool_call");
    CHECK(!hook_points[POINT_MODEL_DELTA].may_wait);

    struct fake f = {0};
    struct hook *h = fake_hook(&f, "tool_call", HOOK_CHAIN, NULL);
    CHECK_STR(h->point, "on_tool_call");
    hook_unref(h);
}

TEST(the_last_reference_releases_once)
{
    struct fake f = {0};
    struct hook *h = fake_hook(&f, "e", HOOK_OBSERVE, NULL);
    hook_ref(h);
    hook_unref(h);
    CHECK_INT(f.releases, 0);
    hook_unref(h);
    CHECK_INT(f.releases, 1);
}
