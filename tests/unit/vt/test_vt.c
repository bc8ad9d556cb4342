#include <vterm.h>

#include "base/time.h"
#include "unit/test.h"
#include "unit/vt/screen.h"

static void feed(struct vt *v, const char *text)
{
    vt_feed(v, str_of(text), NULL);
}

TEST(text_lands_in_cells_with_its_style)
{
    struct vt *v = vt_new(4, 10, 0, NULL, NULL);
    feed(v, "ab\033[1;31mc\033[0;2;48;5;99md\033[38;2;1;2;3;4:3me\033[m");
    CHECK_STR(screen_row(v, 0), "abcde");
    const struct vt_cell *c = vt_row(v, 0);
    CHECK_INT(c[0].attrs | c[0].fg | c[0].bg, 0);
    CHECK_INT(c[2].attrs, VT_BOLD);
    CHECK_INT(c[2].fg, VT_INDEXED | 1);
    CHECK_INT(c[3].attrs, VT_DIM);
    CHECK_INT(c[3].bg, VT_INDEXED | 99);
    CHECK_INT(c[4].attrs, VT_DIM | VT_UNDERLINE | VT_CURLY);
    CHECK_INT(c[4].fg, VT_RGB | 0x010203);
    CHECK_INT(vt_get_cursor(v).col, 5);
    vt_free(v);
}

TEST(wide_characters_and_marks_share_cells)
{
    struct vt *v = vt_new(4, 6, 0, NULL, NULL);
    feed(v, "\xe4\xb8\xad"
            "e\xcc\x81x");
    CHECK_STR(screen_row(v, 0), "\xe4\xb8\xad"
                                "e\xcc\x81x");
    CHECK_INT(vt_row(v, 0)[0].width, 2);
    CHECK_INT(vt_row(v, 0)[1].width, 0);
    feed(v, "\r\033[C!"); // writes into the right half
    CHECK_STR(screen_row(v, 0), " !e\xcc\x81x");
    feed(v, "\r\n12345\xe4\xb8\xad"); // does not fit: next row
    CHECK_STR(screen_row(v, 1), "12345");
    CHECK_STR(screen_row(v, 2), "\xe4\xb8\xad");
    CHECK(vt_row_wrapped(v, 1));
    vt_free(v);
}

TEST(many_different_clusters_do_not_fill_the_table)
{
    struct vt *v = vt_new(4, 10, 100, NULL, NULL);
    char text[16];
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(text, sizeof text, "%c\xcc%c\xcc%c", 'a' + i % 26, 0x80 + i % 48,
                         0x80 + i / 48 % 48);
        vt_feed(v, (struct str){text, (size_t)n}, NULL);
    }
    CHECK((vt_row(v, vt_get_cursor(v).row)[0].text & 0x80000000u) != 0);
    CHECK(strlen(screen_row(v, -1)) > 20);
    vt_free(v);
}

TEST(lines_that_leave_the_screen_become_history)
{
    struct vt *v = vt_new(3, 20, 5, NULL, NULL);
    for (int i = 1; i <= 10; i++) {
        char line[32];
        snprintf(line, sizeof line, "\033[3%dmline %d\033[m%s", i % 8, i, i < 10 ? "\r\n" : "");
        feed(v, line);
    }
    CHECK_STR(screen_row(v, 0), "line 8");
    CHECK_STR(screen_row(v, 2), "line 10");
    CHECK_INT(vt_history(v), 5);
    CHECK_STR(screen_row(v, -1), "line 7");
    CHECK_INT(vt_row(v, -1)[0].fg, VT_INDEXED | 7);
    CHECK_STR(screen_row(v, -5), "line 3");
    feed(v, "\033[?1049h");
    CHECK_INT(vt_history(v), 0);
    feed(v, "full\r\n\n\n\n\n\033[?1049l");
    CHECK_INT(vt_history(v), 5);
    CHECK_STR(screen_row(v, 2), "line 10");
    feed(v, "\033[3J");
    CHECK_INT(vt_history(v), 0);
    vt_free(v);
}

TEST(lines_are_wrapped_anew_at_another_width)
{
    struct vt *v = vt_new(4, 10, 100, NULL, NULL);
    feed(v, "0123456789abcdefghij\r\nnext\r\n$ ");
    CHECK_STR(screen_row(v, 1), "abcdefghij");
    vt_resize(v, 4, 20);
    CHECK_STR(screen_row(v, 0), "0123456789abcdefghij");
    CHECK_STR(screen_row(v, 1), "next");
    CHECK_STR(screen_row(v, 2), "$");
    CHECK_INT(vt_get_cursor(v).row, 2);
    CHECK_INT(vt_get_cursor(v).col, 2);
    vt_resize(v, 4, 5);
    CHECK_INT(vt_history(v), 2);
    CHECK_STR(screen_row(v, -2), "01234");
    CHECK_STR(screen_row(v, 0), "abcde");
    CHECK_STR(screen_row(v, 3), "$");
    vt_resize(v, 4, 20);
    CHECK_INT(vt_history(v), 0);
    CHECK_STR(screen_row(v, 0), "0123456789abcdefghij");
    CHECK_STR(screen_row(v, 2), "$");
    vt_free(v);
}

TEST(a_higher_window_shows_history_again)
{
    struct vt *v = vt_new(2, 10, 100, NULL, NULL);
    feed(v, "a\r\nb\r\nc\r\nd");
    vt_resize(v, 3, 10);
    CHECK_STR(screen_row(v, 0), "b");
    CHECK_INT(vt_get_cursor(v).row, 2);
    vt_resize(v, 10, 10);
    CHECK_STR(screen_row(v, 0), "a");
    CHECK_INT(vt_history(v), 0);
    CHECK_INT(vt_get_cursor(v).row, 3);
    vt_free(v);
}

TEST(a_full_screen_program_is_cut_not_wrapped)
{
    struct vt *v = vt_new(3, 10, 100, NULL, NULL);
    feed(v, "shell\033[?1049h\033[H0123456789\033[2;1Hrow two");
    vt_resize(v, 3, 5);
    CHECK_STR(screen_row(v, 0), "01234");
    CHECK_STR(screen_row(v, 1), "row t");
    feed(v, "\033[?1049l");
    CHECK_STR(screen_row(v, 0), "shell");
    vt_free(v);
}

static struct buf seen;

static void on_title(struct str s, void *arg)
{
    (void)arg;
    buf_addf(&seen, "title " STR_FMT "|", STR_ARG(s));
}

static void on_directory(struct str s, void *arg)
{
    (void)arg;
    buf_addf(&seen, "dir " STR_FMT "|", STR_ARG(s));
}

static void on_bell(void *arg)
{
    (void)arg;
    buf_addz(&seen, "bell|");
}

static void on_notify(struct str title, struct str body, void *arg)
{
    (void)arg;
    buf_addf(&seen, "notify " STR_FMT "," STR_FMT "|", STR_ARG(title), STR_ARG(body));
}

static void on_mark(char kind, int status, void *arg)
{
    (void)arg;
    buf_addf(&seen, "mark %c %d|", kind, status);
}

TEST(title_directory_bell_and_marks_are_told_once)
{
    static const struct vt_cb cb = {.title = on_title,
                                    .directory = on_directory,
                                    .bell = on_bell,
                                    .notify = on_notify,
                                    .mark = on_mark};
    buf_init(&seen, SIZE_MAX);
    struct vt *v = vt_new(4, 10, 0, &cb, NULL);
    feed(v, "\033]0;one\007\033]2;one\033\\\033]2;two\007"); // the same again says nothing
    feed(v, "\033]7;file://host/tmp/a%20b\007\033]7;relative\007\033]7;file://h/x%07y\007");
    feed(v, "\a\033]9;build done\007\033]777;notify;CI;red\007\033]9;4;1;50\007");
    feed(v, "\033]133;A\007$ \033]133;B\007\033]133;C\007\033]133;D;3\007\033]133;Z\007");
    CHECK_STR(buf_z(&seen),
              "title one|title two|dir /tmp/a b|bell|notify ,build done|notify CI,red|"
              "mark A -1|mark B -1|mark C -1|mark D 3|");
    CHECK_STR(vt_title(v), "two");
    CHECK_STR(vt_directory(v), "/tmp/a b");
    vt_free(v);
    buf_fini(&seen);
}

TEST(sequences_as_vttest_uses_them)
{
    struct vt *v = vt_new(24, 80, 0, NULL, NULL);
    feed(v, "\033[5;10r\033[?6h\033[1;1Htop\033[6;1Hbottom\n\nscrolled\033[?6l\033[r");
    CHECK_STR(screen_row(v, 4), "");
    CHECK_STR(screen_row(v, 7), "bottom");
    CHECK_STR(screen_row(v, 9), "      scrolled");
    feed(v, "\033[2J\033[Habcdef\033[3G\033[2@\033[5G\033[1P");
    CHECK_STR(screen_row(v, 0), "ab  def");
    feed(v, "\033[2J\033[H1\r\n2\r\n3\033[2;1H\033[L\033[4;1H\033[M");
    CHECK_STR(screen_row(v, 1), "");
    CHECK_STR(screen_row(v, 2), "2");
    CHECK_STR(screen_row(v, 3), "");
    feed(v, "\033[2J\033[H\033)0\016lqk\017lqk");
    CHECK_STR(screen_row(v, 0), "\xe2\x94\x8c\xe2\x94\x80\xe2\x94\x90lqk");
    feed(v, "\033[2J\033[1;78Habcdef\033[?7l\033[5;78Habcdef\033[?7h");
    CHECK_STR(screen_row(v, 1), "def");
    CHECK_STR(screen_row(v, 4) + 77, "abf");
    vt_free(v);
}

TEST(text_after_a_wide_character_at_the_edge_is_wrapped_whatever_its_style)
{
    struct vt *v = vt_new(3, 4, 0, NULL, NULL);
    feed(v, "\u4e2d\u6587");
    feed(v, "\033[7m");
    feed(v, "ab");
    CHECK_STR(screen_row(v, 0), "\u4e2d\u6587");
    CHECK_STR(screen_row(v, 1), "ab");
    CHECK(vt_row_wrapped(v, 0));
    vt_free(v);
}

TEST(a_snapshot_draws_the_same_screen_and_continues_the_same_way)
{
    unsigned seed = 11;
    for (int round = 0; round < test_loops(400); round++) {
        struct buf in = {.max = SIZE_MAX}, clean = {.max = SIZE_MAX}, shot = {.max = SIZE_MAX};
        int rows = 2 + (int)(screen_random(&seed) % 8), cols = 3 + (int)(screen_random(&seed) % 30);
        struct vt *a = vt_new(rows, cols, 50, NULL, NULL), *b = vt_new(rows, cols, 50, NULL, NULL);
        for (int i = 0; i < 50; i++) {
            screen_add_noise(&in, &seed);
        }
        vt_feed(a, buf_str(&in), NULL);
        vt_snapshot(a, round % 2 == 0 ? 0 : 20, &shot);
        vt_feed(b, STR("something else\033[?1049h\033[31;4m\033[?1000h"), NULL);
        vt_feed(b, buf_str(&shot), NULL);
        screen_check_same(a, b);
        buf_clear(&in);
        for (int i = 0; i < 20; i++) {
            screen_add_noise(&in, &seed);
        }
        vt_feed(a, buf_str(&in), &clean);
        vt_feed(b, buf_str(&clean), NULL);
        screen_check_same(a, b);
        vt_free(a);
        vt_free(b);
        buf_fini(&in);
        buf_fini(&clean);
        buf_fini(&shot);
    }
}

TEST(a_snapshot_brings_the_history_along)
{
    struct vt *a = vt_new(3, 10, 100, NULL, NULL), *b = vt_new(3, 10, 100, NULL, NULL);
    struct buf shot = {.max = SIZE_MAX};
    feed(a, "one\r\n0123456789abc\r\nthree\r\nfour\r\nfive");
    vt_snapshot(a, 2, &shot);
    vt_feed(b, buf_str(&shot), NULL);
    CHECK_INT(vt_history(a), 3);
    CHECK_INT(vt_history(b), 2);
    CHECK_STR(screen_row(b, -1), "abc");
    CHECK_STR(screen_row(b, -2), "0123456789");
    CHECK(vt_row_wrapped(b, -2));
    buf_fini(&shot);
    vt_free(a);
    vt_free(b);
}

TEST(rows_of_the_history_are_the_same_in_whatever_order_they_are_read)
{
    enum { LINES = 60, ROWS = 60 * 3 - 3 };
    struct vt *v = vt_new(3, 10, 1000, NULL, NULL);
    static char rows[ROWS][16];
    unsigned seed = 7;
    for (int i = 0; i < LINES; i++) {
        char line[64];
        snprintf(line, sizeof line, "%04d------%04d++++++%04d%s", i, i, i,
                 i < LINES - 1 ? "\r\n" : "");
        feed(v, line);
    }
    CHECK_INT(vt_history(v), ROWS);
    for (int i = 0; i < ROWS; i++) { // the oldest first
        snprintf(rows[i], sizeof rows[i], "%04d%s", i / 3,
                 i % 3 == 0   ? "------"
                 : i % 3 == 1 ? "++++++"
                              : "");
        CHECK_STR(screen_row(v, i - ROWS), rows[i]);
        CHECK(vt_row_wrapped(v, i - ROWS) == (i % 3 != 2));
    }
    for (int i = 0; i < 2000; i++) {
        int at = (int)(screen_random(&seed) % ROWS);
        CHECK_STR(screen_row(v, at - ROWS), rows[at]);
    }
    feed(v, "\r\nmore");
    CHECK_INT(vt_history(v), ROWS + 1);
    CHECK_STR(screen_row(v, -1), "0059------");
    CHECK_STR(screen_row(v, -ROWS - 1), rows[0]);
    vt_free(v);
}

// Half a minute, when each row is looked for from the newest line on.
TEST(a_snapshot_of_a_long_history_is_made_in_one_pass)
{
    struct vt *v = vt_new(24, 80, 40000, NULL, NULL);
    struct buf shot = {.max = SIZE_MAX};
    for (int i = 0; i < 40000; i++) {
        feed(v, "a line\r\n");
    }
    uint64_t began = time_thread_ns();
    vt_snapshot(v, 40000, &shot);
    uint64_t took = time_thread_ns() - began;
    CHECK(shot.n > (size_t)40000 * 8);
    CHECK(took < UINT64_C(5000000000));
    buf_fini(&shot);
    vt_free(v);
}

TEST(a_storm_of_sizes_loses_no_line)
{
    struct vt *v = vt_new(10, 40, 1000, NULL, NULL);
    unsigned seed = 5;
    for (int i = 0; i < 200; i++) {
        char line[64];
        snprintf(line, sizeof line, "line %d with some words \xe4\xb8\xad\r\n", i);
        feed(v, line);
        vt_resize(v, 2 + (int)(screen_random(&seed) % 60), 2 + (int)(screen_random(&seed) % 120));
    }
    vt_resize(v, 10, 200);
    CHECK_INT(vt_history(v) + 10, 201 + (10 - 1 - vt_get_cursor(v).row));
    for (int i = 0; i < 200; i++) {
        char line[64];
        snprintf(line, sizeof line, "line %d with some words \xe4\xb8\xad", i);
        CHECK_STR(screen_row(v, i - vt_history(v)), line);
    }
    vt_free(v);
}

TEST(noise_with_changing_sizes_keeps_the_grid_whole)
{
    unsigned seed = 23;
    struct buf in = {.max = SIZE_MAX};
    struct vt *v = vt_new(10, 40, 100, NULL, NULL);
    for (int i = 0; i < test_loops(5000); i++) {
        buf_clear(&in);
        screen_add_noise(&in, &seed);
        vt_feed(v, buf_str(&in), NULL);
        if (i % 7 == 0) {
            vt_resize(v, 2 + (int)(screen_random(&seed) % 20),
                      2 + (int)(screen_random(&seed) % 50));
        }
        for (int row = -vt_history(v); row < vt_rows(v); row++) {
            const struct vt_cell *c = vt_row(v, row);
            for (int col = 0; col < vt_cols(v); col++) {
                CHECK((c[col].width == 0) == (col > 0 && c[col - 1].width == 2));
            }
        }
    }
    buf_fini(&in);
    vt_free(v);
}

TEST(a_flood_is_bounded)
{
    struct vt *v = vt_new(50, 160, 1000, NULL, NULL);
    struct buf clean = {.max = SIZE_MAX};
    char line[2048];
    int n = snprintf(line, sizeof line, "\033[01;34m./src/some/folder\033[0m\r\n");
    memset(line + n, 'x', sizeof line - (size_t)n); // and no line end: one line without end
    for (int i = 0; i < test_loops(2000); i++) {
        buf_clear(&clean);
        vt_feed(v, (struct str){line, i % 2 == 0 ? (size_t)n : sizeof line}, &clean);
    }
    CHECK(vt_history(v) <= 1000 * 16384 / 160);
    vt_free(v);
    buf_fini(&clean);
}

// ---- the short way for plain text ----------------------------------------------------------------

/// One piece of output: mostly plain text and line ends, now and then what leaves or ends the short way.
static void add_piece(struct buf *out, unsigned n)
{
    static const char *const rare[] = {
        "\t",        "\b\b",   "\xe4\xb8\xad", "\xc3\xa9", "\033[4;7H", "\033[3;1H\033[K",
        "\033[2;5r", "\033[r", "\033[A",       "\033[2C",  "\033M",     "\033[1;31m"};
    if (n % 7 == 0) {
        buf_addz(out, n % 3 == 0 ? "\n" : "\r\n");
    } else if (n % 11 == 0) {
        buf_addz(out, rare[n / 11 % ARRAY_LEN(rare)]);
    } else {
        for (unsigned i = 0; i < n % 17 + 1; i++) {
            buf_addc(out, (char)(i % 5 == 4 ? ' ' : 'a' + (n + i) % 26));
        }
    }
}

TEST(plain_text_lands_where_libvterm_alone_puts_it)
{
    unsigned seed = 7;
    for (int round = 0; round < 300; round++) {
        struct vt *v = vt_new(8, 30, 50, NULL, NULL);
        VTerm *peer = vterm_new(8, 30);
        struct buf text = {.max = SIZE_MAX};
        vterm_set_utf8(peer, 1);
        VTermScreen *screen = vterm_obtain_screen(peer);
        vterm_screen_reset(screen, 1);
        for (int i = 0; i < 60; i++) {
            seed = seed * 1103515245u + 12345u;
            add_piece(&text, seed >> 8);
        }
        vt_feed(v, buf_str(&text), NULL);
        vterm_input_write(peer, text.p, text.n);
        for (int row = 0; row < 8; row++) {
            const struct vt_cell *cells = vt_row(v, row);
            for (int col = 0; col < 30; col++) {
                VTermScreenCell c;
                vterm_screen_get_cell(screen, (VTermPos){row, col}, &c);
                uint32_t there = c.chars[0] == (uint32_t)-1 || c.chars[0] == ' ' ? 0 : c.chars[0];
                CHECK_INT(cells[col].text, there);
            }
        }
        VTermPos at;
        vterm_state_get_cursorpos(vterm_obtain_state(peer), &at);
        CHECK_INT(vt_get_cursor(v).row, at.row);
        CHECK_INT(vt_get_cursor(v).col, at.col);
        vterm_free(peer);
        buf_fini(&text);
        vt_free(v);
    }
}
