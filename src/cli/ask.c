// From a command to the hub and back.
//
//     words and flags ──> request by the row of ops.def ──> hub ──> answer ──┐
//                                                                            │
//       2xx: the command prints it, as it came with --json   <───────────────┤
//       else: told on stderr, exit code by its problem       <───────────────┘
//
// The request is tried before a hub is started: usually one runs, and that costs one connection. A request is
// sent a second time only when no hub received it, or when it only reads and the connection was lost: a hub
// that was just killed accepts for a moment, and resets. On a terminal a line tells what takes more than 300 ms.

#include "cli/ask.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time.h"
#include "client/holder.h"
#include "client/interrupt.h"
#include "client/start.h"
#include "proto/problems.h"

enum { REQUEST_MAX = 16 << 20, WAIT_FIRST_MS = 300, WAIT_STEP_MS = 500 };

#define CLEAR_LINE "\r\033[K"

// ---- answers -------------------------------------------------------------------------------

int ask_exit_of_status(int status)
{
    switch (status) {
    case 401:
    case 403: return EXIT_NOT_ALLOWED;
    case 404: return EXIT_NOT_FOUND;
    case 409: return EXIT_CONFLICT;
    default: return status / 100 == 2 ? EXIT_OK : EXIT_FAILED;
    }
}

static const struct json *problem_of(struct arena *arena, const struct client_answer *a)
{
    struct json *v = NULL;
    if (json_parse(&v, arena, buf_str(&a->body), NULL, NULL) < 0) {
        return NULL;
    }
    return json_get(v, "code") != NULL ? v : NULL;
}

int ask_exit_of(const struct client_answer *a)
{
    if (a->status / 100 == 2) {
        return EXIT_OK;
    }
    struct arena arena = {0};
    const struct json *v = problem_of(&arena, a);
    const struct problem_info *known = problem_find(json_get_text(v, "code"));
    int code = known != NULL ? known->exit_code : ask_exit_of_status(a->status);
    arena_fini(&arena);
    return code;
}

int ask_problem(struct cli *c, const struct client_answer *a)
{
    assert(a->status / 100 != 2);
    struct arena arena = {0};
    const struct json *v = problem_of(&arena, a);
    struct str detail = json_str(json_get(v, "detail"), NULL);
    struct str hint = json_str(json_get(v, "hint"), NULL);
    if (detail.n == 0) {
        out_error(&c->out, "the hub answered with status %d", a->status);
    } else if (hint.n != 0) {
        out_error(&c->out, STR_FMT " (" STR_FMT ")", STR_ARG(detail), STR_ARG(hint));
    } else {
        out_error(&c->out, STR_FMT, STR_ARG(detail));
    }
    arena_fini(&arena);
    return ask_exit_of(a);
}

void ask_note_build(struct cli *c, const struct client_answer *a)
{
    const char *ours = c->host->build_id();
    if (a->build[0] != '\0' && strcmp(a->build, ours) != 0 && !c->build_noted) {
        c->build_noted = true;
        out_note(
            &c->out,
            "note: this afloat (%.12s) is not the build the hub runs (%.12s); afloat stop, then "
            "start, to switch",
            ours, a->build);
    }
}

struct json *ask_json(struct cli *c, struct arena *arena, const struct client_answer *a)
{
    struct json *v = NULL;
    struct err e;
    if (json_parse(&v, arena, buf_str(&a->body), NULL, &e) < 0) {
        out_error(&c->out, "the hub's answer is not JSON: %s", e.msg);
        return NULL;
    }
    return v;
}

// ---- while it takes long -------------------------------------------------------------------

/// A line on the terminal that names the running command; it is cleared when the answer comes.
struct waiting {
    struct client_watch watch;
    const struct command *cmd;
    uint64_t since_ns;
    bool shown;
};

/// Commands that talk show their progress themselves.
static bool shows_waiting(const struct cli *c)
{
    const char *term = getenv("TERM");
    bool talks = c->cmd->op == OP_SESSION_MESSAGE || c->cmd->op == OP_RUN_START ||
                 c->cmd->op == OP_SESSION_EVENTS;
    return !talks && !c->out.quiet && !c->out.drawing && !c->out.gathers && term != NULL &&
           strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
}

static int on_waiting(struct client_watch *w)
{
    struct waiting *q = container_of(w, struct waiting, watch);
    bool verb = q->cmd->verb[0] != '\0';
    dprintf(STDERR_FILENO, CLEAR_LINE "afloat: %s%s%s still runs, %llu s", q->cmd->noun,
            verb ? " " : "", q->cmd->verb,
            (unsigned long long)((time_mono_ns() - q->since_ns) / 1000000000));
    w->due_ns = interrupt_deadline(WAIT_STEP_MS);
    q->shown = true;
    return 0;
}

// ---- public: asking ------------------------------------------------------------------------

unsigned ask_limit_ms(enum op_id op)
{
    assert(op < OP__COUNT);
    return (ops[op].flags & OP_WAITS) != 0 ? CLIENT_LONG_MS : CLIENT_TIMEOUT_MS;
}

int ask_start(struct cli *c, bool *already)
{
    struct start_result r;
    struct err e = {0};
    bool shown = shows_waiting(c);
    if (shown) {
        dprintf(STDERR_FILENO, "afloat: starting the hub");
    }
    int rc = start_hub(&c->home, &r, &e);
    if (shown) {
        dprintf(STDERR_FILENO, CLEAR_LINE);
    }
    if (rc == 0) {
        if (already != NULL) {
            *already = r.already;
        }
        return EXIT_OK;
    }
    int code = cli__fail(c, &e);
    if (e.code == ERR_UNREACHABLE) {
        out_error(&c->out, "its log is '%s'", c->home.log);
    } else if (code != EXIT_INTERRUPTED) {
        out_error(&c->out, "no hub can start; 'afloat doctor' says what to do");
    }
    // a home that is not fit for a hub leaves us as much without one as a hub that died
    return code == EXIT_INTERRUPTED ? code : EXIT_UNREACHABLE;
}

bool ask_is_up(struct cli *c)
{
    struct client_answer a;
    client_answer_init(&a);
    bool up = ask_health(c, &a);
    client_answer_fini(&a);
    return up;
}

static bool may_start(const struct cli *c)
{
    return (c->cmd->mode & CMD_STARTS) != 0 && !args_has(&c->args, FLAG_NO_START);
}

int ask_may_connect(struct cli *c, struct err *e)
{
    return !may_start(c) && holder_is_dormant(&c->home)
               ? err_set(e, ERR_UNREACHABLE, "the hub is not running")
               : 0;
}

int ask_ensure_hub(struct cli *c)
{
    if (may_start(c)) {
        return ask_start(c, NULL);
    }
    if (ask_is_up(c)) {
        return EXIT_OK;
    }
    struct err e = {0};
    if (holder_look(&c->home, &e) < 0) {
        return cli__fail(c, &e);
    }
    out_error(&c->out, "the hub is not running; 'afloat start' starts it");
    return EXIT_UNREACHABLE;
}

int ask_request(struct cli *c, const struct client_request *r, struct client_answer *a)
{
    struct client_peer to = {.socket = c->home.socket};
    struct err e = {0};
    int rc = ask_may_connect(c, &e);
    rc = rc == 0 ? client_call(&to, r, a, &e) : rc;
    bool lost = rc == -ECONNRESET && strcmp(r->method, "GET") == 0;
    if (rc == ERR_UNREACHABLE || lost) {
        int code = ask_ensure_hub(c);
        if (code != EXIT_OK) {
            return code;
        }
        rc = client_call(&to, r, a, &e);
    }
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    ask_note_build(c, a);
    return EXIT_OK;
}

int ask_accepted(struct cli *c, const struct client_request *r, struct client_answer *a)
{
    int code = ask_request(c, r, a);
    return code != EXIT_OK || a->status / 100 == 2 ? code : ask_problem(c, a);
}

int ask_send(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
             unsigned timeout_ms, struct client_answer *a, struct err *e)
{
    assert(op < OP__COUNT);
    struct client_peer to = {.socket = c->home.socket};
    struct buf path = {.max = SIZE_MAX}, body = {.max = SIZE_MAX};
    int rc = ask_build(op, params, n, &path, &body, e);
    rc = rc == 0 ? ask_may_connect(c, e) : rc;
    if (rc == 0) {
        struct client_request r = {.method = op_method_name(ops[op].method),
                                   .path = buf_z(&path),
                                   .body = buf_str(&body),
                                   .timeout_ms = timeout_ms};
        rc = client_call(&to, &r, a, e);
    }
    buf_fini(&path);
    buf_fini(&body);
    return rc;
}

const struct json *ask_quietly(struct cli *c, enum op_id op, const struct ask_param *params,
                               size_t n, unsigned timeout_ms, struct arena *arena)
{
    struct client_answer a;
    struct json *v = NULL;
    client_answer_init(&a);
    bool good = ask_send(c, op, params, n, timeout_ms, &a, NULL) == 0 && a.status / 100 == 2;
    if (!good || json_parse(&v, arena, arena_str(arena, buf_str(&a.body)), NULL, NULL) < 0) {
        v = NULL;
    }
    client_answer_fini(&a);
    return v;
}

int ask_op(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
           struct client_answer *a)
{
    struct buf path = {.max = 32 << 10}, body = {.max = REQUEST_MAX};
    struct err e = {0};
    int rc = ask_build(op, params, n, &path, &body, &e);
    struct waiting q = {.watch = {.fds = {{.fd = -1}, {.fd = -1}},
                                  .due_ns = interrupt_deadline(WAIT_FIRST_MS),
                                  .run = on_waiting},
                        .cmd = c->cmd,
                        .since_ns = time_mono_ns()};
    bool tells = c->watch == NULL && shows_waiting(c);
    struct client_request r = {.method = op_method_name(ops[op].method),
                               .path = buf_z(&path),
                               .body = buf_str(&body),
                               .timeout_ms =
                                   c->patience_ms != 0 ? c->patience_ms : ask_limit_ms(op),
                               .watch = tells ? &q.watch : c->watch};
    int code = rc < 0 ? cli__fail(c, &e) : ask_request(c, &r, a);
    if (q.shown) {
        dprintf(STDERR_FILENO, CLEAR_LINE);
    }
    buf_fini(&path);
    buf_fini(&body);
    if (code != EXIT_OK) {
        return code;
    }
    if (c->json) {
        out_body(&c->out, buf_str(&a->body));
    }
    return a->status / 100 == 2 ? EXIT_OK : ask_problem(c, a);
}

void ask_nudge(struct cli *c, enum op_id op, const char *what)
{
    struct client_answer a;
    struct err e;
    client_answer_init(&a);
    int rc = ask_send(c, op, NULL, 0, 0, &a, &e);
    if (rc < 0 && rc != ERR_UNREACHABLE) {
        out_note(&c->out, "the hub did not answer (%s); it will notice the %s by itself", e.msg,
                 what);
    }
    client_answer_fini(&a);
}

bool ask_health(struct cli *c, struct client_answer *a)
{
    return !holder_is_dormant(&c->home) && ask_send(c, OP_HEALTH, NULL, 0, 2000, a, NULL) == 0 &&
           a->status == 200;
}

int ask_parsed(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
               struct arena *arena, const struct json **out)
{
    struct client_answer a;
    struct json *v = NULL;
    struct err e = {0};
    client_answer_init(&a);
    int code = ask_op(c, op, params, n, &a);
    struct str body = arena_str(arena, buf_str(&a.body)); // texts of the value point into it
    if (code == EXIT_OK && json_parse(&v, arena, body, NULL, &e) < 0) {
        out_error(&c->out, "the hub's answer is not JSON: %s", e.msg);
        code = EXIT_FAILED;
    }
    *out = v;
    client_answer_fini(&a);
    return code;
}

int ask_value(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
              struct arena *arena, const struct json **out)
{
    int code = ask_parsed(c, op, params, n, arena, out);
    *out = c->json ? NULL : *out;
    return code;
}
