// The work of a worktree, copied to a remote after every step, and back from there on another machine.
//
//     in the box    HEAD ──> files as they are ──> tree ──> a commit on HEAD        (git_push)
//     the repository    its objects (import.c) ──> push, if the remote's branch is still the one we left
//
//     the repository    clone, or the one that is there ──> fetch the branch        (git_pull)
//
// The commit of uncommitted files is a child of HEAD, not of the last one that was pushed: the remote's
// branch is replaced, and the user's branch shows none of them. `--force-with-lease` names what we pushed
// last, so a hub that lost a run cannot overwrite what the next hub pushed. A push that is cut off may have
// arrived all the same: when the remote is not as we left it, it is asked what it has, and if that is one of
// the pushes that were cut off, the lease names that. After a crash those are not known: then it may be any
// commit that the repository has.
//
// Git outside the box reads only the user's repository; a remote is the user's own setting.

#include <assert.h>
#include <stdlib.h>

#include "base/path.h"
#include "base/visible.h"
#include "git/git_int.h"

/// What git needs to reach a remote as the user would.
static void reach(struct git_job *j)
{
    job__env(j, "SSH_AUTH_SOCK", getenv("SSH_AUTH_SOCK")); // NOLINT(concurrency-mt-unsafe)
    j->cmd.may_fail = true;
    j->cmd.far = true;
}

/// What git says of a branch that was refused, as in "! [remote rejected] x -> y (hook declined)", without the names.
static struct str refusal_of(struct git_job *j, struct str line)
{
    struct str rest = str_from(line, strlen("! [")), kind = str_cut(&rest, ']');
    ptrdiff_t at = str_index(rest, '(');
    struct str why = at < 0 ? STR("") : str_from(rest, (size_t)at);
    return str_of(arena_printf(&j->arena, STR_FMT " " STR_FMT, STR_ARG(kind), STR_ARG(why)));
}

/// Tell why a remote did not do it: what git says, then the lines before that, which are those of the remote or of ssh.
/// They come from elsewhere, so they are made visible.
static int complain(struct git_job *j, int code, const char *what, struct err *e)
{
    struct str rest = buf_str(&j->cmd.grumble), refusal = STR_NULL;
    struct buf words = {.max = SIZE_MAX};
    bool over = false;
    while (rest.n != 0 && !over) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        over = job__is_fault(line);
        if (str_starts(line, "! [")) {
            refusal = refusal_of(j, line);
        } else if (!over && !str_starts(line, "To ")) {
            bool theirs = str_starts(line, "remote:");
            line = theirs ? str_trim(str_from(line, strlen("remote:"))) : line;
            buf_addz(&words, words.n == 0 ? "; " : line.n != 0 ? " " : "");
            visible_add(&words, line, false);
        }
    }
    struct str said = refusal.n != 0 ? refusal : job__fault(j);
    bool more = refusal.n != 0 || over; // else the first of the words is what git says
    err_set(e, code, "%s: " STR_FMT "%s", what, STR_ARG(said), more ? buf_z(&words) : "");
    buf_fini(&words);
    return code;
}

// ---- there -----------------------------------------------------------------------------------

struct push_job {
    struct git_job j;
    struct git_push ask;
    const char *ref;
    const char *parent; // HEAD of the worktree
    const char *lease;  // what the remote has, as far as we know
    bool begun;         // the remote may have it
    bool doubt;         // it is not as we left it, and one of our pushes may be why
    bool strange;       // `lease` is no commit that we have pushed
    struct git_pushed out;
    git_push_cb *cb;
    void *arg;
};

static struct push_job *self(struct git_job *j)
{
    return container_of(j, struct push_job, j);
}

/// A name becomes its address, an address stays.
static void ask_url(struct git_job *j)
{
    job__run(j, "ls-remote", "--get-url", "--", self(j)->ask.remote, NULL);
}

static int take_url(struct git_job *j, struct err *e)
{
    self(j)->out.url = job__line(j);
    return self(j)->out.url[0] != '\0' ? 0 : err_set(e, ERR_INVALID, "the remote has no address");
}

static int enter(struct git_job *j, struct err *e)
{
    return own__peek(j, &self(j)->ask.of, e);
}

static int take_head(struct git_job *j, struct err *e)
{
    struct push_job *k = self(j);
    (void)e;
    k->parent = job__take_head(j, k->ask.of.start);
    return 0;
}

static void make_commit(struct git_job *j)
{
    struct push_job *k = self(j);
    assert(k->parent != NULL);
    k->out.commit = k->parent;
    if (j->changed) {
        job__run(j, "commit-tree", j->tree, "-p", k->parent, "-m", k->ask.message, NULL);
        look__identity(j);
        j->cmd.id = &k->out.commit;
    }
}

static int choose_tip(struct git_job *j, struct err *e)
{
    struct push_job *k = self(j);
    bool known = strcmp(k->out.commit, k->ask.of.start) == 0;
    (void)e;
    j->import = (struct git_import){.common = k->ask.of.common,
                                    .since = k->ask.of.start,
                                    .tips = {.p = &k->out.commit, .n = known ? 0 : 1}};
    return 0;
}

static void ask_tip(struct git_job *j)
{
    struct push_job *k = self(j);
    job__ask_commit(j, k->ref);
    j->cmd.id = &k->out.commit;
    j->cmd.gone = arena_printf(&j->arena, "the branch '%s'", k->ask.of.branch);
}

static void push(struct git_job *j)
{
    struct push_job *k = self(j);
    bool sure = k->ask.tried[0] == NULL && !k->ask.adopt;
    if (sure && strcmp(k->out.commit, k->ask.last) == 0) {
        return;
    }
    job__run(j, "push", "-q", "--no-verify",
             arena_printf(&j->arena, "--force-with-lease=%s:%s", k->ref, k->lease), "--",
             k->out.url, arena_printf(&j->arena, "%s:%s", k->out.commit, k->ref), NULL);
    reach(j);
    k->begun = true;
}

static int refuse(const struct push_job *k, struct err *e)
{
    return err_set(e, ERR_CONFLICT, "another client moved '%s' in '%s'", k->ask.of.branch,
                   k->out.url);
}

static int pushed(struct git_job *j, struct err *e)
{
    struct push_job *k = self(j);
    if (j->cmd.code == 0) {
        return 0;
    }
    if (strstr(buf_z(&j->cmd.grumble), "stale info") == NULL) {
        return complain(j, UV_EIO, "cannot push the work", e);
    }
    k->begun = false; // it was refused
    if ((k->ask.tried[0] != NULL || k->ask.adopt) && !k->doubt) {
        k->doubt = true;
        return 0;
    }
    return refuse(k, e);
}

static void ask_there(struct git_job *j)
{
    struct push_job *k = self(j);
    if (k->doubt) {
        job__run(j, "ls-remote", "--", k->out.url, k->ref, NULL);
        reach(j);
    }
}

static int take_there(struct git_job *j, struct err *e)
{
    struct push_job *k = self(j);
    struct str line = buf_str(&j->cmd.out), id = str_cut(&line, '\t');
    if (j->cmd.code != 0) {
        return complain(j, UV_EIO, "cannot ask the remote what it has", e);
    }
    for (const char *const *it = k->ask.tried; *it != NULL; it++) {
        if (str_eqz(id, *it)) {
            k->lease = *it;
            return 0;
        }
    }
    k->lease = arena_strdup(&j->arena, id);
    k->strange = k->ask.adopt && job__is_id(k->lease);
    return k->strange ? 0 : refuse(k, e);
}

/// A commit that the repository does not have was pushed by another client.
static void ask_ours(struct git_job *j)
{
    if (self(j)->strange) {
        job__ask_commit(j, self(j)->lease);
    }
}

static int take_ours(struct git_job *j, struct err *e)
{
    return j->cmd.code == 0 ? 0 : refuse(self(j), e);
}

static void push_again(struct git_job *j)
{
    if (self(j)->doubt) {
        push(j);
    }
}

// clang-format off
#define PUSH_STEPS                                                 \
    STEP_COMMAND("address", ask_url, take_url),                    \
    STEP_COMMAND("push", push, pushed),                            \
    STEP_COMMAND("there", ask_there, take_there),                  \
    STEP_COMMAND("ours", ask_ours, take_ours),                     \
    STEP_COMMAND("push again", push_again, pushed)

static const struct git_step of_worktree[] = {
    STEP_COMMAND("settings", look__ask, look__read),
    STEP_WORK("temporary index", enter),
    STEP_COMMAND("head", job__ask_head, take_head),
    STEP_COMMAND("add", state__add, state__added),
    STEP_COMMAND("state", state__ask_changes, state__changes),
    STEP_COMMAND("nested", state__drop_nested, NULL),
    STEP_COMMAND("write tree", state__write, NULL),
    STEP_COMMAND("commit", make_commit, NULL),
    STEP_WORK("temporary index away", own__peeked),
    STEP_THINK("tip", choose_tip),
    IMPORT_STEPS,
    PUSH_STEPS,
    STEPS_END
};
static const struct git_step of_branch[] = {
    STEP_COMMAND("tip", ask_tip, NULL),
    PUSH_STEPS,
    STEPS_END
};
static const struct git_step undo_steps[] = {STEP_WORK("temporary index away", own__peeked), STEPS_END};
// clang-format on

static void report(struct git_job *j, int status, const struct err *e)
{
    struct push_job *k = self(j);
    struct git_pushed nothing = {.commit = k->begun ? k->out.commit : "", .url = ""};
    k->cb(k->arg, status, e, status == 0 ? &k->out : &nothing);
}

struct git_job *git_push(struct git *g, const struct git_push *p, git_push_cb *cb, void *arg)
{
    struct push_job *k =
        job__new(g, sizeof *k, p->of.dir != NULL ? of_worktree : of_branch, undo_steps, report);
    struct git_job *j = &k->j;
    k->cb = cb;
    k->arg = arg;
    k->ask = (struct git_push){.of = own__dup(j, &p->of),
                               .remote = job__dup(j, p->remote),
                               .last = job__dup(j, p->last != NULL ? p->last : ""),
                               .tried = job__dup_list(j, p->tried),
                               .adopt = p->adopt,
                               .message = job__dup(j, p->message)};
    k->lease = k->ask.last;
    k->ref = arena_printf(&j->arena, "refs/heads/%s", p->of.branch);
    j->place.dir = j->place.git_dir = k->ask.of.common;
    return j;
}

struct url_job {
    struct push_job push; // its steps know this
    git_url_cb *cb;
    void *arg;
};

static void report_url(struct git_job *j, int status, const struct err *e)
{
    struct url_job *k = container_of(self(j), struct url_job, push);
    k->cb(k->arg, status, e, status == 0 ? k->push.out.url : "");
}

struct git_job *git_url(struct git *g, const char *common, const char *remote, git_url_cb *cb,
                        void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {STEP_COMMAND("address", ask_url, take_url), STEPS_END};
    // clang-format on
    struct url_job *k = job__new(g, sizeof *k, steps, NULL, report_url);
    struct git_job *j = &k->push.j;
    k->cb = cb;
    k->arg = arg;
    k->push.ask.remote = job__dup(j, remote);
    j->place.dir = j->place.git_dir = job__dup(j, common);
    return j;
}

// ---- and back --------------------------------------------------------------------------------

struct pull_job {
    struct git_job j;
    struct git_pull ask;
    bool missing; // the clone
    bool unborn;  // its HEAD names no commit
    git_done_cb *cb;
    void *arg;
};

static struct pull_job *puller(struct git_job *j)
{
    return container_of(j, struct pull_job, j);
}

static int look_for_clone(struct git_job *j, struct err *e)
{
    struct pull_job *k = puller(j);
    char *parent = str_dup(path_dir(str_of(k->ask.root)));
    k->missing = k->ask.own && !path_exists(k->ask.root);
    int rc = k->missing ? path_mkdirs(parent, 0700, e) : 0;
    j->place.dir = k->missing ? job__dup(j, parent) : k->ask.root;
    free(parent);
    return rc;
}

static void make_clone(struct git_job *j)
{
    struct pull_job *k = puller(j);
    if (k->missing) {
        job__run(j, "clone", "-q", "--no-checkout", "--", k->ask.remote, k->ask.root, NULL);
        reach(j);
    }
}

static int cloned(struct git_job *j, struct err *e)
{
    j->place.dir = puller(j)->ask.root;
    return j->cmd.code == 0 ? 0 : complain(j, UV_EIO, "cannot clone the repository", e);
}

/// Also into a branch that a worktree has: what that one holds is older.
static void fetch(struct git_job *j)
{
    struct pull_job *k = puller(j);
    const char *branch = k->ask.branch;
    job__run(j, "fetch", "-q", "--no-tags", "--update-head-ok", "--", k->ask.remote,
             branch != NULL
                 ? arena_printf(&j->arena, "+refs/heads/%s:refs/heads/%s", branch, branch)
                 : "HEAD",
             NULL);
    reach(j);
}

static int fetched(struct git_job *j, struct err *e)
{
    bool none = strstr(buf_z(&j->cmd.grumble), "find remote ref") != NULL;
    return j->cmd.code == 0 ? 0
                            : complain(j, none ? ERR_NOT_FOUND : UV_EIO,
                                       "cannot fetch the branch of the run", e);
}

static int take_own_head(struct git_job *j, struct err *e)
{
    (void)e;
    puller(j)->unborn = j->cmd.code != 0;
    return 0;
}

/// No user works in a clone of ours; worktrees begin with what it has checked out.
static void check_out(struct git_job *j)
{
    struct pull_job *k = puller(j);
    if (k->ask.own && (k->unborn || k->ask.branch == NULL)) {
        job__run(j, "checkout", "-q", "--force", "--detach",
                 k->ask.branch != NULL ? arena_printf(&j->arena, "refs/heads/%s", k->ask.branch)
                                       : "FETCH_HEAD",
                 "--", NULL);
    }
}

static void report_pulled(struct git_job *j, int status, const struct err *e)
{
    puller(j)->cb(puller(j)->arg, status, e);
}

struct git_job *git_pull(struct git *g, const struct git_pull *p, git_done_cb *cb, void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {
        STEP_WORK("directory", look_for_clone),
        STEP_COMMAND("clone", make_clone, cloned),
        STEP_COMMAND("fetch", fetch, fetched),
        STEP_COMMAND("head", job__ask_head, take_own_head),
        STEP_COMMAND("checkout", check_out, NULL),
        STEPS_END
    };
    // clang-format on
    struct pull_job *k = job__new(g, sizeof *k, steps, NULL, report_pulled);
    struct git_job *j = &k->j;
    assert(p->branch != NULL || p->own);
    k->cb = cb;
    k->arg = arg;
    k->ask = (struct git_pull){.root = job__dup(j, p->root),
                               .remote = job__dup(j, p->remote),
                               .branch = job__dup(j, p->branch),
                               .own = p->own};
    return j;
}
