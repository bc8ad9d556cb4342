// Starting the hub from a client.
//
//     client A ──┬─ connect fails ── start.lock ── spawn hub ── connect ... ok ── unlock
//     client B ──┴─ connect fails ── lock is taken ──────────── connect ... ok
//
// The hub must outlive the client and owe it nothing: a session of its own, the root as working
// directory, /dev/null as input, a file in logs/ for whatever it prints, no other descriptor and
// only the listed variables. So a pipe round `afloat start` ends with the client.
//
// A hub that is stopping, or that another process is starting, holds the home
// and does not listen: both are waited for before a new one is spawned.
//
// Invariants:
//   - a hub is spawned only with start.lock held, and at most once per call.
//   - nothing here waits longer than START_WAIT_MS in all.

#include "client/start.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "client/dial.h"
#include "client/holder.h"
#include "client/interrupt.h"

enum { LOOK_MS = 5, WORDS_MAX = 64 << 10 };

struct starting {
    const struct home *home;
    uint64_t deadline;
    int lock;    // start.lock while we hold it, else -1
    int spawned; // pidfd of the hub we started, else -1
    bool died;   // ... and it is gone again
};

// ---- environment ---------------------------------------------------------------------------

static bool hub_wants(struct str name)
{
    // clang-format off
    static const char *const wanted[] = {
        "HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*",
        "AFLOAT_LOG", "AFLOAT_REPO", "AFLOAT_PROFILE", "AFLOAT_LISTEN", "AFLOAT_DEV_LUA",
        "SSL_CERT_*", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "*SAN_OPTIONS",
    };
    // clang-format on
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        if (str_glob(str_of(wanted[i]), name)) {
            return true;
        }
    }
    return false;
}

char **start_environment(const struct home *h, char *const *env, struct arena *a)
{
    vec(char *) all = {0};
    for (; *env != NULL; env++) {
        struct str rest = str_of(*env);
        if (hub_wants(str_cut(&rest, '='))) {
            vec_push(&all, *env);
        }
    }
    vec_push(&all, arena_printf(a, "AFLOAT_HOME=%s", h->dir));
    vec_push(&all, arena_printf(a, "AFLOAT_RUNTIME=%s", h->runtime));
    vec_push(&all, NULL);
    char **out = arena_alloc(a, all.n * sizeof *out);
    memcpy(out, all.p, all.n * sizeof *out);
    vec_fini(&all);
    return out;
}

// ---- spawning ------------------------------------------------------------------------------

static char *output_path(const struct home *h)
{
    struct str logs = path_dir(str_of(h->log));
    return xasprintf(STR_FMT "/hub.out", STR_ARG(logs));
}

// What fork() and exec() would do in between, as data: nothing of ours runs in the child.
static int describe_child(posix_spawn_file_actions_t *fa, posix_spawnattr_t *attr, const char *out)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(attr, &all);
    posix_spawnattr_setsigmask(attr, &none);
    posix_spawnattr_setflags(attr,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
    int rc = posix_spawn_file_actions_addopen(fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc != 0 ? rc : posix_spawn_file_actions_addopen(fa, STDOUT_FILENO, out, flags, 0600);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(fa, STDOUT_FILENO, STDERR_FILENO);
    rc = rc != 0 ? rc : posix_spawn_file_actions_addchdir_np(fa, "/");
    return rc != 0 ? rc : posix_spawn_file_actions_addclosefrom_np(fa, STDERR_FILENO + 1);
}

static int spawn_described(pid_t *pid, const struct home *h, const char *out)
{
    char name[] = "afloat", hub[] = "hub";
    char *argv[] = {name, hub, NULL};
    struct arena a = {0};
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&attr);
    char **env = start_environment(h, environ, &a);
    int rc = describe_child(&fa, &attr, out);
    if (rc == 0) {
        rc = posix_spawn(pid, "/proc/self/exe", &fa, &attr, argv, env);
    }
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&fa);
    arena_fini(&a);
    return rc;
}

static int spawn_hub(struct starting *s, struct err *e)
{
    char *out = output_path(s->home), *dir = str_dup(path_dir(str_of(out)));
    pid_t pid = 0;
    int rc = path_mkdirs(dir, 0700, e);
    free(dir);
    if (rc == 0) {
        int fault = spawn_described(&pid, s->home, out);
        rc = fault != 0 ? err_set(e, -fault, "cannot start the hub: %s", err_text(-fault)) : 0;
    }
    if (rc == 0) {
        // our child and not waited for: the number is still its own
        s->spawned = pidfd_open(pid, 0);
        rc = s->spawned < 0 ? err_sys(e, "cannot watch the hub") : 0;
    }
    free(out);
    return rc;
}

// ---- waiting -------------------------------------------------------------------------------

static bool listening(const struct home *h)
{
    int fd = dial_unix(h->socket, interrupt_deadline(0), NULL);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 || fd == ERR_TIMEOUT; // a full queue has a listener
}

// Returns 1 when the lock is ours, 0 when another process starts a hub now.
static int try_lock(struct starting *s, struct err *e)
{
    if (s->lock >= 0) {
        return 1;
    }
    char *path = path_join(s->home->runtime, "start.lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd < 0 ? err_sys(e, "cannot open '%s'", path) : 0;
    free(path);
    if (rc < 0) {
        return rc;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return 0;
    }
    s->lock = fd;
    return 1;
}

// One look at how things are: 1 when the hub listens, 0 when it is worth looking again.
static int step(struct starting *s, struct err *e)
{
    if (listening(s->home)) {
        return 1;
    }
    if (s->spawned >= 0 || s->died) {
        return 0;
    }
    int rc = try_lock(s, e);
    if (rc <= 0) {
        return rc;
    }
    // the process that had the lock before us may have started the hub since we looked
    if (listening(s->home)) {
        return 1;
    }
    bool held = holder_find(s->home) != 0 || holder_find_tool(s->home) != 0;
    return held ? 0 : spawn_hub(s, e);
}

// Sleep for a moment, or less when the hub we started goes. Returns 0 or -EINTR.
static int pause_a_little(struct starting *s, struct err *e)
{
    struct pollfd p = {.fd = s->spawned, .events = POLLIN};
    int rc = interrupt_wait(&p, 1, interrupt_deadline(LOOK_MS)); // poll() passes over a -1
    if (rc < 0) {
        return err_set(e, rc, "interrupted");
    }
    if (rc > 0) {
        siginfo_t si;
        waitid(P_PIDFD, (id_t)s->spawned, &si, WEXITED | WNOHANG);
        close(s->spawned);
        s->spawned = -1;
        s->died = true;
    }
    return 0;
}

static int give_up(const struct starting *s, struct err *e)
{
    pid_t holder = s->spawned < 0 && !s->died ? holder_find(s->home) : 0;
    pid_t tool = s->spawned < 0 && !s->died ? holder_find_tool(s->home) : 0;
    if (tool != 0) {
        return err_set(e, ERR_UNREACHABLE,
                       "process %ld uses the home, and no hub can start before it has ended",
                       (long)tool);
    }
    if (holder != 0) { // started by another process
        return err_set(e, ERR_UNREACHABLE,
                       "the hub (pid %ld) does not listen in '%s': it is starting or stopping, or "
                       "was started with another AFLOAT_RUNTIME or XDG_RUNTIME_DIR",
                       (long)holder, s->home->runtime);
    }
    char *words = start_last_words(s->home);
    int rc = err_set(e, ERR_UNREACHABLE, "the hub %s: %s",
                     s->died ? "could not start" : "did not start in time",
                     words != NULL ? words : "it printed nothing");
    free(words);
    return rc;
}

static int wait_for_hub(struct starting *s, struct err *e)
{
    for (;;) {
        int rc = step(s, e);
        if (rc != 0) {
            return rc < 0 ? rc : 0;
        }
        // a hub of ours that went because another one holds the home leaves that one to wait for
        bool hopeless = s->died && holder_find(s->home) == 0;
        if (hopeless || interrupt_deadline(0) > s->deadline) {
            return give_up(s, e);
        }
        rc = pause_a_little(s, e);
        if (rc < 0) {
            return rc;
        }
    }
}

// ---- last words ----------------------------------------------------------------------------

static char *read_tail(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO must not hang us
    if (fd < 0) {
        return NULL;
    }
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > WORDS_MAX ? size - WORDS_MAX : 0;
    char *text = xcalloc(1, WORDS_MAX + 1);
    ssize_t n = pread(fd, text, WORDS_MAX, from);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static bool is_error_line(struct str line)
{
    str_cut(&line, ' '); // the time
    return str_starts(line, "error ");
}

static bool is_talk(struct str line)
{
    return line.n != 0 && !str_starts(line, "ready ");
}

static char *last_line(const char *path, bool (*fits)(struct str line))
{
    char *text = read_tail(path);
    struct str rest = str_of(text), found = STR_NULL;
    while (rest.n != 0) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        found = fits(line) ? line : found;
    }
    found = str_starts(found, "afloat: ") ? str_from(found, strlen("afloat: ")) : found;
    char *out = found.n != 0 ? str_dup(found) : NULL;
    free(text);
    return out;
}

// ---- public --------------------------------------------------------------------------------

int start_hub(const struct home *h, struct start_result *out, struct err *e)
{
    struct starting s = {.home = h, .lock = -1, .spawned = -1};
    bool dormant = holder_is_dormant(h); // systemd listens: our connection starts the hub
    bool up = listening(h);
    *out = (struct start_result){.already = up && !dormant};
    if (up) {
        return 0;
    }
    int rc = home_prepare(h, e);
    if (rc < 0) {
        return rc;
    }
    s.deadline = interrupt_deadline(START_WAIT_MS);
    rc = wait_for_hub(&s, e);
    out->already = s.spawned < 0;
    if (s.spawned >= 0) {
        close(s.spawned);
    }
    if (s.lock >= 0) {
        close(s.lock);
    }
    return rc;
}

static bool has(struct str line, const char *part)
{
    return line.p != NULL && memmem(line.p, line.n, part, strlen(part)) != NULL;
}

/// What the last hub wrote into the log: its last error that is not a plugin's, else its last line.
static char *last_of_life(const struct home *h)
{
    char *text = read_tail(h->log);
    struct str rest = str_of(text), error = STR_NULL, last = STR_NULL;
    while (rest.n != 0) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        if (has(line, " hub ready ")) { // another life: its errors are not this one's
            error = STR_NULL;
        }
        bool plugins = has(line, " unit=") || has(line, " plugin=");
        error = is_error_line(line) && !plugins ? line : error;
        last = line.n != 0 ? line : last;
    }
    struct str found = error.n != 0 ? error : last;
    char *out = found.n != 0 ? str_dup(found) : NULL;
    free(text);
    return out;
}

/// Was it written by the hub that left its pid file? One in the foreground writes no such file.
static bool is_of_last(const struct home *h, const char *out)
{
    struct stat written, begun;
    return stat(h->pid, &begun) != 0 || stat(out, &written) != 0 ||
           written.st_mtim.tv_sec >= begun.st_mtim.tv_sec;
}

char *start_last_words(const struct home *h)
{
    char *out = output_path(h);
    char *words = is_of_last(h, out) ? last_line(out, is_talk) : NULL;
    free(out);
    return words != NULL ? words : last_of_life(h);
}

char *start_last_error(const struct home *h)
{
    return last_line(h->log, is_error_line);
}
