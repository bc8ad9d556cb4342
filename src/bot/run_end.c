// A run ends: uncommitted files are committed to its branch, the directory is removed, its work is merged where that is
// allowed, and the record says what became of it.
//
//     KEEP ─> PUSH ─> REMOVE ─> COUNT ─> MERGE ─> CLOSE ─> RECORD
//
// Nothing here ends early: a step that fails leaves a note and the next one follows, because the metadata, the
// record and the line that resumes the run are due whatever happened. A directory whose work could not be
// committed is the one thing that is left standing: `afloat worktrees` shows it.

#include "base/log.h"
#include "base/str.h"
#include "base/utf8.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "git/git.h"
#include "proto/events.h"

static bool has_tree(const struct run *r)
{
    return !r->rec.in_place && r->b->git != NULL && r->rec.start[0] != '\0';
}

// ---- its work -----------------------------------------------------------------------------------

static void on_kept(void *arg, int status, const struct err *e, const struct git_committed *g)
{
    struct run *r = arg;
    r->job = NULL;
    if (status == 0) {
        r->rec.head = record_text(&r->rec, str_of(g->head));
        r->rec.rescue = record_text(&r->rec, str_of(g->rescue));
        r->rec.not_kept.n = 0;
        record_add_all(&r->rec, &r->rec.not_kept, g->ignored.p, g->ignored.n);
        record_add_all(&r->rec, &r->rec.not_kept, g->nested.p, g->nested.n);
        record_add_all(&r->rec, &r->rec.notes, g->notes.p, g->notes.n);
        run__go(r, RUN_PUSH);
    } else if (status == ERR_NOT_FOUND) { // there is no directory: what was committed is there
        run__go(r, RUN_PUSH);
    } else {
        log_error(LOG_BOT, "run=%s commit=failed reason=%s", r->rec.run_id, LOGQ(str_of(e->msg)).z);
        run__note(r, "its work could not be committed and is still in '%s': %s", r->rec.worktree,
                  e->msg);
        run__go(r, RUN_COUNT);
    }
    run__back(r);
}

/// What it says it has done, its first line as the subject, and who it is.
static const char *write_message(struct run *r)
{
    struct str text = str_trim(str_of(r->complete ? r->rec.summary : ""));
    struct str rest = text, subject = str_trim(str_cut(&rest, '\n'));
    size_t n = utf8_cut(subject.p, subject.n, RUN_SUBJECT);
    bool cut = n < subject.n;
    if (subject.n == 0) {
        subject = str_of(arena_printf(&r->arena, "uncommitted work of '%s'",
                                      run__is_terminal(r) ? r->rec.prompt : r->rec.bot));
        subject.n = utf8_cut(subject.p, subject.n, RUN_SUBJECT);
        n = subject.n;
    }
    struct str body = cut ? text : str_trim(rest);
    return arena_printf(&r->arena, "%.*s%s\n\n" STR_FMT "%sAfloat-Bot: %s\nAfloat-Run: %s", (int)n,
                        subject.p, cut ? "..." : "", STR_ARG(body), body.n != 0 ? "\n\n" : "",
                        r->rec.bot, r->rec.run_id);
}

void run__keep(struct run *r)
{
    assert(r->rec.end_reason[0] != '\0' && r->starter == NULL);
    if (r->push.job != NULL) { // of a turn that was abandoned
        r->push.awaited = true;
        return;
    }
    if (!has_tree(r)) {
        run__go(r, r->rec.in_place || r->b->git == NULL ? RUN_CLOSE : RUN_REMOVE);
        return;
    }
    struct git_worktree w = run__worktree(r);
    const char **link = arena_list(&r->arena, r->rec.link.p, r->rec.link.n);
    const char *message = write_message(r);
    run__away(r);
    r->job = git_commit(r->b->git, &w, r->rec.root, link, message, on_kept, r);
    git_set_umask(r->job, r->umask);
}

static void on_forgotten(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    (void)status;
    (void)e; // it has moved, or holds what the user had not committed: then it stays
    r->job = NULL;
    run__go(r, RUN_CLOSE);
    run__back(r);
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    if (status < 0) {
        run__note(r, "the directory '%s' could not be removed: %s", r->rec.worktree, e->msg);
    }
    if (!has_tree(r) && r->rec.base[0] != '\0') {
        // The hub was killed before it noted where the run begins: a branch that is where the user was has
        // no work.
        run__away(r);
        r->job = git_delete_branch(r->b->git, r->rec.common, r->rec.branch, r->rec.base,
                                   on_forgotten, r);
    } else {
        run__go(r, has_tree(r) ? RUN_COUNT : RUN_CLOSE);
    }
}

void run__remove(struct run *r)
{
    // that its files go is no change of its environment
    agent_vacate(r->b->o.agent, str_of(r->session));
    run__remove_tree(r, on_removed);
}

// ---- what there is, and taking it over ----------------------------------------------------------

/// What the record says of a wish if the work is not merged.
static void settle(struct run *r)
{
    const char *wish = r->wish != NULL ? r->wish : "";
    bool merge = strcmp(wish, "merge") == 0;
    r->rec.action = merge ? "review" : wish;
    if (strcmp(wish, "discard") == 0) {
        r->rec.discarded_at = loop_wall(r->b->loop);
    }
    run__go(r, RUN_CLOSE);
}

static void on_counted(void *arg, int status, const struct err *e, const struct git_diff *d)
{
    struct run *r = arg;
    r->job = NULL;
    if (status < 0) {
        run__note(r, "its branch could not be read: %s", e->msg);
        settle(r);
    } else {
        if (r->rec.rescue[0] == '\0') { // else `to` is both branches together
            r->rec.head = record_text(&r->rec, str_of(d->to));
        }
        r->rec.commits = (int64_t)d->commits;
        r->rec.files = (int64_t)d->n_changes;
        r->touches = record_text(&r->rec, str_of(d->touches));
        run__go(r, RUN_MERGE);
    }
    run__back(r);
}

void run__count(struct run *r)
{
    struct git_diff_opts o = {.of = run__worktree(r)};
    assert(has_tree(r) && r->job == NULL);
    o.of.dir = NULL;
    run__away(r);
    r->job = git_diff(r->b->git, &o, on_counted, r);
}

static void on_merged(void *arg, int status, const struct err *e, const struct git_taken *t)
{
    struct run *r = arg;
    r->job = NULL;
    if (status < 0) {
        run__note(r, "not merged: %s", e->msg);
        r->rec.wants_merge = true; // a person may know better
        settle(r);
    } else {
        r->rec.action = "merged";
        r->rec.merged_into = record_text(&r->rec, str_of(t->branch));
        r->rec.merged_at = loop_wall(r->b->loop);
        run__go(r, RUN_CLOSE);
    }
    run__back(r);
}

void run__merge(struct run *r)
{
    assert(r->touches != NULL && r->job == NULL); // its branch was counted
    const struct bot_config *c = run__config(r);
    // the wish of a terminal is that of the user's own Lua, not of a model
    enum bot_merge how = run__is_terminal(r) ? BOT_MERGE_AUTO
                         : c != NULL         ? c->merge
                                             : BOT_MERGE_NEVER;
    bool wanted = r->wish != NULL && strcmp(r->wish, "merge") == 0 && r->rec.files != 0 &&
                  strcmp(r->rec.end_reason, "complete") == 0;
    if (!wanted || how == BOT_MERGE_NEVER) {
        settle(r);
    } else if (r->touches[0] != '\0') {
        run__note(r, "not merged: it changes '%s', which only you may merge", r->touches);
        settle(r);
    } else if (how == BOT_MERGE_ASK) {
        r->rec.wants_merge = true;
        settle(r);
    } else {
        run__away(r);
        struct git_worktree w = run__worktree(r);
        r->job =
            git_merge(r->b->git, r->rec.root, &w, r->rec.dirty, r->rec.base_branch, on_merged, r);
        git_set_umask(r->job, r->umask);
    }
}

// ---- the end ------------------------------------------------------------------------------------

static void go_record(struct run *r)
{
    if (r->step == RUN_CLOSE) { // once: the session's answer and the clock may both come
        timer_stop(&r->timer);
        run__go(r, RUN_RECORD);
    }
}

static void on_late(void *arg)
{
    struct run *r = arg;
    log_warn(LOG_BOT, "run=%s session=%s close=late", r->rec.run_id, r->session);
    go_record(r);
}

static void on_closed(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    (void)s;
    (void)no; // it had ended before
    go_record(r);
    run__back(r);
}

static const char *const reasons[] = {"complete", "limit", "interrupted", "failed", "crashed"};

static void on_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    struct agent_end end = {.action = str_of(r->rec.action)};
    if (s == NULL) {
        on_closed(r, NULL, no);
        return;
    }
    ptrdiff_t i = str_lookup(str_of(r->rec.end_reason), reasons, ARRAY_LEN(reasons));
    end.reason = i >= 0 ? reasons[i] : "failed"; // constants: the session keeps the pointer
    end.summary = str_of(r->complete ? r->rec.summary : "");
    agent_session_close(s, &end, on_closed, r);
}

void run__close(struct run *r)
{
    if (r->session[0] == '\0') {
        go_record(r);
        return;
    }
    assert(r->rec.iterations.n != 0); // its session is the last of them
    struct record_iteration *it = vec_last(&r->rec.iterations);
    it->end_reason = r->rec.end_reason;
    run__alarm(r, r->forced ? RUN_HURRY_MS : RUN_GRACE_MS, on_late);
    run__away(r);
    agent_session_get(r->b->o.agent, str_of(r->session), on_session, r);
}

static void tell_end(struct run *r)
{
    struct buf fields;
    struct jw w = bots__begin_event(&r->rec, &fields);
    jw_kstrz(&w, "end_reason", r->rec.end_reason);
    jw_kbool(&w, "wants_merge", r->rec.wants_merge);
    jw_ktext(&w, "action", str_of(r->rec.action));
    jw_kstrz(&w, "branch", r->rec.in_place ? NULL : r->rec.branch);
    bots__emit(r->b, EVENT_BOT_RUN_ENDED, &w);
}

static void on_written(void *arg, int status, const struct err *e);

static void write_again(void *arg)
{
    run__save(arg, on_written);
}

/// A record that cannot be written (a full disk) is kept here until it can; on disk the run seems to live.
static void on_written(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    (void)e;       // logged
    if (r->over) { // the hub did not wait for it
        return;
    }
    r->unsaved = status < 0 && !r->b->stopping;
    if (r->unsaved) {
        run__alarm(r, RUN_AGAIN_MS, write_again);
    } else {
        run__leave(r);
    }
}

static void on_recorded(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    if (status < 0 && r->lost) { // another hub has the run and writes its end
        run__go(r, RUN_DROP);
        return;
    }
    r->rec.running = false;
    if (status < 0) {
        run__note(r, "its record is not written yet: %s", e->msg);
    }
    log_info(LOG_BOT, "run=%s bot=%s ended=%s commits=%lld", r->rec.run_id, r->rec.bot,
             r->rec.end_reason, (long long)r->rec.commits);
    tell_end(r);
    vec_foreach (a, &r->awaiting) {
        runs__answer(*a, &r->rec);
    }
    r->awaiting.n = 0;
    on_written(r, status, e);
}

void run__record(struct run *r)
{
    assert(r->rec.end_reason[0] != '\0' && r->job == NULL);
    if (r->rec.summary[0] == '\0' && r->rec.iterations.n != 0) {
        r->rec.summary = vec_last(&r->rec.iterations)->summary;
    }
    r->rec.running = false;
    r->rec.ended_at = loop_wall(r->b->loop);
    r->rec.unread = record_text(&r->rec, buf_str(&r->input));
    run__save(r, on_recorded);
    r->rec.running = true; // who asks meanwhile: it can be taken over when that is on the disk
}
