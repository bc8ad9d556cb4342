#include "faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

static atomic_ulong countdown, calls, hits, names;
static atomic_int fail_errno;
static atomic_bool fail_forever, no_instance, no_leases;
static void (*_Atomic after_read)(void);
static atomic_long limit = -1;

void watch_fault_at(unsigned long n, int error, bool forever)
{
    calls = hits = 0;
    fail_errno = error;
    fail_forever = forever;
    countdown = n;
}

void watch_fault_off(void)
{
    countdown = 0;
}

unsigned long watch_fault_hits(void)
{
    return hits;
}

unsigned long watch_names_read(void)
{
    return names;
}

void watch_limit(long n)
{
    limit = n;
}

void watch_no_instance(bool on)
{
    no_instance = on;
}

void watch_no_leases(bool on)
{
    no_leases = on;
}

void watch_after_read(void (*fn)(void))
{
    after_read = fn;
}

static bool due(void)
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

#define WRAP(type, failure, call, params, args)                                                    \
    type __real_##call params;                                                                     \
    type __wrap_##call params;                                                                     \
    type __wrap_##call params                                                                      \
    {                                                                                              \
        return due() ? failure : __real_##call args;                                               \
    }

// built with 64-bit offsets these calls have other names in the library
WRAP(int, -1, lstat64, (const char *path, struct stat *st), (path, st))
WRAP(int, -1, stat64, (const char *path, struct stat *st), (path, st))
WRAP(int, -1, fstat64, (int fd, struct stat *st), (fd, st))
WRAP(int, -1, fstatat64, (int fd, const char *path, struct stat *st, int flags),
     (fd, path, st, flags))
WRAP(DIR *, NULL, opendir, (const char *path), (path))

struct dirent *__real_readdir64(DIR *dir);
struct dirent *__wrap_readdir64(DIR *dir);
struct dirent *__wrap_readdir64(DIR *dir)
{
    names++;
    return due() ? NULL : __real_readdir64(dir);
}

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    if (due()) {
        return -1;
    }
    if (limit >= 0) {
        if (limit == 0) {
            errno = ENOSPC;
            return -1;
        }
        limit--;
    }
    return __real_inotify_add_watch(fd, path, mask);
}

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_init1(int flags)
{
    if (no_instance) {
        errno = EMFILE;
        return -1;
    }
    return __real_inotify_init1(flags);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    int value = va_arg(ap, int); // all that is asked of it here has one
    va_end(ap);
    if (no_leases && command == F_SETLEASE) {
        errno = EACCES;
        return -1;
    }
    return __real_fcntl64(fd, command, value);
}

int __real_closedir(DIR *dir);
int __wrap_closedir(DIR *dir);
int __wrap_closedir(DIR *dir)
{
    void (*fn)(void) = atomic_exchange(&after_read, NULL);
    if (fn != NULL) {
        fn();
    }
    return __real_closedir(dir);
}
