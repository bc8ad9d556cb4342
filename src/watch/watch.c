// Watchers and watches: opening, the one job at a time of each watch, sweeps, closing.
//
//     events, timer, sweep ──> queues of the watch ──> pump ──> job on a thread
//                                    ^                            │
//                                    └──── apply <── drain <── done ──> batch ──> callback
//
// Each watch has at most one job under way, so results arrive in the order in which they were seen. When a job
// is done the event queue is read first: anything that happened to a file before the thread read it is known
// by the time its result is judged.
//
// A sweep scans the directories that give no events. An overflow is a scan of all. Who wants to know that a save
// before now was reported (watch_catch_up) gets a sweep, and is called once nothing is queued or pending.
//
// Invariants:
//   - an idle watcher sleeps: timers run only for pending files and swept directories.
//   - a closed watch has an empty tree; its memory goes when its job comes back. A closed watcher waits for
//     all jobs and its poll handle.

#include "watch/watch.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "watch/watch_int.h"

enum { DEBOUNCE_MS = 5, POLL_MS = 2000, LANE_THREADS = 4 };

const char *watch_kind_name(enum watch_kind kind)
{
    static const char *const names[] = {
        [WATCH_CREATED] = "created", [WATCH_CHANGED] = "changed", [WATCH_DELETED] = "deleted"};
    return names[kind];
}

// ---- jobs ------------------------------------------------------------------------------------

static void job_free(struct watch_job *job)
{
    vec_foreach (t, &job->errands) {
        free(t->path);
        free(t->bytes);
        vec_fini(&t->entries);
        vec_fini(&t->hops);
    }
    vec_fini(&job->errands);
    arena_fini(&job->arena);
    free(job);
}

static void collect_scans(struct watch *w, struct watch_job *job)
{
    for (size_t n = 0; w->scans.n != 0 && n < SCANS_MAX; n++) {
        struct dir *d = vec_pop(&w->scans);
        d->seat.flags &= (uint8_t)~DIR_QUEUED;
        if ((d->seat.flags & DIR_DEAD) != 0) {
            tree__dir_release(d);
            continue;
        }
        struct errand t = {
            .dir = d,
            .path = tree__path(d, NULL),
            .is_root = d->parent == NULL,
            .linked = (d->seat.flags & DIR_LINKED) != 0 && d->parent != NULL,
        };
        d->seat.flags |= DIR_BUSY;
        vec_push(&job->errands, t);
    }
    if (w->scans.n == 0) {
        vec_fini(&w->scans);
    }
}

static void watch_free(struct watch *w)
{
    for (char **rule = w->rules; *rule != NULL; rule++) {
        free(*rule);
    }
    free(w->rules);
    free(w->path);
    free(w->pattern);
    arena_fini(&w->arena);
    vec_fini(&w->changes);
    free(w);
}

static void end_catch_up(void *watch)
{
    struct watch *w = watch;
    loop_fn *done = w->caught_up;
    w->caught_up = NULL;
    done(w->caught_up_arg);
}

/// Nothing may be left to report: whoever waits for that is called from the loop.
static void look_caught_up(struct watch *w)
{
    bool done = w->opened && w->job == NULL && w->scans.n == 0 && w->pending.n == 0;
    if (w->caught_up != NULL && done && w->changes.n == 0) {
        timer_start(&w->patience, 0);
    }
}

static void send_batch(void *arg)
{
    struct watch *w = arg;
    assert(w->cb != NULL);
    struct watch_change *changes = w->changes.p;
    struct watch_batch batch = {.changes = changes, .n = w->changes.n, .first = !w->opened};
    struct arena arena = w->arena; // the callback may close the watch
    w->task = NULL;
    w->opened = true;
    w->changes.p = NULL;
    w->changes.n = w->changes.cap = 0;
    w->arena = (struct arena){0};
    look_caught_up(w);
    w->cb(w, &batch, w->arg);
    free(changes);
    arena_fini(&arena);
}

/// Send what there is; the inventory only when all of it was seen.
static void send_when_ready(struct watch *w)
{
    if (w->task == NULL && (w->opened ? w->changes.n != 0 : w->job == NULL)) {
        w->task = loop_defer(w->owner->loop, send_batch, w);
    }
}

static void start_sweep(struct watch *w)
{
    if (w->n_swept != 0 && !timer_running(&w->sweep)) {
        timer_start(&w->sweep, w->opts.pace.poll_ms);
    }
}

static bool is_well(const struct watcher *wr)
{
    for (const struct watch *w = wr->watches; w != NULL; w = w->next) {
        if (w->n_swept != 0) {
            return false;
        }
    }
    return wr->fd >= 0;
}

static void on_job_done(void *arg)
{
    struct watch_job *job = arg;
    struct watch *w = job->watch;
    struct watcher *wr = w->owner;
    notify__drain(wr);
    vec_foreach (t, &job->errands) {
        apply__errand(w, t, job->began);
    }
    w->job = NULL;
    job_free(job);
    assert(wr->jobs != 0);
    if (--wr->jobs == 0) {
        vec_fini(&wr->strays);
    }
    if (w->cb == NULL) {
        watch_free(w);
    } else {
        start_sweep(w);
        if (w->opened) {
            send_when_ready(w);
        }
    }
    wr->warned = wr->warned && !is_well(wr);
    watch__pump_all(wr);
    watcher__release(wr);
}

/// Start the next job when there is work and none runs.
static void pump(void *watch)
{
    struct watch *w = watch;
    struct watcher *wr = w->owner;
    if (w->job != NULL) {
        return;
    }
    struct watch_job *job = xcalloc(1, sizeof *job);
    settle__collect(w, job);
    collect_scans(w, job);
    if (job->errands.n == 0) {
        job_free(job);
        settle__arm(w);
        if (!w->opened) {
            send_when_ready(w);
        }
        look_caught_up(w);
        return;
    }
    job->watch = w;
    job->fd = w->opts.pace.poll ? -1 : wr->fd;
    job->began = wr->events;
    w->job = job;
    wr->jobs++;
    work_submit(wr->lane, w->key, errand__run, on_job_done, job);
}

void watch__pump_all(struct watcher *wr)
{
    for (struct watch *w = wr->watches; w != NULL; w = w->next) {
        pump(w);
    }
}

void watch__queue_scan(struct dir *d)
{
    if ((d->seat.flags & DIR_QUEUED) == 0) {
        d->seat.flags |= DIR_QUEUED;
        vec_push(&d->watch->scans, d);
    }
}

// ---- sweeps and rescans ----------------------------------------------------------------------

static void sweep_dir(struct dir *d)
{
    if ((d->seat.flags & DIR_SWEPT) != 0) {
        watch__queue_scan(d);
    }
}

static void on_sweep(void *arg)
{
    struct watch *w = arg;
    tree__walk(w->root, sweep_dir);
    start_sweep(w);
    pump(w);
}

void watch_catch_up(struct watch *w, unsigned patience_ms, loop_fn *done, void *arg)
{
    assert(w->cb != NULL && w->caught_up == NULL);
    w->caught_up = done;
    w->caught_up_arg = arg;
    timer_start(&w->patience, patience_ms);
    notify__drain(w->owner); // a save that is over has made its events
    tree__walk(w->root, sweep_dir);
    watch__pump_all(w->owner);
}

static void rescan_dir(struct dir *d)
{
    watch__queue_scan(d);
    for (uint32_t i = 0; i < d->n_files; i++) {
        if (d->files[i]->anchors != NULL && d->files[i]->hold == HOLD_NONE) {
            settle__touch(d->files[i], HOLD_SEEN); // the way to its target may be another one
        }
    }
}

void watch__rescan(struct watcher *wr)
{
    for (struct watch *w = wr->watches; w != NULL; w = w->next) {
        tree__walk(w->root, rescan_dir);
    }
}

static void send_warning(void *arg)
{
    struct watcher *wr = arg;
    struct watch_warning w = {"WATCH_DEGRADED", wr->warning.msg, wr->remedy};
    wr->warn_task = NULL;
    wr->warn(&w, wr->warn_arg);
}

void watch__degraded(struct watcher *wr, const char *path, int rc)
{
    struct err *e = &wr->warning;
    if (wr->warned || wr->warn == NULL || wr->warn_task != NULL) {
        return;
    }
    if (path == NULL) {
        wr->remedy = "raise the limit: sysctl fs.inotify.max_user_instances=1024";
        err_set(e, rc, "no file events (%s): changes are found by a sweep", err_text(rc));
    } else if (rc == ERR_TOO_LARGE) {
        wr->remedy = "watch a smaller directory or add ignore rules";
        err_set(e, rc, "more than %d directories below '%s': the rest is not watched", DIRS_MAX,
                path);
    } else {
        wr->remedy = "raise the limit: sysctl fs.inotify.max_user_watches=524288";
        err_set(e, rc, "no file events for '%s' (%s): its changes are found by a sweep", path,
                rc == -ENOSPC ? "watch limit reached" : err_text(rc));
    }
    wr->warned = true;
    wr->warn_task = loop_defer(wr->loop, send_warning, wr);
}

// ---- opening and closing ---------------------------------------------------------------------

void watcher__release(struct watcher *wr)
{
    if (!wr->closed || wr->polling || wr->jobs != 0) {
        return;
    }
    if (wr->fd >= 0) {
        close(wr->fd);
    }
    free(wr->seats);
    vec_fini(&wr->strays);
    free(wr);
}

struct watcher *watcher_open(struct loop *l, watch_warn_cb *warn, void *arg)
{
    struct watcher *wr = xcalloc(1, sizeof *wr);
    wr->loop = l;
    wr->warn = warn;
    wr->warn_arg = arg;
    wr->lane = lane_open(l, "watch", LANE_THREADS);
    notify__open(wr);
    return wr;
}

void watcher_close(struct watcher *wr)
{
    if (wr == NULL) {
        return;
    }
    while (wr->watches != NULL) {
        watch_close(wr->watches);
    }
    wr->closed = true;
    if (wr->warn_task != NULL) {
        loop_cancel(wr->loop, wr->warn_task);
    }
    lane_close(wr->lane);
    notify__close(wr);
    watcher__release(wr);
}

void watcher_set_pace(struct watcher *wr, const struct watch_pace *p)
{
    wr->pace = *p;
}

static unsigned first_set(unsigned own, unsigned watchers, unsigned otherwise)
{
    return own != 0 ? own : watchers != 0 ? watchers : otherwise;
}

int watch_open(struct watch **out, struct watcher *wr, const struct watch_opts *o, watch_cb *cb,
               void *arg, struct err *e)
{
    *out = NULL;
    if (o->path == NULL || o->path[0] != '/') {
        return err_set(e, ERR_INVALID, "cannot watch '%s': not an absolute path",
                       o->path != NULL ? o->path : "");
    }
    struct watch *w = xcalloc(1, sizeof *w);
    w->owner = wr;
    const char *const *rules = o->ignore != NULL ? o->ignore : watch_ignore_default;
    size_t n = str_count(rules);
    w->rules = xcalloc(n + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++) {
        w->rules[i] = xstrdup(rules[i]);
    }
    w->opts = *o;
    w->path = path_clean(o->path);
    w->pattern = o->pattern != NULL ? xstrdup(o->pattern) : NULL;
    w->opts.path = w->path;
    w->opts.pattern = w->pattern;
    w->opts.ignore = (const char *const *)w->rules;
    w->opts.pace.debounce_ms = first_set(o->pace.debounce_ms, wr->pace.debounce_ms, DEBOUNCE_MS);
    w->opts.pace.poll_ms = first_set(o->pace.poll_ms, wr->pace.poll_ms, POLL_MS);
    w->opts.pace.poll = o->pace.poll || wr->pace.poll;
    w->cb = cb;
    w->arg = arg;
    w->key = work_mount_key(w->opts.path);
    timer_init(&w->settle, wr->loop, pump, w); // it looks, or waits for the rest of the time
    timer_init(&w->sweep, wr->loop, on_sweep, w);
    timer_init(&w->patience, wr->loop, end_catch_up, w);
    w->root = tree__dir_new(w, NULL, "");
    w->root->seat.flags = DIR_LINKED;
    w->next = wr->watches;
    wr->watches = w;
    watch__queue_scan(w->root);
    pump(w);
    *out = w;
    return 0;
}

void watch_close(struct watch *w)
{
    if (w == NULL) {
        return;
    }
    assert(w->cb != NULL);
    w->cb = NULL;
    struct watch **at = &w->owner->watches;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    timer_stop(&w->settle);
    timer_stop(&w->sweep);
    timer_stop(&w->patience);
    if (w->task != NULL) {
        loop_cancel(w->owner->loop, w->task);
    }
    tree__dir_drop(w->root);
    vec_foreach (d, &w->scans) {
        (*d)->seat.flags &= (uint8_t)~DIR_QUEUED;
        tree__dir_release(*d);
    }
    vec_foreach (f, &w->pending) {
        (*f)->flags &= (uint8_t)~FILE_PENDING;
        tree__file_release(*f);
    }
    vec_fini(&w->scans);
    vec_fini(&w->pending);
    if (w->job == NULL) {
        watch_free(w);
    } else {
        atomic_store(&w->job->given_up, true);
    }
}

struct watch_stats watcher_stats(const struct watcher *wr)
{
    struct watch_stats s = wr->stats;
    for (const struct watch *w = wr->watches; w != NULL; w = w->next) {
        s.watches++;
        s.dirs += w->n_dirs;
        s.files += w->n_files;
        s.swept += w->n_swept;
    }
    s.native = wr->n_seats;
    return s;
}
