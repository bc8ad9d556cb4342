// Lock the calling process in.
//
//     memory limit ── no_new_privs ── Landlock (what can be opened) ── seccomp (what can be asked)
//
// The order matters: the memory limit counts from what is mapped, which is read from /proc while that can still
// be opened; Landlock and seccomp need no_new_privs; and the filter comes last because it forbids all the calls
// before it.
//
// Landlock and seccomp overlap on purpose. Landlock knows paths but neither UDP, unix sockets nor ptrace; the
// filter knows calls but cannot look at a path, since what a pointer leads to could change afterwards. Each
// covers what the other misses.
//
// The filter is a program for the kernel's packet filter, made from the table in calls.def:
//
//     arch is ours?  ──no──> kill            (the numbers below mean other calls elsewhere)
//     nr == read?    ──yes─> allow
//     nr == mmap?    ──yes─> argument 2 has PROT_EXEC? ── yes ──> refuse ── no ──> allow
//     ...
//     refuse with EPERM

#include "sandbox/policy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "sandbox/bpf_int.h"
#include "sandbox/landlock_int.h"

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

static uint64_t granted(const struct policy_tree *t)
{
    uint64_t bits = 0;
    if ((t->access & POLICY_READ) != 0) {
        bits |= FS_READ_FILE | FS_READ_DIR;
    }
    if ((t->access & POLICY_WRITE) != 0) { // no links, devices, sockets or pipes
        bits |= FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |
                FS_REFER | FS_TRUNCATE;
    }
    return bits;
}

/// Confine the file system, TCP, abstract sockets and signals: all that the running kernel knows is denied but
/// what the trees give.
static int enter_landlock(const struct policy *p, struct err *e)
{
    assert(p->n_trees == 0 || p->trees != NULL);
    int abi = landlock_abi();
    if (abi == 0) {
        return err_set(e, ERR_UNSUPPORTED, "the kernel has no Landlock, or it is switched off");
    }
    int ruleset = landlock_create(abi, false);
    if (ruleset < 0) {
        return err_sys(e, "cannot make a Landlock ruleset");
    }
    int rc = 0;
    for (size_t i = 0; i < p->n_trees && rc == 0; i++) {
        if (landlock_grant(ruleset, abi, p->trees[i].dirfd, granted(&p->trees[i])) != 0) {
            rc = err_sys(e, "cannot allow a tree");
        }
    }
    if (rc == 0 && landlock_restrict(ruleset) != 0) {
        rc = err_sys(e, "cannot enter the Landlock ruleset");
    }
    close(ruleset);
    return rc;
}

/// Allow the system calls of calls.def, for good.
static int enter_filter(struct err *e)
{
    const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
    const struct bpf_rule rules[] = {
#define ALLOW(name) {.nr = __NR_##name, .verdict = SECCOMP_RET_ALLOW},
#define ALLOW_IF(name, arg, test, value)                                                           \
    {__NR_##name, SECCOMP_RET_ALLOW, arg, BPF_##test, value, refuse, 0, 0},
#define KILL(name) {.nr = __NR_##name, .verdict = SECCOMP_RET_KILL_PROCESS},
#include "sandbox/calls.def"
#undef ALLOW
#undef ALLOW_IF
#undef KILL
    };
    struct bpf b;
    bpf_start(&b);
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        bpf_add(&b, &rules[i]);
    }
    bpf_return(&b, refuse);
    return bpf_enter(&b) == 0 ? 0 : err_sys(e, "cannot enter the filter of system calls");
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
    rc = enter_landlock(p, e);
    return rc < 0 ? rc : enter_filter(e);
}

int policy_landlock_abi(void)
{
    return landlock_abi();
}
