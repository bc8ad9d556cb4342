// One improvement in a process of its own.
//
//     open its directory ── policy_enter() ── Lua state ── poll: socket, timers ── until the hub hangs up
//     └────── before the first byte is read ────┘
//
// The process locks itself in before it reads anything, so no message can prevent it: what comes later,
// the file's source included, is run by a process that can reach its directory and its socket and
// nothing else. When the policy cannot be had nothing is run.
//
// It is single-threaded and waits in poll(). Lua code runs in entries with limits; what it says is
// collected and written when the entry is over or the buffer is full, blocking: a hub that does
// not read us is a hub that has given us up.

#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"
#include "host/host_int.h"
#include "proto/host.h"
#include "sandbox/policy.h"

enum { MEMORY = 256 << 20, READ_SIZE = 64 * 1024 }; // bytes beside those of the program itself

static const struct json *config(lua_State *L, struct arena *a)
{
    (void)a;
    return far__of(L)->config;
}

static const char *data_dir(lua_State *L)
{
    return far__of(L)->data_dir;
}

static const struct lib_backend backend = {
    .config = config,
    .data_dir = data_dir,
    .timers = &far__timers,
    .events = &far__events,
    .hooks = &far__hooks,
    .fs = &far__fs,
};

static void on_log(void *arg, const struct vm_owner *owner, enum log_level level, struct str text)
{
    struct far *f = arg;
    struct jw w;
    (void)owner;
    far__begin(f, &w, "log", 0);
    jw_kstrz(&w, "level", log_level_name(level));
    jw_kstr(&w, "text", text);
    far__send(f, &w);
}

struct far *far__of(lua_State *L)
{
    return vm_arg(vm_of(L));
}

void far__init(struct far *f, const char *path, int root, int fd)
{
    struct str name = path_base(str_of(path));
    *f = (struct far){.fd = fd, .root = root, .path = xstrdup(path)};
    f->name = str_dup(str_ends(name, ".lua") ? (struct str){name.p, name.n - 4} : name);
    buf_init(&f->in, HOST_LINE_MAX + 2 * READ_SIZE);
    buf_init(&f->out, SIZE_MAX);
    f->vm = vm_open(
        &(struct vm_opts){.trust = VM_SANDBOX, .log = on_log, .arg = f, .backend = &backend});
    f->owner = vm_owner_open(f->vm, f->name);
    vm_add_functions(f->vm, "hub", far__hub);
    vm_add_lib(f->vm, "tool", far__open_tool);
}

void far__fini(struct far *f)
{
    far__jobs_fini(f);
    far__clock_fini(f);
    vm_close(f->vm);
    vec_foreach (h, &f->handlers) {
        free(h->name);
        free(h->title);
    }
    vec_fini(&f->handlers);
    arena_fini(&f->config_arena);
    buf_fini(&f->in);
    buf_fini(&f->out);
    free(f->data_dir);
    free(f->path);
    free(f->name);
}

// ---- the loop ------------------------------------------------------------------------------

static void take_input(struct far *f)
{
    char *room = buf_reserve(&f->in, READ_SIZE), *newline;
    ssize_t n = room != NULL ? read(f->fd, room, READ_SIZE) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n <= 0) { // the hub hung up, or sent a line that has no end
        f->over = true;
        return;
    }
    buf_grow(&f->in, (size_t)n);
    if (memchr(room, '\n', (size_t)n) == NULL) {
        return;
    }
    size_t begin = 0;
    while (begin < f->in.n && (newline = memchr(f->in.p + begin, '\n', f->in.n - begin)) != NULL) {
        size_t at = (size_t)(newline - f->in.p);
        far__line(f, (struct str){f->in.p + begin, at - begin});
        begin = at + 1;
    }
    buf_drop(&f->in, begin);
}

// ---- starting ------------------------------------------------------------------------------

/// Say why there will be no answer. Written by hand: nothing is set up yet.
static int refuse(const struct err *e)
{
    struct buf line = {.max = SIZE_MAX};
    struct jw w = {.out = &line};
    jw_obj(&w);
    jw_kstrz(&w, "type", "failed");
    jw_key(&w, "message");
    jw_strf(&w, "no sandbox, so nothing is run: %s", e->msg);
    jw_end_obj(&w);
    buf_addc(&line, '\n');
    ssize_t n = write(HOST_FD, line.p, line.n);
    buf_fini(&line);
    return n < 0 ? 2 : 1;
}

int host_lua_main(const char *path)
{
    static struct far f;
    struct err e = {0};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an error, not our end
    if (fcntl(HOST_FD, F_GETFD) < 0) {
        fputs("afloat host is started by the hub, not by hand\n", stderr);
        return 2;
    }
    setenv("TZ", ":/etc/localtime",
           0); // libc reads it now, and not again: it has a name of its own
    tzset();
    char *dir = str_dup(path_dir(str_of(path)));
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        err_sys(&e, "cannot open '%s'", dir);
        return refuse(&e);
    }
    const struct policy_tree tree = {.dirfd = root, .access = POLICY_READ | POLICY_WRITE};
    const struct policy policy = {.trees = &tree, .n_trees = 1, .memory = MEMORY};
    if (policy_enter(&policy, &e) < 0) {
        return refuse(&e);
    }
    free(dir);
    far__init(&f, path, root, HOST_FD);
    while (!f.over) {
        struct pollfd p = {.fd = f.fd, .events = POLLIN};
        if (poll(&p, 1, far__next_ms(&f)) > 0) {
            take_input(&f);
        }
        far__fire_due(&f);
        far__flush(&f);
    }
    _exit(0); // nothing to tidy: the process goes
}
