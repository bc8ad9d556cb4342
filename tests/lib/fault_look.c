// More calls that fail on demand: those that look at files without opening them. For test programs whose
// meson.build names them in `wraps`; see fault.h.

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/fault.h"

#define WRAP(type, failed, call, params, args)                                                     \
    type __real_##call params;                                                                     \
    type __wrap_##call params;                                                                     \
    type __wrap_##call params                                                                      \
    {                                                                                              \
        return fault_due() ? (failed) : __real_##call args;                                        \
    }

WRAP(int, -1, stat64, (const char *path, struct stat64 *st), (path, st))
WRAP(int, -1, lstat64, (const char *path, struct stat64 *st), (path, st))
WRAP(int, -1, fstat64, (int fd, struct stat64 *st), (fd, st))
WRAP(int, -1, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
     (dir, path, st, flags))
WRAP(DIR *, NULL, opendir, (const char *path), (path))
WRAP(DIR *, NULL, fdopendir, (int fd), (fd))
WRAP(struct dirent64 *, NULL, readdir64, (DIR * d), (d))
WRAP(char *, NULL, realpath, (const char *path, char *out), (path, out))

// openat2 has no function of its own in this C library
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(ap, long);
    }
    va_end(ap);
    return fault_due() ? -1 : __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
