#pragma once

#include "api/api.h"
#include "config/instance.h"
#include "fleet/fleet.h"
#include "loop/hublog.h"
#include "loop/signal.h"
#include "loop/timer.h"
#include "lua/watchdog.h"
#include "main/agent_glue.h"
#include "main/daemon.h"
#include "main/live.h"
#include "proto/events.h"
#include "server/server.h"
#include "settings/projects.h"
#include "settings/settings.h"
#include "store/choices.h"
#include "store/store.h"
#include "trust/hub.h"

// What the files of the hub's life share.
//
//     daemon.c       it comes up and serves
//     daemon_host.c  what others ask of the process, and the socket file
//     daemon_stop.c  it goes down
//     fleet_glue.c   its plugins, for the fleet

#define DEFAULT_ADDRESS "127.0.0.1:4700"

struct daemon {
    struct daemon_opts opts;
    struct home home;
    struct instance instance;
    struct hublog *log;
    struct loop loop;
    struct watchdog *watchdog;
    char *stalled; // file that says what the hub was stuck in when it was killed
    struct settings *settings;
    char *listen; // the setting that the TCP listener follows, as it was last put into force
    struct config_diags unmet; // what of the settings could not be put into force
    struct trust_hub *trust;
    struct watch *trust_watch, *secrets_watch;
    char *shipped; // directory of the plugins that come with the program; NULL: none
    struct store *store;
    struct choices *choices;
    struct event_log *events;
    struct hub_parts hub; // the parts above, for all below
    struct api *api;
    struct live *live;
    struct projects *projects;
    struct mcp *mcp; // of `live`
    struct agent_glue *agent;
    struct bots *bots;
    struct fleet *fleet;
    struct server *server;
    struct mcpserver *mcp_server;
    struct modelserver *model_server;
    struct editors *editors;
    struct signal_watch *term, *interrupt, *hangup;
    struct loop_task *hung_up; // everything is about to be read anew; NULL: it is not
    uv_fs_event_t runtime_watch;
    struct timer lost; // runs while the socket could not be made again
    bool watching, ready, stopping, signalled;
    int exit_code;
};

/// What operations may ask of the process.
struct api_host daemon__host(struct daemon *d);
/// What the fleet asks of this hub's plugins.
struct fleet_plugins daemon__fleet_plugins(struct daemon *d);
/// `arg` is the daemon, whose server is open. See watchdog_tell().
void daemon__on_stall(void *arg, const struct watchdog_stall *s);
/// Put the settings into force that others than their readers must act on.
void daemon__follow_settings(struct daemon *d);
/// Listen on TCP, with the token. `exact`: this port or none.
int daemon__listen(struct daemon *d, const char *address, bool exact, struct err *e) MUST_CHECK;
/// From now on a socket file that vanishes is made again.
void daemon__guard_socket(struct daemon *d);

/// Put an event on the stream; `format` makes its members, without braces.
void daemon__emit(struct daemon *d, enum event_id type, const char *format, ...) PRINTF_LIKE(3, 4);
/// Go down, once; `reason` is for the log and the stream.
void daemon__stop(struct daemon *d, const char *reason);
void daemon__on_stop_signal(int signum, void *arg);
