// plugins{...}: user/init.lua installs more plugins.
//
//     plugins { {path = "~/x", options = {...}}, {module = "user.y"},    entries: the plugins' source loads
//               {name = "z", tools = {...}}, function(ctx) ... end }     inside: units of their own, here
//
// Plugins inside the file are run at once, each with a unit (origin "init") and an owner of its own, by the code that
// installs what a plugin's file returns. Their units share the verdict on the module's version: they are put or discarded
// with it. One that fails is refused alone, and its last good version, if there is one, continues to serve. The next
// version of the module replaces them, and removes those that it does not name any more.
//
// Entries are handed over when the version is committed, if they changed, and are loaded by another run: the plugins' source
// had already looked at the disk when this file ran.
//
// With the feature `plugins` off nothing inside is run; when it is switched, the file runs again.
//
// Invariants:
//   - a unit of origin "init" has a struct inside as its data, and counts as alive in its space.
//   - the list of a version names everything that it asked for, also what failed, so that its successor knows what to
//     remove. No name is in it twice, so that a report about one plugin never touches the unit of another.

#include "base/path.h"
#include "bind/modules_int.h"
#include "bind/plugin_int.h"
#include "plugin/plugins.h"
#include "store/tree.h"

#define NUMBERED "init-" // and its number: the name of a plugin that has none

static const char origin[] = "init";

/// A plugin inside a module; freed by its unit's release.
struct inside {
    struct plugin__version v; // first
    struct plugin_code code;
    struct module *module; // whose text it is part of
};

/// The result of one of the plugins inside.
struct outcome {
    char *name;
    struct gen_unit *unit; // until it is committed; NULL: it failed
    struct gen_diag fault;
};

/// What the file of one version asked for.
struct installs {
    lua_Integer n; // entries of all kinds
    bool off;      // the feature `plugins` was: nothing inside was run
    vec(struct outcome) inside;
    vec(struct plugin_install) entries; // strings in `arena`
    struct arena arena;
};

static struct installs *installs_of(struct version *v)
{
    if (v->installs == NULL) {
        v->installs = xcalloc(1, sizeof *v->installs);
    }
    return v->installs;
}

static const struct outcome *find(const struct version *v, struct str name)
{
    for (size_t i = 0; v != NULL && v->installs != NULL && i < v->installs->inside.n; i++) {
        if (str_eqz(name, v->installs->inside.p[i].name)) {
            return &v->installs->inside.p[i];
        }
    }
    return NULL;
}

static void fail(struct version *v, const char *name, enum gen_code code, const char *message)
{
    struct gen_diag d = {.code = code, .origin = origin, .path = v->text->path, .message = message};
    struct outcome o = {.name = xstrdup(name), .fault = gen_diag_copy(&d)};
    vec_push(&installs_of(v)->inside, o);
}

static bool is_off(const struct bind *b)
{
    return b->all_plugins != NULL && !plugins_is_on(b->all_plugins);
}

// ---- inside the file ----------------------------------------------------------------------------

static struct inside *inside_new(struct version *v, const char *name)
{
    static const struct plugin_shape shape = {
        .api = MANIFEST_API, .origin = origin, .lang = LANG_LUA};
    static const struct tree no_files = {.is_file = true};
    struct space *sp = v->module->space;
    struct inside *in = xcalloc(1, sizeof *in);
    struct gen_unit_spec spec = {.name = name,
                                 .path = v->text->path,
                                 .layer = v->text->layer,
                                 .host = "hub",
                                 .origin = origin,
                                 .hash = v->unit->hash,
                                 .data = in};
    struct gen_unit *u = gen_stage_unit(sp->stage, &spec);
    in->module = v->module;
    in->code = (struct plugin_code){
        .unit = u->name, .name = u->name, .path = u->path, .tree = &no_files, .shape = &shape};
    plugin__version_init(&in->v, sp->ms->bind->plugins, &in->code, sp->vm, u);
    sp->alive++;
    return in;
}

/// A function is run under the name that it has here: one that it says itself comes too late.
static void check_name(const struct inside *in, const char *name)
{
    struct str said = json_str(json_get(in->v.head.metadata, "name"), name);
    if (!str_eqz(said, name)) {
        char *message = xasprintf("its code gives the name '%.*s', which is ignored; in "
                                  "plugins{...} it is '%s'",
                                  (int)MIN(said.n, PLUGIN_NAME_MAX), said.p, name);
        gen_unit_note(in->v.unit, &(struct gen_diag){.code = DIAG_NAME_MISMATCH,
                                                     .origin = origin,
                                                     .path = in->code.path,
                                                     .message = message,
                                                     .hint = "give a table with the name, or put "
                                                             "it into a file of its own"});
        free(message);
    }
}

/// The value at `idx` is a plugin: run it for a unit of its own.
static void install_inside(lua_State *L, struct version *v, const char *number, int idx)
{
    bool has_name = lua_istable(L, idx) && args_field(L, idx, "name");
    const char *said = has_name && lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    const char *name = said != NULL ? said : number;
    size_t n = strlen(NUMBERED);
    bool numbered = // a name that plugins without one get
        said != NULL && strncmp(said, NUMBERED, n) == 0 &&
        said[n + strspn(said + n, "0123456789")] == '\0';
    if (said != NULL && (!plugin_name_valid(str_of(said)) || numbered)) {
        fail(v, number, DIAG_NAME_INVALID,
             lua_pushfstring(L, "invalid plugin name '%s'; use a name like 'my-plugin'", said));
        return;
    }
    if (find(v, str_of(name)) != NULL) {
        fail(v, number, DIAG_NAME_DUPLICATE,
             lua_pushfstring(L, "there is a plugin '%s' in plugins{...} already", name));
        return;
    }
    struct inside *in = inside_new(v, name);
    struct outcome o = {.name = xstrdup(name), .unit = in->v.unit};
    if (plugin__run_value(&in->v, L, idx, &o.fault) < 0) {
        o.unit = NULL; // it is not put, and so goes when the stage ends
    } else {
        check_name(in, name);
    }
    vec_push(&installs_of(v)->inside, o);
}

// ---- entries ------------------------------------------------------------------------------------

/// Read the entry at 1, {path =, options =, hot =} or {module =, ...}, for the version at 2; raises.
static int read_entry(lua_State *L)
{
    static const char *const keys[] = {"path", "module", "options", "hot", NULL};
    struct version *v = lua_touserdata(L, 2);
    struct arena *a = &v->installs->arena;
    struct plugin_install one = {.hot = HOT_YES};
    struct json *options = NULL;
    struct err e = {0};
    args_keys(L, 1, "plugins", keys);
    if (args_field(L, 1, "hot")) {
        bool manual = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "manual") == 0;
        if (!manual && !lua_isboolean(L, -1)) {
            return luaL_error(L, "plugins: hot must be true, false or 'manual'");
        }
        one.hot = manual ? HOT_MANUAL : lua_toboolean(L, -1) ? HOT_YES : HOT_NO;
    }
    if (args_field(L, 1, "options") && value_read(&options, a, L, -1, &e) < 0) {
        return luaL_error(L, "plugins: options: %s", e.msg);
    }
    one.options = options;
    if (args_field(L, 1, "path")) { // relative to the module's file
        const char *said = args_z(L, -1, "plugins", "path");
        if (said[0] == '\0') { // it would be the directory of the file itself
            return luaL_error(L, "plugins: path is empty");
        }
        char *home = path_expand_home(said), *dir = str_dup(path_dir(str_of(v->text->path)));
        char *joined = path_join(dir, home);
        one.path = arena_strdup(a, str_of(joined));
        free(joined);
        free(dir);
        free(home);
    } else { // the file of the user's module, or the directory of its init.lua
        args_field(L, 1, "module");
        struct str name = args_str(L, -1, "plugins", "module");
        const struct files__text *t = files__find(&v->module->space->ms->files, name);
        if (t == NULL || !files__is_users(t)) {
            return luaL_error(L, "plugins: there is no module '%s' in the user's directory",
                              name.p);
        }
        struct str path = str_of(t->path);
        one.path = arena_strdup(a, str_ends(path, "/init.lua") ? path_dir(path) : path);
    }
    vec_push(&v->installs->entries, one);
    return 0;
}

// ---- plugins{...} ---------------------------------------------------------------------------------

int installs__call(lua_State *L)
{
    struct space *sp = space__of(L);
    struct version *v = sp->stage != NULL && sp->loading.n != 0 ? *vec_last(&sp->loading) : NULL;
    if (v == NULL || strcmp(v->module->name, "user.init") != 0 || bind__owner(L)->plugin != NULL) {
        return luaL_error(L, "plugins: call this only from user/init.lua, while it loads");
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkstack(L, 16, "plugins");
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
    bool off = installs_of(v)->off = is_off(bind_of(L));
    for (lua_Integer i = 1; i <= n; i++) {
        lua_settop(L, 1);
        const char *number =
            lua_pushfstring(L, NUMBERED "%d", (int)++installs_of(v)->n); // for what says no name
        lua_rawgeti(L, 1, i);
        bool entry = lua_istable(L, 3) && (args_field(L, 3, "path") || args_field(L, 3, "module"));
        lua_settop(L, 3);
        if (entry) {
            // it runs no Lua code, so this catches only its own errors
            lua_pushcfunction(L, read_entry);
            lua_pushvalue(L, 3);
            lua_pushlightuserdata(L, v);
            if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
                fail(v, number, DIAG_MANIFEST_INVALID, lua_tostring(L, -1));
            }
        } else if (off) {
            continue;
        } else if (lua_istable(L, 3) || lua_isfunction(L, 3)) {
            install_inside(L, v, number, 3);
        } else {
            fail(v, number, DIAG_MANIFEST_INVALID, "a plugin is a table or a function");
        }
    }
    return 0;
}

// ---- with the module's version --------------------------------------------------------------------

const struct version *installs__served(const struct version *v)
{
    const struct modules *ms = v->module->space->ms;
    const struct module *old = ms->former != NULL
                                   ? map_get(&ms->former->modules, str_of(v->module->name))
                                   : v->module->twin;
    return old != NULL ? old->live : NULL;
}

static void remove_others(struct gen_stage *s, const struct version *old, const struct version *v)
{
    for (size_t i = 0; old != NULL && old->installs != NULL && i < old->installs->inside.n; i++) {
        const char *name = old->installs->inside.p[i].name;
        if (find(v, str_of(name)) == NULL) {
            gen_stage_remove(s, name, GEN_REMOVE);
        }
    }
}

void installs__put(struct gen_stage *s, struct version *v)
{
    bool dead = v->module->space->ms->former != NULL;
    remove_others(s, installs__served(v), v);
    for (size_t i = 0; v->installs != NULL && i < v->installs->inside.n; i++) {
        struct outcome *o = &v->installs->inside.p[i];
        if (o->unit != NULL) {
            o->unit = gen_stage_put(s, o->unit) ? o->unit : NULL;
            continue;
        }
        if (dead) {
            gen_stage_remove(s, o->name, GEN_REMOVE); // the last good one is in a dead state
        }
        gen_stage_refuse(s, o->name, GEN_FAILED, &o->fault);
    }
}

void installs__remove(struct gen_stage *s, const struct version *old)
{
    remove_others(s, old, NULL);
}

void installs__hand_over(struct module *m, const struct installs *list)
{
    struct plugins *all = m->space->ms->bind->all_plugins;
    struct buf b = {.max = SIZE_MAX}; // the entries as one text, to compare them
    for (size_t i = 0; list != NULL && i < list->entries.n; i++) {
        buf_addf(&b, "%s %d ", list->entries.p[i].path, (int)list->entries.p[i].hot);
        json_write(&b, list->entries.p[i].options, 0);
        buf_addc(&b, '\n');
    }
    char *text = buf_take(&b, NULL);
    bool same = strcmp(text, m->installed != NULL ? m->installed : "") == 0;
    free(m->installed);
    m->installed = text;
    if (!same && all != NULL) {
        plugins_install(all, m->unit_name, list != NULL ? list->entries.p : NULL,
                        list != NULL ? list->entries.n : 0);
        gen_request(m->space->ms->engine, &(struct gen_request){.trigger = "lua"}, NULL, NULL);
    }
}

void installs__commit(struct version *v)
{
    for (size_t i = 0; v->installs != NULL && i < v->installs->inside.n; i++) {
        struct outcome *o = &v->installs->inside.p[i];
        if (o->unit != NULL) {
            struct inside *in = o->unit->data;
            in->v.head.runner->keep(&in->v.head);
            o->unit = NULL;
        }
    }
    installs__hand_over(v->module, v->installs);
}

void installs__free(struct installs *list)
{
    if (list == NULL) {
        return;
    }
    vec_foreach (o, &list->inside) {
        gen_diag_fini(&o->fault);
        free(o->name);
    }
    vec_fini(&list->inside);
    vec_fini(&list->entries);
    arena_fini(&list->arena);
    free(list);
}

bool installs__are_stale(const struct version *v)
{
    return v != NULL && v->installs != NULL && v->installs->n != 0 &&
           v->installs->off != is_off(v->module->space->ms->bind);
}

bool installs__has(const struct version *v, struct str name)
{
    return find(v, name) != NULL;
}

// ---- units ----------------------------------------------------------------------------------------

struct plugin_version *inside__plugin(const struct gen_unit *u)
{
    struct inside *in = strcmp(u->origin, origin) == 0 ? u->data : NULL;
    return in != NULL ? &in->v.head : NULL;
}

struct version *inside__version(const struct gen_unit *u)
{
    return inside__plugin(u) != NULL ? ((struct inside *)u->data)->module->live : u->data;
}

void inside__release(struct gen_unit *u)
{
    struct inside *in = u->data;
    struct space *sp = in->module->space;
    in->v.head.runner->free(&in->v.head);
    space__leave(sp);
}
