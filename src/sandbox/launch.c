// afloat-launch: the small program between the hub and every program it starts.
//
// The hub is large and has threads: fork() there is slow, and between fork and exec hardly anything is
// allowed. So the hub spawns this static program, which prepares the process:
//
//     hub ── spawn ──> afloat-launch ── signals, descriptors, limits, directory ── exec ──> program
//
// and with -s it stays between the two, so that nothing the program started outlives it:
//
//     hub <══ channel ══> afloat-launch (child subreaper)
//                              └─ program (own session) ─ ... ─ daemon that called setsid twice
//
// An orphan becomes a child of its nearest subreaper: as long as we have a child a descendant lives, and when
// wait says there is none, none is left. Three things begin the end: the program exits, the hub orders SIGKILL,
// or the channel closes because the hub is gone, however it died. Then all get TERM, after two seconds KILL,
// sweep after sweep until wait says so. A sweep walks /proc/PID/task/TID/children from ourselves down. It may
// miss a process that is born meanwhile; the next sweep finds that one, since its parent is dead and we are its
// reaper.
//
// With a box (-b) the program runs in its own namespaces, and one more of us stands between:
//
//     afloat-launch ── init (process 1 in there: mounts, then waits) ── program (walls, then exec)
//
// When init ends, the kernel ends all that is left in there. What the box is made of is in launch_box.c
// (mounts), launch_keep.c (names that must not appear), launch_walls.c and launch_init.c.
//
// It allocates nothing, reads no file but /proc, and prints only when started by hand. It does not stop a
// descendant from killing us: the program dies with us then (PDEATHSIG), its children need not; keeping them
// in is the sandbox's task.

#include "loop/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/launch_int.h"

enum {
    GRACE_MS = 2000,    // between TERM and KILL
    AGAIN_MS = 20,      // between the first two sweeps of KILL, then twice that, and so on
    AGAIN_MAX = 1000,   // for those whom the kernel cannot end now
    SWEEP_MAX = 32768,  // processes one sweep can see; the next sees the rest
    REAP_MAX = 1024,    // zombies buried before looking at the channel again
    EXIT_UNUSABLE = 125 // we could not even begin
};

struct request {
    bool supervise;
    bool extra_fd;
    bool terminal;
    const char *dir;
    rlim_t files;
    rlim_t umask;                // RLIM_INFINITY: as inherited
    rlim_t limits[RLIM_NLIMITS]; // 0: as inherited
    rlim_t box_memory;           // 0: no limit
    struct launch_box box;
    char **argv;
};

// ---- reports -------------------------------------------------------------------------------

static void report(enum launch_kind kind, int value)
{
    struct launch_report r = {.kind = (int32_t)kind, .value = value};
    send(LAUNCH_CHANNEL_FD, &r, sizeof r, MSG_NOSIGNAL); // fails when the hub is gone
}

_Noreturn void launch__fail(enum launch_kind kind)
{
    report(kind, errno);
    keep__drop();
    _exit(127);
}

// ---- the request ---------------------------------------------------------------------------

static const struct limit {
    char letter;
    unsigned resource;
} limits[] = {
#define X(letter, resource, member) {letter, resource},
    LAUNCH_LIMITS(X)
#undef X
};

static bool parse_number(const char *text, rlim_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool parse_option(struct request *r, int letter, const char *text)
{
    switch (letter) {
    case 's': r->supervise = true; return true;
    case '3': r->extra_fd = true; return true;
    case 'c': r->terminal = true; return true;
    case 'd': r->dir = text; return true;
    case 'f': return parse_number(text, &r->files);
    case 'k': return parse_number(text, &r->umask);
    case 'x': r->box.on = true; return true;
    case 'n': r->box.network = true; return true;
    case 'l': r->box.loopback = true; return true;
    case 'M': return parse_number(text, &r->box_memory);
    case '?': return false;
    case 'b': {
        const char *kind = text[0] != '\0' ? strchr("wrhktf", text[0]) : NULL;
        if (r->box.n == LAUNCH_RULES_MAX || kind == NULL || strchr(text, '/') == NULL) {
            return false;
        }
        r->box.rules[r->box.n++] = text;
        return true;
    }
    default:
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            if (limits[i].letter == letter) {
                return parse_number(text, &r->limits[limits[i].resource]);
            }
        }
        return false;
    }
}

static bool parse_request(struct request *r, int argc, char **argv)
{
    int letter;
    opterr = 0;
    r->umask = RLIM_INFINITY;
    while ((letter = getopt(argc, argv, "+s3cxnld:f:k:m:t:u:z:b:M:")) != -1) {
        if (!parse_option(r, letter, optarg)) {
            return false;
        }
    }
    r->argv = argv + optind;
    return r->dir != NULL && r->argv[0] != NULL && (r->supervise || !r->box.on);
}

// ---- becoming the program ------------------------------------------------------------------

// Asks the kernel itself: libc keeps two signals from us (32 and 33, cancelling threads), and some
// programs, GNU make for one, start theirs with these ignored.
static void reset_signals(void)
{
    static const char dfl[64]; // the kernel's struct sigaction, all zeros: SIG_DFL
    static const char none[8];
    for (int i = 1; i <= 64; i++) {
        syscall(SYS_rt_sigaction, i, dfl, NULL, sizeof none); // refused for KILL and STOP
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, none, NULL, sizeof none);
}

/// Set the soft limit, and the hard one too where `both`; never above the hard limit we have.
static void set_limit(unsigned resource, rlim_t value, bool both)
{
    struct rlimit l;
    if (getrlimit(resource, &l) != 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
    l.rlim_cur = value < l.rlim_max ? value : l.rlim_max;
    l.rlim_max = both ? l.rlim_cur : l.rlim_max;
    if (setrlimit(resource, &l) != 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
}

/// PATH is that of the program's environment; without one, as with execvp(), the system's own programs are found.
/// Only absolute entries count: the working directory may belong to anyone. Unlike execvp(), a text without #! is
/// not handed to a shell.
static void exec_program(char **argv)
{
    if (strchr(argv[0], '/') != NULL) {
        execve(argv[0], argv, environ);
        return;
    }
    const char *dir = getenv("PATH");
    dir = dir != NULL ? dir : "/usr/local/bin:/usr/bin:/bin";
    int worst = ENOENT;
    while (dir != NULL && argv[0][0] != '\0') {
        char path[PATH_MAX];
        size_t n = strcspn(dir, ":");
        if (dir[0] == '/' && n < PATH_MAX) {
            int len = snprintf(path, sizeof path, "%.*s/%s", (int)n, dir, argv[0]);
            errno = ENAMETOOLONG;
            if (len >= 0 && (size_t)len < sizeof path) {
                execve(path, argv, environ);
            }
            worst = errno == ENOENT || errno == ENOTDIR ? worst : errno;
        }
        dir = dir[n] == ':' ? dir + n + 1 : NULL;
    }
    errno = worst;
}

static _Noreturn void become(const struct request *r)
{
    if (!r->terminal) {
        set_limit(RLIMIT_CORE, 0, true);
    }
    if (r->files != 0) {
        set_limit(RLIMIT_NOFILE, r->files, false);
    }
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        rlim_t value = r->limits[limits[i].resource];
        if (value != 0) {
            set_limit(limits[i].resource, value, true);
        }
    }
    if (r->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0) { // we lead a session without one
        launch__fail(LAUNCH_NO_SETUP);
    }
    if (chdir(r->dir) != 0) {
        launch__fail(LAUNCH_NO_DIR);
    }
    if (r->box.on) {
        walls__enter(&r->box);
    }
    exec_program(r->argv);
    launch__fail(LAUNCH_NO_PROGRAM);
}

// ---- sweeping descendants ------------------------------------------------------------------

static pid_t found[SWEEP_MAX]; // breadth first, ourselves at 0
static size_t n_found;
static int sweep_signal;

/// KILL is sent on sight: a process that lives for a moment only, just long enough to start the
/// next one, would be gone later. Whom that orphans, we inherit.
static void note_found(pid_t pid)
{
    if (pid > 0 && sweep_signal == SIGKILL) {
        kill(pid, SIGKILL);
    }
    if (pid > 0 && n_found < SWEEP_MAX) {
        found[n_found++] = pid;
    }
}

/// Numbers with a space after each; one may be cut by the end of a read.
static void note_children_of_task(const char *path)
{
    char text[4096];
    ssize_t n;
    pid_t pid = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    while ((n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else {
                note_found(pid);
                pid = 0;
            }
        }
    }
    close(fd);
}

/// Threads have children of their own, so each of them is asked.
static void note_children(pid_t pid)
{
    char dir[64], path[384];
    _Alignas(struct dirent64) char entries[4096];
    ssize_t n;
    snprintf(dir, sizeof dir, "/proc/%d/task", (int)pid);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    while ((n = getdents64(fd, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *d = (const void *)(entries + at);
            at += d->d_reclen;
            if (d->d_name[0] != '.') {
                snprintf(path, sizeof path, "%s/%s/children", dir, d->d_name);
                note_children_of_task(path);
            }
        }
    }
    close(fd);
}

/// Send `sig` to every descendant that can be seen. A process's children are noted before it gets
/// a signal that it may answer: afterwards they might no longer be its.
static void sweep(int sig)
{
    sweep_signal = sig;
    found[0] = getpid();
    n_found = 1;
    for (size_t i = 0; i < n_found; i++) {
        note_children(found[i]);
        if (i > 0 && sig != SIGKILL) {
            kill(found[i], sig);
        }
    }
}

// ---- the supervisor ------------------------------------------------------------------------

enum phase { RUNNING, ENDING, KILLING };

static struct {
    pid_t program;
    int status;                          // of the program, once `over`
    volatile struct launch_over *in_box; // shared with init; NULL without a box
    bool over;
    enum phase phase;
    int64_t kill_at;  // in ENDING
    int64_t again_ms; // in KILLING
    struct pollfd channel;
} sv;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/// Bury the dead. Returns false when no child, and thus no descendant, is left.
static bool reap(void)
{
    for (int i = 0; i < REAP_MAX; i++) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            return pid == 0;
        }
        if (pid == sv.program) {
            sv.status = sv.in_box != NULL && sv.in_box->status != -1 ? sv.in_box->status : status;
            sv.over = true;
        }
    }
    return true;
}

static void begin_end(void)
{
    if (sv.phase == RUNNING) {
        sv.phase = ENDING;
        sv.kill_at = now_ms() + GRACE_MS;
        sweep(SIGTERM);
        sweep(SIGCONT); // a stopped process gets its TERM only when it runs
    }
}

static void obey(void)
{
    struct launch_order order;
    ssize_t n = recv(LAUNCH_CHANNEL_FD, &order, sizeof order, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n != (ssize_t)sizeof order) { // the hub is gone
        sv.channel.fd = -1;
        begin_end();
    } else if (order.signal == SIGKILL) {
        sv.phase = KILLING;
    } else if (order.signal > 0) {
        sweep(order.signal);
    }
}

/// Sleep until a child dies, an order comes or the phase has to change. SIGCHLD is blocked except
/// in here, so that none is lost between reap() and the sleep.
static void wait_for_event(void)
{
    sigset_t none;
    int64_t ms = sv.phase == KILLING     ? sv.again_ms
                 : sv.phase != ENDING    ? -1
                 : sv.kill_at > now_ms() ? sv.kill_at - now_ms()
                                         : 0;
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    sigemptyset(&none);
    if (ppoll(&sv.channel, 1, ms < 0 ? NULL : &t, &none) > 0) {
        obey();
    }
}

static void on_child(int sig)
{
    (void)sig; // its interrupting ppoll() is all we want
}

static _Noreturn void supervise(void)
{
    sv.again_ms = AGAIN_MS / 2;
    sv.channel = (struct pollfd){.fd = LAUNCH_CHANNEL_FD, .events = POLLIN};
    close_range(0, LAUNCH_EXTRA_FD, 0); // the ends of streams must be the program's alone
    while (reap()) {
        if (sv.over) {
            begin_end();
        }
        if (sv.phase == ENDING && now_ms() >= sv.kill_at) {
            sv.phase = KILLING;
        }
        if (sv.phase == KILLING) {
            sweep(SIGKILL);
            sv.again_ms = sv.again_ms < AGAIN_MAX ? sv.again_ms * 2 : AGAIN_MAX;
        }
        wait_for_event();
    }
    keep__drop();
    if (sv.in_box != NULL && sv.in_box->limit != 0) {
        report(LAUNCH_LIMITED, sv.in_box->limit);
    }
    report(LAUNCH_ENDED, sv.status);
    _exit(0);
}

// ---- the first process of a box --------------------------------------------------------------

static _Noreturn void become_init(const struct request *r)
{
    keep__forget();
    if (r->box.loopback) {
        box__listen();
    }
    box__mount(&r->box);
    pid_t program = fork();
    if (program < 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
    if (program == 0) {
        setsid();
        reset_signals();
        // when the machine runs out of memory, processes of a box are ended before those of the user
        static const char score[] = "500";
        int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (fd >= 0) {
            ssize_t n = write(fd, score, sizeof score - 1);
            (void)n; // a machine that does not know it has its own ways
            close(fd);
        }
        become(r);
    }
    const struct launch_limits all = {r->limits[RLIMIT_NPROC], r->box_memory};
    init__watch_over(program, &all, sv.in_box);
}

// ---- starting --------------------------------------------------------------------------------

static _Noreturn void split(const struct request *r)
{
    sigset_t child;
    pid_t self = getpid();
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    signal(SIGCHLD, on_child);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
    if (r->box.on) {
        void *shared = mmap(NULL, sizeof *sv.in_box, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) {
            launch__fail(LAUNCH_NO_SETUP);
        }
        sv.in_box = shared;
        sv.in_box->status = -1;
        keep__make(&r->box);
    }
    sv.program = r->box.on ? box__fork(r->box.loopback) : fork();
    if (sv.program < 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
    if (sv.program != 0) {
        supervise();
    }
    if (r->box.on) {
        become_init(r);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); // die when the supervisor does
    if (getppid() != self) {
        _exit(127);
    }
    setsid();
    reset_signals();
    become(r);
}

int main(int argc, char **argv)
{
    static struct request r;
    if (!parse_request(&r, argc, argv) || fcntl(LAUNCH_CHANNEL_FD, F_GETFD) < 0) {
        fputs("afloat-launch is started by afloat, not by hand\n", stderr);
        return EXIT_UNUSABLE;
    }
    reset_signals();
    if (r.umask != RLIM_INFINITY) {
        umask((mode_t)r.umask);
    }
    if (!r.extra_fd) {
        close(LAUNCH_EXTRA_FD);
    }
    if (fcntl(LAUNCH_CHANNEL_FD, F_SETFD, FD_CLOEXEC) != 0 ||
        close_range(LAUNCH_CHANNEL_FD + 1, UINT_MAX, 0) != 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
    if (r.supervise) {
        split(&r);
    }
    become(&r);
}
