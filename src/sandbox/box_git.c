// What must not change in a writable directory: its `.git` and `.afloat`.
//
// A command that can write a repository's configuration or hooks runs programs as the user, outside the box,
// the next time the user (or a prompt) calls git there; one that can write `.afloat` adds plugins. A mount on
// the whole of `.git` is the only wall that holds: a mount on `.git/hooks` could be renamed away together with
// its parent.
//
//     .git is        rule
//     a directory    read-only
//     missing        must not appear
//     a link         read-only, and what it leads to
//     a file         read-only, and the directory it names; in a linked worktree see below
//
// A linked worktree of the user's keeps index, HEAD and commits in its repository, which is closed as
// any other: nothing beneath a repository's `.git` can be written in a box.
//
// The worktree of a run has its own repository, its quarantine (git/quarantine.c), in
// HOME/quarantine/SLUG/NAME. That can be written, except for the files that tell git what to run and us
// where things are. A `.git` file comes with any archive and could name any directory, so it is
// believed only when it leads there, where no tool can write, and that place names it back.
//
// A bare repository has all of this in the directory itself, so no directory in one can be written.
//
// It does not find repositories further down in the tree (docs/internals/threats.md says why).

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/box_int.h"

enum { POINTER_MAX = 4096 };

static const char *const guarded[] = {".git", ".afloat"};

// What in a quarantine is ours.
static const char *const quarantine_keeps[] = {"config", "commondir", "gitdir", "registration"};

/// The path that a one-line file holds, after `prefix`, as a real path; relative ones begin at
/// `base`. NULL when it has none or that does not exist.
static char *read_pointer(const char *file, const char *prefix, const char *base)
{
    struct buf text = {.max = POINTER_MAX};
    char *real = NULL;
    if (path_read(file, &text, NULL) == 0 && str_starts(buf_str(&text), prefix)) {
        char *name = str_dup(str_trim(str_from(buf_str(&text), strlen(prefix))));
        char *path = path_join(base, name);
        real = realpath(path, NULL);
        free(path);
        free(name);
    }
    buf_fini(&text);
    return real;
}

/// Does `dir/name` hold the path `expected`?
static bool points_to(const char *dir, const char *name, const char *expected)
{
    char *file = path_join(dir, name);
    char *real = read_pointer(file, "", dir);
    bool same = real != NULL && strcmp(real, expected) == 0;
    free(real);
    free(file);
    return same;
}

/// The repository whose worktree `own` (REPO/.git/worktrees/ID) is, when both name each other and
/// `link` is the worktree's `.git`. Caller frees.
static char *common_dir(const char *own, const char *link)
{
    struct str parent = path_dir(str_of(own));
    char *common = str_dup(path_dir(parent));
    if (!str_eqz(path_base(parent), "worktrees") || !points_to(own, "commondir", common) ||
        !points_to(own, "gitdir", link)) {
        free(common);
        return NULL;
    }
    return common;
}

/// The quarantine that `link`, the `.git` of `root`, leads to: HOME/quarantine/SLUG/NAME, which must name
/// `link` back. Caller frees; NULL when it does not lead to one.
static char *find_quarantine(const struct box *b, const char *link, const char *root)
{
    char *own = read_pointer(link, "gitdir:", root);
    char *expected = b->home != NULL ? path_join(b->home, "quarantine") : NULL;
    bool good = own != NULL && expected != NULL &&
                str_eqz(path_dir(path_dir(str_of(own))), expected) &&
                points_to(own, "gitdir", link);
    free(expected);
    if (!good) {
        free(own);
        own = NULL;
    }
    return own;
}

/// The repository of a quarantine may be in a place that commands do not see.
static void show_repository(struct box *b, const char *quarantine, const char *link)
{
    char *file = path_join(quarantine, "registration");
    char *own = read_pointer(file, "", quarantine);
    char *common = own != NULL ? common_dir(own, link) : NULL;
    if (common != NULL) {
        box__add(b, 'r', common);
    }
    free(common);
    free(own);
    free(file);
}

/// `link` is a file.
static void protect_pointer(struct box *b, const char *link, const char *root)
{
    assert(link[0] == '/' && root[0] == '/');
    char *quarantine = find_quarantine(b, link, root);
    char *own = quarantine == NULL ? read_pointer(link, "gitdir:", root) : NULL;
    char *common = own != NULL ? common_dir(own, link) : NULL;
    if (quarantine != NULL) {
        box__add(b, 'w', quarantine);
        for (size_t i = 0; i < ARRAY_LEN(quarantine_keeps); i++) {
            char *path = path_join(quarantine, quarantine_keeps[i]);
            box__add(b, 'r', path);
            free(path);
        }
        show_repository(b, quarantine, link);
    } else if (own != NULL) {
        box__add(b, 'r', common != NULL ? common : own);
    }
    free(common);
    free(own);
    free(quarantine);
}

bool box__in_repository(const char *path)
{
    static const char *const files[] = {"HEAD", "objects", "refs"}; // as git itself tells one
    bool found = false;
    for (struct str at = str_of(path); !found && at.n > 1; at = path_dir(at)) {
        found = str_eqz(path_base(at), ".git");
        size_t n = 0;
        for (; !found && n < ARRAY_LEN(files); n++) {
            char *file = xasprintf(STR_FMT "/%s", STR_ARG(at), files[n]);
            bool there = access(file, F_OK) == 0;
            free(file);
            if (!there) {
                break;
            }
        }
        found = found || n == ARRAY_LEN(files);
    }
    return found;
}

void box__show_git(struct box *b, const char *root)
{
    char *link = path_join(root, ".git"), *quarantine = find_quarantine(b, link, root);
    if (quarantine != NULL) {
        box__add(b, 'r', quarantine);
        show_repository(b, quarantine, link);
    }
    free(quarantine);
    free(link);
}

static int protect(struct box *b, const char *root, const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        if (errno != ENOENT) {
            return err_sys(e, "cannot look at '%s'", path);
        }
        if (access(root, W_OK) == 0) { // else it cannot be made
            box__add(b, 'k', path);
        }
        return 0;
    }
    bool left_behind = S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0; // by a power cut
    box__add(b, left_behind ? 'k' : 'r', path);
    if (S_ISREG(st.st_mode)) {
        protect_pointer(b, path, root);
    }
    if (!S_ISLNK(st.st_mode)) {
        return 0;
    }
    char *target = realpath(path, NULL);
    if (target == NULL) {
        return err_set(
            e, ERR_DENIED,
            "'%s' is a dangling link and cannot be protected: remove it, or use the sandbox "
            "mode read-only",
            path);
    }
    box__add(b, 'r', target);
    free(target);
    return 0;
}

int box__protect(struct box *b, const char *root, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(guarded) && rc == 0; i++) {
        char *path = path_join(root, guarded[i]);
        rc = protect(b, root, path, e);
        free(path);
    }
    return rc;
}
