// A worktree in which somebody else has worked: which one it is, and git in a box there.
//
// What lies in the directory is not believed, its `.git` least of all. The repository is the one
// that the caller has kept; of its registrations (REPO/worktrees/ID) the one that names our
// directory is ours. No session in a box can write that name (sandbox/box_git.c), nor `.git`; a
// session without one can, so `.git` is put right before a box is made from it.
//
// What a model can write are the index, HEAD and logs of this worktree and the branches beneath
// `afloat/`. Git itself reads them, inside the box.

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { POINTER_MAX = 8192, ASIDE_MAX = 100 };

/// Does REPO/worktrees/ID/gitdir name `link`?
static bool names(const char *own, const char *link)
{
    struct buf text;
    char *file = path_join(own, "gitdir");
    buf_init(&text, POINTER_MAX);
    bool same = path_read(file, &text, NULL) == 0;
    struct str line = buf_str(&text);
    if (line.n != 0 && line.p[line.n - 1] == '\n') {
        line.n--;
    }
    same = same && str_eqz(line, link);
    buf_fini(&text);
    free(file);
    return same;
}

/// The registration of `dir`, or NULL. Caller frees.
static char *find(const char *common, const char *dir)
{
    char *all = path_join(common, "worktrees"), *link = path_join(dir, ".git"), *own = NULL;
    DIR *d = opendir(all);
    struct dirent *entry;
    while (d != NULL && own == NULL &&
           (entry = readdir(d)) != NULL) { // NOLINT(concurrency-mt-unsafe): a stream of our own
        char *candidate = path_join(all, entry->d_name);
        if (entry->d_name[0] != '.' && names(candidate, link)) {
            own = xstrdup(candidate);
        }
        free(candidate);
    }
    if (d != NULL) {
        closedir(d);
    }
    free(link);
    free(all);
    return own;
}

/// Put what is in the way of `path` beside it: nothing is thrown away that was not ours.
static void set_aside(const char *path)
{
    for (int i = 0; i < ASIDE_MAX; i++) {
        char *aside = xasprintf("%s-aside%d", path, i);
        bool done = !files__exists(aside) && rename(path, aside) == 0;
        free(aside);
        if (done) {
            return;
        }
    }
}

static int put_link_right(const char *own, const char *dir, struct err *e)
{
    char *link = path_join(dir, ".git"), *want = xasprintf("gitdir: %s\n", own);
    struct buf text;
    struct stat st;
    int rc = 0;
    buf_init(&text, POINTER_MAX);
    bool regular = lstat(link, &st) == 0 && S_ISREG(st.st_mode);
    if (!regular || path_read(link, &text, NULL) < 0 || !str_eqz(buf_str(&text), want)) {
        if (S_ISDIR(st.st_mode)) {
            set_aside(link);
        }
        rc = path_write_atomic(link, str_of(want), 0644, e);
    }
    buf_fini(&text);
    free(want);
    free(link);
    return rc;
}

static void unlink_in(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    unlink(path);
    free(path);
}

/// HEAD and index are files, or git would wait for them; a HEAD that is none is on our branch.
static void put_files_right(const char *own, const char *branch)
{
    static const char *const needed[] = {"HEAD", "index"};
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        char *path = path_join(own, needed[i]);
        if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
            set_aside(path);
        }
        if (i == 0 && !files__exists(path)) {
            char *text = xasprintf("ref: refs/heads/%s\n", branch);
            (void)!path_write_atomic(path, str_of(text), 0644, NULL); // git says why not
            free(text);
        }
        free(path);
    }
}

static void remove_locks(const char *common, const char *own, const char *branch)
{
    char *lock = xasprintf("refs/heads/%s.lock", branch);
    unlink_in(own, "index.lock");
    unlink_in(own, "HEAD.lock");
    unlink_in(common, lock);
    free(lock);
}

static int make_box(struct git_job *j, struct err *e)
{
    struct box_policy policy = {
        .mode = BOX_WORKSPACE_WRITE,
        .working_dir = j->place.work_tree,
        .home = j->git->home,
        .runtime = j->git->runtime,
    };
    return box_new(&j->place.box, &policy, e);
}

static int find_place(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    struct stat st;
    char *own = find(w->common, w->dir);
    if (own == NULL || lstat(w->dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        free(own);
        return err_set(e, ERR_NOT_FOUND, "'%s' is no worktree of '%s' any more", w->dir, w->common);
    }
    j->place.git_dir = job__dup(j, own);
    j->place.work_tree = j->place.dir = w->dir;
    free(own);
    return 0;
}

int own__enter(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    int rc = find_place(j, w, e);
    return rc < 0 || w->full_access ? rc : make_box(j, e);
}

int own__take_over(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    int rc = find_place(j, w, e);
    if (rc == 0) {
        rc = put_link_right(j->place.git_dir, w->dir, e);
    }
    if (rc < 0) {
        return rc;
    }
    put_files_right(j->place.git_dir, w->branch);
    remove_locks(w->common, j->place.git_dir, w->branch);
    files__disarm(w->dir);
    own__make_ref_dirs(w->common, w->branch);
    return w->full_access ? 0 : make_box(j, e);
}

void own__make_ref_dirs(const char *common, const char *branch)
{
    static const char *const tops[] = {"refs/heads", "logs/refs/heads"};
    struct str parent = path_dir(str_of(branch));
    for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
        char *path = xasprintf("%s/%s/" STR_FMT, common, tops[i], STR_ARG(parent));
        mkdir(path, 0777); // as git would; it is there, or git says why not
        free(path);
    }
}

int own__forget(const char *common, const char *dir, struct err *e)
{
    int rc = files__remove(dir, e);
    char *own = rc == 0 ? find(common, dir) : NULL;
    if (own != NULL) {
        rc = files__remove(own, e);
    }
    if (rc == 0 && own != NULL) {
        char *all = path_join(common, "worktrees");
        rmdir(all); // as git does, when it was the last
        free(all);
    }
    free(own);
    return rc;
}

struct git_worktree own__dup(struct git_job *j, const struct git_worktree *w)
{
    return (struct git_worktree){
        .common = job__dup(j, w->common),
        .dir = job__dup(j, w->dir),
        .branch = job__dup(j, w->branch),
        .start = job__dup(j, w->start),
        .full_access = w->full_access,
    };
}
