// The compiler's process: found, started with the first build, kept for the next, ended when idle.
//
//     front_build ──> [found? started?] ──> `esbuild --version` ──> `esbuild --service=VERSION` ──> packets
//                          │ not found: the build fails as `missing`             │ idle for IDLE_MS: its input closes
//                                                                               └ ends by itself: see lose_builds()
//
// The service speaks only to a client that names its own version, so that is asked first; it is then known until
// another program is found. A process that is being ended is let go of at once: the next build starts a
// new one and never waits for the old.
//
// Invariants:
//   - a build is in `builds` from front_build() until its callback; that is called once.
//   - `service` is NULL exactly while no process could take a build.

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/path.h"
#include "front/front_int.h"
#include "loop/proc.h"

enum { IDLE_MS = 60000, BUILD_MS = 20000, TAIL_MAX = 400, PACKET_MAX = 64 << 20, END_MS = 2000 };

struct front {
    struct loop *loop;
    struct service *service;
    vec(struct build *) builds;
    struct timer idle;
    struct loop_task *failing; // builds that found no compiler
    char *program, *version;   // of the compiler that was started last; NULL: none was
    uint32_t next_id;
};

/// One process: the service, or the one that tells its version.
struct service {
    struct front *front; // NULL: it was let go of
    struct proc *proc;
    struct buf in;   // from it, not read yet
    struct buf tail; // of what it wrote to stderr
    bool asking;     // it only tells its version
    bool ready;      // it said hello
};

// ---- builds -----------------------------------------------------------------------------------

static struct build *take(struct front *f, size_t i)
{
    struct build *b = f->builds.p[i];
    vec_remove(&f->builds, i);
    timer_stop(&b->deadline);
    return b;
}

static void fail_all(struct front *f, bool missing, const char *message, const char *hint)
{
    while (f->builds.n != 0) {
        struct build *b = take(f, 0);
        build__fail(b, missing, message, hint);
        free(b);
    }
}

static void send_waiting(struct front *f)
{
    struct buf out = {.max = SIZE_MAX};
    vec_foreach (b, &f->builds) {
        if (!(*b)->sent) {
            (*b)->sent = true;
            build__request(*b, &out);
        }
    }
    if (out.n != 0 && proc_write(f->service->proc, buf_str(&out)) < 0) {
        proc_kill(f->service->proc, SIGKILL); // its exit fails them
    }
    buf_fini(&out);
}

// ---- the process ------------------------------------------------------------------------------

static void let_go(struct front *f)
{
    if (f->service != NULL) {
        f->service->front = NULL;
        proc_close_stdin(f->service->proc);
        proc_end(f->service->proc, END_MS);
        f->service = NULL;
    }
}

static void on_idle(void *arg)
{
    struct front *f = arg;
    assert(f->builds.n == 0);
    let_go(f);
}

static void on_late(void *arg)
{
    struct build *late = arg;
    struct front *f = late->front;
    let_go(f);
    fail_all(f, false, "the compiler took longer than 20 s", NULL);
}

static void on_packet(struct service *s, struct str body)
{
    struct front *f = s->front;
    struct arena a = {0};
    struct packet q;
    if (!packet__read(&q, &a, body)) {
        proc_kill(s->proc, SIGKILL);
        arena_fini(&a);
        return;
    }
    uint32_t id = q.is_request ? (uint32_t)json_int(json_get(q.value, "key"), 0) : q.id;
    for (size_t i = 0; i < f->builds.n; i++) {
        if (f->builds.p[i]->id == id && q.is_request) {
            struct buf out = {.max = SIZE_MAX};
            build__answer(f->builds.p[i], &q, &out);
            if (proc_write(s->proc, buf_str(&out)) < 0) {
                proc_kill(s->proc, SIGKILL);
            }
            buf_fini(&out);
            break;
        }
        if (f->builds.p[i]->id == id) {
            struct build *b = take(f, i);
            if (f->builds.n == 0) {
                timer_start(&f->idle, IDLE_MS);
            }
            build__result(b, q.value);
            free(b);
            break;
        }
    }
    arena_fini(&a);
}

/// The first packet is the version, the others are packets. Stops when it is let go of.
static void read_packets(struct service *s)
{
    for (;;) {
        const uint8_t *p = (const uint8_t *)s->in.p;
        size_t n = s->in.n < 4
                       ? 0
                       : (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (n > PACKET_MAX) {
            proc_kill(s->proc, SIGKILL);
        }
        if (s->in.n < 4 || s->in.n - 4 < n || n > PACKET_MAX || s->front == NULL) {
            return;
        }
        struct buf packet = {.max = SIZE_MAX}; // a copy: what is called back may bring more
        buf_add(&packet, s->in.p + 4, n);
        buf_drop(&s->in, 4 + n);
        if (s->ready) {
            on_packet(s, buf_str(&packet));
        } else {
            s->ready = true;
            send_waiting(s->front);
        }
        buf_fini(&packet);
    }
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct service *s = arg;
    (void)p;
    if (which == 2) {
        buf_adds(&s->tail, bytes); // past its maximum nothing is added
    } else if (bytes.n != 0 && s->front != NULL) {
        buf_adds(&s->in, bytes);
        if (!s->asking) {
            read_packets(s);
        }
    }
}

static void start(struct front *f);

/// The process ended by itself. It may have been killed between two builds, or by one of them, so another gets those
/// that it did not finish, once. The others fail.
static void lose_builds(struct front *f, bool missing, const char *message)
{
    vec(struct build *) lost = {0};
    for (size_t i = 0; i < f->builds.n;) {
        struct build *b = f->builds.p[i];
        if (b->sent && !b->again) {
            b->again = true;
            b->sent = false;
            i++;
        } else {
            vec_push(&lost, take(f, i));
        }
    }
    if (f->builds.n != 0) {
        start(f);
    }
    vec_foreach (b, &lost) {
        build__fail(*b, missing, message, NULL);
        free(*b);
    }
    vec_fini(&lost);
}

static void on_exit_(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct service *s = arg;
    struct front *f = s->front;
    (void)p;
    if (f != NULL) {
        f->service = NULL;
        timer_stop(&f->idle);
        if (s->asking && x->launched && x->code == 0) {
            struct str said = str_trim(buf_str(&s->in));
            f->version = str_dup((struct str){said.p, MIN(said.n, 32)});
            start(f);
        } else {
            struct arena a = {0};
            struct str tail = str_trim(buf_str(&s->tail));
            free(f->version);
            f->version = NULL; // it may be another program by now
            lose_builds(f, !x->launched,
                        arena_printf(&a, "the compiler '%s' ended: " STR_FMT "%s", f->program,
                                     STR_ARG(tail), !x->launched && x->why != NULL ? x->why : ""));
            arena_fini(&a);
        }
    }
    buf_fini(&s->in);
    buf_fini(&s->tail);
    free(s);
}

/// Beside our own program, as it is installed or built (a test build is one directory below), else on PATH. NULL: nowhere.
static char *find_program(void)
{
    char *ours = proc_launcher_path(NULL), *found = NULL;
    if (ours != NULL) {
        struct str dir = path_dir(str_of(ours));
        char *dirs = xasprintf(STR_FMT ":" STR_FMT "/..", STR_ARG(dir), STR_ARG(dir));
        found = path_find_program(str_of(dirs), "esbuild");
        free(dirs);
    }
    free(ours);
    const char *path = getenv("PATH"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    return found != NULL ? found : path_find_program(str_of(path), "esbuild");
}

static void on_nowhere(void *arg)
{
    struct front *f = arg;
    f->failing = NULL;
    fail_all(f, true, "there is no compiler for TypeScript and JSX",
             "install esbuild ('apt install esbuild' or 'npm install -g esbuild'), or write plain "
             "JavaScript in "
             "front/index.js, or ship dist/front/index.js");
}

static void spawn(struct front *f)
{
    struct err e = {0};
    char *flag = f->version != NULL ? xasprintf("--service=%s", f->version) : xstrdup("--version");
    const char *path = getenv("PATH"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    char *path_entry = xasprintf("PATH=%s", path != NULL ? path : "/usr/bin:/bin");
    struct service *s = xcalloc(1, sizeof *s);
    s->front = f;
    s->asking = f->version == NULL;
    buf_init(&s->in, SIZE_MAX);
    buf_init(&s->tail, TAIL_MAX);
    const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_};
    struct proc_opts o = {.argv = (const char *const[]){f->program, flag, NULL},
                          .env = (const char *const[]){path_entry, NULL},
                          .in = PROC_PIPE,
                          .out = PROC_PIPE,
                          .err = PROC_PIPE};
    if (proc_spawn(&s->proc, f->loop, &o, &cb, s, &e) == 0) {
        f->service = s;
    } else {
        log_warn(LOG_HUB, "esbuild=%s reason=%s", LOGQ(str_of(f->program)).z,
                 LOGQ(str_of(e.msg)).z);
        buf_fini(&s->in);
        buf_fini(&s->tail);
        free(s);
        f->failing = f->failing != NULL ? f->failing : loop_defer(f->loop, on_nowhere, f);
    }
    free(flag);
    free(path_entry);
}

static void start(struct front *f)
{
    char *found = find_program();
    bool same = found != NULL && f->program != NULL && strcmp(found, f->program) == 0;
    if (!same) {
        free(f->version);
        f->version = NULL;
    }
    free(f->program);
    f->program = found;
    if (found != NULL) {
        spawn(f);
    } else if (f->failing == NULL) {
        f->failing = loop_defer(f->loop, on_nowhere, f);
    }
}

// ---- life -------------------------------------------------------------------------------------

struct front *front_open(struct loop *l)
{
    struct front *f = xcalloc(1, sizeof *f);
    f->loop = l;
    timer_init(&f->idle, l, on_idle, f);
    return f;
}

void front_close(struct front *f)
{
    if (f == NULL) {
        return;
    }
    let_go(f);
    timer_stop(&f->idle);
    if (f->failing != NULL) {
        loop_cancel(f->loop, f->failing);
    }
    fail_all(f, false, "the hub is stopping", NULL);
    vec_fini(&f->builds);
    free(f->program);
    free(f->version);
    free(f);
}

void front_build(struct front *f, const struct tree *t, const char *entry, front_built *cb,
                 void *arg)
{
    struct build *b = xcalloc(1, sizeof *b);
    *b = (struct build){
        .id = ++f->next_id, .tree = t, .entry = entry, .cb = cb, .arg = arg, .front = f};
    timer_init(&b->deadline, f->loop, on_late, b);
    timer_start(&b->deadline, BUILD_MS);
    timer_stop(&f->idle);
    vec_push(&f->builds, b);
    if (f->service == NULL) {
        start(f);
    } else if (f->service->ready) {
        send_waiting(f);
    }
}
