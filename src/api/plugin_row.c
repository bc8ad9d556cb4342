// Plugins and improvements as rows: what is known of them without running any of their code.
//
// A plugin's row comes from the plugins' source, which knows entries, layers and what is on disk. That
// of an improvement, or of a plugin inside a module (plugins{...} of user/init.lua), comes from the
// generation and the last report, since it is no more than a unit. All are one list here, plugins first.

#include "api/plugin_int.h"
#include "base/redact.h"
#include "base/time.h"
#include "gen/route.h"
#include "plugin/improvements.h"

// ---- improvements ----------------------------------------------------------------------------

static bool is_improvement(const char *unit)
{
    return str_starts(str_of(unit), API_IMPROVEMENTS);
}

static struct api_row improvement_row(const struct api *api, const char *unit,
                                      const struct gen_unit *u)
{
    struct str name = str_from(str_of(unit), strlen(API_IMPROVEMENTS));
    enum scope_kind scope = SCOPE_ALL;
    if (api->improvements != NULL) {
        scope = scopes_get(improvements_scopes(api->improvements), name).kind;
    }
    return (struct api_row){
        .p = {.name = unit,
              .path = u != NULL ? u->path : "",
              .source = "improvement",
              .layer = "improvement",
              .host = "lua",
              .state = gen_state_of(api->engine, str_of(unit)),
              .enabled = true,
              .unit = u,
              .hash = u != NULL ? u->hash : NULL},
        .scope = scope_kind_name(scope),
    };
}

// ---- plugins inside modules ------------------------------------------------------------------

static bool is_inside(const char *origin)
{
    return origin != NULL && strcmp(origin, "init") == 0;
}

/// `u` may be NULL: then `d` says why.
static struct api_row inside_row(const struct api *api, const char *unit, const struct gen_unit *u,
                                 const struct gen_diag *d)
{
    const struct plugin_version *v = u != NULL ? u->data : NULL;
    return (struct api_row){
        .p = {.name = unit,
              .path = u != NULL ? u->path : d->path,
              .source = "lua",
              .layer = u != NULL ? u->layer : "user",
              .host = "hub",
              .state = gen_state_of(api->engine, str_of(unit)),
              .enabled = true,
              .unit = u,
              .hash = u != NULL ? u->hash : NULL,
              .metadata = v != NULL ? v->metadata : NULL},
        .inside = true,
    };
}

// ---- both ------------------------------------------------------------------------------------

/// What serves as `u`, if it is an improvement or inside a module.
static bool serving_row(const struct api *api, const struct gen_unit *u, struct api_row *out)
{
    if (is_improvement(u->name)) {
        *out = improvement_row(api, u->name, u);
        return true;
    }
    if (is_inside(u->origin)) {
        *out = inside_row(api, u->name, u, NULL);
        return true;
    }
    return false;
}

/// The same for a name under which nothing serves.
static bool failed_row(const struct api *api, const struct gen_report *r,
                       const struct gen_report_row *row, struct api_row *out)
{
    if (row->serving || row->state == GEN_REMOVED) {
        return false;
    }
    if (is_improvement(row->name)) {
        *out = improvement_row(api, row->name, NULL);
        return true;
    }
    for (size_t i = 0; i < r->n_diags; i++) {
        const struct gen_diag *d = &r->diags[i];
        if (d->plugin != NULL && strcmp(d->plugin, row->name) == 0 && is_inside(d->origin)) {
            *out = inside_row(api, row->name, NULL, d); // the diagnostic says why
            return true;
        }
    }
    return false;
}

/// Number `i` of these: those that serve, then those that only failed; `i` runs down to 0.
static bool unit_row_at(const struct api *api, size_t i, struct api_row *out)
{
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    const struct gen_report *r = api->engine != NULL ? gen_last_report(api->engine) : NULL;
    for (size_t k = 0; g != NULL && k < gen_count(g); k++) {
        if (serving_row(api, gen_at(g, k), out) && i-- == 0) {
            return true;
        }
    }
    for (size_t k = 0; r != NULL && k < r->n_rows; k++) {
        if (failed_row(api, r, &r->rows[k], out) && i-- == 0) {
            return true;
        }
    }
    return false;
}

// ---- the list --------------------------------------------------------------------------------

static size_t plugin_count(const struct api *api)
{
    return api->plugins != NULL ? plugins_count(api->plugins) : 0;
}

/// With the feature off nothing is loaded, whatever is there.
static struct plugin_row settle(const struct api *api, struct plugin_row p)
{
    if (p.unit == NULL && p.state == GEN_REMOVED && !api__plugins_on(api)) {
        p.state = GEN_DISABLED;
    }
    return p;
}

size_t api__row_count(const struct api *api)
{
    struct api_row row;
    size_t n = 0;
    while (unit_row_at(api, n, &row)) {
        n++;
    }
    return plugin_count(api) + n;
}

struct api_row api__row_at(const struct api *api, size_t i)
{
    struct api_row row = {0};
    size_t plugins = plugin_count(api);
    if (i < plugins) {
        row.p = settle(api, plugins_at(api->plugins, i));
    } else {
        bool found = unit_row_at(api, i - plugins, &row);
        assert(found); // `i` is below api__row_count()
        (void)found;
    }
    return row;
}

bool api__row_find(const struct api *api, struct str name, struct api_row *out)
{
    *out = (struct api_row){0};
    if (api->plugins != NULL && plugins_find(api->plugins, name, &out->p)) {
        out->p = settle(api, out->p);
        return true;
    }
    for (size_t i = 0; unit_row_at(api, i, out); i++) {
        if (str_eqz(name, out->p.name)) {
            return true;
        }
    }
    return false;
}

bool api__row_of(struct api *api, struct op_call *c, struct api_row *out)
{
    struct str name = api__name(c);
    if (api__row_find(api, name, out)) {
        return true;
    }
    size_t n = api__row_count(api);
    const char **names = arena_calloc(c->arena, n + 1, sizeof *names);
    for (size_t i = 0; i < n; i++) {
        names[i] = api__row_at(api, i).p.name;
    }
    const char *near = str_nearest(name, names, n);
    op_fail(c, PROBLEM_NOT_FOUND,
            near != NULL ? arena_printf(c->arena, "did you mean '%s'?", near)
                         : "`afloat plugins` lists them",
            "Plugin not found: %.*s", (int)MIN(name.n, 100), name.p);
    return false;
}

void api__refuse_inside(struct op_call *c, const struct api_row *r)
{
    op_fail(c, PROBLEM_CONFLICT, "change it in that file", "plugin '%s' is part of '%s'", r->p.name,
            r->p.path);
}

// ---- what a unit contributes -----------------------------------------------------------------

/// The hook points that it has handlers for, in the order of a turn.
static void write_hooks(const struct gen_unit *u, struct jw *w)
{
    jw_karr(w, "hooks");
    for (size_t i = 0; u != NULL && i < POINT__COUNT; i++) {
        bool any = false;
        for (size_t k = 0; k < gen_unit_count(u) && !any; k++) {
            const struct gen_item *it = gen_unit_at(u, k);
            const struct hook *h = gen_item_hook(it);
            any = h != NULL && !gen_item_is_off(it) && strcmp(h->point, hook_points[i].name) == 0;
        }
        if (any) {
            jw_strz(w, hook_points[i].name);
        }
    }
    jw_end_arr(w);
}

static void write_items(const struct gen_unit *u, enum gen_kind kind, const char *key, struct jw *w)
{
    jw_karr(w, key);
    for (size_t i = 0; u != NULL && i < gen_unit_count(u); i++) {
        const struct gen_item *it = gen_unit_at(u, i);
        if (gen_item_kind(it) == kind && !gen_item_is_off(it)) {
            jw_strz(w, gen_item_name(it));
        }
    }
    jw_end_arr(w);
}

/// What the manifest says, then what only the code says.
static void write_metadata(const struct api_row *r, struct jw *w)
{
    const struct json *first = r->p.shape != NULL ? r->p.shape->metadata : NULL;
    jw_kobj(w, "metadata");
    if (first == NULL) {
        jw_kstrz(w, "api", "1.0");
        jw_kstrz(w, "name", r->p.name);
    }
    json_foreach_member (m, first) {
        jw_key_str(w, m->key);
        jw_value(w, &m->value);
    }
    json_foreach_member (m, r->p.metadata) {
        bool written = first != NULL ? json_get_str(first, m->key) != NULL
                                     : str_eqz(m->key, "api") || str_eqz(m->key, "name");
        if (!written) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
    }
    jw_end_obj(w);
}

void api__row_write_brief(const struct api_row *r, struct jw *w)
{
    write_hooks(r->p.unit, w);
    write_metadata(r, w);
}

// ---- what is wrong with it -------------------------------------------------------------------

/// Walk all diagnostics of a unit: those of the last report, what was noted since, what browsers say.
static const struct gen_diag *diag_at(const struct api *api, const struct plugin_row *p, size_t i)
{
    const struct gen_report *r = api->engine != NULL ? gen_last_report(api->engine) : NULL;
    for (size_t k = 0; r != NULL && k < r->n_diags; k++) {
        const struct gen_diag *d = &r->diags[k];
        if (d->plugin != NULL && strcmp(d->plugin, p->name) == 0 && i-- == 0) {
            return d;
        }
    }
    size_t n = 0;
    const struct gen_diag *own = p->unit != NULL ? gen_unit_diags(p->unit, &n) : NULL;
    for (size_t k = 0; k < n; k++) {
        bool told = false;
        for (size_t m = 0; r != NULL && m < r->n_diags && !told; m++) {
            const struct gen_diag *d = &r->diags[m];
            told = d->plugin != NULL && strcmp(d->plugin, p->name) == 0 && d->code == own[k].code &&
                   d->line == own[k].line && strcmp(d->message, own[k].message) == 0;
        }
        if (!told && i-- == 0) {
            return &own[k];
        }
    }
    return api__front_diag(api, p->name, i);
}

/// The last problem that keeps it from serving, or from serving what is on disk; NULL: none.
static const struct gen_diag *load_error(const struct api *api, const struct plugin_row *p)
{
    const struct gen_diag *found = NULL, *d;
    for (size_t i = 0; (d = diag_at(api, p, i)) != NULL; i++) {
        found = gen_code_severity(d->code) == DIAG_ERROR ? d : found;
    }
    return found;
}

/// The last failure of code that ran, else what keeps it from serving; NULL: neither.
static const struct gen_diag *last_error(const struct api *api, const struct plugin_row *p)
{
    size_t n = 0;
    const struct gen_diag *own = p->unit != NULL ? gen_unit_diags(p->unit, &n) : NULL;
    while (n-- > 0) {
        enum gen_code code = own[n].code;
        if (code == DIAG_HOOK_FAILED || code == DIAG_HOOK_TIMEOUT ||
            gen_code_severity(code) == DIAG_ERROR) {
            return &own[n];
        }
    }
    return load_error(api, p);
}

static const char *error_of(const struct api *api, const struct plugin_row *p)
{
    const struct gen_diag *d = load_error(api, p);
    return p->pending_error != NULL ? p->pending_error : d != NULL ? d->message : NULL;
}

// ---- the whole of it -------------------------------------------------------------------------

const struct hook_stats *api__stats_of(const struct gen_item *it)
{
    const struct gen_target *t = gen_item_face(it);
    const struct gen_route *r = gen_item_face(it);
    switch (gen_item_kind(it)) {
    case GEN_ROUTE: return r->stats != NULL ? r->stats(gen_item_data(it)) : NULL;
    case GEN_TOOL:
    case GEN_COMMAND: return t->stats != NULL ? t->stats(gen_item_data(it)) : NULL;
    default: return NULL;
    }
}

static void write_stats_of(const struct gen_unit *u, enum gen_kind kind, const char *key,
                           struct jw *w)
{
    jw_kobj(w, key);
    for (size_t i = 0; u != NULL && i < gen_unit_count(u); i++) {
        const struct gen_item *it = gen_unit_at(u, i);
        const struct hook_stats *s = gen_item_kind(it) == kind ? api__stats_of(it) : NULL;
        if (s != NULL && !gen_item_is_off(it)) {
            jw_key(w, gen_item_name(it));
            hook_stats_write(s, w);
        }
    }
    jw_end_obj(w);
}

static void write_output(const char *kind, const char *name, const char *needs, struct jw *w)
{
    jw_obj(w);
    jw_kstrz(w, "kind", kind);
    jw_kstrz(w, "name", name);
    jw_kbool(w, "swaps", needs == NULL);
    if (needs != NULL) {
        jw_kstrz(w, "needs", needs);
    }
    jw_end_obj(w);
}

/// What the last report said that this plugin needs; NULL: nothing.
static const char *need_of(const struct api *api, const struct plugin_row *p)
{
    const struct gen_report *r = api->engine != NULL ? gen_last_report(api->engine) : NULL;
    for (size_t i = 0; r != NULL && i < r->n_needs; i++) {
        if (strcmp(r->needs[i].plugin, p->name) == 0) {
            return gen_need_name(r->needs[i].kind);
        }
    }
    return api__front_needs(api, p->name) != NULL ? gen_need_name(GEN_PAGE_RELOAD) : NULL;
}

static void write_outputs(const struct api *api, const struct plugin_row *p, struct jw *w)
{
    static const enum gen_kind shown[] = {GEN_TOOL,     GEN_ROUTE, GEN_COMMAND,    GEN_FLAG,
                                          GEN_PROMPT,   GEN_SKILL, GEN_MCP_PROMPT, GEN_MCP_RESOURCE,
                                          GEN_PROVIDER, GEN_OUTPUT};
    const char *needs = need_of(api, p);
    jw_karr(w, "outputs");
    for (size_t i = 0; p->unit != NULL && i < gen_unit_count(p->unit); i++) {
        const struct gen_item *it = gen_unit_at(p->unit, i);
        for (size_t k = 0; k < ARRAY_LEN(shown) && !gen_item_is_off(it); k++) {
            if (gen_item_kind(it) == shown[k]) {
                write_output(gen_kind_name(shown[k]), gen_item_name(it), needs, w);
            }
        }
    }
    const struct plugin_shape *s = p->shape;
    const char *const parts[][2] = {{"front", s != NULL ? s->front : NULL},
                                    {"ui", s != NULL ? s->ui : NULL},
                                    {"prompt", s != NULL ? s->prompt : NULL},
                                    {"skills", s != NULL ? s->skills : NULL}};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i][1] != NULL) {
            write_output(parts[i][0], parts[i][1], needs, w);
        }
    }
    jw_end_arr(w);
}

// ---- a row -----------------------------------------------------------------------------------

/// What only one row shows, not each of a list.
static void write_whole(const struct api *api, const struct plugin_row *p, struct jw *w)
{
    const struct tree_file *f = p->tree != NULL && p->shape != NULL && p->shape->server != NULL
                                    ? tree_find(p->tree, str_of(p->shape->server))
                                    : NULL;
    const struct gen_diag *d = last_error(api, p);
    jw_key(w, "content");
    if (f != NULL) {
        jw_str(w, f->bytes);
    } else {
        jw_null(w);
    }
    jw_kobj(w, "stats");
    jw_key(w, "hooks");
    if (p->unit != NULL) {
        gen_unit_write_stats(p->unit, w);
    } else {
        jw_obj(w);
        jw_end_obj(w);
    }
    write_stats_of(p->unit, GEN_ROUTE, "routes", w);
    write_stats_of(p->unit, GEN_TOOL, "tools", w);
    write_stats_of(p->unit, GEN_COMMAND, "commands", w);
    jw_kint(w, "memory_bytes", (int64_t)plugin_row_memory(p));
    jw_end_obj(w);
    jw_key(w, "last_error");
    if (d != NULL) {
        gen_diag_write(d, w);
    } else {
        jw_null(w);
    }
    jw_karr(w, "diagnostics");
    for (size_t i = 0; (d = diag_at(api, p, i)) != NULL; i++) {
        gen_diag_write(d, w);
    }
    jw_end_arr(w);
    write_outputs(api, p, w);
    if (p->options != NULL) {
        jw_kvalue(w, "options", p->options);
    }
}

void api__row_write(const struct api *api, const struct api_row *r, bool whole, struct jw *w)
{
    const struct plugin_row *p = &r->p;
    jw_obj(w);
    jw_kstrz(w, "name", p->name);
    jw_kstrz(w, "path", p->path);
    jw_kstrz(w, "source", p->source);
    jw_kstrz(w, "layer", p->layer);
    if (p->project != NULL) {
        jw_kstrz(w, "project", p->project);
    }
    jw_kstrz(w, "host", p->host);
    if (r->scope != NULL) {
        jw_kstrz(w, "scope", r->scope);
    }
    if (p->n_shadows != 0) {
        jw_karr(w, "shadows");
        for (size_t i = 0; i < p->n_shadows; i++) {
            jw_strz(w, p->shadows[i]->path);
        }
        jw_end_arr(w);
    }
    write_hooks(p->unit, w);
    write_items(p->unit, GEN_TOOL, "tools", w);
    write_items(p->unit, GEN_PROVIDER, "providers", w);
    write_items(p->unit, GEN_ROUTE, "routes", w);
    write_items(p->unit, GEN_COMMAND, "commands", w);
    write_items(p->unit, GEN_PROMPT, "prompts", w);
    write_metadata(r, w);
    jw_kstrz(w, "state", gen_state_name(p->state));
    jw_kbool(w, "serving", p->unit != NULL);
    jw_kbool(w, "enabled", p->enabled);
    jw_kbool(w, "required", p->required);
    if (p->pending_hash != NULL) {
        char at[TIME_TEXT];
        jw_kobj(w, "pending");
        jw_kstrz(w, "hash", p->pending_hash);
        jw_kstrz(w, "at", time_format(p->pending_at, at));
        if (p->pending_error != NULL) {
            redact_member(w, "error", str_of(p->pending_error));
        }
        jw_end_obj(w);
    }
    jw_kint(w, "revision", p->unit != NULL ? (int64_t)p->unit->revision : 0);
    jw_kint(w, "generation", p->unit != NULL ? (int64_t)p->unit->since : 0);
    jw_kstrz(w, "hash", p->hash);
    const struct gen_diag *failed = load_error(api, p);
    redact_member(w, "error", str_of(error_of(api, p)));
    if (failed != NULL && failed->line != 0) {
        jw_key(w, "error_at");
        jw_strf(w, "%s:%u", failed->path, (unsigned)failed->line);
    }
    if (p->shape != NULL && p->shape->front != NULL) {
        redact_member(w, "front_error", str_of(api__front_error(api, p->name)));
    }
    if (whole) {
        write_whole(api, p, w);
    }
    jw_end_obj(w);
}

void api_list_plugins(const struct api *api,
                      void (*row)(void *arg, const char *name, const char *state,
                                  const char *error),
                      void *arg)
{
    for (size_t i = 0, n = api__row_count(api); i < n; i++) {
        const struct api_row r = api__row_at(api, i);
        row(arg, r.p.name, gen_state_name(r.p.state), error_of(api, &r.p));
    }
}
