#pragma once

#include "api/op.h"
#include "config/config.h"
#include "config/home.h"
#include "config/hub_parts.h"
#include "loop/loop.h"

// What the operations work on. The listener and the process itself, which are above api/, are reached through
// `struct api_host`, which main/ fills in.

struct agent;
struct gen_engine;
struct improvements;
struct plugins;
struct trust_hub;

struct api_opened {
    char url[512]; // http://afloat.localhost:PORT/?code=...
    int port;
    int64_t expires_s;
};

/// What handlers in Lua made of a value, or why one of them refused it: then `value` is NULL.
typedef void api_decided(void *arg, const struct json *value, const char *refused);

struct api_host {
    /// Switch the loopback listener on if it is off, and make a one-time code. The page begins
    /// sessions in `dir`; STR_NULL: as before.
    int (*open_browser)(void *arg, bool ssh, struct str dir, struct api_opened *out, struct err *e);
    int (*rotate_token)(void *arg, struct err *e);
    void (*stop)(void *arg, const char *reason);
    /// The TCP address as HOST:PORT, or "" when only the socket is listened on.
    const char *(*listen_address)(void *arg);
    /// The last lines of the log as objects into an open array.
    void (*logs)(void *arg, size_t limit, struct jw *w);
    /// Take over a config.toml that was saved just now. NULL: it is not watched.
    void (*refresh_settings)(void *arg);
    /// Could a reload name this unit?
    bool (*knows_unit)(void *arg, struct str name);
    /// The last lines that a unit logged, as objects {ts, level, text} into an open array.
    void (*plugin_logs)(void *arg, struct str unit, struct jw *w);
    /// Write what slowed the hub down lately, if anything did: {plugin, ms}, with `places` also {path, line}.
    void (*degraded)(void *arg, bool places, struct jw *w);
    /// Add lines `afloat_... VALUE` of the parts above to the metrics.
    void (*metrics)(void *arg, struct buf *out);
    /// Let Lua change `value` as interceptors of `event`. `done` comes once; until then `value` and `in`, where
    /// answers are kept, are borrowed. NULL: there is no Lua.
    void (*ask)(void *arg, const char *event, const struct json *value, struct arena *in,
                api_decided *done, void *done_arg);
    void *arg;
};

/// All borrowed; they must outlive the context.
struct api_opts {
    const struct hub_parts *hub; // its choices are loaded before the first operation runs
    const char *version;
    struct trust_hub *trust;
    struct api_host host;
};

/// Create what the operations work on.
struct api *api_new(const struct api_opts *o);
/// Nothing is asked any more: end what still works for operations. Before the loop ends.
void api_stop(struct api *api);
void api_free(struct api *api); // NULL is allowed

/// The engine whose generation is shown and reloaded; NULL while there is none.
void api_set_engine(struct api *api, struct gen_engine *engine);
struct gen_engine *api_engine(const struct api *api);

/// The plugins and improvements that operations show and change; NULL while there are none.
void api_set_plugins(struct api *api, struct plugins *plugins, struct improvements *improvements);
/// Call `row` for every plugin and improvement, in load order; `error` is NULL when nothing is wrong.
void api_list_plugins(const struct api *api,
                      void (*row)(void *arg, const char *name, const char *state,
                                  const char *error),
                      void *arg);

struct mcp;
/// The MCP servers; NULL while there are none.
void api_set_mcp(struct api *api, struct mcp *mcp);
/// Call `url` with the address of the module of every plugin with a web side, in load order.
void api_list_fronts(const struct api *api, void (*url)(void *arg, const char *url), void *arg);
/// Write the same plugins as `GET /front/plugins` answers them.
void api_write_fronts(const struct api *api, struct jw *w);

/// A file of a plugin's web side; borrowed until the loop turns.
struct api_file {
    struct str bytes;
    const char *type; // content type
    char version[13]; // of all files of it together: changes with any of them
};
/// False: there is no such plugin, that is not the revision that serves, or it has no such file. `path` is decoded.
bool api_front_file(const struct api *api, struct str name, struct str revision, struct str path,
                    struct api_file *out);

struct bots;
struct providers;
/// The sessions, and what model requests run on; NULL while there are none.
void api_set_agent(struct api *api, struct agent *agent, struct providers *providers);
struct fleet;
/// The bots, and the hubs that run them; NULL while there are none.
void api_set_bots(struct api *api, struct bots *bots, struct fleet *fleet);

struct terms;
/// Find the terminals that an earlier hub left, and serve them; leave them alone again.
void api_open_terms(struct api *api);
void api_close_terms(struct api *api);
struct terms *api_terms(const struct api *api); // NULL while there are none
/// What bots ask of the terminals in which runs work (bots_opts).
bool api_terminal_runs(struct api *api, const char *id, int *status);
bool api_terminal_end(struct api *api, const char *id);

/// The number of the current generation; 0 while there is none.
int64_t api_generation(const struct api *api);
/// The members of the answer to `GET /healthz`; on any thread while nothing changes the host's address.
void api_write_health(const struct api *api, bool over_socket, uint64_t generation, uint64_t now_ms,
                      struct jw *w);
double api_uptime_s(const struct api *api); // since api_new()
