// The process that holds the home, found without touching the lock.
//
// Trying the lock would answer the same question, but we would hold it for a moment, and a hub that
// starts just then would think that another one is running. So we look: the hub writes its
// number into the file that it locks, and the kernel shows which files a process has open.

#include "client/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "client/interrupt.h"
#include "config/instance.h"

/// The number that the lock holds; `tool` says whether a hub wrote it or a command that keeps hubs out.
static pid_t read_pid(const char *path, bool *tool)
{
    char text[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    int64_t pid = 0;
    struct str rest = {text, n > 0 ? (size_t)n : 0};
    bool fits = str_to_i64(str_trim(str_cut(&rest, '\n')), &pid);
    *tool = str_eqz(str_trim(rest), INSTANCE_TOOL);
    return fits && pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static bool has_open(pid_t pid, const struct stat *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    struct folder f = folder_open(path);
    bool found = false;
    while (!found && folder_next(&f)) {
        struct stat st;
        found = fstatat(dirfd(f.stream), f.name, &st, 0) == 0 && st.st_dev == file->st_dev &&
                st.st_ino == file->st_ino;
    }
    folder_close(&f);
    return found;
}

static pid_t find(const struct home *h, bool wants_tool)
{
    struct stat lock;
    bool tool = false;
    pid_t pid = read_pid(h->lock, &tool);
    return pid > 0 && tool == wants_tool && stat(h->lock, &lock) == 0 && has_open(pid, &lock) ? pid
                                                                                              : 0;
}

pid_t holder_find(const struct home *h)
{
    return find(h, false);
}

pid_t holder_find_tool(const struct home *h)
{
    return find(h, true);
}

int holder_look(const struct home *h, struct err *e)
{
    if (access(h->lock, R_OK) == 0 || errno != EACCES) {
        return 0;
    }
    struct stat st;
    bool known = stat(h->dir, &st) == 0;
    char owner[40] = "another user";
    if (known) {
        snprintf(owner, sizeof owner, "user %u", (unsigned)st.st_uid);
    }
    return err_set(
        e, ERR_DENIED,
        "cannot look into the home '%s': permission denied; it belongs to %s: run afloat "
        "as that user, or set AFLOAT_HOME to a directory of yours",
        h->dir, owner);
}

bool holder_is_systemd(const struct home *h)
{
    struct stat st;
    char *link = path_join(h->runtime, HOLDER_SYSTEMD);
    bool listens = lstat(link, &st) == 0;
    free(link);
    return listens;
}

bool holder_is_dormant(const struct home *h)
{
    return holder_is_systemd(h) && holder_find(h) == 0;
}

int holder_wait_gone(pid_t pid, uint64_t deadline_ns)
{
    int fd = pidfd_open(pid, 0);
    if (fd < 0) {
        return errno == ESRCH ? 0 : -errno;
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc = interrupt_wait(&p, 1, deadline_ns);
    close(fd);
    return rc < 0 ? rc : rc == 0 ? ERR_TIMEOUT : 0;
}
