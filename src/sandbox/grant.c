// From a path to the one directory that it stands for.
//
//     first call   path ── walk, link by link ── open without links ──> path, dev, ino, descriptor
//     later        real path ── open without links ── same dev and ino? ──> yes: go on, no: refuse
//
// The attack: a command that may write `src/` renames `src/x` and makes `src/x` a link to the home
// directory. Whoever resolves the granted `src/x/project` anew opens the home directory to the next
// command. Two rules stop it:
//
//   - A link is followed only where somebody else, namely root, made it. A grant that depends on a link
//     which a command of this user could have made is refused, also in a new session.
//   - A path that was resolved is opened without following any link, and must be the same inode. The
//     descriptor keeps that inode from being used again for another directory.
//
// After a restart of the hub a session opens its stored real path again by the first rule alone. Device
// and inode are not stored: device numbers change with a reboot and inodes with a restored backup, so the
// comparison would refuse the innocent. It is not needed either: a directory that is no link can only be
// put there by somebody who could write it before.

#include "sandbox/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"

enum { LINKS_MAX = 40 };

struct known {
    char *asked; // as the caller wrote it
    char *path;  // real
    dev_t dev;
    ino_t ino;
    int fd; // O_PATH; -1 while it rests
};

struct grants {
    unsigned refs;
    pthread_mutex_t lock; // of `list`; an entry is never removed
    vec(struct known *) list;
};

// ---- the first time ----------------------------------------------------------------------------

/// Can nobody but root replace the link `path` in the directory `dir`?
static bool is_roots_link(const struct stat *link, const char *dir)
{
    struct stat st;
    return geteuid() != 0 && link->st_uid == 0 && stat(dir, &st) == 0 && st.st_uid == 0 &&
           (st.st_mode & 022) == 0;
}

static int refuse_link(const char *path, const char *link, struct err *e)
{
    char *real = realpath(path, NULL);
    int rc = err_set(e, ERR_DENIED,
                     "'%s' leads through the symbolic link '%s', which a sandboxed command could "
                     "replace: name the real directory%s%s instead",
                     path, link, real != NULL ? ", " : "", real != NULL ? real : "");
    free(real);
    return rc;
}

/// A path that is walked from the root, part by part.
struct walk {
    const char *path; // as it was given
    char *done;       // the real path so far; "" for the root
    char *rest;       // what is left of it
    unsigned links;
    struct err *e;
};

static void replace(char **text, char *by)
{
    free(*text);
    *text = by;
}

/// `link` was met: put its target before what is left.
static int follow(struct walk *w, const char *link)
{
    char target[PATH_MAX];
    ssize_t n = readlink(link, target, sizeof target);
    if (n <= 0 || n == sizeof target || ++w->links > LINKS_MAX) {
        return err_set(w->e, -ELOOP, "cannot follow the link '%s'", link);
    }
    if (target[0] == '/') {
        replace(&w->done, xstrdup(""));
    }
    replace(&w->rest, xasprintf("%.*s/%s", (int)n, target, w->rest));
    return 0;
}

static int enter(struct walk *w, struct str name)
{
    struct stat st;
    char *next = xasprintf("%s/" STR_FMT, w->done, STR_ARG(name));
    if (lstat(next, &st) != 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : -errno;
        int rc = err_set(w->e, code, "cannot find '%s': %s", w->path, strerror(errno));
        free(next);
        return rc;
    }
    if (!S_ISLNK(st.st_mode)) {
        replace(&w->done, next);
        return 0;
    }
    int rc = is_roots_link(&st, w->done[0] != '\0' ? w->done : "/")
                 ? follow(w, next)
                 : refuse_link(w->path, next, w->e);
    free(next);
    return rc;
}

static int step(struct walk *w)
{
    struct str rest = str_of(w->rest);
    char *name = str_dup(str_cut(&rest, '/'));
    char *slash = strrchr(w->done, '/');
    int rc = 0;
    replace(&w->rest, str_dup(rest));
    if (strcmp(name, "..") == 0 && slash != NULL) {
        *slash = '\0';
    } else if (name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
        rc = enter(w, str_of(name));
    }
    free(name);
    return rc;
}

/// The real path of `path`, through links of root's only. Caller frees.
static int resolve(const char *path, char **out, struct err *e)
{
    struct walk w = {.path = path, .done = xstrdup(""), .rest = xstrdup(path), .e = e};
    int rc = path[0] == '/' ? 0 : err_set(e, ERR_INVALID, "'%s' is no absolute path", path);
    while (rc == 0 && w.rest[0] != '\0') {
        rc = step(&w);
    }
    *out = rc == 0 ? xstrdup(w.done[0] != '\0' ? w.done : "/") : NULL;
    free(w.done);
    free(w.rest);
    return rc;
}

/// Open the directory `path`, on which no link lies; negative errno.
static int open_real(const char *path)
{
    const struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd >= 0 ? fd : -errno;
}

static int learn(struct grants *a, const char *asked, struct known **out, struct err *e)
{
    struct stat st;
    char *expanded = path_expand_home(asked), *path = NULL;
    int rc = resolve(expanded, &path, e);
    int fd = rc == 0 ? open_real(path) : -1;
    free(expanded);
    if (rc == 0 && (fd < 0 || fstat(fd, &st) != 0)) {
        rc = err_set(e, fd == -ENOENT || fd == -ENOTDIR ? ERR_NOT_FOUND : fd,
                     "cannot open the directory '%s': %s", path, err_text(fd));
    }
    if (rc < 0) {
        free(path);
        return rc;
    }
    struct known *k = xmalloc(sizeof *k);
    *k = (struct known){xstrdup(asked), path, st.st_dev, st.st_ino, fd};
    vec_push(&a->list, k);
    *out = k;
    return 0;
}

// ---- from then on ------------------------------------------------------------------------------

static int check(struct known *k, struct err *e)
{
    struct stat st = {0};
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
    struct known *k = NULL;
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
