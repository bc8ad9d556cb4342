// The store's public face: each call goes to the implementation that store_open() chose.
//
// There are two, files under AFLOAT_HOME and PostgreSQL. Nothing outside this folder sees which it is, but
// whether other hubs use it too.

#include "store/store.h"

#include <assert.h>

#include "store/session_request_int.h"
#include "store/store_int.h"

static bool id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

int store_open(struct store **out, struct loop *l, const struct store_opts *opts, store_done *ready,
               void *arg, struct err *e)
{
    return (opts->team != NULL ? store__pg_open : store__files_open)(out, l, opts, ready, arg, e);
}

void store_close(struct store *s, store_done *closed, void *arg)
{
    s->ops->close(s, closed, arg);
}

bool store_id_valid(struct str id)
{
    if (id.n == 0 || id.n > STORE_ID_MAX || id.p[0] == '.' || id.p[id.n - 1] == '.') {
        return false;
    }
    for (size_t i = 0; i < id.n; i++) {
        if (!id_char(id.p[i]) || (id.p[i] == '.' && id.p[i - 1] == '.')) {
            return false;
        }
    }
    return true;
}

void store_session_new(struct store *s, struct str id, struct str dir, struct str meta,
                       store_done *cb, void *arg)
{
    s->ops->request(s, id, session_request__new(id, dir, meta, cb, arg));
}

void store_session_meta(struct store *s, struct str id, struct str meta, store_done *cb, void *arg)
{
    s->ops->request(s, id, session_request__meta(meta, cb, arg));
}

void store_session_remove(struct store *s, struct str id, store_done *cb, void *arg)
{
    s->ops->request(s, id, session_request__remove(cb, arg));
}

void store_rescan(struct store *s, struct str dir, store_done *cb, void *arg)
{
    s->ops->rescan(s, dir, cb, arg);
}

void store_append(struct store *s, struct str id, const struct store_event *events, size_t n,
                  enum store_durability durability, store_append_cb *cb, void *arg)
{
    s->ops->request(s, id, session_request__append(events, n, durability, cb, arg));
}

void store_read(struct store *s, struct str id, uint64_t after, size_t limit, store_page_cb *cb,
                void *arg)
{
    s->ops->request(s, id, session_request__read(after, limit, cb, arg));
}

void store_list(struct store *s, const struct store_filter *f, struct str cursor, size_t limit,
                store_rows_cb *cb, void *arg)
{
    s->ops->list(s, f, cursor, limit, cb, arg);
}

void store_doc_get(struct store *s, struct str name, store_text_cb *cb, void *arg)
{
    s->ops->doc_get(s, name, cb, arg);
}

void store_doc_put(struct store *s, struct str name, struct str json, store_done *cb, void *arg)
{
    s->ops->doc_put(s, name, json, cb, arg);
}

void store_doc_set(struct store *s, struct str name, struct str key, struct str value,
                   store_done *cb, void *arg)
{
    s->ops->doc_set(s, name, key, value, cb, arg);
}

// ---- several hubs -------------------------------------------------------------------------

bool store_shared(const struct store *s)
{
    return s->ops->follow != NULL;
}

void store_claim(struct store *s, struct str id, store_claim_cb *cb, void *arg)
{
    assert(store_shared(s));
    s->ops->request(s, id, session_request__claim(cb, arg));
}

void store_release(struct store *s, struct str id)
{
    assert(store_shared(s));
    s->ops->request(s, id, session_request__release());
}

void store_follow(struct store *s, size_t backlog, store_stream_cb *cb, store_done *ready,
                  void *arg)
{
    assert(store_shared(s));
    s->ops->follow(s, backlog, cb, ready, arg);
}

void store_unfollow(struct store *s)
{
    assert(store_shared(s));
    s->ops->unfollow(s);
}

void store_emit(struct store *s, struct str type, struct str session, struct str fields,
                store_emit_cb *cb, void *arg)
{
    assert(store_shared(s));
    s->ops->emit(s, type, session, fields, cb, arg);
}

void store_stream_read(struct store *s, uint64_t after, size_t limit, store_stream_page_cb *cb,
                       void *arg)
{
    assert(store_shared(s));
    s->ops->stream_read(s, after, limit, cb, arg);
}

const struct err *store_trouble(struct store *s)
{
    return s->ops->trouble != NULL ? s->ops->trouble(s) : NULL;
}

void store_health(struct store *s, store_text_cb *cb, void *arg)
{
    s->ops->health(s, cb, arg);
}

void store_metrics(struct store *s, struct buf *out)
{
    if (s->ops->metrics != NULL) {
        s->ops->metrics(s, out);
    }
}
