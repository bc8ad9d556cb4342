#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// Landlock's three calls. A ruleset says which kinds of access it *handles*; what is handled and not
// granted by a rule is denied. The kernel's header may be older than the kernel: what we use of it is
// defined here. All of it is inline, because afloat-launch needs it too and links nothing.

// From the kernel's interface, newest part last. Numbers of calls are the same on all machines.
enum { CALL_CREATE = 444, CALL_ADD = 445, CALL_RESTRICT = 446 };
enum { CREATE_VERSION = 1, RULE_PATH_BENEATH = 1 };

#define FS_RIGHTS(X) /* bit, since which version */                                                \
    X(EXECUTE, 0, 1)                                                                               \
    X(WRITE_FILE, 1, 1)                                                                            \
    X(READ_FILE, 2, 1)                                                                             \
    X(READ_DIR, 3, 1)                                                                              \
    X(REMOVE_DIR, 4, 1)                                                                            \
    X(REMOVE_FILE, 5, 1)                                                                           \
    X(MAKE_CHAR, 6, 1)                                                                             \
    X(MAKE_DIR, 7, 1)                                                                              \
    X(MAKE_REG, 8, 1)                                                                              \
    X(MAKE_SOCK, 9, 1)                                                                             \
    X(MAKE_FIFO, 10, 1)                                                                            \
    X(MAKE_BLOCK, 11, 1)                                                                           \
    X(MAKE_SYM, 12, 1)                                                                             \
    X(REFER, 13, 2)                                                                                \
    X(TRUNCATE, 14, 3)                                                                             \
    X(IOCTL_DEV, 15, 5)

enum {
#define X(name, bit, since) FS_##name = 1 << (bit),
    FS_RIGHTS(X)
#undef X
};

enum { NET_BIND_TCP = 1, NET_CONNECT_TCP = 2, NET_SINCE = 4 };
enum { SCOPE_ABSTRACT_UNIX = 1, SCOPE_SIGNAL = 2, SCOPE_SINCE = 6 };

struct landlock_attr {
    uint64_t fs, net, scoped;
};

struct landlock_path {
    uint64_t access;
    int32_t dirfd;
} __attribute__((packed));

/// All that a kernel of this version knows.
static inline uint64_t landlock_known(int abi)
{
    uint64_t all = 0;
#define X(name, bit, since) all |= abi >= (since) ? (uint64_t)FS_##name : 0;
    FS_RIGHTS(X)
#undef X
    return all;
}

/// A new ruleset that handles everything, TCP only if not `tcp`. Returns a descriptor, or -1 with
/// errno. An older kernel refuses members that it does not know, so it gets only those it does.
static inline int landlock_create(int abi, bool tcp)
{
    const struct landlock_attr attr = {
        .fs = landlock_known(abi),
        .net = !tcp && abi >= NET_SINCE ? NET_BIND_TCP | NET_CONNECT_TCP : 0,
        .scoped = abi >= SCOPE_SINCE ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
    };
    size_t size = abi >= SCOPE_SINCE ? sizeof attr
                  : abi >= NET_SINCE ? offsetof(struct landlock_attr, scoped)
                                     : offsetof(struct landlock_attr, net);
    return (int)syscall(CALL_CREATE, &attr, size, 0);
}

/// Grant what `access` says to everything beneath `fd`. Rights that the kernel does not know are left
/// out; it would refuse the rule.
static inline int landlock_grant(int ruleset, int abi, int fd, uint64_t access)
{
    const struct landlock_path rule = {.access = access & landlock_known(abi), .dirfd = fd};
    return (int)syscall(CALL_ADD, ruleset, RULE_PATH_BENEATH, &rule, 0);
}

static inline int landlock_restrict(int ruleset)
{
    return (int)syscall(CALL_RESTRICT, ruleset, 0);
}

/// The kernel's version; 0 when it has none or it is switched off.
static inline int landlock_abi(void)
{
    long abi = syscall(CALL_CREATE, NULL, 0, CREATE_VERSION);
    return abi > 0 ? (int)abi : 0;
}
