#include "base/utf8.h"
#include "term/cells.h"
#include "term/text.h"
#include "unit/test.h"

// ---- a terminal that knows what cells_diff() may use, and fails on the rest -------------------

struct emulator {
    struct cells g;
    int row, col, top, bottom;
    bool wraps; // the cursor is behind the last column
    struct style style;
};

static void emulator_init(struct emulator *t, int rows, int cols)
{
    *t = (struct emulator){.bottom = rows - 1};
    cells_init(&t->g);
    cells_resize(&t->g, rows, cols);
}

static int number(struct str *args, int otherwise)
{
    uint64_t v;
    return str_to_u64(str_cut(args, ';'), &v) ? (int)v : otherwise;
}

static void erase_cells(struct emulator *t, int n)
{
    CHECK(t->style.bg == 0 && (t->style.attrs & STYLE_ON_BLANKS) == 0); // which one would it get?
    cells_fill(&t->g, (struct rect){t->row, t->col, 1, n}, (struct style){0});
}

static void scroll_region(struct emulator *t, int up)
{
    struct cells before;
    cells_init(&before);
    cells_copy(&before, &t->g);
    for (int row = t->top; row <= t->bottom; row++) {
        int from = row + up;
        cells_fill(&t->g, (struct rect){row, 0, 1, t->g.cols}, (struct style){0});
        if (from >= t->top && from <= t->bottom) {
            memcpy(cells_at(&t->g, row, 0), cells_at(&before, from, 0),
                   (size_t)t->g.cols * sizeof(struct term_cell));
        }
    }
    cells_fini(&before);
}

static void sequence(struct emulator *t, struct str args, char final)
{
    struct str given = args;
    t->wraps = t->wraps && final == 'm';
    switch (final) {
    case 'H':
        t->row = number(&args, 1) - 1;
        t->col = number(&args, 1) - 1;
        break;
    case 'C': t->col += number(&args, 1); break;
    case 'K':
        CHECK_INT(args.n, 0);
        erase_cells(t, t->g.cols - t->col);
        break;
    case 'X': erase_cells(t, number(&args, 1)); break;
    case 'm': style_apply(&t->style, args); break;
    case 'S': scroll_region(t, number(&args, 1)); break;
    case 'T': scroll_region(t, -number(&args, 1)); break;
    case 'r':
        t->top = number(&args, 1) - 1;
        t->bottom = number(&args, t->g.rows) - 1;
        t->row = t->col = 0;
        break;
    case 'h':
    case 'l':
        CHECK_SPAN(given, "?25");
        t->g.cursor_shown = final == 'h';
        break;
    default: test_fail(__FILE__, __LINE__, "a sequence we do not know: %c", final);
    }
    CHECK(t->row >= 0 && t->row < t->g.rows && t->col >= 0 && t->col < t->g.cols);
}

static size_t take_sequence(struct emulator *t, struct str bytes)
{
    size_t n = 2;
    CHECK(bytes.n > 2 && bytes.p[1] == '[');
    while (n < bytes.n && (unsigned char)bytes.p[n] < 0x40) {
        n++;
    }
    CHECK(n < bytes.n);
    sequence(t, (struct str){bytes.p + 2, n - 2}, bytes.p[n]);
    return n + 1;
}

static void feed(struct emulator *t, struct str bytes)
{
    while (bytes.n != 0) {
        size_t width, n = 1;
        if (bytes.p[0] == '\033') {
            n = take_sequence(t, bytes);
        } else if (bytes.p[0] == '\r') {
            CHECK(!t->wraps); // where that would be differs between terminals
            t->col = 0;
        } else if (bytes.p[0] == '\n') {
            CHECK(!t->wraps && t->row < t->bottom);
            t->row++;
        } else {
            CHECK(!t->wraps && (unsigned char)bytes.p[0] >= ' ');
            n = text_cluster(bytes, &width);
            cells_put(&t->g, (struct rect){0, 0, t->g.rows, t->g.cols}, t->row, t->col,
                      (struct str){bytes.p, n}, t->style);
            t->col += (int)width;
            t->wraps = t->col == t->g.cols;
            t->col -= t->wraps;
        }
        bytes = str_from(bytes, n);
    }
}

// ---- a pair of screens -----------------------------------------------------------------------

struct rig {
    struct emulator t;
    struct cells shown, next;
    struct buf bytes;
};

static void begin(struct rig *r, int rows, int cols)
{
    emulator_init(&r->t, rows, cols);
    cells_init(&r->shown);
    cells_init(&r->next);
    cells_resize(&r->shown, rows, cols);
    cells_resize(&r->next, rows, cols);
    buf_init(&r->bytes, SIZE_MAX);
}

static void end(struct rig *r)
{
    cells_fini(&r->t.g);
    cells_fini(&r->shown);
    cells_fini(&r->next);
    buf_fini(&r->bytes);
}

static void put(struct rig *r, int row, int col, const char *text, struct style style)
{
    cells_put(&r->next, (struct rect){0, 0, r->next.rows, r->next.cols}, row, col, str_of(text),
              style);
}

// Bring the terminal up to date, and check that it shows what it shall.
static void show(struct rig *r, bool whole)
{
    static const struct style none;
    buf_clear(&r->bytes);
    cells_diff(&r->shown, &r->next, whole, COLOR_TRUE, &r->bytes);
    feed(&r->t, buf_str(&r->bytes));
    for (int row = 0; row < r->next.rows; row++) {
        for (int col = 0; col < r->next.cols; col++) {
            struct term_cell *a = cells_at(&r->t.g, row, col), *b = cells_at(&r->next, row, col);
            if (memcmp(a, b, sizeof *a) != 0) {
                test_fail(__FILE__, __LINE__, "cell %d,%d is '%.*s', not '%.*s'", row, col, a->n,
                          a->text, b->n, b->text);
            }
        }
    }
    CHECK(memcmp(&r->t.style, &none, sizeof none) == 0);
    CHECK_INT(r->t.g.cursor_shown, r->next.cursor_shown);
    if (r->next.cursor_shown) {
        CHECK_INT(r->t.row, r->next.cursor_row);
        CHECK_INT(r->t.col, r->next.cursor_col);
    }
    cells_copy(&r->shown, &r->next);
}

static void draw(struct rig *r, int row, int col, const char *text, const char *expected)
{
    put(r, row, col, text, (struct style){0});
    show(r, false);
    CHECK_STR(buf_z(&r->bytes), expected);
}

TEST(the_same_screen_costs_nothing)
{
    struct rig r;
    begin(&r, 4, 20);
    draw(&r, 1, 0, "hello", "\033[2Hhello");
    draw(&r, 1, 0, "hello", "");
    end(&r);
}

TEST(only_cells_that_differ_are_written)
{
    struct rig r;
    begin(&r, 4, 20);
    draw(&r, 0, 0, "hello world", "\033[Hhello world");
    draw(&r, 0, 0, "hellO world", "\033[1;5HO");
    draw(&r, 0, 0, "HellO wOrld", "\033[HH\033[6CO"); // six cells cost more than a sequence
    draw(&r, 0, 0, "hElLO", "\033[HhElL");
    draw(&r, 0, 0, "                    ", "\033[H\033[K");
    end(&r);
}

TEST(styles_are_changed_and_given_back)
{
    struct rig r;
    begin(&r, 2, 20);
    put(&r, 0, 0, "a", (struct style){.attrs = STYLE_BOLD});
    put(&r, 0, 1, "b", (struct style){.attrs = STYLE_BOLD, .fg = STYLE_INDEX(1)});
    put(&r, 0, 2, "c", (struct style){.fg = STYLE_INDEX(1)});
    put(&r, 0, 3, "d", (struct style){.fg = STYLE_RGB(1, 2, 3), .bg = STYLE_INDEX(200)});
    show(&r, false);
    CHECK_STR(buf_z(&r.bytes),
              "\033[H\033[1ma\033[31mb\033[0;31mc\033[38;2;1;2;3;48;5;200md\033[m");
    end(&r);
}

TEST(colours_fit_the_terminal)
{
    struct cells a, b;
    struct buf out;
    struct {
        enum color_depth depth;
        const char *expected;
    } rows[] = {{COLOR_256, "\033[H\033[38;5;196mx\033[m"},
                {COLOR_16, "\033[H\033[91mx\033[m"},
                {COLOR_NONE, "\033[Hx\033[m"}};
    cells_init(&a);
    cells_init(&b);
    cells_resize(&a, 1, 4);
    cells_resize(&b, 1, 4);
    buf_init(&out, SIZE_MAX);
    cells_put(&b, (struct rect){0, 0, 1, 4}, 0, 0, STR("x"),
              (struct style){.fg = STYLE_RGB(255, 0, 0)});
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_clear(&out);
        cells_diff(&a, &b, false, rows[i].depth, &out);
        CHECK_STR(buf_z(&out), rows[i].expected);
    }
    buf_fini(&out);
    cells_fini(&a);
    cells_fini(&b);
}

TEST(a_text_that_moved_up_is_scrolled)
{
    struct rig r;
    begin(&r, 12, 40);
    char line[64];
    for (int i = 0; i < 10; i++) {
        snprintf(line, sizeof line, "line %d with some words in it", i);
        put(&r, i, 0, line, (struct style){0});
    }
    put(&r, 11, 0, "status", (struct style){.attrs = STYLE_REVERSE});
    show(&r, false);
    for (int i = 0; i < 10; i++) {
        snprintf(line, sizeof line, "line %d with some words in it", i + 1);
        cells_fill(&r.next, (struct rect){i, 0, 1, 40}, (struct style){0});
        put(&r, i, 0, line, (struct style){0});
    }
    show(&r, false);
    CHECK_STR(buf_z(&r.bytes), "\033[1;10r\033[1S\033[r\033[10Hline 10 with some words in it");
    end(&r);
}

TEST(nothing_drawn_can_command_the_terminal)
{
    struct rig r;
    begin(&r, 2, 30);
    put(&r, 0, 0,
        "a\033]0;x\007b\033[2Jc\x9b"
        "1md\xc2\x9b\xe2\x80\xae"
        "e\r\n\tf",
        (struct style){0});
    show(&r, false); // the emulator fails on anything it does not know
    CHECK(strstr(buf_z(&r.bytes), "\xe2\x80\xae") == NULL &&
          strstr(buf_z(&r.bytes), "\xc2\x9b") == NULL);
    end(&r);
}

TEST(a_byte_that_is_no_text_is_shown_as_a_mark)
{
    struct cells g;
    cells_init(&g);
    cells_resize(&g, 1, 4);
    cells_put(&g, (struct rect){0, 0, 1, 4}, 0, 0, STR("a\x9b\xc3"),
              (struct style){0}); // CSI in 8 bits
    CHECK_SPAN(((struct str){cells_at(&g, 0, 1)->text, cells_at(&g, 0, 1)->n}), "?");
    CHECK_SPAN(((struct str){cells_at(&g, 0, 2)->text, cells_at(&g, 0, 2)->n}), "?");
    cells_fini(&g);
}

TEST(half_a_wide_character_is_never_left)
{
    struct rig r;
    begin(&r, 1, 6);
    put(&r, 0, 0, "日本語", (struct style){0});
    show(&r, false);
    put(&r, 0, 1, "x", (struct style){0});
    show(&r, false);
    CHECK_INT(cells_at(&r.next, 0, 0)->text[0], ' ');
    CHECK_INT(cells_at(&r.next, 0, 1)->text[0], 'x');
    put(&r, 0, 5, "本", (struct style){0}); // does not fit: left out
    show(&r, false);
    CHECK_INT(cells_at(&r.next, 0, 5)->width, 0);
    end(&r);
}

// ---- random screens --------------------------------------------------------------------------

static unsigned seed;

static unsigned any(unsigned n)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % n;
}

static struct style any_style(void)
{
    static const style_color colors[] = {0, STYLE_INDEX(1), STYLE_INDEX(38), STYLE_RGB(9, 8, 7)};
    return any(2) == 0
               ? (struct style){0}
               : (struct style){.fg = colors[any(4)], .bg = colors[any(4)], .attrs = any(64)};
}

static void change(struct rig *r)
{
    static const char *const texts[] = {"x",
                                        "hello world",
                                        "    ",
                                        "日本",
                                        "e\xcc\x81t\xc3\xa9",
                                        "────────────",
                                        "👩‍👩‍👧",
                                        "🇩🇪",
                                        "│",
                                        "\033[1;31mred\033[0m plain"};
    int rows = r->next.rows, cols = r->next.cols;
    unsigned kind = any(8);
    if (kind == 0) { // a band moves
        int up = (int)any(5) - 2, top = (int)any((unsigned)rows),
            n = (int)any((unsigned)(rows - top)) + 1;
        struct cells before;
        cells_init(&before);
        cells_copy(&before, &r->next);
        for (int i = top; i < top + n; i++) {
            if (i + up >= 0 && i + up < rows) {
                memcpy(cells_at(&r->next, i, 0), cells_at(&before, i + up, 0),
                       (size_t)cols * sizeof(struct term_cell));
            }
        }
        cells_fini(&before);
    } else if (kind == 1) {
        struct rect area = {(int)any((unsigned)rows), (int)any((unsigned)cols), (int)any(6),
                            (int)any(40)};
        cells_fill(&r->next, area, any(2) ? (struct style){0} : any_style());
    } else if (kind == 2) {
        struct rect area = {(int)any((unsigned)rows) - 2, (int)any((unsigned)cols) - 2, (int)any(8),
                            (int)any(30)};
        cells_box(&r->next, area, (struct rect){0, 0, rows, cols}, any_style());
    } else {
        put(r, (int)any((unsigned)rows), (int)any((unsigned)cols), texts[any(ARRAY_LEN(texts))],
            any_style());
    }
}

TEST(the_bytes_of_a_diff_give_the_same_screen)
{
    int loops = test_loops(300);
    for (int round = 0; round < loops; round++) {
        struct rig r;
        seed = (unsigned)round;
        begin(&r, (int)any(20) + 1, (int)any(60) + 2);
        for (int step = 0; step < 20; step++) {
            for (unsigned n = any(12); n > 0; n--) {
                change(&r);
            }
            r.next.cursor_shown = any(2);
            r.next.cursor_row = (int)any((unsigned)r.next.rows);
            r.next.cursor_col = (int)any((unsigned)r.next.cols);
            show(&r, any(10) == 0);
        }
        end(&r);
    }
}
