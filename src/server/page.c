// The page at `/` with its files, and the page for browsers that may not see it.
//
// npm builds the web page, and tools/embed_web.py puts it into the binary. Its files are below /assets/, with names that
// change with their content, so a browser keeps them forever. A browser must not keep the HTML itself: each answer has its
// own nonce, which the policy requires on every inline script and style. The page loads nothing from other servers and
// sends nothing to them.
//
// A hub that was built without it serves a plain page without scripts.

#include <inttypes.h>

#include "server/server_int.h"

// of every page, whatever its content policy
#define SEPARATE                                                                                   \
    "X-Frame-Options: DENY\r\n"                                                                    \
    "Referrer-Policy: no-referrer\r\n"                                                             \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                  \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

const char page__headers[] =
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n" SEPARATE;

static const char top[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Afloat</title>\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em;"
    "color-scheme:light dark}code{font-family:ui-monospace,monospace}</style></head>\n"
    "<body><h1>Afloat</h1>\n";

static void add_text(struct buf *out, const char *z)
{
    for (; *z != '\0'; z++) {
        switch (*z) {
        case '<': buf_addz(out, "&lt;"); break;
        case '>': buf_addz(out, "&gt;"); break;
        case '&': buf_addz(out, "&amp;"); break;
        case '"': buf_addz(out, "&quot;"); break;
        default: buf_addc(out, *z);
        }
    }
}

static void add_plugin(void *arg, const char *name, const char *state, const char *error)
{
    struct buf *out = arg;
    buf_addz(out, "<li><code>");
    add_text(out, name);
    buf_addz(out, "</code> ");
    add_text(out, state);
    if (error != NULL) {
        buf_addz(out, ": ");
        add_text(out, error);
    }
    buf_addz(out, "</li>\n");
}

static void write_plain(struct buf *out, const struct server *s)
{
    buf_addz(out, top);
    buf_addz(out, "<p>The hub is running.</p>\n<ul>\n<li>version <code>");
    add_text(out, s->version);
    buf_addf(out, "</code></li>\n<li>generation <code>%" PRId64 "</code></li>\n",
             api_generation(s->api));
    buf_addf(out, "<li>up for <code>%.0f s</code></li>\n</ul>\n", api_uptime_s(s->api));
    buf_addz(out, "<h2>Plugins</h2>\n<ul>\n");
    api_list_plugins(s->api, add_plugin, out);
    buf_addz(out,
             "</ul>\n<p><a href=\"/openapi.json\">openapi.json</a> describes what it can do.</p>\n"
             "</body></html>\n");
}

// The policy of the web page: scripts and styles from here or with the nonce, connections to here.
static void add_policy(struct buf *out, const char *nonce)
{
    buf_addf(out,
             "Content-Security-Policy: default-src 'none'; script-src 'self' 'nonce-%s'; "
             "style-src 'self' 'nonce-%s'; img-src 'self' data: blob:; font-src 'self' data:; "
             "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'\r\n" SEPARATE,
             nonce, nonce);
}

static void add_front(void *arg, const char *url)
{
    struct buf *out = arg;
    buf_addz(out, "<link rel=\"modulepreload\" fetchpriority=\"low\" href=\"");
    add_text(out, url);
    buf_addz(out, "\">\n");
}

// The page names the modules of plugins, so that a browser loads them with it and need not ask for the list first.
// The list is data in a script element: the characters that could end that element are escaped.
static void add_fronts(struct buf *out, const struct server *s)
{
    struct buf list = {.max = SIZE_MAX};
    struct jw w = {.out = &list};
    api_list_fronts(s->api, add_front, out);
    api_write_fronts(s->api, &w);
    buf_addz(out, "<script type=\"application/json\" id=\"fronts\">");
    for (size_t i = 0; i < list.n; i++) {
        if (list.p[i] == '<') {
            buf_addz(out, "\\u003c");
        } else {
            buf_addc(out, list.p[i]);
        }
    }
    buf_addz(out, "</script>");
    buf_fini(&list);
}

static void add_html(struct buf *out, const struct server *s, const char *nonce)
{
    const struct {
        const char *mark, *text; // NULL: the modules of plugins
    } fills[] = {{"%NONCE%", nonce},
                 {"%DIR%", s->start_dir != NULL ? s->start_dir : ""},
                 {"%FRONTS%", NULL}};
    for (const char *p = s->page->html; *p != '\0';) {
        size_t i = 0;
        while (i < ARRAY_LEN(fills) && strncmp(p, fills[i].mark, strlen(fills[i].mark)) != 0) {
            i++;
        }
        if (i == ARRAY_LEN(fills)) {
            buf_addc(out, *p++);
        } else {
            if (fills[i].text != NULL) {
                add_text(out, fills[i].text);
            } else {
                add_fronts(out, s);
            }
            p += strlen(fills[i].mark);
        }
    }
}

void page__answer(struct conn *c, struct call *r)
{
    const struct server_page *page = c->server->page;
    bool built = page != NULL && page->html[0] != '\0';
    char nonce[SECRET_TEXT];
    struct buf body = {.max = SIZE_MAX}, headers = {.max = 4096};
    if (built) {
        auth__random(nonce);
        add_html(&body, c->server, nonce);
        add_policy(&headers, nonce);
    } else {
        write_plain(&body, c->server);
        buf_addz(&headers, page__headers);
    }
    struct reply reply = {.status = 200,
                          .type = "text/html; charset=utf-8",
                          .body = buf_str(&body),
                          .headers = buf_z(&headers)};
    call__reply(r, &reply);
    buf_fini(&body);
    buf_fini(&headers);
}

const struct server_asset *page__asset(const struct server *s, struct str path)
{
    if (s->page == NULL || !str_starts(path, "/assets/")) {
        return NULL;
    }
    struct str name = str_from(path, 8);
    for (const struct server_asset *a = s->page->assets; a->name != NULL; a++) {
        if (str_eqz(name, a->name)) {
            return a;
        }
    }
    return NULL;
}

// Does a list such as "gzip, br;q=0.5" offer `coding`? With q=0 it does not.
static bool accepts(struct str list, const char *coding)
{
    while (list.n != 0) {
        struct str q = str_cut(&list, ',');
        struct str name = str_trim(str_cut(&q, ';'));
        q = str_trim(q);
        if (str_caseeqz(name, coding)) {
            return !str_eqz(q, "q=0") && !str_starts(q, "q=0.0");
        }
    }
    return false;
}

void page__answer_asset(struct conn *c, struct call *r)
{
    (void)c;
    const struct server_asset *a = r->asked.asset;
    const struct {
        const char *name;
        struct str body;
    } codings[] = {{"br", a->brotli}, {"gzip", a->gzip}, {"identity", a->body}};
    size_t i = 0;
    while (i < 2 && !accepts(r->asked.fields.accept_encoding, codings[i].name)) {
        i++;
    }
    char etag[80], headers[320];
    snprintf(etag, sizeof etag, "\"%s-%s\"", a->etag, codings[i].name);
    snprintf(headers, sizeof headers,
             "Cache-Control: private, max-age=31536000, immutable\r\nVary: Accept-Encoding\r\n"
             "ETag: %s\r\nCross-Origin-Resource-Policy: same-origin\r\n%s%s%s",
             etag, i < 2 ? "Content-Encoding: " : "", i < 2 ? codings[i].name : "",
             i < 2 ? "\r\n" : "");
    bool same = str_eqz(r->asked.fields.if_none_match, etag);
    struct reply reply = {.status = same ? 304 : 200,
                          .type = same ? NULL : a->type,
                          .body = codings[i].body,
                          .headers = headers,
                          .caches = true};
    call__reply(r, &reply);
}

void page__write_refused(struct buf *out, const struct refusal *no)
{
    buf_addz(out, top);
    buf_addz(out, "<p>");
    add_text(out, no->detail);
    buf_addz(out, "</p>\n<p>Run <code>afloat open</code> in a terminal: it prints an address that "
                  "lets this browser in.</p>\n</body></html>\n");
}
