// Tables on terminals of any width.
//
//     pipe      all cells whole, padded, no heads: the same for every reader
//     terminal  heads, empty columns left out; the widest column that may shrink gives way until all
//               fit; where that is not enough each row becomes a block, one cell a line
//
// Width is counted in terminal columns, never in bytes.

#include "view/table.h"

#include <assert.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/visible.h"
#include "pty/tty.h"
#include "term/text.h"

enum { GAP = 2, LEAST = 8, LEAST_WRAP = 24 }; // LEAST: what a column shrinks to at most

void table_init(struct table *t, size_t columns)
{
    assert(columns > 0 && columns <= TABLE_COLUMNS);
    *t = (struct table){.columns = columns};
    t->column[columns - 1].fit = TABLE_WRAP;
}

void table_fini(struct table *t)
{
    vec_fini(&t->cells);
    arena_fini(&t->arena);
}

void table_set_column(struct table *t, size_t i, const char *head, enum table_fit fit)
{
    assert(i < t->columns && (fit != TABLE_WRAP || i == t->columns - 1));
    t->column[i].head = head;
    t->column[i].fit = fit;
}

void table_add(struct table *t, enum out_tint tint, struct str text)
{
    assert(t->columns != 0);
    struct buf b = {.max = SIZE_MAX};
    visible_add(&b, text, false);
    struct cell c = {.text = arena_str(&t->arena, buf_str(&b)), .tint = tint};
    vec_push(&t->cells, c);
    buf_fini(&b);
}

void table_addf(struct table *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    table_add(t, OUT_PLAIN, str_of(text));
    free(text);
}

// ---- widths --------------------------------------------------------------------------------

/// The width that each column wants; 0 for one without any text, which is left out.
static void measure(const struct table *t, bool heads, size_t widths[TABLE_COLUMNS])
{
    for (size_t i = 0; i < t->cells.n; i++) {
        size_t *width = &widths[i % t->columns];
        *width = MAX(*width, text_width(t->cells.p[i].text));
    }
    for (size_t i = 0; i < t->columns && heads; i++) {
        size_t head = text_width(str_of(t->column[i].head));
        widths[i] = widths[i] != 0 ? MAX(widths[i], head) : 0;
    }
}

/// Shrink columns until all fit into `room`. False when they cannot.
static bool shrink(const struct table *t, size_t room, size_t widths[TABLE_COLUMNS])
{
    for (;;) {
        size_t total = 0, shown = 0, widest = t->columns;
        for (size_t i = 0; i < t->columns; i++) {
            enum table_fit fit = t->column[i].fit;
            widths[i] = fit == TABLE_KEEP ? widths[i] : MIN(widths[i], room);
            total += widths[i];
            shown += widths[i] != 0;
            if (fit != TABLE_KEEP && widths[i] > (fit == TABLE_WRAP ? LEAST_WRAP : LEAST) &&
                (widest == t->columns || widths[i] > widths[widest])) {
                widest = i;
            }
        }
        total += shown > 1 ? (shown - 1) * GAP : 0;
        if (total <= room) {
            return true;
        }
        if (widest == t->columns) {
            return false;
        }
        widths[widest]--;
    }
}

// ---- printing ------------------------------------------------------------------------------

static void pad(struct out *o, size_t n)
{
    out_addf(o, "%*s", (int)n, "");
}

/// Print a cell in `width` columns and return how many of them it took.
static size_t print_cut(struct out *o, const struct cell *c, size_t width, enum table_fit fit)
{
    struct buf shown = {.max = SIZE_MAX};
    struct str text = c->text;
    size_t wide = text_width(text), first;
    if (wide > width && fit == TABLE_CUT_HEAD) {
        for (; wide >= width; wide -= first) {
            text = str_from(text, text_cluster(text, &first));
        }
        buf_addz(&shown, "…");
        buf_adds(&shown, text);
    } else {
        text_add_cut(&shown, text, width);
    }
    out_tinted(o, c->tint, buf_str(&shown));
    wide = text_width(buf_str(&shown));
    buf_fini(&shown);
    return wide;
}

/// Print a text in lines of at most `width`, broken at spaces; a longer word stays whole, so that it
/// can be copied. Lines after the first begin at column `indent`.
static void print_wrapped(struct out *o, const struct cell *c, size_t indent, size_t width)
{
    assert(width > 0);
    struct str rest = c->text;
    while (rest.n != 0) {
        struct str line = {rest.p, text_fit(rest, width, NULL)};
        if (line.n < rest.n && rest.p[line.n] != ' ') {
            size_t n = line.n;
            while (n > 0 && rest.p[n - 1] != ' ') {
                n--;
            }
            ptrdiff_t end = n == 0 ? str_index(rest, ' ') : (ptrdiff_t)n;
            line.n = end < 0 ? rest.n : (size_t)end;
        }
        rest = str_trim(str_from(rest, line.n));
        out_tinted(o, c->tint, rest.n != 0 ? str_trim(line) : line);
        if (rest.n != 0) {
            out_add(o, STR("\n"));
            pad(o, indent);
        }
    }
}

void table_print_text(struct out *o, struct str text, size_t indent)
{
    struct buf b = {.max = SIZE_MAX};
    size_t room = o->terminal ? tty_size(STDOUT_FILENO).ws_col : 0;
    visible_add(&b, text, false);
    struct cell c = {.text = buf_str(&b)};
    print_wrapped(o, &c, indent, room > indent + LEAST ? room - indent : SIZE_MAX);
    out_add(o, STR("\n"));
    buf_fini(&b);
}

static void print_columns(const struct table *t, struct out *o, size_t room,
                          const size_t widths[TABLE_COLUMNS], const struct cell *row)
{
    size_t at = 0, gap = 0;
    for (size_t i = 0; i < t->columns; i++) {
        if (widths[i] == 0 && room != 0) {
            continue;
        }
        bool last = i == t->columns - 1;
        if (row[i].text.n == 0) { // spaces only before a text, never at the end
            gap += widths[i] + GAP;
            continue;
        }
        pad(o, gap);
        at += gap;
        assert(room == 0 || at <= room);
        if (last && t->column[i].fit == TABLE_WRAP && room != 0) {
            print_wrapped(o, &row[i], at, room - at);
            break;
        }
        size_t wide = print_cut(o, &row[i], widths[i], t->column[i].fit);
        at += wide;
        gap = widths[i] - wide + GAP;
    }
    out_add(o, STR("\n"));
}

/// A row as a block: its first cell, then the others with their heads.
static void print_block(const struct table *t, struct out *o, size_t room, const struct cell *row)
{
    assert(room != 0 && row < t->cells.p + t->cells.n);
    size_t heads = 0;
    for (size_t i = 1; i < t->columns; i++) {
        heads = MAX(heads, text_width(str_of(t->column[i].head)));
    }
    size_t indent = GAP + (heads != 0 ? heads + GAP : GAP);
    out_tinted(o, row[0].tint, row[0].text);
    out_add(o, STR("\n"));
    for (size_t i = 1; i < t->columns; i++) {
        if (row[i].text.n != 0) {
            pad(o, GAP);
            out_tinted(o, OUT_DIM, str_of(t->column[i].head));
            pad(o, indent - GAP - text_width(str_of(t->column[i].head)));
            print_wrapped(o, &row[i], indent, room > indent + LEAST ? room - indent : LEAST);
            out_add(o, STR("\n"));
        }
    }
}

void table_print(const struct table *t, struct out *o)
{
    size_t widths[TABLE_COLUMNS] = {0};
    size_t room = o->terminal ? tty_size(STDOUT_FILENO).ws_col : 0;
    struct cell heads[TABLE_COLUMNS];
    assert(t->cells.n % t->columns == 0);
    measure(t, room != 0, widths);
    bool fits = room == 0 || shrink(t, room, widths);
    for (size_t i = 0; i < t->columns; i++) {
        heads[i] = (struct cell){.text = str_of(t->column[i].head), .tint = OUT_DIM};
    }
    if (room != 0 && fits && heads[0].text.n != 0 && t->cells.n != 0) {
        print_columns(t, o, room, widths, heads);
    }
    for (size_t i = 0; i < t->cells.n; i += t->columns) {
        if (fits) {
            print_columns(t, o, room, widths, &t->cells.p[i]);
        } else {
            print_block(t, o, room, &t->cells.p[i]);
        }
    }
}
