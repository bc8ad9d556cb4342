#include "unit/gen/fake.h"

static const struct gen_request by_watch = {.trigger = "watch"};
static const struct gen_request by_api = {.trigger = "api", .wait_all = true};

TEST(ten_requests_during_a_run_are_one_more_run)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct fake_source *s = &w.source[0];
    s->slow = true;
    fake_ask(&w, &by_api);
    fake_settle(&w);
    CHECK_INT(s->prepares, 1);
    for (int i = 0; i < 10; i++) {
        fake_ask(&w, &by_api);
    }
    fake_settle(&w);
    CHECK_INT(s->prepares, 1); // single-flight
    fake_ready(s);
    fake_settle(&w);
    CHECK_INT(w.reports, 1); // the run that had begun covers nobody else
    CHECK_INT(s->prepares, 2);
    fake_ready(s);
    fake_settle(&w);
    CHECK_INT(w.reports, 11);
    CHECK_INT(s->prepares, 2);
    s->slow = false;
    fake_close(&w);
}

TEST(requests_of_one_turn_are_one_run)
{
    struct fake_world w;
    fake_open(&w, 1);
    for (int i = 0; i < 5; i++) {
        fake_ask(&w, &by_watch);
    }
    CHECK_INT(w.reports, 0); // never inside gen_request()
    fake_settle(&w);
    CHECK_INT(w.reports, 5);
    CHECK_INT(w.source[0].prepares, 1);
    fake_close(&w);
}

TEST(names_of_folded_requests_are_put_together)
{
    struct fake_world w;
    const struct str a[] = {STR("a"), STR("b")}, b[] = {STR("b"), STR("c")};
    struct gen_request first = by_api, second = by_api;
    first.names = a;
    second.names = b;
    first.n_names = second.n_names = 2;
    fake_open(&w, 1);
    fake_ask(&w, &first);
    fake_ask(&w, &second);
    fake_settle(&w);
    CHECK_INT(w.source[0].prepares, 1);
    CHECK_INT(w.source[0].seen_names, 3);
    fake_ask(&w, &first);
    fake_ask(&w, &by_api); // all
    fake_settle(&w);
    CHECK_INT(w.source[0].seen_names, 0);
    fake_close(&w);
}

TEST(a_forced_and_a_dry_run_are_runs_of_their_own)
{
    struct fake_world w;
    struct gen_request force = by_api, dry = by_api;
    force.force = true;
    dry.dry_run = true;
    fake_open(&w, 1);
    fake_ask(&w, &by_api);
    fake_ask(&w, &force);
    fake_ask(&w, &dry);
    fake_settle(&w);
    CHECK_INT(w.reports, 3);
    CHECK_INT(w.source[0].prepares, 3);
    fake_close(&w);
}

TEST(nothing_changed_is_no_event_no_call_and_the_same_generation)
{
    struct fake_world w;
    fake_open(&w, 2);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    struct gen *before = fake_current(&w);
    w.events[0] = w.steps[0] = '\0';
    const struct gen_report *r = fake_reload(&w);
    CHECK(r->ok && !r->committed);
    CHECK_INT(r->generation, 1);
    CHECK_INT(r->kept, 1);
    CHECK_INT(r->n_rows, 0);
    CHECK(fake_current(&w) == before);
    CHECK_STR(w.events, "");
    CHECK_STR(w.steps, "");
    fake_close(&w);
}

TEST(a_slow_source_does_not_delay_a_fast_one)
{
    struct fake_world w;
    fake_open(&w, 2);
    struct fake_source *fast = &w.source[0], *slow = &w.source[1];
    slow->slow = true;
    fake_plan(fast, (struct fake_act){.name = "a", .tool = "roll"});
    fake_plan(slow, (struct fake_act){.name = "b", .tool = "deal"});
    fake_ask(&w, &by_watch);
    fake_settle(&w);
    CHECK_INT(w.reports, 1);
    CHECK(fake_tool(&w, "roll") != NULL);
    CHECK(fake_tool(&w, "deal") == NULL);
    // another save, still while the slow one prepares
    fake_plan(fast, (struct fake_act){.name = "c", .tool = "draw"});
    fake_ask(&w, &by_watch);
    fake_settle(&w);
    CHECK_INT(w.reports, 2);
    CHECK(fake_tool(&w, "draw") != NULL);
    CHECK_INT(slow->prepares, 1);
    // it joins a run of its own, without being asked
    fake_ready(slow);
    fake_settle(&w);
    CHECK(fake_tool(&w, "deal") != NULL);
    CHECK_INT(slow->prepares, 2); // what changed since it began is looked at too
    fake_ready(slow);
    fake_settle(&w);
    CHECK(!gen_is_running(w.engine));
    CHECK_INT(slow->prepares, 2);
    slow->slow = false;
    fake_close(&w);
}

TEST(a_source_with_nothing_to_say_does_not_end_a_run_of_the_watcher)
{
    struct fake_world w;
    fake_open(&w, 2);
    struct fake_source *s = &w.source[1];
    s->slow = true;
    fake_plan(s, (struct fake_act){.name = "b", .tool = "deal"});
    fake_ask(&w, &by_watch);
    fake_settle(&w);
    CHECK_INT(w.reports, 0);
    fake_ready(s);
    fake_settle(&w);
    CHECK_INT(w.reports, 1);
    CHECK(gen_last_report(w.engine)->committed);
    s->slow = false;
    fake_close(&w);
}

TEST(a_requested_run_waits_for_all_and_commits_once)
{
    struct fake_world w;
    fake_open(&w, 2);
    struct fake_source *slow = &w.source[1];
    slow->slow = true;
    fake_plan(&w.source[0], (struct fake_act){.name = "a", .tool = "roll"});
    fake_plan(slow, (struct fake_act){.name = "b", .tool = "deal"});
    fake_ask(&w, &by_api);
    fake_settle(&w);
    CHECK_INT(w.reports, 0);
    CHECK(fake_tool(&w, "roll") == NULL);
    fake_ready(slow);
    fake_settle(&w);
    CHECK_INT(w.reports, 1);
    const struct gen_report *r = gen_last_report(w.engine);
    CHECK_INT(r->generation, 1);
    CHECK_STR(r->trigger, "api");
    CHECK_INT(fake_row(r, "a")->state, GEN_ADDED);
    CHECK_INT(fake_row(r, "b")->state, GEN_ADDED);
    slow->slow = false;
    fake_close(&w);
}

TEST(a_request_is_not_covered_by_what_was_found_before_it)
{
    struct fake_world w;
    fake_open(&w, 2);
    struct fake_source *slow = &w.source[1];
    slow->slow = true;
    fake_plan(&w.source[0], (struct fake_act){.name = "a"});
    fake_ask(&w, &by_watch);
    fake_settle(&w); // the slow source is left behind, preparing
    fake_ask(&w, &by_api);
    fake_settle(&w);
    fake_ready(slow); // of the first run
    fake_settle(&w);
    CHECK_INT(w.reports, 1);
    CHECK_INT(slow->prepares, 2);
    fake_ready(slow);
    fake_settle(&w);
    CHECK_INT(w.reports, 2);
    slow->slow = false;
    fake_close(&w);
}

TEST(what_a_slow_source_found_survives_a_dry_run)
{
    struct fake_world w;
    fake_open(&w, 2);
    struct fake_source *slow = &w.source[1];
    slow->slow = true;
    fake_plan(&w.source[0], (struct fake_act){.name = "a"});
    fake_plan(slow, (struct fake_act){.name = "b", .tool = "deal"});
    fake_ask(&w, &by_watch);
    fake_settle(&w);
    slow->slow = false;
    fake_ask(&w, &(struct gen_request){.trigger = "cli", .dry_run = true});
    fake_settle(&w);
    fake_ready(slow); // prepares again for the dry run, which ends; then its own run
    fake_settle(&w);
    CHECK_INT(slow->aborts, 1);
    CHECK(fake_tool(&w, "deal") != NULL);
    fake_close(&w);
}

TEST(who_waits_gives_a_folded_run_its_name)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_ask(&w, &by_watch);
    fake_ask(&w, &by_api);
    fake_settle(&w);
    CHECK_STR(gen_last_report(w.engine)->trigger, "api");
    CHECK_INT(w.reports, 2);
    fake_close(&w);
}

static void ask_again(const struct gen_report *r, void *arg)
{
    struct fake_world *w = arg;
    if (r != NULL && w->source[0].prepares < 3) {
        gen_request(w->engine, &by_api, ask_again, w);
    }
}

TEST(a_caller_may_ask_again_inside_his_answer)
{
    struct fake_world w;
    fake_open(&w, 1);
    gen_request(w.engine, &by_api, ask_again, &w);
    fake_settle(&w);
    CHECK_INT(w.source[0].prepares, 3);
    fake_close(&w);
}

TEST(a_unit_that_leaves_slowly_holds_no_other_run_up)
{
    struct fake_world w;
    fake_open(&w, 2);
    struct fake_source *slow = &w.source[0];
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    slow->life_slow = true;
    fake_plan(slow, (struct fake_act){.name = "a", .tool = "roll"});
    fake_ask(&w, &by_api);
    fake_settle(&w);
    unsigned before = w.reports;
    CHECK(slow->call != NULL); // it is told that it leaves, and takes its time
    fake_plan(&w.source[1], (struct fake_act){.name = "b", .tool = "deal"});
    fake_ask(&w, &by_api);
    fake_settle(&w);
    CHECK(fake_tool(&w, "deal") != NULL);
    CHECK_INT(w.reports, before + 1);
    uint64_t newest = gen_last_report(w.engine)->generation;
    fake_life(slow);
    fake_life(slow); // and that the next one has come
    fake_settle(&w);
    CHECK_INT(w.reports, before + 2); // who asked for it is told in the end
    CHECK_INT(gen_last_report(w.engine)->generation, newest);
    slow->life_slow = false;
    fake_close(&w);
}

TEST(a_version_that_was_never_told_that_it_came_is_not_told_that_it_leaves)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct fake_source *s = &w.source[0];
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    s->life_slow = true;
    fake_plan(s, (struct fake_act){.name = "a", .tool = "roll"});
    fake_ask(&w, &by_api);
    fake_settle(&w); // the first one leaves slowly
    s->life_slow = false;
    fake_plan(s, (struct fake_act){.name = "a", .tool = "roll"});
    fake_ask(&w, &by_api);
    fake_settle(&w); // so the second one is replaced before it came
    CHECK_INT(s->leaves, 1);
    CHECK_INT(s->enters, 2);
    fake_life(s);
    fake_settle(&w);
    CHECK_INT(s->enters, 2);
    fake_close(&w);
}

static void close_now(const struct gen_report *r, void *arg)
{
    struct fake_world *w = arg;
    CHECK(r != NULL);
    gen_close(w->engine, NULL, NULL);
}

TEST(the_engine_may_be_closed_inside_an_answer)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_plan(&w.source[0], (struct fake_act){.name = "a", .tool = "roll"});
    gen_request(w.engine, &by_api, close_now, &w);
    fake_settle(&w);
    CHECK_INT(w.source[0].leaves, 1);
    CHECK_INT(w.source[0].releases, 1);
    TEST_LOOP_END(&w.loop);
}
