// A thread that notices when Lua code keeps the loop thread beyond its time.
//
//     loop thread ── entry ──> watch.deadline, watch.entry ── leave ──> as before
//                                   │ every 50 ms
//     watchdog ──── too late? ──────┤ 150 ms: signal ──> handler on the loop thread: unit, file, line
//                                   │         log, once a stall
//                                   │         the callback of watchdog_tell(), every 50 ms until the end
//                                   └ 1 s:    the mark is written;  at the end of the stall it goes
//
// An entry pays a few plain stores for it. The thread ends when no entry came for a second; the next one
// starts it again, so an idle hub has no thread for it and is never woken.
//
// The handler reads the Lua stack of the thread that it interrupts. That thread has been inside one C
// call for at least 150 ms (else the count hook would have ended the entry), so Lua is not opening or
// closing a call at that moment.
//
// Invariants:
//   - only the loop thread writes `entry` and `deadline`; only the handler writes `found.stall`, after it
//     has cleared `wanted` and before it sets `ready`; `last` is under the lock.

#include "lua/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "base/time.h"
#include "lua/vm_int.h"

enum {
    POLL_MS = 50,
    LATE_MS = 150,   // beyond the deadline: logged
    STUCK_MS = 1000, // beyond the deadline: marked
    IDLE_POLLS = 20,
    FRAMES = 20,
};

struct watchdog {
    pthread_t thread, loop;
    bool started; // `thread` has to be joined
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;              // under the lock
    struct watchdog_stall last; // the same
    pthread_mutex_t telling;    // held while `tell` runs
    watchdog_cb *tell;          // under `telling`; may be NULL
    void *tell_arg;
    char *mark;
};

struct watchdog__now watchdog__now;

static struct {
    atomic_bool wanted, ready;
    struct watchdog_stall stall;
} found; // what the handler tells the thread

static struct watchdog *the_one; // for watchdog__wake()

// ---- on the loop thread ---------------------------------------------------------------------

static void copy(char *to, size_t size, struct str from)
{
    size_t n = MIN(from.n, size - 1);
    if (n != 0) {
        memcpy(to, from.p, n);
    }
    to[n] = '\0';
}

/// The innermost line of a file that is open on `L`.
static void find_line(lua_State *L, struct watchdog_stall *s)
{
    lua_Debug ar;
    for (int i = 0; i < FRAMES && lua_getstack(L, i, &ar); i++) {
        if (lua_getinfo(L, "Sl", &ar) && ar.currentline > 0 && ar.source[0] == '@') {
            copy(s->path, sizeof s->path, str_of(ar.source + 1));
            s->line = ar.currentline;
            return;
        }
    }
}

static void on_signal(int signum)
{
    (void)signum;
    int saved = errno;
    const struct entry *en = atomic_load_explicit(&watchdog__now.entry, memory_order_relaxed);
    if (en != NULL && atomic_exchange(&found.wanted, false)) {
        found.stall = (struct watchdog_stall){0};
        if (en->owner != NULL) {
            copy(found.stall.unit, sizeof found.stall.unit, str_of(vm_owner_name(en->owner)));
            copy(found.stall.content, sizeof found.stall.content,
                 str_of(vm_owner_content(en->owner)));
        }
        if (en->vm->running != NULL) {
            find_line(en->vm->running, &found.stall);
        }
        atomic_store(&found.ready, true);
    }
    errno = saved;
}

static int start_thread(struct watchdog *w);

void watchdog__wake(void)
{
    struct watchdog *w = the_one;
    if (w != NULL) {
        if (w->started) {
            pthread_join(w->thread, NULL); // it has ended, or is about to
        }
        atomic_store(&watchdog__now.asleep, false);
        w->started = start_thread(w) == 0;
        if (!w->started) {
            atomic_store(&watchdog__now.asleep, true); // the next entry tries again
        }
    }
}

// ---- the thread -----------------------------------------------------------------------------

static void write_mark(const struct watchdog *w, const struct watchdog_stall *s)
{
    struct buf b = {.max = SIZE_MAX};
    struct err e = {0};
    struct jw jw = {.out = &b};
    jw_obj(&jw);
    jw_kstrz(&jw, "unit", s->unit);
    jw_kstrz(&jw, "content", s->content);
    jw_kstrz(&jw, "path", s->path);
    jw_kint(&jw, "line", s->line);
    jw_kint(&jw, "ms", (int64_t)s->ms);
    jw_end_obj(&jw);
    if (path_write_atomic(w->mark, buf_str(&b), 0600, &e) < 0) {
        log_warn(LOG_HUB, "watchdog=unmarked reason=%s", LOGQ(str_of(e.msg)).z);
    }
    buf_fini(&b);
}

/// Keep what is known about the stall, and call `tell`.
static void keep(struct watchdog *w, const struct watchdog_stall *s)
{
    pthread_mutex_lock(&w->lock);
    w->last = *s;
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_lock(&w->telling);
    if (w->tell != NULL) {
        w->tell(w->tell_arg, s);
    }
    pthread_mutex_unlock(&w->telling);
}

/// Sleep for one poll. True: the hub stops.
static bool pause_thread(struct watchdog *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    if (!w->stopping) {
        pthread_cond_timedwait(&w->wake, &w->lock, &until);
    }
    bool stopping = w->stopping;
    pthread_mutex_unlock(&w->lock);
    return stopping;
}

static bool runs(uint64_t deadline)
{
    return atomic_load(&watchdog__now.entry) != NULL &&
           atomic_load(&watchdog__now.deadline) == deadline;
}

static uint64_t late_ms(uint64_t deadline)
{
    uint64_t now = time_mono_ns();
    return now > deadline ? (now - deadline) / 1000000 : 0;
}

/// The entry with this deadline is late. Follow it to its end.
static void follow(struct watchdog *w, uint64_t deadline)
{
    struct watchdog_stall s = {0};
    uint32_t budget_ms = atomic_load(&watchdog__now.budget_ms);
    bool marked = false, said = false;
    atomic_store(&found.ready, false);
    atomic_store(&found.wanted, true);
    pthread_kill(w->loop, SIGRTMIN);
    while (!pause_thread(w) && runs(deadline)) {
        bool known = atomic_exchange(&found.ready, false);
        s = known ? found.stall : s;
        s.ms = late_ms(deadline) + budget_ms;
        if (known) {
            said = true;
            log_error(LOG_HUB, "unit=%s stalls=true ms=%llu path=%s line=%d",
                      LOGQ(str_of(s.unit)).z, (unsigned long long)s.ms, LOGQ(str_of(s.path)).z,
                      s.line);
        }
        if (!marked && said && late_ms(deadline) >= STUCK_MS) {
            marked = true;
            write_mark(w, &s);
        }
        keep(w, &s);
    }
    atomic_store(&found.wanted, false);
    if (marked) {
        unlink(w->mark);
    }
    if (s.ms != 0) {
        s.ended_ns = time_mono_ns();
        keep(w, &s);
    }
    if (said) {
        log_warn(LOG_HUB, "unit=%s stalls=false ms=%llu", LOGQ(str_of(s.unit)).z,
                 (unsigned long long)s.ms);
    }
}

static void *run(void *arg)
{
    struct watchdog *w = arg;
    uint64_t before = 0;
    for (int idle = 0; !pause_thread(w);) {
        uint64_t deadline = atomic_load(&watchdog__now.deadline);
        bool inside = atomic_load(&watchdog__now.entry) != NULL;
        idle = inside || deadline != before ? 0 : idle + 1;
        before = deadline;
        if (inside && late_ms(deadline) >= LATE_MS) {
            follow(w, deadline);
        } else if (idle >= IDLE_POLLS) {
            atomic_store(&watchdog__now.asleep, true);
            break;
        }
    }
    return NULL;
}

// ---- public ---------------------------------------------------------------------------------

static int start_thread(struct watchdog *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int watchdog_open(struct watchdog **out, const char *mark, struct err *e)
{
    struct watchdog *w = xcalloc(1, sizeof *w);
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_condattr_t attr;
    assert(the_one == NULL);
    w->mark = xstrdup(mark);
    w->loop = pthread_self();
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->telling, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigaction(SIGRTMIN, &act, NULL);
    the_one = w;
    int rc = start_thread(w);
    w->started = rc == 0;
    if (rc != 0) {
        the_one = NULL;
        free(w->mark);
        free(w);
        *out = NULL;
        return err_set(e, -rc, "cannot start the watchdog: %s", err_text(-rc));
    }
    *out = w;
    return 0;
}

void watchdog_close(struct watchdog *w)
{
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->started) {
        pthread_join(w->thread, NULL);
    }
    the_one = NULL;
    atomic_store(&watchdog__now.asleep, false);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->telling);
    free(w->mark);
    free(w);
}

void watchdog_tell(struct watchdog *w, watchdog_cb *cb, void *arg)
{
    if (w != NULL) {
        pthread_mutex_lock(&w->telling);
        w->tell = cb;
        w->tell_arg = arg;
        pthread_mutex_unlock(&w->telling);
    }
}

bool watchdog_last(struct watchdog *w, struct watchdog_stall *out)
{
    pthread_mutex_lock(&w->lock);
    *out = w->last;
    pthread_mutex_unlock(&w->lock);
    return out->ms != 0;
}

bool watchdog_read(const char *mark, struct watchdog_stall *out)
{
    struct arena a = {0};
    struct buf b = {.max = 64 * 1024};
    struct json *v = NULL;
    *out = (struct watchdog_stall){0};
    if (path_read(mark, &b, NULL) == 0 && json_parse(&v, &a, buf_str(&b), NULL, NULL) == 0) {
        copy(out->unit, sizeof out->unit, json_str(json_get(v, "unit"), ""));
        copy(out->content, sizeof out->content, json_str(json_get(v, "content"), ""));
        copy(out->path, sizeof out->path, json_str(json_get(v, "path"), ""));
        out->line = (int)json_int(json_get(v, "line"), 0);
        out->ms = (uint64_t)json_int(json_get(v, "ms"), 0);
    }
    buf_fini(&b);
    arena_fini(&a);
    return out->unit[0] != '\0';
}
