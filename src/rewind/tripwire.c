// A tripwire over a checkout: one inotify instance with a watch on each directory.
//
// Before each command a session asks whether its snapshot of the checkout is still right. Looking at
// fifty thousand files takes a tenth of a second; asking here takes microseconds. The only conclusion ever
// drawn is that nothing was touched, so whatever makes the wire blind (a queue that overflows, a new directory)
// counts as touched. One directory comes and goes with every command: the box of a project without `.afloat`
// covers that name while the command runs.

#include "rewind/tripwire.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/folder.h"

enum {
    DIRS_MAX = 20000,
    MASK = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
           IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW,
};

struct tripwire {
    int fd;
    char *guard; // ROOT/.afloat, when that was not there: each box makes it and takes it away again
    size_t n_dirs;
    const char *const *skip; // sorted; only while it is armed
    size_t n_skip;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/// Watch the directory `path`, whose name from the root is `rel` ("" or ending with a slash), and all in
/// it. False: it cannot be watched.
static bool watch_dir(struct tripwire *w, struct buf *path, size_t root_n)
{
    const char *rel = buf_z(path) + root_n;
    if (*rel != '\0' && bsearch(&rel, w->skip, w->n_skip, sizeof *w->skip, by_name) != NULL) {
        return true;
    }
    if (++w->n_dirs > DIRS_MAX || inotify_add_watch(w->fd, buf_z(path), MASK) < 0) {
        return false;
    }
    struct folder f = folder_open(buf_z(path));
    size_t n = path->n;
    bool ok = f.stream != NULL;
    while (ok && folder_next(&f)) {
        if (f.type == DT_DIR && strcmp(f.name, ".git") != 0) {
            buf_addf(path, "%s/", f.name);
            ok = watch_dir(w, path, root_n);
            buf_cut(path, n);
        }
        ok = ok && f.type != DT_UNKNOWN;
    }
    folder_close(&f);
    return ok;
}

struct tripwire *tripwire_arm(const char *root, const char *const *skip, size_t n_skip)
{
    struct tripwire *w = xcalloc(1, sizeof *w);
    const char **sorted = xcalloc(n_skip + 1, sizeof *sorted);
    struct buf path = {.max = SIZE_MAX};
    buf_addf(&path, "%s/", root);
    memcpy(sorted, skip, n_skip * sizeof *skip);
    str_sort(sorted, n_skip);
    w->skip = sorted;
    w->n_skip = n_skip;
    w->guard = xasprintf("%s/.afloat", root);
    if (access(w->guard, F_OK) == 0) {
        free(w->guard);
        w->guard = NULL;
    }
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0 || !watch_dir(w, &path, path.n)) {
        tripwire_free(w);
        w = NULL;
    } else {
        w->skip = NULL;
    }
    buf_fini(&path);
    free(sorted);
    return w;
}

enum tripped tripwire_ask(struct tripwire *w)
{
    enum tripped found = TRIPWIRE_STILL;
    bool guarded = false;
    char events[16 * 1024] __attribute__((aligned(__alignof__(struct inotify_event))));
    for (ssize_t n; (n = read(w->fd, events, sizeof events)) > 0;) {
        for (char *at = events; at < events + n;) {
            const struct inotify_event *ev = (const struct inotify_event *)(const void *)at;
            bool dirs = (ev->mask & (IN_ISDIR | IN_Q_OVERFLOW | IN_IGNORED | IN_UNMOUNT)) != 0;
            bool guard = w->guard != NULL && (ev->mask & IN_ISDIR) != 0 && ev->len != 0 &&
                         strcmp(ev->name, ".afloat") == 0;
            guarded = guarded || guard;
            if (!guard) {
                found = dirs ? TRIPWIRE_DIRS : MAX(found, TRIPWIRE_FILES);
            }
            at += sizeof *ev + ev->len;
        }
    }
    return guarded && access(w->guard, F_OK) == 0 ? TRIPWIRE_DIRS : found;
}

void tripwire_free(struct tripwire *w)
{
    if (w != NULL) {
        if (w->fd >= 0) {
            close(w->fd);
        }
        free(w->guard);
        free(w);
    }
}
