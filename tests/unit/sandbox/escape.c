// What a hostile program would try with system calls. `escape NAME` makes one attempt and exits with
// the errno it got, or with 0 when it did what it must not be able to do. No attempt changes
// anything but its own process, even where it succeeds.

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int result(long rc)
{
    return rc >= 0 ? 0 : errno;
}

static int try_inet(void)
{
    return result(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_udp6(void)
{
    return result(socket(AF_INET6, SOCK_DGRAM, 0));
}

static int try_unix(void)
{
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_netlink(void)
{
    return result(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int try_pair(void)
{
    int fds[2];
    return result(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}

static int try_ptrace(void)
{
    return result(ptrace(PTRACE_SEIZE, 1, NULL, NULL));
}

static int try_peek(void)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)0x400000, 1};
    return result(process_vm_readv(1, &to, 1, &from, 1, 0));
}

static int try_userns(void)
{
    return result(unshare(CLONE_NEWUSER));
}

static int try_clone(void)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        _exit(0);
    }
    return result(pid);
}

static int try_mount(void)
{
    return result(mount("none", "/mnt", "tmpfs", 0, NULL));
}

static int try_remount(void)
{
    return result(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int try_umount(void)
{
    return result(umount2("/tmp", MNT_DETACH));
}

static int try_io_uring(void)
{
    struct io_uring_params p = {0};
    return result(syscall(SYS_io_uring_setup, 1, &p));
}

static int try_bpf(void)
{
    union bpf_attr a = {0};
    return result(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}

static int try_handle(void)
{
    struct file_handle h = {0};
    return result(open_by_handle_at(AT_FDCWD, &h, O_RDONLY));
}

static int try_keys(void)
{
    return result(syscall(SYS_keyctl, 0, -3, 0, 0, 0)); // the id of the session's keyring
}

static int try_init_environ(void)
{
    return result(open("/proc/1/environ", O_RDONLY));
}

static int try_init_root(void)
{
    return result(open("/proc/1/root", O_RDONLY));
}

static int try_init_mem(void)
{
    return result(open("/proc/1/mem", O_RDONLY));
}

static int try_sysrq(void)
{
    return result(open("/proc/sysrq-trigger", O_WRONLY));
}

static int try_core_pattern(void)
{
    return result(open("/proc/sys/kernel/core_pattern", O_WRONLY));
}

static int try_kill_init(void)
{
    kill(1, SIGKILL);
    usleep(20000);
    return ESRCH; // we live
}

static int try_device(void)
{
    return result(mknod("device", S_IFCHR | 0600, makedev(1, 3)));
}

/// A device that even an ordinary user may make, everywhere but behind Landlock.
static int try_whiteout(void)
{
    return result(mknod("whiteout", S_IFCHR | 0600, makedev(0, 0)));
}

/// As many children as one can have, 300 at most; they stay for two seconds.
static int try_bomb(void)
{
    int n = 0;
    for (; n < 300; n++) {
        pid_t pid = fork();
        if (pid < 0) {
            return errno;
        }
        if (pid == 0) {
            pause();
        }
    }
    sleep(2);
    return 0;
}

/// A directory and a link to another one change places until there is a file `stop`.
static int try_swap(void)
{
    puts("ready");
    fflush(stdout);
    while (access("stop", F_OK) != 0) {
        if (renameat2(AT_FDCWD, "d", AT_FDCWD, "link", RENAME_EXCHANGE) != 0) {
            return errno;
        }
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} attempts[] = {
    {"inet", try_inet},
    {"udp6", try_udp6},
    {"unix", try_unix},
    {"netlink", try_netlink},
    {"pair", try_pair},
    {"ptrace", try_ptrace},
    {"peek", try_peek},
    {"userns", try_userns},
    {"clone", try_clone},
    {"mount", try_mount},
    {"remount", try_remount},
    {"umount", try_umount},
    {"io_uring", try_io_uring},
    {"bpf", try_bpf},
    {"handle", try_handle},
    {"keys", try_keys},
    {"init_environ", try_init_environ},
    {"init_root", try_init_root},
    {"init_mem", try_init_mem},
    {"sysrq", try_sysrq},
    {"core_pattern", try_core_pattern},
    {"kill_init", try_kill_init},
    {"device", try_device},
    {"whiteout", try_whiteout},
    {"bomb", try_bomb},
    {"swap", try_swap},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        if (argc == 2 && strcmp(attempts[i].name, argv[1]) == 0) {
            return attempts[i].run();
        }
    }
    fprintf(stderr, "no such attempt\n");
    return 255;
}
