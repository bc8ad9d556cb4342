// One turn, from the message to its end.
//
//     POST message ──> turn id
//     GET events, after the last one seen  ──> shown ──┬─ the turn's end ──> exit code
//          ^                                           ├─ a question ──> the person ──> POST answer ─┐
//          │                                           └─ Ctrl-C ──> POST interrupt ────────────────┤
//          └────────────────────────────────────────────────────────────────────────────────────────┘
//
// The stream is closed whenever a request has to be sent, and opened again after the last event seen:
// the hub keeps events, so nothing is lost and nothing shown twice. Ctrl-C once asks for the turn's end,
// twice leaves at once. A closed terminal ends us, not the turn: the session can be taken up again.

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "chat/chat_int.h"
#include "client/interrupt.h"
#include "pty/tty.h"

static const struct {
    const char *type;
    int exit;
} ends[] = {{"turn.completed", EXIT_OK},
            {"turn.failed", EXIT_FAILED},
            {"turn.interrupted", EXIT_INTERRUPTED},
            {"session.ended", EXIT_OK}};

static const char *end_of(const struct chat *t, struct str type, const struct json *ev)
{
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct str turn = json_get_text(ev, "turn");
        bool ours = turn.n == 0 || (t->turn[0] != '\0' && str_eqz(turn, t->turn));
        if (str_eqz(type, ends[i].type) && ours) {
            return ends[i].type;
        }
    }
    return NULL;
}

static int exit_of(const struct chat *t)
{
    assert(t->end != NULL);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (strcmp(t->end, ends[i].type) == 0) {
            return ends[i].exit;
        }
    }
    return EXIT_FAILED;
}

// ---- one event -----------------------------------------------------------------------------

// A chat that only watches and has no user leaves the answer to other clients.
static void note_asked(struct chat *t, struct str type, const struct json *ev)
{
    if (!t->person && t->turn[0] == '\0') {
        return;
    }
    if (str_eqz(type, "permission.requested") || str_eqz(type, "question.asked")) {
        arena_fini(&t->asked_in);
        t->asked = json_clone(&t->asked_in, ev);
    }
}

bool chat__show(struct chat *t, const struct client_event *e, struct arena *a, struct json **ev)
{
    uint64_t seq;
    if (json_parse(ev, a, e->data, NULL, NULL) < 0) {
        *ev = NULL;
    }
    if (str_to_u64(e->id, &seq)) {
        t->seq = seq;
    }
    gauge_event(&t->gauge, e->type, *ev);
    chat__changed(t);
    return view_event(&t->view, e->type, *ev, e->data);
}

static int on_event(const struct client_event *e, void *arg)
{
    struct chat *t = arg;
    struct arena arena = {0};
    struct json *ev;
    bool written = chat__show(t, e, &arena, &ev);
    note_asked(t, e->type, ev);
    t->end = end_of(t, e->type, ev);
    arena_fini(&arena);
    return !written ? -EPIPE : t->asked != NULL || t->end != NULL ? -ECANCELED : 0;
}

// ---- what the user says meanwhile ----------------------------------------------------------

/// {text, env}: a hub that was started anew since the last message knows our environment no more.
static int write_message(struct chat *t, struct buf *body, struct str text)
{
    struct buf all = {.max = SIZE_MAX};
    buf_adds(&all, buf_str(&t->ran));
    buf_adds(&all, text);
    struct jw w = {.out = body};
    jw_obj(&w);
    jw_kstr(&w, "text", buf_str(&all));
    buf_fini(&all);
    chat__write_pictures(t, text, &w);
    if (t->whole) {
        jw_kbool(&w, "wait", true);
    }
    jw_key(&w, "env");
    int code = sent_write_env(t->c, &w);
    if (code == EXIT_OK) {
        jw_end_obj(&w);
    }
    return code;
}

static void take_queued(struct chat *t, const struct json *answer)
{
    struct chat_queued q = {0};
    struct str turn = json_get_text(answer, "turn_id");
    buf_clear(&t->ran);
    if (t->turn[0] == '\0') {
        return; // whatever comes is followed
    }
    q.text = str_dup(str_trim(edit_text(&t->line)));
    snprintf(q.turn, sizeof q.turn, STR_FMT, STR_ARG(turn));
    vec_push(&t->queue, q);
}

// Both return whether the hub has taken it.
static bool queue(struct chat *t, struct str text)
{
    char path[CHAT_ID_MAX + 32];
    snprintf(path, sizeof path, "/session/%s/message", t->id);
    return chat__send(t, "POST", path, write_message, text, take_queued) == EXIT_OK;
}

static bool steer(struct chat *t, struct str text)
{
    char *said = str_dup(text);
    const struct ask_param params[] = {{"id", t->id}, {"text", said}};
    struct client_answer a;
    struct err e = {0};
    client_answer_init(&a);
    int rc = ask_send(t->c, OP_SESSION_STEER, params, ARRAY_LEN(params), 0, &a, &e);
    bool late = rc == 0 && a.status == 409; // the turn has just ended
    bool taken = late ? queue(t, text) : rc == 0 && a.status / 100 == 2;
    if (!taken && !late && rc == 0) {
        ask_problem(t->c, &a);
    } else if (rc < 0 && rc != -EINTR) {
        out_error(&t->c->out, "cannot reach the turn: %s", e.msg);
    }
    free(said);
    client_answer_fini(&a);
    return taken;
}

static void say_meanwhile(struct chat *t, bool waits, struct str text)
{
    if (text.p[0] == '/' || text.p[0] == '!') { // not for the model, and the turn's session stays
        out_note(&t->c->out, "commands wait for the end of the turn; Esc interrupts it");
    } else if (waits || chat__has_pictures(t, text) ? queue(t, text) : steer(t, text)) {
        history_add(&t->line, t->history, text);
        edit_start(&t->line);
    }
}

static int on_input(struct chat *t, enum chat_input in)
{
    struct str text = str_trim(edit_text(&t->line));
    if (in == INPUT_ESCAPE && t->gauge.work != GAUGE_IDLE && t->gauge.work != GAUGE_STOPPING) {
        chat__interrupt(t);
    } else if (in == INPUT_INTERRUPT) {
        return interrupt_raise(); // keys after it stay in `typed`, see on_signal()
    } else if ((in == INPUT_ENTER || in == INPUT_QUEUE) && text.n != 0) {
        say_meanwhile(t, in == INPUT_QUEUE, text);
    }
    return 0;
}

static int stream(struct chat *t, struct client_answer *a, struct err *e)
{
    struct client_peer to = {.socket = t->c->home.socket};
    char path[CHAT_ID_MAX + 64];
    snprintf(path, sizeof path, "/session/%s/events?after=%llu", t->id, (unsigned long long)t->seq);
    struct client_request r = {.method = "GET",
                               .path = path,
                               .accept = "text/event-stream",
                               .watch = chat__watch(t, on_input)};
    return client_stream(&to, &r, a, on_event, t, e);
}

// ---- what ends the stream ------------------------------------------------------------------

// Returns 0 when the turn is still to be followed.
static int on_signal(struct chat *t)
{
    int signum = interrupt_take();
    bool again = t->signalled || t->turn[0] == '\0';
    t->signalled = true;
    out_resume(&t->c->out);
    if (signum != SIGHUP && !again) {
        chat__interrupt(t);
    }
    if (signum == SIGINT && !again) {
        return 0;
    }
    view_settle(&t->view);
    if (signum != SIGHUP) {
        out_note(&t->c->out, "left the chat; continue it with 'afloat chat --resume %s'", t->id);
    }
    return EXIT_INTERRUPTED;
}

bool chat__adds_to_lost(const struct err *e)
{
    return e->msg[0] != '\0' && e->code != -ECONNRESET && e->code != ERR_UNREACHABLE;
}

static int on_lost(struct chat *t, const struct err *e)
{
    bool more = chat__adds_to_lost(e);
    view_settle(&t->view);
    out_error(&t->c->out,
              "lost the connection to the hub during the turn%s%s; resume with 'afloat chat "
              "--resume %s'",
              more ? ": " : "", more ? e->msg : "", t->id);
    return EXIT_UNREACHABLE;
}

static void begin_turn(struct chat *t)
{
    t->end = NULL;
    t->asked = NULL;
    t->signalled = false;
    if (t->turn[0] != '\0') {
        gauge_begin(&t->gauge);
    }
}

// A turn has ended: follow the message that waited for that, if there is one.
static bool begin_queued(struct chat *t)
{
    if (t->queue.n == 0) {
        return false;
    }
    struct chat_queued q = t->queue.p[0];
    vec_remove(&t->queue, 0);
    chat__print_line(t, "> ", str_of(q.text));
    memcpy(t->turn, q.turn, sizeof t->turn);
    free(q.text);
    begin_turn(t);
    return true;
}

// Returns 0 when the stream is to be taken up again, else 1 with the exit code in `*code`.
static int judge(struct chat *t, int rc, const struct client_answer *a, const struct err *e,
                 int *code)
{
    if (t->c->out.fault != 0 && t->c->out.fault != EINTR) {
        *code = chat__is_gone(t) ? EXIT_INTERRUPTED : EXIT_FAILED;
    } else if (rc == -EINTR || interrupt_seen() != 0) {
        *code = on_signal(t);
    } else if (t->end != NULL) {
        *code = exit_of(t);
        return !begin_queued(t);
    } else if (t->asked != NULL) {
        *code = chat__settle_asked(t);
    } else if (rc == 0 && a->status / 100 != 2) {
        *code = ask_problem(t->c, a);
    } else {
        *code = on_lost(t, e);
    }
    return *code != EXIT_OK;
}

// ---- shared --------------------------------------------------------------------------------

static void take_turn(struct chat *t, const struct json *answer)
{
    struct str turn = json_get_text(answer, "turn_id");
    buf_clear(&t->ran);
    snprintf(t->turn, sizeof t->turn, STR_FMT, STR_ARG(turn));
    if (json_bool(json_get(answer, "queued"), false)) {
        out_note(&t->c->out, "a turn is running; this comes when it has ended");
    }
}

/// The answer of `wait`: printed as it came. A turn that waits for a decision is ended.
static void take_whole(struct chat *t, const struct json *answer)
{
    struct str state = json_get_text(answer, "state");
    struct buf body = {.max = SIZE_MAX};
    t->end = str_eqz(state, "completed")     ? "turn.completed"
             : str_eqz(state, "interrupted") ? "turn.interrupted"
                                             : "turn.failed";
    json_write(&body, answer, 0);
    out_body(&t->c->out, buf_str(&body));
    buf_fini(&body);
    if (str_eqz(state, "waiting")) {
        const struct json *asked = json_at(json_get(answer, "pending"), 0);
        t->asked = json_clone(&t->asked_in, asked);
    }
}

int chat__say(struct chat *t, struct str text)
{
    char path[CHAT_ID_MAX + 32];
    struct buf whole = {.max = SIZE_MAX};
    chat__add_resources(t, text, &whole);
    snprintf(path, sizeof path, "/session/%s/message", t->id);
    int code = chat__send(t, "POST", path, write_message, buf_str(&whole),
                          t->whole ? take_whole : take_turn);
    buf_fini(&whole);
    if (code != EXIT_OK || !t->whole) {
        return code == EXIT_OK ? chat__follow(t) : code;
    }
    return t->asked != NULL ? chat__settle_asked(t) : exit_of(t);
}

int chat__follow(struct chat *t)
{
    assert(t->id[0] != '\0');
    int code = EXIT_OK;
    begin_turn(t);
    if (t->person && !t->drawable) {
        int rc =
            tty_take(STDIN_FILENO, TTY_QUIET, NULL); // what is typed now is for the next prompt
        (void)rc;                                    // in the background we only print
    }
    for (bool ended = false; !ended;) {
        struct client_answer a;
        struct err e = {0};
        client_answer_init(&a);
        int rc = stream(t, &a, &e);
        ended = judge(t, rc, &a, &e, &code) != 0;
        client_answer_fini(&a);
    }
    t->gauge.work = GAUGE_IDLE;
    chat__notify(t, "the turn has ended");
    if (!t->drawable) {
        tty_give_back();
    }
    return code;
}

void chat__interrupt(struct chat *t)
{
    const struct ask_param id = {"id", t->id};
    struct client_answer a;
    struct err e = {0};
    client_answer_init(&a);
    if (ask_send(t->c, OP_SESSION_INTERRUPT, &id, 1, 0, &a, &e) < 0 && e.code != -EINTR) {
        out_error(&t->c->out, "cannot interrupt the turn: %s", e.msg);
    }
    client_answer_fini(&a);
    t->gauge.work = GAUGE_STOPPING;
}

// ---- permission modes ----------------------------------------------------------------------

int chat__set_permission(struct chat *t, const char *mode)
{
    struct arena arena = {0};
    const struct json *row = NULL;
    struct ask_param params[] = {{"id", t->id}, {"permission", mode}};
    int code = ask_value(t->c, OP_SESSION_PATCH, params, ARRAY_LEN(params), &arena, &row);
    if (row != NULL) {
        gauge_row(&t->gauge, row);
    }
    arena_fini(&arena);
    return code;
}

void chat__next_permission(struct chat *t)
{
    static const char *const modes[] = {"ask", "edits", "plan", "auto"};
    size_t i = 0;
    while (i < ARRAY_LEN(modes) && strcmp(modes[i], t->gauge.permission) != 0) {
        i++;
    }
    chat__set_permission(t, modes[i < ARRAY_LEN(modes) ? (i + 1) % ARRAY_LEN(modes) : 0]);
}
