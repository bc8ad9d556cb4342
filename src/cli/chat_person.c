// The person at the terminal: what is typed, and what is asked.
//
// The terminal is raw only while a line is being edited, and is given back before anything else
// happens; pty/tty.h sees to it on every other way out. A window that changes its size is noticed
// through a signalfd, so that it wakes the same wait as a key.
//
// A permission may only be given by somebody who has seen what is asked: what was typed before the
// question is thrown away.

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "cli/chat_int.h"
#include "client/interrupt.h"
#include "pty/tty.h"

enum { LINE_READ = 4096 };

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

// ---- a line --------------------------------------------------------------------------------

// Draw the line with edit_draw() or edit_leave().
static void draw(struct chat *t, struct edit *ed,
                 void (*how)(struct edit *ed, struct buf *out, size_t rows, size_t cols))
{
    struct winsize w = tty_size(STDIN_FILENO);
    struct buf drawn;
    buf_init(&drawn, SIZE_MAX);
    how(ed, &drawn, w.ws_row, w.ws_col);
    out_control(&t->c->out, buf_str(&drawn));
    out_flush(&t->c->out);
    buf_fini(&drawn);
}

static void take_resize(struct chat *t, struct edit *ed)
{
    struct signalfd_siginfo info;
    while (read(t->resized, &info, sizeof info) > 0) {
    }
    edit_resized(ed, tty_size(STDIN_FILENO).ws_col);
}

// Wait for keys and read them: 1, 0 when the window has changed, or a negative code.
static int read_keys(struct chat *t)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = t->resized, .events = POLLIN}};
    int rc = interrupt_wait(fds, 2, 0);
    if (rc < 0) {
        return rc;
    }
    if (fds[0].revents == 0) {
        return 0;
    }
    char *room = buf_reserve(&t->typed, LINE_READ);
    ssize_t n = room != NULL ? read(STDIN_FILENO, room, LINE_READ) : 0;
    if (n < 0 && errno == EINTR) {
        return 0;
    }
    buf_grow(&t->typed, n > 0 ? (size_t)n : 0);
    return n > 0 ? 1 : -EIO;
}

// What ends us stays to be seen by who called.
static enum chat_line on_signal(struct chat *t)
{
    if (interrupt_seen() != SIGINT) {
        return CHAT_GONE;
    }
    interrupt_take();
    out_resume(&t->c->out);
    return CHAT_INTERRUPTED;
}

static enum edit_result feed(struct chat *t, struct edit *ed)
{
    struct str rest = buf_str(&t->typed);
    enum edit_result r = edit_feed(ed, &rest);
    buf_drop(&t->typed, t->typed.n - rest.n);
    return r;
}

static int take_raw(struct chat *t)
{
    struct err e = {0};
    tty_set_farewell(str_of(paste_off));
    if (tty_take(STDIN_FILENO, TTY_RAW, &e) < 0) {
        out_error(&t->c->out, "%s", e.msg);
        return e.code;
    }
    out_control(&t->c->out, str_of(paste_on));
    return 0;
}

static void leave(struct chat *t, struct edit *ed)
{
    draw(t, ed, edit_leave);
    tty_give_back();
}

static void suspend(struct chat *t, struct edit *ed)
{
    leave(t, ed);
    kill(0, SIGTSTP);
    if (take_raw(t) == 0) {
        ed->row = 0;
    }
}

static enum chat_line edit_line(struct chat *t, struct edit *ed)
{
    static const enum chat_line lines[] = {
        [EDIT_DONE] = CHAT_LINE, [EDIT_INTERRUPT] = CHAT_INTERRUPTED, [EDIT_END] = CHAT_LEFT};
    for (;;) {
        enum edit_result r = feed(t, ed);
        if (r == EDIT_DONE || r == EDIT_INTERRUPT || r == EDIT_END) {
            return lines[r];
        }
        if (r == EDIT_SUSPEND) {
            suspend(t, ed);
        } else if (r == EDIT_CLEAR) {
            out_control(&t->c->out, STR("\033[H\033[2J"));
        }
        draw(t, ed, edit_draw);
        int rc = t->typed.n != 0 ? 1 : read_keys(t);
        if (rc == 0) {
            take_resize(t, ed);
        } else if (rc < 0) {
            return rc == -EINTR ? on_signal(t) : CHAT_GONE;
        }
    }
}

// A terminal that cannot be drawn on edits its lines itself.
static enum chat_line read_plain(struct chat *t, struct edit *ed)
{
    enum edit_result r = EDIT_MORE;
    out_add(&t->c->out, str_of(ed->prompt));
    out_flush(&t->c->out);
    while (r != EDIT_DONE) {
        int rc = t->typed.n != 0 ? 1 : read_keys(t);
        if (rc < 0) {
            return rc == -EINTR ? on_signal(t) : CHAT_LEFT;
        }
        r = feed(t, ed);
    }
    return CHAT_LINE;
}

enum chat_line chat__read_line(struct chat *t, struct edit *ed)
{
    edit_start(ed);
    if (!t->drawable) {
        return read_plain(t, ed);
    }
    if (take_raw(t) < 0) {
        return CHAT_GONE;
    }
    enum chat_line line = edit_line(t, ed);
    leave(t, ed);
    return line;
}

enum chat_line chat__ask(struct chat *t, const char *prompt)
{
    t->reply.prompt = prompt;
    out_flush(&t->c->out);
    tcflush(STDIN_FILENO, TCIFLUSH);
    buf_clear(&t->typed);
    return chat__read_line(t, &t->reply);
}

// ---- permissions ---------------------------------------------------------------------------

enum { QUESTION_LINES = 400 }; // of a diff

struct decision {
    const char *decision, *remember, *reason;
};

static int send_decision(struct chat *t, const struct decision *d)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    char *request = arena_strdup(&arena, text_of(t->asked, "request_id"));
    struct ask_param params[] = {{"id", t->id},
                                 {"request_id", request},
                                 {"decision", d->decision},
                                 {"remember", d->remember},
                                 {"reason", d->reason}};
    int code = ask_value(t->c, OP_SESSION_PERMISSION, params, ARRAY_LEN(params), &arena, &v);
    arena_fini(&arena);
    return code == EXIT_CONFLICT ? EXIT_OK : code; // somebody else has decided
}

static void print_call(struct chat *t)
{
    const struct json *call = json_get(t->asked, "call"), *args = json_get(call, "input");
    struct str cmd = text_of(args, "cmd"), diff = text_of(t->asked, "diff");
    struct buf input;
    buf_init(&input, SIZE_MAX);
    if (cmd.n != 0 && args->n == 1) { // a command is read as one
        buf_adds(&input, cmd);
    } else if (diff.n != 0) {
        buf_adds(&input, text_of(args, "path"));
    } else {
        json_write(&input, args, 0);
    }
    view_settle(&t->view);
    out_tinted(&t->c->out, OUT_YELLOW, STR("? "));
    out_tinted(&t->c->out, OUT_BOLD, text_of(call, "tool_name"));
    out_add(&t->c->out, diff.n != 0 ? STR(" wants to change: ") : STR(" wants to run: "));
    out_text(&t->c->out, buf_str(&input));
    out_add(&t->c->out, STR("\n"));
    if (str_eqz(text_of(t->asked, "by"), "sandbox")) {
        out_add(&t->c->out, STR("  this file runs outside of the sandbox\n"));
    }
    view_diff(&t->view, diff, QUESTION_LINES);
    t->view.diff_shown = diff.n != 0;
    buf_fini(&input);
}

// The letters of the answers, by what they remember.
static const struct {
    char letter;
    const char *remember;
} answers[] = {{'a', "once"}, {'e', "exact"}, {'p', "prefix"}, {'t', "tool"}, {'j', "project"}};

static const char *remember_of(const struct chat *t, char letter)
{
    json_foreach_item (o, json_get(t->asked, "offers")) {
        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
            if (answers[i].letter == letter &&
                str_eqz(text_of(o, "remember"), answers[i].remember)) {
                return answers[i].remember;
            }
        }
    }
    return NULL;
}

// What each answer covers, one a line.
static void print_offers(struct chat *t)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        json_foreach_item (o, json_get(t->asked, "offers")) {
            if (str_eqz(text_of(o, "remember"), answers[i].remember)) {
                char key[16];
                snprintf(key, sizeof key, "  [%c] ", answers[i].letter);
                out_tinted(&t->c->out, OUT_BOLD, str_of(key));
                out_add(&t->c->out, i == 0 ? STR("allow ") : STR("always allow "));
                out_text(&t->c->out, text_of(o, "covers"));
                out_add(&t->c->out, STR("\n"));
            }
        }
    }
    out_tinted(&t->c->out, OUT_BOLD, STR("  [d] "));
    out_add(&t->c->out, STR("deny; a reason for the model may follow: d REASON\n"));
}

// Nothing but a clear yes allows; whoever ends the question denies.
static enum chat_line ask_decision(struct chat *t, struct decision *d, struct arena *a)
{
    print_offers(t);
    for (;;) {
        enum chat_line line = chat__ask(t, "allow? ");
        struct str text = str_trim(edit_text(&t->reply)), word = text, reason;
        if (line != CHAT_LINE) {
            *d = (struct decision){"deny", "once", "the user gave no answer"};
            return line;
        }
        word = str_cut(&text, ' ');
        reason = str_trim(text);
        char letter = word.n == 1 ? (char)(word.p[0] | 0x20) : '\0';
        const char *remember = remember_of(t, letter);
        if (letter == 'd') {
            *d = (struct decision){"deny", "once", reason.n != 0 ? arena_strdup(a, reason) : NULL};
            return line;
        }
        if (remember != NULL && reason.n == 0) {
            *d = (struct decision){"allow", remember, NULL};
            return line;
        }
        out_note(&t->c->out, "type one of the letters above and Enter");
    }
}

static int settle_permission(struct chat *t)
{
    struct decision d = {"deny", "once", "this call needs approval, and no terminal is attached"};
    enum chat_line line = CHAT_LINE;
    struct arena arena;
    arena_init(&arena);
    if (t->person) {
        print_call(t);
        line = ask_decision(t, &d, &arena);
    } else {
        struct str tool = text_of(json_get(t->asked, "call"), "tool_name");
        out_note(&t->c->out, "denied: " STR_FMT " needs approval, and no terminal is attached",
                 STR_ARG(tool));
    }
    int code = line == CHAT_GONE ? EXIT_INTERRUPTED : send_decision(t, &d);
    arena_fini(&arena);
    if (line == CHAT_INTERRUPTED) {
        chat__interrupt(t);
    }
    return code;
}

// ---- questions -----------------------------------------------------------------------------

static void print_question(struct chat *t)
{
    unsigned n = 0;
    view_settle(&t->view);
    out_tinted(&t->c->out, OUT_YELLOW, STR("? "));
    view_text(&t->c->out, text_of(t->asked, "question"));
    json_foreach_item (choice, json_get(t->asked, "choices")) {
        out_addf(&t->c->out, "  %u. ", ++n);
        view_text(&t->c->out, json_str(choice, ""));
    }
}

// The number of a choice stands for it; any other text is the answer as it is.
static struct str answer_of(const struct chat *t, struct str typed)
{
    const struct json *choices = json_get(t->asked, "choices");
    uint64_t n;
    if (str_to_u64(typed, &n) && n > 0 && json_at(choices, (size_t)n - 1) != NULL) {
        return json_str(json_at(choices, (size_t)n - 1), "");
    }
    return typed;
}

static int send_answer(struct chat *t, struct str answer)
{
    struct arena arena;
    struct buf text;
    struct jw w;
    const struct json *v;
    arena_init(&arena);
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_str(&w, answer);
    char *question = arena_strdup(&arena, text_of(t->asked, "question_id"));
    struct ask_param params[] = {
        {"id", t->id}, {"question_id", question}, {"answer", buf_z(&text)}};
    int code = ask_value(t->c, OP_SESSION_ANSWER, params, ARRAY_LEN(params), &arena, &v);
    arena_fini(&arena);
    buf_fini(&text);
    return code == EXIT_CONFLICT ? EXIT_OK : code;
}

static int settle_question(struct chat *t)
{
    if (!t->person) {
        out_note(&t->c->out, "a question is left without an answer: nobody is at a terminal");
        return send_answer(t, STR("nobody is at a terminal to answer"));
    }
    print_question(t);
    enum chat_line line = chat__ask(t, "answer> ");
    if (line == CHAT_GONE) {
        return EXIT_INTERRUPTED;
    }
    int code = send_answer(t, line == CHAT_LINE ? answer_of(t, str_trim(edit_text(&t->reply)))
                                                : STR("the person gave no answer"));
    if (line == CHAT_INTERRUPTED) {
        chat__interrupt(t);
    }
    return code;
}

// --print: nobody decides, so the turn ends here.
static int refuse_asked(struct chat *t)
{
    const struct json *call = json_get(t->asked, "call");
    struct str tool = text_of(call, "tool_name"), question = text_of(t->asked, "question");
    struct buf input;
    buf_init(&input, SIZE_MAX);
    json_write(&input, json_get(call, "input"), 0);
    if (call != NULL) {
        out_error(&t->c->out,
                  "'" STR_FMT "' needs approval: %s; allow it with --permission, or with a rule "
                  "([[permission]] in config.toml)",
                  STR_ARG(tool), buf_z(&input));
    } else {
        out_error(&t->c->out, "the model asks '" STR_FMT "', and --print answers no questions",
                  STR_ARG(question));
    }
    buf_fini(&input);
    chat__interrupt(t);
    return EXIT_NOT_ALLOWED;
}

int chat__settle_asked(struct chat *t)
{
    bool permission = json_get(t->asked, "request_id") != NULL;
    int code = t->prints ? refuse_asked(t) : permission ? settle_permission(t) : settle_question(t);
    t->asked = NULL;
    if (t->person) {
        int rc = tty_take(STDIN_FILENO, TTY_QUIET, NULL);
        (void)rc; // in the background we only print
    }
    return code;
}

// ---- life ----------------------------------------------------------------------------------

void chat__person_init(struct chat *t)
{
    sigset_t winch;
    edit_init(&t->line, "> ");
    edit_init(&t->reply, "");
    buf_init(&t->typed, 2 * CHAT_TEXT_MAX);
    t->resized = -1;
    if (t->person) {
        sigemptyset(&winch);
        sigaddset(&winch, SIGWINCH);
        sigprocmask(SIG_BLOCK, &winch, NULL);
        t->resized = signalfd(-1, &winch, SFD_CLOEXEC | SFD_NONBLOCK);
    }
}

void chat__person_fini(struct chat *t)
{
    edit_fini(&t->line);
    edit_fini(&t->reply);
    buf_fini(&t->typed);
    if (t->resized >= 0) {
        close(t->resized);
    }
}
