// Requests about sessions: made from the calls of store.h, and answered.
//
// What happens between the two is the implementation's: session.c for files, pg_session.c for PostgreSQL.

#include <assert.h>

#include "base/json.h"
#include "store/session_request_int.h"
#include "store/walk.h"

static struct session_request *make(enum session_request_kind kind, size_t extra, void *arg)
{
    struct session_request *r = xcalloc(1, sizeof *r + extra);
    r->kind = kind;
    r->bytes = extra;
    r->arg = arg;
    buf_init(&r->lines, (size_t)STORE_LINE_MAX + (4 << 20));
    return r;
}

/// Copy a text to `*at`, which then points after the copy.
static struct str copy(char **at, struct str s)
{
    struct str made = {*at, s.n};
    if (s.n != 0) {
        memcpy(*at, s.p, s.n);
    }
    *at += s.n;
    return made;
}

static int check_meta(struct str meta, struct err *e)
{
    struct arena a = {0};
    struct json *v;
    int rc = json_parse(&v, &a, meta, NULL, e);
    if (rc < 0) {
        rc = err_prefix(e, "metadata");
    } else if (v->type != JSON_OBJ) {
        rc = err_set(e, ERR_INVALID, "metadata is not a JSON object");
    }
    arena_fini(&a);
    return rc;
}

struct session_request *session_request__new(struct str id, struct str dir, struct str meta,
                                             store_done *cb, void *arg)
{
    struct session_request *r = make(SESSION_NEW, dir.n + meta.n, arg);
    char *at = (char *)(r + 1);
    r->done = cb;
    r->dir = copy(&at, dir);
    r->meta = copy(&at, meta);
    r->status = check_meta(meta, &r->err);
    if (store_id_valid(id) && !walk_dir_valid(dir, id)) {
        r->status = err_set(&r->err, ERR_INVALID, "not a session's directory: '" STR_FMT "'",
                            (int)MIN(dir.n, 120), dir.p);
    }
    return r;
}

struct session_request *session_request__meta(struct str meta, store_done *cb, void *arg)
{
    struct session_request *r = make(SESSION_META, meta.n, arg);
    char *at = (char *)(r + 1);
    r->done = cb;
    r->meta = copy(&at, meta);
    r->status = check_meta(meta, &r->err);
    return r;
}

struct session_request *session_request__remove(store_done *cb, void *arg)
{
    struct session_request *r = make(SESSION_REMOVE, 0, arg);
    r->done = cb;
    return r;
}

struct session_request *session_request__append(const struct store_event *events, size_t n,
                                                enum store_durability durability,
                                                store_append_cb *cb, void *arg)
{
    struct session_request *r = make(SESSION_APPEND, 0, arg);
    r->bytes = n * sizeof *events;
    for (size_t i = 0; i < n; i++) {
        r->bytes += events[i].type.n + events[i].fields.n;
    }
    r->appended = cb;
    r->durability = durability;
    r->n = n;
    r->events = xmalloc(MAX(r->bytes, 1));
    char *at = (char *)(r->events + n);
    for (size_t i = 0; i < n; i++) {
        r->events[i].type = copy(&at, events[i].type);
        r->events[i].fields = copy(&at, events[i].fields);
    }
    return r;
}

struct session_request *session_request__read(uint64_t after, size_t limit, store_page_cb *cb,
                                              void *arg)
{
    struct session_request *r = make(SESSION_READ, 0, arg);
    r->paged = cb;
    r->after = after;
    r->limit = limit;
    return r;
}

struct session_request *session_request__claim(store_claim_cb *cb, void *arg)
{
    struct session_request *r = make(SESSION_CLAIM, 0, arg);
    r->claimed = cb;
    return r;
}

struct session_request *session_request__release(void)
{
    return make(SESSION_RELEASE, 0, NULL);
}

void session_request__admit(struct session_request *r, struct str id, size_t *queued)
{
    if (!store_id_valid(id)) {
        r->status = err_set(&r->err, ERR_INVALID, "not a session's id: '" STR_FMT "'",
                            (int)MIN(id.n, 80), id.p);
    } else if (r->kind == SESSION_APPEND && *queued + r->bytes > SESSION_QUEUE_MAX) {
        r->status =
            err_set(&r->err, UV_ENOBUFS,
                    "too many events wait to be written for session '" STR_FMT "'", STR_ARG(id));
    }
    *queued += r->bytes;
}

void session_request__answer(struct session_request *r, size_t *queued)
{
    const struct err *e = r->status < 0 ? &r->err : NULL;
    assert(*queued >= r->bytes);
    *queued -= r->bytes;
    if (r->kind == SESSION_READ) {
        r->paged(r->arg, r->status, &r->page, e);
    } else if (r->kind == SESSION_CLAIM) {
        r->claimed(r->arg, r->status, r->row, e);
    } else if (r->appended != NULL) {
        r->appended(r->arg, r->status, &r->result, e);
    } else if (r->done != NULL) {
        r->done(r->arg, r->status, e);
    }
    buf_fini(&r->lines);
    free(r->events);
    free(r);
}
