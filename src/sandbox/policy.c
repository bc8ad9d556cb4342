// Lock the calling process in.
//
//     memory limit ── no_new_privs ── Landlock (what can be opened) ── seccomp (what can be asked)
//
// The order matters: the memory limit counts from what is mapped, which is read from /proc while that can still
// be opened; Landlock and seccomp need no_new_privs; and the filter comes last because it forbids all the calls
// before it.
//
// Landlock and seccomp overlap on purpose. Landlock knows paths but neither UDP, unix sockets nor ptrace; the
// filter knows calls but cannot look at a path. Each covers what the other misses.

#include "sandbox/policy.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/str.h"
#include "sandbox/policy_int.h"

/// The first number of /proc/self/statm: pages mapped now.
static int mapped_bytes(uint64_t *out, struct err *e)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, "cannot open '/proc/self/statm'");
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    uint64_t pages;
    struct str rest = {text, n > 0 ? (size_t)n : 0};
    if (!str_to_u64(str_cut(&rest, ' '), &pages)) {
        return err_set(e, ERR_UNSUPPORTED, "cannot read '/proc/self/statm'");
    }
    *out = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

/// Limit the address space. Counting from what is there now makes the limit the same for every
/// build, however much its libraries (or a sanitizer's shadow) take.
static int limit_memory(uint64_t bytes, struct err *e)
{
    uint64_t now = 0;
    if (bytes == 0) {
        return 0;
    }
    int rc = mapped_bytes(&now, e);
    if (rc < 0) {
        return rc;
    }
    const struct rlimit l = {.rlim_cur = now + bytes, .rlim_max = now + bytes};
    return setrlimit(RLIMIT_AS, &l) == 0 ? 0 : err_sys(e, "cannot limit memory");
}

int policy_enter(const struct policy *p, struct err *e)
{
    int rc = limit_memory(p->memory, e);
    if (rc < 0) {
        return rc;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return err_sys(e, "cannot give up new privileges");
    }
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) { // others of this user cannot look inside either
        return err_sys(e, "cannot forbid tracing");
    }
    rc = landlock__enter(p, e);
    return rc < 0 ? rc : filter__enter(e);
}
