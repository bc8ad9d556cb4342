// Runs, found: on disk by their records, and those that live. Shown, stopped, spoken to; runs_list.c lists them.

#include "bot/runs.h"

#include "base/path.h"
#include "base/time.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"
#include "fleet/fleet.h"

int runs_load(struct record *out, const char *path, struct err *e)
{
    struct buf text = {.max = RECORD_BYTES};
    struct err own = {0};
    int rc = path_read(path, &text, &own);
    if (rc == 0) {
        rc = record_parse(out, buf_str(&text), &own);
        rc = rc < 0 ? err_prefix(&own, "'%s'", path) : 0;
    } else {
        record_init(out);
    }
    if (rc < 0 && e != NULL) {
        *e = own;
    }
    buf_fini(&text);
    return rc;
}

// ---- finding ------------------------------------------------------------------------------------

struct search {
    struct str id;
    size_t n; // that fit; the last of them is:
    const struct runs_place *place;
    char found[RECORD_ID];
    int64_t newest;
};

static void take(struct search *s, const struct runs_entry *r)
{
    s->n++;
    s->place = r->place;
    memcpy(s->found, r->id, sizeof s->found);
}

static bool search_id(void *arg, const struct runs_entry *r)
{
    struct search *s = arg;
    struct str id = str_of(r->id);
    bool exact = str_eq(id, s->id);
    if (s->id.n <= id.n && memcmp(s->id.p, id.p, s->id.n) == 0) {
        s->n = exact ? 0 : s->n; // the others do not count
        take(s, r);
    }
    return !exact;
}

static bool search_session(void *arg, const struct runs_entry *r)
{
    struct search *s = arg;
    struct record rec;
    char *path = runs_index_path(r->place, r->id);
    bool found = false;
    if (runs_load(&rec, path, NULL) == 0) {
        vec_foreach (it, &rec.iterations) {
            found = found || strncmp(it->session_id, s->id.p, s->id.n) == 0;
        }
    }
    if (found) {
        take(s, r);
    }
    record_fini(&rec);
    free(path);
    return true;
}

static bool search_last(void *arg, const struct runs_entry *r)
{
    struct search *s = arg;
    if (r->readable && r->started_at >= s->newest) {
        s->newest = r->started_at;
        s->n = 0;
        take(s, r);
    }
    return true;
}

/// Load what was found; one, or an error.
static int finish(struct search *s, struct record *out, struct err *e)
{
    if (s->n == 1) {
        char *path = runs_index_path(s->place, s->found);
        int rc = runs_load(out, path, e);
        free(path);
        return rc;
    }
    record_init(out);
    return s->n == 0 ? err_set(e, ERR_NOT_FOUND, "there is no run '%.*s'; 'afloat runs' lists them",
                               (int)MIN(s->id.n, (size_t)64), s->id.p)
                     : err_set(e, ERR_CONFLICT, "%zu runs begin with '%.*s': give more of the id",
                               s->n, (int)MIN(s->id.n, (size_t)64), s->id.p);
}

int runs_find(struct record *out, struct runs_index *x, const char *bot, struct str id,
              struct err *e)
{
    struct search s = {.id = id};
    if (id.n != 0) {
        runs_index_each(x, bot, NULL, search_id, &s);
    }
    return finish(&s, out, e);
}

int runs_find_any(struct record *out, struct runs_index *x, const char *bot, struct str id,
                  struct err *e)
{
    struct search s = {.id = id};
    if (id.n != 0) {
        runs_index_each(x, bot, NULL, search_id, &s);
    }
    if (s.n == 0 && id.n != 0) {
        runs_index_each(x, bot, NULL, search_session, &s);
    }
    if (s.n == 0) {
        record_init(out);
        return err_set(e, ERR_NOT_FOUND, "'%s' has no run or session '%.*s'", bot,
                       (int)MIN(id.n, (size_t)64), id.p);
    }
    return finish(&s, out, e);
}

int runs_find_last(struct record *out, struct runs_index *x, const char *bot, const char *project,
                   struct err *e)
{
    struct search s = {.newest = INT64_MIN};
    runs_index_each(x, bot, project, search_last, &s);
    if (s.n == 0) {
        record_init(out);
        return err_set(e, ERR_NOT_FOUND, "'%s' has no run in '%s' to resume", bot, project);
    }
    return finish(&s, out, e);
}

// ---- one ----------------------------------------------------------------------------------------

static void free_record(void *data)
{
    record_fini(data);
    free(data);
}

static void find_one(struct ask *a) // on the lane
{
    struct record *rec = a->data;
    record_fini(rec);
    a->rc = runs_find(rec, a->b->index, NULL, a->sought, &a->e);
}

struct record *runs__hold(struct ask *a)
{
    assert(a->data == NULL && a->free_data == NULL);
    struct record *rec = xmalloc(sizeof *rec);
    record_init(rec);
    a->data = rec;
    a->free_data = free_record;
    return rec;
}

void runs__find(struct ask *a, const char *key, ask_fn *then)
{
    runs__hold(a);
    a->sought = ask__str(a, key);
    if (fleet_shared(a->b->o.fleet)) {
        runs__find_shared(a, a->sought, then);
    } else if (a->b->recovering) {
        a->then = then;
        vec_push(&a->b->early, a);
    } else {
        ask__work(a, find_one, then);
    }
}

void runs__find_early(struct bots *b)
{
    vec_foreach (a, &b->early) {
        ask__work(*a, find_one, (*a)->then);
    }
    b->early.n = 0;
}

void runs__answer(struct ask *a, const struct record *rec)
{
    jw_obj(&a->w);
    record_write(rec, &a->w, true);
    jw_end_obj(&a->w);
    ask__answer(a);
}

static void show(struct ask *a)
{
    const struct record *rec = a->data;
    struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    if (live != NULL && !live->rec.running && !live->unsaved) {
        run_await(live, a); // it has ended when that is written
    } else {
        runs__answer(a, live != NULL ? &live->rec : rec);
    }
}

void bots_run_show(struct ask *a)
{
    runs__find(a, "id", show);
}

static void answer_found(struct ask *a)
{
    runs__answer(a, a->data);
}

/// It lives no more: what was read may be from before its end.
static void read_ended(struct ask *a)
{
    const struct record *rec = a->data;
    if (!fleet_shared(a->b->o.fleet)) {
        ask__work(a, find_one, answer_found);
    } else if (rec->running || rec->queued) {
        runs__stop_shared(a);
    } else {
        answer_found(a);
    }
}

static void stop(struct ask *a)
{
    const struct record *rec = a->data;
    struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    if (live == NULL) {
        read_ended(a);
        return;
    }
    if (live->unsaved) {
        runs__answer(a, &live->rec);
        return;
    }
    run_await(live, a);
    run_stop(live, json_bool(json_get(a->params, "force"), false));
}

void bots_run_stop(struct ask *a)
{
    runs__find(a, "id", stop);
}

static void say(struct ask *a)
{
    const struct record *rec = a->data;
    struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    if (live != NULL) {
        run_say(live, a);
    } else if (fleet_shared(a->b->o.fleet) && (rec->running || rec->queued)) {
        runs__say_shared(a);
    } else {
        ask__no(a, PROBLEM_CONFLICT, NULL,
                "run '%s' has ended: `afloat run %s TEXT --resume %s` continues it", rec->run_id,
                rec->bot, rec->run_id);
    }
}

void bots_run_input(struct ask *a)
{
    if (str_trim(ask__str(a, "text")).n == 0) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'text' is empty");
        return;
    }
    runs__find(a, "id", say);
}
