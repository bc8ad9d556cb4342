#include "rig.h"
#include "unit/test.h"

// Draw a tree that a layout gives as Lua text.
static void show(struct rig *r, int rows, int cols, const char *tree)
{
    static char text[4096];
    snprintf(text, sizeof text, "return function(state) return %s end", tree);
    rig_open(r, rows, cols);
    rig_file(r, UI_LAYOUT, text);
    if (!rig_build(r)) {
        test_fail(__FILE__, __LINE__, "%s", r->fault.text);
    }
    rig_draw(r);
}

TEST(text_wraps_between_words_and_cuts_what_is_too_long)
{
    struct rig r;
    show(
        &r, 6, 10,
        "{type='text', text={'one two ', {text='three', style='bold'}, ' abcdefghijklmno\\nend'}}");
    CHECK_STR(rig_row(&r, 0), "one two");
    CHECK_STR(rig_row(&r, 1), "three");
    CHECK_STR(rig_row(&r, 2), "abcdefghij");
    CHECK_STR(rig_row(&r, 3), "klmno");
    CHECK_STR(rig_row(&r, 4), "end");
    CHECK_INT(cells_at(&r.t.screen.next, 1, 0)->style.attrs, STYLE_BOLD);
    rig_close(&r);
}

TEST(rows_of_a_text_are_those_that_it_takes)
{
    struct rig r;
    show(&r, 6, 10,
         "{type='text', text=table.concat({afloat.rows('', 9), afloat.rows('one two three', 8), "
         "afloat.rows('\\u{6F22}\\u{6F22}\\u{6F22}', 4), afloat.rows('a\\nb', 0)}, ' ')}");
    CHECK_STR(rig_row(&r, 0), "1 2 2 2");
    rig_close(&r);
}

TEST(every_node_may_have_a_border)
{
    struct rig r;
    show(&r, 12, 12,
         "{type='column', children={{type='text', text='one', border=true, size=3},"
         "{type='list', id='l', items={'two'}, border=true, size=3},"
         "{type='input', id='i', placeholder='three', border=true, size=3},"
         "{type='row', border=true, size=3, children={{type='text', text='four'}}}}}");
    CHECK_STR(rig_row(&r, 0), "╭──────────╮");
    CHECK_STR(rig_row(&r, 1), "│one       │");
    CHECK_STR(rig_row(&r, 2), "╰──────────╯");
    CHECK_STR(rig_row(&r, 4), "│two       │");
    CHECK_STR(rig_row(&r, 7), "│  three   │");
    CHECK_STR(rig_row(&r, 10), "│four      │");
    rig_close(&r);
}

TEST(a_list_keeps_its_choice_by_id)
{
    struct rig r;
    show(&r, 3, 20,
         "{type='list', id='l', items=state.tui.turned and "
         "{{id='c',text='C'},{id='b',text='B'},{id='a',text='A'},"
         "{id='d',text='D'}} or "
         "{{id='a',text='A'},{id='b',text='B',secondary='more'},{id='c',text='C'},{id='d',text='D'}"
         "}}");
    CHECK_STR(rig_row(&r, 1), "B               more");
    rig_type(&r, "\033[B");
    CHECK_SPAN(ui__get_str(r.t.ui, "selected", STR("l")), "b");
    rig_type(&r, "\033[F");
    CHECK_SPAN(ui__get_str(r.t.ui, "selected", STR("l")), "d");
    CHECK_STR(rig_row(&r, 2), "D"); // scrolled into view
    ui__set_int(r.t.ui, NULL, STR("turned"), 1);
    rig_draw(&r);
    CHECK((cells_at(&r.t.screen.next, 2, 0)->style.attrs & STYLE_REVERSE) != 0);
    CHECK_STR(rig_row(&r, 2), "D");
    rig_close(&r);
}

TEST(a_table_is_as_wide_as_what_is_in_it)
{
    struct rig r;
    show(&r, 4, 30,
         "{type='table', columns={'a','bb',''}, rows={{'1','2','rest of it'},{'100','x','y'}}}");
    CHECK_STR(rig_row(&r, 0), "a    bb");
    CHECK_STR(rig_row(&r, 1), "1    2   rest of it");
    CHECK_STR(rig_row(&r, 2), "100  x   y");
    rig_close(&r);
}

TEST(a_palette_shows_what_fits_every_word_best_first)
{
    struct rig r;
    show(&r, 5, 40,
         "{type='palette', id='p', items={{id='1',text='show plugin'},{id='2',text='plugin add'},"
         "{id='3',text='other',secondary='a plugin too'},{id='4',text='none'}}}");
    rig_type(&r, "PLUG");
    CHECK_STR(rig_row(&r, 0), "> PLUG");
    CHECK_STR(rig_row(&r, 1), "plugin add");
    CHECK_STR(rig_row(&r, 2), "show plugin");
    CHECK(strncmp(rig_row(&r, 3), "other", 5) == 0);
    rig_type(&r, " show");
    CHECK_STR(rig_row(&r, 1), "show plugin");
    CHECK_STR(rig_row(&r, 2), "");
    rig_close(&r);
}

TEST(text_from_outside_cannot_command_the_terminal)
{
    struct rig r;
    show(&r, 4, 40,
         "{type='column', children={{type='text', text='a\\27[2Jb\\27]0;x\\7c'},"
         "{type='list', items={'x\\27[1;1Hy\\r\\nz'}}, {type='status', left='\\27[?1049l'}}}");
    for (int row = 0; row < 4; row++) {
        for (int col = 0; col < 40; col++) {
            const struct term_cell *c = cells_at(&r.t.screen.next, row, col);
            for (int i = 0; i < c->n; i++) {
                CHECK((unsigned char)c->text[i] >= ' ' && c->text[i] != 0x7F);
            }
        }
    }
    rig_close(&r);
}

TEST(tab_goes_round_and_a_popup_keeps_it_inside)
{
    struct rig r;
    show(&r, 10, 40,
         "{type='column', children={{type='list',id='a',items={'x'}},{type='input',id='b'},"
         "state.tui.up and {type='popup',child={type='list',id='c',items={'y'}}} or "
         "{type='list',id='d',items={'z'}}}}");
    const char *order[] = {"b", "d", "a", "b"};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        rig_type(&r, "\t");
        CHECK_SPAN(input__focused(&r.t)->id, order[i]);
    }
    rig_type(&r, "\033[Z");
    CHECK_SPAN(input__focused(&r.t)->id, "a");
    ui__set_int(r.t.ui, NULL, STR("up"), 1);
    rig_draw(&r);
    CHECK_SPAN(input__focused(&r.t)->id, "c");
    rig_type(&r, "\t");
    CHECK_SPAN(input__focused(&r.t)->id, "c");
    rig_close(&r);
}

// What is typed into a terminal is what the program reads.
static void check_bytes(const struct key *k, bool application)
{
    struct keys keys = {0};
    struct key read = {.code = KEY_OTHER};
    struct buf bytes;
    buf_init(&bytes, 64);
    terminal__add_key(&bytes, k, application, false);
    struct str rest = buf_str(&bytes);
    bool whole = keys_next(&keys, &rest, &read);
    if (!whole) {
        CHECK(keys_waits(&keys));
        keys_timeout(&keys, &read);
    }
    CHECK_INT(read.code, k->code);
    CHECK_INT(read.mods, k->mods);
    CHECK_INT(read.cp, k->cp);
    CHECK_INT(rest.n, 0);
    buf_fini(&bytes);
}

TEST(a_mouse_for_a_terminal_is_read_as_that_mouse)
{
    for (unsigned mods = 0; mods < 8; mods++) {
        for (int kind = MOUSE_PRESS; kind <= MOUSE_DOWN; kind++) {
            bool wheel = kind == MOUSE_UP || kind == MOUSE_DOWN;
            int from = wheel || kind == MOUSE_MOVE ? 0 : 1;
            for (int button = from; button <= (from == 0 ? 0 : 3); button++) {
                struct key k = {.code = KEY_MOUSE,
                                .mods = mods,
                                .mouse = {.kind = (enum mouse_kind)kind, .button = button}};
                struct keys keys = {0};
                struct key read = {0};
                struct buf bytes = {.max = 64};
                terminal__add_mouse(&bytes, &k, 299, 4, true);
                struct str rest = buf_str(&bytes);
                CHECK(keys_next(&keys, &rest, &read));
                CHECK_INT(read.code, KEY_MOUSE);
                CHECK_INT(read.mods, mods);
                CHECK_INT(read.mouse.kind, kind);
                CHECK_INT(read.mouse.button, button);
                CHECK_INT(read.mouse.row, 299);
                CHECK_INT(read.mouse.col, 4);
                buf_fini(&bytes);
            }
        }
    }
    static const struct {
        struct key k;
        const char *old; // the form without SGR
    } rows[] = {
        {{.mouse = {.kind = MOUSE_PRESS, .button = 1}}, "\033[M !!"},
        {{.mods = KEY_CTRL, .mouse = {.kind = MOUSE_DRAG, .button = 3}}, "\033[MR!!"},
        {{.mouse = {.kind = MOUSE_RELEASE, .button = 3}}, "\033[M#!!"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf bytes = {.max = 64};
        terminal__add_mouse(&bytes, &rows[i].k, 0, 0, false);
        CHECK_STR(buf_z(&bytes), rows[i].old);
        bytes.n = 0;
        terminal__add_mouse(&bytes, &rows[i].k, 0, 300, false);
        CHECK_INT(bytes.n, 0); // the old form cannot say that
        buf_fini(&bytes);
    }
}

TEST(a_key_for_a_terminal_is_read_as_that_key)
{
    static const enum key_code moves[] = {KEY_UP,     KEY_DOWN,   KEY_RIGHT,   KEY_LEFT,
                                          KEY_HOME,   KEY_END,    KEY_PAGE_UP, KEY_PAGE_DOWN,
                                          KEY_INSERT, KEY_DELETE, KEY_FUNCTION};
    static const enum key_code plain[] = {KEY_ENTER, KEY_TAB, KEY_BACKSPACE, KEY_ESC};
    for (unsigned mods = 0; mods < 8; mods++) {
        for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
            for (uint32_t f = 1; f <= (moves[i] == KEY_FUNCTION ? 12 : 1); f++) {
                struct key k = {
                    .code = moves[i], .mods = mods, .cp = moves[i] == KEY_FUNCTION ? f : 0};
                check_bytes(&k, false);
                check_bytes(&k, true);
            }
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        check_bytes(&(struct key){.code = plain[i]}, false);
    }
    for (uint32_t cp = 'a'; cp <= 'z'; cp++) {
        check_bytes(&(struct key){.code = KEY_CHAR, .cp = cp}, false);
        check_bytes(&(struct key){.code = KEY_CHAR, .cp = cp, .mods = KEY_ALT}, false);
        if (strchr("hijm", (int)cp) == NULL) { // these are backspace, tab and Enter
            check_bytes(&(struct key){.code = KEY_CHAR, .cp = cp, .mods = KEY_CTRL}, false);
        }
    }
    check_bytes(&(struct key){.code = KEY_CHAR, .cp = 0x6F22}, false);
}

TEST(an_id_may_have_any_length)
{
    struct rig r;
    char *layout = xasprintf("{type='text', id='%0100d', scroll=true, text='1\\n2\\n3\\n4'}", 0);
    show(&r, 2, 10, layout);
    rig_draw(&r);
    CHECK_INT(r.t.kept.n, 1);
    rig_type(&r, "\033[B");
    CHECK_STR(rig_row(&r, 0), "2");
    rig_close(&r);
    free(layout);
}

TEST(text_from_outside_is_shown_and_commands_nothing)
{
    struct rig r;
    show(&r, 6, 60,
         "{type='column', children={{type='text', size=1, text='ls \\27[30;40mrm\\27[0m "
         "\\u{202E}x'},"
         "{type='list', id='l', size=1, items={{text='a\\27[8mb', secondary='\\7', mark='\\27'}}},"
         "{type='table', size=2, columns={'\\27[1m'}, rows={{'c\\0d'}}},"
         "{type='input', id='i', size=1, placeholder='\\u{200B}p'},"
         "{type='status', left='\\27[31ms', right='\\27'}}}");
    CHECK_STR(rig_row(&r, 0), "ls \\x1b[30;40mrm\\x1b[0m \\u202ex");
    CHECK_STR(rig_row(&r, 1), "\\x1b a\\x1b[8mb                                          \\x07");
    CHECK_STR(rig_row(&r, 2), "\\x1b[1m");
    CHECK_STR(rig_row(&r, 3), "c\\x00d");
    CHECK_STR(rig_row(&r, 4), "> \\u200bp");
    CHECK_STR(rig_row(&r, 5), " \\x1b[31ms                                             \\x1b");
    rig_close(&r);
}

// A message of the user's comes to the open session.
static void hear(struct rig *r, int n)
{
    struct talk *k = &r->t.talk;
    char *data = xasprintf(
        "{\"type\": \"message.completed\", \"role\": \"user\", \"text\": \"said %d\"}", n);
    vec_push(&k->events, ((struct talk_event){data, false}));
    k->bytes += strlen(data);
    rig_draw(r);
}

TEST(a_conversation_that_is_scrolled_back_stays_where_it_is_read)
{
    struct rig r;
    show(&r, 5, 20, "{type='conversation', id='c'}");
    for (int i = 0; i < 20; i++) {
        hear(&r, i);
    }
    CHECK_STR(rig_row(&r, 4), "> said 19");
    rig_type(&r, "\033[5~"); // a page up
    CHECK_STR(rig_row(&r, 0), "> said 11");
    hear(&r, 20);
    hear(&r, 21);
    CHECK_STR(rig_row(&r, 0), "> said 11");
    rig_type(&r, "\033[F");
    CHECK_STR(rig_row(&r, 4), "> said 21");
    hear(&r, 22);
    CHECK_STR(rig_row(&r, 4), "> said 22"); // at its end it follows what comes
    rig_close(&r);
}
