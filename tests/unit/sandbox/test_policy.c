// What a process can still do once it has entered its policy. Each attempt is made by a child that
// entered it for real; a table says how it has to end.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/policy.h"
#include "unit/test.h"

enum { ENTERED = 200, SURVIVED = 0 };

static int root = -1; // the tree that stays in reach
static char outside[300];

static void make_tree(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/in", test_dir());
    CHECK_INT(mkdir(path, 0700), 0);
    root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(root >= 0);
    snprintf(outside, sizeof outside, "%s/outside", test_dir());
    int fd = open(outside, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "secret", 6), 6);
    close(fd);
}

/// Run `attempt` in a child inside its policy. It returns 0 when it did what it tried, else an errno.
static int run_inside(int (*attempt)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        const struct policy_tree tree = {.dirfd = root, .access = POLICY_READ | POLICY_WRITE};
        struct err e = {0};
        if (policy_enter(&(struct policy){.trees = &tree, .n_trees = 1, .memory = 64 << 20}, &e) <
            0) {
            fprintf(stderr, "%s\n", e.msg);
            _exit(ENTERED);
        }
        _exit(attempt());
    }
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) == ENTERED));
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int result(long rc)
{
    return rc < 0 ? errno : SURVIVED;
}

static int beneath(int dir, const char *path, int flags)
{
    int fd = path_open_beneath(dir, path, flags, 0600, NULL);
    return fd < 0 ? -fd : SURVIVED;
}

// ---- what has to work ------------------------------------------------------------------------

static int write_inside(void)
{
    return beneath(root, "a.txt", O_WRONLY | O_CREAT | O_TRUNC);
}

static int make_inside(void)
{
    if (mkdirat(root, "d", 0700) != 0 || renameat(root, "d", root, "e") != 0) {
        return errno;
    }
    return result(unlinkat(root, "e", AT_REMOVEDIR));
}

static int list_inside(void)
{
    int fd = path_open_beneath(root, ".", O_RDONLY | O_DIRECTORY, 0, NULL);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    return d != NULL && readdir(d) != NULL ? SURVIVED : EIO;
}

static int use_memory(void)
{
    volatile char *p = malloc(1 << 20);
    p[0] = 1;
    return p[0] == 1 ? SURVIVED : EIO;
}

TEST(what_a_policy_allows_works)
{
    make_tree();
    CHECK_INT(run_inside(write_inside), SURVIVED);
    CHECK_INT(run_inside(make_inside), SURVIVED);
    CHECK_INT(run_inside(list_inside), SURVIVED);
    CHECK_INT(run_inside(use_memory), SURVIVED);
}

// ---- files: Landlock alone, without the filter's help ------------------------------------------

/// openat2() is allowed by the filter, so only Landlock stands between this and the file.
static int raw_open(const char *path, int flags)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {.flags = (uint64_t)flags, .mode = (flags & O_CREAT) != 0 ? 0600 : 0};
    return result(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
}

static int read_outside(void)
{
    return raw_open(outside, O_RDONLY);
}

static int write_outside(void)
{
    return raw_open(outside, O_WRONLY);
}

static int make_outside(void)
{
    return raw_open("/tmp/afloat-policy-test", O_WRONLY | O_CREAT);
}

static int read_passwd(void)
{
    return raw_open("/etc/passwd", O_RDONLY);
}

static int read_own_memory(void)
{
    return raw_open("/proc/self/mem", O_RDWR);
}

static int list_root(void)
{
    return raw_open("/", O_RDONLY | O_DIRECTORY);
}

static int remove_outside(void)
{
    return result(unlinkat(AT_FDCWD, outside, 0));
}

static int rename_outside(void)
{
    return result(renameat(AT_FDCWD, outside, root, "stolen"));
}

TEST(landlock_keeps_every_file_outside_out_of_reach)
{
    static int (*const attempts[])(void) = {read_outside,  write_outside,   make_outside,
                                            read_passwd,   read_own_memory, list_root,
                                            remove_outside};
    make_tree();
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        int how = run_inside(attempts[i]);
        if (how != EACCES) {
            test_fail(__FILE__, __LINE__, "attempt %zu ended with %d", i, how);
        }
    }
    int how = run_inside(rename_outside);
    CHECK(how == EACCES || how == EXDEV);
    CHECK_INT(access(outside, F_OK), 0);
    CHECK(access("/tmp/afloat-policy-test", F_OK) != 0);
}

// ---- everything else: the filter ---------------------------------------------------------------

static int try_socket(void)
{
    return result(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_unix(void)
{
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_connect(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/tmp/x"};
    return result(connect(0, (struct sockaddr *)&a, sizeof a));
}

static int try_fork(void)
{
    return result(fork());
}

static int try_clone(void)
{
    return result(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}

static int try_exec(void)
{
    char *argv[] = {(char[]){"/bin/true"}, NULL};
    return result(execve(argv[0], argv, NULL));
}

static int try_ptrace(void)
{
    return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int try_vm_write(void)
{
    return result(syscall(SYS_process_vm_writev, getppid(), NULL, 0, NULL, 0, 0));
}

static int try_kill(void)
{
    return result(kill(getppid(), 0));
}

static int try_keyctl(void)
{
    return result(syscall(SYS_keyctl, 0, 0, 0, 0, 0));
}

static int try_bpf(void)
{
    return result(syscall(SYS_bpf, 0, NULL, 0));
}

static int try_mount(void)
{
    return result(mount("none", "/", "tmpfs", 0, NULL));
}

static int try_unshare(void)
{
    return result(unshare(CLONE_NEWUSER));
}

static int try_uring(void)
{
    return result(syscall(SYS_io_uring_setup, 1, NULL));
}

static int try_memfd(void)
{
    return result(syscall(SYS_memfd_create, "x", 0));
}

TEST(calls_that_nothing_of_ours_makes_end_the_process)
{
    static int (*const attempts[])(void) = {try_socket,  try_unix,   try_connect, try_fork,
                                            try_clone,   try_exec,   try_ptrace,  try_vm_write,
                                            try_kill,    try_keyctl, try_bpf,     try_mount,
                                            try_unshare, try_uring,  try_memfd};
    make_tree();
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        int how = run_inside(attempts[i]);
        if (how != -SIGSYS) {
            test_fail(__FILE__, __LINE__, "attempt %zu ended with %d", i, how);
        }
    }
}

static int try_open(void)
{
    return result(syscall(SYS_open, "/etc/passwd", O_RDONLY));
}

static int try_code(void)
{
    void *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? errno : SURVIVED;
}

static int try_code_later(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? EIO : result(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int try_signal_other(void)
{
    return result(syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int try_signal_on_input(void)
{
    return result(fcntl(root, F_SETOWN, getppid()));
}

static int try_other_signal_on_input(void)
{
    return result(fcntl(root, F_SETSIG, SIGKILL));
}

static int try_chmod(void)
{
    return result(fchmodat(root, ".", 0777, 0));
}

static int try_link(void)
{
    return result(symlinkat("/etc/passwd", root, "link"));
}

static int try_more_files(void)
{
    return result(syscall(SYS_prlimit64, 0, 7, NULL, NULL));
}

TEST(calls_outside_the_list_are_refused)
{
    static int (*const attempts[])(void) = {
        try_open, try_code,       try_code_later,      try_signal_other,         try_chmod,
        try_link, try_more_files, try_signal_on_input, try_other_signal_on_input};
    make_tree();
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        int how = run_inside(attempts[i]);
        if (how != EPERM) {
            test_fail(__FILE__, __LINE__, "attempt %zu ended with %d", i, how);
        }
    }
}

static int map_too_much(void)
{
    size_t n = (size_t)128 << 20;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? errno : SURVIVED;
}

TEST(memory_beyond_the_limit_is_refused)
{
    make_tree();
    CHECK_INT(run_inside(map_too_much), ENOMEM);
}

static int abort_itself(void)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

TEST(a_bug_can_still_end_the_process_by_abort)
{
    make_tree();
    CHECK_INT(run_inside(abort_itself), -SIGABRT);
}
