// The report: what a run did, and the state of the whole set.
//
//     rows          changes of this run, and every name that is refused
//     diagnostics   of refused names ─ notes of units ─ conflicts of the set ─ the hub's own
//                   ─ faults of this run's lifecycle calls (in this report only)
//     needs         of refused names ─ of this run
//
// A report is a copy in an arena of its own, so that it outlives the run and the units it tells of.

#include "gen/report.h"

#include "base/time.h"
#include "gen/gen_int.h"

typedef vec(struct gen_report_row) row_list;
typedef vec(struct gen_diag) diag_list;
typedef vec(struct gen_report_need) need_list;

/// What a report is made from: the set and the troubles that it shows.
struct view {
    struct gen_report *r;
    struct gen_engine *engine;
    struct gen_run *run;
    struct gen *set;
    gen__troubles *troubles;
    row_list rows;
    diag_list diags;
    need_list needs;
};

// ---- copies -------------------------------------------------------------------------------

static const char *keep(struct view *v, const char *z)
{
    return z != NULL ? arena_strdup(&v->r->arena, str_of(z)) : NULL;
}

static void *keep_array(struct view *v, const void *p, size_t n, size_t size)
{
    void *mine = arena_calloc(&v->r->arena, n + 1, size);
    if (n != 0) {
        memcpy(mine, p, n * size);
    }
    return mine;
}

// ---- rows ---------------------------------------------------------------------------------

/// What the run did with the version of that name.
static enum gen_state change_of(struct view *v, const char *name)
{
    vec_foreach (c, &v->run->stage.changes) {
        const struct gen_unit *u = c->new != NULL ? c->new : c->old;
        if (strcmp(u->name, name) == 0) {
            return c->new == NULL ? GEN_REMOVED : c->old != NULL ? GEN_CHANGED : GEN_ADDED;
        }
    }
    return GEN_KEPT;
}

static void add_row(struct view *v, const char *name, enum gen_state state,
                    const struct gen_unit *serving)
{
    struct gen_report_row row = {
        .name = keep(v, name),
        .state = state,
        .revision = serving != NULL ? serving->revision : 0,
        .serving = serving != NULL,
        .change = change_of(v, name),
    };
    vec_push(&v->rows, row);
}

static void add_rows(struct view *v)
{
    vec_foreach (u, &v->set->units) {
        const struct gen_trouble *t = gen__trouble_find(v->troubles, (*u)->name);
        bool troubled = t != NULL && t->state != GEN_KEPT; // what serves is not what is on disk
        enum gen_state state = troubled ? t->state : change_of(v, (*u)->name);
        if (state == GEN_KEPT) {
            v->r->kept++;
        } else {
            add_row(v, (*u)->name, state, *u);
        }
    }
    vec_foreach (c, &v->run->stage.changes) {
        if (c->new == NULL && gen__trouble_find(v->troubles, c->old->name) == NULL) {
            add_row(v, c->old->name, GEN_REMOVED, NULL);
        }
    }
    vec_foreach (t, v->troubles) {
        if (t->state != GEN_KEPT && gen_unit_find(v->set, str_of(t->name)) == NULL) {
            add_row(v, t->name, t->state, NULL);
        }
    }
    vec_foreach (d, &v->engine->warnings) { // beside the row of the one that has the name, if any
        if (d->code == DIAG_NAME_DUPLICATE) {
            struct str rest = str_of(d->plugin), name = str_cut(&rest, '@');
            struct gen_report_row row = {
                .name = arena_strdup(&v->r->arena, name), .state = GEN_FAILED, .change = GEN_KEPT};
            vec_push(&v->rows, row);
        }
    }
}

// ---- diagnostics and needs ----------------------------------------------------------------

static void add_diag(struct view *v, const char *plugin, const char *origin,
                     const struct gen_diag *d)
{
    plugin = d->plugin != NULL ? d->plugin : plugin;
    struct gen_diag copy = {
        .code = d->code,
        .plugin = keep(v, plugin),
        .source = d->source != NULL ? keep(v, d->source)
                  : plugin != NULL  ? "server"
                                    : "hub",
        .origin = keep(v, d->origin != NULL ? d->origin : origin),
        .path = keep(v, d->path),
        .line = d->line,
        .message = keep(v, d->message),
        .hint = keep(v, d->hint),
        .hook = keep(v, d->hook), // not the traceback: the unit has it
    };
    vec_push(&v->diags, copy);
    v->r->ok = v->r->ok && gen_code_severity(d->code) != DIAG_ERROR;
}

static void add_need(struct view *v, const char *plugin, const struct gen_report_need *n)
{
    struct gen_report_need copy = {
        .plugin = keep(v, plugin), .kind = n->kind, .reason = keep(v, n->reason)};
    vec_push(&v->needs, copy);
}

static void add_problems(struct view *v)
{
    vec_foreach (t, v->troubles) {
        v->r->ok = v->r->ok && t->state != GEN_FAILED; // whatever its diagnostic weighs
        vec_foreach (d, &t->diags) {
            add_diag(v, t->name, NULL, d);
        }
        vec_foreach (n, &t->needs) {
            add_need(v, t->name, n);
        }
    }
    vec_foreach (u, &v->set->units) {
        vec_foreach (d, &(*u)->diags) {
            add_diag(v, (*u)->name, (*u)->origin, d);
        }
    }
    vec_foreach (d, &v->set->conflicts) {
        add_diag(v, NULL, NULL, d);
    }
    vec_foreach (d, &v->engine->warnings) {
        add_diag(v, NULL, NULL, d);
    }
    vec_foreach (d, &v->run->faults) {
        add_diag(v, NULL, NULL, d);
    }
    vec_foreach (n, &v->run->stage.needs) {
        add_need(v, n->plugin, n);
    }
}

// ---- inside gen/ --------------------------------------------------------------------------

struct gen_report *gen__report_new(struct gen_engine *e, struct gen_run *run)
{
    bool dry_run = run->req.dry_run;
    struct gen_report *r = xcalloc(1, sizeof *r);
    struct view v = {
        .r = r,
        .engine = e,
        .run = run,
        .set = dry_run && run->made != NULL ? run->made : e->current,
        .troubles = dry_run ? &run->stage.troubles : &e->troubles,
    };
    r->ok = true;
    r->dry_run = dry_run;
    r->committed = run->committed;
    r->previous = run->previous;
    r->generation = run->committed ? run->made->number : run->previous;
    r->trigger = run->req.trigger;
    add_rows(&v);
    add_problems(&v);
    r->n_rows = v.rows.n;
    r->n_diags = v.diags.n;
    r->n_needs = v.needs.n;
    r->rows = keep_array(&v, v.rows.p, v.rows.n, sizeof *r->rows);
    r->diags = keep_array(&v, v.diags.p, v.diags.n, sizeof *r->diags);
    r->needs = keep_array(&v, v.needs.p, v.needs.n, sizeof *r->needs);
    r->duration_us = (time_mono_ns() - run->began_ns) / 1000;
    vec_fini(&v.rows);
    vec_fini(&v.diags);
    vec_fini(&v.needs);
    return r;
}

void gen__report_free(struct gen_report *r)
{
    if (r != NULL) {
        arena_fini(&r->arena);
        free(r);
    }
}

// ---- public -------------------------------------------------------------------------------

const char *gen_need_name(enum gen_need need)
{
    static const char *const names[] = {
        [GEN_PAGE_RELOAD] = "page-reload",
        [GEN_SESSION_RESTART] = "session-restart",
        [GEN_HUB_RESTART] = "hub-restart",
    };
    return names[need];
}

/// The names with this change or in this state.
static void write_names(const struct gen_report *r, struct jw *w, const char *key,
                        enum gen_state state)
{
    jw_karr(w, key);
    for (size_t i = 0; i < r->n_rows; i++) {
        if (r->rows[i].change == state || r->rows[i].state == state) {
            jw_strz(w, r->rows[i].name);
        }
    }
    jw_end_arr(w);
}

void gen_report_write(const struct gen_report *r, struct jw *w)
{
    jw_obj(w);
    jw_kbool(w, "ok", r->ok);
    jw_kint(w, "generation", (int64_t)r->generation);
    jw_kint(w, "previous", (int64_t)r->previous);
    jw_kstrz(w, "trigger", r->trigger);
    jw_kint(w, "duration_us", (int64_t)r->duration_us);
    jw_kbool(w, "dry_run", r->dry_run);
    write_names(r, w, "added", GEN_ADDED);
    write_names(r, w, "changed", GEN_CHANGED);
    write_names(r, w, "removed", GEN_REMOVED);
    jw_kint(w, "kept", (int64_t)r->kept);
    write_names(r, w, "failed", GEN_FAILED);
    jw_karr(w, "plugins");
    for (size_t i = 0; i < r->n_rows; i++) {
        jw_obj(w);
        jw_kstrz(w, "name", r->rows[i].name);
        jw_kstrz(w, "state", gen_state_name(r->rows[i].state));
        jw_kint(w, "revision", (int64_t)r->rows[i].revision);
        jw_kbool(w, "serving", r->rows[i].serving);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_karr(w, "diagnostics");
    for (size_t i = 0; i < r->n_diags; i++) {
        gen_diag_write(&r->diags[i], w);
    }
    jw_end_arr(w);
    jw_karr(w, "needs");
    for (size_t i = 0; i < r->n_needs; i++) {
        jw_obj(w);
        jw_kstrz(w, "plugin", r->needs[i].plugin);
        jw_kstrz(w, "kind", gen_need_name(r->needs[i].kind));
        jw_kstrz(w, "reason", r->needs[i].reason);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}
