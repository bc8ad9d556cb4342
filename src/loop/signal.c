// Signals as callbacks on the loop thread.
//
// libuv writes each arrival into a pipe and calls us from the loop, so a callback may do whatever
// other callbacks may. The handle is unreferenced: waiting for SIGTERM is no work to be done.

#include "loop/signal.h"

struct signal_watch {
    uv_signal_t handle;
    signal_cb *cb;
    void *arg; // borrowed
};

static void on_signal(uv_signal_t *handle, int signum)
{
    struct signal_watch *s = container_of(handle, struct signal_watch, handle);
    s->cb(signum, s->arg);
}

static void on_closed(uv_handle_t *h)
{
    free(container_of(h, struct signal_watch, handle));
}

int signal_open(struct signal_watch **out, struct loop *l, int signum, signal_cb *cb, void *arg,
                struct err *e)
{
    struct signal_watch *s = xcalloc(1, sizeof *s);
    *out = NULL;
    s->cb = cb;
    s->arg = arg;
    int rc = uv_signal_init(&l->uv, &s->handle);
    if (rc < 0) {
        free(s);
        return err_set(e, rc, "cannot watch signal %d: %s", signum, uv_strerror(rc));
    }
    uv_unref((uv_handle_t *)&s->handle);
    rc = uv_signal_start(&s->handle, on_signal, signum);
    if (rc < 0) {
        signal_close(s);
        return err_set(e, rc, "cannot watch signal %d: %s", signum, uv_strerror(rc));
    }
    *out = s;
    return 0;
}

void signal_close(struct signal_watch *s)
{
    if (s != NULL) {
        uv_close((uv_handle_t *)&s->handle, on_closed);
    }
}
