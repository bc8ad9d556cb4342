#include "unit/gen/fake.h"

TEST(a_loaded_unit_serves_and_its_tool_answers)
{
    struct fake_world w;
    fake_open(&w, 1);
    const struct gen_report *r = fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK(r->ok && r->committed);
    CHECK_INT(r->generation, 1);
    CHECK_INT(r->previous, 0);
    CHECK_INT(fake_row(r, "a")->state, GEN_ADDED);
    CHECK_INT(fake_row(r, "a")->revision, 1);
    CHECK(fake_tool(&w, "roll") != NULL);
    CHECK(fake_tool(&w, "a:roll") == fake_tool(&w, "roll"));
    CHECK_STR(w.steps, "load a; start; commit one; enter a");
    fake_close(&w);
}

TEST(lifecycle_calls_come_only_after_the_new_code_has_loaded_and_serves)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    w.steps[0] = '\0';
    const struct gen_report *r = fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK_INT(fake_row(r, "a")->state, GEN_CHANGED);
    CHECK_INT(fake_row(r, "a")->revision, 2);
    CHECK_STR(w.steps, "load a; stop; start; commit one; leave a; enter a; release a");
    fake_close(&w);
}

TEST(a_unit_that_fails_to_load_changes_nothing)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll", .hook = "e"});
    w.steps[0] = '\0';
    struct gen *before = fake_current(&w);
    const struct gen_item *tool = fake_tool(&w, "roll");
    const struct gen_report *r = fake_load(
        &w,
        (struct fake_act){
            .what = FAKE_THROW, .name = "a", .tool = "roll", .hook = "e", .message = "it broke"});
    CHECK_STR(w.steps, "load a; release a; commit one"); // no leave, no enter, no stop, no start
    CHECK(fake_current(&w) == before);
    CHECK(fake_tool(&w, "roll") == tool);
    CHECK_INT(fake_notify(&w, "e"), 1); // of the good version, once
    CHECK(!r->ok && !r->committed);
    CHECK_INT(r->generation, 1);
    CHECK_INT(r->previous, 1);
    const struct gen_report_row *row = fake_row(r, "a");
    CHECK_INT(row->state, GEN_FAILED);
    CHECK(row->serving);
    CHECK_INT(row->revision, 1);
    CHECK_STR(fake_diag(r, DIAG_LOAD_FAILED)->plugin, "a");
    CHECK_INT(w.item_releases, 1); // what the broken version registered is gone
    CHECK_INT(w.hook_releases, 1);
    CHECK_INT(gen_state_of(w.engine, STR("a")), GEN_FAILED);
    fake_close(&w);
}

TEST(one_bad_unit_does_not_hold_up_the_good_ones)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_plan(&w.source[0], (struct fake_act){.what = FAKE_THROW, .name = "bad", .tool = "x"});
    fake_plan(&w.source[0], (struct fake_act){.name = "good", .tool = "y"});
    const struct gen_report *r = fake_reload(&w);
    CHECK(r->committed && !r->ok);
    CHECK(fake_tool(&w, "x") == NULL);
    CHECK(fake_tool(&w, "y") != NULL);
    CHECK(!fake_row(r, "bad")->serving);
    CHECK_INT(fake_row(r, "bad")->revision, 0);
    fake_close(&w);
}

static const struct gen *probe_old;

/// The tool is there at every step, and always a whole set: both units of one run or of the other.
static void check_no_gap(struct fake_world *w)
{
    struct gen *g = fake_current(w);
    const struct gen_item *a = gen_item_find(g, GEN_TOOL, STR("roll"));
    const struct gen_item *b = gen_item_find(g, GEN_TOOL, STR("deal"));
    CHECK(a != NULL && b != NULL);
    CHECK_INT(gen_item_unit(a)->revision, gen_item_unit(b)->revision);
    CHECK(g == probe_old || gen_item_unit(a)->revision == 2);
    CHECK_INT(fake_notify(w, "e"), 2);
}

TEST(a_commit_has_no_gap_and_no_half_applied_set)
{
    struct fake_world w;
    fake_open(&w, 2);
    for (int i = 0; i < 2; i++) {
        fake_plan(&w.source[0], (struct fake_act){.name = "a", .tool = "roll", .hook = "e"});
        fake_plan(&w.source[1], (struct fake_act){.name = "b", .tool = "deal", .hook = "e"});
        if (i == 1) {
            probe_old = fake_current(&w);
            w.probe = check_no_gap; // at every load, start, stop, commit, leave, enter, event
        }
        fake_reload(&w);
    }
    CHECK_INT(gen_item_unit(fake_tool(&w, "roll"))->revision, 2);
    CHECK_INT(w.source[0].enters, 2);
    fake_close(&w);
}

TEST(a_removed_unit_goes_with_everything_it_registered)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll", .hook = "e"});
    CHECK_INT(fake_notify(&w, "e"), 1);
    const struct gen_report *r = fake_load(&w, (struct fake_act){.what = FAKE_GONE, .name = "a"});
    CHECK_INT(fake_row(r, "a")->state, GEN_REMOVED);
    CHECK(fake_tool(&w, "roll") == NULL);
    CHECK(fake_tool(&w, "a:roll") == NULL);
    CHECK_INT(fake_notify(&w, "e"), 0);
    CHECK_INT(w.source[0].releases, 1);
    CHECK_INT(w.item_releases, 1);
    CHECK_INT(w.hook_releases, 1);
    CHECK_INT(gen_state_of(w.engine, STR("a")), GEN_REMOVED);
    fake_close(&w);
}

TEST(faults_in_lifecycle_calls_are_diagnostics_and_stop_nothing)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct fake_source *s = &w.source[0];
    s->enter_fault = "start threw";
    const struct gen_report *r = fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK(r->committed);
    CHECK_STR(fake_diag(r, DIAG_START_FAILED)->message, "start threw");
    CHECK_STR(fake_diag(r, DIAG_START_FAILED)->plugin, "a");
    CHECK(fake_tool(&w, "roll") != NULL);
    s->leave_fault = "shutdown threw";
    r = fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK(r->committed);
    CHECK(fake_diag(r, DIAG_SHUTDOWN_FAILED) != NULL);
    CHECK_INT(gen_item_unit(fake_tool(&w, "roll"))->revision, 2);
    r = fake_reload(&w); // they belong to their commit and do not stand
    CHECK(fake_diag(r, DIAG_SHUTDOWN_FAILED) == NULL);
    CHECK(fake_diag(r, DIAG_START_FAILED) == NULL);
    s->leave_fault = NULL;
    fake_close(&w);
}

TEST(the_new_set_serves_while_a_lifecycle_call_takes_its_time)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct fake_source *s = &w.source[0];
    s->life_slow = true;
    fake_plan(s, (struct fake_act){.name = "a", .tool = "roll"});
    fake_ask(&w, &(struct gen_request){.trigger = "api", .wait_all = true});
    fake_settle(&w);
    CHECK(fake_tool(&w, "roll") != NULL);
    CHECK_INT(fake_count_events(&w, "generation.committed"), 1);
    CHECK_INT(w.reports, 0);
    fake_life(s);
    fake_settle(&w);
    CHECK_INT(w.reports, 1);
    s->life_slow = false;
    fake_close(&w);
}

TEST(a_dry_run_reports_and_changes_nothing)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct fake_source *s = &w.source[0];
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    w.events[0] = w.steps[0] = '\0';
    struct gen *before = fake_current(&w);
    fake_plan(s, (struct fake_act){.name = "b", .tool = "roll"});
    fake_plan(s, (struct fake_act){.what = FAKE_THROW, .name = "c", .message = "no"});
    fake_ask(&w, &(struct gen_request){.trigger = "cli", .dry_run = true});
    fake_settle(&w);
    const struct gen_report *r = gen_last_report(w.engine);
    CHECK(r->dry_run && !r->committed);
    CHECK_INT(r->generation, 1);
    CHECK_INT(fake_row(r, "b")->state, GEN_ADDED);
    CHECK_INT(fake_row(r, "c")->state, GEN_FAILED);
    CHECK(fake_diag(r, DIAG_TOOL_CONFLICT) != NULL);
    CHECK(fake_current(&w) == before);
    CHECK_STR(w.events, "");
    CHECK_INT(s->aborts, 1);
    CHECK_INT(s->commits, 1); // of the first load
    CHECK_INT(s->releases, 2);
    CHECK_INT(gen_state_of(w.engine, STR("c")), GEN_REMOVED); // nothing stands from a dry run
    fake_close(&w);
}

TEST(the_first_in_load_order_owns_the_plain_name)
{
    struct fake_world w;
    fake_open(&w, 2);
    fake_plan(&w.source[1], (struct fake_act){.name = "late", .tool = "roll"});
    fake_plan(&w.source[0], (struct fake_act){.name = "second", .tool = "roll", .order = 2});
    fake_plan(&w.source[0], (struct fake_act){.name = "first", .tool = "roll", .order = 1});
    const struct gen_report *r = fake_reload(&w);
    CHECK_STR(gen_item_unit(fake_tool(&w, "roll"))->name, "first");
    CHECK_STR(gen_item_unit(fake_tool(&w, "second:roll"))->name, "second");
    CHECK_STR(gen_item_unit(fake_tool(&w, "late:roll"))->name, "late");
    CHECK(!gen_item_is_plain(fake_current(&w), fake_tool(&w, "late:roll")));
    CHECK(r->ok); // conflicts are warnings
    CHECK_INT(r->n_diags, 2);
    CHECK_STR(r->diags[0].message, "tool 'roll' of 'second' is taken by 'first'");
    CHECK_STR(r->diags[1].message, "tool 'roll' of 'late' is taken by 'first'");
    fake_plan(&w.source[0], (struct fake_act){.what = FAKE_GONE, .name = "first"});
    r = fake_reload(&w);
    CHECK_STR(gen_item_unit(fake_tool(&w, "roll"))->name, "second");
    CHECK_INT(r->n_diags, 1);
    fake_close(&w);
}

TEST(a_unit_that_prefers_a_name_wins_it_and_both_are_named)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll", .order = 1});
    const struct gen_report *r =
        fake_load(&w, (struct fake_act){.name = "b", .tool = "roll", .order = 2, .prefer = "roll"});
    CHECK_STR(gen_item_unit(fake_tool(&w, "roll"))->name, "b");
    CHECK(fake_tool(&w, "a:roll") != NULL);
    const struct gen_diag *d = fake_diag(r, DIAG_TOOL_CONFLICT);
    CHECK(d != NULL);
    CHECK_STR(d->plugin, "a");
    CHECK(strstr(d->message, "'b'") != NULL);
    fake_close(&w);
}

TEST(a_built_in_name_is_taken_only_on_purpose)
{
    static const char *const builtins[] = {"shell", NULL};
    struct fake_world w;
    fake_open(&w, 1);
    gen_set_builtins(w.engine, builtins);
    const struct gen_report *r = fake_load(&w, (struct fake_act){.name = "a", .tool = "shell"});
    CHECK(r->ok && fake_diag(r, DIAG_BUILTIN_CONFLICT) != NULL);
    CHECK(fake_tool(&w, "shell") == NULL && fake_tool(&w, "a:shell") == NULL);
    r = fake_load(&w, (struct fake_act){.name = "a", .tool = "shell", .override = true});
    CHECK(fake_diag(r, DIAG_BUILTIN_CONFLICT) == NULL);
    CHECK(fake_tool(&w, "shell") != NULL);
    fake_close(&w);
}

TEST(an_earlier_version_may_serve_while_what_lies_there_failed)
{
    struct fake_world w;
    fake_open(&w, 1);
    const struct gen_report *r = fake_load(
        &w, (struct fake_act){.name = "a", .tool = "roll", .stands = true, .message = "broken"});
    CHECK(r->committed && !r->ok);
    CHECK(fake_tool(&w, "roll") != NULL);
    CHECK_INT(gen_state_of(w.engine, STR("a")), GEN_FAILED);
    fake_close(&w);
}

static void on_commit(const struct gen_committed *c, void *arg)
{
    char *out = arg;
    snprintf(out, 100, "%llu %s +%zu ~%zu -%zu", (unsigned long long)c->generation, c->trigger,
             c->n_added, c->n_changed, c->n_removed);
}

TEST(who_keeps_the_past_is_told_of_each_commit_and_counting_goes_on_after_a_restart)
{
    struct fake_world w;
    char told[100] = "";
    fake_open(&w, 1);
    gen_set_number(w.engine, 41);
    gen_on_commit(w.engine, on_commit, told);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK_STR(told, "42 api +1 ~0 -0");
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll", .about = "{}"});
    CHECK_STR(told, "43 api +0 ~1 -0");
    told[0] = '\0';
    fake_reload(&w);
    CHECK_STR(told, "");
    fake_load(&w, (struct fake_act){.what = FAKE_GONE, .name = "a"});
    CHECK_STR(told, "44 api +0 ~0 -1");
    fake_close(&w);
}

TEST(a_name_of_another_source_is_refused)
{
    struct fake_world w;
    fake_open(&w, 2);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    fake_plan(&w.source[1], (struct fake_act){.name = "a", .tool = "other"});
    const struct gen_report *r = fake_reload(&w);
    CHECK(!r->ok && !r->committed);
    CHECK(fake_diag(r, DIAG_NAME_DUPLICATE) != NULL);
    CHECK(fake_tool(&w, "roll") != NULL);
    CHECK(fake_tool(&w, "other") == NULL);
    fake_close(&w);
}

TEST(a_changed_unit_keeps_its_place_in_the_load_order)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a"});
    fake_load(&w, (struct fake_act){.name = "b"});
    fake_load(&w, (struct fake_act){.name = "a"});
    CHECK_STR(gen_at(fake_current(&w), 0)->name, "a");
    CHECK_STR(gen_at(fake_current(&w), 1)->name, "b");
    CHECK(gen_at(fake_current(&w), 2) == NULL);
    fake_close(&w);
}
