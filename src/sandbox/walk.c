// A path, part by part.
//
// realpath() tells where a path leads, not through which links, and it is the links that a sandboxed
// command can replace. What is found here is the text of a moment: who opens it does so without links.

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/str.h"
#include "sandbox/walk_int.h"

enum { LINKS_MAX = 40 };

struct walker {
    struct path_walk *w; // `real` is "" for the root, until the end
    const char *path;
    walk_link_fn *on_link;
    void *arg;
    unsigned links;
    struct err *e;
};

static void replace(char **text, char *by)
{
    free(*text);
    *text = by;
}

/// `link` was met: put its target before what is left.
static int follow(struct walker *k, const char *link)
{
    char target[PATH_MAX];
    ssize_t n = readlink(link, target, sizeof target);
    if (n <= 0 || n == sizeof target || ++k->links > LINKS_MAX) {
        return err_set(k->e, -ELOOP, "cannot follow the link '%s'", link);
    }
    if (target[0] == '/') {
        replace(&k->w->real, xstrdup(""));
    }
    replace(&k->w->rest, xasprintf("%.*s/%s", (int)n, target, k->w->rest));
    return 0;
}

/// `*name` is taken over.
static int enter(struct walker *k, char *name)
{
    struct stat st;
    assert(k->w->real != NULL && k->w->missing == NULL);
    char *next = xasprintf("%s/%s", k->w->real, name);
    int rc = 0;
    if (lstat(next, &st) != 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : -errno;
        rc = err_set(k->e, code, "cannot find '%s': %s", k->path, strerror(errno));
        replace(&k->w->missing, name);
        free(next);
        return rc;
    }
    free(name);
    if (!S_ISLNK(st.st_mode)) {
        replace(&k->w->real, next);
        return 0;
    }
    rc = k->on_link != NULL ? k->on_link(k->arg, next, &st, k->e) : 0;
    rc = rc == 0 ? follow(k, next) : rc;
    free(next);
    return rc;
}

static int step(struct walker *k)
{
    struct str rest = str_of(k->w->rest);
    char *name = str_dup(str_cut(&rest, '/'));
    char *slash = strrchr(k->w->real, '/');
    replace(&k->w->rest, str_dup(rest));
    if (strcmp(name, "..") == 0 && slash != NULL) {
        *slash = '\0';
    } else if (name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
        return enter(k, name);
    }
    free(name);
    return 0;
}

int walk__path(struct path_walk *w, const char *path, walk_link_fn *on_link, void *arg,
               struct err *e)
{
    struct walker k = {w, path, on_link, arg, 0, e};
    *w = (struct path_walk){.real = xstrdup(""), .rest = xstrdup(path)};
    int rc = path[0] == '/' ? 0 : err_set(e, ERR_INVALID, "'%s' is no absolute path", path);
    while (rc == 0 && w->rest[0] != '\0') {
        rc = step(&k);
    }
    if (w->real[0] == '\0') {
        replace(&w->real, xstrdup("/"));
    }
    return rc;
}

void walk__fini(struct path_walk *w)
{
    free(w->real);
    free(w->missing);
    free(w->rest);
    *w = (struct path_walk){0};
}
