// What changed since it was trusted, for the user to read.
//
// The text is untrusted, and the user reads it in order to decide. An escape sequence could paint over a line, a
// direction mark could reorder one, so both are spelt out.

#include "trust/diff.h"

#include "base/linediff.h"
#include "base/utf8.h"
#include "base/visible.h"

static bool is_text(struct str s)
{
    return memchr(s.n != 0 ? s.p : "", '\0', s.n) == NULL && utf8_valid(s);
}

static void diff_bytes(struct buf *out, struct str before, struct str after)
{
    struct buf hunks = {.max = SIZE_MAX};
    if (!is_text(before) || !is_text(after)) {
        buf_addf(out, "binary, %zu bytes before, %zu now\n", before.n, after.n);
        return;
    }
    linediff_hunks(&hunks, before, after);
    for (struct str rest = buf_str(&hunks); rest.n != 0;) {
        visible_add(out, str_cut(&rest, '\n'), true);
        buf_addc(out, '\n');
    }
    buf_fini(&hunks);
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
