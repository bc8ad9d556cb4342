#include "base/time.h"
#include "rig.h"
#include "unit/test.h"

static const char banner[] =
    "return function(state, next)\n"
    "  local tree = next(state)\n"
    "  table.insert(tree.children, 1, {type='text', text='BANNER', size=1})\n"
    "  return tree\n"
    "end";

TEST(the_shipped_files_draw_a_screen_of_any_size)
{
    static const int sizes[][2] = {{24, 80}, {10, 40}, {50, 160}, {1, 1},
                                   {3, 200}, {60, 2},  {12, 63}};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct rig r;
        rig_open(&r, sizes[i][0], sizes[i][1]);
        CHECK(rig_build(&r));
        rig_draw(&r);
        rig_type(&r, "\x10");
        rig_type(&r, "\033");
        rig_type(&r, "?");
        rig_close(&r);
    }
}

TEST(layouts_wrap_each_other_once_however_often_they_are_built)
{
    struct rig r;
    rig_open(&r, 24, 80);
    rig_file(&r, UI_LAYOUT, banner);
    for (int i = 0; i < 5; i++) {
        CHECK(rig_build(&r));
        rig_draw(&r);
        CHECK_STR(rig_row(&r, 0), "BANNER");
        CHECK(strcmp(rig_row(&r, 1), "BANNER") != 0);
    }
    rig_close(&r);
}

static void check_fault(enum ui_kind kind, const char *text, const char *expected)
{
    struct rig r;
    rig_open(&r, 24, 80);
    CHECK(rig_build(&r));
    struct ui *before = r.t.ui;
    rig_file(&r, kind, text);
    CHECK(!rig_build(&r));
    if (strncmp(r.fault.text, expected, strlen(expected)) != 0) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not begin with \"%s\"", r.fault.text, expected);
    }
    CHECK(r.t.ui == before);
    rig_draw(&r);
    rig_close(&r);
}

TEST(a_broken_file_is_named_with_its_line_and_changes_nothing)
{
    check_fault(UI_LAYOUT, "return function() return {} end",
                "lua/user/ui/layout.lua: the layout: unknown node type ''");
    check_fault(UI_LAYOUT, "\n\nreturn function() error('no') end", "lua/user/ui/layout.lua:3: no");
    check_fault(UI_LAYOUT, "local x = = 1", "lua/user/ui/layout.lua:1: unexpected symbol near '='");
    check_fault(UI_LAYOUT, "return {}", "lua/user/ui/layout.lua: the file must return a function");
    check_fault(UI_LAYOUT, "return function(s) return {type='text', text=print} end",
                "lua/user/ui/layout.lua: value.text: a function cannot be sent");
    check_fault(UI_ACTIONS, "return {x = 1}",
                "lua/user/ui/actions.lua: action 'x' needs a function");
    check_fault(UI_KEYBINDINGS, "return {['hyper+x'] = 'quit'}",
                "lua/user/ui/keybindings.lua: there is no key 'hyper+x'");
    check_fault(UI_EVENTS, "return {['turn.started'] = 'x'}",
                "lua/user/ui/events.lua: event 'turn.started' needs a function");
    check_fault(UI_EVENTS, "return nil", "lua/user/ui/events.lua: the file must return a table");
    check_fault(UI_LAYOUT, "local f = io.open('/etc/passwd') return f",
                "lua/user/ui/layout.lua:1: ");
}

TEST(a_layout_without_an_end_is_stopped_and_named)
{
    uint64_t began = time_mono_ns();
    check_fault(UI_LAYOUT, "return function() while true do end end",
                "lua/user/ui/layout.lua:1: ran for more than 100 ms");
    check_fault(UI_LAYOUT, "return function() while true do pcall(error) end end",
                "lua/user/ui/layout.lua:1: ran for more than 100 ms");
    CHECK(time_mono_ns() - began < 10ull * 1000000000);
}

TEST(data_of_the_state_survives_a_build_and_nothing_else_does)
{
    struct rig r;
    rig_open(&r, 24, 80);
    rig_file(
        &r, UI_ACTIONS,
        "leak = (leak or 0) + 1\n"
        "afloat.g.n = (afloat.g.n or 0) + 1\n"
        "_tui_state.list = _tui_state.list or {1, 2, {deep = true}}\n"
        "_tui_state.seen = ('leak %d g %d list %d %s'):format(leak, afloat.g.n, #_tui_state.list,"
        " tostring(_tui_state.list[3].deep))\n"
        "_tui_state.fn = print\n"
        "return {}");
    for (int i = 1; i <= 3; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "leak 1 g %d list 3 true", i);
        CHECK(rig_build(&r));
        CHECK_SPAN(ui__get_str(r.t.ui, NULL, STR("seen")), expected);
    }
    rig_close(&r);
}

TEST(what_is_typed_is_in_the_state_and_stays_over_a_build)
{
    struct rig r;
    rig_open(&r, 24, 80);
    CHECK(rig_build(&r));
    rig_draw(&r);
    rig_type(&r, "i");
    rig_type(&r, "hello?");
    CHECK_SPAN(ui__get_str(r.t.ui, "input", STR("message")), "hello?");
    CHECK(rig_build(&r));
    rig_draw(&r);
    rig_type(&r, " you");
    CHECK_SPAN(ui__get_str(r.t.ui, "input", STR("message")), "hello? you");
    CHECK(strstr(rig_row(&r, 21), "> hello? you") != NULL);
    rig_close(&r);
}

TEST(a_removed_binding_gives_the_key_back)
{
    struct rig r;
    rig_open(&r, 24, 80);
    CHECK(rig_build(&r));
    rig_draw(&r);
    rig_file(&r, UI_KEYBINDINGS, "afloat.keymap.del('p') return {['Shift+F5'] = 'view.runs'}");
    CHECK(rig_build(&r));
    rig_type(&r, "p");
    CHECK(strstr(rig_row(&r, 0), "Plugins") == NULL);
    rig_type(&r, "\033[15;2~");
    CHECK(strstr(rig_row(&r, 0), "Runs of bots") != NULL);
    free(vec_pop(&r.files).path);
    CHECK(rig_build(&r));
    rig_type(&r, "p");
    CHECK(strstr(rig_row(&r, 0), "Plugins") != NULL);
    rig_close(&r);
}

TEST(thousands_of_builds_leave_nothing_behind)
{
    struct rig r;
    rig_open(&r, 24, 80);
    rig_file(&r, UI_LAYOUT, banner);
    for (int i = 0; i < test_loops(200); i++) { // a leak fails the test at its end
        CHECK(rig_build(&r));
    }
    rig_draw(&r);
    CHECK_STR(rig_row(&r, 0), "BANNER");
    rig_close(&r);
}

TEST(an_answer_that_says_the_same_again_is_no_change)
{
    struct rig r;
    struct arena a = {0};
    struct json *v;
    rig_open(&r, 5, 20);
    CHECK_INT(json_parse(&v, &a, STR("[{\"id\":\"s1\",\"title\":null}]"), NULL, NULL), 0);
    model__set(&r.t, DOC_SESSIONS, v);
    model__set(&r.t, DOC_SESSIONS, v);
    CHECK_INT(r.t.model.docs[DOC_SESSIONS].version, 1);
    arena_fini(&a);
    rig_close(&r);
}
