// Which plugins a session has in a generation, and in what order.
//
//     modules of the hub · required plugins that are not listed · the list, in its order
//     (without one: [session] plugins, or all in load order) · what the session itself wrote
//
// No turn begins while a plugin that is required, or that the session names, does not serve: it may be the one that
// guards something.

#include <assert.h>

#include "agent/agent_int.h"
#include "hook/set.h"

/// The names that the session lists, or its settings; NULL: all plugins. A [policy] in the settings wins.
static const char *const *listed(const struct session *s, size_t *n)
{
    const struct config *c = agent__session_config(s);
    if (!s->all_plugins && !config_is_policy(c, "session.plugins")) {
        static const char *const none[1] = {NULL};
        *n = s->plugins.n;
        return s->plugins.n != 0 ? (const char *const *)s->plugins.p : none;
    }
    const char *const *names = config_strings(c, "session.plugins");
    *n = str_count(names);
    return names;
}

static enum agent_reach reach_of(const struct session *s, const struct gen_unit *u)
{
    const struct agent_host *h = &s->agent->o.host;
    return h->reach(h->plugins, u, agent__session_root(s)->id, agent__session_place(s));
}

struct picked {
    struct gen_unit **p;
    size_t n;
};

static void pick(struct picked *out, struct gen_unit *u)
{
    for (size_t i = 0; i < out->n; i++) {
        if (out->p[i] == u) {
            return;
        }
    }
    out->p[out->n++] = u;
}

int agent__check_required(const struct agent *a, const struct gen *g, const char *dir,
                          struct err *e)
{
    const struct agent_host *h = &a->o.host;
    const char *name;
    for (size_t i = 0; (name = h->required(h->plugins, i, dir)) != NULL; i++) {
        if (gen_unit_find(g, str_of(name)) == NULL) {
            return err_set(e, ERR_NOT_FOUND, "required plugin '%.100s' is not serving", name);
        }
    }
    return 0;
}

int agent__session_units(const struct session *s, struct gen *g, struct arena *a,
                         struct gen_unit ***out, size_t *n, struct err *e)
{
    assert(g != NULL);
    struct picked all = {.p = arena_calloc(a, gen_count(g) + 1, sizeof *all.p)};
    size_t n_names = 0;
    const char *const *names = listed(s, &n_names);
    *out = all.p;
    for (size_t i = 0; i < gen_count(g); i++) {
        struct gen_unit *u = gen_at(g, i);
        enum agent_reach reach = reach_of(s, u);
        if (names == NULL
                ? reach != AGENT_NEVER
                : reach == AGENT_ALWAYS && str_lookup(str_of(u->name), names, n_names) < 0) {
            pick(&all, u);
        }
    }
    *n = all.n;
    for (size_t i = 0; names != NULL && i < n_names; i++) {
        struct gen_unit *u = gen_unit_find(g, str_of(names[i]));
        if (u == NULL || reach_of(s, u) == AGENT_NEVER) {
            return err_set(e, ERR_NOT_FOUND, "plugin '%.100s' of this session is not serving",
                           names[i]);
        }
        pick(&all, u);
        *n = all.n;
    }
    return agent__check_required(s->agent, g, agent__session_place(s), e);
}

// ---- shown --------------------------------------------------------------------------------------

static void write_handlers(const struct hook_list *list, struct jw *w)
{
    jw_arr(w);
    for (size_t i = 0; list != NULL && i < list->n; i++) {
        const struct hook *h = list->hooks[i];
        const struct gen_item *it = gen_item_of(h);
        jw_obj(w);
        jw_kstrz(w, "plugin", it != NULL ? gen_item_unit(it)->name : NULL);
        jw_kint(w, "priority", h->terms.priority);
        if (h->name != NULL) {
            jw_kstrz(w, "name", h->name);
        }
        if (h->filter != NULL) {
            jw_kstrz(w, "filter", h->filter);
        }
        jw_kint(w, "timeout_ms", h->terms.timeout_ms);
        jw_kstrz(w, "on_error", h->terms.on_error == HOOK_BLOCK ? "block" : "continue");
        jw_kbool(w, "live", hook_is_live(h));
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

static void write_points(const struct hook_set *set, struct jw *w)
{
    jw_karr(w, "hooks");
    for (size_t i = 0; i < POINT__COUNT; i++) {
        const struct hook_point *p = &hook_points[i];
        const struct hook_list *list = hook_set_get(set, str_of(p->name), p->kind);
        if (list != NULL) {
            jw_obj(w);
            jw_kstrz(w, "hook", p->name);
            jw_kstrz(w, "kind", hook_kind_name(p->kind));
            jw_key(w, "handlers");
            write_handlers(list, w);
            jw_end_obj(w);
        }
    }
    jw_end_arr(w);
}

void agent_session_write_pipeline(struct session *s, struct jw *w)
{
    struct gen *g = gen_current(s->agent->o.engine);
    struct arena a = {0};
    struct gen_unit **units = NULL;
    size_t n = 0;
    struct err e = {0};
    int rc = g != NULL ? agent__session_units(s, g, &a, &units, &n, &e) : 0;
    struct str *names = arena_calloc(&a, n + 1, sizeof *names);
    jw_obj(w);
    jw_kint(w, "generation", g != NULL ? (int64_t)gen_number(g) : 0);
    jw_karr(w, "plugins");
    for (size_t i = 0; i < n; i++) {
        names[i] = str_of(units[i]->name);
        jw_str(w, names[i]);
    }
    jw_end_arr(w);
    jw_kstrz(w, "unavailable", rc < 0 ? e.msg : NULL);
    if (g != NULL) {
        struct hook_set *set = gen_hooks_of(g, names, n);
        write_points(set, w);
        hook_set_free(set);
    }
    jw_end_obj(w);
    arena_fini(&a);
}
