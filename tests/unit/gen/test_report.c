#include "unit/gen/fake.h"

TEST(a_problem_stands_in_every_report_until_it_is_mended)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    const struct fake_act broken = {.what = FAKE_THROW, .name = "a", .message = "no"};
    fake_load(&w, broken);
    CHECK_INT(fake_count_events(&w, "plugin.error"), 1);
    const struct gen_report *r = fake_load(&w, (struct fake_act){.name = "b"});
    CHECK(r->committed && !r->ok);
    CHECK_INT(fake_row(r, "a")->state, GEN_FAILED);
    CHECK(fake_row(r, "a")->serving);
    CHECK_STR(fake_diag(r, DIAG_LOAD_FAILED)->message, "no");
    r = fake_load(&w, broken);
    CHECK_INT(fake_count_events(&w, "plugin.error"), 1); // not told again
    r = fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK(r->ok);
    CHECK_INT(fake_row(r, "a")->state, GEN_CHANGED);
    CHECK_INT(r->n_diags, 0);
    fake_close(&w);
}

TEST(a_file_put_back_as_it_was_mends_without_a_generation)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a"});
    fake_load(&w, (struct fake_act){.what = FAKE_THROW, .name = "a", .message = "no"});
    const struct gen_report *r = fake_load(&w, (struct fake_act){.what = FAKE_CLEAR, .name = "a"});
    CHECK(r->ok && !r->committed);
    CHECK_INT(r->generation, 1);
    CHECK_INT(gen_state_of(w.engine, STR("a")), GEN_LOADED);
    fake_close(&w);
}

TEST(a_unit_that_is_removed_and_refused_does_not_serve_and_is_listed)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    fake_plan(&w.source[0], (struct fake_act){.what = FAKE_GONE, .name = "a"});
    fake_plan(&w.source[0],
              (struct fake_act){.what = FAKE_REFUSE, .name = "a", .state = GEN_DISABLED});
    const struct gen_report *r = fake_reload(&w);
    CHECK(r->committed);
    CHECK(fake_tool(&w, "roll") == NULL);
    CHECK_INT(r->n_rows, 1);
    CHECK_INT(fake_row(r, "a")->state, GEN_DISABLED);
    CHECK(!fake_row(r, "a")->serving);
    CHECK_INT(gen_state_of(w.engine, STR("a")), GEN_DISABLED);
    r = fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK_INT(fake_row(r, "a")->state, GEN_ADDED);
    fake_close(&w);
}

TEST(a_need_stands_with_its_refusal)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.what = FAKE_REFUSE,
                                    .name = "lua:hub.state",
                                    .state = GEN_KEPT,
                                    .message = "protected",
                                    .need = "it is protected"});
    const struct gen_report *r = fake_reload(&w);
    CHECK(r->ok); // PROTECTED is a warning
    CHECK_INT(r->n_rows, 0);
    CHECK_INT(r->n_needs, 1);
    CHECK_STR(r->needs[0].plugin, "lua:hub.state");
    CHECK_INT(r->needs[0].kind, GEN_HUB_RESTART);
    CHECK_INT(fake_count_events(&w, "plugin.needs"), 1);
    r = fake_load(&w, (struct fake_act){.what = FAKE_CLEAR, .name = "lua:hub.state"});
    CHECK_INT(r->n_needs, 0);
    r = fake_load(&w, (struct fake_act){.name = "p", .need = "its provider changed"});
    CHECK_INT(r->n_needs, 1); // of a change: this report only
    r = fake_reload(&w);
    CHECK_INT(r->n_needs, 0);
    fake_close(&w);
}

TEST(the_json_is_the_object_of_the_contract)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "b", .tool = "roll"});
    fake_load(&w, (struct fake_act){.name = "k"});
    fake_plan(&w.source[0], (struct fake_act){.name = "a"});
    fake_plan(&w.source[0], (struct fake_act){.name = "b", .tool = "roll"});
    fake_plan(&w.source[0], (struct fake_act){.what = FAKE_GONE, .name = "x"});
    fake_plan(
        &w.source[0],
        (struct fake_act){.what = FAKE_THROW, .name = "c", .message = "bad \"x\"", .need = "y"});
    struct gen_report r = *fake_reload(&w);
    r.duration_us = 1830; // the only thing that a clock made
    struct buf out;
    struct jw jw;
    buf_init(&out, SIZE_MAX);
    jw_init(&jw, &out);
    gen_report_write(&r, &jw);
    CHECK_STR(
        buf_z(&out),
        "{\"ok\":false,\"generation\":3,\"previous\":2,\"trigger\":\"api\",\"duration_us\":1830,"
        "\"dry_run\":false,\"added\":[\"a\"],\"changed\":[\"b\"],\"removed\":[],\"kept\":1,"
        "\"failed\":[\"c\"],\"plugins\":["
        "{\"name\":\"b\",\"state\":\"changed\",\"revision\":2,\"serving\":true},"
        "{\"name\":\"a\",\"state\":\"added\",\"revision\":1,\"serving\":true},"
        "{\"name\":\"c\",\"state\":\"failed\",\"revision\":0,\"serving\":false}],"
        "\"diagnostics\":[{\"code\":\"LOAD_FAILED\",\"severity\":\"error\",\"plugin\":\"c\","
        "\"source\":\"server\",\"line\":7,\"message\":\"bad \\\"x\\\"\"}],"
        "\"needs\":[{\"plugin\":\"c\",\"kind\":\"hub-restart\",\"reason\":\"y\"}]}");
    buf_fini(&out);
    fake_close(&w);
}

TEST(events_of_a_commit_are_told_once_and_in_order)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    CHECK_STR(w.events, "generation.committed {\"generation\":1,\"previous\":0,\"trigger\":\"api\","
                        "\"added\":[\"a\"],\"changed\":[],\"removed\":[]}\n"
                        "plugin.loaded {\"plugin\":\"a\",\"revision\":1,\"generation\":1}\n"
                        "tools.changed {\"generation\":1}\n");
    w.events[0] = '\0';
    fake_load(&w, (struct fake_act){.what = FAKE_GONE, .name = "a"});
    CHECK_INT(fake_count_events(&w, "plugin.unloaded"), 1);
    CHECK_INT(fake_count_events(&w, "tools.changed"), 1);
    fake_close(&w);
}

TEST(a_second_tool_of_a_name_changes_the_list)
{
    struct fake_world w;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a", .tool = "roll"});
    w.events[0] = '\0';
    fake_load(&w, (struct fake_act){.name = "b", .tool = "roll"}); // listed as b:roll
    CHECK_INT(fake_count_events(&w, "tools.changed"), 1);
    fake_load(&w, (struct fake_act){.what = FAKE_GONE, .name = "a"}); // b's is the plain one now
    CHECK_INT(fake_count_events(&w, "tools.changed"), 2);
    fake_close(&w);
}

TEST(tools_changed_is_told_only_when_tools_really_changed)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct fake_act act = {.name = "a", .tool = "roll", .about = "rolls a die"};
    fake_load(&w, act);
    w.events[0] = '\0';
    fake_load(&w, act); // new code, the same tool for who looks at it
    CHECK_INT(fake_count_events(&w, "plugin.changed"), 1);
    CHECK_INT(fake_count_events(&w, "tools.changed"), 0);
    act.about = "rolls two dice";
    fake_load(&w, act);
    CHECK_INT(fake_count_events(&w, "tools.changed"), 1);
    fake_plan(&w.source[0], (struct fake_act){.name = "b", .tool = "x"});
    fake_plan(&w.source[0], (struct fake_act){.name = "c", .tool = "y"});
    fake_reload(&w);
    CHECK_INT(fake_count_events(&w, "tools.changed"), 2); // once for the commit
    fake_close(&w);
}

static enum hook_answer enter_badly(void *data, struct hook_run *run)
{
    const enum hook_answer *answer = data;
    hook_run_fault(run, "a.lua", 12, "boom");
    return *answer;
}

static const struct hook_target bad_target = {.enter = enter_badly};

TEST(faults_of_hooks_are_notes_of_their_unit_and_three_time_outs_disable)
{
    struct fake_world w;
    enum hook_answer answer = HOOK_FAILED;
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a"});
    struct hook_spec spec = {
        .point = STR("e"), .kind = HOOK_OBSERVE, .terms = {.target = &bad_target, .data = &answer}};
    CHECK_INT(gen_unit_hook(gen_at(fake_current(&w), 0), &spec, NULL, NULL), 0);
    w.events[0] = '\0';
    fake_notify(&w, "e");
    fake_notify(&w, "e");
    CHECK_INT(fake_count_events(&w, "plugin.error"), 1); // the same is told once
    const struct gen_report *r = fake_reload(&w);
    const struct gen_diag *d = fake_diag(r, DIAG_HOOK_FAILED);
    CHECK_STR(d->plugin, "a");
    CHECK_STR(d->path, "a.lua");
    CHECK_INT(d->line, 12);
    CHECK_STR(d->message, "hook 'e': boom");
    answer = HOOK_TIMEOUT;
    for (int i = 0; i < 4; i++) {
        fake_notify(&w, "e");
    }
    r = fake_reload(&w);
    CHECK(fake_diag(r, DIAG_HOOK_TIMEOUT) != NULL);
    CHECK(fake_diag(r, DIAG_HOOK_DISABLED) != NULL);
    CHECK(!r->ok);
    r = fake_load(&w, (struct fake_act){.name = "a"}); // until its plugin changes
    CHECK_INT(r->n_diags, 0);
    fake_close(&w);
}

TEST(a_warning_of_the_hub_stands_until_it_is_taken_back)
{
    struct fake_world w;
    fake_open(&w, 1);
    struct gen_diag d = {.code = DIAG_WATCH_DEGRADED, .path = "/mnt", .message = "sweeping"};
    gen_warn(w.engine, &d);
    gen_warn(w.engine, &d);
    CHECK_INT(fake_count_events(&w, "plugin.error"), 1);
    const struct gen_report *r = fake_reload(&w);
    CHECK(r->ok);
    CHECK_INT(r->n_diags, 1);
    CHECK_STR(r->diags[0].source, "hub");
    gen_unwarn(w.engine, DIAG_WATCH_DEGRADED, "/mnt");
    CHECK_INT(fake_reload(&w)->n_diags, 0);
    fake_close(&w);
}

TEST(every_code_has_its_name_and_can_be_read_back)
{
    for (int i = 0; i < DIAG__COUNT; i++) {
        enum gen_code code;
        CHECK(gen_code_parse(str_of(gen_code_name((enum gen_code)i)), &code));
        CHECK_INT(code, i);
    }
    enum gen_code code;
    CHECK(!gen_code_parse(STR("NOT_A_CODE"), &code));
    CHECK_STR(gen_code_name(DIAG_LOAD_FAILED), "LOAD_FAILED");
    CHECK_INT(gen_code_severity(DIAG_TOOL_CONFLICT), DIAG_WARNING);
    CHECK_INT(gen_code_severity(DIAG_NAME_DUPLICATE), DIAG_ERROR);
    CHECK_STR(gen_reason_name(GEN_STOP), "stop");
    CHECK_STR(gen_kind_name(GEN_TOOL), "tool");
}
