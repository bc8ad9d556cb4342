// Where sessions lie: the only place that knows the two forms of a session's directory.

#include "store/walk.h"

#include <dirent.h>
#include <errno.h>
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

/// Names in `rel` that may be an id, sorted; the caller frees each and the array.
static int list_names(const struct walk *w, const char *rel, char ***names, size_t *n)
{
    vec(char *) found = {0};
    char *path = path_join(w->home, rel);
    DIR *d = opendir(path);
    int rc = d != NULL || errno == ENOENT ? 0 : err_sys(w->e, "cannot list '%s'", path);
    for (struct dirent *de; d != NULL && (de = readdir(d)) != NULL;) {
        if (store_id_valid(str_of(de->d_name))) {
            vec_push(&found, xstrdup(de->d_name));
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    free(path);
    if (found.n != 0) {
        qsort(found.p, found.n, sizeof *found.p, by_name);
    }
    *names = found.p;
    *n = found.n;
    return rc;
}

static int descend(const struct walk *w, const char *dir, struct str id, struct str form);

/// `dir` is a directory; `form` is what is left to match.
static int expand(const struct walk *w, const char *dir, struct str form)
{
    char **names;
    size_t n;
    int rc = list_names(w, dir, &names, &n);
    for (size_t i = 0; i < n; i++) {
        if (rc == 0) {
            char *sub = path_join(dir, names[i]);
            rc = is_dir(w->home, sub) ? descend(w, sub, str_of(names[i]), form) : 0;
            free(sub);
        }
        free(names[i]);
    }
    free(names);
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

static bool form_fits(struct str form, struct str dir)
{
    while (form.n != 0 && dir.n != 0) {
        struct str want = str_cut(&form, '/'), part = str_cut(&dir, '/');
        if (str_eqz(want, "*") ? !store_id_valid(part) : !str_eq(want, part)) {
            return false;
        }
    }
    return form.n == 0 && dir.n == 0 && dir.p == NULL;
}

bool walk_dir_valid(struct str dir, struct str id)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (form_fits(str_of(forms[i]), dir)) {
            return str_eq(path_base(dir), id) && store_id_valid(id);
        }
    }
    return false;
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
