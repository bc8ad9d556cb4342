// A terminal of a keeper, on the user's own.
//
//     keys ── detach key twice? ──> keeper            screen, output ──> stdout as they come
//
// The connection goes to the keeper itself: what happens to the hub does not matter here. Output is written
// with plain writes: while the terminal takes none we wait, and the keeper holds the program back.

#include "cli/pty_attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "client/travel.h"
#include "config/config.h"
#include "keep/chan.h"
#include "keep/sock.h"
#include "loop/signal.h"
#include "pty/tty.h"
#include "vt/vt.h"

enum { KEY_NONE = -1, STATUS_LOST = 1, HISTORY_ROWS = 0 };

// Written when we end in whatever way; at most 128 bytes.
#define FAREWELL                                                                                   \
    "\033[?1049l\033[r\033[?1l\033[?7h\033[?25h\033[?1000l\033[?1002l\033[?1003l\033[?1006l"       \
    "\033[?2004l\033[m\033>"

struct attach {
    struct loop loop;
    struct chan *chan;
    struct signal_watch *size;
    uv_poll_t keys;
    int tty; // of our own
    int detach;
    bool once; // the detach key was pressed, and nothing since
    bool detached, ended, over;
    int status;
    char why[200];
};

static void stop(struct attach *a)
{
    if (!a->over) {
        a->over = true;
        loop_stop(&a->loop);
    }
}

static void write_all(struct str bytes)
{
    while (bytes.n != 0) {
        ssize_t n = write(STDOUT_FILENO, bytes.p, bytes.n);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&p, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return; // the terminal is gone: reading it says so
        }
        bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
    }
}

// ---- the keeper ----------------------------------------------------------------------------

static void on_msg(struct chan *c, const struct wire_msg *m, void *arg)
{
    struct attach *a = arg;
    struct str p = m->payload;
    uint64_t status;
    (void)c;
    if (m->type == WIRE_SNAPSHOT && p.n >= 12) {
        write_all(str_from(p, 12));
    } else if (m->type == WIRE_OUTPUT && p.n >= 8) {
        write_all(str_from(p, 8));
    } else if (m->type == WIRE_EXIT && wire_get(&p, 4, &status)) {
        a->ended = true;
        a->status = (int)status;
        stop(a);
    } else if (m->type == WIRE_REFUSED) {
        snprintf(a->why, sizeof a->why, STR_FMT, (int)MIN(p.n, 190), p.p);
        stop(a);
    }
}

static void on_end(struct chan *c, void *arg)
{
    (void)c;
    stop(arg);
}

static void add_size(struct buf *out)
{
    struct winsize w = tty_size(STDIN_FILENO);
    wire_put(out, w.ws_row, 2);
    wire_put(out, w.ws_col, 2);
}

static void say_hello(struct attach *a)
{
    struct buf hello = {.max = 64}, attach = {.max = 64};
    wire_put(&hello, WIRE_VERSION, 2);
    wire_put(&hello, WIRE_VIEWER, 1);
    chan_send(a->chan, WIRE_HELLO, buf_str(&hello), STR_NULL);
    wire_put(&attach, 0, 1);
    wire_put(&attach, 0, 8);
    wire_put(&attach, HISTORY_ROWS, 4);
    add_size(&attach);
    chan_send(a->chan, WIRE_ATTACH, buf_str(&attach), STR_NULL);
    buf_fini(&hello);
    buf_fini(&attach);
}

static void on_size(int signum, void *arg)
{
    struct attach *a = arg;
    struct buf size = {.max = 16};
    (void)signum;
    add_size(&size);
    chan_send(a->chan, WIRE_RESIZE, buf_str(&size), STR_NULL);
    buf_fini(&size);
}

// ---- keys ----------------------------------------------------------------------------------

/// The first press is kept back until we know whether a second follows.
static void type(struct attach *a, struct str keys)
{
    struct buf out = {.max = SIZE_MAX};
    for (size_t i = 0; i < keys.n && !a->detached; i++) {
        bool detach = keys.p[i] == (char)a->detach;
        if (detach && a->once) {
            a->detached = true;
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
    if (a->detached) {
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
        a->detached = true; // our terminal is gone
        stop(a);
    }
}

/// "ctrl+\" as the byte that the key sends.
static int detach_key(struct cli *c)
{
    struct config *config = travel_config(&c->home, false, NULL);
    const char *name = config != NULL ? config_str(config, "pty.detach") : "";
    bool fits = strlen(name) == 6 && strncasecmp(name, "ctrl+", 5) == 0 && (name[5] & 31) != 0 &&
                name[5] > '@';
    int key = fits ? name[5] & 31 : 28;
    config_free(config);
    return key;
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
        tty_set_farewell(STR(FAREWELL));
        rc = tty_take(STDIN_FILENO, TTY_RAW, e);
    }
    if (rc == 0) {
        rc = signal_open(&a->size, &a->loop, SIGWINCH, on_size, a, e);
    }
    if (rc == 0 && (rc = uv_poll_init(&a->loop.uv, &a->keys, a->tty)) == 0) {
        a->keys.data = a;
        rc = uv_poll_start(&a->keys, UV_READABLE, on_keys);
        say_hello(a);
    }
    return rc;
}

static void finish(struct attach *a)
{
    struct winsize w = tty_size(STDIN_FILENO);
    char below[32];
    struct err e;
    tty_give_back();
    snprintf(below, sizeof below, "\033[%d;1H\r\n", w.ws_row);
    write_all(str_of(below));
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

int pty_attach(struct cli *c, const char *id)
{
    struct attach a = {.detach = detach_key(c)};
    struct err e = {0};
    if (!tty_in_foreground(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        out_error(&c->out,
                  "'pty attach' needs a terminal; 'afloat api GET /pty/%s/screen' prints "
                  "what the terminal shows",
                  id);
        return EXIT_USAGE;
    }
    int rc = loop_init(&a.loop, NULL, &e);
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    char *socket = xasprintf("%s/pty/%s.sock", c->home.runtime, id); // of its keeper
    rc = begin(&a, socket, &e);
    free(socket);
    if (rc == 0) {
        loop_run(&a.loop);
    }
    finish(&a);
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    if (a.ended) {
        out_note(&c->out, "the program in terminal %s ended with status %d", id, a.status);
        return a.status;
    }
    if (a.detached) {
        out_note(&c->out, "detached; return with 'afloat pty attach %s'", id);
        return EXIT_OK;
    }
    out_error(&c->out, "lost the terminal %s%s%s", id, a.why[0] != '\0' ? ": " : "", a.why);
    return EXIT_FAILED;
}
