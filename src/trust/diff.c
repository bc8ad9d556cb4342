// What changed since it was trusted, for a person to read.
//
//     lines of both ── same start and end cut off ── longest common subsequence of the middle
//                   ── script of ' ', '-', '+' ── hunks with three lines around them
//
// The table of the middle takes lines times lines; where that is too much the middle is shown as taken
// out and put in, which is long but never wrong.
//
// The text shown is what a stranger wrote to be looked at before it is trusted: an escape sequence could
// paint over a line, a direction mark could reorder one. Both are spelt out.

#include "trust/diff.h"

#include "base/utf8.h"
#include "base/visible.h"

enum { CONTEXT = 3, TABLE_MAX = 4 << 20 };

struct lines {
    vec(struct str) v; // without their line ends
};

struct edit {
    char op; // ' ', '-' or '+'
    struct str line;
    size_t before, after; // lines of both that lie before it
};

struct script {
    vec(struct edit) v;
    size_t before, after;
};

static struct lines split(struct str text)
{
    struct lines l = {0};
    while (text.n != 0) {
        struct str line = str_cut(&text, '\n');
        vec_push(&l.v, line);
    }
    return l;
}

static void emit(struct script *s, char op, struct str line)
{
    struct edit e = {op, line, s->before, s->after};
    vec_push(&s->v, e);
    s->before += op != '+';
    s->after += op != '-';
}

/// len[i][j]: common lines of a[i..] and b[j..].
static void compare(struct script *s, const struct str *a, size_t n, const struct str *b, size_t m)
{
    size_t w = m + 1, i = 0, j = 0;
    uint32_t *len = NULL;
    if ((n + 1) * w <= TABLE_MAX) {
        len = xcalloc((n + 1) * w, sizeof *len);
        for (size_t x = n; x-- > 0;) {
            for (size_t y = m; y-- > 0;) {
                len[x * w + y] = str_eq(a[x], b[y]) ? len[(x + 1) * w + y + 1] + 1
                                                    : MAX(len[(x + 1) * w + y], len[x * w + y + 1]);
            }
        }
    }
    while (i < n && j < m) {
        if (len != NULL && str_eq(a[i], b[j])) {
            emit(s, ' ', a[i]);
            i++, j++;
        } else if (len == NULL || len[(i + 1) * w + j] >= len[i * w + j + 1]) {
            emit(s, '-', a[i++]);
        } else {
            emit(s, '+', b[j++]);
        }
    }
    while (i < n) {
        emit(s, '-', a[i++]);
    }
    while (j < m) {
        emit(s, '+', b[j++]);
    }
    free(len);
}

static void make_script(struct script *s, const struct lines *a, const struct lines *b)
{
    size_t n = a->v.n, m = b->v.n, head = 0, tail = 0;
    while (head < MIN(n, m) && str_eq(a->v.p[head], b->v.p[head])) {
        emit(s, ' ', a->v.p[head++]);
    }
    while (tail < MIN(n, m) - head && str_eq(a->v.p[n - 1 - tail], b->v.p[m - 1 - tail])) {
        tail++;
    }
    if (n + m != 0) {
        compare(s, a->v.p + head, n - head - tail, b->v.p + head, m - head - tail);
    }
    for (size_t i = n - tail; i < n; i++) {
        emit(s, ' ', a->v.p[i]);
    }
}

/// One hunk: the edits [from, to).
static void write_hunk(struct buf *out, const struct script *s, size_t from, size_t to)
{
    size_t gone = 0, come = 0;
    for (size_t i = from; i < to; i++) {
        gone += s->v.p[i].op != '+';
        come += s->v.p[i].op != '-';
    }
    const struct edit *first = &s->v.p[from];
    buf_addf(out, "@@ -%zu,%zu +%zu,%zu @@\n", first->before + (gone != 0), gone,
             first->after + (come != 0), come);
    for (size_t i = from; i < to; i++) {
        buf_addc(out, s->v.p[i].op);
        visible_add(out, s->v.p[i].line, true);
        buf_addc(out, '\n');
    }
}

/// The next edit that changes something, from `i` on.
static size_t next_change(const struct script *s, size_t i)
{
    while (i < s->v.n && s->v.p[i].op == ' ') {
        i++;
    }
    return i;
}

static void write_hunks(struct buf *out, const struct script *s)
{
    size_t at = next_change(s, 0);
    while (at < s->v.n) {
        size_t from = at > CONTEXT ? at - CONTEXT : 0, last = at;
        for (size_t n = at; n < s->v.n && n - last <= 2 * CONTEXT; n = next_change(s, n + 1)) {
            last = n;
        }
        size_t to = MIN(last + CONTEXT + 1, s->v.n);
        write_hunk(out, s, from, to);
        at = next_change(s, to);
    }
}

static bool is_text(struct str s)
{
    return memchr(s.n != 0 ? s.p : "", '\0', s.n) == NULL && utf8_valid(s);
}

static void diff_bytes(struct buf *out, struct str before, struct str after)
{
    if (!is_text(before) || !is_text(after)) {
        buf_addf(out, "binary, %zu bytes before, %zu now\n", before.n, after.n);
        return;
    }
    struct lines a = split(before), b = split(after);
    struct script s = {0};
    make_script(&s, &a, &b);
    write_hunks(out, &s);
    if (next_change(&s, 0) == s.v.n && !str_eq(before, after)) {
        buf_addz(out, "differs in the line end of its last line\n");
    }
    vec_fini(&s.v);
    vec_fini(&a.v);
    vec_fini(&b.v);
}

static void write_name(struct buf *out, const char *mark, const char *path, const struct tree *t,
                       const struct tree_file *f)
{
    buf_addz(out, mark);
    if (f == NULL) {
        buf_addz(out, "(none)");
    } else {
        visible_add(out, str_of(path), false);
        buf_addz(out, path[0] != '\0' && !t->is_file ? "/" : "");
        visible_add(out, t->is_file ? STR_NULL : str_of(f->path), false);
    }
    buf_addc(out, '\n');
}

static void diff_file(struct buf *out, const char *path, const struct tree *before,
                      const struct tree_file *a, const struct tree *after,
                      const struct tree_file *b)
{
    if (a != NULL && b != NULL && str_eq(a->bytes, b->bytes) && a->executable == b->executable) {
        return;
    }
    write_name(out, "--- ", path, before, a);
    write_name(out, "+++ ", path, after, b);
    if (a != NULL && b != NULL && a->executable != b->executable) {
        buf_addf(out, "is %s executable\n", b->executable ? "now" : "no longer");
    }
    diff_bytes(out, a != NULL ? a->bytes : STR_NULL, b != NULL ? b->bytes : STR_NULL);
}

void trust_diff(struct buf *out, const char *path, const struct tree *before,
                const struct tree *after)
{
    size_t i = 0, j = 0, n = before != NULL ? before->files.n : 0;
    size_t m = after != NULL ? after->files.n : 0;
    while (i < n || j < m) { // both are sorted
        const struct tree_file *a = i < n ? &before->files.p[i] : NULL;
        const struct tree_file *b = j < m ? &after->files.p[j] : NULL;
        int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->path, b->path);
        diff_file(out, path, before, order <= 0 ? a : NULL, after, order >= 0 ? b : NULL);
        i += order <= 0;
        j += order >= 0;
    }
}
