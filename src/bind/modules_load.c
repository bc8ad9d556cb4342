// Running a module's text, and require().
//
//     load__stage(m) ──> unit, owner ──> compile ──> run in an environment of its own ──> value
//                                                     │
//                                    require("x") <───┘   x is to be staged: it is, now, inside
//                                                         x is staged: its new table
//                                                         x serves and stays: its table
//
// An environment is a new table that falls back on the globals: a global that a file sets is visible to that file only, so
// a load that fails leaves no traces. `_G.x = 1` sets a global for all.
//
// When code that already runs (a timer, a hook) requires a module for the first time, the module is loaded at once. There is
// no transaction then, so it becomes a guest: what it registers belongs to the version whose code required it, and it is
// loaded again, with a unit of its own, when that version is replaced.
//
// Invariants:
//   - `loading` is the chain of files that run now, each required by the one before it.
//   - whatever a file does, load__stage() returns with its outcome, and a message where it failed.

#include "bind/bind_int.h"
#include "bind/modules_int.h"
#include "bind/plugin_int.h"

enum { MEASURE_BYTES = 1024 * 1024 }; // that need not be looked at more closely

// ---- versions -------------------------------------------------------------------------------

static struct version *version_new(struct module *m, struct files__text *text)
{
    struct version *v = xcalloc(1, sizeof *v);
    v->module = m;
    v->text = files__text_ref(text);
    v->parent = v;
    m->space->alive++;
    return v;
}

static void fail(struct version *v, enum gen_code code, const char *path, int line,
                 const char *message)
{
    struct gen_diag d = {
        .code = code, .origin = "module", .path = path, .line = line, .message = message};
    v->outcome = VERSION_FAILED;
    gen_diag_fini(&v->fault);
    v->fault = gen_diag_copy(&d);
}

// ---- running --------------------------------------------------------------------------------

/// The file ran and returned the value at 1: keep it. It fails if the file returned a table before and does not now.
static void keep_value(lua_State *L, struct version *v)
{
    const struct version *before = v->module->live;
    lua_settop(L, 1); // nil when it returned nothing
    bool was_table = before != NULL && refs_push(L, before->value) && lua_istable(L, -1);
    lua_settop(L, 1);
    if (was_table && !lua_istable(L, 1)) {
        bool nothing = lua_isnil(L, 1) || lua_isboolean(L, 1);
        char *text = nothing ? xstrdup("the file returns nothing where it returned a table")
                             : xasprintf("the file returns a %s where it returned a table",
                                         luaL_typename(L, 1));
        fail(v, nothing ? DIAG_EMPTY_MODULE : DIAG_LOAD_FAILED, v->text->path, 0, text);
        free(text);
    }
    if (lua_isnil(L, 1)) { // as Lua's own require does
        lua_pushboolean(L, 1);
    }
    v->value = refs_take(L, v->owner->owner);
}

static void run_text(struct version *v)
{
    struct space *sp = v->module->space;
    struct entry en = {.kind = ENTRY_LOAD, .owner = v->owner->owner};
    char *chunk = xasprintf("@%s", v->text->path);
    lua_State *L = entry_begin(&en, sp->vm);
    enum entry_status status = ENTRY_FAILED;
    if (entry_push_chunk(&en, v->text->bytes, chunk) == 0) {
        bind__push_env(L, sp->env_meta);
        lua_setupvalue(L, -2, 1);
        lua_pushstring(L, v->module->name);
        lua_pushstring(L, v->text->path);
        vec_push(&sp->loading, v);
        status = entry_run(&en, 2);
        (void)vec_pop(&sp->loading);
    }
    if (status == ENTRY_DONE) {
        v->outcome = VERSION_LOADED;
        keep_value(L, v);
    } else {
        struct gen_diag d = bind__diag_of(en.fault);
        fail(v, v->in_cycle ? DIAG_MODULE_CYCLE : d.code, d.path != NULL ? d.path : v->text->path,
             d.line, d.message);
        if (d.traceback[0] != '\0') {
            log_warn(LOG_HUB, "module=%s traceback=%s", v->module->name,
                     LOGQ(str_of(d.traceback)).z);
        }
    }
    entry_end(&en);
    free(chunk);
}

static void load(struct version *v)
{
    const struct files__text *t = v->text;
    const struct modules *ms = v->module->space->ms;
    char stall[BIND__STALL_TEXT], hash[SHA256_HEX];
    bool on_disk = files__text_same(files__users(&ms->files, str_of(v->module->name)), t);
    if (t->fault != NULL) {
        fail(v, DIAG_LOAD_FAILED, t->path, 0, t->fault);
    } else if (files__is_users(t) && // shipped modules always run: the hub needs them
               bind__check_stall(ms->bind, v->module->unit_name, sha256_hex(t->hash, hash), on_disk,
                                 stall)) {
        const struct watchdog_stall *s = &ms->bind->stalled;
        fail(v, DIAG_LOAD_TIMEOUT, s->path[0] != '\0' ? s->path : t->path, s->line, stall);
    } else if (files__text_same(t, v->module->twin->banned)) {
        fail(v, DIAG_MEMORY_LIMIT, t->path, 0,
             "it fills the memory of the Lua state again and again, and is not run until it "
             "changes");
    } else if (v->module->twin->live != NULL && str_trim(t->bytes).n == 0) {
        fail(v, DIAG_EMPTY_MODULE, t->path, 0, "the file is empty");
    } else {
        run_text(v);
    }
}

/// The bytes that are in use. If there could be much garbage, it is collected first.
static size_t measure(struct space *sp)
{
    size_t now = vm_get_stats(sp->vm).memory;
    if (now > sp->measured + MEASURE_BYTES) {
        lua_gc(vm_main(sp->vm), LUA_GCCOLLECT);
        now = sp->measured = vm_get_stats(sp->vm).memory;
    }
    return now;
}

static void stage_text(struct module *m, struct files__text *text)
{
    struct space *sp = m->space;
    assert(sp->stage != NULL);
    struct version *v = version_new(m, text);
    char hash[SHA256_HEX];
    struct gen_unit_spec spec = {.name = m->unit_name,
                                 .path = text->path,
                                 .layer = text->layer,
                                 .host = "hub",
                                 .origin = "module",
                                 .hash = sha256_hex(text->hash, hash),
                                 .data = v};
    v->unit = gen_stage_unit(sp->stage, &spec);
    v->owner = bind_owner_open(sp->ms->bind, sp->vm, v->unit);
    vm_owner_set_content(v->owner->owner, hash);
    m->staged = v;
    if (sp->ms->former == NULL) {
        load(v);
    } else { // measure how much memory the file itself keeps, without the modules that it requires
        size_t beside = sp->grown, before = measure(sp);
        sp->grown = 0;
        load(v);
        size_t now = measure(sp), all = now > before ? now - before : 0;
        v->grew = all > sp->grown ? all - sp->grown : 0;
        sp->grown = beside + all;
    }
    vec_push(&sp->staged, v); // in order of completion: dependencies first
}

void load__stage(struct module *m, struct files__text *text)
{
    stage_text(m, text);
    bool alone = m->staged->outcome == VERSION_FAILED && m->twin->live == NULL;
    struct files__text *good = alone ? past__last_good(m, text) : NULL;
    if (good != NULL) {
        stage_text(m, good); // no version serves: use the one that was good before the restart
        files__text_unref(good);
    }
}

// ---- guests ---------------------------------------------------------------------------------

static bool is_failed(const struct version *v)
{
    return v->outcome == VERSION_FAILED;
}

/// Load a module outside of any transaction, for the version `host` whose code asks for it.
static struct version *load_guest(struct module *m, struct files__text *text, struct version *host)
{
    struct space *sp = m->space;
    struct version *v = version_new(m, text);
    bool outermost = sp->loading.n == 0;
    // a caller that was replaced is freed when its last handler has ended: the serving version becomes the host
    host = host->module->live != NULL ? host->module->live : host;
    v->host = host->host != NULL ? host->host : host;
    v->host->n_guests++;
    v->owner = v->host->owner;
    v->unit = v->host->unit;
    m->staged = v;
    if (outermost) {
        state_begin(sp->state);
    }
    load(v);
    m->staged = NULL;
    v->thrown = is_failed(v);
    if (v->thrown) {
        state_undo(sp->state); // now: the caller frees it, perhaps while another guest still loads
    }
    if (outermost) {
        state_end(sp->state);
    }
    return v;
}

/// require() by code that runs outside of any transaction.
static int require_late(lua_State *L, struct module *m, struct files__text *text,
                        struct version *caller)
{
    if (caller == NULL) {
        return luaL_error(
            L, "module '%s' cannot be loaded here: the running code belongs to no module", m->name);
    }
    struct version *v = load_guest(m, text, caller);
    if (is_failed(v)) {
        char why[512];
        snprintf(why, sizeof why, "module '%s' failed to load: %s", m->name, v->fault.message);
        version__free(v); // before anything can raise
        lua_pushstring(L, why);
        return lua_error(L);
    }
    m->attempted = true;
    m->live = v;
    files__text_unref(m->seen);
    m->seen = files__text_ref(text);
    refs_push(L, v->value);
    return 1;
}

// ---- require --------------------------------------------------------------------------------

static int raise_cycle(lua_State *L, struct space *sp, struct module *m)
{
    size_t i = sp->loading.n;
    while (i > 0 && sp->loading.p[i - 1]->module != m) {
        i--;
    }
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    luaL_addstring(&b, "modules require each other: ");
    for (i = i > 0 ? i - 1 : 0; i < sp->loading.n; i++) {
        sp->loading.p[i]->in_cycle = true;
        luaL_addstring(&b, sp->loading.p[i]->module->name);
        luaL_addstring(&b, " -> ");
    }
    luaL_addstring(&b, m->name);
    luaL_pushresult(&b);
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

struct files__text *load__text(const struct module *m)
{
    const struct module *twin = m->twin;
    struct modules *ms = m->space->ms;
    struct files__text *served = rebuild__text(m);
    if (served != NULL) {
        return served;
    }
    bool stays = twin->mark != MARK_STAGE || (ms->alone && !twin->changed);
    return twin->live != NULL && stays ? twin->live->text
                                       : files__find(&ms->files, str_of(m->name));
}

/// require() of a module of the hub: push its value, loading it if necessary.
static int require_module(lua_State *L, struct space *sp, struct module *m)
{
    const struct bind_owner *o = bind_owner_running(L);
    struct version *caller = sp->loading.n != 0 ? *vec_last(&sp->loading)
                             : o != NULL        ? inside__version(o->unit)
                                                : NULL;
    if (caller != NULL) {
        list__add(&caller->deps, m);
        if (sp->loading.n == 0) {
            list__add(&caller->module->late, m);
        }
    }
    if (m->staged == NULL) {
        if (m->live != NULL && (sp->stage == NULL || m->mark != MARK_STAGE)) {
            refs_push(L, m->live->value);
            return 1;
        }
        struct files__text *text = load__text(m);
        if (text == NULL) {
            const char *path = luaL_gsub(L, m->name, ".", "/");
            return luaL_error(L, "module '%s' not found: no lua/%s.lua, no lua/%s/init.lua",
                              m->name, path, path);
        }
        if (sp->stage == NULL) {
            return require_late(L, m, text, caller);
        }
        load__stage(m, text);
    } else if (m->staged->outcome == VERSION_LOADING) {
        return raise_cycle(L, sp, m);
    }
    if (is_failed(m->staged)) {
        if (caller != NULL && caller->blame == NULL) {
            caller->blame = m;
        }
        return luaL_error(L, "module '%s' failed to load: %s", m->name, m->staged->fault.message);
    }
    refs_push(L, m->staged->value);
    return 1;
}

int load__require(lua_State *L)
{
    static const char plugin_link[] = "plugin.";
    struct space *sp = space__of(L);
    size_t n;
    const char *p = luaL_checklstring(L, 1, &n);
    lua_settop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, 1);
    if (lua_rawget(L, 2) != LUA_TNIL) {
        return 1; // a library
    }
    struct str name = {p, n};
    if (str_starts(name, plugin_link) && files__find(&sp->ms->files, name) == NULL) {
        return plugin__push_link(L, p + strlen(plugin_link));
    }
    if (!files__is_name(name)) {
        return luaL_error(L, "invalid module name '%s'", p);
    }
    return require_module(L, sp, modules__get(sp, name));
}
