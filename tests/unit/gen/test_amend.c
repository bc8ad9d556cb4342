#include "unit/gen/fake.h"

static struct gen_item *observe(struct fake_world *w, struct gen_unit *u, const char *event,
                                const char *name)
{
    struct gen_item *it;
    struct hook_spec spec = {.point = str_of(event),
                             .kind = HOOK_OBSERVE,
                             .name = str_of(name),
                             .terms = {.target = &fake_target, .data = w}};
    CHECK_INT(gen_unit_hook(u, &spec, &it, NULL), 0);
    return it;
}

static struct gen_unit *open_one(struct fake_world *w)
{
    fake_open(w, 1);
    fake_load(w, (struct fake_act){.name = "a"});
    w->events[0] = '\0';
    return gen_at(fake_current(w), 0);
}

TEST(what_is_registered_in_one_turn_is_one_generation)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    for (int i = 0; i < 3; i++) {
        observe(&w, u, "e", NULL);
    }
    fake_settle(&w);
    CHECK_INT(gen_number(fake_current(&w)), 2);
    CHECK_STR(w.events,
              "generation.committed {\"generation\":2,\"previous\":1,\"trigger\":\"register\"}\n");
    CHECK_INT(fake_notify(&w, "e"), 3);
    CHECK_INT(u->revision, 1); // the unit is the same
    fake_close(&w);
}

TEST(a_registration_is_visible_at_once_under_the_number_of_its_turn)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    observe(&w, u, "e", NULL);
    CHECK_INT(fake_notify(&w, "e"), 1);
    observe(&w, u, "e", NULL);
    CHECK_INT(fake_notify(&w, "e"), 2);
    CHECK_INT(gen_number(fake_current(&w)), 2);
    fake_settle(&w);
    CHECK_INT(gen_number(fake_current(&w)), 2);
    CHECK_INT(fake_count_events(&w, "generation.committed"), 1);
    observe(&w, u, "e", NULL);
    fake_settle(&w);
    CHECK_INT(gen_number(fake_current(&w)), 3);
    fake_close(&w);
}

TEST(a_registration_taken_back_does_not_fire_also_in_pinned_generations)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    struct gen_item *it = observe(&w, u, "e", NULL);
    struct gen *pinned = gen_pin(fake_current(&w));
    const struct hook_list *l = hook_set_get(gen_hooks(pinned), STR("e"), HOOK_OBSERVE);
    struct hook_run run;
    CHECK_INT(gen_item_off(it, NULL), 0);
    CHECK_INT(fake_notify(&w, "e"), 0);
    CHECK(hook_run_start(&run, &(struct hook_run_opts){.list = l}));
    CHECK_INT(run.ran, 0);
    CHECK_INT(w.hook_calls, 0);
    gen_unpin(pinned);
    fake_settle(&w);
    CHECK_INT(w.hook_releases, 1); // nothing of it is left
    fake_close(&w);
}

TEST(registering_and_taking_back_forever_keeps_nothing)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    for (int i = 0; i < 1000; i++) {
        w.events[0] = '\0';
        CHECK_INT(gen_item_off(observe(&w, u, "e", NULL), NULL), 0);
        fake_settle(&w);
    }
    CHECK_INT(w.hook_releases, 1000);
    CHECK_INT(gen_unit_count(u), 0);
    fake_close(&w);
}

TEST(the_same_event_and_name_replaces_within_a_unit)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    observe(&w, u, "e", "n");
    observe(&w, u, "e", "n");
    observe(&w, u, "e", "m");
    CHECK_INT(fake_notify(&w, "e"), 2);
    CHECK_INT(gen_unit_count(u), 2);
    fake_settle(&w);
    CHECK_INT(w.hook_releases, 1);
    fake_close(&w);
}

TEST(a_version_that_drains_gets_a_stale_handle)
{
    struct fake_world w;
    struct err e;
    struct gen_unit *u = open_one(&w);
    struct gen_item *it = observe(&w, u, "e", NULL);
    struct gen *pinned = gen_pin(fake_current(&w));
    fake_load(&w, (struct fake_act){.name = "a"});
    struct gen_item_spec spec = {.kind = GEN_TOOL, .name = STR("t")};
    CHECK_INT(gen_unit_add(u, &spec, NULL, &e), ERR_CONFLICT);
    CHECK_STR(e.msg, "stale handle: this version of 'a' has been replaced");
    CHECK_INT(gen_item_off(it, &e), ERR_CONFLICT);
    gen_unpin(pinned);
    fake_close(&w);
}

TEST(registrations_before_a_run_are_a_generation_before_it)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    struct gen_item_spec spec = {
        .kind = GEN_TOOL, .name = STR("t"), .ops = &fake_item_ops, .data = &w};
    fake_plan(&w.source[0], (struct fake_act){.name = "b"});
    fake_ask(&w, &(struct gen_request){.trigger = "api", .wait_all = true});
    CHECK_INT(gen_unit_add(u, &spec, NULL, NULL), 0);
    CHECK_INT(w.starts, 1); // it is current: it begins at once
    fake_settle(&w);
    CHECK(fake_tool(&w, "t") != NULL);
    CHECK_INT(gen_number(fake_current(&w)), 3);
    CHECK_INT(fake_count_events(&w, "generation.committed"), 2);
    CHECK_INT(fake_count_events(&w, "tools.changed"), 1);
    fake_close(&w);
}

TEST(a_kind_without_an_event_tells_of_no_list)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    fake_load(&w, (struct fake_act){.name = "b"});
    struct gen_unit *other = gen_unit_find(fake_current(&w), STR("b"));
    struct gen_item_spec spec = {
        .kind = GEN_COMMAND, .name = STR("t"), .ops = &fake_item_ops, .data = &w};
    w.events[0] = '\0';
    CHECK_INT(gen_unit_add(u, &spec, NULL, NULL), 0);
    CHECK_INT(gen_unit_add(other, &spec, NULL, NULL), 0); // the second of its name
    fake_settle(&w);
    CHECK_INT(fake_count_events(&w, "generation.committed"), 1);
    CHECK(strstr(w.events, ".changed") == NULL && strstr(w.events, "null") == NULL);
    fake_close(&w);
}

TEST(a_registration_of_the_wrong_kind_is_refused)
{
    struct fake_world w;
    struct err e;
    struct gen_unit *u = open_one(&w);
    struct hook_spec spec = {.point = STR("on_tool_call"), .kind = HOOK_VETO};
    CHECK_INT(gen_unit_hook(u, &spec, NULL, &e), ERR_INVALID);
    CHECK_INT(gen_unit_count(u), 0);
    fake_close(&w);
}

TEST(a_handle_to_what_is_gone_says_so)
{
    struct fake_world w;
    struct err e;
    struct gen_unit *u = open_one(&w);
    uint64_t first = gen_item_id(observe(&w, u, "e", "n"));
    uint64_t second = gen_item_id(observe(&w, u, "e", "n")); // replaces it
    fake_settle(&w);
    CHECK_INT(gen_unit_off(u, first, &e), ERR_NOT_FOUND);
    CHECK_INT(gen_unit_off(u, second, &e), 0);
    CHECK_INT(gen_unit_off(u, second, &e), ERR_NOT_FOUND);
    CHECK_INT(fake_notify(&w, "e"), 0);
    fake_close(&w);
}

TEST(a_handler_leads_to_its_item)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    struct gen_item *it = observe(&w, u, "e", "n");
    struct hook *h = hook_set_find(gen_hooks(fake_current(&w)), STR("e"), HOOK_OBSERVE, STR("n"));
    CHECK(gen_item_of(h) == it);
    CHECK(gen_item_hook(it) == h);
    CHECK(gen_item_unit(it) == u);
    CHECK_INT(gen_item_off(it, NULL), 0);
    CHECK(gen_item_of(h) == NULL);
    fake_close(&w);
}

TEST(statistics_of_a_unit_are_by_point_in_the_order_of_a_turn)
{
    struct fake_world w;
    struct gen_unit *u = open_one(&w);
    observe(&w, u, "later", NULL);
    observe(&w, u, "on_done", NULL);
    observe(&w, u, "on_begin", NULL);
    observe(&w, u, "later", NULL);
    struct buf out;
    struct jw jw;
    buf_init(&out, SIZE_MAX);
    jw_init(&jw, &out);
    gen_unit_write_stats(u, &jw);
    const char *zero = "{\"count\":0,\"errors\":0,\"p50_us\":0.0,\"p99_us\":0.0}";
    char *want = xasprintf("{\"on_begin\":%s,\"on_done\":%s,\"later\":%s}", zero, zero, zero);
    CHECK_STR(buf_z(&out), want);
    fake_notify(&w, "later");
    CHECK_INT(gen_item_hook(gen_unit_at(u, 0))->stats.count, 1);
    free(want);
    buf_fini(&out);
    fake_close(&w);
}
