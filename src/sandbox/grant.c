// From a path to the one directory that it stands for.
//
//     first call   path ── walk, link by link ── open without links ──> path, dev, ino, descriptor
//     later        real path ── open without links ── same dev and ino? ──> no: refuse
//
// The attack: a command that may write `src/` renames `src/x` and makes `src/x` a link to the home directory.
// Resolving the granted `src/x/project` again would open the home directory to the next command. Two rules
// stop it:
//
//   - A link is followed only where root made it. A grant that depends on a link which a command of this
//     user could have made is refused, also in a new session.
//   - A path that was resolved is opened without following any link, and must be the same inode. The
//     descriptor keeps that inode from being used again for another directory.
//
// After a restart of the hub a session opens its stored real path again by the first rule alone. Device and
// inode are not stored: device numbers change with a reboot and inodes with a restored backup, so the
// comparison would refuse honest users. It is not needed either: only a program that could write there before
// can put a directory there that is no link.

#include "sandbox/grant.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "sandbox/walk_int.h"

struct known_grant {
    char *asked; // as the caller wrote it
    char *path;  // real
    dev_t dev;
    ino_t ino;
    int fd; // O_PATH; -1 while it rests
};

struct grants {
    unsigned refs;
    pthread_mutex_t lock; // of `list`; an entry is never removed
    vec(struct known_grant *) list;
};

// ---- the first time ----------------------------------------------------------------------------

static int check_link(void *arg, const char *link, const struct stat *st, struct err *e)
{
    const char *path = arg;
    struct stat parent;
    char *dir = str_dup(path_dir(str_of(link)));
    // only root can replace this link
    bool safe = geteuid() != 0 && st->st_uid == 0 && stat(dir, &parent) == 0 &&
                parent.st_uid == 0 && (parent.st_mode & 022) == 0;
    free(dir);
    if (safe) {
        return 0;
    }
    char *real = realpath(path, NULL);
    int rc = err_set(e, ERR_DENIED,
                     "'%s' leads through the symbolic link '%s', which a sandboxed command could "
                     "replace: name the real directory%s%s instead",
                     path, link, real != NULL ? ", " : "", real != NULL ? real : "");
    free(real);
    return rc;
}

/// Open the directory `path`, which must not lead through a link; negative errno.
static int open_real(const char *path)
{
    const struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd >= 0 ? fd : -errno;
}

static int learn(struct grants *a, const char *asked, struct known_grant **out, struct err *e)
{
    struct stat st;
    struct path_walk w;
    char *path = path_expand_home(asked);
    int rc = walk__path(&w, path, check_link, path, e);
    int fd = rc == 0 ? open_real(w.real) : -1;
    if (rc == 0 && (fd < 0 || fstat(fd, &st) != 0)) {
        rc = err_set(e, fd == -ENOENT || fd == -ENOTDIR ? ERR_NOT_FOUND : fd,
                     "cannot open the directory '%s': %s", path, err_text(fd));
    }
    if (rc == 0) {
        struct known_grant *k = xmalloc(sizeof *k);
        *k = (struct known_grant){xstrdup(asked), xstrdup(w.real), st.st_dev, st.st_ino, fd};
        vec_push(&a->list, k);
        *out = k;
    }
    walk__fini(&w);
    free(path);
    return rc;
}

// ---- from then on ------------------------------------------------------------------------------

static int check(struct known_grant *k, struct err *e)
{
    struct stat st = {0};
    assert(k->path[0] == '/');
    int fd = open_real(k->path);
    if (fd == -ENOENT) {
        return err_set(e, ERR_NOT_FOUND, "the directory '%s' is gone", k->path);
    }
    bool same = fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == k->dev && st.st_ino == k->ino;
    if (same && k->fd < 0) {
        k->fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    return same ? 0
                : err_set(e, ERR_CONFLICT,
                          "'%s' is no longer the directory it was when the session began, so no "
                          "tool may use it: move it back, or start a new session",
                          k->path);
}

int grants_find(struct grants *a, const char *path, struct grant *out, struct err *e)
{
    struct known_grant *k = NULL;
    pthread_mutex_lock(&a->lock);
    vec_foreach (it, &a->list) {
        if (strcmp((*it)->asked, path) == 0) {
            k = *it;
        }
    }
    int rc = k != NULL ? check(k, e) : learn(a, path, &k, e);
    pthread_mutex_unlock(&a->lock);
    if (rc == 0) {
        *out = (struct grant){k->path, k->dev, k->ino};
    }
    return rc;
}

// ---- life --------------------------------------------------------------------------------------

struct grants *grants_new(void)
{
    struct grants *a = xcalloc(1, sizeof *a);
    a->refs = 1;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

struct grants *grants_ref(struct grants *a)
{
    assert(a->refs != 0);
    a->refs++;
    return a;
}

void grants_rest(struct grants *a)
{
    if (a == NULL) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    vec_foreach (k, &a->list) {
        if ((*k)->fd >= 0) {
            close((*k)->fd);
            (*k)->fd = -1;
        }
    }
    pthread_mutex_unlock(&a->lock);
}

void grants_unref(struct grants *a)
{
    assert(a == NULL || a->refs != 0);
    if (a == NULL || --a->refs > 0) {
        return;
    }
    grants_rest(a);
    vec_foreach (k, &a->list) {
        free((*k)->asked);
        free((*k)->path);
        free(*k);
    }
    vec_fini(&a->list);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
