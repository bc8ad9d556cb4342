// A hub with a store of its own: a fleet of one. Hubs that share a store are in team.c.
//
// Its row is made when it is asked for. Labels and draining are choices ("hub.labels", "hub.draining"): they
// win over `[store] labels` and outlive a restart, as everything chosen by command does.

#include <assert.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/time.h"
#include "config/config.h"
#include "config/home.h"
#include "fleet/fleet_int.h"
#include "store/choices.h"

enum { LABEL_MAX = 64, LABELS_MAX = 32, HOST_MAX = 64, HASH_SHOWN = 8 };

char *fleet_hub_name(const struct config *c, const struct home *home)
{
    char host[HOST_MAX + 1] = "", hash[SHA256_HEX];
    uint8_t digest[SHA256_SIZE];
    const char *given = config_str(c, "store.hub_name");
    if (given[0] != '\0') {
        return xstrdup(given);
    }
    gethostname(host, HOST_MAX);
    sha256_of(str_of(home->dir), digest);
    sha256_hex(digest, hash);
    return xasprintf("%s-%.*s", host[0] != '\0' ? host : "hub", HASH_SHOWN, hash);
}

struct fleet *fleet_open(const struct fleet_opts *o)
{
    struct fleet *f = xcalloc(1, sizeof *f);
    f->o = *o;
    f->shared = store_hub(o->store, &f->hub);
    f->name = f->shared ? xstrdup(f->hub.name) : fleet_hub_name(o->config->now, o->home);
    f->lane = f->shared ? lane_open(o->loop, "fleet", 1) : NULL;
    return f;
}

static void end_if_idle(struct fleet *f)
{
    if (f->closed != NULL && f->n_asked == 0) {
        loop_fn *closed = f->closed;
        f->closed = NULL;
        if (f->lane != NULL) {
            lane_close(f->lane);
        }
        loop_defer(f->o.loop, closed, f->closed_arg);
    }
}

void fleet_close(struct fleet *f, loop_fn *done, void *arg)
{
    fleet_stop_taking(f);
    f->closed = done;
    f->closed_arg = arg;
    end_if_idle(f);
}

void fleet__ask(struct fleet *f, const struct pg_stmt *stmt, const struct pg_param *params, int n,
                pg_cb *cb, void *arg)
{
    f->n_asked++;
    pg_query(f->hub.pg, FLEET_KEY, stmt, params, n, cb, arg);
}

void fleet__answered(struct fleet *f)
{
    assert(f->n_asked != 0);
    f->n_asked--;
    end_if_idle(f);
}

bool fleet_shared(const struct fleet *f)
{
    return f->shared;
}

const char *fleet_name(const struct fleet *f)
{
    return f->name;
}

void fleet_free(struct fleet *f)
{
    if (f != NULL) {
        vec_foreach (l, &f->leases) {
            free(l->id);
        }
        vec_fini(&f->leases);
        channel__fini(f);
        free(f->name);
        free(f);
    }
}

void fleet_set_plugins(struct fleet *f, const struct fleet_plugins *p)
{
    assert(!f->open);
    f->plugins = *p;
}

void fleet_set_runner(struct fleet *f, const struct fleet_runner *r)
{
    f->runner = *r;
}

// ---- the row ------------------------------------------------------------------------------------

bool fleet_is_draining(const struct fleet *f)
{
    return f->shared ? f->draining
                     : json_bool(choices_get(f->o.choices, STR("hub.draining")), false);
}

static void write_labels(const struct fleet *f, struct jw *w)
{
    const struct json *chosen = choices_get(f->o.choices, STR("hub.labels"));
    const char *const *label = config_strings(f->o.config->now, "store.labels");
    if (chosen != NULL) {
        jw_value(w, chosen);
        return;
    }
    jw_arr(w);
    for (; *label != NULL; label++) {
        jw_strz(w, *label);
    }
    jw_end_arr(w);
}

static void write_row(const struct fleet *f, struct jw *w)
{
    char at[TIME_TEXT];
    jw_obj(w);
    jw_kstrz(w, "name", f->name);
    jw_kstrz(w, "state", fleet_is_draining(f) ? "draining" : "live");
    jw_key(w, "labels");
    write_labels(f, w);
    jw_kint(w, "generation", f->o.generation(f->o.arg));
    jw_kint(w, "runs", f->runner.running != NULL ? (int64_t)f->runner.running(f->runner.arg) : 0);
    jw_kstrz(w, "seen_at", time_format(loop_wall(f->o.loop), at));
    jw_end_obj(w);
}

// ---- an answer, later ---------------------------------------------------------------------------

struct answer {
    struct fleet *f;
    bool list;
    struct err e; // code 0: none
    fleet_text_cb *cb;
    void *arg;
};

static void give(void *arg)
{
    struct answer a = *(struct answer *)arg;
    struct buf out = {.max = SIZE_MAX};
    free(arg);
    if (a.e.code != 0) {
        a.cb(a.arg, STR_NULL, &a.e);
        return;
    }
    struct jw w = {.out = &out};
    if (a.list) {
        buf_addz(&out, "{\"hubs\":[");
    }
    write_row(a.f, &w);
    if (a.list) {
        buf_addz(&out, "]}");
    }
    a.cb(a.arg, buf_str(&out), NULL);
    buf_fini(&out);
}

static struct answer *answer_new(struct fleet *f, fleet_text_cb *cb, void *arg)
{
    struct answer *a = xcalloc(1, sizeof *a);
    a->f = f;
    a->cb = cb;
    a->arg = arg;
    return a;
}

static void on_chosen(void *arg, int status, const struct err *e)
{
    struct answer *a = arg;
    if (status < 0) {
        a->e = *e;
    }
    give(a);
}

/// Keep a choice about hub `name`, or fail with `e` or because that is another hub.
static void choose(struct fleet *f, struct str name, const char *key, struct str value,
                   const struct err *e, fleet_text_cb *cb, void *arg)
{
    struct answer *a = answer_new(f, cb, arg);
    if (e->code != 0) {
        a->e = *e;
    } else if (!str_eqz(name, f->name)) {
        err_set(&a->e, ERR_NOT_FOUND, "no hub '%.*s': this hub works alone and is named '%s'",
                (int)MIN(name.n, (size_t)HOST_MAX), name.p, f->name);
    } else {
        choices_set(f->o.choices, str_of(key), value, on_chosen, a);
        return;
    }
    loop_defer(f->o.loop, give, a);
}

// ---- what is asked ------------------------------------------------------------------------------

void fleet_list(struct fleet *f, fleet_text_cb *cb, void *arg)
{
    if (f->shared) {
        team__list(f, cb, arg);
        return;
    }
    struct answer *a = answer_new(f, cb, arg);
    a->list = true;
    loop_defer(f->o.loop, give, a);
}

static bool is_label(const struct json *v)
{
    struct str s = json_str(v, "");
    bool ok = v->type == JSON_STR && s.n != 0 && s.n <= LABEL_MAX;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        ok = ok && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    strchr("._:-", c) != NULL);
    }
    return ok;
}

void fleet__check_labels(const struct json *labels, struct err *e)
{
    if (labels != NULL && (labels->type != JSON_ARR || labels->n > LABELS_MAX)) {
        err_set(e, ERR_INVALID, "'labels' must be a list of at most %d", LABELS_MAX);
        return;
    }
    json_foreach_item (it, labels) {
        if (!is_label(it)) {
            err_set(e, ERR_INVALID,
                    "a label is 1 to %d letters, digits or '.', '_', ':', '-', not '%.*s'",
                    LABEL_MAX, (int)MIN(json_str(it, "").n, (size_t)LABEL_MAX), json_str(it, "").p);
        }
    }
}

void fleet_label(struct fleet *f, struct str name, const struct json *labels, fleet_text_cb *cb,
                 void *arg)
{
    struct err e = {0};
    struct buf text = {.max = SIZE_MAX};
    if (f->shared) {
        team__label(f, name, labels, cb, arg);
        return;
    }
    fleet__check_labels(labels, &e);
    struct jw w = {.out = &text};
    if (labels != NULL) {
        jw_value(&w, labels);
    } else {
        buf_addz(&text, "[]");
    }
    choose(f, name, "hub.labels", buf_str(&text), &e, cb, arg);
    buf_fini(&text);
}

void fleet_drain(struct fleet *f, struct str name, bool on, fleet_text_cb *cb, void *arg)
{
    if (f->shared) {
        team__drain(f, name, on, cb, arg);
        return;
    }
    choose(f, name, "hub.draining", on ? STR("true") : STR_NULL, &(struct err){0}, cb, arg);
}

static bool has_label(const struct fleet *f, struct str label)
{
    struct buf text = {.max = SIZE_MAX};
    struct arena a = {0};
    struct json *labels;
    bool found = false;
    struct jw w = {.out = &text};
    write_labels(f, &w);
    int rc = json_parse(&labels, &a, buf_str(&text), NULL, NULL);
    assert(rc == 0); // we wrote it
    json_foreach_item (it, labels) {
        found = found || str_eq(json_str(it, ""), label);
    }
    arena_fini(&a);
    buf_fini(&text);
    return found;
}

bool fleet_may_start(struct fleet *f, struct str on, struct err *e)
{
    if (f->shared) {
        return true;
    }
    if (fleet_is_draining(f)) {
        err_set(e, ERR_CONFLICT,
                "this hub is draining and takes no new runs; 'afloat hubs drain %s --off' ends "
                "that",
                f->name);
        return false;
    }
    if (on.n != 0 && !has_label(f, on)) {
        err_set(e, ERR_CONFLICT,
                "no hub has the label '%.*s': this hub works alone; add the label with 'afloat "
                "hubs label %s %.*s', or share a store with other hubs ([store] url)",
                (int)MIN(on.n, (size_t)LABEL_MAX), on.p, f->name, (int)MIN(on.n, (size_t)LABEL_MAX),
                on.p);
        return false;
    }
    return true;
}
