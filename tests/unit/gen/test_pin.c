
#include "unit/gen/fake.h"

TEST(a_pinned_generation_keeps_its_units_until_it_is_unpinned)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll", .hook = "e"});
    struct gen *old = gen_pin(fake_current(&w));
    struct gen_item *tool = gen_item_find(old, GEN_TOOL, STR("roll"));
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll", .hook = "e"});
    fake_load(&w, (struct fake_act){.what = FAKE_GONE, .name = "a"});
    CHECK(fake_tool(&w, "roll") == NULL);
    CHECK_INT(w.source[0].releases, 1); // the second version; the first is pinned
    CHECK(gen_item_find(old, GEN_TOOL, STR("roll")) == tool);
    CHECK_INT(gen_item_unit(tool)->revision, 1);
    CHECK_INT(gen_item_unit(tool)->life, GEN_DRAINING);
    CHECK(hook_set_get(gen_hooks(old), STR("e"), HOOK_OBSERVE) != NULL);
    gen_unpin(old);
    CHECK_INT(w.source[0].releases, 1); // not inside the caller
    fake_settle(&w);
    CHECK_INT(w.source[0].releases, 2);
    CHECK_INT(w.item_releases, 2);
    CHECK_INT(w.hook_releases, 2);
    fake_close(&w);
    CHECK_INT(w.source[0].releases, 2);
}

// ---- a handler that waits -----------------------------------------------------------------------

static struct hook_run *waiting;

static enum hook_answer enter_later(void *data, struct hook_run *run)
{
    (void)data;
    waiting = run;
    return HOOK_LATER;
}

static void cancel_later(void *data, struct hook_run *run)
{
    (void)data;
    CHECK(waiting == run);
    waiting = NULL;
}

static const struct hook_target later_target = {.enter = enter_later, .cancel = cancel_later};

static void on_done(struct hook_run *run, void *arg)
{
    (void)run;
    *(unsigned *)arg += 1;
}

TEST(a_suspended_handler_keeps_its_unit_alive_until_it_ends)
{
    struct fake_world w;
    struct hook_run run;
    unsigned done = 0;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a"});
    struct hook_spec spec = {
        .point = STR("e"), .kind = HOOK_OBSERVE, .terms.target = &later_target};
    CHECK_INT(gen_unit_hook(gen_at(fake_current(&w), 0), &spec, NULL, NULL), 0);
    struct hook_run_opts opts = {
        .list = hook_set_get(gen_hooks(fake_current(&w)), STR("e"), HOOK_OBSERVE),
        .loop = &w.loop,
        .may_wait = true,
        .done = on_done,
        .arg = &done,
    };
    CHECK(!hook_run_start(&run, &opts));
    fake_load(&w, (struct fake_act){.what = FAKE_GONE, .name = "a"});
    fake_settle(&w);
    CHECK_INT(w.source[0].releases, 0);
    hook_run_answer(waiting, HOOK_KEEP);
    CHECK_INT(done, 1);
    fake_settle(&w);
    CHECK_INT(w.source[0].releases, 1);
    fake_close(&w);
}

TEST(a_session_runs_its_own_units_in_its_own_order)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .hook = "e"});
    fake_load(&w, (struct fake_act){.name = "b", .hook = "e"});
    fake_load(&w, (struct fake_act){.name = "c", .hook = "e"});
    struct gen *g = gen_pin(fake_current(&w));
    struct hook_set *s = gen_hooks_of(g, (struct str[]){STR("c"), STR("none"), STR("a")}, 3);
    const struct hook_list *l = hook_set_get(s, STR("e"), HOOK_OBSERVE);
    CHECK_INT(l->n, 2);
    CHECK_STR(((struct gen_unit *)l->hooks[0]->terms.owner)->name, "c");
    CHECK_STR(((struct gen_unit *)l->hooks[1]->terms.owner)->name, "a");
    hook_set_free(s);
    gen_unpin(g);
    fake_close(&w);
}

TEST(ten_thousand_reloads_leave_everything_where_it_was)
{
    struct fake_world w;
    fake_open(&w, 1);
    size_t before = 0;
    for (unsigned i = 0; i < 10000; i++) {
        w.steps[0] = w.events[0] = '\0';
        fake_load(&w, (struct fake_act){.what = i % 7 == 3 ? FAKE_THROW : FAKE_PUT,
                                        .name = "a",
                                        .tool = "roll",
                                        .hook = "e",
                                        .message = "broken"});
        before = i == 1004 ? test_heap_bytes() : before; // as the last one: a failed load stands
    }
    unsigned versions = w.source[0].stages;
    CHECK_INT(versions, 10000);
    CHECK_INT(w.source[0].releases, versions - 1);
    CHECK_INT(w.item_releases, versions - 1);
    CHECK_INT(w.hook_releases, versions - 1);
    CHECK_INT(w.starts, w.stops + 1);
    CHECK_INT(gen_unit_count(gen_at(fake_current(&w), 0)), 2);
    CHECK(test_heap_bytes() < before + 4096); // eight bytes kept for each would be 72 KB
    fake_close(&w);
}

TEST(closing_waits_for_who_is_inside)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    struct gen *g = gen_pin(fake_current(&w));
    w.closed = false;
    fake_plan(&w.source[0], (struct fake_act){.name = "b"});
    w.source[0].slow = true;
    fake_ask(&w, &(struct gen_request){.trigger = "api", .wait_all = true});
    fake_settle(&w);
    gen_close(w.engine, NULL, NULL);
    CHECK_INT(w.refused, 1); // who waited is told
    fake_ask(&w, &(struct gen_request){.trigger = "api"});
    CHECK_INT(w.refused, 1); // and who comes too late, but not inside his call
    fake_settle(&w);
    CHECK_INT(w.refused, 2);
    CHECK_INT(w.source[0].leaves, 1);
    CHECK_INT(w.source[0].releases, 0);
    gen_unpin(g);
    fake_settle(&w);
    CHECK_INT(w.source[0].releases, 1);
    fake_ready(&w.source[0]); // the last thing it waited for
    TEST_LOOP_END(&w.loop);
}
