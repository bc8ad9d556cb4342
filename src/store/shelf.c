// Texts of bots, in files or in the documents of a shared store.
//
// Workers block, and the pool of connections belongs to the loop. So a worker adds its request to a list, wakes
// the loop, and sleeps until the loop has the answer:
//
//     worker: ask ──> list, under the lock ──> uv_async ──> sleeps on its semaphore
//     loop:            door opens ──> pg_query() ──> rows into the ask ──> wakes the worker
//
// The pool answers every request, if only with an error (pg.h), so no worker sleeps forever. It sends requests
// again whose answer was lost: a write that finds its own text with the next revision was done already.
//
// Invariant: a worker that asks runs a job of a lane, and a store is closed after the lanes that use it; so the list is
// empty when the store closes.

#include "store/shelf.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "store/move.h"
#include "store/pg_store.h"

// each gives rows of name, text, revision
#define ROW " RETURNING name, body, rev"
#define AT  " WHERE owner = current_user AND name = $1"

static const struct pg_stmt stmt_get = {"shelf_get",
                                        "SELECT name, body, rev FROM afloat.documents" AT};
static const struct pg_stmt stmt_list = {
    "shelf_list", "SELECT name, body, rev FROM afloat.documents WHERE owner = current_user"
                  " AND name >= $1 AND name < $1 || chr(1114111) ORDER BY name"};
static const struct pg_stmt stmt_make = {
    "shelf_make", "INSERT INTO afloat.documents (name, body, rev) VALUES ($1, $2, 1)"
                  " ON CONFLICT DO NOTHING" ROW};
static const struct pg_stmt stmt_change = {
    "shelf_change", "UPDATE afloat.documents SET body = $2, rev = rev + 1" AT " AND rev = $3" ROW};
static const struct pg_stmt stmt_drop = {"shelf_drop",
                                         "DELETE FROM afloat.documents" AT " AND rev = $2" ROW};
static const struct pg_stmt stmt_aside = {"shelf_aside",
                                          "UPDATE afloat.documents SET name = $2" AT ROW};
static const struct pg_stmt stmt_number = {
    "shelf_number",
    "INSERT INTO afloat.documents AS d (name, body, rev) VALUES ($1, greatest($3::bigint, 1 +"
    " CASE WHEN EXISTS (SELECT FROM afloat.documents" AT ") THEN 0 ELSE"
    "  (SELECT coalesce(max((meta::jsonb ->> 'session_number')::bigint), 0) FROM afloat.sessions"
    "   WHERE owner = current_user AND dir >= $2 AND dir < $2 || chr(1114111)) END)::text, 1)"
    " ON CONFLICT (owner, name) DO UPDATE SET rev = d.rev + 1, body ="
    "  CASE WHEN $3::bigint > 0 THEN greatest(d.body::bigint, $3::bigint)"
    "  ELSE d.body::bigint + 1 END::text" ROW};

static const struct pg_stmt stmt_count = {
    "shelf_count", "SELECT '', '', count(*) FROM afloat.sessions WHERE owner = current_user"
                   " AND dir >= $1 AND dir < $1 || chr(1114111)"};
static const struct pg_stmt stmt_session = {
    "shelf_session",
    "SELECT id, meta, last_seq FROM afloat.sessions WHERE owner = current_user AND dir = $1"};
static const struct pg_stmt stmt_tail = {
    "shelf_tail",
    "SELECT session, '{\"type\":\"' || type || '\"' || CASE fields WHEN '' THEN '' ELSE ','"
    " || fields END || '}', seq FROM afloat.events WHERE owner = current_user"
    " AND session = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 200"};

/// One request of a worker, in its own memory.
struct shelf_ask {
    struct shelf_ask *next;
    const struct pg_stmt *stmt;
    const struct pg_param *params;
    int n_params;
    struct arena *a; // where rows go
    struct shelf_texts rows;
    struct err *e;
    int rc;
    uv_sem_t done;
};

struct shelf {
    struct pg_store *p;
    uv_async_t door;
    uv_mutex_t lock;
    struct shelf_ask *asks; // under the lock; in any order
};

// ---- on the loop ------------------------------------------------------------------------------

static void on_answer(void *arg, const struct pg_result *r, const struct err *e)
{
    struct shelf_ask *q = arg;
    q->rc = e != NULL ? err_set(q->e, e->code, "%s", e->msg) : 0;
    q->rows.n = r != NULL ? pg_rows(r) : 0;
    q->rows.list = arena_calloc(q->a, q->rows.n + 1, sizeof *q->rows.list);
    for (size_t i = 0; i < q->rows.n; i++) {
        q->rows.list[i] = (struct shelf_text){.name = arena_strdup(q->a, pg_get(r, i, 0)),
                                              .text = arena_str(q->a, pg_get(r, i, 1)),
                                              .rev = pg_get_int(r, i, 2)};
    }
    uv_sem_post(&q->done); // `q` is the worker's again
}

static void on_door(uv_async_t *h)
{
    struct shelf *sh = h->data;
    uv_mutex_lock(&sh->lock);
    struct shelf_ask *list = sh->asks;
    sh->asks = NULL;
    uv_mutex_unlock(&sh->lock);
    for (struct shelf_ask *q = list, *next; q != NULL; q = next) {
        next = q->next;
        if (sh->p->gone || sh->p->pg == NULL) {
            struct err e;
            err_set(&e, UV_ECANCELED, "the store is being closed");
            on_answer(q, NULL, &e);
        } else {
            pg_query(sh->p->pg, map_hash(q->params[0].value), q->stmt, q->params, q->n_params,
                     on_answer, q);
        }
    }
}

struct shelf *shelf__open(struct pg_store *p)
{
    struct shelf *sh = xcalloc(1, sizeof *sh);
    sh->p = p;
    int rc = uv_mutex_init(&sh->lock);
    rc = rc == 0 ? uv_async_init(&p->loop->uv, &sh->door, on_door) : rc;
    assert(rc == 0); // only memory can be short
    (void)rc;
    sh->door.data = sh;
    uv_unref((uv_handle_t *)&sh->door); // a worker that waits keeps the loop alive by itself
    return sh;
}

static void on_closed(uv_handle_t *h)
{
    struct shelf *sh = h->data;
    uv_mutex_destroy(&sh->lock);
    free(sh);
}

void shelf__close(struct shelf *sh)
{
    assert(sh->asks == NULL);
    uv_close((uv_handle_t *)&sh->door, on_closed);
}

struct shelf *store_shelf(struct store *s)
{
    return store_shared(s) ? pg_store_of(s)->shelf : NULL;
}

// ---- on workers -------------------------------------------------------------------------------

static int ask(struct shelf *sh, const struct pg_stmt *stmt, const struct pg_param *params, int n,
               struct arena *a, struct shelf_texts *out, struct err *e)
{
    struct shelf_ask q = {.stmt = stmt, .params = params, .n_params = n, .a = a, .e = e};
    int rc = uv_sem_init(&q.done, 0);
    assert(rc == 0);
    (void)rc;
    uv_mutex_lock(&sh->lock);
    q.next = sh->asks;
    sh->asks = &q;
    uv_mutex_unlock(&sh->lock);
    uv_async_send(&sh->door);
    uv_sem_wait(&q.done);
    uv_sem_destroy(&q.done);
    *out = q.rows;
    return q.rc;
}

/// The name of a document: its path relative to the home.
static struct str name_of(const struct shelf *sh, const char *path)
{
    const char *below = path_below(sh->p->home, path);
    return str_of(below != NULL ? below : path);
}

int shelf_read(struct shelf *sh, const char *path, struct buf *out, int64_t *rev, struct err *e)
{
    struct shelf_texts found;
    struct arena a = {0};
    *rev = 0;
    if (sh == NULL) {
        return path_read(path, out, e);
    }
    const struct pg_param name = pg_text(name_of(sh, path));
    int rc = ask(sh, &stmt_get, &name, 1, &a, &found, e);
    if (rc == 0 && found.n == 0) {
        rc = err_set(e, -ENOENT, "there is no '%s' in the store", path);
    } else if (rc == 0) {
        *rev = found.list[0].rev;
        buf_adds(out, found.list[0].text);
        rc = buf_ok(out) ? 0 : err_set(e, ERR_TOO_LARGE, "'%s' is too large", path);
    }
    arena_fini(&a);
    return rc;
}

/// A write changed no row. 0 when an earlier try of ours made this change; ERR_CONFLICT when another hub made one.
static int judge(struct shelf *sh, struct str name, struct str text, int64_t rev, struct arena *a,
                 struct err *e)
{
    struct shelf_texts now;
    const struct pg_param param = pg_text(name);
    int rc = ask(sh, &stmt_get, &param, 1, a, &now, e);
    bool ours =
        rc == 0 && now.n == 1 && now.list[0].rev == rev + 1 && str_eq(now.list[0].text, text);
    return rc < 0 || ours
               ? rc
               : err_set(e, ERR_CONFLICT, "another hub has changed '" STR_FMT "'", STR_ARG(name));
}

int shelf_write(struct shelf *sh, const char *path, struct str text, int64_t rev, struct err *e)
{
    struct shelf_texts written;
    struct arena a = {0};
    struct pg_number n;
    if (sh == NULL) {
        return path_write_atomic(path, text, 0600, e);
    }
    struct str name = name_of(sh, path);
    const struct pg_param params[] = {pg_text(name), pg_text(text), pg_int(&n, rev)};
    int rc =
        ask(sh, rev == 0 ? &stmt_make : &stmt_change, params, rev == 0 ? 2 : 3, &a, &written, e);
    rc = rc == 0 && written.n == 0 ? judge(sh, name, text, rev, &a, e) : rc;
    arena_fini(&a);
    return rc;
}

int shelf_remove(struct shelf *sh, const char *path, int64_t rev, struct err *e)
{
    struct shelf_texts dropped, now = {0};
    struct arena a = {0};
    struct pg_number n;
    const struct pg_param params[] = {pg_text(name_of(sh, path)), pg_int(&n, rev)};
    int rc = ask(sh, &stmt_drop, params, 2, &a, &dropped, e);
    rc = rc == 0 && dropped.n == 0 ? ask(sh, &stmt_get, params, 1, &a, &now, e) : rc;
    if (rc == 0 && now.n != 0) {
        rc = err_set(e, ERR_CONFLICT, "another hub has changed '%s'", path);
    }
    arena_fini(&a);
    return rc;
}

int shelf_set_aside(struct shelf *sh, const char *path, char **kept, struct err *e)
{
    int64_t now = time_wall_ms();
    *kept = xasprintf("%s.corrupt-%lld", path, (long long)now);
    if (sh == NULL) {
        while (access(*kept, F_OK) == 0) {
            free(*kept);
            *kept = xasprintf("%s.corrupt-%lld", path, (long long)++now);
        }
        return rename(path, *kept) == 0 ? 0 : err_sys(e, "cannot set '%s' aside", path);
    }
    struct shelf_texts moved;
    struct arena a = {0};
    const struct pg_param params[] = {pg_text(name_of(sh, path)), pg_text(name_of(sh, *kept))};
    int rc = ask(sh, &stmt_aside, params, 2, &a, &moved, e);
    arena_fini(&a);
    return rc;
}

/// Ask about all that is below `dir`.
static int ask_below(struct shelf *sh, const struct pg_stmt *stmt, const char *dir, struct arena *a,
                     struct shelf_texts *out, struct err *e)
{
    char *prefix = xasprintf(STR_FMT "/", STR_ARG(name_of(sh, dir)));
    const struct pg_param param = pg_text(str_of(prefix));
    int rc = ask(sh, stmt, &param, 1, a, out, e);
    free(prefix);
    return rc;
}

int shelf_list(struct shelf *sh, const char *dir, struct arena *a, struct shelf_texts *out,
               struct err *e)
{
    *out = (struct shelf_texts){0};
    return sh != NULL ? ask_below(sh, &stmt_list, dir, a, out, e) : 0;
}

int shelf_count(struct shelf *sh, const char *dir, size_t *out, struct err *e)
{
    struct shelf_texts found;
    struct arena a = {0};
    int rc = ask_below(sh, &stmt_count, dir, &a, &found, e);
    *out = rc == 0 ? (size_t)found.list[0].rev : 0;
    arena_fini(&a);
    return rc;
}

int shelf_session(struct shelf *sh, const char *dir, size_t max, struct buf *meta,
                  struct buf *lines, struct err *e)
{
    struct shelf_texts page;
    struct arena a = {0};
    struct pg_number n;
    vec(struct str) found = {0}; // the last one first
    size_t bytes = 0;
    struct pg_param params[] = {pg_text(name_of(sh, dir)), PG_NULL};
    int rc = ask(sh, &stmt_session, params, 1, &a, &page, e);
    if (rc == 0 && page.n == 0) {
        rc = err_set(e, -ENOENT, "there is no session in '%s'", dir);
    }
    int64_t last = rc == 0 ? page.list[0].rev : 0;
    if (rc == 0) {
        buf_adds(meta, page.list[0].text);
        params[0] = pg_text(str_of(page.list[0].name));
    }
    while (rc == 0 && last > 0 && bytes < max) {
        params[1] = pg_int(&n, last);
        rc = ask(sh, &stmt_tail, params, 2, &a, &page, e);
        last = rc == 0 && page.n != 0 ? page.list[page.n - 1].rev - 1 : 0;
        for (size_t i = 0; i < page.n && bytes < max; i++) {
            vec_push(&found, page.list[i].text);
            bytes += page.list[i].text.n + 1;
        }
    }
    for (size_t i = found.n; i > 0; i--) {
        buf_adds(lines, found.p[i - 1]);
        buf_addc(lines, '\n');
    }
    vec_fini(&found);
    arena_fini(&a);
    return rc;
}

int shelf_number(struct shelf *sh, const char *dir, uint64_t at_least, uint64_t *out, struct err *e)
{
    struct shelf_texts now;
    struct arena a = {0};
    struct pg_number n;
    struct str space = name_of(sh, dir);
    char *name = xasprintf(STR_FMT "/session_number", STR_ARG(space));
    char *history = xasprintf(STR_FMT "/history/", STR_ARG(space));
    const struct pg_param params[] = {pg_text(str_of(name)), pg_text(str_of(history)),
                                      pg_int(&n, (int64_t)at_least)};
    int rc = ask(sh, &stmt_number, params, 3, &a, &now, e);
    if (rc == 0) {
        assert(now.n == 1);
        rc = str_to_u64(now.list[0].text, out)
                 ? 0
                 : err_set(e, ERR_CORRUPT, "'%s' in the store is not a number", name);
    }
    arena_fini(&a);
    free(history);
    free(name);
    return rc;
}

// ---- sessions, whole --------------------------------------------------------------------------

// These take long, and a connection of their own.

int shelf_add_session(struct shelf *sh, const char *dir, struct err *e)
{
    struct move_side to = {.home = sh->p->home};
    int rc = pg_link_open(&to.pg, sh->p->url, e);
    rc = rc == 0 ? move_session(&to, sh->p->home, name_of(sh, dir), e) : rc;
    pg_link_close(to.pg);
    return rc;
}

static int remove_bot(struct pg_link *l, const char *bot, bool really, struct err *e)
{
    const struct pg_param params[] = {pg_text(str_of(bot)), pg_bool(really)};
    return pg_link_run(l, "SELECT afloat.bot_remove($1, $2)", params, 2, NULL, e);
}

int shelf_drop_bot(struct shelf *sh, const char *bot, const char *to, struct err *e)
{
    struct move_counts n;
    char *below = xasprintf("bots/%s/", bot);
    struct move_side from = {.home = sh->p->home, .below = below};
    int rc = pg_link_open(&from.pg, sh->p->url, e);
    rc = rc == 0 ? remove_bot(from.pg, bot, false, e) : rc; // not while it works
    rc = rc == 0 ? move_export(&from, to, &n, NULL, NULL, e) : rc;
    if (rc == 0 && (rc = remove_bot(from.pg, bot, true, e)) < 0) {
        unlink(to);
    }
    pg_link_close(from.pg);
    free(below);
    return rc;
}
