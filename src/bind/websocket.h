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
/// Connect; what happens comes to `cb` with `r`. A negative code and `e` when that cannot work.
int bind__link_open(struct bind__link *k, struct bind_reg *r, const struct ws_client_cb *cb,
                    struct err *e) MUST_CHECK;
/// Drop the connection, if there is one: nothing more comes from it.
void bind__link_drop(struct bind__link *k);

/// Read the URL at `idx`. STR_NULL when it is not the address of a WebSocket; then nil and a message are pushed.
struct str bind__check_url(lua_State *L, int idx, const char *who);
/// Raise unless the table at `opts` has only these keys, functions under on_*, and a table of headers.
void bind__check_handlers(lua_State *L, int opts, const char *who, const char *const *keys);
/// Push the function that hands events to the handlers of the table at `opts`.
void bind__push_dispatch(lua_State *L, int opts);
/// Post an event to it: on_TYPE is called with what it takes.
void bind__post_event(struct bind_reg *r, const char *type, int code, struct str text, bool binary);
/// The connection has ended, by an error when there is a `message`: drop it, and post that and (`closes`) the end,
/// also when messages have filled the queue. Of a text the first KiB counts.
void bind__post_end(struct bind_reg *r, struct bind__link *k, int code, struct str reason,
                    const char *message, bool closes);
