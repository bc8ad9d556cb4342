// Tokens: kept as a secret, asked for, renewed.

#include <assert.h>

#include "base/base64.h"
#include "base/time.h"
#include "base/url.h"
#include "net/http_client.h"
#include "oauth/oauth_int.h"

enum { EARLY_S = 30 }; // a token that ends so soon counts as ended

static char *text_or_null(const struct json *v, const char *key)
{
    const struct json *m = json_get(v, key);
    return m != NULL && m->type == JSON_STR ? str_dup(m->s) : NULL;
}

int oauth_token_read(struct oauth_token *t, struct str text, struct err *e)
{
    struct arena a = {0};
    struct json *v = NULL;
    int rc = json_parse(&v, &a, text, NULL, NULL);
    *t = (struct oauth_token){.access = text_or_null(v, "access_token"),
                              .refresh = text_or_null(v, "refresh_token"),
                              .endpoint = text_or_null(v, "token_endpoint"),
                              .client_id = text_or_null(v, "client_id"),
                              .client_secret = text_or_null(v, "client_secret"),
                              .resource = text_or_null(v, "resource"),
                              .basic = json_bool(json_get(v, "basic"), false),
                              .expires_at = json_int(json_get(v, "expires_at"), 0)};
    arena_fini(&a);
    if (rc < 0 || t->access == NULL || t->endpoint == NULL || t->client_id == NULL ||
        t->resource == NULL) {
        return err_set(e, ERR_INVALID, "the kept login is damaged; log in again");
    }
    return 0;
}

void oauth_token_write(const struct oauth_token *t, struct buf *out)
{
    const struct {
        const char *key, *value;
    } members[] = {{"access_token", t->access},         {"refresh_token", t->refresh},
                   {"token_endpoint", t->endpoint},     {"client_id", t->client_id},
                   {"client_secret", t->client_secret}, {"resource", t->resource}};
    struct jw w = {.out = out};
    jw_obj(&w);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        if (members[i].value != NULL) {
            jw_kstrz(&w, members[i].key, members[i].value);
        }
    }
    jw_kbool(&w, "basic", t->basic);
    jw_kint(&w, "expires_at", t->expires_at);
    jw_end_obj(&w);
}

static void wipe(char *z)
{
    if (z != NULL) {
        explicit_bzero(z, strlen(z));
        free(z);
    }
}

void oauth_token_fini(struct oauth_token *t)
{
    wipe(t->access);
    wipe(t->refresh);
    wipe(t->client_secret);
    free(t->endpoint);
    free(t->client_id);
    free(t->resource);
    *t = (struct oauth_token){0};
}

bool oauth_is_for(const char *resource, const char *url)
{
    const char *scheme = strstr(resource, "://");
    size_t n = strlen(resource);
    bool whole = scheme != NULL && scheme[3] != '\0' && scheme[3] != '/';
    n -= n != 0 && resource[n - 1] == '/';
    return whole && strncmp(resource, url, n) == 0 &&
           (url[n] == '\0' || url[n] == '/' || url[n] == '?');
}

char *oauth_secret_name(const char *server)
{
    char *name = xasprintf("mcp.%s", server);
    for (char *p = name; *p != '\0'; p++) {
        bool ok = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                  (*p >= '0' && *p <= '9') || *p == '_' || *p == '-' || *p == '.';
        *p = ok ? *p : '_';
    }
    return name;
}

// ---- forms --------------------------------------------------------------------------------------

void oauth__add(struct buf *out, const char *key, const char *value)
{
    assert(key[0] != '\0' && value != NULL);
    buf_addf(out, "%s%s=", out->n != 0 && out->p[out->n - 1] != '?' ? "&" : "", key);
    url_encode(out, str_of(value));
}

/// "Basic ID:SECRET", both encoded as in a form first.
static void write_basic(struct buf *out, const struct oauth_token *t)
{
    struct buf both = {.max = SIZE_MAX};
    url_encode(&both, str_of(t->client_id));
    buf_addc(&both, ':');
    url_encode(&both, str_of(t->client_secret));
    buf_addz(out, "Basic ");
    base64_encode(out, buf_str(&both));
    explicit_bzero(both.p, both.n);
    buf_fini(&both);
}

int oauth__ask_token(struct http_call **call, struct http_client *http, const struct oauth_token *t,
                     struct buf *form, const struct http_cb *cb, void *arg, struct err *e)
{
    struct buf basic = {.max = SIZE_MAX};
    bool header = t->basic && t->client_secret != NULL;
    if (header) {
        write_basic(&basic, t);
    } else {
        oauth__add(form, "client_id", t->client_id);
    }
    if (!header && t->client_secret != NULL) {
        oauth__add(form, "client_secret", t->client_secret);
    }
    struct http_header headers[] = {{STR("Content-Type"), STR("application/x-www-form-urlencoded")},
                                    {STR("Accept"), STR("application/json")},
                                    {STR("Authorization"), buf_str(&basic)}};
    struct http_request q = {.method = "POST",
                             .url = t->endpoint,
                             .headers = headers,
                             .n_headers = header ? 3 : 2,
                             .body = buf_str(form),
                             .timeout_ms = OAUTH_HTTP_MS};
    int rc = http_client_send(call, http, &q, cb, arg, e);
    buf_fini(&basic);
    return rc;
}

int oauth__take(struct oauth_token *t, int status, struct str body, struct err *e)
{
    struct arena a = {0};
    struct json *v = NULL;
    (void)!json_parse(&v, &a, body, NULL, NULL);
    struct str access = json_get_text(v, "access_token");
    struct str type = json_str(json_get(v, "token_type"), "bearer");
    int64_t seconds = json_int(json_get(v, "expires_in"), 0);
    bool plain = access.n != 0 && str_caseeqz(type, "bearer");
    int rc = 0;
    for (size_t i = 0; plain && i < access.n; i++) { // it becomes a header
        plain = access.p[i] > ' ' && access.p[i] < 0x7F;
    }
    if (status / 100 != 2 || !plain) {
        struct str why = json_get_text(v, "error");
        rc = err_set(e, ERR_DENIED, "the authorization server gave no token (status %d%s%.*s)",
                     status, why.n != 0 ? ": " : "", (int)MIN(why.n, (size_t)80), why.p);
    } else {
        char *fresh = text_or_null(v, "refresh_token");
        wipe(t->access);
        t->access = str_dup(access);
        if (fresh != NULL) { // without one the old one stays good
            wipe(t->refresh);
            t->refresh = fresh;
        }
        t->expires_at = seconds > 0 ? time_wall_ms() / 1000 + seconds - EARLY_S : 0;
    }
    arena_fini(&a);
    return rc;
}

// ---- renewing -----------------------------------------------------------------------------------

struct oauth_renewal {
    struct oauth_token token;
    struct err why;
    struct loop *loop;
    struct http_call *call; // NULL: it is over
    struct loop_task *task; // reports that it could not begin
    oauth_cb *done;
    void *arg;
};

static void renewal_free(struct oauth_renewal *r)
{
    oauth_token_fini(&r->token);
    free(r);
}

static void end_renewal(void *arg)
{
    struct oauth_renewal *r = arg;
    r->done(r->arg, r->why.code == 0 ? &r->token : NULL, &r->why);
    renewal_free(r);
}

void oauth_renew_cancel(struct oauth_renewal *r)
{
    if (r->call != NULL) {
        http_client_cancel(r->call);
    }
    if (r->task != NULL) {
        loop_cancel(r->loop, r->task);
    }
    renewal_free(r);
}

static void on_renewed(struct http_call *call, int rc, const struct http_reply *reply,
                       const struct err *e, void *arg)
{
    struct oauth_renewal *r = arg;
    (void)call;
    if (rc < 0) {
        r->why = *e;
    } else {
        r->why.code = oauth__take(&r->token, reply->status, reply->body, &r->why);
    }
    end_renewal(r);
}

struct oauth_renewal *oauth_renew(struct http_client *http, struct loop *loop,
                                  const struct oauth_token *t, oauth_cb *done, void *arg)
{
    static const struct http_cb cb = {.on_done = on_renewed};
    struct oauth_renewal *r = xcalloc(1, sizeof *r);
    struct buf copy = {.max = SIZE_MAX}, form = {.max = SIZE_MAX};
    r->loop = loop;
    r->done = done;
    r->arg = arg;
    oauth_token_write(t, &copy);
    int rc = oauth_token_read(&r->token, buf_str(&copy), &r->why);
    if (rc == 0 && t->refresh == NULL) {
        rc = err_set(&r->why, ERR_DENIED, "the login has ended");
    }
    if (rc == 0) {
        oauth__add(&form, "grant_type", "refresh_token");
        oauth__add(&form, "refresh_token", t->refresh);
        oauth__add(&form, "resource", t->resource);
        rc = oauth__ask_token(&r->call, http, t, &form, &cb, r, &r->why);
    }
    if (rc < 0) {
        r->why.code = rc;
        r->task = loop_defer(loop, end_renewal, r);
    }
    explicit_bzero(copy.p, copy.n);
    buf_fini(&copy);
    buf_fini(&form);
    return r;
}
