// The event stream, printed: what the ring holds, or everything as it comes.
//
//     events      GET /events, page by page, until a page is empty
//     events -f   one stream; when the hub goes, wait for the next one and go on behind the last id
//
// With --json a line is the event's data as the hub wrote it, else "ID TIME TYPE fields".

#include <errno.h>

#include "cli/ask.h"
#include "cli/watch.h"
#include "client/interrupt.h"

enum { PAGE = 1000, AGAIN_MS = 100 };

struct follow {
    struct cli *c;
    const char *types, *session, *after;
    char last_id[32]; // of the newest event printed, "" before the first
    bool lost;        // the stream broke before, and the hub was not there when we looked
};

// ---- one event -----------------------------------------------------------------------------

static void print_fields(struct out *o, const struct json *v)
{
    static const char *const shown[] = {"id", "ts", "type"};
    json_foreach_member (m, v) {
        bool done = false;
        for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
            done = done || str_eqz(m->key, shown[i]);
        }
        if (!done) {
            struct buf text;
            buf_init(&text, CLIENT_EVENT_MAX);
            json_write(&text, &m->value, 0);
            out_add(o, STR(" "));
            out_text(o, m->key);
            out_add(o, STR("="));
            out_text(o, buf_str(&text));
            buf_fini(&text);
        }
    }
}

void watch__print_event(struct cli *c, struct str data)
{
    struct arena a;
    struct json *v = NULL;
    arena_init(&a);
    bool readable = !c->json && json_parse(&v, &a, data, NULL, NULL) == 0 && v->type == JSON_OBJ;
    if (readable) {
        out_addf(&c->out, "%lld ", (long long)json_int(json_get(v, "id"), 0));
        out_tinted(&c->out, OUT_DIM, json_str(json_get(v, "ts"), ""));
        out_add(&c->out, STR(" "));
        out_tinted(&c->out, OUT_BOLD, json_str(json_get(v, "type"), ""));
        print_fields(&c->out, v);
    } else {
        out_add(&c->out, data);
    }
    out_add(&c->out, STR("\n"));
    arena_fini(&a);
}

// ---- following -----------------------------------------------------------------------------

static int on_event(const struct client_event *ev, void *arg)
{
    struct follow *f = arg;
    if (ev->id.n < sizeof f->last_id) {
        memcpy(f->last_id, ev->id.p, ev->id.n);
        f->last_id[ev->id.n] = '\0';
    }
    watch__print_event(f->c, ev->data);
    return out_flush(&f->c->out) ? 0 : -EPIPE;
}

static int stream_once(struct follow *f, struct client_answer *a, struct err *e)
{
    struct client_peer to = {.socket = f->c->home.socket};
    char resume[64];
    const char *headers[] = {resume, NULL};
    struct buf path, body;
    // a hub that is new since we lost the old one has nothing in its ring that we have seen
    const char *after = f->last_id[0] != '\0' ? NULL : f->lost ? "0" : f->after;
    struct ask_param params[] = {{"types", f->types}, {"session", f->session}, {"after", after}};
    snprintf(resume, sizeof resume, "Last-Event-ID: %s", f->last_id);
    buf_init(&path, 32 << 10);
    buf_init(&body, 16);
    int rc = ask_build(OP_EVENTS, params, ARRAY_LEN(params), &path, &body, e);
    struct client_request r = {.method = "GET",
                               .path = buf_z(&path),
                               .accept = "text/event-stream",
                               .headers = f->last_id[0] != '\0' ? headers : NULL};
    if (rc == 0) {
        rc = client_stream(&to, &r, a, on_event, f, e);
    }
    buf_fini(&path);
    buf_fini(&body);
    return rc;
}

static int wait_for_return(struct follow *f)
{
    struct client_answer a;
    int rc = 0;
    bool up = false;
    client_answer_init(&a);
    while (rc == 0 && !up) {
        up = ask_health(f->c, &a);
        f->lost = f->lost || !up;
        rc = up ? 0 : interrupt_pause(AGAIN_MS);
    }
    client_answer_fini(&a);
    return rc;
}

// Returns 0 when it is worth trying again, else with the exit code in `*code`.
static int judge(struct follow *f, int rc, const struct client_answer *a, const struct err *e,
                 int *code)
{
    bool broke = rc == 0 || rc == -ECONNRESET || rc == -ETIMEDOUT;
    if (broke && a->status / 100 == 2) {
        out_note(&f->c->out, "the hub went away; waiting for it to come back");
        if (wait_for_return(f) == 0) {
            out_note(&f->c->out, "the hub is back");
            return 0;
        }
        *code = EXIT_INTERRUPTED;
    } else if (rc == 0) {
        *code = ask_problem(f->c, a);
    } else if (rc == -EINTR) {
        *code = EXIT_INTERRUPTED;
    } else {
        *code = f->c->out.fault != 0 ? EXIT_FAILED : cli__fail(f->c, e);
    }
    return 1;
}

int watch__follow(struct cli *c, const char *types, const char *session, const char *after)
{
    struct follow f = {.c = c, .types = types, .session = session, .after = after};
    int code = EXIT_OK;
    interrupt_catch();
    for (bool ended = false; !ended;) {
        struct client_answer a;
        struct err e = {0};
        client_answer_init(&a);
        int rc = stream_once(&f, &a, &e);
        if (rc == ERR_UNREACHABLE && f.last_id[0] == '\0' && !f.lost) {
            code = ask_ensure_hub(c);
            ended = code != EXIT_OK;
        } else if (rc == ERR_UNREACHABLE) {
            ended = interrupt_pause(AGAIN_MS) < 0;
            code = ended ? EXIT_INTERRUPTED : code;
        } else {
            ended = judge(&f, rc, &a, &e, &code) != 0;
        }
        client_answer_fini(&a);
    }
    return code;
}

// ---- listing -------------------------------------------------------------------------------

static int print_page(struct cli *c, const struct client_answer *a, uint64_t *after)
{
    struct arena arena;
    arena_init(&arena);
    const struct json *v = ask_json(c, &arena, a);
    const struct json *events = json_get(v, "events");
    int n = 0;
    for (; json_at(events, (size_t)n) != NULL; n++) {
        struct buf text;
        buf_init(&text, CLIENT_EVENT_MAX);
        json_write(&text, json_at(events, (size_t)n), 0);
        watch__print_event(c, buf_str(&text));
        buf_fini(&text);
    }
    *after = (uint64_t)json_int(json_get(v, "next"), 0);
    arena_fini(&arena);
    return v != NULL ? n : -1;
}

static int fetch_page(struct cli *c, const struct ask_param *params, size_t n,
                      struct client_answer *a)
{
    struct buf path, body;
    struct err e = {0};
    buf_init(&path, 32 << 10);
    buf_init(&body, 16);
    int rc = ask_build(OP_EVENTS, params, n, &path, &body, &e);
    struct client_request r = {.method = "GET", .path = buf_z(&path)};
    int code = rc < 0 ? cli__fail(c, &e) : ask_request(c, &r, a);
    buf_fini(&path);
    buf_fini(&body);
    if (code == EXIT_OK && a->status != 200) {
        code = ask_problem(c, a);
    }
    return code;
}

static int list_events(struct cli *c, const char *types, const char *session, const char *after)
{
    char behind[32], limit[32];
    int code = EXIT_OK, n = PAGE;
    snprintf(limit, sizeof limit, "%d", PAGE);
    while (code == EXIT_OK && n == PAGE && c->out.fault == 0) {
        struct ask_param params[] = {
            {"types", types}, {"session", session}, {"after", after}, {"limit", limit}};
        struct client_answer a;
        uint64_t next = 0;
        client_answer_init(&a);
        code = fetch_page(c, params, ARRAY_LEN(params), &a);
        n = code == EXIT_OK ? print_page(c, &a, &next) : 0;
        client_answer_fini(&a);
        snprintf(behind, sizeof behind, "%llu", (unsigned long long)next);
        after = behind;
    }
    return n < 0 ? EXIT_FAILED : code;
}

// ---- commands ------------------------------------------------------------------------------

int cmd_event_list(struct cli *c)
{
    int64_t after;
    struct err e;
    const char *types = args_value(&c->args, FLAG_TYPES);
    const char *session = args_value(&c->args, FLAG_SESSION);
    if (args_number(&c->args, FLAG_AFTER, 0, &after, &e) < 0) {
        return cli__fail(c, &e);
    }
    const char *from = args_value(&c->args, FLAG_AFTER);
    return args_has(&c->args, FLAG_FOLLOW) ? watch__follow(c, types, session, from)
                                           : list_events(c, types, session, from);
}
