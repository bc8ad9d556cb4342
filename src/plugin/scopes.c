// The file of scopes: {"improvements": {"NAME": {"scope": "session", "of": "ID"}}}.
//
// It is small and changes when an agent writes an improvement or a user takes one over, so it is
// written as a whole, on a thread, in the order of the changes.

#include "plugin/scopes.h"

#include <errno.h>

#include "base/json.h"
#include "base/log.h"
#include "base/path.h"

enum { FILE_MAX = 1 << 20 };

static const char *const names[] = {[SCOPE_ALL] = "all", [SCOPE_SESSION] = "session"};

// ---- reading -------------------------------------------------------------------------------

static void scope_free(struct scope *s)
{
    if (s != NULL) {
        free(s->of);
        free(s);
    }
}

static void put(struct scopes *s, struct str name, enum scope_kind kind, struct str of)
{
    struct scope *new = xcalloc(1, sizeof *new);
    new->kind = kind;
    new->of = str_dup(of);
    scope_free(map_set(&s->by_name, name, new));
}

// ---- writing -------------------------------------------------------------------------------

struct write_job {
    char *path;
    struct buf text;
    struct err e;
    int rc;
};

static void write_now(void *arg)
{
    struct write_job *j = arg;
    j->rc = path_write_atomic(j->path, buf_str(&j->text), 0600, &j->e);
}

static void on_written(void *arg)
{
    struct write_job *j = arg;
    if (j->rc < 0) {
        log_error(LOG_HUB, "scopes=unsaved error=%s", LOGQ(str_of(j->e.msg)).z);
    }
    buf_fini(&j->text);
    free(j->path);
    free(j);
}

static void save(struct scopes *s)
{
    size_t at = 0;
    struct str name;
    void *value;
    if (s->path == NULL) {
        return;
    }
    struct write_job *j = xcalloc(1, sizeof *j);
    j->path = xstrdup(s->path);
    buf_init(&j->text, SIZE_MAX);
    struct jw w = {.out = &j->text};
    jw_obj(&w);
    jw_kobj(&w, "improvements");
    while (map_next(&s->by_name, &at, &name, &value)) {
        const struct scope *row = value;
        jw_key_str(&w, name);
        jw_obj(&w);
        jw_kstrz(&w, "scope", names[row->kind]);
        jw_kstrz(&w, "of", row->of);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    jw_end_obj(&w);
    buf_addc(&j->text, '\n');
    work_submit(s->lane, 0, write_now, on_written, j);
}

const char *scope_kind_name(enum scope_kind kind)
{
    return names[kind];
}

int scopes_init(struct scopes *s, const char *path, struct lane *lane, struct err *e)
{
    struct buf text = {.max = FILE_MAX};
    struct arena a = {0};
    struct json *doc = NULL;
    *s = (struct scopes){.path = path != NULL ? xstrdup(path) : NULL, .lane = lane};
    int rc = path != NULL ? path_read(path, &text, e) : -ENOENT;
    if (rc == 0) {
        rc = json_parse(&doc, &a, buf_str(&text), NULL, e);
    }
    json_foreach_member (row, json_get(doc, "improvements")) {
        ptrdiff_t kind = str_lookup(json_get_text(&row->value, "scope"), names, ARRAY_LEN(names));
        if (kind >= 0) {
            put(s, row->key, (enum scope_kind)kind, json_get_text(&row->value, "of"));
        } else { // an invalid row is active nowhere: no session has an empty id
            put(s, row->key, SCOPE_SESSION, STR_NULL);
        }
    }
    arena_fini(&a);
    buf_fini(&text);
    return rc == -ENOENT ? 0 : rc;
}

void scopes_fini(struct scopes *s)
{
    map_fini_each(&s->by_name, scope_free);
    free(s->path);
}

struct scope scopes_get(const struct scopes *s, struct str name)
{
    static char nobody[] = "";
    const struct scope *row = map_get(&s->by_name, name);
    return row != NULL ? *row : (struct scope){.kind = SCOPE_ALL, .of = nobody};
}

void scopes_set(struct scopes *s, struct str name, enum scope_kind kind, struct str of)
{
    put(s, name, kind, of);
    save(s);
}

void scopes_forget(struct scopes *s, struct str name)
{
    struct scope *row = map_remove(&s->by_name, name);
    if (row != NULL) {
        scope_free(row);
        save(s);
    }
}
