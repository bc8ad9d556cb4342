// What others ask of the process: a browser's address, a new token, its log; and the socket file.
//
// A socket file that vanishes (a cleaned /tmp, a careless rm) would make the hub unreachable for its
// owner while its lock keeps others out. The runtime directory is watched, without any wake-up, and
// the socket made again; the directory itself may go and come back, any number of times.

#include "base/log.h"
#include "base/redact.h"
#include "base/time.h"
#include "bind/bind.h"
#include "config/token.h"
#include "main/daemon_int.h"

enum {
    LOST_MS = 1000, // how often a lost socket is tried again
    CODE_S = 60,
    CODE_SSH_S = 600,
};

// ---- what operations ask of the process ----------------------------------------------------

int daemon__listen(struct daemon *d, const char *address, bool exact, struct err *e)
{
    char token[TOKEN_LEN + 1];
    int rc = token_load(d->home.token, token, e);
    if (rc < 0) {
        return rc;
    }
    server_set_token(d->server, str_of(token));
    redact_add(STR("token"), str_of(token));
    return server_listen_tcp(d->server, address, exact, e);
}

static int host_open_browser(void *arg, bool ssh, struct str dir, struct api_opened *out,
                             struct err *e)
{
    struct daemon *d = arg;
    const struct config *c = settings_live(d->settings)->now;
    if (server_tcp_address(d->server)[0] == '\0') {
        if (config_is_policy(c, "listen") && config_str(c, "listen")[0] == '\0') {
            return err_set(e, ERR_DENIED, "[policy] in '%s' allows no listener",
                           config_find(c, "listen")->path);
        }
        int rc = daemon__listen(d, DEFAULT_ADDRESS, false, e);
        if (rc < 0) {
            return rc;
        }
    }
    const char *colon = strrchr(server_tcp_address(d->server), ':');
    char code[44];
    if (dir.n != 0) {
        server_set_start_dir(d->server, dir);
    }
    out->expires_s = ssh ? CODE_SSH_S : CODE_S;
    out->port = (int)strtol(colon + 1, NULL, 10);
    server_make_code(d->server, out->expires_s, code);
    snprintf(out->url, sizeof out->url, "http://afloat.localhost:%d/?code=%s", out->port, code);
    return 0;
}

static int host_rotate_token(void *arg, struct err *e)
{
    struct daemon *d = arg;
    char token[TOKEN_LEN + 1];
    int rc = token_rotate(d->home.token, token, e);
    if (rc == 0) {
        redact_add(STR("token"), str_of(token));
        server_set_token(d->server, str_of(token));
        log_info(LOG_AUTH, "token=rotated");
    }
    return rc;
}

static void host_stop(void *arg, const char *reason)
{
    daemon__stop(arg, reason);
}

static const char *host_listen_address(void *arg)
{
    struct daemon *d = arg;
    return d->server != NULL ? server_tcp_address(d->server) : "";
}

static void host_logs(void *arg, size_t limit, struct jw *w)
{
    struct daemon *d = arg;
    hublog_lines(d->log, limit, w);
}

static void host_refresh_settings(void *arg)
{
    struct daemon *d = arg;
    settings_refresh(d->settings);
    if (d->unmet.n != 0) {
        daemon__follow_settings(d);
    }
}

static bool host_knows_unit(void *arg, struct str name)
{
    struct daemon *d = arg;
    return d->live != NULL && live_knows(d->live, name);
}

static void host_plugin_logs(void *arg, struct str unit, struct jw *w)
{
    struct daemon *d = arg;
    if (d->live != NULL) {
        bind_log_write(d->live->bind, unit, w);
    }
}

static void host_metrics(void *arg, struct buf *out)
{
    struct daemon *d = arg;
    server_metrics(d->server, out);
}

/// What stopped the hub: now, within the last minute, or when it was killed.
static void host_degraded(void *arg, bool places, struct jw *w)
{
    enum { RECENT_S = 60 };
    struct daemon *d = arg;
    struct watchdog_stall s;
    uint64_t recent = time_mono_ns() - RECENT_S * 1000000000ull;
    bool now = d->watchdog != NULL && watchdog_last(d->watchdog, &s) &&
               (s.ended_ns == 0 || s.ended_ns > recent);
    const struct watchdog_stall *before = d->live != NULL ? bind_stalled(d->live->bind) : NULL;
    if (!now && before == NULL) {
        return;
    }
    const struct watchdog_stall *what = now ? &s : before;
    jw_kobj(w, "degraded");
    jw_kstrz(w, "plugin", what->unit);
    jw_kint(w, "ms", (int64_t)what->ms);
    if (places) {
        jw_kstrz(w, "path", what->path);
        jw_kint(w, "line", what->line);
    }
    jw_end_obj(w);
}

// On the watchdog's thread, as the next function.
static void write_health(void *arg, bool over_socket, struct jw *w)
{
    struct daemon *d = arg;
    jw_obj(w);
    api_write_health(d->api, over_socket, gen_serving(d->live->engine), time_mono_ns() / 1000000,
                     w);
    jw_end_obj(w);
}

void daemon__on_stall(void *arg, const struct watchdog_stall *s)
{
    struct daemon *d = arg;
    if (s->ended_ns == 0) {
        server_stalled(d->server, write_health, d);
    } else {
        server_stall_ended(d->server);
    }
}

static void host_ask(void *arg, const char *event, const struct json *value, struct arena *in,
                     api_decided *done, void *done_arg)
{
    const struct daemon *d = arg;
    if (d->live != NULL && d->live->bind != NULL) {
        bind_ask(d->live->bind, event, value, in, done, done_arg);
    } else {
        done(done_arg, value, NULL);
    }
}

struct api_host daemon__host(struct daemon *d)
{
    return (struct api_host){.open_browser = host_open_browser,
                             .rotate_token = host_rotate_token,
                             .stop = host_stop,
                             .listen_address = host_listen_address,
                             .logs = host_logs,
                             .refresh_settings = host_refresh_settings,
                             .knows_unit = host_knows_unit,
                             .plugin_logs = host_plugin_logs,
                             .degraded = host_degraded,
                             .metrics = host_metrics,
                             .ask = host_ask,
                             .arg = d};
}

// ---- the socket file -----------------------------------------------------------------------

static void on_runtime_change(uv_fs_event_t *w, const char *name, int events, int status);

// Watch the directory that is there now; watched before the socket is made, so that no loss is missed.
static int watch_runtime(struct daemon *d, struct err *e)
{
    uv_fs_event_stop(&d->runtime_watch);
    int rc = uv_fs_event_start(&d->runtime_watch, on_runtime_change, d->home.runtime, 0);
    return rc < 0 ? err_set(e, rc, "cannot watch '%s': %s", d->home.runtime, uv_strerror(rc)) : 0;
}

static void restore_socket(void *arg)
{
    struct daemon *d = arg;
    struct err e = {0};
    if (d->stopping || server_socket_in_place(d->server)) {
        return;
    }
    if (home_prepare(&d->home, &e) < 0 || watch_runtime(d, &e) < 0 ||
        instance_renew(&d->instance, &d->home, &e) < 0 ||
        server_listen_unix(d->server, d->home.socket, &e) < 0) {
        log_error(LOG_HUB, "socket=lost reason=%s", LOGQ(str_of(e.msg)).z);
        timer_start(&d->lost, LOST_MS);
        return;
    }
    log_warn(LOG_HUB, "socket=made-again path=%s", LOGQ(str_of(d->home.socket)).z);
}

static void on_runtime_change(uv_fs_event_t *w, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    restore_socket(container_of(w, struct daemon, runtime_watch));
}

void daemon__guard_socket(struct daemon *d)
{
    struct err e = {0};
    assert(!d->watching);
    timer_init(&d->lost, &d->loop, restore_socket, d);
    d->watching = uv_fs_event_init(&d->loop.uv, &d->runtime_watch) == 0;
    if (!d->watching || watch_runtime(d, &e) < 0) {
        log_warn(LOG_HUB, "runtime=unwatched reason=%s", LOGQ(str_of(e.msg)).z);
    }
}
