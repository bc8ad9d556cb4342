// The documents that hubs have in common: feature choices, memory and skills of bots. Each is compared after it was
// written.

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>

#include "base/path.h"
#include "pg/pg.h"
#include "store/move_int.h"

/// What becomes of a document that is there already, and differs.
enum clash { CLASH_REFUSE, CLASH_REPLACE, CLASH_LARGER };

/// Documents that hubs have in common, and where a home has them.
static const struct {
    const char *form;
    enum clash clash;
} forms[] = {{"choices.json", CLASH_REPLACE},
             {"skills/*.md", CLASH_REFUSE},
             {"bots/*/skills/*.md", CLASH_REFUSE},
             {"bots/*/workspaces/*/memory.json", CLASH_REFUSE},
             {"bots/*/workspaces/*/session_number", CLASH_LARGER}};

/// Which form a name has; -1: none.
static int form_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (fnmatch(forms[i].form, name, FNM_PATHNAME | FNM_PERIOD) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int move__doc_get(const struct move_side *s, const char *name, struct buf *out, struct err *e)
{
    int rc;
    if (s->pg == NULL) {
        char *path = path_join(s->home, name);
        rc = path_read(path, out, e);
        rc = rc == -ENOENT ? 0 : rc;
        free(path);
    } else {
        struct pg_result *r;
        const struct pg_param param = pg_text(str_of(name));
        rc = pg_link_run(
            s->pg, "SELECT body FROM afloat.documents WHERE owner = current_user AND name = $1",
            &param, 1, &r, e);
        if (rc == 0) {
            buf_adds(out, pg_rows(r) != 0 ? pg_get(r, 0, 0) : STR_NULL);
            pg_result_free(r);
        }
    }
    buf_cut(out, str_trim(buf_str(out)).n);
    return rc;
}

static int put_document(const struct move_side *s, const char *name, struct str body, struct err *e)
{
    if (s->pg != NULL) {
        const struct pg_param params[] = {pg_text(str_of(name)), pg_text(body)};
        return pg_link_run(s->pg, "SELECT afloat.document_put($1, $2)", params, 2, NULL, e);
    }
    char *path = path_join(s->home, name), *dir = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(dir, 0700, e);
    rc = rc == 0 ? path_write_atomic(path, body, 0600, e) : rc;
    free(dir);
    free(path);
    return rc;
}

/// Both are numbers, and `has` is not the smaller one.
static bool is_past(struct str has, struct str body)
{
    uint64_t x, y;
    return str_to_u64(has, &x) && str_to_u64(body, &y) && x >= y;
}

int move__doc_take(const struct move_side *s, const char *name, struct str body, struct err *e)
{
    struct buf has = {.max = SIZE_MAX};
    int form = form_of(name);
    if (form < 0) {
        return err_set(e, ERR_CORRUPT, "the file has an invalid document: '%s'", name);
    }
    body = str_trim(body);
    int rc = move__doc_get(s, name, &has, e);
    bool same = str_eq(buf_str(&has), body);
    if (rc == 0 && !same && has.n != 0 && forms[form].clash == CLASH_REFUSE) {
        rc = err_set(e, ERR_CONFLICT, "'%s' is there already, and differs", name);
    }
    if (rc == 0 && !same && !(forms[form].clash == CLASH_LARGER && is_past(buf_str(&has), body))) {
        rc = put_document(s, name, body, e);
        buf_clear(&has);
        rc = rc == 0 ? move__doc_get(s, name, &has, e) : rc;
        if (rc == 0 && !str_eq(buf_str(&has), body)) {
            rc = err_set(e, ERR_CORRUPT, "'%s' was written, and reads differently", name);
        }
    }
    buf_fini(&has);
    return rc;
}

// ---- all of them ------------------------------------------------------------------------------

static int each_in_pg(const struct move_side *s, move_doc_fn *each, void *arg, struct err *e)
{
    struct pg_result *r = NULL;
    int rc = pg_link_run(
        s->pg, "SELECT name FROM afloat.documents WHERE owner = current_user ORDER BY name", NULL,
        0, &r, e);
    size_t n = rc == 0 ? pg_rows(r) : 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        char *name = str_dup(pg_get(r, i, 0));
        rc = form_of(name) >= 0 && move__is_meant(s, str_of(name)) ? each(arg, name) : 0;
        free(name);
    }
    pg_result_free(r);
    return rc;
}

/// A directory that is not there has no documents; one that cannot be listed may have some.
static int on_unlisted(const char *path, int error)
{
    (void)path;
    return error != ENOENT && error != ENOTDIR;
}

static int each_in_files(const struct move_side *s, move_doc_fn *each, void *arg, struct err *e)
{
    struct buf home = {.max = SIZE_MAX};
    int rc = 0;
    for (const char *at = s->home; *at != '\0'; at++) { // it is no pattern
        buf_addz(&home, strchr("\\*?[", *at) != NULL ? "\\" : "");
        buf_addc(&home, *at);
    }
    for (size_t i = 0; i < ARRAY_LEN(forms) && rc == 0; i++) {
        glob_t found = {0};
        char *pattern = xasprintf("%s/%s", buf_z(&home), forms[i].form);
        int status = glob(pattern, 0, on_unlisted, &found);
        rc = status == 0 || status == GLOB_NOMATCH ? 0
                                                   : err_set(e, -EIO, "cannot list '%s'", pattern);
        for (size_t k = 0; k < found.gl_pathc && rc == 0; k++) {
            const char *name = found.gl_pathv[k] + strlen(s->home) + 1;
            rc = move__is_meant(s, str_of(name)) ? each(arg, name) : 0;
        }
        globfree(&found);
        free(pattern);
    }
    buf_fini(&home);
    return rc;
}

int move__doc_each(const struct move_side *s, move_doc_fn *each, void *arg, struct err *e)
{
    return (s->pg != NULL ? each_in_pg : each_in_files)(s, each, arg, e);
}
