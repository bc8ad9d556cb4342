// What changed between two texts, line by line.
//
// Myers' greedy algorithm finds the fewest lines to delete and insert. It tries D = 0, 1, 2, ... changes; `v`
// holds, for each diagonal k = x - y, how far one gets in `before` with D changes, and a copy of it is kept for
// each D, so that the way can be walked back. Common lines at both ends are cut off first: most edits are small.
//
// Time and memory grow with D squared, so D is bounded. Beyond it the part that differs is shown as deleted
// and inserted as a whole.

#include "base/linediff.h"

#include <assert.h>

#include "base/vec.h"

enum { CONTEXT = 3, CHANGES_MAX = 400 };

struct lines {
    struct str *p;
    size_t n, cap;
};

/// One line of the result: of both texts (' '), deleted ('-') or inserted ('+').
struct line_edit {
    char kind;
    struct str line;
    size_t before, after; // lines of each text that come first
};

struct edits {
    struct line_edit *p;
    size_t n, cap;
};

/// A line keeps its line feed, so a last line without one is another line.
static void split(struct lines *out, struct str text)
{
    while (text.n != 0) {
        ptrdiff_t end = str_index(text, '\n');
        struct str line = {text.p, end >= 0 ? (size_t)end + 1 : text.n};
        vec_push(out, line);
        text = str_from(text, line.n);
    }
}

// ---- the fewest changes ---------------------------------------------------------------------------

/// One step of the search: from D - 1 changes in `last` to D in `v`. Both are indexed by k + CHANGES_MAX + 1.
/// True: the end of both texts is reached.
static bool advance(const struct lines *a, const struct lines *b, int d, const int *last, int *v)
{
    for (int k = -d; k <= d; k += 2) {
        int at = k + CHANGES_MAX + 1;
        bool down = k == -d || (k != d && last[at - 1] < last[at + 1]);
        int x = d == 0 ? 0 : down ? last[at + 1] : last[at - 1] + 1;
        int y = x - k;
        while (x < (int)a->n && y >= 0 && y < (int)b->n && str_eq(a->p[x], b->p[y])) {
            x++;
            y++;
        }
        v[at] = x;
        if (x >= (int)a->n && y >= (int)b->n) {
            return true;
        }
    }
    return false;
}

/// Walk back from the end and note each change; the result is in reverse.
static void walk_back(struct edits *out, const struct lines *a, const struct lines *b, int d,
                      int *const *trace)
{
    int x = (int)a->n, y = (int)b->n;
    for (; d > 0; d--) {
        const int *last = trace[d - 1];
        int k = x - y, at = k + CHANGES_MAX + 1;
        bool down = k == -d || (k != d && last[at - 1] < last[at + 1]);
        int from_k = down ? k + 1 : k - 1, from_x = last[from_k + CHANGES_MAX + 1];
        int from_y = from_x - from_k;
        for (; x > from_x && y > from_y; x--, y--) {
            vec_push(out, ((struct line_edit){.kind = ' ', .line = a->p[x - 1]}));
        }
        vec_push(out, down ? ((struct line_edit){.kind = '+', .line = b->p[y - 1]})
                           : ((struct line_edit){.kind = '-', .line = a->p[x - 1]}));
        x = from_x;
        y = from_y;
    }
    for (; x > 0 && y > 0; x--, y--) {
        vec_push(out, ((struct line_edit){.kind = ' ', .line = a->p[x - 1]}));
    }
    assert(x == 0 && y == 0);
}

/// The changes of the part that differs, in reverse.
static void compare(struct edits *out, const struct lines *a, const struct lines *b)
{
    enum { WIDTH = 2 * CHANGES_MAX + 3 };
    int *trace[CHANGES_MAX + 1], d = 0;
    bool found = false;
    for (; d <= CHANGES_MAX && !found; d++) {
        trace[d] = xcalloc(WIDTH, sizeof(int));
        if (d != 0) {
            memcpy(trace[d], trace[d - 1], WIDTH * sizeof(int));
        }
        found = advance(a, b, d, d != 0 ? trace[d - 1] : trace[d], trace[d]);
    }
    if (found) {
        walk_back(out, a, b, d - 1, trace);
    }
    for (size_t i = b->n; i-- > 0 && !found;) { // too many: replace all of it
        vec_push(out, ((struct line_edit){.kind = '+', .line = b->p[i]}));
    }
    for (size_t i = a->n; i-- > 0 && !found;) {
        vec_push(out, ((struct line_edit){.kind = '-', .line = a->p[i]}));
    }
    while (d > 0) {
        free(trace[--d]);
    }
}

// ---- the whole --------------------------------------------------------------------------------------

/// All lines of both texts in order, each with what became of it.
static void collect(struct edits *out, const struct lines *a, const struct lines *b)
{
    size_t head = 0, tail = 0, least = MIN(a->n, b->n);
    struct edits middle = {0};
    while (head < least && str_eq(a->p[head], b->p[head])) {
        head++;
    }
    while (tail < least - head && str_eq(a->p[a->n - 1 - tail], b->p[b->n - 1 - tail])) {
        tail++;
    }
    assert(head + tail <= least);
    const struct lines ma = {.p = a->p + head, .n = a->n - head - tail};
    const struct lines mb = {.p = b->p + head, .n = b->n - head - tail};
    compare(&middle, &ma, &mb);
    for (size_t i = 0; i < head; i++) {
        vec_push(out, ((struct line_edit){.kind = ' ', .line = a->p[i]}));
    }
    while (middle.n != 0) {
        vec_push(out, vec_pop(&middle));
    }
    for (size_t i = a->n - tail; i < a->n; i++) {
        vec_push(out, ((struct line_edit){.kind = ' ', .line = a->p[i]}));
    }
    vec_fini(&middle);
    for (size_t i = 0, before = 0, after = 0; i < out->n; i++) {
        out->p[i].before = before;
        out->p[i].after = after;
        before += out->p[i].kind != '+';
        after += out->p[i].kind != '-';
    }
}

static void write_hunk(struct buf *out, const struct edits *all, size_t from, size_t to)
{
    size_t before = 0, after = 0;
    for (size_t i = from; i < to; i++) {
        before += all->p[i].kind != '+';
        after += all->p[i].kind != '-';
    }
    assert(from < to && to <= all->n);
    const struct line_edit *first = &all->p[from];
    buf_addf(out, "@@ -%zu,%zu +%zu,%zu @@\n", first->before + (before != 0), before,
             first->after + (after != 0), after);
    for (size_t i = from; i < to; i++) {
        struct str line = all->p[i].line;
        buf_addc(out, all->p[i].kind);
        buf_adds(out, line);
        if (line.p[line.n - 1] != '\n') {
            buf_addz(out, "\n\\ No newline at end of file\n");
        }
    }
}

void linediff_hunks(struct buf *out, struct str before, struct str after)
{
    struct lines a = {0}, b = {0};
    struct edits all = {0};
    split(&a, before);
    split(&b, after);
    collect(&all, &a, &b);
    for (size_t i = 0, written = 0; i < all.n; i++) {
        if (all.p[i].kind == ' ') {
            continue;
        }
        size_t end = i + 1; // of the hunk: changes with few common lines between them
        for (size_t k = i; k < all.n && k <= end + 2 * CONTEXT; k++) {
            end = all.p[k].kind != ' ' ? k + 1 : end;
        }
        size_t from = MAX(written, i > CONTEXT ? i - CONTEXT : 0);
        written = MIN(end + CONTEXT, all.n);
        write_hunk(out, &all, from, written);
        i = end;
    }
    vec_fini(&a);
    vec_fini(&b);
    vec_fini(&all);
}

void linediff_write(struct buf *out, struct str name, struct str before, struct str after)
{
    if (!str_eq(before, after)) {
        buf_addf(out, "--- a/" STR_FMT "\n+++ b/" STR_FMT "\n", STR_ARG(name), STR_ARG(name));
        linediff_hunks(out, before, after);
    }
}
