// An answer as it streams in.
//
//     | printed for good      |  blocks that nothing can change any more
//     |-----------------------|
//     | drawn, `drawn` rows   |  the block in hand; erased and drawn again as it grows
//     | _ cursor              |
//
// Of a block in hand that is higher than the window only its end is drawn: what has scrolled away can
// not be erased. When it is whole it is erased once more and printed for good, all of it.
//
// Rows that a change of width has moved about are left as they are, and drawing begins anew below:
// terminals differ in what they do then, and something twice is better than something lost.
//
// Drawing costs as much as the block is long, so it is drawn again when it has grown by 1/64: the sum
// stays in proportion to the text. A block that reaches TEXT_MAX is printed as it is.

#include "cli/live.h"

#include "base/utf8.h"
#include "cli/markdown.h"
#include "pty/tty.h"

enum { TEXT_MAX = 64 << 10, GROWTH = 64 };

static struct markdown_look look_of(const struct live *l)
{
    return (struct markdown_look){.cols = l->cols, .color = l->out->color};
}

// Columns that a drawn line takes: escape sequences (all of them are ours, ESC [ ... m) take none.
static size_t width_of(struct str line)
{
    size_t width = 0;
    while (line.n != 0) {
        if (line.p[0] == '\033') {
            str_cut(&line, 'm');
        } else {
            uint32_t cp;
            line = str_from(line, utf8_decode(line, &cp));
            width += (size_t)utf8_char_width(cp);
        }
    }
    return width;
}

static size_t rows_of(struct str line, size_t cols)
{
    size_t width = width_of(line);
    return width > cols ? (width + cols - 1) / cols : 1;
}

static void erase(struct live *l)
{
    size_t cols = tty_size(STDOUT_FILENO).ws_col;
    if (l->drawn > 0 && cols == l->cols) {
        char up[48];
        snprintf(up, sizeof up, "\r\033[%zuA\033[J", l->drawn);
        out_control(l->out, str_of(up));
    }
    l->cols = cols;
    l->drawn = l->drawn_n = 0;
}

// Put `lines` on the screen, as many of the last ones as fit.
static void draw(struct live *l, struct str lines)
{
    size_t room = MAX(tty_size(STDOUT_FILENO).ws_row, 2) - 1u, rows = 0, from = lines.n;
    while (from > 0) {
        size_t start = from - 1;
        while (start > 0 && lines.p[start - 1] != '\n') {
            start--;
        }
        size_t more = rows_of((struct str){lines.p + start, from - 1 - start}, l->cols);
        if (rows + more > room) {
            break;
        }
        rows += more;
        from = start;
    }
    out_control(l->out, str_from(lines, from));
    l->drawn = rows;
    l->drawn_n = l->text.n;
}

static void print_for_good(struct live *l, size_t n)
{
    struct markdown_look look = look_of(l);
    if (str_trim((struct str){l->text.p, n}).n != 0) {
        out_add(l->out, l->begun ? STR("\n") : STR(""));
        struct buf lines;
        buf_init(&lines, SIZE_MAX);
        markdown_render(&lines, (struct str){l->text.p, n}, &look);
        out_control(l->out, buf_str(&lines));
        buf_fini(&lines);
        l->begun = true;
    }
    buf_drop(&l->text, n);
}

static void redraw(struct live *l)
{
    struct buf lines;
    struct markdown_look look;
    erase(l);
    size_t settled = markdown_settled(buf_str(&l->text));
    if (settled != 0 || l->text.n >= TEXT_MAX) {
        print_for_good(l, settled != 0 ? settled : l->text.n);
    }
    look = look_of(l);
    buf_init(&lines, SIZE_MAX);
    if (l->begun && str_trim(buf_str(&l->text)).n != 0) {
        buf_addc(&lines, '\n');
    }
    markdown_render(&lines, buf_str(&l->text), &look);
    draw(l, buf_str(&lines));
    buf_fini(&lines);
}

void live_init(struct live *l, struct out *out)
{
    *l = (struct live){.out = out, .cols = tty_size(STDOUT_FILENO).ws_col};
    buf_init(&l->text, SIZE_MAX);
}

void live_fini(struct live *l)
{
    buf_fini(&l->text);
}

void live_add(struct live *l, struct str text)
{
    buf_adds(&l->text, text);
    if (l->text.n - l->drawn_n > l->drawn_n / GROWTH) {
        redraw(l);
    }
}

void live_end(struct live *l)
{
    erase(l);
    if (l->text.n != 0) {
        print_for_good(l, l->text.n);
    }
    l->begun = false;
}

void live_drop(struct live *l)
{
    erase(l);
    buf_clear(&l->text);
    l->begun = false;
}

void live_hint(struct live *l, const char *hint)
{
    if (l->text.n == 0 && l->drawn == 0) {
        erase(l);
        out_tinted(l->out, OUT_DIM, str_of(hint));
        out_add(l->out, STR("\n"));
        l->drawn = 1;
    }
}
