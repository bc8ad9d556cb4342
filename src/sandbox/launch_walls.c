// The walls around the process itself, entered last and in this order:
//
//     privileges ── no_new_privs ── Landlock ── seccomp
//
// The mounts have made the view; what follows keeps it so. Without privileges the program cannot change the
// mounts, Landlock repeats what can be written (and closes other processes and abstract sockets), and the
// filter removes the calls that neither of them covers.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/bpf_int.h"
#include "sandbox/landlock_int.h"
#include "sandbox/launch_int.h"

#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452 // the same on every architecture; older headers do not have it
#endif

enum {
    READ = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
    WRITE = READ | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |
            FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE,
    DEVICES = WRITE | FS_IOCTL_DEV,
};

// ---- privileges ------------------------------------------------------------------------------

/// What root keeps: access to files of any owner, as root expects. In a namespace where only one id is mapped even
/// this means nothing; any other user loses it when the program starts.
static bool is_kept(unsigned cap)
{
    return cap == CAP_CHOWN || cap == CAP_DAC_OVERRIDE || cap == CAP_FOWNER || cap == CAP_FSETID;
}

static void drop_privileges(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (!is_kept(cap) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) {
            launch__fail(LAUNCH_NO_NAMESPACE);
        }
        if (is_kept(cap)) {
            caps[cap / 32].permitted |= 1U << cap % 32;
            caps[cap / 32].effective |= 1U << cap % 32;
        }
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, caps) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        launch__fail(LAUNCH_NO_NAMESPACE);
    }
}

// ---- Landlock --------------------------------------------------------------------------------

static void grant(int ruleset, int abi, const char *path, uint64_t access)
{
    int fd = launch__open(path);
    if (fd < 0 || landlock_grant(ruleset, abi, fd, access) != 0) {
        launch__fail(LAUNCH_NO_LANDLOCK);
    }
    close(fd);
}

enum hidden { APART, ABOVE, HIDDEN };

/// What a rule hides: is `path` that, or a directory above it?
static enum hidden how_hidden(const struct launch_box *b, const char *path)
{
    enum hidden found = APART;
    for (size_t i = 0; i < b->n && found != HIDDEN; i++) {
        const char *hides = launch_rule_path(b->rules[i]);
        if (launch_rule_kind(b->rules[i]) == 'h' && launch__beneath(hides, path)) {
            found = strcmp(hides, path) == 0 ? HIDDEN : ABOVE;
        }
    }
    return found;
}

static void grant_readable(const struct launch_box *b, int ruleset, int abi, const char *dir);

/// Something in a directory above what is hidden. What cannot be granted stays closed.
static void grant_entry(const struct launch_box *b, int ruleset, int abi, const char *path)
{
    enum hidden how = how_hidden(b, path);
    struct stat st;
    int fd = how == APART ? launch__open(path) : -1;
    if (how == ABOVE) {
        grant_readable(b, ruleset, abi, path);
    } else if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode)) {
        landlock_grant(ruleset, abi, fd, S_ISDIR(st.st_mode) ? READ : FS_EXECUTE | FS_READ_FILE);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/// Let everything in `dir` be read but what is hidden. The kernel has no "all but this", so all the others are
/// named. A mount alone does not hold: replacing a hidden file by rename removes the mount, and the new file
/// must not be readable for want of a rule.
static void grant_readable(const struct launch_box *b, int ruleset, int abi, const char *dir)
{
    char path[PATH_MAX];
    _Alignas(struct dirent64) char entries[8192];
    ssize_t n;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    while (fd >= 0 && (n = getdents64(fd, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *d = (const void *)(entries + at);
            at += d->d_reclen;
            int len =
                snprintf(path, sizeof path, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, d->d_name);
            bool self = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;
            if (!self && d->d_type != DT_LNK && len > 0 && (size_t)len < sizeof path) {
                grant_entry(b, ruleset, abi, path);
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void enter_landlock(const struct launch_box *b)
{
    int abi = landlock_abi();
    if (abi == 0) {
        errno = EOPNOTSUPP;
        launch__fail(LAUNCH_NO_LANDLOCK);
    }
    int ruleset = landlock_create(abi, b->network || b->loopback);
    if (ruleset < 0) {
        launch__fail(LAUNCH_NO_LANDLOCK);
    }
    grant(ruleset, abi, "/", how_hidden(b, "/") == APART ? READ : FS_READ_DIR);
    if (how_hidden(b, "/") == ABOVE) {
        grant_readable(b, ruleset, abi, "/");
    }
    grant(ruleset, abi, "/tmp", WRITE);
    grant(ruleset, abi, "/dev", DEVICES);
    for (size_t i = 0; i < b->n; i++) { // writable directories, and what can be read in hidden ones
        struct stat st;
        const char *path = launch_rule_path(b->rules[i]);
        char kind = launch_rule_kind(b->rules[i]);
        if (kind == 'w') {
            grant(ruleset, abi, path, WRITE);
        } else if (kind == 'r' && lstat(path, &st) == 0 && !S_ISLNK(st.st_mode)) {
            grant(ruleset, abi, path, S_ISDIR(st.st_mode) ? READ : FS_EXECUTE | FS_READ_FILE);
        }
    }
    if (landlock_restrict(ruleset) != 0) {
        launch__fail(LAUNCH_NO_LANDLOCK);
    }
    close(ruleset);
}

// ---- the filter ------------------------------------------------------------------------------

static void enter_filter(const struct launch_box *b)
{
    const uint32_t allow = SECCOMP_RET_ALLOW;
    const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
    const uint32_t offline = b->network ? allow : SECCOMP_RET_ERRNO | ENETUNREACH;
    const struct bpf_rule rules[] = {
#define REFUSE(name) {.nr = __NR_##name, .verdict = refuse},
#define ABSENT(name) {.nr = __NR_##name, .verdict = SECCOMP_RET_ERRNO | ENOSYS},
#define OFFLINE(name)                                                                              \
    {__NR_##name, b->loopback ? allow : offline,                                                   \
     0,           b->loopback ? BPF_EQUAL : BPF_ANY_ARG,                                           \
     AF_INET,     offline,                                                                         \
     0,           0},
#define REFUSE_IF(name, arg_, bits) {__NR_##name, allow, arg_, BPF_CLEAR, bits, refuse, 0, 0},
#define REFUSE_NEW(name, flags_, arg_, bits)                                                       \
    {__NR_##name, allow,  arg_,   BPF_CLEAR,                                                       \
     bits,        refuse, flags_, O_CREAT | (O_TMPFILE & ~O_DIRECTORY)},
#include "sandbox/tool_calls.def"
#undef REFUSE
#undef REFUSE_IF
#undef REFUSE_NEW
#undef ABSENT
#undef OFFLINE
    };
    static struct bpf program;
    bpf_start(&program);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        bpf_add(&program, &rules[i]);
    }
    bpf_return(&program, allow);
    if (bpf_enter(&program) != 0) {
        launch__fail(LAUNCH_NO_FILTER);
    }
}

void walls__enter(const struct launch_box *b)
{
    drop_privileges();
    enter_landlock(b);
    enter_filter(b);
}
