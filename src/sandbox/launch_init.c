// The first process of a box: it buries the dead, and ends the box when it takes too much.
//
// The kernel's own limits do not fit. RLIMIT_AS counts addresses, of which a JavaScript or Go program reserves
// terabytes; RLIMIT_NPROC does not bind root; a private control group needs privileges. So this process looks
// into its /proc now and then and counts:
//
//     processes ── the names in /proc
//     memory ── resident pages of each, which is quick but counts shared pages several times
//           └── only above the limit: each one's proportional share (smaps_rollup), and that decides
//
// When it ends, the kernel ends everyone in the box. What happens between two looks goes unseen: the
// kernel is asked to take processes of a box first when the machine is out of memory (launch.c).

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/launch_int.h"

enum { LOOK_MS = 50 };

struct taken {
    size_t processes;
    uint64_t bytes;
};

/// The text of a small file of /proc; "" when it cannot be read.
static const char *read_proc(const char *pid, const char *name, char *text, size_t n)
{
    snprintf(text, n, "/proc/%s/%s", pid, name);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, n - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static uint64_t resident_bytes(const char *pid)
{
    char text[512];
    unsigned long long size, resident = 0;
    if (sscanf(read_proc(pid, "statm", text, sizeof text), "%llu %llu", &size, &resident) != 2) {
        return 0; // it has just ended
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t shared_out_bytes(const char *pid)
{
    char text[4096];
    const char *line = strstr(read_proc(pid, "smaps_rollup", text, sizeof text), "\nPss:");
    return line != NULL ? strtoull(line + strlen("\nPss:"), NULL, 10) * 1024 : resident_bytes(pid);
}

static struct taken count(uint64_t bytes_of(const char *pid))
{
    _Alignas(struct dirent64) char entries[4096];
    struct taken t = {0};
    ssize_t n;
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && (n = getdents64(fd, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *d = (const void *)(entries + at);
            at += d->d_reclen;
            if (d->d_name[0] >= '0' && d->d_name[0] <= '9') {
                t.processes++;
                t.bytes += bytes_of != NULL ? bytes_of(d->d_name) : 0;
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return t;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/// Wait for a child, or until it is time to look, which no number of children puts off; a box that has passed a limit
/// is ended.
static void wait_for_child(const struct launch_limits *l, volatile struct launch_over *over)
{
    static int64_t due;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (l->memory == 0 && l->processes == 0) {
        sigwaitinfo(&child, NULL);
        return;
    }
    int64_t left = due - now_ms();
    const struct timespec t = {.tv_nsec = left * 1000000L};
    if (left > 0 && sigtimedwait(&child, NULL, &t) >= 0) {
        return;
    }
    struct taken taken = count(l->memory != 0 ? resident_bytes : NULL);
    if (l->processes != 0 && taken.processes > l->processes) {
        over->limit = LAUNCH_LIMIT_PROCESSES;
    } else if (l->memory != 0 && taken.bytes > l->memory &&
               count(shared_out_bytes).bytes > l->memory) {
        over->limit = LAUNCH_LIMIT_MEMORY;
    }
    if (over->limit != 0) {
        over->status = SIGKILL;
        _exit(0);
    }
    due = now_ms() + LOOK_MS; // after the look: one of many processes takes its time
}

void init__watch_over(pid_t program, const struct launch_limits *limits,
                      volatile struct launch_over *over)
{
    struct launch_limits l = *limits;
    int status;
    pid_t pid;
    char self[16];
    // where the machine's own /proc had to stay, it shows others too, whose memory is not ours to judge
    bool sees_itself = readlink("/proc/self", self, sizeof self) == 1 && self[0] == '1';
    l.memory = sees_itself ? l.memory : 0;
    l.processes += l.processes != 0 ? count(NULL).processes : 0;
    close_range(0, UINT_MAX, 0);
    for (;;) {
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == program) {
                over->status = status;
                _exit(0);
            }
        }
        wait_for_child(&l, over);
    }
}
