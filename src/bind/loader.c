// hub.loader: the reload transaction as Lua sees it, in the hub's modules and in plugins.
//
// Whatever is asked for here goes the way of every reload: a request to the engine, whose answer is
// the report of the run that covers it. So these functions wait, or take a callback; a file that
// loads may do neither before it is loaded, and is told so.

#include "bind/loader.h"

#include "bind/bind_int.h"
#include "bind/modules_int.h"
#include "config/home.h"

// ---- answers --------------------------------------------------------------------------------

void loader_push_report(lua_State *L, const struct gen_report *report)
{
    struct buf text;
    struct jw w;
    struct arena a;
    struct json *v = NULL;
    buf_init(&text, SIZE_MAX);
    arena_init(&a);
    jw_init(&w, &text);
    gen_report_write(report, &w);
    int rc = json_parse(&v, &a, buf_str(&text), NULL, NULL);
    value_push(L, rc == 0 ? v : NULL);
    arena_fini(&a);
    buf_fini(&text);
}

/// The report comes whether anybody still wants it or not: it frees the request.
static void on_report(const struct gen_report *report, void *arg)
{
    struct loader__ask *k = arg;
    struct gen_engine *e = k->op.o->bind->engine;
    lua_State *L = bind__op_answer_begin(&k->op);
    if (L != NULL && report == NULL) {
        bind__op_answer(&k->op, args_fail(L, "the hub is stopping"));
    } else if (L != NULL) {
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
    vec_foreach (name, &k->names) {
        free(*name);
    }
    vec_fini(&k->names);
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
    gen_request(bind_of(L)->engine, &req, on_report, k);
    vec_fini(&names);
    return bind__op_begin(L, &k->op, callback, NULL);
}

// ---- functions ------------------------------------------------------------------------------

/// The hub's modules, whoever asks; raises where there are none.
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
    struct str name = args_str(L, 1, "loader.reload", "module");
    lua_settop(L, 2);
    name = str_starts(name, "lua:") ? str_from(name, 4) : name;
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
        const char *home = bind_of(L)->home->dir;
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

static void push_row(lua_State *L, const struct module *m)
{
    const struct version *v = m->live;
    lua_createtable(L, 0, 6);
    lua_pushstring(L, m->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, v->text->path);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, v->text->layer);
    lua_setfield(L, -2, "layer");
    lua_pushinteger(L, (lua_Integer)v->unit->revision);
    lua_setfield(L, -2, "revision");
    lua_pushboolean(L, modules__is_protected(m));
    lua_setfield(L, -2, "protected");
}

/// list() -> the loaded modules, in load order: {name, path, layer, revision, protected}
static int lib_list(lua_State *L)
{
    const struct space *sp = modules_of(L, "loader.list")->space;
    const struct gen *g = gen_current(bind_of(L)->engine);
    lua_Integer n = 0;
    lua_newtable(L);
    for (size_t i = 0; i < gen_count(g); i++) {
        struct str name = str_of(gen_at(g, i)->name);
        const struct module *m = map_get(&sp->modules, str_from(name, 4));
        if (str_starts(name, "lua:") && m != NULL && m->live != NULL) {
            push_row(L, m);
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
