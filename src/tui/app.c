// The interface as a whole: its parts opened and closed, and frames.
//
// A frame is: run the layout if something changed that it sees, arrange its tree, draw it, write the difference. Keys ask
// for one at once; all else for one at most every 16 ms. When the layout fails, the last tree is drawn on,
// at the window's size, with the fault in the last row.

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/time.h"
#include "loop/signal.h"
#include "tui/tui.h"
#include "tui/tui_int.h"

enum { FRAME_MS = 16, NOTE_MS = 6000, MS = 1000000 };

// ---- frames --------------------------------------------------------------------------------

static void run_layout(struct tui *t)
{
    struct arena *next = &t->tree_in[!t->tree_at];
    struct ui_fault fault;
    struct node *tree;
    t->layout_due = false;
    talk__update(t);
    arena_fini(next);
    if (ui__render(t->ui, next, &tree, &fault) == 0) {
        t->tree = tree;
        t->tree_at = !t->tree_at;
        return;
    }
    snprintf(t->error, sizeof t->error, "%s", fault.text);
    if (fault.slow) {
        sources__reject(t, &fault); // it would be stopped again in every frame
    }
}

// A fault in the interface's files is shown over whatever the layout draws.
static void draw_error(struct tui *t)
{
    struct cells *g = &t->screen.next;
    struct rect row = {g->rows - 1, 0, 1, g->cols};
    struct style style = {.fg = STYLE_INDEX(15), .bg = STYLE_INDEX(1), .attrs = STYLE_BOLD};
    if (t->error[0] != '\0') {
        cells_fill(g, row, style);
        draw__cut(t, row, 1, str_of(t->error), style);
    }
}

static void draw(struct tui *t)
{
    cells_clear(&t->screen.next);
    node__arrange(t, t->screen.next.rows, t->screen.next.cols);
    vec_foreach (n, &t->nodes) {
        if ((*n)->popup) {
            t->screen.next.cursor_shown = false; // of what is below
        }
        if ((*n)->at.rows > 0 && (*n)->at.cols > 0) {
            draw__node(t, *n);
        }
    }
    draw_error(t);
}

// Keys that come in one piece each find the screen as the key before left it: what is typed after Ctrl+P is for the
// palette.
void app__settle(struct tui *t)
{
    if (t->ui == NULL || t->tree == NULL) {
        return;
    }
    if (t->focus_by != 0) {
        input__move(t, t->focus_by);
        t->focus_by = 0;
    }
    if (t->layout_due) {
        run_layout(t);
        node__arrange(t, t->screen.next.rows, t->screen.next.cols);
    }
}

static void frame(struct tui *t)
{
    if (t->ui == NULL || t->over || !screen__is_ready(t)) {
        return; // the first build, or a terminal that has taken all, asks again
    }
    app__settle(t);
    if (t->tree == NULL) {
        run_layout(t);
    }
    t->draw_due = false;
    t->drawn_ns = time_mono_ns();
    t->frame++;
    if (t->tree != NULL) {
        draw(t);
        terminal__sweep(t, false);
        screen__show(t);
    }
}

static void on_soon(void *arg)
{
    frame(arg);
}

void app__changed(struct tui *t, bool layout)
{
    uint64_t past = (time_mono_ns() - t->drawn_ns) / MS;
    t->layout_due = t->layout_due || layout;
    t->draw_due = true;
    if (!timer_running(&t->soon) && !t->over) {
        timer_start(&t->soon, past < FRAME_MS ? FRAME_MS - past : 0);
    }
}

void app__hurry(struct tui *t)
{
    if ((t->layout_due || t->draw_due) && !t->over) {
        timer_start(&t->soon, 0);
    }
}

// ---- notes, the end ------------------------------------------------------------------------

static void on_note_over(void *arg)
{
    struct tui *t = arg;
    t->note[0] = '\0';
    app__changed(t, true);
}

void app__note(struct tui *t, struct str text, const char *style)
{
    struct style s;
    struct err e;
    struct json v = {.type = JSON_STR, .s = str_of(style)};
    bool known = node__style(&s, &v, (struct style){0}, &e) == 0;
    struct str line = str_cut(&text, '\n');
    snprintf(t->note, sizeof t->note, STR_FMT, STR_ARG(line));
    snprintf(t->note_style, sizeof t->note_style, "%s", known ? style : "");
    timer_start(&t->note_over, NOTE_MS);
    app__changed(t, true);
}

void app__quit(struct tui *t, int status)
{
    t->over = true;
    t->status = status;
    loop_stop(&t->loop);
}

static void on_signal(int signum, void *arg)
{
    struct tui *t = arg;
    if (signum != SIGWINCH) {
        app__quit(t, signum == SIGHUP ? -EIO : 0);
    } else if (screen__take_size(t)) {
        app__changed(t, true);
    }
}

// ---- life ----------------------------------------------------------------------------------

static void close_all(struct tui *t)
{
    terminal__sweep(t, true);
    talk__fini(t);
    model__close(t);
    sources__close(t);
    ui__free(t->ui);
    vec_fini_each(&t->old, ui__free);
    timer_stop(&t->soon);
    timer_stop(&t->note_over);
    kept__fini(t);
    vec_fini(&t->nodes);
    arena_fini(&t->tree_in[0]);
    arena_fini(&t->tree_in[1]);
}

static int run(struct tui *t, struct err *e)
{
    static const int signals[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP};
    struct signal_watch *watches[ARRAY_LEN(signals)] = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(signals); i++) {
        rc = signal_open(&watches[i], &t->loop, signals[i], on_signal, t, e);
    }
    rc = rc == 0 ? screen__open(t, e) : rc;
    if (rc == 0) {
        talk__init(t);
        sources__open(t);
        model__open(t);
        while (!t->over && loop_run(&t->loop)) {
        }
        close_all(t);
        rc = t->status;
        rc = rc < 0 ? err_set(e, rc, "the terminal is gone") : 0;
    }
    screen__close(t);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        signal_close(watches[i]);
    }
    return rc;
}

int tui_run(const struct tui_opts *o, struct err *e)
{
    struct tui *t = xcalloc(1, sizeof *t);
    t->o = o;
    t->hub = (struct client_peer){.socket = o->home->socket};
    t->screen.fd = -1;
    int rc = loop_init(&t->loop, NULL, e);
    if (rc == 0) {
        timer_init(&t->soon, &t->loop, on_soon, t);
        timer_init(&t->note_over, &t->loop, on_note_over, t);
        rc = run(t, e);
        while (loop_close(&t->loop, NULL) < 0) { // threads that read files have to end
            loop_run_once(&t->loop, true);
        }
    }
    free(t);
    return rc;
}
