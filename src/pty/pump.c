// The pump between a terminal and a pseudo-terminal.
//
// There is no parser and no emulator here: what programs send to terminals grows every year, and a pump
// that interprets it breaks what it does not know. A turn is
//
//     read until EAGAIN or until the buffer is full ──> [filter] ──> write until EAGAIN
//
// The kernel hands out at most 4 KiB of a pseudo-terminal per read, so many reads make one write.
//
// Invariants:
//   - `up` and `down` hold what was read and not yet written. A side is read exactly while its buffer
//     has room, and written while its buffer is not empty.
//   - on_end is called from the deferred queue, once, and nothing is polled after it was decided.

#include "pty/pump.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    ROOM = 64 << 10,
    LAST_BYTES = 256 << 10, // read after pump_finish(): more than any pseudo-terminal holds
};

static char scratch[ROOM]; // of the loop thread, filled and emptied within one call

struct side {
    uv_poll_t poll;
    int events; // waited for now
};

struct pump {
    struct loop *loop;
    struct pump_cb cb;
    void *arg; // borrowed
    struct side in, out, master;
    int in_fd, out_fd, master_fd;
    struct buf up, down;
    size_t last_left; // bytes that may still be read, once finishing
    bool finishing, paused, ended;
    enum pump_end how;
    struct loop_task *end_task; // on_end is owed
    unsigned n_handles;         // not closed yet; the last one frees us
};

static void pump_free(struct pump *p)
{
    buf_fini(&p->up);
    buf_fini(&p->down);
    free(p);
}

static void on_end(void *arg)
{
    struct pump *p = arg;
    assert(p->ended && p->end_task != NULL);
    p->end_task = NULL;
    p->cb.on_end(p, p->how, p->arg);
}

static void end(struct pump *p, enum pump_end how)
{
    if (!p->ended) {
        p->ended = true;
        p->how = how;
        p->end_task = loop_defer(p->loop, on_end, p);
    }
}

// ---- moving bytes --------------------------------------------------------------------------

/// Write what `b` holds, as far as `fd` takes it. Returns false when `fd` is broken.
static bool flush(int fd, struct buf *b)
{
    size_t at = 0;
    bool broken = false;
    while (at < b->n) {
        ssize_t n = write(fd, b->p + at, b->n - at);
        if (n < 0 && errno != EINTR) {
            broken = errno != EAGAIN;
            break;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    buf_drop(b, at);
    return !broken;
}

/// Read the master until it has no more or `down` is full. Returns how much came.
static size_t take_master(struct pump *p)
{
    size_t room = p->down.n < ROOM ? ROOM - p->down.n : 0;
    size_t want = p->finishing ? MIN(p->last_left, room) : room;
    size_t got = 0;
    while (got < want) {
        ssize_t n = read(p->master_fd, scratch + got, want - got);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            break;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    p->last_left -= p->finishing ? got : 0;
    struct str bytes = {scratch, got};
    if (p->cb.filter == NULL) {
        buf_adds(&p->down, bytes);
    } else if (got != 0 || p->finishing) {
        p->cb.filter(bytes, &p->down, p->arg);
    }
    return got;
}

/// Finishing, it goes round until a look at the master brings nothing; a terminal that is full for now
/// interrupts that, and is the reason to come back.
static void move_down(struct pump *p)
{
    do {
        bool had_room = p->down.n < ROOM;
        size_t got = take_master(p);
        if (!flush(p->out_fd, &p->down)) {
            end(p, PUMP_HANGUP);
        } else if (p->finishing && had_room && got == 0 && p->down.n == 0) {
            end(p, PUMP_DRAINED);
        }
    } while (p->finishing && !p->ended && p->down.n == 0);
}

// ---- waiting -------------------------------------------------------------------------------

static void on_ready(uv_poll_t *h, int status, int events);

/// Libuv takes a handle out of the kernel's set and puts it in again, so it is not told what it knows.
static void want(struct side *s, int events)
{
    if (events == s->events) {
        return;
    }
    s->events = events;
    if (events == 0) {
        uv_poll_stop(&s->poll);
    } else {
        uv_poll_start(&s->poll, events, on_ready);
    }
}

static void rearm(struct pump *p)
{
    bool live = !p->ended && !p->paused;
    bool up_room = p->up.n < ROOM && !p->finishing;
    int master = (p->down.n < ROOM ? UV_READABLE : 0) | (p->up.n != 0 ? UV_WRITABLE : 0);
    want(&p->in, live && up_room ? UV_READABLE : 0);
    want(&p->out, live && p->down.n != 0 ? UV_WRITABLE : 0);
    want(&p->master, live ? master : 0);
}

/// An error shows as readiness too: the read or write tells more.
static void on_ready(uv_poll_t *h, int status, int events)
{
    struct pump *p = h->data;
    (void)status;
    if (h == &p->in.poll) {
        ssize_t n = read(p->in_fd, scratch, ROOM - p->up.n);
        if (n > 0) {
            buf_add(&p->up, scratch, (size_t)n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            end(p, PUMP_HANGUP);
        }
    }
    if (h != &p->out.poll && !flush(p->master_fd, &p->up)) {
        buf_clear(&p->up); // the program's side is closed
    }
    if (h == &p->out.poll || (h == &p->master.poll && (events & UV_WRITABLE) != events)) {
        move_down(p);
    }
    rearm(p);
}

// ---- public --------------------------------------------------------------------------------

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static int adopt(struct pump *p, uv_poll_t *h, int fd)
{
    int rc = uv_poll_init(&p->loop->uv, h, fd); // makes it non-blocking
    if (rc == 0) {
        h->data = p;
        p->n_handles++;
    }
    return rc;
}

static void on_closed(uv_handle_t *h)
{
    struct pump *p = h->data;
    assert(p->n_handles != 0);
    if (--p->n_handles == 0) {
        pump_free(p);
    }
}

int pump_open(struct pump **out, struct loop *l, int terminal_in, int terminal_out, int master,
              const struct pump_cb *cb, void *arg, struct err *e)
{
    struct pump *p = xcalloc(1, sizeof *p);
    assert(terminal_in != terminal_out && terminal_in != master && terminal_out != master);
    *p = (struct pump){.loop = l, .cb = *cb, .arg = arg, .last_left = LAST_BYTES};
    p->in_fd = terminal_in;
    p->out_fd = terminal_out;
    p->master_fd = master;
    buf_init(&p->up, ROOM);
    buf_init(&p->down, SIZE_MAX);
    *out = p;
    int rc = adopt(p, &p->in.poll, terminal_in);
    rc = rc == 0 ? adopt(p, &p->out.poll, terminal_out) : rc;
    rc = rc == 0 ? adopt(p, &p->master.poll, master) : rc;
    if (rc < 0) {
        *out = NULL;
        pump_close(p);
        return err_set(e, rc, "cannot wait for the terminal: %s", uv_strerror(rc));
    }
    rearm(p);
    return 0;
}

void pump_finish(struct pump *p)
{
    p->finishing = true;
    if (!p->ended) {
        move_down(p);
    }
    rearm(p);
}

void pump_pause(struct pump *p, bool paused)
{
    p->paused = paused;
    if (!paused) { // the program that had the terminal may have made it block
        set_nonblocking(p->in_fd);
        set_nonblocking(p->out_fd);
    }
    rearm(p);
}

void pump_inject(struct pump *p, struct str bytes)
{
    buf_adds(&p->down, bytes);
    if (!flush(p->out_fd, &p->down)) {
        end(p, PUMP_HANGUP);
    }
    rearm(p);
}

void pump_answer(struct pump *p, struct str bytes)
{
    assert(p->up.n <= ROOM);
    if (bytes.n <= ROOM - p->up.n) {
        buf_adds(&p->up, bytes);
        rearm(p);
    }
}

void pump_close(struct pump *p)
{
    if (p == NULL) {
        return;
    }
    assert(p->n_handles <= 3);
    uv_poll_t *handles[] = {&p->in.poll, &p->out.poll, &p->master.poll};
    unsigned n = p->n_handles;
    if (p->end_task != NULL) {
        loop_cancel(p->loop, p->end_task);
    }
    for (unsigned i = 0; i < n; i++) {
        uv_close((uv_handle_t *)handles[i], on_closed);
    }
    if (n == 0) {
        pump_free(p);
    }
}
