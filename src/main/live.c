// The parts that are replaced while the hub runs, put together.
//
//     watcher   http client   store   events
//         └────────┬─────────────┴──────┘
//               faces (bind) ──> modules, plugins, improvements ──> engine ──> events of the stream
//
// Coming up, the first generation is loaded before anybody may connect. Going down, the modules hear of
// it first (`shutdown`), then nothing of theirs begins any more, then the engine lets every unit go,
// and only when the last is released do the parts under them close.

#include "main/live.h"

#include "base/log.h"
#include "base/path.h"
#include "bind/bind.h"
#include "bind/hosted.h"
#include "bind/improve.h"
#include "bind/modules.h"
#include "bot/bots.h"
#include "config/config.h"
#include "config/home.h"
#include "event/event.h"
#include "mcp/mcp.h"
#include "net/http_client.h"
#include "plugin/plugins.h"
#include "plugin/sessions.h"
#include "store/choices.h"
#include "watch/watch.h"

static void on_event(void *arg, const char *type, struct str fields)
{
    struct live *v = arg;
    event_emit(v->opts.hub->events, str_of(type), STR_NULL, fields);
}

static void on_watch_warning(const struct watch_warning *w, void *arg)
{
    struct live *v = arg;
    struct gen_diag d = {
        .code = DIAG_WATCH_DEGRADED, .source = "hub", .message = w->message, .hint = w->remedy};
    log_warn(LOG_HUB, "diagnostic=%s message=%s", w->code, LOGQ(str_of(w->message)).z);
    gen_warn(v->engine, &d);
}

static void set_pace(struct live *v)
{
    const struct config *c = v->opts.hub->config->now;
    watcher_set_pace(v->watcher, &(struct watch_pace){
                                     .debounce_ms = (unsigned)config_int(c, "watch.debounce_ms"),
                                     .poll_ms = (unsigned)config_int(c, "watch.poll_ms"),
                                     .poll = config_bool(c, "watch.poll"),
                                 });
}

static void on_installed(const struct gen_report *r, void *arg)
{
    struct live *v = arg;
    if (r != NULL && !v->closing) {
        v->loaded(v->loaded_arg);
    }
}

/// What the modules of the first run installed is loaded by a second one.
static void on_loaded(const struct gen_report *r, void *arg)
{
    struct live *v = arg;
    if (r != NULL && v->plugins != NULL && modules_get_stats(v->modules).installs != 0) {
        struct gen_request again = {.trigger = "start", .wait_all = true};
        gen_request(v->engine, &again, on_installed, v);
        return;
    }
    on_installed(r, arg);
}

/// AFLOAT_DEV_LUA, as an absolute path; NULL when it is not set. Caller frees.
static char *dev_dir(void)
{
    const char *given = getenv("AFLOAT_DEV_LUA");
    if (given == NULL || given[0] == '\0') {
        return NULL;
    }
    if (given[0] != '/') {
        log_warn(LOG_HUB, "AFLOAT_DEV_LUA is no absolute path and is not used");
        return NULL;
    }
    log_info(LOG_HUB, "shipped Lua is read from path=%s", LOGQ(str_of(given)).z);
    return path_clean(given);
}

static const struct json *get_choice(void *arg, struct str key)
{
    return choices_get(arg, key);
}

static void open_lua(struct live *v)
{
    const struct live_opts *o = &v->opts;
    struct bind_opts faces = {.hub = o->hub,
                              .stalled_path = o->stalled_path,
                              .watcher = v->watcher,
                              .http = v->http,
                              .engine = v->engine,
                              .choice = get_choice,
                              .choice_arg = o->hub->choices};
    char *user = path_join(o->hub->home->dir, "lua");
    char *dev = dev_dir();
    v->bind = bind_open(&faces);
    v->modules = modules_open(v->bind, o->safe ? NULL : user, dev);
    free(user);
    free(dev);
}

static void open_plugins(struct live *v)
{
    const struct live_opts *o = &v->opts;
    struct err e = {0};
    v->hosted = hosted_open(v->bind, &e);
    if (v->hosted == NULL) {
        log_error(LOG_HUB, "hosts=off reason=%s", LOGQ(str_of(e.msg)).z);
    }
    struct plugins_opts opts = {.hub = o->hub,
                                .engine = v->engine,
                                .watcher = v->watcher,
                                .project_config = o->project_config,
                                .project_arg = o->project_arg,
                                .runners = {[LANG_LUA] = bind_runner(v->bind),
                                            [LANG_PYTHON] = hosted_runner(v->hosted, LANG_PYTHON),
                                            [LANG_NODE] = hosted_runner(v->hosted, LANG_NODE),
                                            [LANG_C] = hosted_runner(v->hosted, LANG_C)},
                                .shipped_dir = o->shipped_dir,
                                .repo = o->repo,
                                .off = !plugins_wanted(o->hub->choices, o->hub->config->now)};
    v->plugins = plugins_open(&opts);
    bind_set_plugins(v->bind, v->plugins);
    modules_set_past(v->modules, v->plugins);
}

static void open_improvements(struct live *v)
{
    assert(v->bind != NULL && v->improve == NULL);
    struct err e = {0};
    v->improve = improve_open(v->bind, v->plugins, v->hosted, &e);
    v->improvements = improve_improvements(v->improve);
    if (v->improve == NULL) {
        log_error(LOG_HUB, "improvements=off reason=%s", LOGQ(str_of(e.msg)).z);
    }
}

static void each_plugin(void *arg, void (*each)(void *to, const char *path), void *to)
{
    const struct live *v = arg;
    plugin_view_loaded(&(struct plugin_view){.plugins = v->plugins}, each, to);
}

static void open_mcp(struct live *v)
{
    struct mcp_opts o = {.hub = v->opts.hub,
                         .engine = v->engine,
                         .http = v->http,
                         .watcher = v->watcher,
                         .plugins = each_plugin,
                         .arg = v};
    v->mcp = mcp_open(&o);
}

/// A plugin takes the name of a built-in tool only with `override`.
static void reserve_tool_names(struct live *v)
{
    const struct tool *t;
    for (size_t i = 0; (t = tool_at(i)) != NULL; i++) {
        vec_push(&v->tool_names, t->name);
    }
    for (t = bots_tools(); t->name != NULL; t++) {
        vec_push(&v->tool_names, t->name);
    }
    vec_push(&v->tool_names, NULL);
    gen_set_builtins(v->engine, v->tool_names.p);
}

struct live *live_open(const struct live_opts *o, loop_fn *loaded, void *arg)
{
    struct live *v = xcalloc(1, sizeof *v);
    char *agent = xasprintf("afloat/%s", o->version);
    v->opts = *o;
    v->loaded = loaded;
    v->loaded_arg = arg;
    v->http = http_client_open(o->hub->loop, agent);
    v->engine = gen_open(o->hub->loop, on_event, v);
    v->watcher = watcher_open(o->hub->loop, on_watch_warning, v);
    set_pace(v);
    reserve_tool_names(v);
    open_lua(v);
    if (!o->safe) {
        open_plugins(v);
        open_improvements(v);
        open_mcp(v);
    }
    free(agent);
    gen_request(v->engine, &(struct gen_request){.trigger = "start", .wait_all = true}, on_loaded,
                v);
    return v;
}

static void on_engine_closed(void *arg)
{
    struct live *v = arg;
    loop_fn *done = v->done;
    void *done_arg = v->done_arg;
    mcp_close(v->mcp);
    improve_free(v->improve);
    plugins_free(v->plugins);
    hosted_close(v->hosted);
    modules_close(v->modules);
    bind_close(v->bind);
    http_client_close(v->http);
    watcher_close(v->watcher);
    vec_fini(&v->tool_names);
    free(v);
    done(done_arg);
}

void live_close(struct live *v, loop_fn *done, void *arg)
{
    assert(!v->closing);
    v->closing = true;
    v->done = done;
    v->done_arg = arg;
    bind_notify(v->bind, "shutdown", NULL);
    modules_stop(v->modules);
    if (v->plugins != NULL) {
        plugins_stop(v->plugins);
    }
    improve_stop(v->improve);
    mcp_stop(v->mcp);
    bind_stop(v->bind);
    gen_close(v->engine, on_engine_closed, v);
}

void live_settings_changed(struct live *v, const struct config_diags *const *lists, size_t n)
{
    vec(struct gen_diag) list = {0};
    set_pace(v);
    for (size_t i = 0; i < n; i++) {
        vec_foreach (it, lists[i]) {
            struct gen_diag diag = {
                .code = it->severity == CONFIG_ERROR ? DIAG_CONFIG_INVALID : DIAG_CONFIG_UNKNOWN,
                .source = "config",
                .path = it->path,
                .line = (int)MIN(it->line, (uint32_t)INT32_MAX),
                .message = it->message,
                .hint = it->hint,
            };
            vec_push(&list, diag);
        }
    }
    if (!v->closing && gen_set_warnings(v->engine, "config", list.p, list.n)) {
        gen_request(v->engine, &(struct gen_request){.trigger = "config"}, NULL, NULL);
    }
    vec_fini(&list);
}

bool live_knows(const struct live *v, struct str unit)
{
    struct plugin_row row;
    return gen_state_of(v->engine, unit) != GEN_REMOVED || modules_knows(v->modules, unit) ||
           (v->plugins != NULL && plugins_find(v->plugins, unit, &row));
}
