// Hubs that share a store: rows of afloat.hubs, as users see and change them.

#include "base/time.h"
#include "fleet/fleet_int.h"

static const struct pg_stmt stmt_list = {"hub_rows", "SELECT * FROM afloat.hub_rows()"};
static const struct pg_stmt stmt_label = {
    "hub_label",
    "WITH changed AS (UPDATE afloat.hubs SET labels = $2 WHERE owner = current_user AND name = $1"
    " RETURNING name) SELECT r.name, r.state, to_json($2::text[])::text, r.generation, r.runs,"
    " r.seen_at FROM afloat.hub_rows() r JOIN changed c ON c.name = r.name"};
static const struct pg_stmt stmt_drain = {
    "hub_drain",
    "WITH changed AS (UPDATE afloat.hubs SET state = $2 WHERE owner = current_user AND name = $1"
    " RETURNING name) SELECT r.name, CASE WHEN r.state = 'lost' THEN 'lost' ELSE $2::text END,"
    " r.labels, r.generation, r.runs, r.seen_at FROM afloat.hub_rows() r JOIN changed c"
    " ON c.name = r.name"};

struct team_ask {
    struct fleet *f;
    char *name; // of the hub that is changed; NULL: all are listed
    struct err e;
    fleet_text_cb *cb;
    void *arg;
};

static void write_row(struct jw *w, const struct pg_result *r, size_t i)
{
    char at[TIME_TEXT];
    jw_obj(w);
    jw_kstr(w, "name", pg_get(r, i, 0));
    jw_kstr(w, "state", pg_get(r, i, 1));
    jw_key(w, "labels");
    jw_raw(w, pg_get(r, i, 2));
    jw_kint(w, "generation", pg_get_int(r, i, 3));
    jw_kint(w, "runs", pg_get_int(r, i, 4));
    jw_kstrz(w, "seen_at", time_format(pg_get_int(r, i, 5), at));
    jw_end_obj(w);
}

static void write_rows(struct jw *w, const struct pg_result *r)
{
    jw_obj(w);
    jw_key(w, "hubs");
    jw_arr(w);
    for (size_t i = 0; i < pg_rows(r); i++) {
        write_row(w, r, i);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

static void finish(struct team_ask *q, struct str json, const struct err *e)
{
    struct fleet *f = q->f;
    q->cb(q->arg, json, e);
    free(q->name);
    free(q);
    fleet__answered(f);
}

static void on_rows(void *arg, const struct pg_result *r, const struct err *e)
{
    struct team_ask *q = arg;
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    if (e == NULL && q->name == NULL) {
        write_rows(&w, r);
    } else if (e == NULL && pg_rows(r) == 1) {
        write_row(&w, r, 0);
    } else if (e == NULL) {
        err_set(&q->e, ERR_NOT_FOUND, "no hub '%.64s'; 'afloat hubs' lists them", q->name);
        e = &q->e;
    }
    finish(q, buf_str(&out), e);
    buf_fini(&out);
}

static struct team_ask *ask_new(struct fleet *f, struct str name, fleet_text_cb *cb, void *arg)
{
    struct team_ask *q = xcalloc(1, sizeof *q);
    *q = (struct team_ask){
        .f = f, .name = name.p != NULL ? str_dup(name) : NULL, .cb = cb, .arg = arg};
    return q;
}

void team__list(struct fleet *f, fleet_text_cb *cb, void *arg)
{
    fleet__ask(f, &stmt_list, NULL, 0, on_rows, ask_new(f, STR_NULL, cb, arg));
}

static void refuse(void *arg)
{
    struct team_ask *q = arg;
    finish(q, STR_NULL, &q->e);
}

void team__label(struct fleet *f, struct str name, const struct json *labels, fleet_text_cb *cb,
                 void *arg)
{
    struct team_ask *q = ask_new(f, name, cb, arg);
    struct buf list = {.max = SIZE_MAX};
    fleet__check_labels(labels, &q->e);
    if (q->e.code != 0) {
        f->n_asked++;
        loop_defer(f->o.loop, refuse, q);
        return;
    }
    pg_array_begin(&list, labels != NULL ? labels->n : 0);
    json_foreach_item (it, labels) {
        pg_array_add(&list, json_str(it, ""));
    }
    const struct pg_param params[] = {pg_text(name), pg_array(&list)};
    fleet__ask(f, &stmt_label, params, 2, on_rows, q);
    buf_fini(&list);
}

void team__drain(struct fleet *f, struct str name, bool on, fleet_text_cb *cb, void *arg)
{
    const struct pg_param params[] = {pg_text(name), pg_text(on ? STR("draining") : STR("live"))};
    fleet__ask(f, &stmt_drain, params, 2, on_rows, ask_new(f, name, cb, arg));
}
