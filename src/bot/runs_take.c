// The work of runs that have ended: shown, applied, merged, discarded by the user; one at a time for each run.
//
//     find the record ──> the run is ours alone ──> git ──> the record says so ──> answer

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"
#include "fleet/fleet.h"
#include "git/git.h"
#include "loop/proc.h"
#include "store/store.h"

enum { PATCH_BYTES = 8 << 20, PACKED_BYTES = 64 << 20, SHOWN_PATHS = 5 };

// ---- shared -------------------------------------------------------------------------------------

static bool has_branch(struct ask *a, const struct record *rec)
{
    if (a->b->git == NULL) {
        ask__fail(a, &a->b->git_fault);
    } else if (rec->in_place) {
        ask__no(a, PROBLEM_CONFLICT, NULL,
                "run '%s' worked in place, in '%s': there is no branch to take over", rec->run_id,
                rec->working_dir);
    } else if (rec->branch_deleted) {
        ask__no(a, PROBLEM_CONFLICT, NULL, "the branch of run '%s' was deleted", rec->run_id);
    } else if (rec->start[0] == '\0') {
        ask__no(a, PROBLEM_CONFLICT, NULL, "run '%s' %s", rec->run_id,
                rec->queued ? "waits for a hub: it has not begun" : "ended before it had a branch");
    } else {
        return true;
    }
    return false;
}

/// Did another hub run it? Then its repository need not be here.
static bool is_elsewhere(const struct ask *a, const struct record *rec)
{
    const struct fleet *f = a->b->o.fleet;
    return fleet_shared(f) && rec->hub[0] != '\0' && strcmp(rec->hub, fleet_name(f)) != 0;
}

/// Does the repository have the branch, in a file of its own or among the packed ones?
static bool has_ref(const char *common, const char *branch)
{
    struct buf packed = {.max = PACKED_BYTES};
    char *file = xasprintf("%s/refs/heads/%s", common, branch);
    char *line = xasprintf(" refs/heads/%s\n", branch), *list = path_join(common, "packed-refs");
    bool found = access(file, F_OK) == 0 ||
                 (path_read(list, &packed, NULL) == 0 && strstr(buf_z(&packed), line) != NULL);
    buf_fini(&packed);
    free(list);
    free(line);
    free(file);
    return found;
}

static void look_for_repository(struct ask *a) // on the lane
{
    const struct record *rec = a->data;
    if (is_elsewhere(a, rec)) {
        a->far = !has_ref(rec->common, rec->branch);
    } else if (rec->common[0] != '\0' && access(rec->common, F_OK) != 0) {
        a->rc = err_set(&a->e, ERR_NOT_FOUND,
                        "the repository of run '%s' is not at '%s' any more: move it back",
                        rec->run_id, rec->common);
    }
}

/// A run with a branch, in a repository that is there, or that is on another hub (a->far); else it is answered.
/// `then` follows.
static void with_branch(struct ask *a, const struct record *rec, ask_fn *then)
{
    if (has_branch(a, rec)) {
        ask__work(a, look_for_repository, then);
    }
}

static void refuse_far(struct ask *a, const char *way_out)
{
    const struct record *rec = a->data;
    char hint[200];
    snprintf(hint, sizeof hint, "do it on hub '%s'%s%s", rec->hub,
             way_out[0] != '\0' ? ", or " : "", way_out);
    ask__no(a, PROBLEM_CONFLICT, hint,
            "run '%s' worked on hub '%s': its branch '%s' is not in '%s' on this hub", rec->run_id,
            rec->hub, rec->branch, rec->repository);
}

static void on_fetched(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    if (status < 0) {
        ask__fail(a, e);
    } else {
        a->then(a);
    }
}

/// Fetch the branch of a run of another hub into the checkout `root`, then `then`; or answer what to do.
static void fetch_far(struct ask *a, const char *root, const char *common, bool own, ask_fn *then)
{
    const struct record *rec = a->data;
    if (rec->remote[0] == '\0' || rec->pushed[0] == '\0') {
        refuse_far(a, "name a remote in [worktree] of the bot: later runs are fetched from there");
        return;
    }
    struct git_pull p = {.root = root, .remote = rec->remote, .branch = rec->branch, .own = own};
    a->common = common;
    a->then = then;
    git_pull(a->b->git, &p, on_fetched, a);
}

static struct git_worktree tree_of(struct ask *a, const struct record *rec)
{
    struct git_worktree w = record_worktree(rec, a->b->home, &a->arena);
    w.common = a->common != NULL ? a->common : w.common;
    return w;
}

/// May the run be taken over now? Then it is ours until done().
static bool take(struct ask *a, const struct record *rec)
{
    struct str id = str_of(rec->run_id);
    const struct run *live = bots__run_of(a->b, id);
    if (live != NULL && live->unsaved) {
        ask__no(a, PROBLEM_CONFLICT, "make room on the disk, then try again",
                "run '%s' has ended, but its record could not be written yet", rec->run_id);
        return false;
    }
    if (rec->running || rec->queued || bots__is_running(a->b, id)) {
        ask__no(a, PROBLEM_CONFLICT, NULL, "run '%s' has not ended: `afloat runs stop %s` ends it",
                rec->run_id, rec->run_id);
        return false;
    }
    if (!bots__take_run(a->b, id)) {
        ask__no(a, PROBLEM_CONFLICT, NULL,
                "another client is applying or merging run '%s'; try again", rec->run_id);
        return false;
    }
    return true;
}

static void on_told(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    const struct record *rec = a->data;
    (void)status;
    (void)e; // logged; the record says so
    bots__leave_run(a->b, str_of(rec->run_id));
    jw_obj(&a->w);
    record_write(rec, &a->w, true);
    if (a->writes) {
        jw_kint(&a->w, "written", a->written);
    }
    jw_end_obj(&a->w);
    ask__answer(a);
}

static void on_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct ask *a = arg;
    const struct record *rec = a->data;
    (void)no; // its history is gone
    if (s != NULL && rec->action[0] != '\0') {
        agent_session_set_action(s, str_of(rec->action), on_told, a);
    } else {
        on_told(a, 0, NULL);
    }
}

/// The metadata of its last session say the same as the record.
static void on_written(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    struct record *rec = a->data;
    if (status < 0) {
        bots__leave_run(a->b, str_of(rec->run_id));
        ask__fail(a, e);
    } else {
        struct buf fields;
        struct jw w = bots__begin_event(rec, &fields);
        jw_kstrz(&w, "action", rec->action);
        bots__emit(a->b, EVENT_BOT_RUN_TAKEN, &w);
        agent_session_get(a->b->o.agent, str_of(record_last_session(rec)), on_session, a);
    }
}

/// Write the record of what was done, then answer.
static void done(struct ask *a)
{
    struct record *rec = a->data;
    runs__keep(a->b, rec, on_written, a);
}

/// The same after files of the user's tree were changed.
static void done_files(struct ask *a, const struct git_taken *t)
{
    a->writes = true;
    a->written = (int64_t)t->paths.n;
    done(a);
}

/// The checkout that gets the work: the caller's, or the one that the run began in.
static const char *root_of(struct ask *a)
{
    const struct record *rec = a->data;
    const char *common = a->common != NULL ? a->common : rec->common;
    return a->git.root != NULL && strcmp(a->git.common, common) == 0 ? a->git.root : rec->root;
}

/// Files get the modes that the caller's umask gives.
static void with_umask(const struct ask *a, struct git_job *j)
{
    mode_t mask;
    if (proc_umask_parse(ask__str(a, "umask"), &mask)) {
        git_set_umask(j, mask);
    }
}

/// Is the caller's checkout one of the run's project? Its workspace is the same then, or it comes from the remote that
/// has the branch.
static void look_for_project(struct ask *a) // on the lane
{
    const struct record *rec = a->data;
    struct workspace ws = {0};
    struct workspace_project p = {
        .path = a->git.main_root, .common = a->git.common, .sh = a->b->shelf};
    if (p.path == NULL) {
        return;
    }
    char *here = workspace_remote(p.common), *there = workspace_address(str_of(rec->remote));
    a->rc = workspace_of_path(&ws, a->b->home, rec->bot, &p, WORKSPACE_LOOK, &a->e);
    a->same = (a->rc == 0 && strcmp(ws.slug, rec->project) == 0) ||
              (here != NULL && there != NULL && strcmp(here, there) == 0);
    workspace_fini(&ws);
    free(there);
    free(here);
}

static void fetch_branch(struct ask *a)
{
    const struct record *rec = a->data;
    if (!a->same && rec->remote[0] != '\0') {
        refuse_far(a, "in a checkout of the project here");
    } else {
        fetch_far(a, a->git.root, a->git.common, false, a->located);
    }
}

/// The caller's checkout is known: continue with `a->located`. A branch that is on another hub is fetched into it first,
/// if it is the same project.
static void bring_branch(struct ask *a)
{
    if (a->far) {
        ask__work(a, look_for_project, fetch_branch);
    } else {
        a->located(a);
    }
}

/// The directory that the caller is in was looked at; then the act itself.
static void on_look(void *arg, int status, const struct err *e, const struct git_look *g)
{
    struct ask *a = arg;
    (void)e;
    if (status == 0) { // else the run's own checkout is meant
        ask__keep_look(a, g);
    }
    bring_branch(a);
}

static void look(struct ask *a)
{
    const char *dir = ask__z(a, "working_dir");
    if (dir == NULL || dir[0] != '/') {
        bring_branch(a);
    } else {
        git_look(a->b->git, dir, on_look, a);
    }
}

static void found(struct ask *a)
{
    with_branch(a, a->data, look);
}

/// Find the run and where the caller is, then `act`.
static void act_on(struct ask *a, ask_fn *act)
{
    a->located = act;
    runs__find(a, "id", found);
}

/// The paths that stand against it, where the message ends with the first of them.
static void add_paths(struct agent_no *no, const struct git_names *paths)
{
    char first[sizeof no->detail];
    snprintf(first, sizeof first, "first '%s'", paths->n != 0 ? paths->p[0] : "");
    if (!str_ends(str_of(no->detail), first)) {
        return;
    }
    size_t n = strlen(no->detail);
    for (size_t i = 1; i < paths->n && i < SHOWN_PATHS && n < sizeof no->detail; i++) {
        n += (size_t)snprintf(no->detail + n, sizeof no->detail - n, ", '%s'", paths->p[i]);
    }
}

/// Refused by git: what stands against it, and what may be typed instead. What clashes with the user's
/// changes clashes in each way; git itself leaves the conflict to be settled by hand.
static void refuse(struct ask *a, const struct err *e, const struct git_taken *t, bool may_apply)
{
    struct record *rec = a->data;
    struct agent_no no;
    bots__no_err(&no, e);
    add_paths(&no, &t->paths);
    if (t->clash && (rec->dirty || !may_apply)) {
        snprintf(no.hint, sizeof no.hint,
                 "commit your changes, then `git cherry-pick %.12s..%s` lets you settle it by hand",
                 rec->start, rec->branch);
    } else if (t->clash) {
        snprintf(no.hint, sizeof no.hint,
                 "commit your changes, then `git merge %s` lets you settle it by hand",
                 rec->branch);
    } else if (may_apply && no.problem == PROBLEM_CONFLICT) {
        snprintf(no.hint, sizeof no.hint,
                 "`afloat runs apply %s` puts the changes on your tree, uncommitted", rec->run_id);
    }
    bots__leave_run(a->b, str_of(rec->run_id));
    ask__refuse(a, &no);
}

// ---- diff ---------------------------------------------------------------------------------------

static void write_changes(struct jw *w, const struct git_diff *d)
{
    jw_karr(w, "files");
    for (size_t i = 0; i < d->n_changes; i++) {
        const struct git_change *c = &d->changes[i];
        jw_obj(w);
        jw_kstrz(w, "path", c->path);
        jw_kstr(w, "kind", (struct str){&c->kind, 1});
        jw_kint(w, "added", (int64_t)c->added);
        jw_kint(w, "removed", (int64_t)c->removed);
        jw_kbool(w, "binary", c->binary);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

static void on_diff(void *arg, int status, const struct err *e, const struct git_diff *d)
{
    struct ask *a = arg;
    const struct record *rec = a->data;
    struct jw *w = ask__begin_answer(a, status, e);
    if (w == NULL) {
        return;
    }
    jw_kstrz(w, "run_id", rec->run_id);
    jw_kstrz(w, "branch", rec->branch);
    jw_ktext(w, "rescue", str_of(rec->rescue));
    jw_kstrz(w, "from", d->from);
    jw_kstrz(w, "to", d->to);
    write_changes(w, d);
    jw_kint(w, "added", (int64_t)d->added);
    jw_kint(w, "removed", (int64_t)d->removed);
    jw_kint(w, "commits", (int64_t)d->commits);
    jw_ktext(w, "protected", str_of(d->touches));
    jw_kbool(w, "cut", d->patch_cut || d->changes_cut);
    jw_kstr(w, "patch", d->patch);
    jw_end_obj(w);
    ask__answer(a);
}

static void diff(struct ask *a)
{
    const struct record *rec = a->data;
    const struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    rec = live != NULL ? &live->rec : rec;
    struct git_diff_opts o = {.of = tree_of(a, rec), .max_patch = PATCH_BYTES};
    o.of.dir = live != NULL ? o.of.dir : NULL;
    git_diff(a->b->git, &o, on_diff, a);
}

/// One that is on another hub is fetched into a clone of ours.
static void diff_there(struct ask *a)
{
    if (!a->far) {
        diff(a);
        return;
    }
    const struct record *rec = a->data;
    char *clone = run__clone_of(a->b, rec->remote);
    fetch_far(a, clone, arena_printf(&a->arena, "%s/.git", clone), true, diff);
    free(clone);
}

static void diff_found(struct ask *a)
{
    const struct record *rec = a->data;
    const struct run *live = bots__run_of(a->b, str_of(rec->run_id));
    with_branch(a, live != NULL ? &live->rec : rec, diff_there);
}

void bots_run_diff(struct ask *a)
{
    runs__find(a, "id", diff_found);
}

// ---- apply --------------------------------------------------------------------------------------

static void on_applied(void *arg, int status, const struct err *e, const struct git_taken *t)
{
    struct ask *a = arg;
    struct record *rec = a->data;
    if (status < 0) {
        refuse(a, e, t, false);
        return;
    }
    if (t->paths.n != 0) { // an apply that changed nothing was none
        rec->applied_at = loop_wall(a->b->loop);
        rec->wants_merge = false;
    }
    done_files(a, t);
}

static void apply(struct ask *a)
{
    const struct record *rec = a->data;
    if (take(a, rec)) {
        struct git_worktree w = tree_of(a, rec);
        with_umask(a, git_apply(a->b->git, root_of(a), &w, on_applied, a));
    }
}

void bots_run_apply(struct ask *a)
{
    act_on(a, apply);
}

// ---- merge --------------------------------------------------------------------------------------

static void on_merged(void *arg, int status, const struct err *e, const struct git_taken *t)
{
    struct ask *a = arg;
    struct record *rec = a->data;
    if (status < 0) {
        refuse(a, e, t, true);
        return;
    }
    if (rec->files != 0) { // a run without changes was merged nowhere
        rec->merged_at = loop_wall(a->b->loop);
        rec->merged_into = record_text(rec, str_of(t->branch));
        rec->action = "merged";
        rec->wants_merge = false;
    }
    done_files(a, t);
}

static void merge(struct ask *a)
{
    const struct record *rec = a->data;
    if (take(a, rec)) {
        struct git_worktree w = tree_of(a, rec);
        with_umask(
            a, git_merge(a->b->git, root_of(a), &w, rec->dirty, ask__z(a, "into"), on_merged, a));
    }
}

void bots_run_merge(struct ask *a)
{
    act_on(a, merge);
}

// ---- discard ------------------------------------------------------------------------------------

static void discarded(struct ask *a)
{
    struct record *rec = a->data;
    rec->discarded_at = loop_wall(a->b->loop);
    rec->action = rec->merged_at != 0 ? rec->action : "discard"; // what is merged stays so
    rec->wants_merge = false;
    done(a);
}

/// The branch was deleted, or the answer says why not: false.
static bool note_deleted(struct ask *a, int status, const struct err *e)
{
    struct record *rec = a->data;
    if (status < 0) {
        refuse(a, e, &(struct git_taken){0}, false); // which ends the call
        return false;
    }
    rec->branch_deleted = true;
    return true;
}

static void on_deleted(void *arg, int status, const struct err *e)
{
    if (note_deleted(arg, status, e)) {
        discarded(arg);
    }
}

static void discard(struct ask *a)
{
    const struct record *rec = a->data;
    if (a->far) {
        refuse_far(a, "");
        return;
    }
    if (!take(a, rec)) {
        return;
    }
    if (json_bool(json_get(a->params, "delete_branch"), false)) {
        git_delete_branch(a->b->git, rec->common, rec->branch, rec->head, on_deleted, a);
    } else {
        discarded(a);
    }
}

static void discard_found(struct ask *a)
{
    if (json_bool(json_get(a->params, "delete_branch"), false)) {
        with_branch(a, a->data, discard);
    } else {
        discard(a);
    }
}

void bots_run_discard(struct ask *a)
{
    runs__find(a, "id", discard_found);
}

// ---- delete -------------------------------------------------------------------------------------

static void unlink_record(struct ask *a) // on the lane
{
    char *name = record_name(a->data), *path = path_join(a->b->home, name);
    if (unlink(path) != 0 && errno != ENOENT) {
        a->rc = err_sys(&a->e, "cannot remove '%s'", path);
    }
    free(path);
    free(name);
}

static void answer_removed(struct ask *a)
{
    const struct record *rec = a->data;
    jw_obj(&a->w);
    jw_kstrz(&a->w, "deleted", rec->run_id);
    jw_kstrz(&a->w, "branch", rec->branch_deleted || rec->in_place ? NULL : rec->branch);
    if (rec->rescue[0] != '\0') {
        jw_kstrz(&a->w, "rescue", rec->rescue); // it stays in any case
    }
    jw_end_obj(&a->w);
    ask__answer(a);
}

static void on_unlisted(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    const struct record *rec = a->data;
    bots__leave_run(a->b, str_of(rec->run_id));
    if (status < 0) {
        ask__fail(a, e);
    } else {
        ask__work(a, unlink_record, answer_removed);
    }
}

static void remove_record(struct ask *a)
{
    const struct record *rec = a->data;
    if (fleet_shared(a->b->o.fleet)) {
        fleet_run_edit(a->b->o.fleet, str_of(rec->run_id), STR_NULL, on_unlisted, a);
    } else {
        on_unlisted(a, 0, NULL);
    }
}

static void on_branch_removed(void *arg, int status, const struct err *e)
{
    if (note_deleted(arg, status, e)) {
        remove_record(arg);
    }
}

static void look_for_worktree(struct ask *a) // on the lane
{
    const struct record *rec = a->data;
    if (!rec->in_place && rec->worktree[0] != '\0' && access(rec->worktree, F_OK) == 0) {
        a->rc = err_set(&a->e, ERR_CONFLICT,
                        "'%s' is still there, with its work: `afloat worktrees clean` comes first",
                        rec->worktree);
    }
}

static void delete_run(struct ask *a)
{
    const struct record *rec = a->data;
    bool branch = json_bool(json_get(a->params, "delete_branch"), false);
    if (!take(a, rec)) {
        return;
    }
    if (branch && !rec->in_place && !rec->branch_deleted && rec->head[0] != '\0' &&
        a->b->git != NULL) {
        git_delete_branch(a->b->git, rec->common, rec->branch, rec->head, on_branch_removed, a);
    } else {
        remove_record(a);
    }
}

static void delete_found(struct ask *a)
{
    ask__work(a, look_for_worktree, delete_run);
}

void bots_run_delete(struct ask *a)
{
    runs__find(a, "id", delete_found);
}
