#pragma once

#include "api/api.h"
#include "server/mount.h"

// Afloat as an MCP server: what plugins offer, and the operations that are allowed, for any MCP client. See
// docs/internals/mcp.md.

struct agent;
struct mcpserver;

/// All borrowed until mcpserver_close().
struct mcpserver_opts {
    struct loop *loop;
    struct api *api;
    struct agent *agent;
    struct event_log *events;
    struct config_live *config;
    const char *version;
};

/// Make it; costs nothing until the first client comes.
struct mcpserver *mcpserver_open(const struct mcpserver_opts *o);
/// What server_mount() takes. Borrowed.
const struct server_mount *mcpserver_mount(const struct mcpserver *s);
/// After the server has closed, before the engine does: forget all clients. Calls that still run are given up.
/// NULL is allowed.
void mcpserver_close(struct mcpserver *s);
