#pragma once

#include "net/http_client.h"
#include "oauth/oauth.h"

// What the files of this folder share.
//
//     login.c     the way from an address to a token
//     callback.c  the address on this machine that the browser comes back to
//     token.c     tokens

enum { OAUTH_HTTP_MS = 30000, OAUTH_PERSON_MS = 10 * 60 * 1000 };

/// May a login to `server` use `url`, which a document names? It must be https and plain text. Services of this machine,
/// with http too, are only for a server that is on it: others could use us to reach them.
bool oauth__may_ask(const char *server, const char *url);
/// Add `key=value` to a form or a query, encoded.
void oauth__add(struct buf *out, const char *key, const char *value);
/// Send `form` to the endpoint of `t`, with our credentials as a client.
int oauth__ask_token(struct http_call **call, struct http_client *http, const struct oauth_token *t,
                     struct buf *form, const struct http_cb *cb, void *arg,
                     struct err *e) MUST_CHECK;
/// Take the answer of a token endpoint into `t`.
int oauth__take(struct oauth_token *t, int status, struct str body, struct err *e) MUST_CHECK;

struct oauth_callback;
/// What the browser brought: a code and the issuer that came with it (may be NULL), or what went wrong. Once. Borrowed for
/// the call.
typedef void oauth_back(void *arg, const char *code, const char *issuer, const struct err *e);
/// Listen on a free port of 127.0.0.1. `state` (copied) must come back. The caller ends it with oauth__callback_close().
int oauth__callback_open(struct oauth_callback **out, struct loop *l, const char *state,
                         oauth_back *back, void *arg, struct err *e) MUST_CHECK;
int oauth__callback_port(const struct oauth_callback *c);
/// Tell the browser that came back how the login ended (`why` NULL: it worked), and stop listening. `c` may be NULL; from
/// inside `back` too.
void oauth__callback_close(struct oauth_callback *c, const struct err *why);
