// A tree as one text, to be kept where there are no files.
//
//     {"file": false, "files": [{"path": "init.lua", "executable": false, "bytes": "<base64>"}, ...]}
//
// The text comes from outside: its reader compares the hash and trusts nothing else in it. Every path is
// checked before it becomes a path of the tree: relative, inside, without empty parts.

#include "base/base64.h"
#include "base/json.h"
#include "store/tree.h"
#include "store/tree_int.h"

void tree_to_text(const struct tree *t, struct buf *out)
{
    struct buf bytes = {.max = SIZE_MAX};
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kbool(&w, "file", t->is_file);
    jw_karr(&w, "files");
    vec_foreach (f, &t->files) {
        buf_clear(&bytes);
        base64_encode(&bytes, f->bytes);
        jw_obj(&w);
        jw_kstrz(&w, "path", f->path);
        jw_kbool(&w, "executable", f->executable);
        jw_kstr(&w, "bytes", buf_str(&bytes));
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    buf_fini(&bytes);
}

/// Could it be the path of a file below a directory?
static bool is_inside(struct str path)
{
    struct str rest = path;
    bool ok = path.n != 0 && memchr(path.p, '\0', path.n) == NULL;
    unsigned depth = 0;
    while (ok && rest.n != 0) {
        struct str part = str_cut(&rest, '/');
        ok = part.n != 0 && !str_eqz(part, ".") && !str_eqz(part, "..") && ++depth <= TREE_DEPTH;
    }
    return ok && path.p[path.n - 1] != '/';
}

static int read_file(struct tree *t, const struct json *from, size_t *total, struct err *e)
{
    struct str path = json_str(json_get(from, "path"), "");
    struct buf bytes = {.max = TREE_FILE_BYTES};
    int rc = 0;
    if (!is_inside(path) || (t->is_file && memchr(path.p, '/', path.n) != NULL)) {
        rc = err_set(e, ERR_DENIED, "the file '%.*s' would not be in the plugin",
                     (int)MIN(path.n, 80), path.p);
    } else if (t->files.n != 0 && str_cmp(str_of(vec_last(&t->files)->path), path) >= 0) {
        rc = err_set(e, ERR_CORRUPT, "its files are not in order");
    } else if (!base64_decode(&bytes, json_str(json_get(from, "bytes"), "")) || !buf_ok(&bytes)) {
        rc =
            err_set(e, ERR_CORRUPT, "the file '%.*s' cannot be read", (int)MIN(path.n, 80), path.p);
    } else if ((*total += bytes.n) > TREE_BYTES || t->files.n == TREE_FILES) {
        rc =
            err_set(e, ERR_TOO_LARGE, "more than %d files or %d MiB", TREE_FILES, TREE_BYTES >> 20);
    } else {
        vec_push(&t->files, ((struct tree_file){
                                .path = arena_strdup(&t->arena, path),
                                .bytes = arena_str(&t->arena, buf_str(&bytes)),
                                .executable = json_bool(json_get(from, "executable"), false)}));
    }
    buf_fini(&bytes);
    return rc;
}

int tree_of_text(struct tree *t, struct str text, struct err *e)
{
    struct arena a = {0};
    struct json *v = NULL;
    size_t total = 0;
    memset(t, 0, sizeof *t);
    int rc = json_parse(&v, &a, text, NULL, e);
    const struct json *files = json_get(v, "files");
    t->is_file = json_bool(json_get(v, "file"), false);
    json_foreach_item (it, files) {
        rc = rc == 0 ? read_file(t, it, &total, e) : rc;
    }
    if (rc == 0 && (t->files.n == 0 || (t->is_file && t->files.n != 1))) {
        rc = err_set(e, ERR_CORRUPT, "it holds no plugin");
    }
    if (rc == 0) {
        tree__hash(t);
    } else {
        tree_fini(t);
    }
    arena_fini(&a);
    return rc;
}
