// One moving line below lines that stay.
//
// It is drawn with a carriage return and "erase to the end of the line", and never wraps, so that it can
// be taken away again without knowing where on the screen it is.

#include "shell/progress.h"

#include <assert.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "base/visible.h"
#include "pty/tty.h"
#include "term/text.h"

enum { TICK_MS = 100, SHOW_AFTER_MS = 150 };

static const char *const frames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};

static void put(const struct buf *b)
{
    (void)!path_write_fd(STDERR_FILENO, buf_str(b)); // stderr is the last place to report to
}

static uint64_t elapsed_ms(const struct progress *p)
{
    return (time_mono_ns() - p->since_ns) / 1000000;
}

/// A step that ends within SHOW_AFTER_MS is not shown at all.
static void draw(const struct progress *p, struct buf *b)
{
    if (!p->live || p->text == NULL || elapsed_ms(p) < SHOW_AFTER_MS) {
        return;
    }
    struct winsize w = tty_size(STDERR_FILENO);
    size_t room = w.ws_col > 20 ? (size_t)w.ws_col - 12 : 8;
    buf_addf(b, "\r\033[K%s ", frames[p->frame % ARRAY_LEN(frames)]);
    text_add_cut(b, str_of(p->text), room);
    buf_addf(b, " %.1f s", (double)elapsed_ms(p) / 1000);
}

static void erase(const struct progress *p, struct buf *b)
{
    if (p->live && p->text != NULL && elapsed_ms(p) >= SHOW_AFTER_MS) {
        buf_addz(b, "\r\033[K");
    }
}

static void on_tick(void *arg)
{
    struct progress *p = arg;
    struct buf b = {.max = SIZE_MAX};
    assert(p->live && p->text != NULL); // progress_set() stops the timer
    p->frame++;
    draw(p, &b);
    put(&b);
    buf_fini(&b);
    timer_start(&p->tick, TICK_MS);
}

void progress_init(struct progress *p, struct loop *l, bool terminal, bool quiet)
{
    *p = (struct progress){.live = terminal && !quiet, .quiet = quiet, .since_ns = time_mono_ns()};
    timer_init(&p->tick, l, on_tick, p);
}

void progress_set(struct progress *p, const char *text)
{
    struct buf b = {.max = SIZE_MAX};
    struct buf shown = {.max = SIZE_MAX};
    erase(p, &b);
    free(p->text);
    visible_add(&shown, str_of(text), false); // a task's name is the project's
    p->text = text != NULL ? buf_take(&shown, NULL) : NULL;
    buf_fini(&shown);
    draw(p, &b);
    put(&b);
    buf_fini(&b);
    if (p->live && text != NULL) {
        timer_start(&p->tick, TICK_MS);
    } else {
        timer_stop(&p->tick);
    }
}

void progress_line(struct progress *p, struct str line)
{
    struct buf b = {.max = SIZE_MAX};
    if (p->quiet) {
        return;
    }
    erase(p, &b);
    visible_add(&b, line, true);
    buf_addc(&b, '\n');
    draw(p, &b);
    put(&b);
    buf_fini(&b);
}

void progress_fini(struct progress *p)
{
    progress_set(p, NULL);
}
