// Wrapped calls that fail on demand; see fault.h.

#include "lib/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_ulong countdown, calls, hits; // countdown 0 = off
static atomic_int fail_errno;
static atomic_bool fail_forever;

static pthread_mutex_t sync_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sync_go = PTHREAD_COND_INITIALIZER;
static bool sync_held;
static unsigned sync_waiting;

void fault_at(unsigned long n, int error, bool forever)
{
    calls = hits = 0;
    fail_errno = error;
    fail_forever = forever;
    countdown = n;
}

void fault_off(void)
{
    countdown = 0;
}

unsigned long fault_calls(void)
{
    return calls;
}

unsigned long fault_hits(void)
{
    return hits;
}

bool fault_due(void)
{
    if (countdown == 0) {
        return false;
    }
    unsigned long seen = ++calls;
    if (seen == countdown || (fail_forever && seen > countdown)) {
        hits++;
        errno = fail_errno;
        return true;
    }
    return false;
}

void fault_hold_syncs(bool held)
{
    pthread_mutex_lock(&sync_mutex);
    sync_held = held;
    pthread_cond_broadcast(&sync_go);
    pthread_mutex_unlock(&sync_mutex);
}

unsigned fault_syncs_held(void)
{
    pthread_mutex_lock(&sync_mutex);
    unsigned n = sync_waiting;
    pthread_mutex_unlock(&sync_mutex);
    return n;
}

static void wait_for_sync(void)
{
    pthread_mutex_lock(&sync_mutex);
    sync_waiting++;
    while (sync_held) {
        pthread_cond_wait(&sync_go, &sync_mutex);
    }
    sync_waiting--;
    pthread_mutex_unlock(&sync_mutex);
}

#define WRAP(type, call, params, args)                                                             \
    type __real_##call params;                                                                     \
    type __wrap_##call params;                                                                     \
    type __wrap_##call params                                                                      \
    {                                                                                              \
        return fault_due() ? -1 : __real_##call args;                                              \
    }

WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
WRAP(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat, (int ad, const char *a, int bd, const char *b), (ad, a, bd, b))
WRAP(int, ftruncate, (int fd, off_t n), (fd, n))
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, linkat, (int ad, const char *a, int bd, const char *b, int flags), (ad, a, bd, b, flags))
WRAP(int, mkdir, (const char *p, mode_t mode), (p, mode))
WRAP(int, unlink, (const char *p), (p))

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    wait_for_sync();
    return fault_due() ? -1 : __real_fdatasync(fd);
}

// open and its like take a mode only when they may create
#define WRAP_OPEN(call, params, args)                                                              \
    int __real_##call(UNWRAP params, ...);                                                         \
    int __wrap_##call(UNWRAP params, ...);                                                         \
    int __wrap_##call(UNWRAP params, ...)                                                          \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(ap, mode_t) : 0;               \
        va_end(ap);                                                                                \
        return fault_due() ? -1 : __real_##call(UNWRAP args, mode);                                \
    }
#define UNWRAP(...) __VA_ARGS__

WRAP_OPEN(open, (const char *path, int flags), (path, flags))
WRAP_OPEN(open64, (const char *path, int flags), (path, flags))
WRAP_OPEN(openat, (int dir, const char *path, int flags), (dir, path, flags))
WRAP_OPEN(openat64, (int dir, const char *path, int flags), (dir, path, flags))
