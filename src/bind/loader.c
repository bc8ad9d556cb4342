// hub.loader: the reload transaction as Lua sees it, in the hub's modules and in plugins.
//
// These functions work as every reload does: they make a request to the engine, and the report of the run that covers it is
// the answer. So they wait or take a callback; a file that is being loaded may not wait, and gets an error.

#include "bind/loader.h"

#include "bind/bind_int.h"
#include "bind/modules_int.h"
#include "config/home.h"

// ---- answers --------------------------------------------------------------------------------

void loader_push_report(lua_State *L, const struct gen_report *report)
{
    struct buf text = {.max = SIZE_MAX};
    struct arena a = {0};
    struct json *v = NULL;
    struct jw w = {.out = &text};
    gen_report_write(report, &w);
    int rc = json_parse(&v, &a, buf_str(&text), NULL, NULL);
    value_push(L, rc == 0 ? v : NULL);
    arena_fini(&a);
    buf_fini(&text);
}

/// The report always comes, even if it is not wanted any more, and frees the request.
static void on_report(const struct gen_report *report, void *arg)
{
    struct loader__ask *k = arg;
    lua_State *L = bind__op_answer_begin(&k->op);
    if (L != NULL && report == NULL) {
        bind__op_answer(&k->op, args_fail(L, "the hub is stopping"));
    } else if (L != NULL) { // else its owner may be gone, too
        struct gen_engine *e = k->op.o->bind->o.engine;
        size_t n = 0;
        vec_foreach (name, &k->names) {
            n += gen_state_of(e, str_of(*name)) == GEN_LOADED;
        }
        const struct gen *g = gen_current(e);
        for (size_t i = 0; k->answer == LOADER_IMPROVEMENTS && i < gen_count(g); i++) {
            n += str_starts(str_of(gen_at(g, i)->name), "improvements/");
        }
        if (k->answer == LOADER_ALL_SERVE) {
            lua_pushboolean(L, n == k->names.n);
        } else {
            lua_pushinteger(L, (lua_Integer)n);
        }
        loader_push_report(L, report);
        bind__op_answer(&k->op, 2);
    }
    vec_fini_each(&k->names, free);
    free(k);
}

struct loader__ask *loader__ask_for(struct str name)
{
    struct loader__ask *k = xcalloc(1, sizeof *k);
    vec_push(&k->names, str_dup(name));
    return k;
}

int loader__request(lua_State *L, struct loader__ask *k, bool force, int callback)
{
    vec(struct str) names = {0};
    vec_foreach (n, &k->names) {
        vec_push(&names, str_of(*n));
    }
    struct gen_request req = {
        .trigger = "lua", .wait_all = true, .force = force, .names = names.p, .n_names = names.n};
    gen_request(bind_of(L)->o.engine, &req, on_report, k);
    vec_fini(&names);
    return bind__op_begin(L, &k->op, callback, NULL);
}

// ---- functions ------------------------------------------------------------------------------

/// The hub's modules; raises when this hub has none.
static struct modules *modules_of(lua_State *L, const char *fn)
{
    struct modules *ms = bind_of(L)->modules;
    if (ms == NULL) {
        luaL_error(L, "%s: there are no modules in this hub", fn);
    }
    return ms;
}

/// reload(module [, fn]) -> ok, report; a protected module: false, "PROTECTED"
static int lib_reload(lua_State *L)
{
    struct modules *ms = modules_of(L, "loader.reload");
    struct str name = modules__name_of(args_str(L, 1, "loader.reload", "module"));
    lua_settop(L, 2);
    if (str_starts(name, "hub.")) {
        lua_pushboolean(L, 0);
        lua_pushliteral(L, "PROTECTED");
        return 2;
    }
    if (!modules_knows(ms, name)) {
        return args_fail(L, "there is no module '" STR_FMT "'", STR_ARG(name));
    }
    bind__op_check(L, 2, "loader.reload");
    if (bind_of(L)->stopped) {
        return args_fail(L, "the hub is stopping");
    }
    struct loader__ask *k = xcalloc(1, sizeof *k);
    vec_push(&k->names, xasprintf("lua:" STR_FMT, STR_ARG(name)));
    return loader__request(L, k, true, 2);
}

/// load_improvements([dir] [, fn]) -> how many serve, report
static int lib_load_improvements(lua_State *L)
{
    int callback = lua_isfunction(L, 1) ? 1 : 2;
    lua_settop(L, 2);
    if (callback == 2 && !lua_isnil(L, 1)) {
        const char *dir = args_z(L, 1, "loader.load_improvements", "dir");
        const char *home = bind_of(L)->o.hub->home->dir;
        size_t n = strlen(home);
        if (strncmp(dir, home, n) != 0 || strcmp(dir + n, "/lua/improvements") != 0) {
            return args_fail(L, "improvements are loaded from '%s/lua/improvements' only", home);
        }
    }
    bind__op_check(L, callback, "loader.load_improvements");
    if (bind_of(L)->stopped) {
        return args_fail(L, "the hub is stopping");
    }
    struct loader__ask *k = xcalloc(1, sizeof *k);
    k->answer = LOADER_IMPROVEMENTS;
    return loader__request(L, k, false, callback);
}

/// list() -> the loaded modules, in load order: {name, path, layer, revision, protected}
static int lib_list(lua_State *L)
{
    const struct space *sp = modules_of(L, "loader.list")->space;
    const struct gen *g = gen_current(bind_of(L)->o.engine);
    lua_Integer n = 0;
    lua_newtable(L);
    for (size_t i = 0; i < gen_count(g); i++) {
        struct str name = str_of(gen_at(g, i)->name);
        const struct module *m = map_get(&sp->modules, str_from(name, 4));
        if (str_starts(name, "lua:") && m != NULL && m->live != NULL) {
            lua_createtable(L, 0, 5);
            value_set_str(L, "name", m->name);
            value_set_str(L, "path", m->live->text->path);
            value_set_str(L, "layer", m->live->text->layer);
            value_set_int(L, "revision", (lua_Integer)m->live->unit->revision);
            value_set_bool(L, "protected", modules__is_protected(m));
            lua_rawseti(L, -2, ++n);
        }
    }
    return 1;
}

int loader_safe_require(lua_State *L)
{
    luaL_checkstring(L, 1);
    lua_settop(L, 1);
    lua_getglobal(L, "require");
    lua_insert(L, 1);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
        return 1;
    }
    const char *why = luaL_tolstring(L, 1, NULL);
    char *text = xasprintf("safe_require: %s", why);
    const struct bind_owner *o = bind_owner_running(L);
    bind__log(bind_of(L), o != NULL ? o->owner : NULL, LOG_WARN, str_of(text));
    free(text);
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}

static const luaL_Reg functions[] = {
    {"reload", lib_reload},
    {"list", lib_list},
    {"safe_require", loader_safe_require},
    {"load_improvements", lib_load_improvements},
    {NULL, NULL},
};

int loader_open_lib(lua_State *L)
{
    luaL_newlib(L, functions);
    luaL_setfuncs(L, loader__plugin_functions, 0);
    return 1;
}
