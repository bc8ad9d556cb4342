// The rows at the end of the screen: drawing them, and the keys that go there.
//
//     | the block that the model writes, or the end of what a tool prints |  view_tail()
//     | ⠹ thinking · 3 s ...                                              |  gauge_work_line()
//     | queued: ...                                                       |
//     | > input_                                                          |
//     | /model  /memory                                                   |  what Tab offers
//     | ask · scripted/demo · ~/src ...                                   |  face_status()
//
// They are there all the time, also while a turn runs: then keys are read in between the events, see
// chat__watch(). Everything that is printed goes above them (out_frame()).
//
// The terminal is in TTY_KEYS mode from chat__screen_begin() to chat__screen_end(); pty/tty.h sees to
// it on every other way out. A window that changes its size is noticed through a signalfd, so that it
// wakes the same wait as a key.

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/time.h"
#include "base/visible.h"
#include "chat/chat_int.h"
#include "client/interrupt.h"
#include "pty/tty.h"
#include "term/text.h"

enum { LINE_READ = 64 << 10, MS = 1000000 };
enum {
    FRAME_NS = 20 * MS,
    TICK_NS = 100 * MS,
    ESC_NS = 40 * MS,
    HOLD_NS = 300 * MS,
    LOOK_NS = 500 * MS
};

// bracketed paste, focus, kitty's keys; and back, with what a frame that was cut short has left
static const char modes_on[] = "\033[?2004h\033[?1004h\033[>1u";
static const char modes_off[] = "\033[?2004l\033[?1004l\033[<u\033[?2026l\033[?7h\033[0m\r\033[J";
static const char frame_off[] = "\033[?2026l\033[?7h\033[0m\r\033[J";

// ---- the screen ----------------------------------------------------------------------------

static int take_keys(struct chat *t)
{
    struct err e = {0};
    if (tty_take(STDIN_FILENO, TTY_KEYS, &e) < 0) {
        return e.code;
    }
    tty_set_farewell(str_of(modes_off));
    out_control(&t->c->out, str_of(modes_on));
    t->watch.fds[0].fd = STDIN_FILENO;
    return 0;
}

// Typed characters are not shown, and stay for the program that reads the terminal next.
static void take_quiet(struct chat *t)
{
    int rc = tty_take(STDIN_FILENO, TTY_QUIET, NULL);
    (void)rc; // in the background we only print
    tty_set_farewell(t->drawable ? str_of(frame_off) : STR_NULL);
    t->watch.fds[0].fd = -1;
}

void chat__screen_begin(struct chat *t)
{
    if (t->drawable && t->input != NULL) {
        int rc = take_keys(t);
        (void)rc; // in the background we only print
    } else if (t->drawable && t->person) {
        take_quiet(t);
    }
    if (t->drawable) {
        out_begin(&t->c->out);
    }
}

void chat__screen_end(struct chat *t)
{
    if (t->c->out.drawing) {
        out_end(&t->c->out);
        tty_give_back();
    }
}

static void suspend(struct chat *t)
{
    chat__screen_end(t);
    kill(0, SIGTSTP);
    chat__screen_begin(t);
}

// A window that is being dragged changes many times, and we hear of it late: tmux, for one, tells of the
// next change a quarter of a second after the last. What is drawn meanwhile is drawn for a window that is
// not there any more, so nothing is.
static void take_resizes(struct chat *t)
{
    struct signalfd_siginfo info;
    while (t->resized >= 0 && read(t->resized, &info, sizeof info) > 0) {
        t->hold_ns = time_mono_ns() + HOLD_NS;
        t->dirty = true;
        out_resized(&t->c->out);
    }
}

// ---- drawing -------------------------------------------------------------------------------

static void add_queue(struct chat *t, struct buf *lines, size_t cols)
{
    enum color_depth color = t->c->out.color;
    vec_foreach (q, &t->queue) {
        struct buf text = {.max = SIZE_MAX};
        buf_addz(&text, "queued: ");
        visible_add(&text, str_of(q->text), false);
        buf_addz(lines, color_on(color, COLOR_DIM));
        text_add_cut(lines, buf_str(&text), cols);
        buf_addf(lines, "%s\n", color_off(color));
        buf_fini(&text);
    }
}

// Rows below and above the input, as many as the window has room for.
struct rows {
    struct buf above, input, below;
    struct edit_place cursor;
};

static const char *prompt_of(const struct chat *t)
{
    return t->prompt != NULL ? t->prompt : face_prompt(t->face);
}

// Ask the files of the face for their texts; a fault is told before anything is drawn.
static void update_face(struct chat *t, size_t cols)
{
    struct buf fault = {.max = SIZE_MAX};
    t->looked_ns = time_mono_ns();
    if (face_update(t->face, &t->gauge, cols, &fault)) {
        out_note(&t->c->out, "%s; the last good one counts", buf_z(&fault));
    }
    buf_fini(&fault);
}

static void add_input(struct chat *t, struct rows *r, struct winsize w)
{
    if (t->input != NULL) {
        r->cursor = edit_lines(t->input, &r->input, prompt_of(t), MAX(w.ws_row / 3u, 1), w.ws_col);
        chat__menu_lines(t, &r->below, w.ws_col);
        if (w.ws_row > 4) {
            face_status(t->face, &r->below, w.ws_col, t->c->out.color);
        }
    } else {
        buf_addc(&r->input, '\n'); // no input: only the cursor
    }
}

static void draw(struct chat *t)
{
    struct winsize w = tty_size(STDOUT_FILENO);
    struct rows r = {0};
    struct buf work = {.max = SIZE_MAX};
    if (!t->c->out.drawing || time_mono_ns() < t->hold_ns) {
        return;
    }
    buf_init(&r.above, SIZE_MAX);
    buf_init(&r.input, SIZE_MAX);
    buf_init(&r.below, SIZE_MAX);
    update_face(t, w.ws_col);
    gauge_work_line(&t->gauge, &work, w.ws_col, t->c->out.color);
    add_queue(t, &work, w.ws_col);
    add_input(t, &r, w);
    size_t fixed =
        str_lines(buf_str(&work)) + str_lines(buf_str(&r.input)) + str_lines(buf_str(&r.below));
    size_t room = w.ws_row > fixed + 1 ? w.ws_row - fixed - 1 : 0;
    view_tail(&t->view, &r.above, MIN(room, w.ws_row * 2u / 3));
    buf_adds(&r.above, buf_str(&work));
    size_t row = str_lines(buf_str(&r.above)) + r.cursor.row;
    buf_adds(&r.above, buf_str(&r.input));
    buf_adds(&r.above, buf_str(&r.below));
    out_frame(&t->c->out, buf_str(&r.above), row, r.cursor.col);
    buf_fini(&r.above);
    buf_fini(&r.input);
    buf_fini(&r.below);
    buf_fini(&work);
    t->drawn_ns = time_mono_ns();
    t->dirty = false;
}

// ---- keys ----------------------------------------------------------------------------------

// Read what was typed: false when the terminal is gone.
static bool read_keys(struct chat *t)
{
    char *room = buf_reserve(&t->typed, LINE_READ);
    ssize_t n = room != NULL ? read(STDIN_FILENO, room, LINE_READ) : 0;
    buf_grow(&t->typed, n > 0 ? (size_t)n : 0);
    t->typed_ns = time_mono_ns();
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static bool is_key(const struct key *k, enum key_code code, unsigned mods)
{
    return k->code == code && k->mods == mods;
}

// Keys of the chat itself, which the editor does not know.
static enum chat_input press(struct chat *t, const struct key *k)
{
    assert(t->input != NULL);
    bool busy = t->gauge.work != GAUGE_IDLE;
    if (k->code == KEY_FOCUS_IN || k->code == KEY_FOCUS_OUT) {
        t->unfocused = k->code == KEY_FOCUS_OUT;
    } else if (is_key(k, KEY_TAB, KEY_SHIFT) && t->input == &t->line) {
        chat__next_permission(t);
    } else if (k->code == KEY_CHAR && k->mods == KEY_CTRL && k->cp == 'o') {
        t->view.open = !t->view.open;
    } else if (is_key(k, KEY_ESC, 0) && !t->input->searching) {
        menu_close(&t->menu);
        return INPUT_ESCAPE;
    } else if (is_key(k, KEY_ENTER, KEY_ALT) && busy && t->input == &t->line) {
        return INPUT_QUEUE;
    } else {
        return INPUT_MORE;
    }
    return INPUT_USED;
}

static enum chat_input edit(struct chat *t, const struct key *k)
{
    assert(t->input != NULL);
    enum edit_result r = edit_key(t->input, k);
    if (r == EDIT_COMPLETE) {
        chat__complete(t);
        return INPUT_MORE;
    }
    menu_close(&t->menu);
    if (r == EDIT_SUSPEND) {
        suspend(t);
    } else if (r == EDIT_CLEAR) {
        out_end(&t->c->out);
        out_control(&t->c->out, STR("\033[H\033[2J"));
        out_begin(&t->c->out);
    }
    return r == EDIT_DONE        ? INPUT_ENTER
           : r == EDIT_INTERRUPT ? INPUT_INTERRUPT
           : r == EDIT_END       ? INPUT_END
                                 : INPUT_MORE;
}

/// Use what was typed, up to a key that asks for something.
static enum chat_input use_keys(struct chat *t)
{
    enum chat_input result = INPUT_MORE;
    struct str rest = buf_str(&t->typed);
    struct key key;
    size_t before = rest.n;
    bool late = keys_waits(&t->keys) && time_mono_ns() >= t->typed_ns + ESC_NS && rest.n == 0;
    while (result == INPUT_MORE && (late || keys_next(&t->keys, &rest, &key))) {
        if (late) {
            keys_timeout(&t->keys, &key);
            late = false;
        }
        result = press(t, &key);
        result = result == INPUT_MORE ? edit(t, &key) : result;
        result = result == INPUT_USED ? INPUT_MORE : result;
    }
    buf_drop(&t->typed, before - rest.n);
    return result;
}

// ---- waiting -------------------------------------------------------------------------------

// When something has to be done though nothing comes: a frame, the next look of the spinner, a lone Esc.
static uint64_t next_due(const struct chat *t)
{
    uint64_t due = UINT64_MAX;
    if (t->c->out.drawing && t->dirty) {
        due = MIN(due, t->drawn_ns + FRAME_NS);
    }
    if (t->c->out.drawing && t->gauge.work != GAUGE_IDLE) {
        due = MIN(due, t->drawn_ns + TICK_NS);
    }
    if (t->c->out.drawing && t->input != NULL) {
        due = MIN(due, t->looked_ns + LOOK_NS);
    }
    due = due != UINT64_MAX ? MAX(due, t->hold_ns) : due;
    if (keys_waits(&t->keys)) {
        due = MIN(due, t->typed_ns + ESC_NS);
    }
    return due != UINT64_MAX ? due : 0;
}

static int on_watch(struct client_watch *w)
{
    struct chat *t = container_of(w, struct chat, watch);
    bool quiet = w->fds[0].revents == 0 && w->fds[1].revents == 0 && !t->dirty &&
                 t->gauge.work == GAUGE_IDLE && t->typed.n == 0 && !keys_waits(&t->keys) &&
                 t->looked_ns != 0 && time_mono_ns() >= t->looked_ns + LOOK_NS;
    if (w->fds[0].revents != 0 && !read_keys(t)) {
        w->fds[0].fd = -1;
        raise(SIGHUP); // the terminal is gone, whether or not we are told so
    }
    if (w->fds[1].revents != 0) {
        take_resizes(t);
    }
    int stop = 0;
    if (t->input != NULL && (t->typed.n != 0 || keys_waits(&t->keys))) {
        for (enum chat_input in; stop == 0 && (in = use_keys(t)) != INPUT_MORE;) {
            stop = t->on_input(t, in);
        }
    }
    if (quiet && !face_is_stale(t->face)) {
        t->looked_ns = time_mono_ns(); // it was only to look
    } else {
        draw(t);
    }
    w->due_ns = next_due(t);
    return stop;
}

struct client_watch *chat__watch(struct chat *t, chat_on_input *on_input)
{
    assert(on_input != NULL);
    t->on_input = on_input;
    t->dirty = true;
    t->watch.run = on_watch;
    t->watch.due_ns =
        t->c->out.drawing ? time_mono_ns() : 0; // what was typed before is looked at first
    return &t->watch;
}

void chat__changed(struct chat *t)
{
    t->dirty = true;
    t->watch.due_ns = next_due(t);
}

// ---- a line --------------------------------------------------------------------------------

// SIGINT is taken; a signal that ends us stays for the caller to see.
static enum chat_line on_signal(struct chat *t)
{
    if (interrupt_seen() != SIGINT) {
        return CHAT_GONE;
    }
    interrupt_take();
    t->signalled = true;
    out_resume(&t->c->out);
    return CHAT_INTERRUPTED;
}

static int end_line(struct chat *t, enum chat_input in)
{
    static const enum chat_line lines[] = {[INPUT_ENTER] = CHAT_LINE,
                                           [INPUT_QUEUE] = CHAT_LINE,
                                           [INPUT_INTERRUPT] = CHAT_INTERRUPTED,
                                           [INPUT_END] = CHAT_LEFT};
    t->signalled = t->signalled || in == INPUT_INTERRUPT;
    if (in == INPUT_ESCAPE) { // ends a question; at the prompt there is nothing to interrupt
        t->line_end = t->input == &t->reply ? CHAT_INTERRUPTED : CHAT_NONE;
    } else {
        t->line_end = lines[in];
    }
    return t->line_end != CHAT_NONE ? -ECANCELED : 0;
}

static enum chat_line edit_line(struct chat *t)
{
    t->line_end = CHAT_NONE;
    int rc = chat__wait_for_line(t, chat__watch(t, end_line));
    return rc < 0 ? on_signal(t) : t->line_end;
}

// A terminal that cannot be drawn on edits its lines itself.
static enum chat_line read_plain(struct chat *t)
{
    update_face(t, tty_size(STDOUT_FILENO).ws_col);
    chat__news_so_far(t);
    out_add(&t->c->out, str_of(prompt_of(t)));
    out_flush(&t->c->out);
    for (;;) {
        ptrdiff_t end = str_index(buf_str(&t->typed), '\n');
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (end >= 0) {
            struct key line = {.code = KEY_PASTE, .text = {t->typed.p, (size_t)end}};
            edit_key(t->input, &line);
            buf_drop(&t->typed, (size_t)end + 1);
            return CHAT_LINE;
        }
        if (interrupt_wait(&in, 1, 0) < 0) {
            return on_signal(t);
        }
        if (!read_keys(t)) {
            return CHAT_LEFT;
        }
    }
}

void chat__print_line(struct chat *t, const char *prompt, struct str text)
{
    assert(prompt != NULL);
    struct out *o = &t->c->out;
    int indent = (int)text_width(str_of(prompt));
    out_tinted(o, OUT_BOLD, str_of(prompt));
    for (bool first = true; first || text.n != 0; first = false) {
        out_addf(o, "%*s", first ? 0 : indent, "");
        for (struct str line = str_cut(&text, '\n'); line.n != 0;) {
            bool tab = str_index(line, '\t') >= 0;
            out_text(o, str_cut(&line, '\t'));
            out_add(o, tab ? STR("    ") : STR(""));
        }
        out_add(o, STR("\n"));
    }
}

bool chat__is_gone(const struct chat *t)
{
    return t->c->out.terminal && t->c->out.fault == EIO;
}

enum chat_line chat__read_line(struct chat *t)
{
    bool plain = !t->c->out.drawing;
    enum chat_line line = plain ? read_plain(t) : edit_line(t);
    if (line == CHAT_LINE && !plain) {
        chat__print_line(t, prompt_of(t), edit_text(t->input));
    }
    return line;
}

enum chat_line chat__ask(struct chat *t, const char *prompt)
{
    struct edit *before = t->input;
    const char *was = t->prompt;
    if (t->c->out.drawing && before == NULL) {
        int rc = take_keys(t);
        (void)rc; // then nothing can be typed, and the wait ends with the terminal
    }
    t->input = &t->reply;
    t->prompt = prompt;
    edit_start(&t->reply);
    out_flush(&t->c->out);
    tcflush(STDIN_FILENO, TCIFLUSH);
    buf_clear(&t->typed);
    t->keys = (struct keys){0};
    enum chat_line line = chat__read_line(t);
    t->input = before;
    t->prompt = was;
    if (t->c->out.drawing && before == NULL) {
        out_control(&t->c->out, STR("\033[?2004l\033[?1004l\033[<u"));
        take_quiet(t);
    }
    return line;
}

// ---- notices -------------------------------------------------------------------------------

void chat__notify(struct chat *t, const char *what)
{
    struct buf notice = {.max = SIZE_MAX};
    if (!t->unfocused || !t->c->out.drawing) {
        return;
    }
    out_add_notice(&notice, what);
    out_control(&t->c->out, buf_str(&notice));
    buf_fini(&notice);
}

// ---- life ----------------------------------------------------------------------------------

void chat__person_init(struct chat *t, bool typing)
{
    sigset_t winch;
    edit_init(&t->line);
    edit_init(&t->reply);
    edit_start(&t->line);
    buf_init(&t->typed, 2 * CHAT_TEXT_MAX);
    buf_init(&t->ran, SIZE_MAX);
    gauge_init(&t->gauge);
    t->resized = -1;
    t->input = t->person && typing ? &t->line : NULL;
    t->face = face_new(t->c->home.dir, getenv("HOME"));
    if (t->drawable) {
        sigemptyset(&winch);
        sigaddset(&winch, SIGWINCH);
        sigprocmask(SIG_BLOCK, &winch, NULL);
        t->resized = signalfd(-1, &winch, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    t->watch = (struct client_watch){
        .fds = {{.fd = -1, .events = POLLIN}, {.fd = t->resized, .events = POLLIN}}};
}

void chat__person_fini(struct chat *t)
{
    menu_close(&t->menu);
    vec_foreach (q, &t->queue) {
        free(q->text);
    }
    vec_fini(&t->queue);
    free(t->history);
    edit_fini(&t->line);
    edit_fini(&t->reply);
    buf_fini(&t->typed);
    buf_fini(&t->ran);
    face_free(t->face);
    if (t->resized >= 0) {
        close(t->resized);
    }
}
