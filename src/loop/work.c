// Lanes of threads for calls that may block.
//
// libuv's pool has four threads for everyone: four reads from a dead network mount block every fsync. So each
// kind of work has a lane, and inside a lane no single key may take every thread.
//
//     loop thread                      threads of the lane                    loop thread
//     work_submit ──> lane->queue ──> first job whose key has room ──> hub->done ──> done(arg)
//                                                                       uv_async
//
// The loop thread owns lanes and `load`; lane->lock guards the queue and the workers, hub->lock the list of
// finished jobs. A worker holds at most one of the two locks, and none during a job.
//
// Invariants:
//   - the async handle is referenced exactly while a job or the closing of a lane is unfinished.
//   - a job that is held back by its key has a running job of that key in front of it, whose worker will look
//     for it next; so a worker may end whenever it finds nothing to run.
//   - every thread is joined: in lane_close(), or earlier when its place is needed again.
//
// It cannot stop a running job. A thread stuck in the kernel stays stuck, and closing its lane then never ends;
// owners that cannot wait leave the process.

#include "loop/work.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/log.h"
#include "loop/loop_int.h"
#include "loop/work_int.h"

enum { IDLE_MS = 10000, THREADS_MAX = 64 };

struct work_job {
    struct lane *lane;
    uint64_t key;
    work_fn *work;
    work_done *done; // may be NULL
    void *arg;
    struct work_job *next;
};

enum worker_state { WORKER_NONE, WORKER_ALIVE, WORKER_ENDED }; // ENDED: to be joined

struct worker {
    struct lane *lane;
    pthread_t thread;
    enum worker_state state;
    bool busy;
    uint64_t key; // of its job while busy
};

struct lane {
    struct work_hub *hub;
    struct lane *next;
    char *name;
    size_t load;
    unsigned idle_ms;
    unsigned n_workers; // places, not threads
    unsigned key_max;   // threads that may serve one key

    pthread_mutex_t lock; // of all below
    pthread_cond_t wake;
    fifo(struct work_job) queue;
    size_t n_queued;
    unsigned n_waiting; // workers asleep on `wake`
    bool closed;
    struct worker workers[];
};

struct work_hub {
    uv_async_t async;
    struct lane *lanes;
    size_t unfinished; // jobs, and lanes that are closing

    pthread_mutex_t lock; // of `done`
    fifo(struct work_job) done;
};

// ---- on the threads ------------------------------------------------------------------------

static struct work_job *take_runnable(struct lane *lane)
{
    struct work_job *before = NULL;
    for (struct work_job *job = lane->queue.head; job != NULL; before = job, job = job->next) {
        unsigned running = 0; // of this key
        for (unsigned i = 0; i < lane->n_workers; i++) {
            running += lane->workers[i].busy && lane->workers[i].key == job->key;
        }
        if (running < lane->key_max) {
            assert(lane->n_queued != 0);
            lane->n_queued--;
            fifo_remove(&lane->queue, before, job);
            return job;
        }
    }
    return NULL;
}

/// The next job, waiting for one if need be; NULL when this worker shall end. Called with the lock.
static struct work_job *next_job(struct lane *lane)
{
    struct timespec end; // of waiting
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += lane->idle_ms / 1000;
    end.tv_nsec += (long)(lane->idle_ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    struct work_job *job = take_runnable(lane);
    int rc = 0;
    while (job == NULL && !lane->closed && rc != ETIMEDOUT) {
        lane->n_waiting++;
        rc = pthread_cond_timedwait(&lane->wake, &lane->lock, &end);
        lane->n_waiting--;
        job = take_runnable(lane);
    }
    return job;
}

static void run_job(struct work_hub *hub, struct work_job *job)
{
    job->work(job->arg);
    pthread_mutex_lock(&hub->lock);
    fifo_add(&hub->done, job);
    pthread_mutex_unlock(&hub->lock);
    uv_async_send(&hub->async);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct lane *lane = w->lane;
    struct work_job *job;

    pthread_mutex_lock(&lane->lock);
    while ((job = next_job(lane)) != NULL) {
        w->busy = true;
        w->key = job->key;
        pthread_mutex_unlock(&lane->lock);
        run_job(lane->hub, job);
        pthread_mutex_lock(&lane->lock);
        w->busy = false;
    }
    w->state = WORKER_ENDED;
    pthread_mutex_unlock(&lane->lock);
    uv_async_send(&lane->hub->async); // a closing lane waits for us; we are joined before it goes
    return NULL;
}

// ---- on the loop thread --------------------------------------------------------------------

static void hub_count(struct work_hub *hub, int change)
{
    assert(change > 0 || hub->unfinished != 0);
    hub->unfinished = change > 0 ? hub->unfinished + 1 : hub->unfinished - 1;
    if (hub->unfinished != 0) {
        uv_ref((uv_handle_t *)&hub->async);
    } else {
        uv_unref((uv_handle_t *)&hub->async);
    }
}

static unsigned count_alive(const struct lane *lane)
{
    unsigned n = 0;
    for (unsigned i = 0; i < lane->n_workers; i++) {
        n += lane->workers[i].state == WORKER_ALIVE;
    }
    return n;
}

/// One more thread if the waiting ones do not suffice and there is a place. Called with the lock.
static void add_worker(struct lane *lane)
{
    struct worker *w = lane->workers;
    while (w < lane->workers + lane->n_workers && w->state == WORKER_ALIVE) {
        w++;
    }
    if (w == lane->workers + lane->n_workers || lane->n_queued <= lane->n_waiting) {
        return;
    }
    if (w->state == WORKER_ENDED) {
        pthread_join(w->thread, NULL); // it has given up the lock and is about to return
    }
    w->state = WORKER_ALIVE;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); // inherited: signals belong to the loop thread
    int rc = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        w->state = WORKER_NONE;
        log_warn(LOG_LOOP, "lane=%s threads=%u error=%s", lane->name, count_alive(lane),
                 LOGQ(str_of(err_text(-rc))).z);
    }
}

/// Free the lane if its closing is complete. Returns true when it is gone.
static bool lane_try_free(struct lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    bool over = lane->closed && lane->load == 0 && count_alive(lane) == 0;
    pthread_mutex_unlock(&lane->lock);
    if (!over) {
        return false;
    }
    for (unsigned i = 0; i < lane->n_workers; i++) {
        if (lane->workers[i].state == WORKER_ENDED) {
            pthread_join(lane->workers[i].thread, NULL);
        }
    }
    hub_count(lane->hub, -1);
    pthread_mutex_destroy(&lane->lock);
    pthread_cond_destroy(&lane->wake);
    free(lane->name);
    free(lane);
    return true;
}

static void on_async(uv_async_t *async)
{
    struct work_hub *hub = container_of(async, struct work_hub, async);
    pthread_mutex_lock(&hub->lock);
    struct work_job *job = fifo_take_all(&hub->done), *next_job;
    pthread_mutex_unlock(&hub->lock);
    for (; job != NULL; job = next_job) {
        next_job = job->next;
        assert(job->lane->load != 0);
        job->lane->load--;
        hub_count(hub, -1);
        if (job->done != NULL) {
            job->done(job->arg); // it may submit, open and close
        }
        free(job);
    }
    struct lane **at = &hub->lanes;
    while (*at != NULL) {
        struct lane *lane = *at, *next = lane->next;
        if (lane_try_free(lane)) {
            *at = next;
        } else {
            at = &lane->next;
        }
    }
}

static struct work_hub *hub_get(struct loop *l)
{
    if (l->work == NULL) {
        struct work_hub *hub = xcalloc(1, sizeof *hub);
        pthread_mutex_init(&hub->lock, NULL);
        if (uv_async_init(&l->uv, &hub->async, on_async) < 0) {
            abort(); // no descriptor left at start: like out of memory
        }
        uv_unref((uv_handle_t *)&hub->async);
        l->work = hub;
    }
    return l->work;
}

const char *work__open_lane(const struct loop *l)
{
    return l->work != NULL && l->work->lanes != NULL ? l->work->lanes->name : NULL;
}

bool work__owns(const struct loop *l, const uv_handle_t *h)
{
    return l->work != NULL && (const void *)h == &l->work->async;
}

void work__close(struct loop *l)
{
    if (l->work != NULL) {
        uv_close((uv_handle_t *)&l->work->async, NULL);
    }
}

void work__fini(struct loop *l)
{
    if (l->work != NULL) {
        pthread_mutex_destroy(&l->work->lock);
        free(l->work);
        l->work = NULL;
    }
}

struct lane *lane__open(struct loop *l, const char *name, unsigned threads, unsigned idle_ms)
{
    assert(threads >= 1 && threads <= THREADS_MAX);
    struct lane *lane = xcalloc(1, sizeof *lane + threads * sizeof lane->workers[0]);
    lane->hub = hub_get(l);
    lane->name = xstrdup(name);
    lane->idle_ms = idle_ms;
    lane->n_workers = threads;
    lane->key_max = threads == 1 ? 1 : MIN((threads + 1) / 2, threads - 1);
    for (unsigned i = 0; i < threads; i++) {
        lane->workers[i].lane = lane;
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->wake, &attr);
    pthread_condattr_destroy(&attr);
    lane->next = lane->hub->lanes;
    lane->hub->lanes = lane;
    return lane;
}

unsigned lane__threads(struct lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    unsigned n = count_alive(lane);
    pthread_mutex_unlock(&lane->lock);
    return n;
}

struct lane *lane_open(struct loop *l, const char *name, unsigned threads)
{
    return lane__open(l, name, threads, IDLE_MS);
}

void lane_close(struct lane *lane)
{
    if (lane == NULL) {
        return;
    }
    pthread_mutex_lock(&lane->lock);
    assert(!lane->closed);
    lane->closed = true;
    pthread_cond_broadcast(&lane->wake);
    pthread_mutex_unlock(&lane->lock);
    hub_count(lane->hub, 1);
    uv_async_send(&lane->hub->async); // for a lane without threads, where no worker does it
}

void work_submit(struct lane *lane, uint64_t key, work_fn *work, work_done *done, void *arg)
{
    struct work_job *job = xmalloc(sizeof *job);
    *job = (struct work_job){.lane = lane, .key = key, .work = work, .done = done, .arg = arg};
    lane->load++;
    hub_count(lane->hub, 1);

    pthread_mutex_lock(&lane->lock);
    assert(!lane->closed);
    fifo_add(&lane->queue, job);
    lane->n_queued++;
    add_worker(lane);
    pthread_cond_signal(&lane->wake);
    bool stranded = count_alive(lane) == 0;
    pthread_mutex_unlock(&lane->lock);
    struct work_job *here; // without any thread the loop thread does the work: late beats never
    while (stranded && (here = take_runnable(lane)) != NULL) {
        run_job(lane->hub, here);
    }
}

size_t lane_load(const struct lane *lane)
{
    return lane->load;
}
