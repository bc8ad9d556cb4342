// One libuv loop with a queue of deferred work.
//
// A feature that calls another feature from inside a uv callback gets re-entered sooner or later:
// a write fails, the error callback closes the session, the session's owner is still on the stack.
// Here uv callbacks only note what happened and defer the rest; tasks run from the top of the
// stack, in order, at two places of a turn:
//
//     timers (alarm) ─> idle ─> PREPARE: drain ─> poll for I/O ─> CHECK: drain ─> closes ─┐
//          ^                                                                              │
//          └──────────────────────────────────────────────────────────────────────────────┘
//
// What timers deferred runs before the poll, what I/O deferred right after it. A close callback is
// the last step of a turn: what it defers waits for the next PREPARE.
//
// Invariants:
//   - `idle` is active exactly while tasks wait: the poll then does not sleep, and the loop lives.
//   - a drain runs what was queued when it began, and nothing that its tasks add.
//   - a cancelled task stays in the queue without its function, so that a drain under way never
//     loses its last one.
//   - prepare and check are unreferenced: an idle loop has no reason to run and no wake-ups.

#include "loop/loop.h"

#include <assert.h>
#include <signal.h>

#include "base/time.h"
#include "loop/loop_int.h"

struct loop_task {
    loop_fn *fn; // NULL once cancelled
    void *arg;
    struct loop_task *next;
};

static uint64_t system_mono(void *arg)
{
    (void)arg;
    return uv_hrtime() / 1000000;
}

static int64_t system_wall(void *arg)
{
    (void)arg;
    return time_wall_ms();
}

static const struct loop_clock system_clock = {.mono_ms = system_mono, .wall_ms = system_wall};

static void on_idle(uv_idle_t *idle)
{
    (void)idle; // its being active is all we want
}

static struct loop_task *task_take(struct loop *l)
{
    struct loop_task *t = fifo_take(&l->tasks);
    if (l->tasks.head == NULL) {
        uv_idle_stop(&l->idle);
    }
    return t;
}

static void drain(struct loop *l)
{
    if (l->tasks.head == NULL) {
        return;
    }
    const struct loop_task *last = l->tasks.last;
    bool more = true;
    while (more) {
        struct loop_task *t = task_take(l);
        struct loop_task run = *t;
        more = t != last;
        free(t); // before the call: the handle is no longer valid
        if (run.fn != NULL) {
            run.fn(run.arg);
        }
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    drain(container_of(prepare, struct loop, prepare));
}

static void on_check(uv_check_t *check)
{
    drain(container_of(check, struct loop, check));
}

struct census {
    const struct loop *loop;
    const uv_handle_t *open; // first one still open
    size_t closing;
};

static void count_handle(uv_handle_t *h, void *arg)
{
    struct census *c = arg;
    const struct loop *l = c->loop;
    const void *p = h;
    bool ours =
        p == &l->prepare || p == &l->check || p == &l->idle || p == &l->alarm || work__owns(l, h);
    if (uv_is_closing(h)) {
        c->closing++;
    } else if (c->open == NULL && !ours) {
        c->open = h;
    }
}

static struct census take_census(struct loop *l)
{
    struct census c = {.loop = l};
    uv_walk(&l->uv, count_handle, &c);
    return c;
}

/// Refuse while anything is open; the loop is not changed by asking.
static int check_closed(struct loop *l, struct err *e)
{
    const struct census c = take_census(l);
    if (c.open != NULL) {
        return err_set(e, UV_EBUSY, "cannot close loop: a %s handle is open",
                       uv_handle_type_name(uv_handle_get_type(c.open)));
    }
    const char *lane = work__open_lane(l);
    if (lane != NULL) {
        return err_set(e, UV_EBUSY, "cannot close loop: lane '%s' is open", lane);
    }
    if (l->n_timers != 0) {
        return err_set(e, UV_EBUSY, "cannot close loop: a timer is running");
    }
    for (const struct loop_task *t = l->tasks.head; t != NULL; t = t->next) {
        if (t->fn != NULL) {
            return err_set(e, UV_EBUSY, "cannot close loop: a deferred task is waiting");
        }
    }
    while (l->tasks.head != NULL) { // cancelled
        free(task_take(l));
    }
    if (uv_loop_alive(&l->uv)) {
        return err_set(e, UV_EBUSY, "cannot close loop: a request is under way");
    }
    return 0;
}

int loop_init(struct loop *l, const struct loop_clock *clock, struct err *e)
{
    memset(l, 0, sizeof *l);
    l->clock = clock != NULL ? *clock : system_clock;
    signal(SIGPIPE, SIG_IGN);
    int rc = uv_loop_init(&l->uv);
    if (rc < 0) {
        return err_set(e, rc, "cannot create event loop: %s", uv_strerror(rc));
    }
    uv_prepare_init(&l->uv, &l->prepare); // these four cannot fail
    uv_check_init(&l->uv, &l->check);
    uv_idle_init(&l->uv, &l->idle);
    uv_timer_init(&l->uv, &l->alarm);
    uv_prepare_start(&l->prepare, on_prepare);
    uv_check_start(&l->check, on_check);
    uv_unref((uv_handle_t *)&l->prepare);
    uv_unref((uv_handle_t *)&l->check);
    return 0;
}

bool loop_run(struct loop *l)
{
    return uv_run(&l->uv, UV_RUN_DEFAULT) != 0;
}

bool loop_run_once(struct loop *l, bool block)
{
    return uv_run(&l->uv, block ? UV_RUN_ONCE : UV_RUN_NOWAIT) != 0;
}

void loop_stop(struct loop *l)
{
    uv_stop(&l->uv);
}

int loop_close(struct loop *l, struct err *e)
{
    while (take_census(l).closing != 0) {
        uv_run(&l->uv, UV_RUN_NOWAIT);
    }
    int rc = check_closed(l, e);
    if (rc < 0) {
        return rc;
    }
    work__close(l);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_close((uv_handle_t *)&l->check, NULL);
    uv_close((uv_handle_t *)&l->idle, NULL);
    uv_close((uv_handle_t *)&l->alarm, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    rc = uv_loop_close(&l->uv);
    assert(rc == 0); // check_closed() looked at everything that it looks at
    work__fini(l);
    timer__fini(l);
    return rc;
}

struct loop_task *loop_defer(struct loop *l, loop_fn *fn, void *arg)
{
    struct loop_task *t = xmalloc(sizeof *t);
    *t = (struct loop_task){.fn = fn, .arg = arg};
    if (l->tasks.head == NULL) {
        uv_idle_start(&l->idle, on_idle);
    }
    fifo_add(&l->tasks, t);
    return t;
}

void loop_cancel(struct loop *l, struct loop_task *task)
{
    (void)l;
    assert(task->fn != NULL);
    task->fn = NULL;
}

bool loop_has_tasks(const struct loop *l)
{
    return l->tasks.head != NULL;
}

uint64_t loop_now(const struct loop *l)
{
    return l->clock.mono_ms(l->clock.arg);
}

int64_t loop_wall(const struct loop *l)
{
    return l->clock.wall_ms(l->clock.arg);
}
