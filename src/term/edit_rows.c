// The rows of an editor.
//
// A row holds a line of the text or a part of one; all are indented like the first, which has the
// prompt. One column stays free at the right, so that the cursor has a place after a full row. A prompt
// that is too long for one row begins in rows of its own, broken at spaces.
//
// Only lines near the cursor are laid out: back from it until the window is full, then forward. A text
// of a megabyte costs no more to draw than what is seen of it.

#include "base/vec.h"
#include "term/edit.h"
#include "term/text.h"

enum { TAB_WIDTH = 4, LEAST_ROOM = 8 }; // LEAST_ROOM: columns for the text beside a prompt

typedef vec(size_t) offsets;

static struct str part(struct str s, size_t from, size_t to)
{
    return (struct str){str_from(s, from).p, to - from};
}

static size_t cluster(struct str s, size_t *width)
{
    size_t n = text_cluster(s, width);
    *width = s.p[0] == '\t' ? TAB_WIDTH : *width;
    return n;
}

// The end of the row that begins at `at`, and where the next row begins; after the last row that is past the text.
static size_t row_end(struct str text, size_t at, size_t room, size_t *next)
{
    size_t used = 0, start = at;
    while (at < text.n && text.p[at] != '\n') {
        size_t width, n = cluster(str_from(text, at), &width);
        if (used + width > room && at > start) {
            *next = at;
            return at;
        }
        used += width;
        at += n;
    }
    *next = at + 1;
    return at;
}

// Add the starts of the rows of the line that begins at `from`, up to the row that holds `to`.
static void add_starts(offsets *out, struct str text, size_t from, size_t to, size_t room)
{
    for (size_t next = from; next <= to && next <= text.n;) {
        vec_push(out, next);
        size_t end = row_end(text, next, room, &next);
        if (next > end) {
            break;
        }
    }
}

// Where the first row to be shown begins, and how many rows before that of the cursor it is.
static size_t find_top(const struct edit *ed, size_t rows, size_t room, size_t *above)
{
    struct str text = edit_text(ed);
    offsets starts = {0};
    size_t top = ed->at, to = ed->at;
    *above = 0;
    for (bool first = true, more = true; more; first = false) {
        const char *feed = to > 0 ? memrchr(text.p, '\n', to) : NULL;
        size_t from = feed != NULL ? (size_t)(feed - text.p) + 1 : 0;
        starts.n = 0;
        add_starts(&starts, text, from, to, room);
        size_t seen = starts.n - first, fit = MIN(seen, rows - 1 - *above);
        top = starts.p[seen - fit];
        *above += fit;
        more = from > 0 && *above < rows - 1;
        to = from - 1;
    }
    vec_fini(&starts);
    return top;
}

static void add_row(struct buf *out, struct str row)
{
    while (row.n != 0) {
        size_t width, n = text_cluster(row, &width);
        if (row.p[0] == '\t') {
            buf_addf(out, "%*s", TAB_WIDTH, "");
        } else {
            buf_add(out, row.p, n);
        }
        row = str_from(row, n);
    }
    buf_addc(out, '\n');
}

static size_t column_of(struct str left)
{
    size_t used = 0;
    while (left.n != 0) {
        size_t width, n = cluster(left, &width);
        used += width;
        left = str_from(left, n);
    }
    return used;
}

static void write_prompt(const struct edit *ed, const char *given, struct buf *out)
{
    if (ed->searching) {
        bool none = ed->found == ed->history.n && ed->query.n != 0;
        buf_addf(out, "(%s '" STR_FMT "') ", none ? "not in the history:" : "search",
                 STR_ARG(buf_str(&ed->query)));
    } else {
        buf_addz(out, given);
    }
}

// Move the first rows of a prompt that leaves too little room to `out`, at most `most` of them. Returns how many.
static size_t add_prompt_rows(struct buf *out, struct str *prompt, size_t most, size_t cols)
{
    size_t n = 0, width = cols - LEAST_ROOM - 1;
    for (; n < most && cols > 2 * LEAST_ROOM && text_width(*prompt) > width; n++) {
        size_t fit = text_fit(*prompt, width, NULL), end = fit;
        while (end > 0 && prompt->p[end - 1] != ' ') {
            end--;
        }
        add_row(out, part(*prompt, 0, end != 0 ? end : fit));
        *prompt = str_from(*prompt, end != 0 ? end : fit);
    }
    return n;
}

struct edit_place edit_lines(const struct edit *ed, struct buf *out, const char *given, size_t rows,
                             size_t cols)
{
    struct str text = edit_text(ed);
    struct buf whole = {.max = SIZE_MAX}, first = {.max = SIZE_MAX};
    write_prompt(ed, given, &whole);
    rows = MAX(rows, 1);
    struct str prompt = buf_str(&whole);
    size_t before = add_prompt_rows(&first, &prompt, rows - 1, cols), above;
    size_t indent = text_width(prompt);
    indent = cols > indent + LEAST_ROOM ? indent : 0;
    size_t room = cols > indent + 1 ? cols - indent - 1 : 1;
    rows -= before;
    size_t top = find_top(ed, rows, room, &above);
    struct edit_place cursor = {above, indent};
    if (top == 0) {
        buf_adds(out, buf_str(&first));
        cursor.row += before;
    }
    for (size_t row = 0, at = top; row < rows && at <= text.n; row++) {
        size_t next, end = row_end(text, at, room, &next);
        if (indent != 0 && at == 0) {
            buf_adds(out, prompt);
        } else {
            buf_addf(out, "%*s", (int)indent, "");
        }
        if (row == above) {
            cursor.col += MIN(column_of(part(text, at, ed->at)), room);
        }
        add_row(out, part(text, at, end));
        at = next;
    }
    buf_fini(&whole);
    buf_fini(&first);
    return cursor;
}
