// Looking on while a bot runs.
//
//     GET /events, bot.run.*            GET /session/ID/events
//     ┌──────────────────────┐ iteration ┌─────────────────────┐
//     │ which session is next│ ────────> │ what it does, shown │
//     │ sleeping, ended      │ <──────── │                     │
//     └──────────────────────┘ its end   └─────────────────────┘
//
// One stream at a time is read, each from where it was left: a session's journal has all of it, and the
// hub's ring the few events of the run. Where the ring has lost some (stream.gap) the record tells.
//
// Keys are read beside the stream, and a line goes to the run; a signal closes the stream. The first Ctrl-C or SIGTERM
// asks for the run's end and continues to follow it, the second ends it at once, the third leaves it. A closed terminal
// leaves it running, as Ctrl-C does with a run that is only watched.

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "chat/run_int.h"
#include "cli/sessions.h"
#include "client/interrupt.h"
#include "pty/tty.h"

enum { STOP_MS = 60000 };

static void copy_id(char out[CHAT_ID_MAX], struct str id)
{
    snprintf(out, CHAT_ID_MAX, STR_FMT, STR_ARG(id));
}

// ---- where to begin ------------------------------------------------------------------------

int follow__mark(struct cli *c, uint64_t *mark)
{
    struct arena arena = {0};
    const struct json *v = NULL;
    const struct ask_param params[] = {{"after", ASK_EVENTS_END}, {"limit", "1"}};
    int code = sessions__ask(c, OP_EVENTS, params, ARRAY_LEN(params), &arena, &v);
    *mark = (uint64_t)MAX(json_int(json_get(v, "next"), 0), 0);
    arena_fini(&arena);
    return code;
}

// ---- the run's own events ------------------------------------------------------------------

static void begin_session(struct run_follow *f, struct str id, int64_t number)
{
    struct chat *t = f->chat;
    if (id.n == 0 || str_eqz(id, f->before)) {
        return;
    }
    copy_id(t->id, id);
    copy_id(f->before, id);
    t->seq = 0;
    f->iterations++;
    chat__refresh(t);
    view_settle(&t->view);
    out_note(&t->c->out, "iteration %u: session #%lld of %s", f->iterations, (long long)number,
             f->bot);
}

static void on_iteration(struct run_follow *f, const struct json *ev)
{
    begin_session(f, json_get_text(ev, "session_id"), json_int(json_get(ev, "number"), 0));
}

static void on_sleeping(struct run_follow *f, const struct json *ev)
{
    double seconds = json_double(json_get(ev, "seconds"), 0);
    out_note(&f->chat->c->out, "sleeping %g s%s", seconds,
             f->chat->person ? "; type something to wake it" : "");
}

static void on_ended(struct run_follow *f, const struct json *ev)
{
    const struct json *record = run_end_record(f->chat->c, f->id, &f->arena);
    f->end = record != NULL ? record : json_clone(&f->arena, ev);
}

static const struct {
    const char *type;
    void (*take)(struct run_follow *f, const struct json *ev);
} run_events[] = {{"bot.run.iteration", on_iteration},
                  {"bot.run.sleeping", on_sleeping},
                  {"bot.run.ended", on_ended}};

static void take_run_event(struct run_follow *f, const struct client_event *e,
                           const struct json *ev)
{
    struct out *o = &f->chat->c->out;
    if (f->chat->view.mode == VIEW_JSON) {
        out_add(o, e->data);
        out_add(o, STR("\n"));
    }
    for (size_t i = 0; i < ARRAY_LEN(run_events); i++) {
        if (str_eqz(e->type, run_events[i].type)) {
            run_events[i].take(f, ev);
        }
    }
}

static int on_run_event(const struct client_event *e, void *arg)
{
    struct run_follow *f = arg;
    struct arena arena = {0};
    struct json *ev = NULL;
    uint64_t id;
    if (str_to_u64(e->id, &id)) {
        f->mark = id;
    }
    f->look = f->look || str_eqz(e->type, "stream.gap");
    if (json_parse(&ev, &arena, e->data, NULL, NULL) == 0 &&
        str_eqz(json_get_text(ev, "run_id"), f->id)) {
        take_run_event(f, e, ev);
    }
    bool written = out_flush(&f->chat->c->out);
    arena_fini(&arena);
    return !written ? -EPIPE : f->look || f->end != NULL || f->chat->id[0] != '\0' ? -ECANCELED : 0;
}

// ---- a line for the run --------------------------------------------------------------------

/// Call an operation of the run that takes one more parameter. 0 when the hub has done it.
static int tell_run(struct run_follow *f, enum op_id op, struct ask_param more)
{
    const struct ask_param params[] = {{"id", f->id}, more};
    struct client_answer a;
    struct err e = {0};
    client_answer_init(&a);
    int rc = ask_send(f->chat->c, op, params, ARRAY_LEN(params), STOP_MS, &a, &e);
    if (rc < 0 && rc != -EINTR) {
        out_error(&f->chat->c->out, "%s", e.msg);
    } else if (rc == 0 && a.status / 100 != 2) {
        ask_problem(f->chat->c, &a);
        rc = -EIO;
    }
    client_answer_fini(&a);
    return rc;
}

static void send_line(struct run_follow *f, struct str text)
{
    char *said = str_dup(text);
    if (tell_run(f, OP_RUN_INPUT, (struct ask_param){"text", said}) == 0) {
        edit_remember(&f->chat->line, text);
        if (f->chat->c->out.drawing) {
            chat__print_line(f->chat, "> ", text);
        }
    }
    free(said);
}

// On a terminal that cannot be drawn on: read the line that was typed.
static int on_plain_line(struct client_watch *w)
{
    struct run_follow *f = container_of(w, struct run_follow, plain);
    struct chat *t = f->chat;
    enum chat_line line = chat__read_line(t);
    struct str text = str_trim(edit_text(&t->line));
    if (line == CHAT_LINE && text.n != 0) {
        send_line(f, text);
    } else if (line != CHAT_LINE) {
        f->deaf = true;
        w->fds[0].fd = -1;
    }
    edit_start(&t->line);
    return 0;
}

static int on_input(struct chat *t, enum chat_input in)
{
    struct run_follow *f = t->run;
    struct str text = str_trim(edit_text(&t->line));
    if (in == INPUT_INTERRUPT && text.n != 0) {
        edit_start(&t->line);
    } else if (in == INPUT_INTERRUPT) {
        return interrupt_raise(); // keys after it stay in `typed`, see on_signal()
    } else if ((in == INPUT_ENTER || in == INPUT_QUEUE) && text.n != 0) {
        send_line(f, text);
        edit_start(&t->line);
    }
    return 0;
}

static struct client_watch *watch(struct run_follow *f)
{
    struct chat *t = f->chat;
    bool reads = t->person && tty_in_foreground(STDIN_FILENO);
    f->plain = (struct client_watch){
        .fds = {{.fd = reads && !f->deaf ? STDIN_FILENO : -1, .events = POLLIN}, {.fd = -1}},
        .run = on_plain_line};
    return t->c->out.drawing ? chat__watch(t, on_input) : &f->plain;
}

// ---- a session's events --------------------------------------------------------------------

static int on_session_event(const struct client_event *e, void *arg)
{
    struct chat *t = arg;
    struct arena arena = {0};
    struct json *ev;
    bool written = chat__show(t, e, &arena, &ev);
    bool ended = str_eqz(e->type, "session.ended");
    if (ended) {
        t->id[0] = '\0';
    }
    arena_fini(&arena);
    return !written ? -EPIPE : ended ? -ECANCELED : 0;
}

static int stream(struct run_follow *f, struct client_answer *a, struct err *e)
{
    struct chat *t = f->chat;
    struct client_peer to = {.socket = t->c->home.socket};
    char path[CHAT_ID_MAX + 64];
    struct client_request r = {.method = "GET", .path = path, .accept = "text/event-stream"};
    r.watch = watch(f);
    if (t->id[0] != '\0') {
        snprintf(path, sizeof path, "/session/%s/events?after=%llu", t->id,
                 (unsigned long long)t->seq);
        int rc = client_stream(&to, &r, a, on_session_event, t, e);
        if (rc == 0 && a->status / 100 == 2) {
            t->id[0] = '\0'; // all of its journal is shown
            return -ECANCELED;
        }
        return rc;
    }
    snprintf(path, sizeof path, "/events?types=bot.run.*&after=%llu", (unsigned long long)f->mark);
    return client_stream(&to, &r, a, on_run_event, f, e);
}

// ---- the record ----------------------------------------------------------------------------

static int look(struct run_follow *f)
{
    const struct json *record = run_end_record(f->chat->c, f->id, &f->arena), *last = NULL;
    f->look = false;
    if (record == NULL) {
        out_error(&f->chat->c->out, "the hub no longer knows run %s", f->id);
        return EXIT_UNREACHABLE;
    }
    json_foreach_item (it, json_get(record, "iterations")) {
        last = it;
    }
    copy_id(f->bot, json_get_text(record, "bot"));
    if (str_eqz(json_get_text(record, "state"), "ended")) {
        f->end = record;
    }
    if (f->end == NULL || !f->watching) { // an ended run that is only watched: tell how it ended
        begin_session(f, json_get_text(last, "session_id"), json_int(json_get(last, "number"), 0));
    }
    return EXIT_OK;
}

// ---- what ends the stream ------------------------------------------------------------------

static int leave(struct run_follow *f)
{
    run_end_say_detached(f->chat->c, f->id, f->bot);
    return EXIT_INTERRUPTED;
}

// Returns 0 when the run is still to be followed.
static int on_signal(struct run_follow *f)
{
    assert(f->stops <= 2);
    struct out *o = &f->chat->c->out;
    int signum = interrupt_take();
    out_resume(o);
    if (signum == SIGHUP) {
        return EXIT_INTERRUPTED;
    }
    view_settle(&f->chat->view);
    if (f->watching || f->stops == 2) {
        return leave(f);
    }
    bool force = f->stops++ != 0;
    out_note(o, force ? "ending the run at once" : "ending the run; Ctrl-C again ends it at once");
    int rc = tell_run(f, OP_RUN_STOP, (struct ask_param){"force", force ? "true" : NULL});
    (void)rc; // said; what comes of it comes as an event
    return EXIT_OK;
}

static int on_lost(struct run_follow *f, const struct err *e)
{
    struct out *o = &f->chat->c->out;
    bool more = chat__adds_to_lost(e);
    view_settle(&f->chat->view);
    out_error(o, "lost the connection to the hub during the run%s%s", more ? ": " : "",
              more ? e->msg : "");
    out_hint(o, "look: afloat runs show %s", f->id);
    out_hint(o, "resume: afloat run %s --resume %s", f->bot, f->id);
    return EXIT_UNREACHABLE;
}

// Returns the exit code, 0 to continue.
static int judge(struct run_follow *f, int rc, const struct client_answer *a, const struct err *e)
{
    struct cli *c = f->chat->c;
    if (chat__is_gone(f->chat)) {
        return EXIT_INTERRUPTED;
    }
    if (c->out.fault != 0 && c->out.fault != EINTR) {
        run_end_say_detached(c, f->id, f->bot);
        return EXIT_FAILED;
    }
    if (rc == -EINTR || interrupt_seen() != 0) {
        return on_signal(f);
    }
    if (rc == 0 && a->status / 100 != 2) {
        return ask_problem(c, a);
    }
    return rc == -ECANCELED ? EXIT_OK : on_lost(f, e);
}

int follow__run(struct run_follow *f)
{
    assert(f->id[0] != '\0' && f->end == NULL);
    int code = EXIT_OK;
    f->chat->run = f;
    while (code == EXIT_OK && (f->end == NULL || f->chat->id[0] != '\0')) {
        struct client_answer a;
        struct err e = {0};
        if (f->look) {
            code = look(f);
            continue;
        }
        client_answer_init(&a);
        int rc = stream(f, &a, &e);
        code = judge(f, rc, &a, &e);
        client_answer_fini(&a);
    }
    view_settle(&f->chat->view);
    return code;
}
