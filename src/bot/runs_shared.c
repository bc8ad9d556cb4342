// Runs of hubs that share a store, found and listed: the table of the store knows all of them, whichever hub
// runs or ran them. What the document says of hub, lease and state is replaced by what the table says.

#include "base/time.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "fleet/fleet.h"
#include "loop/timer.h"
#include "proto/events.h"

static bool take_row(struct record *rec, const struct fleet_run *row)
{
    if (record_parse(rec, row->body, NULL) < 0) {
        record_fini(rec);
        return false;
    }
    rec->queued = str_eqz(row->state, "queued");
    rec->running = str_eqz(row->state, "running");
    rec->hub = record_text(rec, row->hub);
    rec->epoch = row->epoch;
    rec->lease_until = row->lease_until;
    return true;
}

// ---- one --------------------------------------------------------------------------------------------

/// The answer goes into a->data, a record.
static void on_found(void *arg, const struct fleet_run *rows, size_t n, const struct err *e)
{
    struct ask *a = arg;
    struct record *rec = a->data, found;
    struct str id = a->sought;
    if (e != NULL) {
        ask__fail(a, e);
    } else if (n > 1) {
        ask__no(a, PROBLEM_CONFLICT, NULL, "several runs begin with '%.*s': give more of the id",
                (int)MIN(id.n, (size_t)64), id.p);
    } else if (n == 0 || !take_row(&found, &rows[0])) {
        ask__no(a, PROBLEM_NOT_FOUND, "`afloat runs` lists them", "there is no run '%.*s'",
                (int)MIN(id.n, (size_t)64), id.p);
    } else {
        record_fini(rec);
        *rec = found;
        a->then(a);
    }
}

void runs__find_shared(struct ask *a, struct str id, ask_fn *then)
{
    a->then = then;
    a->sought = id;
    fleet_runs(a->b->o.fleet, &(struct fleet_query){.id = id, .limit = 2}, on_found, a);
}

static void on_any(void *arg, const struct fleet_run *rows, size_t n, const struct err *e)
{
    struct ask *a = arg;
    if (e == NULL && n == 0) { // not a run: perhaps a session of one
        struct fleet_query q = {.session = a->sought, .bot = str_of(ask__z(a, "bot")), .limit = 2};
        fleet_runs(a->b->o.fleet, &q, on_found, a);
    } else {
        on_found(a, rows, n, e);
    }
}

void runs__find_any_shared(struct ask *a, struct str id, ask_fn *then)
{
    struct fleet_query q = {.id = id, .bot = str_of(ask__z(a, "bot")), .limit = 2};
    a->then = then;
    a->sought = id;
    fleet_runs(a->b->o.fleet, &q, on_any, a);
}

void runs__find_last_shared(struct ask *a, ask_fn *then)
{
    struct fleet_query q = {.bot = str_of(a->name), .project = str_of(a->ws.slug), .limit = 1};
    a->then = then;
    a->sought = STR("the last one");
    fleet_runs(a->b->o.fleet, &q, on_found, a);
}

// ---- many -------------------------------------------------------------------------------------------

static void on_listed(void *arg, const struct fleet_run *rows, size_t n, const struct err *e)
{
    struct ask *a = arg;
    size_t limit = (size_t)json_int(json_get(a->params, "limit"), RUNS_DEFAULT_LIST);
    vec(struct record) page = {0};
    if (e != NULL) {
        ask__fail(a, e);
        return;
    }
    for (size_t i = 0; i < MIN(n, limit); i++) {
        struct record rec;
        if (take_row(&rec, &rows[i])) {
            vec_push(&page, rec);
        }
    }
    runs__answer_page(a, page.p, page.n, n > limit);
    vec_foreach (rec, &page) {
        record_fini(rec);
    }
    vec_fini(&page);
}

void runs__list_shared(struct ask *a)
{
    struct str id = STR_NULL;
    int64_t before = 0;
    const char *project = a->ws.slug != NULL ? a->ws.slug : ask__z(a, "project");
    const char *repository = a->git.main_root != NULL ? a->git.main_root : a->real;
    bool by_place = a->name == NULL && a->real != NULL && project == NULL;
    runs__cursor(ask__str(a, "cursor"), &before, &id); // else from the first one
    struct fleet_query q = {
        .bot = str_of(a->name != NULL ? a->name : ""),
        .project = str_of(project != NULL ? project : ""),
        .repository = str_of(by_place ? repository : ""),
        .state = ask__str(a, "state"),
        .before = before,
        .before_id = id,
        .limit = (size_t)json_int(json_get(a->params, "limit"), RUNS_DEFAULT_LIST) + 1};
    fleet_runs(a->b->o.fleet, &q, on_listed, a);
}

// ---- a run that another hub has ---------------------------------------------------------------------

enum { END_POLL_MS = 200, END_POLLS = 300 };

/// A caller waits for the end of a run that another hub has.
struct ending {
    struct ask *a;
    struct timer timer;
    unsigned polls;
};

static void ending_free(struct ending *w)
{
    timer_stop(&w->timer);
    free(w);
}

static void on_row(void *arg, const struct fleet_run *rows, size_t n, const struct err *e)
{
    struct ending *w = arg;
    struct ask *a = w->a;
    const struct record *was = a->data;
    struct record rec;
    if (e != NULL || n != 1 || !take_row(&rec, &rows[0])) {
        ending_free(w);
        ask__no(a, PROBLEM_CONFLICT, NULL, "the run cannot be read: %s",
                e != NULL ? e->msg : "it is gone");
        return;
    }
    if (rec.running && ++w->polls < END_POLLS && !a->b->stopping) {
        timer_start(&w->timer, END_POLL_MS);
    } else {
        ending_free(w);
        if (was->queued && !rec.running && !rec.queued) { // it has no hub that says so
            struct buf fields;
            struct jw ended = bots__begin_event(&rec, &fields);
            jw_kstrz(&ended, "end_reason", rec.end_reason);
            bots__emit(a->b, EVENT_BOT_RUN_ENDED, &ended);
        }
        runs__answer(a, &rec);
    }
    record_fini(&rec);
}

static void look_again(void *arg)
{
    struct ending *w = arg;
    const struct record *rec = w->a->data;
    fleet_runs(w->a->b->o.fleet, &(struct fleet_query){.id = str_of(rec->run_id), .limit = 1},
               on_row, w);
}

static void on_asked(void *arg, int status, const struct err *e)
{
    struct ending *w = arg;
    struct ask *a = w->a;
    if (status < 0) {
        ending_free(w);
        ask__fail(a, e);
    } else {
        look_again(w);
    }
}

void runs__stop_shared(struct ask *a)
{
    const struct record *rec = a->data;
    struct ending *w = xcalloc(1, sizeof *w);
    w->a = a;
    timer_init(&w->timer, a->b->loop, look_again, w);
    fleet_run_stop(a->b->o.fleet, str_of(rec->run_id),
                   json_bool(json_get(a->params, "force"), false), on_asked, w);
}

static void on_said(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    struct jw *w = ask__begin_answer(a, status, e);
    if (w != NULL) {
        jw_kstrz(w, "taken", "queued");
        jw_end_obj(w);
        ask__answer(a);
    }
}

void runs__say_shared(struct ask *a)
{
    const struct record *rec = a->data;
    fleet_run_say(a->b->o.fleet, str_of(rec->run_id), ask__str(a, "text"), on_said, a);
}

// ---- one that has ended -------------------------------------------------------------------------------

struct keeping {
    struct bots *b;
    char *name, *text;
    store_done *done;
    void *arg;
};

static void on_kept(void *arg, int status, const struct err *e)
{
    struct keeping *k = arg;
    if (status < 0) {
        k->done(k->arg, status, e);
    } else {
        store_doc_put(k->b->store, str_of(k->name), str_of(k->text), k->done, k->arg);
    }
    free(k->name);
    free(k->text);
    free(k);
}

void runs__keep(struct bots *b, const struct record *rec, store_done *done, void *arg)
{
    struct keeping *k = xmalloc(sizeof *k);
    *k = (struct keeping){
        .b = b, .name = record_name(rec), .text = record_print(rec), .done = done, .arg = arg};
    if (fleet_shared(b->o.fleet)) {
        fleet_run_edit(b->o.fleet, str_of(rec->run_id), str_of(k->text), on_kept, k);
    } else {
        on_kept(k, 0, NULL);
    }
}
