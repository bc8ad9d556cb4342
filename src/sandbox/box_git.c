// What must not change in a writable directory: its `.git` and `.afloat`.
//
// Whoever can write a repository's configuration or hooks runs programs as the user, outside the
// box, the next time the user (or a prompt) calls git there; whoever can write `.afloat` adds
// plugins. A mount on the whole of `.git` is the only wall that holds: a mount on `.git/hooks` could
// be renamed away together with its parent.
//
//     .git is        rule
//     a directory    read-only
//     missing        must not appear
//     a link         read-only, and what it leads to
//     a file         read-only, and the directory it names; in a linked worktree see below
//
// A linked worktree keeps its index and HEAD in REPO/.git/worktrees/ID, and its commits in
// REPO/.git. There git has to write objects, its own branch and the logs of both, so these are
// listed one by one; what tells git where things are and what to run stays closed. The `.git` file
// could name any directory of the user, so it is believed only when that directory names it back.
//
// It does not find repositories further down in the tree (docs/internals/sandbox.md).

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/box_int.h"

enum { POINTER_MAX = 4096 };

static const char *const guarded[] = {".git", ".afloat"};

// What a linked worktree writes in the repository, and what in its own directory it does not.
static const char *const worktree_writes[] = {"objects", "refs/heads/afloat",
                                              "logs/refs/heads/afloat"};
static const char *const worktree_keeps[] = {"commondir", "gitdir"};

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/// The path that a one-line file holds, after `prefix`, as a real path; relative ones begin at
/// `base`. NULL when it has none or that does not exist.
static char *read_pointer(const char *file, const char *prefix, const char *base)
{
    struct buf text;
    char *real = NULL;
    buf_init(&text, POINTER_MAX);
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

static void add_beneath(struct box *b, char kind, const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    if (exists(path)) {
        box__add(b, kind, path);
    }
    free(path);
}

static void open_worktree(struct box *b, const char *own, const char *common)
{
    box__add(b, 'r', common); // it may lie in a place that commands do not see
    for (size_t i = 0; i < ARRAY_LEN(worktree_writes); i++) {
        add_beneath(b, 'w', common, worktree_writes[i]);
    }
    box__add(b, 'w', own);
    for (size_t i = 0; i < ARRAY_LEN(worktree_keeps); i++) {
        add_beneath(b, 'r', own, worktree_keeps[i]);
    }
    char *config = path_join(own, "config.worktree"); // as good as REPO/.git/config
    box__add(b, 'f', config);
    free(config);
}

/// `link` is a file.
static void protect_pointer(struct box *b, const char *link, const char *root)
{
    char *own = read_pointer(link, "gitdir:", root);
    char *common = own != NULL ? common_dir(own, link) : NULL;
    if (common != NULL) {
        open_worktree(b, own, common);
    } else if (own != NULL) {
        box__add(b, 'r', own);
    }
    free(common);
    free(own);
}

static int protect_link(struct box *b, const char *link, struct err *e)
{
    char *target = realpath(link, NULL);
    if (target == NULL) {
        return err_set(e, ERR_DENIED,
                       "'%s' leads nowhere and cannot be protected: remove it, or use the sandbox "
                       "mode read-only",
                       link);
    }
    box__add(b, 'r', target);
    free(target);
    return 0;
}

static int protect(struct box *b, const char *root, const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        if (errno != ENOENT) {
            return err_sys(e, "cannot look at '%s'", path);
        }
        if (access(root, W_OK) == 0) { // else nobody can make it
            box__add(b, 'k', path);
        }
        return 0;
    }
    bool left_behind = S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0; // by a power cut
    box__add(b, left_behind ? 'k' : 'r', path);
    if (S_ISREG(st.st_mode)) {
        protect_pointer(b, path, root);
    }
    return S_ISLNK(st.st_mode) ? protect_link(b, path, e) : 0;
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
