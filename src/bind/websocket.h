#pragma once

#include "bind/bind_int.h"
#include "net/ws_client.h"

// What websocket and action_cable share.

/// Where a connection leads, and the connection.
struct bind__link {
    struct arena arena; // of `q`
    struct ws_client_request q;
    struct ws_client *ws; // NULL: not now
};

/// Read the address and the headers of the options at `opts`; raises nothing after bind__check_handlers().
void bind__link_read(lua_State *L, int opts, struct str url, struct bind__link *k);
void bind__link_free(struct bind__link *k);

/// Raise unless the table at `opts` has only these keys, functions under on_*, and a table of headers.
void bind__check_handlers(lua_State *L, int opts, const char *who, const char *const *keys);
/// Push the function that hands events to the handlers of the table at `opts`.
void bind__push_dispatch(lua_State *L, int opts);
/// Post an event to it: on_TYPE is called with what it takes.
void bind__post_event(struct bind_reg *r, const char *type, int code, struct str text, bool binary);
