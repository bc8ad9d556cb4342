// The plain page at `/`, and the page for those who may not see it. No scripts, nothing from
// elsewhere, and a policy that forbids both.

#include <inttypes.h>

#include "server/server_int.h"

const char page__headers[] =
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

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

void page__write(struct buf *out, const struct server *s)
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

void page__write_refused(struct buf *out, const struct refusal *no)
{
    buf_addz(out, top);
    buf_addz(out, "<p>");
    add_text(out, no->detail);
    buf_addz(out, "</p>\n<p>Run <code>afloat open</code> in a terminal: it prints an address that "
                  "lets this browser in.</p>\n</body></html>\n");
}
