// Who is the hub? Two flocks decide.
//
// The lock on home/hub.lock makes us the only hub of a home; the one on runtime/hub.pid the only one
// that listens in a runtime directory (two homes may be told to share one). The kernel drops both
// when the process dies, however it dies: a pid file or socket whose lock is free is stale, whatever its age
// or its number. One thing may keep a lock for a moment longer: a child that was between fork and exec when the
// hub was killed has the file open, too. So we wait for a lock whose holder is dead.

#include "config/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INHERIT_MS = 2000, PAUSE_MS = 5 };

static long holder(int fd)
{
    char text[32] = {0};
    return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

/// Did a command lock the file, and no hub?
static bool is_tool(int fd)
{
    char text[32] = {0};
    const char *end = pread(fd, text, sizeof text - 1, 0) > 0 ? strchr(text, '\n') : NULL;
    return end != NULL && strcmp(end + 1, INSTANCE_TOOL "\n") == 0;
}

static bool is_dead(long pid)
{
    return pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/// 0, or the errno of flock().
static int take_lock(int fd)
{
    for (int waited = 0;; waited += PAUSE_MS) {
        int fault = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (fault != EWOULDBLOCK || waited >= INHERIT_MS || !is_dead(holder(fd))) {
            return fault;
        }
        usleep(PAUSE_MS * 1000);
    }
}

static int lock(const char *path, const char *what, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    int fault = take_lock(fd);
    if (fault == 0) {
        return fd;
    }
    errno = fault;
    int rc =
        fault == EWOULDBLOCK
            ? err_set(e, ERR_CONFLICT,
                      is_tool(fd) ? "this %s is in use by process %ld; try again when it has ended"
                                  : "a hub already runs in this %s (pid %ld)",
                      what, holder(fd))
            : err_sys(e, "cannot lock '%s'", path);
    close(fd);
    return rc;
}

static int write_pid(int fd, const char *path, struct err *e)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        return err_sys(e, "cannot write '%s'", path);
    }
    return 0;
}

int instance_take(struct instance *in, const struct home *h, struct err *e)
{
    *in = (struct instance){.home_fd = -1, .runtime_fd = -1};
    int fd = lock(h->lock, "home", e);
    if (fd < 0) {
        return fd;
    }
    in->home_fd = fd;
    int rc = write_pid(fd, h->lock, e);
    if (rc == 0) {
        rc = lock(h->pid, "runtime directory", e);
        in->runtime_fd = rc;
    }
    if (rc < 0) {
        close(in->home_fd);
        in->home_fd = -1;
        return rc;
    }
    return 0;
}

int instance_renew(struct instance *in, const struct home *h, struct err *e)
{
    struct stat ours, there;
    if (fstat(in->runtime_fd, &ours) == 0 && lstat(h->pid, &there) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
        return 0;
    }
    int fd = lock(h->pid, "runtime directory", e);
    if (fd < 0) {
        return fd;
    }
    close(in->runtime_fd);
    in->runtime_fd = fd;
    return write_pid(fd, h->pid, e);
}

int instance_announce(struct instance *in, struct err *e)
{
    return write_pid(in->runtime_fd, "hub.pid", e);
}

void instance_release(struct instance *in, const struct home *h)
{
    if (in->runtime_fd >= 0) {
        unlink(h->pid); // while we still hold its lock: it is ours
        close(in->runtime_fd);
    }
    if (in->home_fd >= 0) {
        close(in->home_fd);
    }
}
