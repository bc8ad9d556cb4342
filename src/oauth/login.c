// The way from the address of a server to a token.
//
//     ask the server ──401──> its resource metadata ──> authorization server ──> its metadata
//        ──> register as a client ──> browser: the user agrees ──> callback with a code ──> token
//
// Each document is looked for at the addresses of the specifications, in order; without one the server itself counts as
// the authorization server, as in the first revisions. Every address that a document names must be https; a server on this
// machine may name others on it, a server elsewhere may not.
//
// Invariant: exactly one of these is under way: a request (`call`), the wait for the browser, or the end. The browser waits for
// the end, which shows it the result; OAUTH_HTTP_MS bounds that.

#include <assert.h>

#include "base/base64.h"
#include "base/random.h"
#include "base/sha256.h"
#include "net/http_client.h"
#include "oauth/oauth_int.h"

enum { DOCUMENT_MAX = 1 << 20, SECRET_BYTES = 32, SECRET_TEXT = 48, PLACES = 3 };

typedef void step_fn(struct oauth_login *l, int status, const struct json *v);

struct oauth_login {
    struct loop *loop;
    struct http_client *http;
    void (*show)(void *arg, const char *address);
    oauth_cb *done;
    void *arg;
    struct arena arena;             // of all texts
    const char *url;                // of the server
    const char *resource;           // what the server calls itself
    step_fn *next;                  // takes the answer to the request
    const char *places[PLACES + 1]; // where a document may be; NULL at the end
    size_t at;
    const char *issuer, *authorize, *endpoint, *registration, *scope;
    const char *method; // how we authenticate at the token endpoint
    bool names_itself;  // the authorization server sends its issuer with the code
    char state[SECRET_TEXT], verifier[SECRET_TEXT];
    const char *redirect;
    struct oauth_callback *callback;
    struct oauth_token token;
    struct err why;
};

// ---- the end --------------------------------------------------------------------------------------

static void on_end(void *arg)
{
    struct oauth_login *l = arg;
    oauth__callback_close(l->callback, l->why.code != 0 ? &l->why : NULL);
    l->done(l->arg, l->why.code == 0 ? &l->token : NULL, &l->why);
    oauth_token_fini(&l->token);
    explicit_bzero(l->verifier, sizeof l->verifier);
    arena_fini(&l->arena);
    free(l);
}

static void end(struct oauth_login *l, const struct err *e)
{
    if (e != NULL) {
        l->why = *e;
        assert(e->code < 0);
    }
    loop_defer(l->loop, on_end, l);
}

static void fail(struct oauth_login *l, const char *why)
{
    struct err e;
    err_set(&e, ERR_UNSUPPORTED, "%s", why);
    end(l, &e);
}

// ---- addresses ------------------------------------------------------------------------------------

static struct str after_scheme(struct str url)
{
    return str_from(url, str_starts(url, "https://") ? 8 : 7);
}

static bool is_loopback(struct str host)
{
    struct str name = str_starts(host, "[") ? host : str_cut(&host, ':');
    bool number = str_starts(name, "127.") && strspn(name.p, "0123456789.") >= name.n;
    return number || str_caseeqz(name, "localhost") || str_starts(name, "[::1]");
}

bool oauth__may_ask(const char *server, const char *url)
{
    struct str s = str_of(url), rest = after_scheme(s), own = after_scheme(str_of(server));
    struct str host = {rest.p, strcspn(rest.p, "/?#\\")}, own_host = str_cut(&own, '/');
    bool plain = host.n != 0 && str_index(host, '@') < 0;
    for (size_t i = 0; plain && i < s.n; i++) {
        plain = s.p[i] > ' ' && s.p[i] < 0x7F;
    }
    return plain && (is_loopback(host) ? is_loopback(own_host) &&
                                             (str_starts(s, "https://") || str_starts(s, "http://"))
                                       : str_starts(s, "https://"));
}

static bool is_safe(const struct oauth_login *l, const char *url)
{
    return oauth__may_ask(l->url, url);
}

/// ORIGIN, and the path with its slash ("" for none).
static void split(struct oauth_login *l, const char *url, const char **origin, const char **path)
{
    struct str s = str_of(url), rest = after_scheme(s);
    size_t scheme = s.n - rest.n;
    ptrdiff_t slash = str_index(rest, '/');
    size_t n = slash < 0 ? s.n : scheme + (size_t)slash;
    struct str tail = str_from(s, n);
    tail.n -= tail.n == 1;
    *origin = arena_strdup(&l->arena, (struct str){s.p, n});
    *path = arena_strdup(&l->arena, tail);
}

// ---- requests -------------------------------------------------------------------------------------

static void on_answer(struct http_call *call, int rc, const struct http_reply *reply,
                      const struct err *e, void *arg)
{
    struct oauth_login *l = arg;
    struct json *v = NULL;
    (void)call;
    if (rc < 0) {
        end(l, e);
        return;
    }
    (void)!json_parse(&v, &l->arena, arena_str(&l->arena, reply->body), NULL, NULL);
    l->next(l, reply->status, v);
}

static void ask(struct oauth_login *l, const char *method, const char *url, const char *type,
                struct str body, const struct http_cb *cb, step_fn *next)
{
    struct http_header headers[] = {{STR("Accept"), STR("application/json, text/event-stream")},
                                    {STR("Content-Type"), str_of(type)}};
    struct http_request q = {.method = method,
                             .url = url,
                             .headers = headers,
                             .n_headers = type != NULL ? 2 : 1,
                             .body = body,
                             .timeout_ms = OAUTH_HTTP_MS,
                             .max_body = DOCUMENT_MAX};
    struct http_call *call;
    struct err e = {0};
    l->next = next;
    if (!is_safe(l, url)) {
        err_set(&e, ERR_DENIED, "'%.160s' is no https address that this login may use", url);
        end(l, &e);
    } else if (http_client_send(&call, l->http, &q, cb, l, &e) < 0) {
        end(l, &e);
    }
}

static const struct http_cb json_cb = {.on_done = on_answer};

static void look(struct oauth_login *l, step_fn *next)
{
    assert(l->at < PLACES && l->places[l->at] != NULL);
    ask(l, "GET", l->places[l->at], NULL, STR_NULL, &json_cb, next);
}

// ---- the token --------------------------------------------------------------------------------------

static void on_token(struct http_call *call, int rc, const struct http_reply *reply,
                     const struct err *e, void *arg)
{
    struct oauth_login *l = arg;
    struct err why = {0};
    (void)call;
    if (rc < 0) {
        end(l, e);
        return;
    }
    rc = oauth__take(&l->token, reply->status, reply->body, &why);
    end(l, rc < 0 ? &why : NULL);
}

static void on_back(void *arg, const char *code, const char *issuer, const struct err *e)
{
    static const struct http_cb cb = {.on_done = on_token};
    struct oauth_login *l = arg;
    struct buf form = {.max = SIZE_MAX};
    struct http_call *call;
    struct err why = {0};
    if (issuer != NULL ? strcmp(issuer, l->issuer) != 0 : l->names_itself && code != NULL) {
        err_set(&why, ERR_DENIED, "another authorization server answered: '%.80s'",
                issuer != NULL ? issuer : "without its issuer");
        end(l, &why);
        return;
    }
    if (code == NULL) {
        end(l, e);
        return;
    }
    oauth__add(&form, "grant_type", "authorization_code");
    oauth__add(&form, "code", code);
    oauth__add(&form, "redirect_uri", l->redirect);
    oauth__add(&form, "code_verifier", l->verifier);
    oauth__add(&form, "resource", l->resource);
    if (!is_safe(l, l->endpoint)) {
        fail(l, "the token endpoint is no https address that this login may use");
    } else if (oauth__ask_token(&call, l->http, &l->token, &form, &cb, l, &why) < 0) {
        end(l, &why);
    }
    buf_fini(&form);
}

// ---- the user ---------------------------------------------------------------------------------------

static void make_secret(char out[SECRET_TEXT])
{
    uint8_t bytes[SECRET_BYTES];
    struct buf text = {.max = SECRET_TEXT};
    random_bytes(bytes, sizeof bytes);
    base64_encode_url(&text, (struct str){(const char *)bytes, sizeof bytes});
    snprintf(out, SECRET_TEXT, "%s", buf_z(&text));
    buf_fini(&text);
}

static void send_to_browser(struct oauth_login *l)
{
    struct buf address = {.max = SIZE_MAX}, challenge = {.max = SIZE_MAX};
    uint8_t digest[SHA256_SIZE];
    sha256_of(str_of(l->verifier), digest);
    base64_encode_url(&challenge, (struct str){(const char *)digest, sizeof digest});
    buf_addz(&address, l->authorize);
    buf_addz(&address, strchr(l->authorize, '?') != NULL ? "" : "?");
    oauth__add(&address, "response_type", "code");
    oauth__add(&address, "client_id", l->token.client_id);
    oauth__add(&address, "redirect_uri", l->redirect);
    oauth__add(&address, "code_challenge", buf_z(&challenge));
    oauth__add(&address, "code_challenge_method", "S256");
    oauth__add(&address, "state", l->state);
    oauth__add(&address, "resource", l->resource);
    if (l->scope != NULL) {
        oauth__add(&address, "scope", l->scope);
    }
    l->show(l->arg, buf_z(&address));
    buf_fini(&address);
    buf_fini(&challenge);
}

static const char *text_of(struct oauth_login *l, const struct json *v, const char *key)
{
    struct str s = json_str(json_get(v, key), "");
    return s.n != 0 && memchr(s.p, '\0', s.n) == NULL ? arena_strdup(&l->arena, s) : NULL;
}

static void on_registered(struct oauth_login *l, int status, const struct json *v)
{
    const char *id = text_of(l, v, "client_id"), *secret = text_of(l, v, "client_secret");
    if (status / 100 != 2 || id == NULL) {
        struct err e;
        err_set(&e, ERR_DENIED, "the authorization server registered no client (status %d)",
                status);
        end(l, &e);
        return;
    }
    l->token.client_id = xstrdup(id);
    l->token.client_secret = secret != NULL ? xstrdup(secret) : NULL;
    const char *method = text_of(l, v, "token_endpoint_auth_method");
    l->token.basic = strcmp(method != NULL ? method : l->method, "client_secret_basic") == 0;
    l->token.endpoint = xstrdup(l->endpoint);
    l->token.resource = xstrdup(l->resource);
    send_to_browser(l);
}

static void register_client(struct oauth_login *l)
{
    struct buf body = {.max = SIZE_MAX};
    struct err e = {0};
    make_secret(l->state);
    make_secret(l->verifier);
    if (oauth__callback_open(&l->callback, l->loop, l->state, on_back, l, &e) < 0) {
        end(l, &e);
        return;
    }
    l->redirect =
        arena_printf(&l->arena, "http://127.0.0.1:%d/callback", oauth__callback_port(l->callback));
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstrz(&w, "client_name", "Afloat");
    jw_kstrz(&w, "application_type", "native");
    jw_karr(&w, "redirect_uris");
    jw_strz(&w, l->redirect);
    jw_end_arr(&w);
    jw_key(&w, "grant_types");
    jw_raw(&w, STR("[\"authorization_code\",\"refresh_token\"]"));
    jw_key(&w, "response_types");
    jw_raw(&w, STR("[\"code\"]"));
    jw_kstrz(&w, "token_endpoint_auth_method", l->method);
    jw_end_obj(&w);
    ask(l, "POST", l->registration, "application/json", buf_str(&body), &json_cb, on_registered);
    buf_fini(&body);
}

// ---- the authorization server -------------------------------------------------------------------------------

static bool has_s256(const struct json *v)
{
    const struct json *list = json_get(v, "code_challenge_methods_supported");
    bool found = list == NULL; // not said: every server of OAuth 2.1 has it
    json_foreach_item (it, list) {
        found = found || str_eqz(json_str(it, ""), "S256");
    }
    return found;
}

/// The first of ours that the authorization server knows.
static const char *method_of(const struct json *v)
{
    static const char *const ours[] = {"none", "client_secret_post", "client_secret_basic"};
    const struct json *list = json_get(v, "token_endpoint_auth_methods_supported");
    for (size_t i = 0; list != NULL && i < ARRAY_LEN(ours); i++) {
        json_foreach_item (it, list) {
            if (str_eqz(json_str(it, ""), ours[i])) {
                return ours[i];
            }
        }
    }
    return ours[0];
}

static void on_server(struct oauth_login *l, int status, const struct json *v)
{
    bool found = status / 100 == 2 && json_get(v, "token_endpoint") != NULL;
    const char *origin, *path;
    if (!found && l->places[++l->at] != NULL) {
        look(l, on_server);
        return;
    }
    struct str named = json_get_text(v, "issuer");
    if (found && named.n != 0 && !str_eqz(named, l->issuer)) {
        fail(l, "the authorization server's document names another issuer");
        return;
    }
    l->method = method_of(v);
    l->names_itself =
        json_bool(json_get(v, "authorization_response_iss_parameter_supported"), false);
    split(l, l->issuer, &origin, &path);
    l->authorize = found ? text_of(l, v, "authorization_endpoint")
                         : arena_printf(&l->arena, "%s/authorize", origin);
    l->endpoint =
        found ? text_of(l, v, "token_endpoint") : arena_printf(&l->arena, "%s/token", origin);
    l->registration = found ? text_of(l, v, "registration_endpoint")
                            : arena_printf(&l->arena, "%s/register", origin);
    if (l->authorize == NULL || l->endpoint == NULL || !is_safe(l, l->authorize)) {
        fail(l, "the authorization server names no https addresses to log in at");
    } else if (!has_s256(v)) {
        fail(l, "the authorization server has no PKCE with S256");
    } else if (l->registration == NULL) {
        fail(l,
             "the authorization server registers no clients by itself; get a token from it and set "
             "'headers' instead");
    } else {
        register_client(l);
    }
}

static void find_server(struct oauth_login *l, const char *issuer)
{
    const char *origin, *path;
    l->issuer = issuer;
    split(l, issuer, &origin, &path);
    l->at = 0;
    l->places[0] =
        arena_printf(&l->arena, "%s/.well-known/oauth-authorization-server%s", origin, path);
    l->places[1] = arena_printf(&l->arena, "%s/.well-known/openid-configuration%s", origin, path);
    l->places[2] = arena_printf(&l->arena, "%s%s/.well-known/openid-configuration", origin, path);
    l->places[3] = NULL;
    look(l, on_server);
}

static void on_resource(struct oauth_login *l, int status, const struct json *v)
{
    const struct json *first = json_at(json_get(v, "authorization_servers"), 0);
    struct str issuer = json_str(first, "");
    const char *origin, *path;
    struct buf scope = {.max = 4096};
    if ((status / 100 != 2 || issuer.n == 0) && l->places[++l->at] != NULL) {
        look(l, on_resource);
        return;
    }
    const char *itself = text_of(l, v, "resource");
    if (itself != NULL && !oauth_is_for(itself, l->url)) {
        fail(l, "the server's document names another resource");
        return;
    }
    l->resource = itself != NULL ? itself : l->url;
    json_foreach_item (it, l->scope == NULL ? json_get(v, "scopes_supported") : NULL) {
        struct str one = json_str(it, "");
        buf_addf(&scope, "%s" STR_FMT, scope.n != 0 ? " " : "", STR_ARG(one));
    }
    l->scope = scope.n != 0 ? arena_strdup(&l->arena, buf_str(&scope)) : l->scope;
    buf_fini(&scope);
    split(l, l->url, &origin, &path);
    find_server(l, issuer.n != 0 ? arena_strdup(&l->arena, issuer) : origin);
}

/// The value of NAME="..." in a WWW-Authenticate header; NULL: none.
static const char *challenge_of(struct oauth_login *l, struct str header, const char *name)
{
    char *text = arena_strdup(&l->arena, header);
    char *at = strcasestr(text, name);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(name);
    bool quoted = *at == '"';
    at += quoted;
    at[strcspn(at, quoted ? "\"" : ", ")] = '\0';
    return *at != '\0' ? at : NULL;
}

static void on_refused(struct http_call *call, int rc, const struct http_reply *reply,
                       const struct err *e, void *arg)
{
    struct oauth_login *l = arg;
    const char *origin, *path;
    size_t n = 0;
    (void)call;
    if (rc < 0) {
        end(l, e);
        return;
    }
    if (reply->status / 100 == 2) {
        fail(l, "the server needs no login");
        return;
    }
    struct str challenge = http_reply_get(reply, "www-authenticate");
    const char *named = challenge_of(l, challenge, "resource_metadata=");
    l->scope = challenge_of(l, challenge, "scope=");
    split(l, l->url, &origin, &path);
    if (named != NULL && is_safe(l, named)) {
        l->places[n++] = named;
    }
    l->places[n++] =
        arena_printf(&l->arena, "%s/.well-known/oauth-protected-resource%s", origin, path);
    l->places[n++] = arena_printf(&l->arena, "%s/.well-known/oauth-protected-resource", origin);
    l->places[n] = NULL;
    l->at = 0;
    look(l, on_resource);
}

struct oauth_login *oauth_login(const struct oauth_opts *o)
{
    static const struct http_cb cb = {.on_done = on_refused};
    struct oauth_login *l = xcalloc(1, sizeof *l);
    l->loop = o->loop;
    l->http = o->http;
    l->show = o->show;
    l->done = o->done;
    l->arg = o->arg;
    l->url = arena_strdup(&l->arena, str_of(o->url));
    ask(l, "POST", l->url, "application/json",
        STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
            "\"protocolVersion\":"
            "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"afloat\",\"version\":"
            "\"1\"}}}"),
        &cb, NULL);
    return l;
}
