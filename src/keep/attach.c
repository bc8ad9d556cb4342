// A terminal of a keeper, on the user's own.
//
//     keys ── detach key twice? ──> keeper            screen, output ──> stdout as they come
//
// The connection goes to the keeper itself: what happens to the hub does not matter here. Output is written
// with plain writes: while the terminal takes none we wait, and the keeper holds the program back.

#include "keep/attach.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sock.h"
#include "keep/chan.h"
#include "loop/signal.h"
#include "pty/tty.h"
#include "vt/vt.h"

struct attach {
    struct loop loop;
    struct chan *chan;
    struct signal_watch *size;
    uv_poll_t keys;
    int tty; // of our own
    int detach;
    bool once; // the detach key was pressed, and nothing since
    bool over;
    struct attach_end *end;
};

static void stop(struct attach *a)
{
    if (!a->over) {
        a->over = true;
        loop_stop(&a->loop);
    }
}

static void show(struct str bytes)
{
    (void)!path_write_fd(STDOUT_FILENO, bytes); // a terminal that is gone: reading it says so
}

// ---- the keeper ----------------------------------------------------------------------------

static void on_msg(struct chan *c, const struct wire_msg *m, void *arg)
{
    struct attach *a = arg;
    struct str p = m->payload;
    uint64_t status;
    (void)c;
    if (m->type == WIRE_SNAPSHOT && p.n >= 12) {
        show(str_from(p, 12));
    } else if (m->type == WIRE_OUTPUT && p.n >= 8) {
        show(str_from(p, 8));
    } else if (m->type == WIRE_EXIT && wire_get(&p, 4, &status)) {
        a->end->ended = true;
        a->end->status = (int)status;
        stop(a);
    } else if (m->type == WIRE_REFUSED) {
        snprintf(a->end->why, sizeof a->end->why, STR_FMT, (int)MIN(p.n, 190), p.p);
        stop(a);
    }
}

static void on_end(struct chan *c, void *arg)
{
    (void)c;
    stop(arg);
}

static void on_size(int signum, void *arg)
{
    struct attach *a = arg;
    struct winsize w = tty_size(STDIN_FILENO);
    (void)signum;
    chan_resize(a->chan, w.ws_row, w.ws_col);
}

// ---- keys ----------------------------------------------------------------------------------

/// The first press is kept back until we know whether a second follows.
static void type(struct attach *a, struct str keys)
{
    struct buf out = {.max = SIZE_MAX};
    for (size_t i = 0; i < keys.n && !a->end->detached; i++) {
        bool detach = keys.p[i] == (char)a->detach;
        if (detach && a->once) {
            a->end->detached = true;
        } else if (detach) {
            a->once = true;
        } else {
            if (a->once) {
                buf_addc(&out, (char)a->detach);
            }
            a->once = false;
            buf_addc(&out, keys.p[i]);
        }
    }
    if (out.n != 0) {
        chan_send(a->chan, WIRE_INPUT, buf_str(&out), STR_NULL);
    }
    buf_fini(&out);
    if (a->end->detached) {
        stop(a);
    }
}

static void on_keys(uv_poll_t *p, int status, int events)
{
    struct attach *a = p->data;
    char bytes[4096];
    ssize_t n = read(a->tty, bytes, sizeof bytes);
    (void)status;
    (void)events;
    if (n > 0) {
        type(a, (struct str){bytes, (size_t)n});
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        a->end->detached = true; // our terminal is gone
        stop(a);
    }
}

// ---- life ----------------------------------------------------------------------------------

static int begin(struct attach *a, const char *socket, struct err *e)
{
    static const struct chan_cb cb = {.on_msg = on_msg, .on_end = on_end};
    int fd = sock_connect(socket, e);
    if (fd < 0) {
        return fd;
    }
    int rc = chan_open(&a->chan, &a->loop, fd, WIRE_FROM_KEEPER, &cb, a, e);
    if (rc == 0) {
        rc = a->tty = tty_reopen(STDIN_FILENO, e);
    }
    if (rc >= 0) {
        struct buf farewell = {.max = TTY_FAREWELL_MAX};
        vt_reset_modes(&farewell);
        tty_set_farewell(buf_str(&farewell));
        buf_fini(&farewell);
        rc = tty_take(STDIN_FILENO, TTY_RAW, e);
    }
    if (rc == 0) {
        rc = signal_open(&a->size, &a->loop, SIGWINCH, on_size, a, e);
    }
    if (rc == 0 && (rc = uv_poll_init(&a->loop.uv, &a->keys, a->tty)) < 0) {
        return err_set(e, rc, "cannot wait for keys: %s", uv_strerror(rc));
    }
    if (rc == 0) {
        a->keys.data = a;
        uv_poll_start(&a->keys, UV_READABLE, on_keys);
        struct winsize w = tty_size(STDIN_FILENO);
        chan_attach(a->chan, -1, 0, w.ws_row, w.ws_col);
    }
    return rc;
}

static void finish(struct attach *a)
{
    struct err e;
    if (a->tty > 0) { // else nothing was shown
        char below[32];
        tty_give_back();
        snprintf(below, sizeof below, "\033[%d;1H\r\n", tty_size(STDIN_FILENO).ws_row);
        show(str_of(below));
    }
    if (a->keys.data != NULL) {
        uv_close((uv_handle_t *)&a->keys, NULL);
    }
    signal_close(a->size);
    chan_close(a->chan);
    if (loop_close(&a->loop, &e) < 0) {
        abort(); // all was closed
    }
    if (a->tty > 0) {
        close(a->tty);
    }
}

int attach_run(const char *socket, int detach, struct attach_end *out, struct err *e)
{
    struct attach a = {.detach = detach, .end = out};
    assert(detach > 0 && detach < 32);
    *out = (struct attach_end){0};
    int rc = loop_init(&a.loop, NULL, e);
    if (rc < 0) {
        return rc;
    }
    rc = begin(&a, socket, e);
    if (rc == 0) {
        loop_run(&a.loop);
    }
    finish(&a);
    return rc;
}
