// ANY /api/plugins/NAME/...: requests that a plugin answers.
//
//     admitted head, whole body ── unit of the current generation, pinned ── its route ── the handler
//         ┄┄> status, headers, body ── checked ── reply          (a peer that leaves cancels it)
//
// The handler gets the request as it is in the connection's buffers; only header names that are not in
// lower case are copied. Its answer is not trusted: an invalid status, or a header that would break the
// framing or speak for the hub, makes the answer a failure of the plugin. The handler does not see the
// hub's own secrets (the token, the cookie).

#include "gen/route.h"

#include "api/api.h"
#include "gen/engine.h"
#include "server/server_int.h"

#define PREFIX "/api/plugins/"

struct plugin_call {
    struct gen_route_call route;
    struct gen *gen; // pinned
    struct gen_item *item;
    struct call *call;
};

// ---- the answer ------------------------------------------------------------------------------

/// Headers that are ours to send, or would let a plugin speak for the hub.
static bool is_ours(struct str name)
{
    static const char *const ours[] = {
        "connection",        "content-length",   "date",
        "keep-alive",        "proxy-connection", "te",
        "trailer",           "upgrade",          "server",
        "transfer-encoding", "afloat-build",     "x-content-type-options",
    };
    bool found = name.n > 15 && strncasecmp(name.p, "access-control-", 15) == 0;
    for (size_t i = 0; i < ARRAY_LEN(ours) && !found; i++) {
        found = str_caseeqz(name, ours[i]);
    }
    return found;
}

/// The handler's headers as lines; NULL, or what is wrong with one of them.
static const char *add_headers(struct buf *out, const struct gen_pair *h, size_t n,
                               struct reply *reply)
{
    bool typed = false;
    for (size_t i = 0; i < n; i++) {
        struct str name = h[i].name, value = h[i].value;
        if (!http1_is_token(name) || !http1_is_value(value)) {
            return "it answered with a malformed header";
        }
        // a plugin that could set our cookie could log people out, or in as another
        bool cookie = str_caseeqz(name, "set-cookie") && str_starts(str_trim(value), "afloat=");
        if (cookie || is_ours(name)) {
            return "it answered with a header that only the hub may send";
        }
        typed = typed || str_caseeqz(name, "content-type");
        reply->caches = reply->caches || str_caseeqz(name, "cache-control");
        buf_adds(out, name);
        buf_adds(out, STR(": "));
        buf_adds(out, value);
        buf_adds(out, STR("\r\n"));
    }
    if (!typed && reply->body.n != 0) {
        buf_adds(out, STR("Content-Type: text/plain; charset=utf-8\r\n"));
    }
    return NULL;
}

static void refuse(struct call *r, enum problem p, const char *text)
{
    struct refusal no = {0};
    request__refuse(&no, p, "%s", text);
    http__refuse(r->conn, &no, r->keep); // ends the call
}

static void fail(struct plugin_call *pc, enum problem p, const char *text)
{
    char detail[300];
    snprintf(detail, sizeof detail, "%s %s: %s", gen_item_unit(pc->item)->name,
             gen_item_name(pc->item), text);
    refuse(pc->call, p, detail);
}

static void send_answer(struct plugin_call *pc, int status, const struct gen_pair *headers,
                        size_t n, struct str body)
{
    struct call *r = pc->call;
    struct buf lines = {.max = 256 * 1024};
    struct reply reply = {.status = status, .body = body, .origin = call__origin(r)};
    const char *wrong = add_headers(&lines, headers, n, &reply);
    if (wrong == NULL && !buf_ok(&lines)) {
        wrong = "it answered with too many headers";
    }
    if (wrong != NULL) {
        fail(pc, PROBLEM_PLUGIN_FAILED, wrong);
    } else {
        reply.headers = lines.n != 0 ? buf_z(&lines) : NULL;
        call__reply(r, &reply);
    }
    buf_fini(&lines);
}

static void on_done(struct gen_route_call *route, int status, const struct gen_pair *headers,
                    size_t n_headers, struct str body, const struct err *e)
{
    struct plugin_call *pc = route->arg;
    struct gen *gen = pc->gen;
    pc->call->plugin = NULL;
    if (status == 0) {
        fail(pc,
             e->code == ERR_TIMEOUT  ? PROBLEM_PLUGIN_TIMEOUT
             : e->code == ERR_DENIED ? PROBLEM_HOOK_DISABLED
                                     : PROBLEM_PLUGIN_FAILED,
             e->msg);
    } else if (status < 200 || status > 599) {
        char wrong[64];
        snprintf(wrong, sizeof wrong, "invalid status %d from the route handler", status);
        fail(pc, PROBLEM_PLUGIN_FAILED, wrong);
    } else {
        send_answer(pc, status, headers, n_headers, body);
    }
    gen_unpin(gen);
}

// ---- the request -----------------------------------------------------------------------------

/// A slash that came as %2F belongs to its segment. It is a NUL, which cannot come, until the route is found.
static void hide_slashes(struct str raw, struct str decoded)
{
    char *p = (char *)(uintptr_t)decoded.p; // of our arena, if there is anything to hide
    for (size_t i = 0, n = 0; i < raw.n; i++, n++) {
        if (raw.p[i] == '%') {
            if (decoded.p[n] == '/') {
                p[n] = '\0';
            }
            i += 2;
        }
    }
}

static void show_slashes(struct str path)
{
    char *p = (char *)(uintptr_t)path.p;
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] == '\0') {
            p[i] = '/';
        }
    }
}

/// Split the raw path after the prefix. False: it is not well-formed, or has a part `..`.
static bool cut_target(struct call *r, struct str *name, struct str *path)
{
    struct str rest = str_from(r->asked.path, strlen(PREFIX));
    struct str raw = str_cut(&rest, '/');
    struct str below = rest.p != NULL ? (struct str){rest.p - 1, rest.n + 1} : STR("/");
    if (!params__decode(&r->arena, raw, false, name) ||
        !params__decode(&r->arena, below, false, path)) {
        return false;
    }
    for (struct str at = str_from(*path, 1); at.n != 0;) {
        struct str segment = str_cut(&at, '/');
        if (str_eqz(segment, ".") || str_eqz(segment, "..")) {
            return false;
        }
    }
    hide_slashes(below, *path);
    return true;
}

static struct str lower(struct arena *a, struct str name)
{
    size_t i = 0;
    while (i < name.n && !(name.p[i] >= 'A' && name.p[i] <= 'Z')) {
        i++;
    }
    if (i == name.n) {
        return name;
    }
    char *copy = arena_strdup(a, name);
    for (; i < name.n; i++) {
        copy[i] = (char)(copy[i] >= 'A' && copy[i] <= 'Z' ? copy[i] + 32 : copy[i]);
    }
    return (struct str){copy, name.n};
}

bool route__is(struct str path)
{
    return str_starts(path, PREFIX) && path.n > strlen(PREFIX);
}

void route__run(struct conn *c, struct call *r)
{
    struct gen_engine *engine = api_engine(c->server->api);
    struct gen *gen = engine != NULL ? gen_current(engine) : NULL;
    const struct http1 *p = http__parser(c);
    struct plugin_call *pc = arena_calloc(&r->arena, 1, sizeof *pc);
    struct str name;
    struct buf allow;
    bool other = false;
    pc->call = r;
    pc->route = (struct gen_route_call){.method = str_of(http1_method_name(p)),
                                        .query = r->asked.query,
                                        .body = buf_str(&r->body),
                                        .done = on_done,
                                        .arg = pc};
    if (!cut_target(r, &name, &pc->route.path)) {
        refuse(r, PROBLEM_INVALID_REQUEST, "the address is not well-formed");
        return;
    }
    const struct gen_unit *u = gen != NULL ? gen_unit_find(gen, name) : NULL;
    if (u == NULL) {
        refuse(r, PROBLEM_NOT_FOUND,
               arena_printf(&r->arena, "no plugin '" STR_FMT "' is serving", (int)MIN(name.n, 200),
                            name.p));
        return;
    }
    buf_init(&allow, sizeof((struct refusal *)0)->allow);
    pc->item = gen_route_find(u, &pc->route, &other, &allow);
    show_slashes(pc->route.path); // the parameters are parts of it
    if (pc->item == NULL && other) {
        struct refusal no = {0};
        snprintf(no.allow, sizeof no.allow, "%s", buf_z(&allow));
        request__refuse(&no, PROBLEM_METHOD_NOT_ALLOWED, "plugin '" STR_FMT "' has no %s here",
                        (int)MIN(name.n, 200), name.p, pc->route.method.p);
        http__refuse(c, &no, r->keep);
    } else if (pc->item == NULL) {
        refuse(r, PROBLEM_NOT_FOUND,
               arena_printf(&r->arena, "plugin '" STR_FMT "' has no route '" STR_FMT "'",
                            STR_ARG(name), (int)MIN(pc->route.path.n, 200), pc->route.path.p));
    } else {
        const struct gen_route *face = gen_item_face(pc->item);
        struct gen_pair *pairs = arena_alloc(&r->arena, (http1_count(p) + 1) * sizeof *pairs);
        pc->route.headers = pairs;
        for (size_t i = 0; i < http1_count(p); i++) {
            struct str key = lower(&r->arena, http1_name(p, i));
            if (!str_eqz(key, "authorization") && !str_eqz(key, "cookie")) { // the hub's secrets
                pairs[pc->route.n_headers++] =
                    (struct gen_pair){.name = key, .value = http1_value(p, i)};
            }
        }
        pc->gen = gen_pin(gen);
        r->plugin = pc;
        face->call(gen_item_data(pc->item), &pc->route); // may have answered and freed `r`
    }
    buf_fini(&allow);
}

void route__cancel(struct call *r)
{
    struct plugin_call *pc = r->plugin;
    const struct gen_route *face = gen_item_face(pc->item);
    struct gen *gen = pc->gen;
    r->plugin = NULL;
    face->cancel(gen_item_data(pc->item), &pc->route);
    gen_unpin(gen);
}
