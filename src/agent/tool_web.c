// The tool `web_fetch`: a page of the web as text that a model can read.
//
//     start ──> http (loop) ──> on_answer ──> convert (lane) ──> output over 32 KB: a file ──> the result
//
// The hub sends the request, not a process in the sandbox, so the limits are here. permission.c decides whether
// the call runs at all (TOOL_REACHES). A redirect to another host is not followed, so an allowed host does not
// lead to another one. Addresses of this machine and its networks are refused when curl is about to connect to
// them (net/http_request.c), whatever name led there, unless [web_fetch] private allows them.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/tool_int.h"
#include "base/html.h"
#include "base/utf8.h"
#include "net/http_client.h"

enum { TIMEOUT_MS = 30 * 1000, BODY_MAX = 5 << 20 };

/// One page being fetched. It belongs to the call; while the lane converts it, the lane alone uses it.
struct fetch {
    struct tool_call *call;
    struct agent *agent;
    struct http_call *http; // NULL: it has ended
    char *type;             // Content-Type
    struct buf body;        // the answer, then the text
    struct tool_output *output;
    struct arena arena;
    const char *error; // NULL: none
};

/// Free it: the call has its result, or was cancelled.
static void release(struct fetch *f)
{
    struct agent *a = f->agent;
    assert(f->http == NULL);
    if (f->output != NULL) {
        tool_output_free(f->output);
    }
    free(f->type);
    buf_fini(&f->body);
    arena_fini(&f->arena);
    free(f);
    agent__release(a);
}

static void finish(struct fetch *f, struct str text)
{
    struct tool_call *c = f->call;
    assert(c->fetch == f);
    c->fetch = NULL;
    tool_call_finish(c, text, f->error);
    release(f);
}

// ---- from an answer to text ---------------------------------------------------------------------

enum kind { KIND_HTML, KIND_TEXT, KIND_OTHER };

/// What the Content-Type says, without its parameters.
static enum kind kind_of(struct str type, struct str body)
{
    static const char *const texts[] = {
        "application/json",   "application/xml",    "application/javascript", "application/yaml",
        "application/x-yaml", "application/toml",   "application/x-sh",       "application/sql",
        "image/svg+xml",      "application/graphql"};
    struct str rest = type;
    char *name = tool__lower(str_trim(str_cut(&rest, ';')));
    struct str s = str_of(name);
    enum kind kind = str_eqz(s, "text/html") || str_eqz(s, "application/xhtml+xml") ? KIND_HTML
                     : str_starts(s, "text/") || str_ends(s, "+json") || str_ends(s, "+xml") ||
                             str_lookup(s, texts, ARRAY_LEN(texts)) >= 0
                         ? KIND_TEXT
                     : s.n == 0 && utf8_valid(body) && str_index(body, '\0') < 0 ? KIND_TEXT
                                                                                 : KIND_OTHER;
    free(name);
    return kind;
}

static void from_latin(struct buf *out, struct str bytes)
{
    static const uint16_t upper[32] = {
        // of windows-1252, which browsers read for both
        0x20AC, 0xFFFD, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
        0x2039, 0x0152, 0xFFFD, 0x017D, 0xFFFD, 0xFFFD, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
        0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0xFFFD, 0x017E, 0x0178};
    for (size_t i = 0; i < bytes.n; i++) {
        unsigned char c = (unsigned char)bytes.p[i];
        char utf8[4];
        buf_add(out, utf8, utf8_encode(c >= 0x80 && c < 0xA0 ? upper[c - 0x80] : c, utf8));
    }
}

static void convert(void *arg) // on a lane
{
    struct fetch *f = arg;
    struct buf clean = {.max = SIZE_MAX}, text = {.max = SIZE_MAX};
    struct url page;
    enum kind kind = kind_of(str_of(f->type), buf_str(&f->body));
    if (kind == KIND_OTHER) {
        f->error = arena_printf(&f->arena, "the answer is %.80s, %zu bytes: only text can be read",
                                f->type[0] != '\0' ? f->type : "of no known type", f->body.n);
        buf_clear(&f->body);
    }
    // older servers send Latin-1 and name it; everything else is read as UTF-8
    if (strcasestr(f->type, "iso-8859-1") != NULL || strcasestr(f->type, "windows-1252") != NULL ||
        strcasestr(f->type, "latin1") != NULL) {
        from_latin(&clean, buf_str(&f->body));
    } else {
        tool_output_clean(&clean, buf_str(&f->body));
    }
    if (kind == KIND_HTML) {
        bool known = url_parse(&page, json_get_text(tool_call_input(f->call), "url"));
        html_to_markdown(&text, buf_str(&clean), known ? &page : NULL);
        buf_fini(&clean);
    } else {
        text = clean;
    }
    buf_fini(&f->body);
    f->body = text;
}

static void on_written(void *arg)
{
    struct fetch *f = arg;
    struct buf text = {.max = SIZE_MAX};
    tool_output_text(f->output, &text);
    finish(f, buf_str(&text));
    buf_fini(&text);
}

static void on_room(void *arg)
{
    (void)arg; // the whole text was added at once
}

static void on_converted(void *arg)
{
    struct fetch *f = arg;
    char *dir = tool_call__outputs_dir(f->call->site);
    f->output = tool_output_new(f->agent->tools, tool__output_path(&f->arena, dir, f->call->id),
                                on_room, f);
    (void)tool_output_add(f->output, buf_str(&f->body));
    free(dir);
    tool_output_end(f->output, on_written, f);
}

// ---- the request --------------------------------------------------------------------------------

static void on_answer(struct http_call *http, int rc, const struct http_reply *r,
                      const struct err *e, void *arg)
{
    struct fetch *f = arg;
    struct str to = r->status >= 300 && r->status < 400 ? http_reply_get(r, "location") : STR_NULL;
    struct str coding = http_reply_get(r, "content-encoding");
    bool coded = coding.n != 0 && !str_caseeqz(coding, "identity");
    (void)http;
    f->http = NULL;
    if (rc < 0) {
        f->error = arena_printf(&f->arena, "%s%s", e->msg,
                                rc == ERR_TOO_LARGE ? " (web_fetch reads up to 5 MiB)"
                                : rc == ERR_DENIED && strstr(e->msg, "its address") != NULL
                                    ? " ([web_fetch] private = true allows that)"
                                    : "");
    } else if (to.n != 0) {
        f->error =
            arena_printf(&f->arena, "it redirects to another host: fetch " STR_FMT " instead",
                         (int)MIN(to.n, (size_t)1000), to.p);
    } else if (coded) {
        f->error = arena_printf(
            &f->arena, "the server compressed its answer (" STR_FMT "), which was not asked for",
            (int)MIN(coding.n, (size_t)40), coding.p);
    } else if (r->status >= 400) {
        f->error = arena_printf(&f->arena, "the server answered with status %d", r->status);
    }
    if (rc < 0 || to.n != 0 || coded) {
        finish(f, STR(""));
        return;
    }
    f->type = str_dup(http_reply_get(r, "content-type"));
    buf_adds(&f->body, r->body);
    work_submit(f->agent->tools, 0, convert, on_converted, f);
}

static void start(struct tool_call *c)
{
    static const struct http_cb callbacks = {.on_done = on_answer};
    const struct http_header accept = {
        STR("Accept"),
        STR("text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1")};
    struct agent *a = c->site->agent;
    struct str address = json_get_text(tool_call_input(c), "url");
    bool private = config_bool(a->o.hub->config->now, "web_fetch.private");
    struct http_request q = {.url = arena_strdup(c->site->arena, address),
                             .headers = &accept,
                             .n_headers = 1,
                             .timeout_ms = TIMEOUT_MS,
                             .max_body = BODY_MAX,
                             .follow_redirects = true,
                             .same_host = true,
                             .public_only = !private};
    struct url u;
    struct err e = {0};
    if (!url_parse(&u, address)) {
        tool_call_finish(c, STR(""),
                         "'url' must be a plain http:// or https:// address, without a user name");
        return;
    }
    struct fetch *f = xcalloc(1, sizeof *f);
    *f = (struct fetch){.call = c, .agent = a};
    buf_init(&f->body, SIZE_MAX);
    agent__hold(a);
    c->fetch = f;
    assert(a->o.http != NULL);
    if (http_client_send(&f->http, a->o.http, &q, &callbacks, f, &e) < 0) {
        f->http = NULL;
        f->error = arena_strdup(&f->arena, str_of(e.msg));
        finish(f, STR(""));
    }
}

static bool cancel(struct tool_call *c)
{
    struct fetch *f = c->fetch;
    if (f != NULL && f->http != NULL) {
        http_client_cancel(f->http);
        f->http = NULL;
        c->fetch = NULL;
        release(f);
    }
    return c->fetch == NULL;
}

const struct tool_ops tool_WEB_FETCH = {.start = start, .cancel = cancel, .weight = 1};
