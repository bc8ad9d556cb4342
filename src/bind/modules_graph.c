// Which modules a run is about, and in which order they are run.
//
//     changed files ──> roots ──> and all that require them (touched) ──> of these, what has to be
//                                                                         run again (stage), in order
//
// A root is a known module whose file is not the one that was looked at last. "Known" is what is
// loaded, was tried, belongs to the load order, or is required by one of these: a save of any other
// file runs nothing. Every module that depends on a root is touched; both what the serving version required and what a
// failed attempt required count, so a mended dependency brings its dependents back. A sound module that was discarded with
// its group is touched with any module of that group.
//
// Of the touched modules those are run again whose text differs from the serving one, and all that depend on those. For
// the others only old diagnostics are cleared.

#include "bind/modules_int.h"

static bool list_has(const module_list *l, const struct module *m)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->p[i] == m) {
            return true;
        }
    }
    return false;
}

void list__add(module_list *l, struct module *m)
{
    if (!list_has(l, m)) {
        vec_push(l, m);
    }
}

/// Does `m` depend on `other`: because it required it, or because it is a guest of it?
static bool stands_on(const struct module *m, const struct module *other)
{
    if (list_has(&m->wants, other)) {
        return true;
    }
    return m->live != NULL && (list_has(&m->live->deps, other) ||
                               (m->live->host != NULL && m->live->host->module == other));
}

static bool is_required(const struct space *sp, const struct module *m)
{
    for (const struct module *other = sp->all; other != NULL; other = other->next) {
        if (stands_on(other, m)) {
            return true;
        }
    }
    return false;
}

static struct files__text *text_of(const struct module *m)
{
    return files__find(&m->space->ms->files, str_of(m->name));
}

static bool is_changed(const struct module *m)
{
    bool known = m->live != NULL || m->wanted || m->attempted || is_required(m->space, m);
    return known && (!files__text_same(text_of(m), m->seen) || installs__are_stale(m->live));
}

bool graph__is_named(const struct gen_request *req, const struct module *m)
{
    for (size_t i = 0; i < req->n_names; i++) {
        if (str_eqz(req->names[i], m->name) || str_eqz(req->names[i], m->unit_name) ||
            installs__has(m->live, req->names[i])) {
            return true;
        }
    }
    return req->n_names == 0;
}

/// Is `other` concerned when `m` is? It depends on it, or waits for m's group to be sound.
static bool follows(const struct module *other, const struct module *m)
{
    bool waits = other->kept_back && !m->space->ms->alone && stands_on(m, other);
    return !modules__is_protected(other) && (waits || stands_on(other, m));
}

/// Mark all that follows marked ones, and so on.
static void spread(struct space *sp, enum module_mark mark)
{
    bool more = true;
    while (more) {
        more = false;
        for (struct module *m = sp->all; m != NULL; m = m->next) {
            if (m->mark < mark) {
                continue;
            }
            for (struct module *other = sp->all; other != NULL; other = other->next) {
                if (other->mark < mark && follows(other, m)) {
                    other->mark = mark;
                    more = true;
                }
            }
        }
    }
}

/// Must it be run again because of itself, not because of its dependencies?
static bool must_run(const struct module *m)
{
    struct files__text *text = text_of(m);
    bool stays = m->live != NULL && m->space->ms->alone && !m->changed;
    if (stays || (modules__is_protected(m) && m->live != NULL)) {
        return false;
    }
    if (m->live == NULL) {
        return text != NULL;
    }
    return m->forced || !files__text_same(text, m->live->text) || installs__are_stale(m->live);
}

void graph__mark(struct modules *ms, const struct gen_request *req)
{
    for (size_t i = 0; i < req->n_names; i++) {
        struct str name = modules__name_of(req->names[i]);
        if (files__find(&ms->files, name) != NULL) { // it is known from now on
            struct module *m = modules__get(ms->space, name);
            m->attempted = m->named = true;
        }
    }
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        m->forced =
            req->force && m->live != NULL && !modules__is_protected(m) && graph__is_named(req, m);
        m->changed = graph__is_named(req, m) && (m->forced || is_changed(m));
        m->mark = m->changed ? MARK_TOUCHED : m->mark;
    }
    spread(ms->space, MARK_TOUCHED);
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        if (m->mark == MARK_TOUCHED && must_run(m)) {
            m->mark = MARK_STAGE;
        }
    }
    spread(ms->space, MARK_STAGE);
}

bool graph__is_stale(struct modules *ms)
{
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        if (is_changed(m)) {
            return true;
        }
    }
    return false;
}

static void visit(struct module *m, enum module_mark least, module_list *out)
{
    if (m->visited) {
        return;
    }
    m->visited = true;
    for (size_t i = 0; m->live != NULL && i < m->live->deps.n; i++) {
        visit(m->live->deps.p[i], least, out);
    }
    vec_foreach (dep, &m->wants) {
        visit(*dep, least, out);
    }
    if (m->mark >= least) {
        vec_push(out, m);
    }
}

module_list graph__order(struct modules *ms, enum module_mark least)
{
    module_list out = {0};
    vec_foreach (first, &ms->order_list) {
        visit(*first, least, &out);
    }
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        visit(m, least, &out);
    }
    return out;
}

void graph__clear(struct modules *ms)
{
    for (struct module *m = ms->space->all; m != NULL; m = m->next) {
        m->mark = MARK_NONE;
        m->forced = m->visited = m->changed = false;
    }
}
