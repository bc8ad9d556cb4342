#pragma once

#include "server/mount.h"

// Editors that drive sessions, as `afloat acp` connects them. For as long as the request
//
//     POST /editor {session, reads?, writes?, terminals?, mcp_servers?}
//
// is open, tools of that session read and write files through the editor, and its MCP servers serve the session. The
// answer is a stream of events: `ready`, then `request {request, method, params}`, answered by
// PUT /editor {session, request, result or error}, and `cancel {request}`.

struct agent;
struct editors;
struct mcp;

/// All borrowed until editors_close().
struct editors_opts {
    struct loop *loop;
    struct agent *agent;
    struct mcp *mcp; // NULL: there are no servers
};

/// Make it; costs nothing until the first editor comes.
struct editors *editors_open(const struct editors_opts *o);
/// What server_mount() takes. Borrowed.
const struct server_mount *editors_mount(const struct editors *e);
/// After the server has closed. NULL is allowed.
void editors_close(struct editors *e);
