// The hub's life: come up in named steps, serve, go down in the reverse order.
//
//     home ─ lock ─ log ─ limits ─ loop ─ settings ─ store ─ events ─ choices ─ Lua ─ listen ─ ready
//                                                     (asynchronous from here)
//
// A step that fails ends the start with one line on stderr and in the log: nothing half-started ever
// answers. Clients may connect only after `ready`, when everything behind the socket works.
//
// Going down is daemon_stop.c; then the loop must be empty.

#include "main/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "base/streams.h"
#include "base/visible.h"
#include "bind/bind.h"
#include "bot/bots.h"
#include "editor/editor.h"
#include "loop/proc.h"
#include "main/daemon_int.h"
#include "main/web_page.h"
#include "mcp/mcp.h"
#include "mcpserver/mcpserver.h"
#include "modelserver/modelserver.h"
#include "permit/rules.h"
#include "plugin/plugins.h"
#include "plugin/shipped.h"
#include "proto/events.h"
#include "settings/team.h"
#include "watch/watch.h"

enum {
    LOG_MAX = 8 << 20,
    EXIT_USAGE = 2,
    EXIT_CONFLICT = 7,
    LARGE_BYTES = 128 << 10, // memory from so much on goes back to the system when it is freed
};

// ---- start: a fault is reported once, on stderr --------------------------------------------

static void say_fault(struct daemon *d, const struct err *e)
{
    visible_say("afloat: %s", e->msg);
    d->exit_code = e->code == ERR_CONFLICT ? EXIT_CONFLICT : e->code == ERR_USAGE ? EXIT_USAGE : 1;
}

static void fail_start(struct daemon *d, const struct err *e)
{
    say_fault(d, e);
    log_error(LOG_HUB, "start=failed reason=%s", LOGQ(str_of(e->msg)).z);
    daemon__stop(d, "start failed");
}

void daemon__emit(struct daemon *d, enum event_id type, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *fields = xvasprintf(format, ap);
    va_end(ap);
    event_emit(d->events, str_of(event_infos[type].type), STR_NULL, str_of(fields));
    free(fields);
}

static void raise_file_limit(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
        lim.rlim_cur = MIN(lim.rlim_max, 1 << 20);
        setrlimit(RLIMIT_NOFILE, &lim);
    }
}

// ---- settings ------------------------------------------------------------------------------

static int listen_tcp(struct daemon *d, const char *listen, struct err *e)
{
    bool automatic = strcmp(listen, "auto") == 0;
    return listen[0] == '\0'
               ? 0
               : daemon__listen(d, automatic ? DEFAULT_ADDRESS : listen, !automatic, e);
}

/// Listen where the setting says now. Where that fails the listener stays as it was, and the report says so.
static void follow_listen(struct daemon *d)
{
    const struct config *c = settings_live(d->settings)->now;
    const char *listen = config_str(c, "listen");
    struct err e = {0};
    if (strcmp(listen, d->listen) == 0) {
        return; // also when `afloat open` has opened one
    }
    if (listen[0] == '\0') {
        server_close_tcp(d->server);
    } else if (listen_tcp(d, listen, &e) < 0) {
        const struct config_entry *at = config_find(c, "listen");
        struct config_place place = {at->path != NULL ? at->path : d->home.config, at->line, 1};
        const char *now = server_tcp_address(d->server);
        log_error(LOG_HUB, "listen=failed reason=%s", LOGQ(str_of(e.msg)).z);
        config_diags_add(&d->unmet, CONFIG_ERROR, place, "'afloat reload' tries again", "%s; %s%s",
                         e.msg, now[0] != '\0' ? "still listening on " : "there is no listener",
                         now);
        return;
    }
    log_info(LOG_HUB, "listen=changed http=%s", server_tcp_address(d->server));
    free(d->listen);
    d->listen = xstrdup(listen);
}

/// Report the diagnostics of the hub's settings and of the projects in which sessions work.
static void tell_faults(struct daemon *d)
{
    struct config_diags theirs = {0};
    if (d->projects != NULL) {
        projects_add_faults(d->projects, &theirs);
    }
    const struct config_diags *lists[] = {settings_live(d->settings)->diags, &d->unmet, &theirs};
    live_settings_changed(d->live, lists, ARRAY_LEN(lists));
    config_diags_fini(&theirs);
}

void daemon__follow_settings(struct daemon *d)
{
    const struct config *c = settings_live(d->settings)->now;
    struct rules rules;
    rules_init(&rules);
    config_diags_fini(&d->unmet);
    rules_read(&rules, c, &d->unmet); // for what it says of them
    rules_fini(&rules);
    mcp_check_settings(c, &d->unmet);
    if (d->ready && !d->stopping) {
        follow_listen(d);
    }
    if (d->live != NULL) {
        tell_faults(d);
    }
}

static void on_settings(void *arg)
{
    struct daemon *d = arg;
    const struct config *c = settings_live(d->settings)->now;
    const struct config_diags *diags = settings_live(d->settings)->diags;
    if (d->server != NULL) {
        const char *const *hosts = config_strings(c, "allowed_hosts");
        server_allow(d->server, hosts, str_count(hosts), config_str(c, "public_url"),
                     config_bool(c, "behind_proxy"));
    }
    daemon__follow_settings(d);
    if (d->ready && !d->stopping) { // else there is no stream yet, or no longer
        daemon__emit(d, EVENT_CONFIG_CHANGED, "\"broken\":%s,\"diagnostics\":%zu",
                     diags->broken ? "true" : "false", diags->n + d->unmet.n);
    }
}

static void read_anew(void *arg)
{
    struct daemon *d = arg;
    d->hung_up = NULL;
    hublog_reopen(d->log);
    if (d->live != NULL && !d->stopping) {
        gen_request(d->live->engine, &(struct gen_request){.trigger = "signal", .wait_all = true},
                    NULL, NULL);
    }
    if (d->settings != NULL) {
        settings_reload(d->settings);
    }
}

/// Signals that come while one waits are folded, so that a flood of them does not stop the loop's other work.
static void on_hangup(int signum, void *arg)
{
    struct daemon *d = arg;
    (void)signum;
    if (d->hung_up == NULL) {
        d->hung_up = loop_defer(&d->loop, read_anew, d);
    }
}

// ---- trust and secrets: the commands write the files, with or without us -----------------------

static void on_trust_written(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct daemon *d = arg;
    (void)w;
    if (!batch->first || batch->n != 0) { // no file at the start: nothing to read
        trust_hub_reread(d->trust, NULL, NULL);
    }
}

static void on_secrets_written(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct daemon *d = arg;
    (void)w;
    if (!batch->first && d->agent != NULL) { // else it has read them
        agent_learn_secrets(agent_glue_agent(d->agent));
    }
}

static void watch_file(struct daemon *d, struct watch **out, const char *name, watch_cb *cb)
{
    struct err e = {0};
    struct watch_opts o = {.path = d->home.dir, .pattern = name};
    if (watch_open(out, d->live->watcher, &o, cb, d, &e) < 0) {
        log_warn(LOG_HUB, "cannot watch %s: %s", name, e.msg);
    }
}

// ---- start, continued: the asynchronous steps ----------------------------------------------

static void step_listen(void *arg)
{
    struct daemon *d = arg;
    struct err e = {0};
    struct server_opts opts = {.api = d->api,
                               .events = d->events,
                               .version = d->opts.version,
                               .build = d->opts.build,
                               .page = &web_page};
    if (d->stopping) {
        return;
    }
    assert(d->server == NULL && d->agent != NULL && d->bots != NULL);
    bind_set_ops(d->live->bind, op_run, d->api); // sessions that a killed hub left are marked
    api_open_terms(d->api);
    d->server = server_open(&d->loop, &opts);
    d->mcp_server = mcpserver_open(&(struct mcpserver_opts){.loop = &d->loop,
                                                            .api = d->api,
                                                            .agent = agent_glue_agent(d->agent),
                                                            .events = d->events,
                                                            .config = settings_live(d->settings),
                                                            .version = d->opts.version});
    server_mount(d->server, mcpserver_mount(d->mcp_server));
    d->model_server =
        modelserver_open(&(struct modelserver_opts){.loop = &d->loop,
                                                    .agent = agent_glue_agent(d->agent),
                                                    .providers = agent_glue_providers(d->agent),
                                                    .config = settings_live(d->settings),
                                                    .home = &d->home},
                         d->server);
    d->editors = editors_open(&(struct editors_opts){
        .loop = &d->loop, .agent = agent_glue_agent(d->agent), .mcp = d->mcp});
    server_mount(d->server, editors_mount(d->editors));
    on_settings(d);
    watchdog_tell(d->watchdog, daemon__on_stall, d);
    d->listen = xstrdup(config_str(settings_live(d->settings)->now, "listen"));
    if (listen_tcp(d, d->listen, &e) < 0 || server_listen_unix(d->server, d->home.socket, &e) < 0 ||
        instance_announce(&d->instance, &e) < 0) {
        fail_start(d, &e);
        return;
    }
    daemon__guard_socket(d);
    d->ready = true;
    const char *http = server_tcp_address(d->server);
    daemon__emit(d, EVENT_HUB_STARTED, "\"version\":\"%s\",\"pid\":%ld", d->opts.version,
                 (long)getpid());
    log_info(LOG_HUB, "ready version=%s pid=%ld http=%s", d->opts.version, (long)getpid(), http);
    printf("ready socket=%s http=%s generation=%lld\n", d->home.socket, http,
           (long long)api_generation(d->api));
    fflush(stdout);
    bots_recover(d->bots);
}

/// Tell Lua of a worktree. bind/ closes after the bots do.
static void on_worktree(void *arg, enum bots_tree what, const char *path, const char *branch,
                        const char *repository)
{
    struct daemon *d = arg;
    if (what == BOTS_TREE_FOUND) {
        bind_worktree_known(d->live->bind, path, branch, repository);
    } else {
        bind_worktree_changed(d->live->bind, what == BOTS_TREE_MADE, path, branch, repository);
    }
}

static bool terminal_runs(void *arg, const char *id, int *status)
{
    const struct daemon *d = arg;
    return api_terminal_runs(d->api, id, status);
}

static bool terminal_end(void *arg, const char *id)
{
    const struct daemon *d = arg;
    return api_terminal_end(d->api, id);
}

static int64_t generation_of(void *arg)
{
    struct daemon *d = arg;
    return api_generation(d->api);
}

static void open_bots(struct daemon *d)
{
    struct fleet_opts fleet = {.loop = &d->loop,
                               .home = &d->home,
                               .config = settings_live(d->settings),
                               .store = d->store,
                               .choices = d->choices,
                               .generation = generation_of,
                               .arg = d};
    struct fleet_plugins plugins = daemon__fleet_plugins(d);
    d->fleet = fleet_open(&fleet);
    fleet_set_plugins(d->fleet, &plugins);
    struct bots_opts opts = {.hub = &d->hub,
                             .agent = agent_glue_agent(d->agent),
                             .watcher = d->live->watcher,
                             .fleet = d->fleet,
                             .worktree = on_worktree,
                             .terminal_runs = terminal_runs,
                             .terminal_end = terminal_end,
                             .arg = d};
    d->bots = bots_open(&opts);
    api_set_bots(d->api, d->bots, d->fleet);
}

static void on_project_changed(void *arg)
{
    struct daemon *d = arg;
    if (d->live->plugins != NULL) {
        plugins_project_changed(d->live->plugins);
    }
}

static void on_project_judged(void *arg)
{
    tell_faults(arg);
}

static void open_projects(struct daemon *d)
{
    struct projects_opts o = {.loop = &d->loop,
                              .home = &d->home,
                              .settings = d->settings,
                              .trust = trust_hub_book(d->trust),
                              .watcher = d->live->watcher,
                              .changed = on_project_changed,
                              .judged = on_project_judged,
                              .arg = d};
    d->projects = projects_open(&o);
    if (d->opts.repo != NULL) {
        projects_enter(d->projects, d->opts.repo, NULL, NULL);
    }
}

static const struct config *project_config(void *arg, const char *root)
{
    struct daemon *d = arg;
    return d->projects != NULL ? projects_config(d->projects, root) : NULL;
}

static void step_agent(void *arg)
{
    struct daemon *d = arg;
    struct agent_glue_opts opts = {.agent = {.hub = &d->hub, .engine = d->live->engine},
                                   .plugins = d->live->plugins,
                                   .improvements = d->live->improvements,
                                   .bind = d->live->bind,
                                   .watcher = d->live->watcher,
                                   .mcp = d->mcp,
                                   .version = d->opts.version};
    if (d->stopping) {
        return;
    }
    assert(d->agent == NULL && d->projects == NULL);
    open_projects(d);
    opts.projects = d->projects;
    d->agent = agent_glue_open(&opts, step_listen, d);
    api_set_agent(d->api, agent_glue_agent(d->agent), agent_glue_providers(d->agent));
    open_bots(d);
}

/// The step before has ended. False: it failed, or the hub stops.
static bool end_step(struct daemon *d, int status, const struct err *fault)
{
    if (status < 0 && !d->stopping) {
        fail_start(d, fault);
    }
    return !d->stopping;
}

static void step_lua(void *arg, int status, const struct err *choices_fault)
{
    struct daemon *d = arg;
    struct err e = {0};
    struct live_opts opts = {.hub = &d->hub,
                             .project_config = project_config,
                             .project_arg = d,
                             .version = d->opts.version,
                             .shipped_dir = d->shipped,
                             .stalled_path = d->stalled,
                             .repo = d->opts.repo,
                             .safe = d->opts.safe};
    if (status < 0) {
        e = *choices_fault;
        err_prefix(&e, "cannot read '%s'", d->home.choices);
    }
    if (!end_step(d, status, &e)) {
        return;
    }
    assert(d->live == NULL && d->api != NULL);
    d->live = live_open(&opts, step_agent, d);
    d->mcp = d->live->mcp;
    api_set_engine(d->api, d->live->engine);
    api_set_mcp(d->api, d->mcp);
    api_set_plugins(d->api, d->live->plugins, d->live->improvements);
    if (settings_watch(d->settings, d->live->watcher, &e) < 0) {
        log_warn(LOG_CONFIG, "cannot watch config.toml: %s", e.msg);
    }
    watch_file(d, &d->trust_watch, "trust.json", on_trust_written);
    watch_file(d, &d->secrets_watch, "secrets.json", on_secrets_written);
}

static void on_log_line(void *arg, enum log_level level, const char *component, struct str text)
{
    struct daemon *d = arg;
    struct buf line = {.max = 64 * 1024};
    struct jw w = {.out = &line};
    jw_obj(&w);
    jw_kstrz(&w, "level", log_level_name(level));
    jw_kstrz(&w, "component", component);
    jw_kstr(&w, "text", text);
    jw_end_obj(&w);
    event_emit_object(d->events, EVENT_LOG, &line);
}

static void step_choices(void *arg, int status, const struct err *fault)
{
    struct daemon *d = arg;
    struct err e = {0};
    if (!end_step(d, status, fault)) {
        return;
    }
    if (hublog_attach(d->log, &d->loop, on_log_line, d, &e) < 0) {
        fail_start(d, &e);
        return;
    }
    assert(d->events != NULL && d->api == NULL);
    d->choices = choices_new(d->store);
    d->hub = (struct hub_parts){.loop = &d->loop,
                                .home = &d->home,
                                .config = settings_live(d->settings),
                                .store = d->store,
                                .events = d->events,
                                .choices = d->choices,
                                .trust = trust_hub_book(d->trust)};
    struct api_opts opts = {
        .hub = &d->hub, .version = d->opts.version, .trust = d->trust, .host = daemon__host(d)};
    d->api = api_new(&opts);
    choices_load(d->choices, step_lua, d);
}

static void step_events(void *arg, int status, const struct err *fault)
{
    struct daemon *d = arg;
    struct err e = {0};
    if (end_step(d, status, fault) &&
        event_open(&d->events, &d->loop, d->store, 0, step_choices, d, &e) < 0) {
        fail_start(d, &e);
    }
}

static void on_store_notice(void *arg, const struct store_notice *n)
{
    static const char *const names[] = {
        [STORE_REPAIRED] = "repaired",         [STORE_SYNC_FAILED] = "sync-failed",
        [STORE_DAMAGED] = "damaged",           [STORE_REBUILT] = "rebuilt",
        [STORE_INDEX_FAILED] = "index-failed",
    };
    struct daemon *d = arg;
    log_warn(LOG_STORE, "notice=%s path=%s bytes_cut=%llu last_seq=%llu message=%s", names[n->kind],
             LOGQ(str_of(n->path)).z, (unsigned long long)n->bytes_cut,
             (unsigned long long)n->last_seq, LOGQ(str_of(n->message)).z);
    if (n->kind == STORE_DAMAGED && d->agent != NULL) {
        agent_session_damaged(agent_glue_agent(d->agent), path_base(path_dir(str_of(n->path))),
                              n->message);
    }
    if ((n->kind == STORE_REPAIRED || n->kind == STORE_DAMAGED) && d->events != NULL) {
        struct buf what = {.max = 16 * 1024};
        struct jw w = {.out = &what};
        jw_obj(&w);
        jw_kint(&w, "bytes_cut", (int64_t)n->bytes_cut);
        jw_kint(&w, "last_seq", (int64_t)n->last_seq);
        jw_kstrz(&w, "path", n->path);
        jw_kstrz(&w, "message", n->message);
        jw_end_obj(&w);
        event_emit_object(d->events, EVENT_JOURNAL_REPAIRED, &what);
    }
}

// ---- run -----------------------------------------------------------------------------------

/// The steps before there is a log. False: one of them failed, with `e`.
static bool prepare(struct daemon *d, struct err *e)
{
    return home_resolve(&d->home, d->opts.home, e) == 0 && home_prepare(&d->home, e) == 0 &&
           instance_take(&d->instance, &d->home, e) == 0 &&
           hublog_open(&d->log, d->home.log, LOG_MAX, e) == 0 && loop_init(&d->loop, NULL, e) == 0;
}

static bool open_signals(struct daemon *d, struct err *e)
{
    struct loop *l = &d->loop;
    return signal_open(&d->term, l, SIGTERM, daemon__on_stop_signal, d, e) == 0 &&
           signal_open(&d->interrupt, l, SIGINT, daemon__on_stop_signal, d, e) == 0 &&
           signal_open(&d->hangup, l, SIGHUP, on_hangup, d, e) == 0;
}

static bool open_settings(struct daemon *d, struct err *e)
{
    struct settings_opts o = {
        .home = &d->home, .listen = d->opts.listen, .profile = d->opts.profile};
    if (settings_open(&d->settings, &o, e) < 0) {
        return false;
    }
    config_listen(settings_live(d->settings), on_settings, d);
    return true;
}

/// Open the home's store, or the team's.
static bool open_store(struct daemon *d, struct err *e)
{
    struct store_opts o = {.home = d->home.dir, .notice = on_store_notice};
    struct team team = {0};
    bool ok = team_read(&team, settings_live(d->settings)->now, &d->home, d->opts.version, e) == 0;
    o.team = team.shared ? &team.store : NULL;
    ok = ok && store_open(&d->store, &d->loop, &o, step_events, d, e) == 0;
    team_fini(&team);
    return ok;
}

/// What the hub before us was stuck in when it was killed is kept under another name, beside what may
/// happen to us.
static void open_watchdog(struct daemon *d)
{
    struct err e = {0};
    char *mark = xasprintf("%s/stalling.json", d->home.state);
    d->stalled = xasprintf("%s/stalled.json", d->home.state);
    rename(mark, d->stalled); // almost always there is none
    if (watchdog_open(&d->watchdog, mark, &e) < 0) {
        log_warn(LOG_HUB, "watchdog=off reason=%s", LOGQ(str_of(e.msg)).z);
    }
    free(mark);
}

static void serve(struct daemon *d)
{
    struct err e = {0}, absent = {0};
    bool ok = open_signals(d, &e) && proc_setup(&e) == 0 && open_settings(d, &e);
    raise_file_limit();
    d->trust = trust_hub_open(&d->loop, d->home.dir);
    d->shipped = shipped_unpack(d->home.state, d->opts.build, &absent);
    if (d->shipped == NULL) {
        log_warn(LOG_HUB, "shipped plugins are not there: %s", absent.msg);
    }
    open_watchdog(d);
    if (!ok || !open_store(d, &e)) {
        fail_start(d, &e);
    }
    loop_run(&d->loop);
}

static void finish(struct daemon *d)
{
    struct err e = {0};
    agent_glue_free(d->agent);
    bots_free(d->bots);
    fleet_free(d->fleet);
    projects_free(d->projects);
    mcp_free(d->mcp);
    api_free(d->api);
    choices_free(d->choices);
    free(d->shipped);
    free(d->listen);
    config_diags_fini(&d->unmet);
    proc_teardown();
    if (loop_close(&d->loop, &e) < 0) {
        log_error(LOG_LOOP, "close=failed reason=%s", LOGQ(str_of(e.msg)).z);
        d->exit_code = 1;
    }
    watchdog_close(d->watchdog);
    free(d->stalled);
    log_info(LOG_HUB, "stopped exit=%d", d->exit_code);
    if (d->settings != NULL) {
        config_unlisten(settings_live(d->settings), on_settings, d);
    }
    settings_close(d->settings);
}

int daemon_run(const struct daemon_opts *opts)
{
    struct daemon d = {.opts = *opts, .instance = {-1, -1}};
    struct err e = {0};
    proc_set_umask(umask(077)); // ours is for the home alone
    signal(SIGPIPE, SIG_IGN);
    streams_own();
    // Left to itself, malloc takes the largest block it ever freed for the usual size and keeps as much twice
    // over: one long answer, and a hub that runs for weeks stays as large as it was then.
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
    if (prepare(&d, &e)) {
        serve(&d);
        finish(&d);
    } else {
        say_fault(&d, &e);
    }
    if (d.log != NULL) {
        hublog_close(d.log);
    }
    instance_release(&d.instance, &d.home);
    home_fini(&d.home);
    return d.exit_code;
}
