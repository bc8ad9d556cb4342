// Landlock: from here on only files beneath the policy's trees can be opened.
//
// A ruleset says which kinds of access it *handles*; what is handled and not granted by a rule is
// denied. We handle all that the running kernel knows, so everything is denied but what the trees
// give. The kernel's header may be older than the kernel: what we use of it is defined here.

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/policy_int.h"

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

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

struct path_rule {
    uint64_t access;
    int32_t dirfd;
} __attribute__((packed));

static uint64_t known_rights(int abi)
{
    uint64_t all = 0;
#define X(name, bit, since) all |= abi >= (since) ? (uint64_t)FS_##name : 0;
    FS_RIGHTS(X)
#undef X
    return all;
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

/// An older kernel refuses members that it does not know, so it gets only those it does.
static long create_ruleset(int abi)
{
    const struct ruleset_attr attr = {
        .fs = known_rights(abi),
        .net = abi >= NET_SINCE ? NET_BIND_TCP | NET_CONNECT_TCP : 0,
        .scoped = abi >= SCOPE_SINCE ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
    };
    size_t size = abi >= SCOPE_SINCE ? sizeof attr
                  : abi >= NET_SINCE ? offsetof(struct ruleset_attr, scoped)
                                     : offsetof(struct ruleset_attr, net);
    return syscall(CALL_CREATE, &attr, size, 0);
}

static int add_trees(int ruleset, int abi, const struct policy *p, struct err *e)
{
    for (size_t i = 0; i < p->n_trees; i++) {
        const struct path_rule rule = {
            .access = granted(&p->trees[i]) & known_rights(abi),
            .dirfd = p->trees[i].dirfd,
        };
        if (syscall(CALL_ADD, ruleset, RULE_PATH_BENEATH, &rule, 0) != 0) {
            return err_sys(e, "cannot allow a tree");
        }
    }
    return 0;
}

int policy_landlock_abi(void)
{
    long abi = syscall(CALL_CREATE, NULL, 0, CREATE_VERSION);
    return abi > 0 ? (int)abi : 0;
}

int landlock__enter(const struct policy *p, struct err *e)
{
    int abi = policy_landlock_abi();
    if (abi == 0) {
        return err_set(e, ERR_UNSUPPORTED, "the kernel has no Landlock, or it is switched off");
    }
    int ruleset = (int)create_ruleset(abi);
    if (ruleset < 0) {
        return err_sys(e, "cannot make a Landlock ruleset");
    }
    int rc = add_trees(ruleset, abi, p, e);
    if (rc == 0 && syscall(CALL_RESTRICT, ruleset, 0) != 0) {
        rc = err_sys(e, "cannot enter the Landlock ruleset");
    }
    close(ruleset);
    return rc;
}
