// The event stream, printed: what the ring holds, or everything as it comes.
//
//     events      GET /events, page by page, until a page is empty
//     events -f   one stream; when the hub stops, wait for the next one and continue after the last id
//
// With --json a line is the event's data as the hub wrote it, else "ID TIME TYPE fields".

#include <errno.h>

#include "cli/ask.h"
#include "cli/sessions.h"
#include "cli/watch.h"
#include "client/interrupt.h"

enum { PAGE = 1000, AGAIN_MS = 100 };

struct follow {
    struct cli *c;
    const struct watch_opts *o;
    char last_id[32]; // of the newest event that came, "" before the first
    bool lost;        // the stream broke before, and the hub was not there when we looked
};

// ---- one event -----------------------------------------------------------------------------

static void print_fields(struct out *o, const struct json *v)
{
    static const char *const shown[] = {"id", "ts", "type"};
    json_foreach_member (m, v) {
        if (str_lookup(m->key, shown, ARRAY_LEN(shown)) < 0) {
            struct buf text = {.max = CLIENT_EVENT_MAX};
            json_write(&text, &m->value, 0);
            out_add(o, STR(" "));
            out_text(o, m->key);
            out_add(o, STR("="));
            out_text(o, buf_str(&text));
            buf_fini(&text);
        }
    }
}

static void print_event(struct cli *c, struct str data, void *arg)
{
    (void)arg;
    struct arena a = {0};
    struct json *v = NULL;
    bool readable = !c->json && json_parse(&v, &a, data, NULL, NULL) == 0 && v->type == JSON_OBJ;
    if (readable) {
        out_addf(&c->out, "%lld ", (long long)json_int(json_get(v, "id"), 0));
        out_tinted(&c->out, OUT_DIM, json_get_text(v, "ts"));
        out_add(&c->out, STR(" "));
        out_tinted(&c->out, OUT_BOLD, json_get_text(v, "type"));
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
    watch_event_fn *print = f->o->print != NULL ? f->o->print : print_event;
    print(f->c, ev->data, f->o->arg);
    return out_flush(&f->c->out) ? 0 : -EPIPE;
}

static int stream_once(struct follow *f, struct client_answer *a, struct err *e)
{
    struct client_peer to = {.socket = f->c->home.socket};
    char resume[64];
    const char *headers[] = {resume, NULL};
    struct buf path = {.max = 32 << 10}, body = {.max = 16};
    // a hub that is new since we lost the old one has nothing in its ring that we have seen
    const char *after = f->last_id[0] != '\0' ? NULL : f->lost ? "0" : f->o->after;
    struct ask_param params[] = {
        {"types", f->o->types}, {"session", f->o->session}, {"after", after}};
    snprintf(resume, sizeof resume, "Last-Event-ID: %s", f->last_id);
    int rc = ask_build(OP_EVENTS, params, ARRAY_LEN(params), &path, &body, e);
    struct client_request r = {.method = "GET",
                               .path = buf_z(&path),
                               .accept = "text/event-stream",
                               .headers = f->last_id[0] != '\0' ? headers : NULL};
    rc = rc == 0 ? ask_may_connect(f->c, e) : rc;
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

int watch__follow(struct cli *c, const struct watch_opts *o)
{
    struct follow f = {.c = c, .o = o};
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

/// Ask for one page and print it. `*after` moves to its end, `*n` is the number of its events.
static int list_page(struct cli *c, const char *types, const char *session, const char **after,
                     char next[32], size_t *n)
{
    char limit[16];
    struct arena arena = {0};
    const struct json *v;
    snprintf(limit, sizeof limit, "%d", PAGE);
    struct ask_param params[] = {
        {"types", types}, {"session", session}, {"after", *after}, {"limit", limit}};
    int code = sessions__ask(c, OP_EVENTS, params, ARRAY_LEN(params), &arena, &v);
    *n = 0;
    json_foreach_item (event, json_get(v, "events")) {
        struct buf text = {.max = CLIENT_EVENT_MAX};
        json_write(&text, event, 0);
        print_event(c, buf_str(&text), NULL);
        buf_fini(&text);
        ++*n;
    }
    snprintf(next, 32, "%llu", (unsigned long long)json_int(json_get(v, "next"), 0));
    *after = next;
    arena_fini(&arena);
    return code;
}

// ---- commands ------------------------------------------------------------------------------

int cmd_event_list(struct cli *c)
{
    int64_t number;
    struct err e;
    char next[32];
    const char *types = args_value(&c->args, FLAG_TYPES);
    const char *session = args_value(&c->args, FLAG_SESSION);
    const char *after = args_value(&c->args, FLAG_AFTER);
    if (args_number(&c->args, FLAG_AFTER, 0, &number, &e) < 0) {
        return cli__fail(c, &e);
    }
    if (args_has(&c->args, FLAG_FOLLOW)) {
        struct watch_opts o = {.types = types, .session = session, .after = after};
        return watch__follow(c, &o);
    }
    int code = EXIT_OK;
    for (size_t n = PAGE; code == EXIT_OK && n == PAGE && c->out.fault == 0;) {
        code = list_page(c, types, session, &after, next, &n);
    }
    return code;
}
