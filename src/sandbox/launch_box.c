// A view of the machine for one command: namespaces, and the mounts in them.
//
// The kernel has no "deny beneath allow" for files, but a mount hides and protects what is under it, and a
// mount point can be neither renamed nor removed. So the view is built from mounts:
//
//     1. copy    every tree that a rule names is cloned as it is now, writable ones still writable
//     2. freeze  one call makes the whole machine read-only in here
//     3. stage   one tmpfs on /tmp holds what we make ourselves: /dev, /dev/shm, /tmp, empty places
//     4. cover   /dev, /proc, /tmp
//     5. attach  the clones and the empty places on their paths, outer ones before inner ones
//
// Step 5 covers the stage itself with the new /tmp; nothing can uncover it, since the program has no privilege
// over these mounts and its filter has no mount call. Every path is opened without following symbolic links,
// and mounts are attached to what was opened: a link that is swapped in meanwhile makes the command fail, not
// the wall.
//
// A rule's path may be in a place that is ours (beneath /tmp, or beneath what a rule hides): then the
// directories up to it are made there, never in the user's tree.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/launch_int.h"

#define STAGE         "/tmp"
#define STAGE_OPTIONS "mode=0755,size=512m,nr_inodes=200k"

static int clones[LAUNCH_RULES_MAX]; // of the rules' trees; -1: nothing to attach
static enum { ABSENT, A_FILE, A_DIRECTORY } hidden[LAUNCH_RULES_MAX]; // what rules `h` name
static int devices[8];
static int tmp_tree = -1; // what becomes /tmp

// ---- paths -----------------------------------------------------------------------------------

bool launch__beneath(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return n == 1 || // the root
           (strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

int launch__open(const char *path)
{
    const struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static int need(int result)
{
    if (result < 0) {
        launch__fail(LAUNCH_NO_MOUNT);
    }
    return result;
}

/// Make the directories of `rel` beneath `base`, never through a link.
static void make_dirs(int base, const char *rel)
{
    char name[NAME_MAX + 1];
    int at = need(dup(base));
    while (*(rel += strspn(rel, "/")) != '\0') {
        size_t n = strcspn(rel, "/");
        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            need(-1);
        }
        memcpy(name, rel, n);
        name[n] = '\0';
        if (mkdirat(at, name, 0755) != 0 && errno != EEXIST) {
            need(-1);
        }
        int next = need(openat(at, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
        close(at);
        at = next;
        rel += n;
    }
    close(at);
}

// ---- namespaces ------------------------------------------------------------------------------

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/// Our own map with every id as itself; needs the privilege to do so.
static bool map_all(const char *from, const char *to)
{
    char text[4096];
    size_t n = 0;
    FILE *f = fopen(from, "re");
    unsigned inside, outside, count;
    while (f != NULL && n < sizeof text - 64 &&
           fscanf(f, "%u %u %u", &inside, &outside, &count) == 3) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%u %u %u\n", inside, inside, count);
    }
    if (f != NULL) {
        fclose(f);
    }
    return n != 0 && write_file(to, text);
}

static bool map_one(const char *to, unsigned id)
{
    char text[64];
    snprintf(text, sizeof text, "%u %u 1\n", id, id);
    return write_file(to, text);
}

/// A privileged user keeps all ids, so that files of others stay theirs; any other user has only the own id.
static bool map_ids(pid_t child)
{
    char uids[64], gids[64], groups[64];
    snprintf(uids, sizeof uids, "/proc/%d/uid_map", (int)child);
    snprintf(gids, sizeof gids, "/proc/%d/gid_map", (int)child);
    snprintf(groups, sizeof groups, "/proc/%d/setgroups", (int)child);
    if (geteuid() == 0 && map_all("/proc/self/uid_map", uids)) {
        return map_all("/proc/self/gid_map", gids);
    }
    return map_one(uids, geteuid()) && write_file(groups, "deny") && map_one(gids, getegid());
}

pid_t box__fork(bool loopback)
{
    enum { SPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC };
    int spaces = SPACES | (loopback ? CLONE_NEWNET : 0);
    int ready[2];
    char c = 0;
    if (pipe2(ready, O_CLOEXEC) != 0) {
        launch__fail(LAUNCH_NO_SETUP);
    }
    pid_t child = (pid_t)syscall(SYS_clone, spaces | SIGCHLD, 0, 0, 0, 0);
    if (child < 0) {
        launch__fail(LAUNCH_NO_NAMESPACE);
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[1]);
        if (read(ready[0], &c, 1) != 1) { // the supervisor is gone, or has said why
            _exit(127);
        }
    } else if (!map_ids(child) || write(ready[1], &c, 1) != 1) {
        launch__fail(LAUNCH_NO_NAMESPACE);
    }
    close(ready[0]);
    close(ready[1]);
    return child;
}

/// The socket stays in the box's network, whichever process has it: so programs in there reach the hub, and nothing else.
static void give_away(int fd)
{
    struct launch_report r = {.kind = LAUNCH_LISTENS, .value = LAUNCH_PORT};
    struct iovec data = {&r, sizeof r};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.space,
                       .msg_controllen = sizeof control.space};
    control.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    if (sendmsg(LAUNCH_CHANNEL_FD, &m, MSG_NOSIGNAL) != (ssize_t)sizeof r) {
        launch__fail(LAUNCH_NO_NAMESPACE);
    }
    close(fd);
}

void box__listen(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(LAUNCH_PORT),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) != 0 ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0) {
        launch__fail(LAUNCH_NO_NAMESPACE);
    }
    give_away(fd);
}

// ---- 1, 2: copy and freeze -------------------------------------------------------------------

static void set_flags(int fd, const char *path, unsigned how, uint64_t flags)
{
    struct mount_attr attr = {.attr_set = flags, .propagation = MS_PRIVATE};
    need(mount_setattr(fd, path, how, &attr, sizeof attr));
}

static int clone_at(int dirfd, const char *path)
{
    return need(open_tree(dirfd, path,
                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH |
                              AT_SYMLINK_NOFOLLOW));
}

static int clone_tree(const char *rule, uint64_t flags)
{
    unsigned long long dev, ino;
    struct stat st;
    int fd = need(launch__open(launch_rule_path(rule)));
    need(fstat(fd, &st));
    // only a rule with a device and an inode says which directory it means
    bool meant = rule[1] == '/' || (sscanf(rule + 1, "%llx:%llx/", &dev, &ino) == 2 &&
                                    st.st_dev == (dev_t)dev && st.st_ino == (ino_t)ino);
    if (!meant) {
        errno = ENOENT;
        need(-1);
    }
    int tree = clone_at(fd, "");
    set_flags(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, flags);
    close(fd);
    return tree;
}

static void look_at_hidden(size_t i, const char *path)
{
    struct stat st;
    int fd = launch__open(path);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) {
        return; // what is not there, or closed to us as well, needs no hiding
    }
    need(fd);
    need(fstat(fd, &st));
    close(fd);
    hidden[i] = S_ISDIR(st.st_mode) ? A_DIRECTORY : A_FILE;
}

static void clone_rules(const struct launch_box *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const char *rule = b->rules[i];
        clones[i] = -1;
        switch (launch_rule_kind(rule)) {
        case 't': tmp_tree = clone_tree(rule, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV); break;
        case 'w': clones[i] = clone_tree(rule, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV); break;
        case 'h': look_at_hidden(i, launch_rule_path(rule)); break;
        default: clones[i] = clone_tree(rule, MOUNT_ATTR_RDONLY); break;
        }
    }
}

// ---- 3, 4: the places that are ours ----------------------------------------------------------

static const char *const device_names[] = {"null", "zero", "full", "random", "urandom", "tty"};
enum { N_DEVICES = sizeof device_names / sizeof device_names[0] };

static const struct {
    const char *name, *target;
} device_links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static void attach(int tree, int point)
{
    need(move_mount(tree, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
    close(point);
}

static void attach_at(int tree, const char *path)
{
    attach(tree, need(launch__open(path)));
}

static void make_file(const char *path, mode_t mode)
{
    close(need(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode)));
}

static void stage(void)
{
    need(mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, STAGE_OPTIONS));
    need(mkdir(STAGE "/dev", 0755));
    need(mkdir(STAGE "/dev/pts", 0755));
    need(mkdir(STAGE "/dev/shm", 01777));
    need(mkdir(STAGE "/shm", 01777));
    need(mkdir(STAGE "/tmp", 01777));
}

/// Only devices that are safe for anyone: root outside could otherwise read a disk. A device that the machine
/// lacks is missing in here too.
static void cover_dev(void)
{
    char path[64];
    for (size_t i = 0; i < sizeof device_links / sizeof device_links[0]; i++) {
        snprintf(path, sizeof path, STAGE "/dev/%s", device_links[i].name);
        need(symlink(device_links[i].target, path));
    }
    for (size_t i = 0; i < N_DEVICES; i++) {
        snprintf(path, sizeof path, STAGE "/dev/%s", device_names[i]);
        make_file(path, 0666);
    }
    int tree = clone_at(AT_FDCWD, STAGE "/dev");
    attach_at(tree, "/dev");
    close(tree);
    for (size_t i = 0; i < N_DEVICES; i++) {
        snprintf(path, sizeof path, "/dev/%s", device_names[i]);
        if (devices[i] >= 0) {
            attach_at(devices[i], path);
        }
    }
    need(mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
               "newinstance,ptmxmode=0666,mode=0620"));
    attach_at(clone_at(AT_FDCWD, STAGE "/shm"), "/dev/shm");
    set_flags(AT_FDCWD, "/dev", 0, MOUNT_ATTR_RDONLY);
}

/// The innermost rule around rule `i` that changes anything, or -1; rules go from the outside in.
static ptrdiff_t around(const struct launch_box *b, size_t i)
{
    assert(i < b->n);
    for (size_t j = i; j-- > 0;) {
        char kind = launch_rule_kind(b->rules[j]);
        if (kind != 't' && (kind != 'h' || hidden[j] != ABSENT) &&
            launch__beneath(launch_rule_path(b->rules[i]), launch_rule_path(b->rules[j]))) {
            return (ptrdiff_t)j;
        }
    }
    return -1;
}

/// Make the mount points of rules whose paths are in directories of ours.
static void make_points(const struct launch_box *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const char *path = launch_rule_path(b->rules[i]);
        ptrdiff_t j = around(b, i);
        bool in_tmp = launch__beneath(path, "/tmp");
        if (clones[i] < 0 || hidden[i] != ABSENT ||
            (j >= 0 && launch_rule_kind(b->rules[j]) != 'h')) {
            continue; // nothing to mount, or the directory around it has the mount point
        }
        if (in_tmp && (j < 0 || around(b, (size_t)j) < 0)) {
            make_dirs(tmp_tree, path + strlen("/tmp"));
        }
        if (j >= 0) {
            char place[64];
            snprintf(place, sizeof place, STAGE "/%zu", (size_t)j);
            int base = need(open(place, O_PATH | O_DIRECTORY | O_CLOEXEC));
            make_dirs(base, path + strlen(launch_rule_path(b->rules[j])));
            close(base);
        }
    }
}

// ---- 5: attach -------------------------------------------------------------------------------

/// An empty place for each rule that hides, of the kind of what it hides.
static void make_voids(const struct launch_box *b)
{
    char path[64];
    for (size_t i = 0; i < b->n; i++) {
        if (hidden[i] == ABSENT) {
            continue;
        }
        snprintf(path, sizeof path, STAGE "/%zu", i);
        if (hidden[i] == A_DIRECTORY) {
            need(mkdir(path, 0555));
        } else {
            make_file(path, 0);
        }
        clones[i] = clone_at(AT_FDCWD, path);
        set_flags(clones[i], "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
    }
}

static void attach_rules(const struct launch_box *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (clones[i] < 0) {
            continue;
        }
        int point = launch__open(launch_rule_path(b->rules[i]));
        if (point < 0 && errno == ENOENT && hidden[i] != ABSENT) {
            continue; // it is in the machine's /tmp
        }
        attach(clones[i], need(point));
    }
}

void box__mount(const struct launch_box *b)
{
    mode_t mask = umask(0);
    need(chdir("/"));
    clone_rules(b);
    char path[64];
    for (size_t i = 0; i < N_DEVICES; i++) {
        snprintf(path, sizeof path, "/dev/%s", device_names[i]);
        devices[i] = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    }
    set_flags(AT_FDCWD, "/", AT_RECURSIVE, MOUNT_ATTR_RDONLY);
    stage();
    if (tmp_tree < 0) {
        tmp_tree = clone_at(AT_FDCWD, STAGE "/tmp");
    }
    cover_dev();
    // where a container covers parts of /proc a fresh one is refused; the old one stays then: it shows
    // names of other processes, and Landlock keeps the rest of them closed
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    if (mount("proc", "/proc", "proc", flags, NULL) != 0 && errno != EPERM) {
        need(-1);
    }
    make_voids(b);
    make_points(b);
    attach_at(tmp_tree, "/tmp");
    attach_rules(b);
    umask(mask);
    close_range(LAUNCH_CHANNEL_FD + 1, UINT_MAX, 0);
}
