// Where sessions lie: the only place that knows the two forms of a session's directory.

#include "store/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

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
    DIR *d = opendir(path);
    int rc = d != NULL || errno == ENOENT ? 0 : err_sys(w->e, "cannot list '%s'", path);
    for (struct dirent *de; d != NULL && (de = readdir(d)) != NULL;) {
        if (store_id_valid(str_of(de->d_name))) {
            vec_push(&names, xstrdup(de->d_name));
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    free(path);
    if (names.n != 0) {
        qsort(names.p, names.n, sizeof *names.p, by_name);
    }
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

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)at;
    return (flag == FTW_DP ? rmdir(path) : unlink(path)) == 0 ? 0 : -1;
}

int walk_remove(const char *path, struct err *e)
{
    errno = 0;
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0
               ? 0
               : err_sys(e, "cannot remove '%s'", path);
}
