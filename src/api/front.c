// The web sides of plugins: which there are, and what browsers say of them.
//
//     plugin.loaded, plugin.changed, plugin.unloaded ──> page: GET /front/plugins ──> import /front/NAME/REVISION/...
//     page: POST /front/NAME/report ──> kept for that revision: front_error, diagnostics, needs of the row;
//                                       new ones are events plugin.error (source "front") and plugin.needs
//
// Each report replaces what was said of the plugin before, so a page that loads it well takes an earlier failure
// back. What is said of a revision that does not serve any more is not taken, and not shown.

#include "api/handlers.h"
#include "api/plugin_int.h"

enum { DIAGS_MAX = 16, TEXT_MAX = 1000 };

struct front_notes {
    uint64_t revision;
    vec(struct gen_diag) diags; // copies
    char *needs;                // the reason for a page-reload; NULL: it needs none
};

static void notes_free(struct front_notes *n)
{
    if (n != NULL) {
        vec_foreach (d, &n->diags) {
            gen_diag_fini(d);
        }
        vec_fini(&n->diags);
        free(n->needs);
        free(n);
    }
}

void api__front_free(struct api *api)
{
    map_fini_each(&api->fronts, notes_free);
}

/// What was said of the version that serves; NULL: nothing.
static const struct front_notes *notes_of(const struct api *api, const char *plugin)
{
    const struct front_notes *n = map_get(&api->fronts, str_of(plugin));
    struct plugin_front f;
    bool current = n != NULL && api->plugins != NULL &&
                   plugins_front(api->plugins, str_of(plugin), &f) && f.revision == n->revision;
    return current ? n : NULL;
}

const struct gen_diag *api__front_diag(const struct api *api, const char *plugin, size_t i)
{
    const struct front_notes *n = notes_of(api, plugin);
    return n != NULL && i < n->diags.n ? &n->diags.p[i] : NULL;
}

const char *api__front_error(const struct api *api, const char *plugin)
{
    const struct gen_diag *d;
    for (size_t i = 0; (d = api__front_diag(api, plugin, i)) != NULL; i++) {
        if (gen_code_severity(d->code) == DIAG_ERROR) {
            return d->message;
        }
    }
    return NULL;
}

const char *api__front_needs(const struct api *api, const char *plugin)
{
    const struct front_notes *n = notes_of(api, plugin);
    return n != NULL ? n->needs : NULL;
}

// ---- the list -----------------------------------------------------------------------------------

/// The address of a file of the version that serves; its hash makes it one that never changes.
static char *url_of(struct arena *a, const char *name, const struct plugin_front *f,
                    const char *file)
{
    return arena_printf(a, "/front/%s/%llu/%s?v=%.12s", name, (unsigned long long)f->revision, file,
                        f->hash);
}

void api_write_fronts(const struct api *api, struct jw *w)
{
    struct arena a = {0};
    jw_obj(w);
    jw_karr(w, "plugins");
    for (size_t i = 0; api->plugins != NULL && i < plugins_count(api->plugins); i++) {
        struct plugin_front f;
        const char *name = plugins_at(api->plugins, i).name;
        if (plugins_front(api->plugins, str_of(name), &f)) {
            const struct front_notes *n = notes_of(api, name);
            jw_obj(w);
            jw_kstrz(w, "name", name);
            jw_kint(w, "revision", (int64_t)f.revision);
            jw_kstrz(w, "hash", f.hash);
            jw_kstrz(w, "url", url_of(&a, name, &f, f.entry));
            jw_kstrz(w, "style", f.style != NULL ? url_of(&a, name, &f, f.style) : NULL);
            jw_kvalue(w, "options", f.options);
            jw_kbool(w, "reported", n != NULL && (n->diags.n != 0 || n->needs != NULL));
            jw_end_obj(w);
        }
    }
    jw_end_arr(w);
    jw_kint(w, "generation", api_generation(api));
    jw_end_obj(w);
    arena_fini(&a);
}

void op_FRONT_LIST(struct api *api, struct op_call *c)
{
    api_write_fronts(api, op_begin(c));
    op_end(c, 200);
}

void api_list_fronts(const struct api *api, void (*url)(void *arg, const char *url), void *arg)
{
    struct arena a = {0};
    for (size_t i = 0; api->plugins != NULL && i < plugins_count(api->plugins); i++) {
        struct plugin_front f;
        const char *name = plugins_at(api->plugins, i).name;
        if (plugins_front(api->plugins, str_of(name), &f)) {
            url(arg, url_of(&a, name, &f, f.entry));
        }
    }
    arena_fini(&a);
}

bool api_front_file(const struct api *api, struct str name, struct str revision, struct str path,
                    struct api_file *out)
{
    struct plugin_front f;
    uint64_t asked;
    if (api->plugins == NULL || !str_to_u64(revision, &asked) ||
        !plugins_front(api->plugins, name, &f) || f.revision != asked) {
        return false;
    }
    memcpy(out->version, f.hash, sizeof out->version - 1);
    out->version[sizeof out->version - 1] = '\0';
    return plugins_front_file(api->plugins, name, path, &out->bytes, &out->type);
}

// ---- what browsers say --------------------------------------------------------------------------

static const char *text_of(struct arena *a, const struct json *v)
{
    struct str s = json_str(v, "");
    return s.n != 0 ? arena_strdup(a, (struct str){s.p, MIN(s.n, (size_t)TEXT_MAX)}) : NULL;
}

/// Read one diagnostic of a report; false: it is none.
static bool read_diag(struct arena *a, const char *plugin, const struct json *v,
                      struct gen_diag *out)
{
    struct str code = json_str(json_get(v, "code"), "FRONT_LOAD_FAILED");
    *out = (struct gen_diag){.plugin = plugin,
                             .source = "front",
                             .path = text_of(a, json_get(v, "path")),
                             .line = (int)json_int(json_get(v, "line"), 0),
                             .message = text_of(a, json_get(v, "message"))};
    bool known = gen_code_parse(code, &out->code) &&
                 (out->code == DIAG_FRONT_LOAD_FAILED || out->code == DIAG_OUTPUT_CONFLICT);
    return known && out->message != NULL;
}

/// Put what was said in the place of what was said before; what is new becomes events.
static void take_report(struct api *api, struct op_call *c, const char *plugin, uint64_t revision)
{
    const struct front_notes *said = notes_of(api, plugin);
    struct front_notes *n = xcalloc(1, sizeof *n);
    struct buf fields = {.max = SIZE_MAX};
    struct jw w;
    n->revision = revision;
    json_foreach_item (it, json_get(c->params, "diagnostics")) {
        struct gen_diag d;
        if (n->diags.n == DIAGS_MAX || !read_diag(c->arena, plugin, it, &d)) {
            continue;
        }
        bool known = false;
        for (size_t i = 0; said != NULL && i < said->diags.n; i++) {
            known = known || gen_diag_equal(&said->diags.p[i], &d);
        }
        vec_push(&n->diags, gen_diag_copy(&d));
        if (!known) {
            jw_init(&w, &fields);
            gen_diag_write(&d, &w);
            event_emit_object(api->o.hub->events, EVENT_PLUGIN_ERROR, &fields);
        }
    }
    const char *needs = text_of(c->arena, json_get(c->params, "needs"));
    n->needs = needs != NULL ? xstrdup(needs) : NULL;
    if (needs != NULL && (said == NULL || said->needs == NULL || strcmp(said->needs, needs) != 0)) {
        jw_init(&w, &fields);
        jw_obj(&w);
        jw_kstrz(&w, "plugin", plugin);
        jw_kstrz(&w, "kind", "page-reload");
        jw_kstrz(&w, "reason", needs);
        jw_end_obj(&w);
        event_emit_object(api->o.hub->events, EVENT_PLUGIN_NEEDS, &fields);
    }
    notes_free(map_set(&api->fronts, str_of(plugin), n));
}

void op_FRONT_REPORT(struct api *api, struct op_call *c)
{
    struct str name = api__name(c);
    struct plugin_front f;
    struct plugin_row row;
    if (api->plugins == NULL || !plugins_find(api->plugins, name, &row)) {
        op_fail(c, PROBLEM_NOT_FOUND, NULL, "there is no plugin '" STR_FMT "'", STR_ARG(name));
        return;
    }
    uint64_t revision = (uint64_t)json_int(json_get(c->params, "revision"), 0);
    bool current = plugins_front(api->plugins, name, &f) && f.revision == revision;
    if (current) {
        take_report(api, c, arena_strdup(c->arena, name), revision);
    }
    struct jw *w = op_begin_obj(c);
    jw_kbool(w, "taken", current);
    op_end_obj(c, 200);
}
