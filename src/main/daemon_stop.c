// The hub goes down: in the reverse order of its start, each part when the one before it is gone.
//
//     runs ─ turns ─ connections ─ bots ─ Lua ─ events ─ store (syncs every journal) ─ signals
//
// Runs and turns end before the connections do: who waits for one is answered. A second signal ends the
// wait at once.

#include <signal.h>
#include <unistd.h>

#include "api/api.h"
#include "base/log.h"
#include "bind/bind.h"
#include "bot/bots.h"
#include "editor/editor.h"
#include "main/daemon_int.h"
#include "mcp/mcp.h"
#include "mcpserver/mcpserver.h"
#include "modelserver/modelserver.h"
#include "watch/watch.h"

enum {
    GRACE_MS = 5000,
};

static void on_store_closed(void *arg, int status, const struct err *e)
{
    struct daemon *d = arg;
    d->store = NULL;
    if (status < 0) {
        log_error(LOG_STORE, "close=failed reason=%s", LOGQ(str_of(e->msg)).z);
        d->exit_code = 1;
    }
    hublog_detach(d->log);
    signal_close(d->term);
    signal_close(d->interrupt);
    signal_close(d->hangup);
    if (d->hung_up != NULL) {
        loop_cancel(&d->loop, d->hung_up);
        d->hung_up = NULL;
    }
}

static void on_live_closed(void *arg)
{
    struct daemon *d = arg;
    assert(d->stopping && d->server == NULL); // no client can ask any more
    d->live = NULL;
    if (d->api != NULL) {
        api_stop(d->api);
    }
    if (d->agent != NULL) {
        agent_glue_close(d->agent);
    }
    trust_hub_close(d->trust);
    d->trust = NULL;
    if (d->events != NULL) {
        hublog_detach(d->log);
        event_close(d->events);
        d->events = NULL;
    }
    if (d->store != NULL) {
        store_close(d->store, on_store_closed, d);
    } else {
        on_store_closed(d, 0, NULL);
    }
}

static void on_fleet_closed(void *arg)
{
    struct daemon *d = arg;
    if (d->live != NULL) {
        api_set_engine(d->api, NULL); // a call that still waits for a thread finds neither
        api_set_plugins(d->api, NULL, NULL);
        api_set_mcp(d->api, NULL);
        settings_unwatch(d->settings);
        watch_close(d->trust_watch);
        watch_close(d->secrets_watch);
        live_close(d->live, on_live_closed, d);
    } else {
        on_live_closed(d);
    }
}

static void on_bots_closed(void *arg)
{
    struct daemon *d = arg;
    fleet_close(d->fleet, on_fleet_closed, d);
}

static void on_server_closed(void *arg)
{
    struct daemon *d = arg;
    d->server = NULL;
    mcpserver_close(d->mcp_server);
    d->mcp_server = NULL;
    modelserver_close(d->model_server);
    d->model_server = NULL;
    editors_close(d->editors);
    d->editors = NULL;
    if (d->api != NULL) {
        api_close_terms(d->api);
    }
    if (d->bots != NULL) {
        bots_close(d->bots, on_bots_closed, d);
    } else {
        on_fleet_closed(d);
    }
}

static void on_agent_stopped(void *arg)
{
    struct daemon *d = arg;
    projects_close(d->projects);
    if (d->live != NULL) {
        bind_set_ops(d->live->bind, NULL, NULL);
    }
    if (d->server != NULL) {
        watchdog_tell(d->watchdog, NULL, NULL);
        server_close(d->server, GRACE_MS, on_server_closed, d);
    } else {
        on_server_closed(d);
    }
}

static void on_bots_stopped(void *arg)
{
    struct daemon *d = arg;
    agent_glue_stop(d->agent, on_agent_stopped, d);
}

// Runs end first, then turns: who waits for one is answered before the connections go.
static void close_server(void *arg)
{
    struct daemon *d = arg;
    if (d->bots != NULL) {
        bots_stop(d->bots, on_bots_stopped, d);
    } else {
        on_agent_stopped(d);
    }
}

void daemon__stop(struct daemon *d, const char *reason)
{
    if (d->stopping) {
        return;
    }
    d->stopping = true;
    log_info(LOG_HUB, "stopping reason=%s", LOGQ(str_of(reason)).z);
    mcp_stop(d->mcp); // or turns would end only when their servers have started
    if (d->watching) {
        timer_stop(&d->lost);
        uv_close((uv_handle_t *)&d->runtime_watch, NULL);
    }
    if (d->server != NULL) {
        daemon__emit(d, EVENT_HUB_STOPPING, "\"reason\":\"%s\"", reason);
        server_drop_socket(d->server);
        loop_defer(&d->loop, close_server, d); // after the event: its readers still get it
    } else {
        close_server(d);
    }
}

void daemon__on_stop_signal(int signum, void *arg)
{
    struct daemon *d = arg;
    if (d->stopping && d->signalled) { // asked twice: journals are written, only syncs may be lost
        log_warn(LOG_HUB, "stopped at once by a second signal");
        _exit(128 + signum);
    }
    d->signalled = true;
    daemon__stop(d, signum == SIGTERM ? "SIGTERM" : "SIGINT");
}
