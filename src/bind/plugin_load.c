// Running a plugin's files, and its require().
//
//     server file ── runs ──┬── registers as it runs
//                           ├── returns a table ──────────> plugin__install
//                           └── returns a function ── (options, ctx) ──> either of these
//
//     require "x"           a library, by name
//     require "a.b"         a/b.lua or a/b/init.lua of this plugin, from memory, once a version
//     require "plugin.y"    what the plugin y returned (plugin_link.c)
//
// All files of a version share one environment that falls back on the globals of the state: a global
// that one version sets is gone with it, and two plugins never see each other's `util`. The path that
// files came from is for messages only.
//
// Each file runs in an entry of its own, so that a fault in a required file is told with that file's
// path and line, while the file that required it sees an error that it may catch.

#include <lauxlib.h>

#include "bind/modules_int.h"
#include "bind/plugin_int.h"
#include "lua/fault.h"
#include "store/tree.h"

struct plugin__module {
    char *name;
    bool loaded;
    vm_ref value;
};

// ---- files --------------------------------------------------------------------------------------

/// "@" and the path of a file, for messages.
static char *chunk_name(const struct plugin_code *code, const char *file)
{
    return code->tree->is_file ? xasprintf("@%s", code->path)
                               : xasprintf("@%s/%s", code->path, file);
}

/// Compile `file` and push it as a function with the version's environment.
static int push_file(struct plugin__version *v, struct entry *en, const struct tree_file *file)
{
    char *chunk = chunk_name(v->head.code, file->path);
    int rc = entry_push_chunk(en, file->bytes, chunk);
    if (rc == 0) {
        refs_push(en->L, v->env);
        lua_setupvalue(en->L, -2, 1);
    }
    free(chunk);
    return rc;
}

static void log_traceback(const struct plugin__version *v, const struct fault *f)
{
    if (f->traceback[0] == '\0') {
        return;
    }
    char *text = xasprintf("%s: %s\n%s", fault_name(f->code), f->message, f->traceback);
    bind__log(v->owner->bind, v->owner->owner, LOG_ERROR, str_of(text));
    free(text);
}

static struct gen_diag diag_of(const struct plugin__version *v, const struct fault *f)
{
    struct gen_diag d = {.code = v->incompatible ? DIAG_API_INCOMPATIBLE : bind__diag_of(f).code,
                         .origin = v->head.code->shape->origin,
                         .path = f->path != NULL ? f->path : v->head.code->path,
                         .line = f->line,
                         .message = f->message};
    return gen_diag_copy(&d);
}

// ---- what it reads and writes -------------------------------------------------------------------

/// The inputs of the plugin that is being loaded on `L`; NULL: none is, or `path` is not absolute.
static struct plugin_inputs *inputs_of(lua_State *L, const char *path)
{
    const struct entry *en = entry_running(vm_of(L));
    if (en == NULL || en->kind != ENTRY_LOAD || path == NULL || path[0] != '/') {
        return NULL;
    }
    const struct bind_owner *o = bind__owner(L);
    return o->plugin != NULL ? o->plugin->head.code->inputs : NULL;
}

void bind__note_read(lua_State *L, const char *path)
{
    struct plugin_inputs *in = inputs_of(L, path);
    if (in != NULL) {
        plugin_inputs_add(in, path);
    }
}

void bind__note_write(lua_State *L, const char *path)
{
    struct plugin_inputs *in = inputs_of(L, path);
    bind_of(L)->writes++;
    if (in != NULL) {
        plugin_inputs_own(in, path);
    }
}

// ---- the server file ----------------------------------------------------------------------------

static const struct json no_options = {.type = JSON_OBJ};

/// Push the ctx of a function that makes the plugin. Without a project `working_dir` is the home of Afloat.
static void push_ctx(lua_State *L, const struct plugin_code *code)
{
    const char *home = bind_of(L)->o.hub->home->dir;
    lua_createtable(L, 0, 6);
    value_set_str(L, "name", code->name);
    value_set_str(L, "path", code->path);
    value_set_str(L, "project", code->project); // NULL is nil
    value_set_str(L, "working_dir", code->project != NULL ? code->project : home);
    value_set_str(L, "data_dir", home);
    value_push(L, code->options != NULL ? code->options : &no_options);
    value_set(L, "options");
}

/// Register what the value at `idx` holds, if it is a table.
static void install_table(lua_State *L, int idx)
{
    if (lua_istable(L, idx)) {
        lua_pushcfunction(L, plugin__install);
        lua_pushvalue(L, idx);
        lua_call(L, 1, 0);
    }
}

/// Run the file (1) and, if it returns a function, that with the options (2) and ctx (3); register what
/// the table that comes out of it holds.
static int run_server(lua_State *L)
{
    lua_settop(L, 3);
    lua_pushvalue(L, 1);
    lua_getfield(L, 3, "name");
    lua_getfield(L, 3, "path");
    lua_call(L, 2, 1);
    if (lua_isfunction(L, 4)) {
        lua_pushvalue(L, 2);
        lua_pushvalue(L, 3);
        lua_call(L, 2, 1);
        if (lua_isfunction(L, 4)) {
            return luaL_error(L, "the function that the plugin returns must give a table");
        }
    }
    install_table(L, 4);
    return 1;
}

/// The same for a value that was at hand: call it (1) with ctx (2) if it is a function.
static int run_value(lua_State *L)
{
    if (lua_isfunction(L, 1)) {
        lua_call(L, 1, 1);
    } else {
        lua_settop(L, 1);
    }
    install_table(L, 1);
    return 1;
}

/// Keep what it returned, or say why it failed; the entry is over.
static int end_run(struct plugin__version *v, struct entry *en, enum entry_status status,
                   struct gen_diag *fault)
{
    if (status == ENTRY_DONE) {
        lua_pushvalue(en->L, 1);
        v->value = refs_take(en->L, v->owner->owner);
    } else {
        log_traceback(v, en->fault);
        bool inner = v->fault.message != NULL && strstr(en->fault->message, v->fault.message);
        *fault = inner ? gen_diag_copy(&v->fault) : diag_of(v, en->fault);
    }
    entry_end(en);
    return status == ENTRY_DONE ? 0 : ERR_INVALID;
}

int plugin__run(struct plugin__version *v, struct gen_diag *fault)
{
    const struct plugin_code *code = v->head.code;
    const struct tree_file *file = tree_find(code->tree, str_of(code->shape->server));
    assert(file != NULL && v->home != NULL); // the manifest named it
    struct plugin__plugins *ps = v->home->plugins;
    struct entry en = {
        .kind = ENTRY_LOAD, .owner = v->owner->owner, .budget_ms = ps->bind->limits.load_ms};
    if (str_trim(file->bytes).n == 0 && map_get(&ps->live, str_of(code->unit)) != NULL) {
        char *chunk = chunk_name(code, code->shape->server);
        struct gen_diag d = {.code = DIAG_EMPTY_MODULE,
                             .origin = code->shape->origin,
                             .path = chunk + 1,
                             .message = "the file is empty"};
        *fault = gen_diag_copy(&d);
        free(chunk);
        return ERR_INVALID;
    }
    bind__push_env(vm_main(v->home->vm), v->home->env_meta);
    v->env = refs_take(vm_main(v->home->vm), v->owner->owner);
    lua_State *L = entry_begin(&en, v->home->vm);
    enum entry_status status = ENTRY_FAILED;
    if (push_file(v, &en, file) == 0) {
        lua_pushcfunction(L, run_server);
        lua_insert(L, -2);
        value_push(L, code->options != NULL ? code->options : &no_options);
        push_ctx(L, code);
        status = entry_run(&en, 3);
    }
    return end_run(v, &en, status, fault);
}

int plugin__run_value(struct plugin__version *v, lua_State *L, int idx, struct gen_diag *fault)
{
    struct entry en = {
        .kind = ENTRY_LOAD, .owner = v->owner->owner, .budget_ms = v->owner->bind->limits.load_ms};
    lua_State *to = entry_begin(&en, v->owner->vm);
    lua_pushcfunction(to, run_value);
    lua_pushvalue(L, idx);
    lua_xmove(L, to, 1);
    push_ctx(to, v->head.code);
    return end_run(v, &en, entry_run(&en, 2), fault);
}

// ---- require ------------------------------------------------------------------------------------

static const struct tree_file *find_in(const struct tree *t, struct str dir, const char *name)
{
    static const char *const endings[] = {".lua", "/init.lua"};
    const struct tree_file *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(endings) && found == NULL; i++) {
        char *path = xasprintf(STR_FMT "%s%s", STR_ARG(dir), name, endings[i]);
        for (char *p = path + dir.n; p < path + dir.n + strlen(name); p++) {
            *p = *p == '.' ? '/' : *p;
        }
        found = tree_find(t, str_of(path));
        free(path);
    }
    return found;
}

static void keep_fault(struct plugin__version *v, struct gen_diag d)
{
    if (v->fault.message == NULL) { // the innermost comes first
        v->fault = d;
    } else {
        gen_diag_fini(&d);
    }
}

static int load_module(lua_State *L, struct plugin__version *v, const char *name,
                       const struct tree_file *file)
{
    struct plugin__module *m = xcalloc(1, sizeof *m);
    struct entry en = {
        .kind = ENTRY_LOAD, .owner = v->owner->owner, .budget_ms = v->owner->bind->limits.load_ms};
    m->name = xstrdup(name);
    map_set(&v->modules, str_of(name), m);
    lua_State *to = entry_begin(&en, v->home->vm);
    enum entry_status status = ENTRY_FAILED;
    if (push_file(v, &en, file) == 0) {
        lua_pushstring(to, name);
        lua_pushstring(to, file->path);
        vec_push(&v->loading, m);
        status = entry_run(&en, 2);
        (void)vec_pop(&v->loading);
    }
    if (status == ENTRY_DONE) {
        if (en.n_results == 0 || lua_isnil(to, 1)) { // as Lua's own require does
            lua_settop(to, 0);
            lua_pushboolean(to, 1);
        }
        lua_pushvalue(to, 1);
        m->value = refs_take(to, v->owner->owner);
        m->loaded = true;
        entry_end(&en);
        refs_push(L, m->value);
        return 1;
    }
    log_traceback(v, en.fault);
    keep_fault(v, diag_of(v, en.fault));
    luaL_where(L, 1);
    lua_pushfstring(L, "module '%s' failed to load: %s", name, en.fault->message);
    lua_concat(L, 2);
    entry_end(&en);
    map_remove(&v->modules, str_of(name));
    free(m->name);
    free(m);
    return lua_error(L);
}

static int raise_cycle(lua_State *L, struct plugin__version *v, const struct plugin__module *m)
{
    size_t i = v->loading.n;
    while (i > 1 && v->loading.p[i - 1] != m) {
        i--;
    }
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    luaL_addstring(&b, "modules require each other: ");
    for (i = i > 0 ? i - 1 : 0; i < v->loading.n; i++) {
        luaL_addstring(&b, v->loading.p[i]->name);
        luaL_addstring(&b, " -> ");
    }
    luaL_addstring(&b, m->name);
    luaL_pushresult(&b);
    struct gen_diag d = {.code = DIAG_MODULE_CYCLE,
                         .origin = v->head.code->shape->origin,
                         .path = v->head.code->path,
                         .message = lua_tostring(L, -1)};
    keep_fault(v, gen_diag_copy(&d));
    return lua_error(L);
}

int plugin__require(lua_State *L)
{
    static const char link[] = "plugin.";
    struct str name = args_str(L, 1, "require", "the name");
    lua_settop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, 1);
    if (lua_rawget(L, 2) != LUA_TNIL) {
        return 1; // a library
    }
    struct plugin__version *v = plugin__running(L, "require");
    if (str_starts(name, link)) {
        return plugin__push_link(L, name.p + strlen(link));
    }
    if (!files__is_name(name)) {
        return luaL_error(L, "invalid module name '%s'", name.p);
    }
    struct plugin__module *m = map_get(&v->modules, name);
    if (m != NULL && m->loaded) {
        refs_push(L, m->value);
        return 1;
    }
    if (m != NULL) {
        return raise_cycle(L, v, m);
    }
    const struct plugin_code *code = v->head.code;
    const struct tree_file *file = find_in(code->tree, STR(""), name.p);
    struct str dir = str_of(code->shape->server); // else in its directory: `dist/` of a built one
    while (dir.n != 0 && dir.p[dir.n - 1] != '/') {
        dir.n--;
    }
    if (file == NULL && dir.n != 0) {
        file = find_in(code->tree, dir, name.p);
    }
    if (file == NULL) {
        return luaL_error(L, "module '%s' not found: plugin '%s' has no such file", name.p,
                          code->name);
    }
    return load_module(L, v, name.p, file);
}

void plugin__modules_free(struct plugin__version *v)
{
    struct str key;
    void *m;
    for (size_t at = 0; map_next(&v->modules, &at, &key, &m);) {
        free(((struct plugin__module *)m)->name);
        free(m);
    }
    map_fini(&v->modules);
    vec_fini(&v->loading);
}
