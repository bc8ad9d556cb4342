// A worktree in which a model has worked: which one it is, and git in a box there.
//
// What is in the directory is not believed, its `.git` least of all. The repository is the one that the
// caller recorded; of its registrations (REPO/worktrees/ID) ours is the one that names our directory. No
// session in a box can write it. Git works with the worktree's quarantine (quarantine.c), inside the box,
// since what a model has written there may make git start programs.

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "git/git_int.h"

enum { POINTER_MAX = 8192 };

/// Does REPO/worktrees/ID/gitdir name `link`?
static bool names(const char *own, const char *link)
{
    struct buf text = {.max = POINTER_MAX};
    char *file = path_join(own, "gitdir");
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

char *own__find(const char *common, const char *dir)
{
    char *all = path_join(common, "worktrees"), *link = path_join(dir, ".git"), *own = NULL;
    struct folder f = folder_open(all);
    while (own == NULL && folder_next(&f)) {
        char *candidate = path_join(all, f.name);
        if (f.name[0] != '.' && names(candidate, link)) {
            own = xstrdup(candidate);
        }
        free(candidate);
    }
    folder_close(&f);
    free(link);
    free(all);
    return own;
}

/// Its registration: the directory is there, and the repository knows it. Else NULL.
static const char *find_place(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    struct stat st;
    char *own = own__find(w->common, w->dir);
    const char *found =
        own != NULL && lstat(w->dir, &st) == 0 && S_ISDIR(st.st_mode) ? job__dup(j, own) : NULL;
    if (found == NULL) {
        err_set(e, ERR_NOT_FOUND, "'%s' is no longer a worktree of '%s'", w->dir, w->common);
    }
    free(own);
    return found;
}

int own__enter(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    const char *registration = find_place(j, w, e);
    if (registration == NULL) {
        return ERR_NOT_FOUND;
    }
    assert(j->place.box == NULL);
    j->place.git_dir = registration;
    j->place.work_tree = j->place.dir = w->dir;
    if (w->quarantine != NULL && path_exists(w->quarantine)) {
        char *objects = path_join(w->common, "objects"), *quoted = job__quote(objects);
        j->place.git_dir = w->quarantine;
        j->place.objects = job__dup(j, quoted); // its own list of alternates may have been changed
        free(quoted);
        free(objects);
    }
    struct box_policy policy = {
        .mode = BOX_WORKSPACE_WRITE,
        .working_dir = j->place.work_tree,
        .home = j->git->home,
        .runtime = j->git->runtime,
    };
    return w->full_access ? 0 : box_new(&j->place.box, &policy, e);
}

int own__peek(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    int rc = own__enter(j, w, e);
    if (rc < 0) {
        return rc;
    }
    // in the one directory that a box lets us write and git does not look into
    char *index = path_join(j->place.git_dir, "index");
    j->place.index = arena_printf(&j->arena, "%s/afloat-index-%p", j->place.git_dir, (void *)j);
    // a model may have put a link or a FIFO in its place: what it leads to is not to be read
    rc = files__copy(index, j->place.index, O_NOFOLLOW | O_NONBLOCK, e);
    free(index);
    return rc;
}

int own__peeked(struct git_job *j, struct err *e)
{
    (void)e;
    if (j->place.index != NULL) {
        unlink(j->place.index);
        j->place.index = NULL;
    }
    return 0;
}

/// The branch is where the repository has it, or where the work began.
static struct quarantine quarantine_of(struct git_job *j, const struct git_worktree *w,
                                       const char *registration)
{
    const char *ours = arena_printf(&j->arena, " refs/heads/%s", w->branch), *tip = w->start;
    for (struct str rest = j->refs; rest.n != 0;) {
        struct str line = str_cut(&rest, '\n');
        if (str_ends(line, ours)) {
            tip = arena_strdup(&j->arena, str_cut(&line, ' '));
            break;
        }
    }
    return (struct quarantine){.dir = w->quarantine,
                               .work_tree = w->dir,
                               .common = w->common,
                               .git_dir = w->common,
                               .registration = registration,
                               .branch = w->branch,
                               .tip = tip,
                               .start = w->start};
}

int own__take_over(struct git_job *j, const struct git_worktree *w, bool *broken, struct err *e)
{
    const char *registration = find_place(j, w, e);
    if (registration == NULL) {
        return ERR_NOT_FOUND;
    }
    struct quarantine q = quarantine_of(j, w, registration);
    char *lock = xasprintf("%s/refs/heads/%s.lock", w->common, w->branch);
    unlink(lock); // of an update-ref that was killed with the hub
    free(lock);
    files__disarm(w->dir);
    return quarantine__put_right(&q, broken, e);
}

int own__remake(struct git_job *j, const struct git_worktree *w, struct err *e)
{
    const char *registration = find_place(j, w, e);
    if (registration == NULL) {
        return ERR_NOT_FOUND;
    }
    struct quarantine q = quarantine_of(j, w, registration);
    return quarantine__make(j, &q, e);
}

int own__forget(const struct git_worktree *w, struct err *e)
{
    int rc = path_remove_tree(w->dir, e);
    if (rc == 0 && w->quarantine != NULL) {
        rc = path_remove_tree(w->quarantine, e);
    }
    char *own = rc == 0 ? own__find(w->common, w->dir) : NULL;
    if (own != NULL) {
        rc = path_remove_tree(own, e);
    }
    if (rc == 0 && own != NULL) {
        char *all = path_join(w->common, "worktrees");
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
        .quarantine = job__dup(j, w->quarantine),
        .branch = job__dup(j, w->branch),
        .start = job__dup(j, w->start),
        .head = job__dup(j, w->head != NULL ? w->head : w->start),
        .rescue = job__dup(j, w->rescue),
        .full_access = w->full_access,
    };
}
