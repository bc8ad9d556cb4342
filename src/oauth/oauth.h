#pragma once

#include "base/json.h"
#include "loop/loop.h"

// OAuth 2.1 for remote servers, as MCP wants it: find the authorization server, register as a client, have the user
// agree in a browser (code with PKCE), exchange the code for tokens, and renew them. All of it belongs to the loop thread.

struct http_client;
struct oauth_login;

/// What a login gave. Kept as a secret, in the form of oauth_token_write().
struct oauth_token {
    char *access;
    char *refresh;                   // NULL: it cannot be renewed
    char *endpoint;                  // where it is renewed
    char *client_id, *client_secret; // `client_secret` may be NULL
    char *resource;
    bool basic;         // the client's secret goes into a header, not into the form
    int64_t expires_at; // seconds since 1970; 0: unknown
};

/// Read a kept token. ERR_INVALID when it is damaged. End it with oauth_token_fini(), on failure too.
int oauth_token_read(struct oauth_token *t, struct str text, struct err *e) MUST_CHECK;
void oauth_token_write(const struct oauth_token *t, struct buf *out);
void oauth_token_fini(struct oauth_token *t); // wipes it
/// Is a token of `resource` one for the server at `url`? It is when they have the same origin and the path of `resource`
/// is that of `url`, or one above it.
bool oauth_is_for(const char *resource, const char *url);
/// The name of the secret that holds the token of an MCP server. Caller frees.
char *oauth_secret_name(const char *server);

/// `t` NULL: `e` says why. Both are borrowed for the call.
typedef void oauth_cb(void *arg, const struct oauth_token *t, const struct err *e);

struct oauth_renewal;
/// Renew `t`, which is copied. `done` once, never from inside, unless it is cancelled before. It has to be cancelled
/// before `http` closes.
struct oauth_renewal *oauth_renew(struct http_client *http, struct loop *loop,
                                  const struct oauth_token *t, oauth_cb *done, void *arg);
void oauth_renew_cancel(struct oauth_renewal *r);

struct oauth_opts {
    struct loop *loop;
    struct http_client *http;
    const char *url; // of the server that wants a login
    /// The address that the user has to open.
    void (*show)(void *arg, const char *address);
    oauth_cb *done;
    void *arg;
};

/// Log in. `done` once, never from inside; it ends the login. `o` is read during the call only.
struct oauth_login *oauth_login(const struct oauth_opts *o);
