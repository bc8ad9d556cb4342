// Iterations: one session of agent/ after the other, each going on with the conversation of the one before.
//
//     GATHER   on the lane: config.md, skills, memory; a session number            (a broken config.md does
//     RECALL   the last summaries, then the prompt                                  not end a run that had a
//     SESSION  a session is made, the prompt is its message, the turn runs          good one)
//     WEIGH    complete, limit, failed, interrupted; or close the session and
//     REST     sleep, until the time is over, a message comes or a file changes

#include "agent/make.h"
#include "base/log.h"
#include "base/utf8.h"
#include "bot/history_number.h"
#include "bot/prompt.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"
#include "proto/events.h"

// ---- gather -------------------------------------------------------------------------------------

struct gathering {
    struct run *r;
    struct run_lore *l;
    struct shelf *shelf;
    const char *home, *bot, *dir, *space;
    int rc;
    struct err e;
};

static void read_lore(void *arg) // on the lane
{
    struct gathering *g = arg;
    g->rc = catalog_read(&g->l->catalog, g->home, g->dir, g->bot, &g->e);
    if (g->rc == 0) {
        g->rc = memory_load(&g->l->memory, g->shelf, g->space, &g->e);
    }
    if (g->rc == 0) {
        g->rc = history_number_take(g->shelf, g->space, &g->l->number, &g->e);
    }
}

/// The bot of the fresh catalog with the run's flags; false with `e` when it cannot be used.
static bool judge_bot(struct run *r, struct run_lore *l, struct err *e)
{
    catalog_judge(&l->catalog, r->b->o.hub->trust);
    if (catalog_find(&l->catalog, str_of(r->rec.bot), &l->bot, e) < 0) {
        return false;
    }
    if (l->bot->status < 0) {
        *e = l->bot->err;
        return false;
    }
    return bot_config_apply(&l->bot->config, &r->asked, e) == 0;
}

/// config.md was broken or taken away while the run lives: what it said before still counts.
static void keep_bot(struct run *r, const struct err *e)
{
    struct run_lore *old = r->lore, *l = r->fresh;
    assert(old != NULL && l != NULL); // the first config.md was read before the run was made
    struct catalog c = l->catalog;
    log_warn(LOG_BOT, "run=%s config=kept reason=%s", r->rec.run_id, LOGQ(str_of(e->msg)).z);
    run__note(r, "the last good config.md is used: %s", e->msg);
    l->catalog = old->catalog;
    l->bot = old->bot;
    old->catalog = c;
}

static void read_skills(void *arg) // on the lane
{
    struct gathering *g = arg;
    skillset_read(&g->l->skills, g->shelf, g->home, g->l->bot, g->dir);
}

/// Note unused keys of config.md and skills that cannot be read: the run continues without them.
static void note_faults(struct run *r, const struct run_lore *l)
{
    for (size_t i = 0; i < l->bot->diags.n; i++) {
        const struct config_diag *d = &l->bot->diags.p[i];
        run__note(r, "%s:%u: %s", d->path, d->line, d->message);
    }
    vec_foreach (f, &l->skills.skills.faults) {
        run__note(r, STR_FMT ": " STR_FMT, STR_ARG(f->file), STR_ARG(f->message));
    }
}

static void on_skills(void *arg)
{
    struct gathering *g = arg;
    struct run *r = g->r;
    skillset_judge(&g->l->skills, r->b->o.hub->trust);
    note_faults(r, g->l);
    run__lore_free(r->lore);
    r->lore = g->l;
    r->fresh = NULL;
    free(g);
    run__go(r, RUN_RECALL);
    run__back(r);
}

/// Without memory, a number or a session there is no iteration.
static void fail_iteration(struct run *r, const struct agent_no *no)
{
    if (r->starter != NULL) {
        run__abort(r, no);
    } else {
        r->rec.error = record_text(&r->rec, str_of(no->detail));
        run__end(r, "failed");
    }
}

static void on_lore(void *arg)
{
    struct gathering *g = arg;
    struct run *r = g->r;
    struct err e = {0};
    if (g->rc < 0) {
        struct agent_no no;
        bots__no_err(&no, &g->e);
        fail_iteration(r, &no);
        free(g);
        run__back(r);
        return;
    }
    if (g->l->memory.note[0] != '\0') {
        run__note(r, "%s", g->l->memory.note);
    }
    if (!judge_bot(r, g->l, &e)) {
        keep_bot(r, &e);
    }
    work_submit(r->b->lane, 0, read_skills, on_skills, g);
}

void run__gather(struct run *r)
{
    struct gathering *g = xcalloc(1, sizeof *g);
    assert(r->fresh == NULL && !r->in_turn && !r->resting);
    r->fresh = xcalloc(1, sizeof *r->fresh);
    *g = (struct gathering){.r = r,
                            .l = r->fresh,
                            .shelf = r->b->shelf,
                            .home = r->b->home,
                            .bot = r->rec.bot,
                            .dir = r->rec.working_dir,
                            .space = r->ws.dir};
    run__away(r);
    work_submit(r->b->lane, 0, read_lore, on_lore, g);
}

// ---- recall -------------------------------------------------------------------------------------

static void on_recent(void *arg, int status, const struct history_page *p, const struct err *e)
{
    struct run *r = arg;
    const struct run_lore *l = r->lore;
    const struct bot_config *c = run__config(r);
    if (status < 0) {
        run__note(r, "the history could not be read: %s", e->msg);
    }
    char *skills = xasprintf("%s/bots/%s/skills", r->b->home, r->rec.bot);
    struct bot_prompt prompt = {.instructions = c->instructions,
                                .project = r->rec.project,
                                .session = l->number,
                                .branch = r->rec.in_place ? NULL : r->rec.branch,
                                .base = r->rec.base_branch[0] != '\0' ? r->rec.base_branch
                                                                      : r->rec.base,
                                .skills = l->skills.list.p,
                                .n_skills = l->skills.list.n,
                                .skills_dir = skills,
                                .memory = l->memory.list.p,
                                .n_memory = l->memory.list.n,
                                .input = buf_str(&r->input),
                                .recent = status < 0 ? NULL : p->rows,
                                .n_recent = status < 0 ? 0 : p->n,
                                .stop_phrase = c->stop_phrase};
    buf_clear(&r->prompt);
    bot_prompt_write(&r->prompt, &prompt);
    free(skills);
    r->n_read = r->input.n;
    run__go(r, RUN_SESSION);
    run__back(r);
}

void run__recall(struct run *r)
{
    assert(r->lore != NULL && r->fresh == NULL);
    run__away(r);
    history_recent(r->b->store, str_of(r->ws.rel), BOT_RECENT, STR_NULL, on_recent, r);
}

// ---- session ------------------------------------------------------------------------------------

/// Errors that the next turn would meet again. A provider that is overloaded, out of reach or silent is none of
/// them: it may be there again after the sleep. PROVIDER_FAILED is: no such provider or model.
static bool is_hopeless(struct str code)
{
    static const char *const codes[] = {"PROVIDER_QUOTA",  "PROVIDER_AUTH",   "PROVIDER_REJECTED",
                                        "PROVIDER_FAILED", "SCENARIO_FAILED", "CONTEXT_OVERFLOW",
                                        "STORE_FAILED",    "STOPPING",        "PLUGIN_UNAVAILABLE"};
    return str_lookup(code, codes, ARRAY_LEN(codes)) >= 0;
}

static void take_failure(struct run *r, struct str code, struct str message)
{
    r->outcome = RUN_TURN_FAILED;
    r->hopeless = is_hopeless(code);
    r->rec.error =
        arena_printf(&r->rec.arena, STR_FMT ": " STR_FMT, STR_ARG(code), STR_ARG(message));
}

static void take_outcome(struct run *r, const struct agent_outcome *o)
{
    buf_adds(&r->answer, o->text);
    if (o->state == AGENT_TURN_COMPLETED) {
        r->outcome = RUN_TURN_COMPLETED;
    } else if (o->state == AGENT_TURN_INTERRUPTED) {
        r->outcome = RUN_TURN_INTERRUPTED;
    } else if (o->state == AGENT_TURN_FAILED) {
        take_failure(r, str_of(o->error_code), o->error);
    } else {
        take_failure(r, STR("STOPPING"),
                     STR("the turn waits for an answer, and this bot works alone"));
    }
}

static void on_turn(void *arg, const struct agent_outcome *o, const struct agent_no *no)
{
    struct run *r = arg;
    if (r->in_turn) { // else it is not waited for any more
        r->in_turn = false;
        timer_stop(&r->timer);
        if (no != NULL) {
            take_failure(r, str_of(problems[no->problem].code), str_of(no->detail));
        } else {
            take_outcome(r, o);
        }
        run__go(r, RUN_WEIGH);
    }
    run__back(r);
}

static void on_sent(void *arg, const struct agent_sent *sent, const struct agent_no *no)
{
    struct run *r = arg;
    if (no != NULL) {
        on_turn(r, NULL, no);
        return;
    }
    agent_wait(sent->s, sent->turn_id, on_turn, r);
    if (r->stop_wanted) { // asked while it was being sent: there was no turn to interrupt
        agent_interrupt(sent->s);
    }
}

void run__tell_start(struct run *r)
{
    struct buf fields;
    struct jw w = bots__begin_event(&r->rec, &fields);
    jw_kstrz(&w, "branch", r->rec.in_place ? NULL : r->rec.branch);
    jw_kstrz(&w, "worktree", r->rec.in_place ? NULL : r->rec.worktree);
    jw_kbool(&w, "resumed", r->former != NULL);
    bots__emit(r->b, EVENT_BOT_RUN_STARTED, &w);
}

static void begin_turn(struct run *r, struct session *s)
{
    struct buf fields;
    assert(!r->in_turn && r->n_read <= r->input.n);
    struct record_iteration it = {.number = (int64_t)r->lore->number,
                                  .session_id = record_text(&r->rec, str_of(agent_session_id(s))),
                                  .end_reason = "",
                                  .summary = ""};
    snprintf(r->session, sizeof r->session, "%s", it.session_id);
    vec_push(&r->rec.iterations, it);
    if (r->rec.iterations.n > RUN_ITERATIONS) {
        vec_remove(&r->rec.iterations, 0);
    }
    // more may have come since, after a line break
    buf_drop(&r->input, r->n_read + (r->n_read != 0 && r->input.n > r->n_read));
    buf_clear(&r->answer);
    r->complete = false;
    r->wish = NULL;
    run__save(r, NULL);
    if (r->starter != NULL) {
        struct ask *a = r->starter;
        run__watch(r);
        run__tell_start(r);
        r->starter = NULL;
        a->run = r->rec.run_id;
        runs__answer(a, &r->rec);
    }
    struct jw w = bots__begin_event(&r->rec, &fields);
    jw_kstrz(&w, "session_id", r->session);
    jw_kint(&w, "number", it.number);
    bots__emit(r->b, EVENT_BOT_RUN_ITERATION, &w);
    if (r->stop_wanted) {
        run__end(r, "interrupted");
        return;
    }
    r->in_turn = true;
    run__away(r);
    agent_send(s, &(struct agent_message){.text = buf_str(&r->prompt)}, on_sent, r);
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    if (s == NULL) {
        fail_iteration(r, no);
    } else {
        begin_turn(r, s);
    }
    run__back(r);
}

/// The parameters of POST /session, as this iteration wants them.
static const struct json *session_params(struct run *r, struct arena *a)
{
    struct json *out = run__session_params(a, run__config(r), r->dir, r->env);
    if (!r->rec.in_place) { // all of it, also when the user was further down
        struct json *writable = make_arr(a, 1);
        make_push(writable, make_strz(r->rec.worktree));
        make_put(out, "writable", *writable);
    }
    return out;
}

void run__session(struct run *r)
{
    struct arena a = {0};
    assert(r->session[0] == '\0' && !r->in_turn);
    char *dir = xasprintf("%s/history", r->ws.rel);
    struct agent_role role = {.bot = str_of(r->rec.bot),
                              .project = str_of(r->rec.project),
                              .dir = str_of(dir),
                              .run_id = str_of(r->rec.run_id),
                              .number = (int64_t)r->lore->number,
                              .branch = str_of(r->rec.branch),
                              .worktree = str_of(r->rec.worktree),
                              .before = str_of(record_last_session(&r->rec)),
                              .autonomous = true};
    run__away(r);
    if (buf_ok(&r->prompt)) {
        agent_session_new(r->b->o.agent, session_params(r, &a), &role, on_made, r);
    } else {
        struct agent_no no;
        agent_no_set(&no, PROBLEM_TOO_LARGE, "shorten its memory or skills",
                     "the prompt is larger than %d bytes", BOT_PROMPT_BYTES);
        on_made(r, NULL, &no);
    }
    arena_fini(&a);
    free(dir);
}

// ---- what now? ----------------------------------------------------------------------------------

/// Why the run ends here; NULL: it continues.
static const char *weigh(const struct run *r)
{
    const char *phrase = run__config(r)->stop_phrase;
    bool said = phrase != NULL && phrase[0] != '\0' &&
                memmem(buf_z(&r->answer), r->answer.n, phrase, strlen(phrase)) != NULL;
    int64_t max = run__config(r)->max_iterations;
    bool last = max != 0 && r->n_done >= max;
    switch (r->outcome) {
    case RUN_TURN_COMPLETED:
        if (r->complete || said) {
            return "complete";
        }
        return last ? "limit" : NULL; // a stop request counts in the next step
    case RUN_TURN_FAILED:
        if (r->stop_wanted) {
            return "interrupted";
        }
        return r->hopeless || r->failures >= RUN_FAILURES || last ? "failed" : NULL;
    case RUN_TURN_INTERRUPTED: return "interrupted";
    }
    return NULL;
}

static void on_closed(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    (void)s;
    (void)no; // it had ended before
    run__go(r, RUN_REST);
    run__back(r);
}

static void on_close(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    if (s == NULL) {
        on_closed(r, NULL, no);
        return;
    }
    struct agent_end end = {.reason = vec_last(&r->rec.iterations)->end_reason};
    agent_session_close(s, &end, on_closed, r);
}

void run__weigh(struct run *r)
{
    assert(!r->in_turn && r->rec.iterations.n != 0);
    struct record_iteration *it = vec_last(&r->rec.iterations);
    bool failed = r->outcome == RUN_TURN_FAILED;
    struct str said = str_trim(buf_str(&r->answer));
    said.n = utf8_cut(said.p, said.n, RUN_SUMMARY);
    r->n_done++;
    r->failures = failed ? r->failures + 1 : 0;
    if (!failed) {
        r->rec.error = "";
    }
    it->summary =
        r->complete ? r->rec.summary : record_text(&r->rec, failed ? str_of(r->rec.error) : said);
    const char *reason = weigh(r);
    if (reason != NULL) {
        run__end(r, reason);
        return;
    }
    it->end_reason = failed ? "failed" : "limit"; // the run continues: it is not complete
    run__away(r);
    agent_session_get(r->b->o.agent, str_of(r->session), on_close, r);
}
