#pragma once

// Sessions as Lua sees them: hub.sessions, hub.send, and the events agent_created and agent_deleted.

struct agent;
struct bind;
struct session;

/// Offer the sessions of `a` to the Lua of `b`, until agent_lua_close().
void agent_lua_open(struct bind *b, struct agent *a);
void agent_lua_close(struct bind *b);

/// Notify hooks of `event` with the session's row. `b` NULL: Lua is gone, and nobody is told.
void agent_lua_tell(struct bind *b, const char *event, const struct session *s);
