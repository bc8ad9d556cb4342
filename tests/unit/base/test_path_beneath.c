#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"
#include "unit/test.h"

// The tree: `root` is what we open beneath, `secret` lies beside it and must never be reached.
static int make_tree(void)
{
    static const char *const links[][2] = {
        {"/etc", "root/abs"},
        {"/etc/passwd", "root/dir/abs"},
        {"../secret", "root/esc"},
        {"../../secret", "root/dir/esc"},
        {"..", "root/up"},
        {"../file", "root/dir/inside"},
        {"dir/../dir/inner", "root/winding"},
        {"dir", "root/todir"},
        {"dir/", "root/todir-slash"},
        {"file/", "root/file-slash"},
        {"loop", "root/loop"},
        {"pong", "root/ping"},
        {"ping", "root/pong"},
        {"nowhere", "root/dangling"},
        {"file", "root/link0"},
        {"../root/file", "root/out-and-in"},
    };
    CHECK_INT(chdir(test_dir()), 0);
    CHECK_INT(path_mkdirs("root/dir/deep", 0700, NULL), 0);
    CHECK_INT(path_write_atomic("secret", STR("secret"), 0600, NULL), 0);
    CHECK_INT(path_write_atomic("root/file", STR("file"), 0600, NULL), 0);
    CHECK_INT(path_write_atomic("root/dir/inner", STR("inner"), 0600, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        CHECK_INT(symlink(links[i][0], links[i][1]), 0);
    }
    for (int i = 1; i <= 40; i++) { // link39 takes 40 links to reach the file, link40 one more
        char to[16], name[32];
        snprintf(to, sizeof to, "link%d", i - 1);
        snprintf(name, sizeof name, "root/link%d", i);
        CHECK_INT(symlink(to, name), 0);
    }
    int fd = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static const struct attack {
    const char *rel;
    int flags;
    int want;         // 0 or a negative code
    const char *made; // what success makes, or NULL
} attacks[] = {
    {"file", O_RDONLY, 0, NULL},
    {"./file", O_RDONLY, 0, NULL},
    {"dir//inner", O_RDONLY, 0, NULL},
    {"dir/deep/../inner", O_RDONLY, 0, NULL},
    {"dir/..", O_RDONLY, 0, NULL},
    {".", O_RDONLY, 0, NULL},
    {"dir/.", O_RDONLY, 0, NULL},
    {"none", O_RDONLY, -ENOENT, NULL},
    {"none/..", O_RDONLY, -ENOENT, NULL},
    {"", O_RDONLY, -ENOENT, NULL},

    {"..", O_RDONLY, -EXDEV, NULL},
    {"../", O_RDONLY, -EXDEV, NULL},
    {"../secret", O_RDONLY, -EXDEV, NULL},
    {"../root/file", O_RDONLY, -EXDEV, NULL},
    {"dir/../../secret", O_RDONLY, -EXDEV, NULL},
    {"dir/../../root/file", O_RDONLY, -EXDEV, NULL},
    {"./../secret", O_RDONLY, -EXDEV, NULL},
    {"../new", O_WRONLY | O_CREAT, -EXDEV, NULL},
    {"/", O_RDONLY, -EXDEV, NULL},
    {"/etc/passwd", O_RDONLY, -EXDEV, NULL},

    {"abs", O_RDONLY, -EXDEV, NULL},
    {"abs/passwd", O_RDONLY, -EXDEV, NULL},
    {"dir/abs", O_RDONLY, -EXDEV, NULL},
    {"esc", O_RDONLY, -EXDEV, NULL},
    {"esc", O_WRONLY | O_CREAT | O_TRUNC, -EXDEV, NULL},
    {"dir/esc", O_RDONLY, -EXDEV, NULL},
    {"up/secret", O_RDONLY, -EXDEV, NULL},
    {"out-and-in", O_RDONLY, -EXDEV, NULL},
    {"todir/../../secret", O_RDONLY, -EXDEV, NULL},

    {"dir/inside", O_RDONLY, 0, NULL},
    {"todir/inside", O_RDONLY, 0, NULL},
    {"todir/../file", O_RDONLY, 0, NULL},
    {"winding", O_RDONLY, 0, NULL},
    {"dangling", O_RDONLY, -ENOENT, NULL},
    {"dangling", O_WRONLY | O_CREAT, 0, "root/nowhere"},

    {"loop", O_RDONLY, -ELOOP, NULL},
    {"loop/x", O_RDONLY, -ELOOP, NULL},
    {"ping", O_RDONLY, -ELOOP, NULL},
    {"link39", O_RDONLY, 0, NULL},
    {"link40", O_RDONLY, -ELOOP, NULL},

    {"dir/", O_RDONLY, 0, NULL},
    {"todir/", O_RDONLY, 0, NULL},
    {"todir-slash", O_RDONLY, 0, NULL},
    {"file/", O_RDONLY, -ENOTDIR, NULL},
    {"file-slash", O_RDONLY, -ENOTDIR, NULL},
    {"file/x", O_RDONLY, -ENOTDIR, NULL},
    {"file/..", O_RDONLY, -ENOTDIR, NULL},
    {"file/.", O_RDONLY, -ENOTDIR, NULL},

    {"new", O_WRONLY | O_CREAT, 0, "root/new"},
    {"new", O_WRONLY | O_CREAT | O_EXCL, 0, "root/new"},
    {"new/", O_WRONLY | O_CREAT, -EISDIR, NULL},
    {"dir", O_WRONLY, -EISDIR, NULL},
    {"file", O_WRONLY | O_CREAT | O_EXCL, -EEXIST, NULL},
    {"esc", O_WRONLY | O_CREAT | O_EXCL, -EEXIST, NULL},
    {"dangling", O_WRONLY | O_CREAT | O_EXCL, -EEXIST, NULL},
    {"todir", O_RDONLY | O_NOFOLLOW, -ELOOP, NULL},
    {"esc", O_RDONLY | O_NOFOLLOW, -ELOOP, NULL},
    {"todir", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, -ENOTDIR, NULL},
    {"todir/inner", O_RDONLY | O_NOFOLLOW, 0, NULL},
    {"todir/", O_RDONLY | O_NOFOLLOW, 0, NULL},
    {"todir", O_PATH | O_NOFOLLOW, 0, NULL},
    {"esc", O_PATH, -EXDEV, NULL},
    {"file", O_RDONLY | O_DIRECTORY, -ENOTDIR, NULL},
    {"dir", O_RDWR | O_TMPFILE, 0, NULL},
};

typedef int opener(int dirfd, const char *rel, int flags, mode_t mode, struct err *e);

// The inode that was opened, or the negative code.
static long long verdict(opener *open_it, int root, const struct attack *a)
{
    struct stat st;
    struct err e;
    int fd = open_it(root, a->rel, a->flags, 0600, &e);
    if (fd < 0) {
        CHECK(e.code == fd && strstr(e.msg, "cannot open '") == e.msg);
        return fd;
    }
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(close(fd), 0);
    bool makes = a->made != NULL || (a->flags & O_TMPFILE) == O_TMPFILE; // a new inode each time
    if (a->made != NULL) {
        CHECK_INT(unlink(a->made), 0);
    }
    return makes ? 1 : (long long)st.st_ino;
}

static void check_attacks(opener *open_it)
{
    int root = make_tree();
    for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
        const struct attack *a = &attacks[i];
        long long got = verdict(open_it, root, a);
        if (a->want != 0 ? got != a->want : got < 0) {
            test_fail(__FILE__, __LINE__, "'%s' with flags %o: %lld, not %d", a->rel,
                      (unsigned)a->flags, got, a->want);
        }
    }
    CHECK_INT(access("new", F_OK), -1);
    close(root);
}

TEST(no_path_leads_out_from_beneath)
{
    check_attacks(path_open_beneath);
}

TEST(no_path_leads_out_of_the_walk)
{
    check_attacks(path_open_walk);
}

TEST(the_walk_opens_what_the_kernel_opens)
{
    int root = make_tree();
    for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
        long long kernel = verdict(path_open_beneath, root, &attacks[i]);
        long long walk = verdict(path_open_walk, root, &attacks[i]);
        if (kernel != walk) {
            test_fail(__FILE__, __LINE__, "'%s' with flags %o: kernel %lld, walk %lld",
                      attacks[i].rel, (unsigned)attacks[i].flags, kernel, walk);
        }
    }
    close(root);
}

TEST(links_of_proc_that_name_open_files_are_not_followed)
{
    static const struct attack rows[] = {
        {"self/status", O_RDONLY, 0, NULL},        {"mounts", O_RDONLY, 0, NULL},
        {"self/cwd", O_RDONLY, -ELOOP, NULL},      {"self/cwd/secret", O_RDONLY, -ELOOP, NULL},
        {"self/root/etc", O_RDONLY, -ELOOP, NULL}, {"self/exe", O_RDONLY, -ELOOP, NULL},
        {"self/fd/0", O_RDONLY, -ELOOP, NULL},     {"self/ns/net", O_RDONLY, -ELOOP, NULL},
    };
    int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(proc >= 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        long long kernel = verdict(path_open_beneath, proc, &rows[i]);
        long long walk = verdict(path_open_walk, proc, &rows[i]);
        if (kernel != walk || (rows[i].want != 0 ? walk != rows[i].want : walk < 0)) {
            test_fail(__FILE__, __LINE__, "'%s': kernel %lld, walk %lld", rows[i].rel, kernel,
                      walk);
        }
    }
    close(proc);
}

TEST(a_path_too_long_is_refused_by_both)
{
    int root = make_tree();
    char path[5001], part[300];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    memset(part, 'b', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    CHECK_INT(path_open_beneath(root, path, O_RDONLY, 0, NULL), -ENAMETOOLONG);
    CHECK_INT(path_open_walk(root, path, O_RDONLY, 0, NULL), -ENAMETOOLONG);
    CHECK_INT(path_open_beneath(root, part, O_RDONLY, 0, NULL), -ENAMETOOLONG);
    CHECK_INT(path_open_walk(root, part, O_RDONLY, 0, NULL), -ENAMETOOLONG);
    close(root);
}

TEST(the_walk_gives_back_every_descriptor)
{
    int root = make_tree();
    struct rlimit few = {64, 64};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(path_open_walk(root, "dir/deep/none", O_RDONLY, 0, NULL), -ENOENT);
    }
    close(root);
}

static atomic_bool swapping;

// Swap a file with a link to the secret, and a directory with a link to the secret's directory.
static void *swap_names(void *arg)
{
    (void)arg;
    while (swapping) {
        CHECK_INT(renameat2(AT_FDCWD, "root/file", AT_FDCWD, "root/esc", RENAME_EXCHANGE), 0);
        CHECK_INT(renameat2(AT_FDCWD, "root/dir", AT_FDCWD, "root/up", RENAME_EXCHANGE), 0);
    }
    return NULL;
}

static void check_not_secret(int root, const char *rel, const struct stat *secret)
{
    struct stat st;
    int fd = path_open_walk(root, rel, O_RDONLY, 0, NULL);
    if (fd >= 0) {
        CHECK_INT(fstat(fd, &st), 0);
        CHECK(st.st_ino != secret->st_ino);
        close(fd);
    }
}

TEST(a_link_put_in_place_during_the_walk_leads_nowhere)
{
    int root = make_tree();
    struct stat secret;
    pthread_t thread;
    CHECK_INT(stat("secret", &secret), 0);
    swapping = true;
    CHECK_INT(pthread_create(&thread, NULL, swap_names, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        check_not_secret(root, "file", &secret);
        check_not_secret(root, "dir/secret", &secret);
    }
    swapping = false;
    CHECK_INT(pthread_join(thread, NULL), 0);
    close(root);
}

// From here on openat2() fails with `error` in this process.
static void forbid_openat2(unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        test_skip("no seccomp here");
    }
    CHECK_INT(syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0), -1);
    CHECK_INT(errno, (int)error);
}

TEST(a_kernel_without_openat2_gives_the_same_verdicts)
{
    forbid_openat2(ENOSYS);
    check_attacks(path_open_beneath);
}

TEST(a_filter_that_forbids_openat2_gives_the_same_verdicts)
{
    forbid_openat2(EPERM);
    check_attacks(path_open_beneath);
}

TEST(a_kernel_that_never_makes_up_its_mind_is_not_asked_forever)
{
    forbid_openat2(EAGAIN);
    check_attacks(path_open_beneath);
}
