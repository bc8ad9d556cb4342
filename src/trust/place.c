// The project that contains a directory, and the place for which its trust is kept.
//
//     dir ──up──> root: `.afloat/` or `.git`            place
//                   .git a directory ─────────────────> the root itself
//                   .git a file: "gitdir: G"        (G of a run names another: G/registration)
//                     G/commondir ─> C, G in C/worktrees
//                     G/gitdir ─> back to the root's .git ──> the directory of C (C itself when bare)
//
// A `.git` file comes with any archive and may say anything. Believing it would let a download claim to be a
// worktree of a trusted repository. So the repository must confirm it: G/gitdir is written by `git worktree
// add`, in a directory that only the user can write: the `.git` of a followed place is closed to tools
// (guard.c). A bare repository has no checkout, so a place with `.afloat` or `.git` in it is not one, whatever
// lies beside them. A mismatch is not an error: such a root is its own place.
//
// It never runs git, reads its configuration, or looks at `GIT_DIR`.

#include "trust/place.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "store/tree.h"

enum { LINK_FILE_MAX = 8 * 1024 }; // bytes of `.git`, `commondir` and `gitdir`

static bool is_same_dir(const struct stat *a, const char *path)
{
    struct stat b;
    return path != NULL && stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/// `.afloat` of a home directory is the user's own and makes no project.
static bool is_project(const char *dir, const char *home)
{
    struct stat st;
    char *own = path_join(dir, ".afloat"), *git = path_join(dir, ".git");
    char *usual = path_expand_home("~/.afloat");
    bool found = stat(own, &st) == 0 && S_ISDIR(st.st_mode)
                     ? !is_same_dir(&st, home) && !is_same_dir(&st, usual)
                     : lstat(git, &st) == 0;
    free(usual);
    free(git);
    free(own);
    return found;
}

/// Cut the last part of `dir`, in place; false at the root.
static bool go_up(char *dir)
{
    char *slash = strrchr(dir, '/');
    if (slash == NULL || dir[1] == '\0') {
        return false;
    }
    slash[slash == dir ? 1 : 0] = '\0';
    return true;
}

/// The real path that the one-line file `name` of `dir` holds after `prefix`; NULL when it is not such a file
/// or there is no such path. A relative path starts at `dir`. Caller frees.
static char *read_link_file(const char *dir, const char *name, const char *prefix)
{
    struct buf text = {.max = LINK_FILE_MAX};
    char *real = NULL, *file = path_join(dir, name);
    if (path_read(file, &text, NULL) == 0 && str_starts(buf_str(&text), prefix)) {
        struct str line = str_trim(str_from(buf_str(&text), strlen(prefix)));
        if (line.n != 0 && memchr(line.p, '\0', line.n) == NULL) {
            char *target = str_dup(line), *path = path_join(dir, target);
            real = realpath(path, NULL);
            free(path);
            free(target);
        }
    }
    buf_fini(&text);
    free(file);
    return real;
}

/// Does the repository's entry `git` point back at the `.git` file of `root`?
static bool points_back(const char *git, const char *root)
{
    char *there = read_link_file(git, "gitdir", "");
    char *here = path_join(root, ".git");
    bool same = there != NULL && strcmp(there, here) == 0; // `root` is real already
    free(here);
    free(there);
    return same;
}

/// True when `git` is directly in `common`/worktrees.
static bool is_entry_of(const char *git, const char *common)
{
    char *entries = path_join(common, "worktrees");
    bool fits = str_eqz(path_dir(str_of(git)), entries);
    free(entries);
    return fits;
}

/// The main repository of the linked worktree `root`, and whether it is a bare one; NULL when `root` is no linked
/// worktree. Caller frees.
static char *main_of(const char *root, bool *bare)
{
    struct stat st;
    char *dot = path_join(root, ".git");
    bool is_file = lstat(dot, &st) == 0 && S_ISREG(st.st_mode);
    free(dot);
    char *git = is_file ? read_link_file(root, ".git", "gitdir:") : NULL;
    char *registered = git != NULL ? read_link_file(git, "registration", "") : NULL;
    if (registered != NULL) { // git/quarantine.c: a repository for one run, of this one
        free(git);
        git = registered;
    }
    char *common = git != NULL ? read_link_file(git, "commondir", "") : NULL;
    if (common != NULL && is_entry_of(git, common) && points_back(git, root)) {
        *bare = !str_eqz(path_base(str_of(common)), ".git");
        if (!*bare) {
            go_up(common);
        }
    } else {
        free(common);
        common = NULL;
    }
    free(git);
    return common;
}

static bool has(const char *dir, const char *name)
{
    struct stat st;
    char *path = path_join(dir, name);
    bool found = lstat(path, &st) == 0;
    free(path);
    return found;
}

/// The place of `root`, which may be below the top of its worktree. Caller frees.
static char *place_of(const char *root)
{
    char *top = xstrdup(root), *place = NULL;
    bool bare = false;
    assert(root[0] == '/');
    while (!has(top, ".git") && go_up(top)) {
    }
    char *repo = main_of(top, &bare);
    if (repo != NULL) {
        place = xasprintf("%s%s", repo, root + strlen(top));
    }
    if (bare && (has(place, ".afloat") || has(place, ".git"))) {
        free(place);
        place = NULL;
    }
    free(repo);
    free(top);
    return place != NULL ? place : xstrdup(root);
}

static bool is_foreign(const char *dir, const char *name)
{
    struct stat st;
    char *path = path_join(dir, name);
    bool foreign = stat(path, &st) == 0 && tree_is_foreign(&st);
    free(path);
    return foreign;
}

int trust_place_of(struct trust_place *p, const char *home, const char *dir, struct err *e)
{
    *p = (struct trust_place){0};
    char *at = realpath(dir, NULL);
    if (at == NULL) {
        int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : -errno;
        return err_set(e, code, "cannot find '%s': %s", dir, strerror(errno));
    }
    while (!is_project(at, home)) {
        if (!go_up(at)) {
            free(at);
            return err_set(e, ERR_NOT_FOUND,
                           "'%s' is not in a project: no '.afloat' or '.git' there or above; "
                           "make one with 'mkdir .afloat' or name its directory",
                           dir);
        }
    }
    p->root = at;
    p->place = place_of(at);
    p->foreign = is_foreign(at, "") || is_foreign(at, ".afloat");
    return 0;
}

int trust_place_named(struct trust_place *p, const char *home, const char *dir, struct err *e)
{
    int rc = trust_place_of(p, home, dir, e);
    if (rc != ERR_NOT_FOUND) {
        return rc;
    }
    assert(p->root == NULL);
    char *here = getcwd(NULL, 0); // NULL when it is gone: then only absolute names are of use
    char *path = path_join(here != NULL ? here : "/", dir);
    char *real = realpath(path, NULL);
    p->root = real != NULL ? real : path_clean(path);
    p->place = xstrdup(p->root);
    free(path);
    free(here);
    return 0;
}

void trust_place_fini(struct trust_place *p)
{
    free(p->root);
    free(p->place);
    *p = (struct trust_place){0};
}
