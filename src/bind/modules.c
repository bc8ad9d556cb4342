// The hub's own Lua: its state, its modules by name, and the source of their units.
//
//     watcher ──> files ──> anything known changed? ──> gen_request("watch") ──┐
//     POST /reload, SIGHUP, loader.reload ──> gen_request(...) ────────────────┤
//                                                                              ▼
//              prepare: a scan, for those who asked ──> stage ──> commit ──> leave, enter
//                       (modules_files.c)               (modules_stage.c)
//
// docs/internals/modules.md has the rules; the files beside this one each hold one part of them.
//
// Invariants:
//   - a version that has a unit lives as long as that unit; a guest as long as it serves.
//   - a space is closed when none of its versions is left.

#include "bind/modules.h"

#include <assert.h>

#include "bind/bind_int.h"
#include "bind/loader.h"
#include "bind/modules_int.h"
#include "bind/plugin_int.h"
#include "config/config.h"
#include "loop/work.h"
#include "plugin/past.h"
#include "watch/ignore.h"

static const char space_key; // its address: where a state keeps its space

// ---- spaces ---------------------------------------------------------------------------------

struct space *space__of(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &space_key);
    struct space *sp = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return sp;
}

struct space *space__open(struct modules *ms)
{
    struct space *sp = xcalloc(1, sizeof *sp);
    sp->ms = ms;
    sp->vm = bind__code_vm_open(ms->bind, "lua", &sp->own, &sp->env_meta, &sp->state);
    lua_pushlightuserdata(vm_main(sp->vm), sp);
    lua_rawsetp(vm_main(sp->vm), LUA_REGISTRYINDEX, &space_key);
    vm_replace(sp->vm, "_G", "plugins", installs__call);
    vm_replace(sp->vm, "_G", "require", load__require);
    vm_replace(sp->vm, "_G", "safe_require", loader_safe_require);
    bind__seal(sp->vm);
    vm_on_death(sp->vm, rebuild__on_death, sp);
    return sp;
}

static void space_close(struct space *sp)
{
    sp->closing = false; // guests that go below are the last, and must not come back here
    for (struct module *m; (m = sp->all) != NULL;) {
        sp->all = m->next;
        if (m->live != NULL && m->live->host != NULL) {
            version__free(m->live);
        }
        files__text_unref(m->seen);
        files__text_unref(m->struck);
        files__text_unref(m->banned);
        gen_diag_fini(&m->refusal);
        vec_fini(&m->wants);
        vec_fini(&m->late);
        free(m->installed);
        free(m->name);
        free(m->unit_name);
        free(m);
    }
    assert(sp->alive == 0);
    map_fini(&sp->modules);
    vec_fini(&sp->loading);
    vec_fini(&sp->staged);
    vec_fini(&sp->edges);
    state_free(sp->state);
    vm_owner_close(sp->own);
    bind__dispatches_leave(sp->ms->bind, sp->vm);
    vm_close(sp->vm);
    free(sp);
}

void space__retire(struct space *sp)
{
    sp->closing = true;
    if (sp->alive == 0) {
        space_close(sp);
    }
}

void space__leave(struct space *sp)
{
    assert(sp->alive > 0);
    if (--sp->alive == 0 && sp->closing) {
        space_close(sp);
    }
}

struct module *modules__get(struct space *sp, struct str name)
{
    struct module *m = map_get(&sp->modules, name);
    if (m == NULL) {
        m = xcalloc(1, sizeof *m);
        m->space = sp;
        m->name = str_dup(name);
        m->unit_name = xasprintf("lua:%s", m->name);
        m->twin =
            sp == sp->ms->space || sp->ms->space == NULL ? m : modules__get(sp->ms->space, name);
        map_set(&sp->modules, name, m);
        m->next = sp->all;
        sp->all = m;
    }
    return m;
}

struct str modules__name_of(struct str unit)
{
    return str_starts(unit, "lua:") ? str_from(unit, 4) : unit;
}

bool modules__is_protected(const struct module *m)
{
    return str_starts(str_of(m->name), "hub.");
}

// ---- versions -------------------------------------------------------------------------------

void version__free(struct version *v)
{
    struct space *sp = v->module->space;
    if (v->host == NULL) {
        // guests that came while it was leaving are loaded again by the next code that requires them
        for (struct module *m = sp->all; v->n_guests != 0 && m != NULL; m = m->next) {
            if (m->live != NULL && m->live->host == v) {
                version__free(m->live);
            }
        }
        bind_owner_close(v->owner);
    } else {
        assert(v->host->n_guests != 0);
        v->host->n_guests--;
        refs_drop(sp->vm, v->value);
    }
    if (v->module->live == v) {
        v->module->live = NULL;
    }
    assert(v->n_guests == 0);
    gen_diag_fini(&v->fault);
    files__text_unref(v->text);
    vec_fini(&v->deps);
    installs__free(v->installs);
    free(v);
    space__leave(sp);
}

// ---- the source: prepare --------------------------------------------------------------------

static bool has_work(struct modules *ms)
{
    return rebuild__is_due(ms) || graph__is_stale(ms);
}

static void on_scanned(void *arg)
{
    struct modules *ms = arg;
    char text[80];
    snprintf(text, sizeof text,
             "more than %d Lua files or directories: the others are not looked at", FILES_MAX);
    if (!ms->booted) {
        past__cover_all(ms);
    }
    for (int i = 0; i < ROOT__COUNT; i++) {
        const struct files__root *r = &ms->files.roots[i];
        struct gen_diag d = {
            .code = DIAG_WATCH_DEGRADED, .source = "hub", .path = r->dir, .message = text};
        if (r->full) {
            gen_warn(ms->engine, &d);
        } else if (ms->warned[i]) {
            gen_unwarn(ms->engine, d.code, d.path);
        }
        ms->warned[i] = r->full;
    }
    stage__expand_order(ms);
    gen_prepared(ms->source, ms->asked || !ms->booted || has_work(ms));
}

static void begin_scan(void *arg)
{
    struct modules *ms = arg;
    files__scan(&ms->files, ms->lane, on_scanned, ms);
}

static void source_prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    struct modules *ms = arg;
    if (ms->booted && !req->wait_all) {
        gen_prepared(src, has_work(ms)); // the watcher has reported every change
        return;
    }
    ms->asked = req->force || req->n_names != 0;
    if (ms->past != NULL) {
        past_await(ms->past, begin_scan, ms);
    } else {
        begin_scan(ms);
    }
}

// ---- the source: lifecycle ------------------------------------------------------------------

static void source_leave(void *arg, struct gen_unit *u, enum gen_reason why,
                         struct gen_life_call *call)
{
    (void)arg;
    struct plugin_version *inside = inside__plugin(u);
    if (inside != NULL) {
        inside->runner->leave(inside, why, call);
        return;
    }
    struct version *v = u->data;
    struct gen_diag fault = {0};
    if (why != GEN_RELOAD) { // _before_reload was called at commit, while the old table was whole
        bind__call_life(v->owner, v->value, "_before_unload", DIAG_SHUTDOWN_FAILED,
                        DIAG_SHUTDOWN_TIMEOUT, &fault);
    } else if (v->fault.message != NULL) {
        fault = gen_diag_copy(&v->fault);
    }
    bind_owner_tell(v->owner, BIND_SHUTDOWN, why, &fault, true, call);
}

static void source_enter(void *arg, struct gen_unit *u, enum gen_reason why,
                         struct gen_life_call *call)
{
    (void)arg;
    struct plugin_version *inside = inside__plugin(u);
    if (inside != NULL) {
        inside->runner->enter(inside, why, call);
        return;
    }
    struct version *v = u->data;
    struct gen_diag fault = {0};
    if (why == GEN_RELOAD) {
        bind__call_life(v->owner, v->value, "_after_reload", DIAG_START_FAILED, DIAG_START_FAILED,
                        &fault);
    }
    bind_owner_tell(v->owner, BIND_START, why, &fault, true, call);
}

static void source_release(void *arg, struct gen_unit *u)
{
    (void)arg;
    if (inside__plugin(u) != NULL) {
        inside__release(u);
    } else {
        version__free(u->data);
    }
}

static const struct gen_source_ops source_ops = {
    .name = "the hub's Lua",
    .prepare = source_prepare,
    .stage = stage__run,
    .commit = stage__commit,
    .abort = stage__abort,
    .leave = source_leave,
    .enter = source_enter,
    .release = source_release,
};

// ---- watching -------------------------------------------------------------------------------

static void on_saved(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct modules *ms = arg;
    int root = w == ms->watches[ROOT_USER] ? ROOT_USER : ROOT_SHIPPED;
    bool names = false; // a file was added or removed
    for (size_t i = 0; i < batch->n; i++) {
        names |= files__apply(&ms->files, root, &batch->changes[i]);
    }
    if (names) {
        stage__expand_order(ms);
    }
    if (ms->booted && graph__is_stale(ms)) {
        gen_request(ms->engine, &(struct gen_request){.trigger = "watch"}, NULL, NULL);
    }
}

static void watch_root(struct modules *ms, int root)
{
    const char *rules[64]; // the usual ones and one more: improvements are not modules
    size_t n = 0;
    for (; n < ARRAY_LEN(rules) - 2 && watch_ignore_default[n] != NULL; n++) {
        rules[n] = watch_ignore_default[n];
    }
    rules[n++] = "/improvements/";
    rules[n] = NULL;
    struct err e = {0};
    struct watch_opts o = {
        .path = ms->files.roots[root].dir,
        .pattern = "*.lua",
        .recursive = true,
        .ignore = rules,
        .want_bytes = true,
        .bytes_max = FILES_BYTES_MAX,
    };
    if (o.path != NULL &&
        watch_open(&ms->watches[root], ms->bind->o.watcher, &o, on_saved, ms, &e) < 0) {
        gen_warn(ms->engine, &(struct gen_diag){.code = DIAG_WATCH_DEGRADED,
                                                .source = "hub",
                                                .path = o.path,
                                                .message = e.msg,
                                                .hint = "`afloat reload` takes changes over"});
    }
}

// ---- settings -------------------------------------------------------------------------------

/// A hash of the settings for hooks that run commands.
static uint64_t hooks_mark(const struct config *c)
{
    const struct config_entry *e;
    struct buf b = {.max = SIZE_MAX};
    for (size_t at = 0; (e = config_next(c, &at)) != NULL;) {
        if (str_starts(str_of(e->key), "command_hooks.")) {
            json_write(&b, e->value, 0);
        }
    }
    uint64_t mark = map_hash(buf_str(&b));
    buf_fini(&b);
    return mark;
}

/// Reload the module that runs commands as hooks when their settings change: it registers them while it loads.
static void on_settings(void *arg)
{
    struct modules *ms = arg;
    uint64_t mark = hooks_mark(ms->bind->o.hub->config->now);
    if (mark != ms->hooks_mark) {
        ms->hooks_mark = mark;
        const struct str name = STR("lua:handlers.command_hooks");
        const struct gen_request req = {
            .trigger = "config", .names = &name, .n_names = 1, .force = true, .wait_all = true};
        gen_request(ms->engine, &req, NULL, NULL);
    }
}

// ---- public ---------------------------------------------------------------------------------

struct modules *modules_open(struct bind *b, const char *user_dir, const char *dev_dir)
{
    struct modules *ms = xcalloc(1, sizeof *ms);
    assert(b->modules == NULL);
    ms->bind = b;
    b->modules = ms;
    ms->engine = b->o.engine;
    ms->lane = lane_open(b->o.hub->loop, "lua", 1);
    files__init(&ms->files, user_dir, dev_dir);
    ms->space = space__open(ms);
    ms->source = gen_source_add(ms->engine, &source_ops, ms);
    watch_root(ms, ROOT_USER);
    watch_root(ms, ROOT_SHIPPED);
    ms->hooks_mark = hooks_mark(b->o.hub->config->now);
    config_listen(b->o.hub->config, on_settings, ms);
    return ms;
}

void modules_stop(struct modules *ms)
{
    if (ms->stopped) {
        return;
    }
    ms->stopped = true;
    config_unlisten(ms->bind->o.hub->config, on_settings, ms);
    for (int i = 0; i < ROOT__COUNT; i++) {
        watch_close(ms->watches[i]);
        ms->watches[i] = NULL;
    }
}

void modules_close(struct modules *ms)
{
    if (ms == NULL) {
        return;
    }
    modules_stop(ms);
    ms->bind->modules = NULL;
    assert(ms->trial == NULL && ms->former == NULL);
    space_close(ms->space);
    files__fini(&ms->files);
    vec_fini_each(&ms->patterns, free);
    vec_fini(&ms->order_list);
    lane_close(ms->lane);
    free(ms);
}

bool modules_knows(const struct modules *ms, struct str name)
{
    name = modules__name_of(name);
    return map_get(&ms->space->modules, name) != NULL || files__find(&ms->files, name) != NULL;
}

struct modules_stats modules_get_stats(const struct modules *ms)
{
    struct modules_stats s = {.memory = vm_get_stats(ms->space->vm).memory};
    for (const struct module *m = ms->space->all; m != NULL; m = m->next) {
        s.installs += m->installed != NULL && m->installed[0] != '\0';
    }
    return s;
}
