// Find sessions: the only file that knows the two forms of a session's directory.

#include "store/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/vec.h"
#include "store/store.h"

static const char *const forms[] = {"sessions/*", "bots/*/workspaces/*/history/*"};

struct walk {
    const char *home;
    walk_cb *cb;
    void *arg;
    struct err *e;
};

static bool is_dir(const char *home, const char *rel)
{
    struct stat st;
    char *path = path_join(home, rel);
    bool yes = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return yes;
}

static int descend(const struct walk *w, const char *dir, struct str id, struct str form);

/// `dir` is a directory; `form` is what is left to match. In the order of the names.
static int expand(const struct walk *w, const char *dir, struct str form)
{
    vec(char *) names = {0};
    char *path = path_join(w->home, dir);
    struct folder f = folder_open(path);
    int rc = f.stream != NULL || errno == ENOENT ? 0 : err_sys(w->e, "cannot list '%s'", path);
    while (folder_next(&f)) {
        if (store_id_valid(str_of(f.name))) {
            vec_push(&names, xstrdup(f.name));
        }
    }
    free(path);
    str_sort((void *)names.p, names.n);
    vec_foreach (name, &names) {
        if (rc == 0) {
            char *sub = path_join(dir, *name);
            rc = is_dir(w->home, sub) ? descend(w, sub, str_of(*name), form) : 0;
            free(sub);
        }
        free(*name);
    }
    vec_fini(&names);
    return rc;
}

// Recursion is as deep as the form has parts.
static int descend(const struct walk *w, const char *dir, struct str id, struct str form)
{
    if (form.n == 0) {
        return w->cb(w->arg, dir, id);
    }
    struct str part = str_cut(&form, '/');
    if (str_eqz(part, "*")) {
        return expand(w, dir, form);
    }
    char *name = str_dup(part);
    char *sub = path_join(dir, name);
    int rc = is_dir(w->home, sub) ? descend(w, sub, part, form) : 0;
    free(sub);
    free(name);
    return rc;
}

int walk_sessions(const char *home, walk_cb *cb, void *arg, struct err *e)
{
    struct walk w = {home, cb, arg, e};
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(forms) && rc == 0; i++) {
        rc = descend(&w, "", STR_NULL, str_of(forms[i]));
    }
    return rc;
}

bool walk_dir_valid(struct str dir, struct str id)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct str form = str_of(forms[i]), rest = dir;
        bool fits = true;
        while (fits && form.n != 0 && rest.n != 0) {
            struct str want = str_cut(&form, '/'), part = str_cut(&rest, '/');
            fits = str_eqz(want, "*") ? store_id_valid(part) : str_eq(want, part);
        }
        if (fits && form.n == 0 && rest.n == 0 && rest.p == NULL) {
            return str_eq(path_base(dir), id) && store_id_valid(id);
        }
    }
    return false;
}

int walk_sync_dir(const char *dir, struct err *e)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : err_sys(e, "cannot sync '%s'", dir);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}
