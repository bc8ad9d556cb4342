// A run begins: from the request to its worktree.
//
//     bots_run ─┬─> which run goes on? ─> locate ─┬─> run_start ─> NOTE ─> TREE ─> SHARE ─> SETUP
//               └─────────────────────────────────┘
//
// Until its first session is there a run can be refused, and then nothing of it is left: run__abort().

#include <limits.h>
#include <sys/stat.h>

#include "agent/make.h"
#include "base/path.h"
#include "base/random.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"
#include "fleet/fleet.h"
#include "loop/proc.h"

enum { WHERE = WHERE_SPACE | WHERE_MAKE | WHERE_GIT };

// ---- the request --------------------------------------------------------------------------------

static void find_named(struct ask *a) // on the lane
{
    struct record *rec = a->data;
    record_fini(rec);
    a->rc = runs_find_any(rec, a->b->index, ask__z(a, "bot"), ask__str(a, "resume"), &a->e);
}

void run__hold_record(struct ask *a, struct record *rec)
{
    *runs__hold(a) = *rec;
    record_init(rec);
}

/// It continues where it was, wherever the user is now.
static void locate_named(struct ask *a)
{
    const struct record *rec = a->data;
    ask__set(a, "working_dir", str_of(rec->working_dir));
    ask__set(a, "project", str_of(rec->project));
    ask__locate(a, WHERE, run_start);
}

static void find_last(struct ask *a) // on the lane
{
    struct record *rec = a->data;
    record_fini(rec);
    a->rc = runs_find_last(rec, a->b->index, a->name, a->ws.slug, &a->e);
}

static void located_last(struct ask *a)
{
    if (fleet_shared(a->b->o.fleet)) {
        runs__find_last_shared(a, run_start);
    } else {
        ask__work(a, find_last, run_start);
    }
}

void bots_run(struct ask *a)
{
    const struct json *resume = json_get(a->params, "resume");
    struct err e = {0};
    runs__hold(a);
    if (a->b->stopping) {
        ask__no(a, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (bot_name_check(ask__str(a, "bot"), &e) < 0) {
        ask__no(a, PROBLEM_INVALID_NAME, NULL, "%s", e.msg);
    } else if (ask__str(a, "prompt").n + ask__str(a, "instructions").n > RUN_INPUT) {
        ask__no(a, PROBLEM_TOO_LARGE, "put it into a file, and name that",
                "prompt and instructions are more than %d bytes", RUN_INPUT);
    } else if (resume == NULL || resume->type == JSON_NULL ||
               (resume->type == JSON_BOOL && !resume->b)) {
        ask__locate(a, WHERE, run_start);
    } else if (resume->type == JSON_BOOL) {
        ask__locate(a, WHERE, located_last);
    } else if (resume->type == JSON_STR && resume->s.n != 0) {
        if (fleet_shared(a->b->o.fleet)) {
            runs__find_any_shared(a, resume->s, locate_named);
        } else {
            ask__work(a, find_named, locate_named);
        }
    } else {
        ask__no(a, PROBLEM_INVALID_BODY, NULL,
                "'resume' must be true, or the id of a run or session");
    }
}

// ---- what was asked for -------------------------------------------------------------------------

static int64_t number_of(const struct ask *a, const char *key)
{
    const struct json *v = json_get(a->params, key);
    return v != NULL && v->type != JSON_NULL ? json_int(v, BOT_UNSET) : BOT_UNSET;
}

static const char *text_of(const struct ask *a, struct arena *in, const char *key)
{
    struct str s = ask__str(a, key);
    return s.p != NULL ? arena_strdup(in, s) : NULL;
}

/// The flags of the run; texts in `in`.
static struct bot_overrides take_flags(const struct ask *a, struct arena *in)
{
    const struct json *network = json_get(a->params, "network");
    return (struct bot_overrides){
        .max_iterations = number_of(a, "iterations"),
        .sleep_secs = number_of(a, "sleep_secs"),
        .network = network != NULL ? json_bool(network, false) : BOT_UNSET,
        .model = text_of(a, in, "model"),
        .provider = text_of(a, in, "provider"),
        .engine = text_of(a, in, "engine"),
        .sandbox = text_of(a, in, "sandbox"),
        .instructions = text_of(a, in, "instructions"),
        .merge = json_bool(json_get(a->params, "merge"), false),
        .skip_git_check = json_bool(json_get(a->params, "skip_git_check"), false),
        .no_worktree = !json_bool(json_get(a->params, "worktree"), true),
        .has_prompt = ask__str(a, "prompt").n != 0,
    };
}

const struct json *run__options(const struct ask *a, struct record *rec)
{
    static const char *const others[] = {"env", "bot", "prompt", "working_dir", "project"};
    return ask__without(a, &rec->arena, others, ARRAY_LEN(others));
}

const char *run__make_id(struct record *rec)
{
    char id[RECORD_ID];
    random_hex(id, sizeof id);
    return arena_strdup(&rec->arena, str_of(id));
}

/// Where it works: in a worktree, where the user is, or not at all.
static bool choose_place(struct ask *a, const struct bot_config *c, struct record *rec,
                         struct agent_no *no)
{
    bool repo = a->git.status == 0;
    if (rec->in_place) { // of the run that is resumed
        return true;
    }
    rec->in_place = !repo || !c->worktree;
    if (!repo && a->git.status != ERR_NOT_FOUND && c->worktree) {
        bots__no_err(no, &a->git.e);
        return false;
    }
    if (!repo && !c->skip_git_check) {
        agent_no_set(
            no, PROBLEM_CONFLICT, "`git init` there, or run with --skip-git-check",
            "'%s' is in no git repository, so nothing that a bot does there could be undone",
            a->dir);
        return false;
    }
    return true;
}

void run__fill_record(struct ask *a, struct record *rec)
{
    if (rec->run_id[0] == '\0') {
        rec->run_id = run__make_id(rec);
    }
    rec->bot = record_text(rec, str_of(a->name));
    rec->project = record_text(rec, str_of(a->ws.slug));
    struct str prompt = ask__str(a, "prompt");
    rec->prompt = record_text(rec, prompt.n != 0 ? prompt : str_of(rec->prompt));
    rec->working_dir = record_text(rec, str_of(a->real));
    rec->repository =
        record_text(rec, str_of(a->git.main_root != NULL ? a->git.main_root : a->real));
    if (!rec->in_place) {
        rec->common = record_text(rec, str_of(a->git.common));
        rec->root = record_text(rec, str_of(a->git.bare ? a->git.common : a->git.root));
        // a branch that is still at this commit has no work
        rec->base = record_text(rec, str_of(a->git.head));
        rec->branch = arena_printf(&rec->arena, "afloat/%s-%s", a->name, rec->run_id);
        rec->worktree = arena_printf(&rec->arena, "%s/worktrees/%s/%s-%s", a->b->home, a->ws.slug,
                                     a->name, rec->run_id);
    }
}

char *run__reopen(struct record *rec)
{
    char *former = record_print(rec);
    rec->end_reason = rec->action = rec->summary = rec->error = "";
    rec->ended_at = rec->discarded_at = 0;
    rec->epoch = 0; // of hubs that share a store: a new lease
    rec->wants_merge = false;
    rec->notes.n = rec->not_kept.n = 0;
    return former;
}

bool run__has_begun(const struct record *rec)
{
    return rec->start[0] != '\0' || rec->iterations.n != 0;
}

static const char continued[] =
    "The machine that ran you was lost, and you continue on another one. Your files are as they "
    "were after the last step that was pushed; a tool call that ran at that moment has the result "
    "'unknown'. Look at what is there before you continue.";

/// The record of one that a lost hub had: the same work, in the repository of this machine.
static void relocate(struct ask *a, struct record *rec)
{
    rec->common = record_text(rec, str_of(a->git.common));
    rec->root = record_text(rec, str_of(a->git.root));
    rec->repository = record_text(rec, str_of(a->git.main_root));
    rec->working_dir = record_text(rec, str_of(a->real));
    rec->worktree = arena_printf(&rec->arena, "%s/worktrees/%s/%s-%s", a->b->home, a->ws.slug,
                                 a->name, rec->run_id);
    if (rec->iterations.n != 0 && vec_last(&rec->iterations)->end_reason[0] == '\0') {
        vec_last(&rec->iterations)->end_reason = "crashed";
    }
    record_add(rec, &rec->notes, STR("its hub was lost; another one continued it"));
}

bool run__may_resume(const struct ask *a, const struct record *rec, struct agent_no *no)
{
    struct bots *b = a->b;
    if (!a->taken && (rec->running || rec->queued || bots__is_running(b, str_of(rec->run_id)))) {
        agent_no_set(no, PROBLEM_CONFLICT, "`afloat runs attach` follows it",
                     "run '%s' has not ended", rec->run_id);
    } else if (rec->branch_deleted) {
        agent_no_set(no, PROBLEM_CONFLICT, NULL, "the branch of run '%s' was deleted", rec->run_id);
    } else if (map_get(&b->busy, str_of(rec->run_id)) != NULL) {
        agent_no_set(no, PROBLEM_CONFLICT, NULL, "run '%s' is being taken over", rec->run_id);
    } else {
        return true;
    }
    return false;
}

static bool may_start(struct ask *a, const struct record *rec, struct agent_no *no)
{
    bool resumed = rec->run_id[0] != '\0';
    struct err e = {0};
    if (!fleet_may_start(a->b->o.fleet, ask__str(a, "on"), &e)) {
        bots__no_err(no, &e);
    } else if (a->b->stopping) {
        agent_no_set(no, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (a->bot->status < 0) {
        agent_no_set(no, PROBLEM_INVALID_BODY, NULL, "%s", a->bot->err.msg);
    } else if (resumed && rec->terminal[0] != '\0') {
        agent_no_set(no, PROBLEM_CONFLICT, NULL,
                     "run '%s' is that of a program in a terminal: `afloat pty new --resume %s`",
                     rec->run_id, rec->run_id);
    } else if (resumed && rec->chat[0] != '\0') {
        agent_no_set(no, PROBLEM_CONFLICT, NULL,
                     "run '%s' was that of a conversation, which has ended", rec->run_id);
    } else {
        return !resumed || run__may_resume(a, rec, no);
    }
    return false;
}

struct run *run__begin(struct ask *a, struct record *rec, char *former)
{
    struct run *r = run__new(a->b, rec);
    r->former = former;
    r->taken = a->taken;
    r->starter = a;
    r->env = json_clone(&r->arena, json_get(a->params, "env"));
    proc_umask_parse(json_str(json_get(r->env, "AFLOAT_UMASK"), ""), &r->umask);
    r->dir = arena_strdup(&r->arena, str_of(a->real));
    r->ws = a->ws;
    a->ws = (struct workspace){0};
    run__go(r, RUN_NOTE);
    return r;
}

const char *run__sandbox(const struct bots *b, const char *asked)
{
    const struct config *c = b->o.hub->config->now;
    return asked != NULL ? config_allowed(c, "sandbox.mode", asked) : config_str(c, "sandbox.mode");
}

bool run__has_full_access(const struct bots *b, const char *sandbox)
{
    return strcmp(run__sandbox(b, sandbox), box_mode_name(BOX_FULL_ACCESS)) == 0;
}

static void make_space(struct ask *a) // on the lane
{
    struct workspace_project p = {
        .path = a->git.main_root, .common = a->git.common, .sh = a->b->shelf};
    a->rc = workspace_of_path(&a->ws, a->b->home, a->name, &p, WORKSPACE_MAKE, &a->e);
}

/// Now: the hub may have begun to stop meanwhile, and would wait for this run without end.
static void on_space(struct ask *a)
{
    if (a->b->stopping) {
        ask__no(a, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else {
        a->located(a);
    }
}

void run__make_space(struct ask *a, const char *name, ask_fn *launch)
{
    assert(a->ws.dir == NULL);
    a->name = name;
    a->located = launch;
    if (a->git.status < 0) {
        ask__fail(a, &a->git.e);
    } else {
        ask__work(a, make_space, on_space);
    }
}

/// Everything is in order: the run is made, and has its request from here on.
static void launch(struct ask *a, struct record *rec)
{
    struct catalog_bot *bot = a->bot;
    bool begun = run__has_begun(rec);
    bool fresh = rec->run_id[0] == '\0' || (a->taken && !begun);
    char *former = NULL;
    if (!fresh && a->taken) {
        former = record_print(rec);
        relocate(a, rec);
    } else if (!fresh) {
        former = run__reopen(rec);
    }
    if (!begun) {
        run__fill_record(a, rec);
        rec->started_at = rec->started_at != 0 ? rec->started_at : loop_wall(a->b->loop);
    }
    rec->running = true;
    rec->queued = false;
    rec->options = run__options(a, rec);
    rec->full_access = run__has_full_access(a->b, bot->config.sandbox);
    rec->remote = rec->in_place || bot->config.remote == NULL || rec->pushed[0] != '\0'
                      ? rec->remote
                      : record_text(rec, str_of(bot->config.remote));
    struct run *r = run__begin(a, rec, former);
    r->asked = take_flags(a, &r->arena);
    r->lore = xcalloc(1, sizeof *r->lore);
    r->lore->catalog = a->catalog;
    r->lore->bot = bot;
    a->has_catalog = false;
    run__add_input(r, str_of(r->rec.unread));
    run__add_input(r, !begun                       ? str_of(r->rec.prompt)
                      : a->taken && former != NULL ? str_of(continued)
                                                   : ask__str(a, "prompt"));
    r->rec.unread = "";
}

static void on_checked(void *arg, struct session *s, const struct agent_no *no)
{
    struct ask *a = arg;
    struct agent_no changed;
    (void)s;
    if (no != NULL) {
        ask__refuse(a, no);
    } else if (!may_start(a, a->data, &changed)) {
        ask__refuse(a, &changed);
    } else {
        launch(a, a->data);
    }
}

struct json *run__session_params(struct arena *a, const struct bot_config *c, const char *dir,
                                 const struct json *env)
{
    const struct {
        const char *key, *value;
    } texts[] = {{"working_dir", dir},
                 {"provider", c->provider},
                 {"model", c->model},
                 {"engine", c->engine},
                 {"sandbox", c->sandbox}};
    struct json *out = make_obj(a, ARRAY_LEN(texts) + 4);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].value != NULL) {
            make_put(out, texts[i].key, make_strz(texts[i].value));
        }
    }
    if (c->network != BOT_UNSET) {
        make_put(out, "network", make_bool(c->network != 0));
    }
    if (c->plugins.p != NULL) {
        struct json *names = make_arr(a, c->plugins.n);
        for (size_t i = 0; i < c->plugins.n; i++) {
            make_push(names, make_strz(c->plugins.p[i]));
        }
        make_put(out, "plugins", *names);
    }
    if (env != NULL) {
        make_put(out, "env", *env);
    }
    return out;
}

/// A run makes a branch and uses up a session number before it has a session, so what a session would be refused for
/// is refused before.
static void check_session(struct ask *a)
{
    const struct json *params =
        run__session_params(&a->arena, &a->bot->config, a->real, json_get(a->params, "env"));
    agent_session_check(a->b->o.agent, params, &(struct agent_role){.bot = str_of(a->name)},
                        on_checked, a);
}

void run_start(struct ask *a)
{
    struct record *rec = a->data;
    struct bot_overrides flags = take_flags(a, &a->arena);
    struct agent_no no;
    struct err e = {0};
    if (!may_start(a, rec, &no)) {
        ask__refuse(a, &no);
    } else if (bot_config_apply(&a->bot->config, &flags, &e) < 0) {
        ask__fail(a, &e);
    } else if (!choose_place(a, &a->bot->config, rec, &no)) {
        ask__refuse(a, &no);
    } else if (run__must_wait(a)) {
        run__enqueue(a, rec);
    } else {
        check_session(a);
    }
}

// ---- the record, the worktree -------------------------------------------------------------------

static void on_noted(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    if (status < 0) {
        run__abort_err(r, e);
    } else {
        run__go(r, r->rec.in_place ? RUN_GATHER : RUN_TREE);
    }
}

void run__note_down(struct run *r)
{
    assert(r->starter != NULL && !r->has_tree);
    run__save(r, on_noted);
}

static void on_dir(struct run *r, const char *dir, bool found)
{
    r->dir = arena_strdup(&r->arena, str_of(found ? dir : r->rec.worktree));
    run__go(r, RUN_SHARE);
}

/// Where in the worktree the user was, if that is there.
static void find_dir(struct run *r)
{
    const char *below = path_below(r->rec.root, r->rec.working_dir);
    bool inside = below != NULL && below[0] != '\0';
    run__ask_path(r, inside ? path_join(r->rec.worktree, below) : xstrdup(r->rec.worktree),
                  path_is_dir, on_dir);
}

static void take_added(struct run *r, const struct git_added *g)
{
    struct record *rec = &r->rec;
    rec->worktree = record_text(rec, str_of(g->dir));
    rec->common = record_text(rec, str_of(g->common));
    if (r->makes_branch) {
        rec->root = record_text(rec, str_of(g->root));
        rec->start = record_text(rec, str_of(g->start));
        rec->base = record_text(rec, str_of(g->base));
        rec->base_branch = record_text(rec, str_of(g->base_branch));
        rec->dirty = g->dirty;
    }
    rec->head = record_text(rec, str_of(g->start)); // where its branch is now
    if (r->taken && r->former != NULL) {
        rec->pushed = rec->head; // as the remote had it
        rec->tried.n = 0;
    }
    record_add_all(rec, &rec->notes, g->notes.p, g->notes.n);
}

static void on_added(void *arg, int status, const struct err *e, const struct git_added *g)
{
    struct run *r = arg;
    r->job = NULL;
    turnstile_leave(&r->b->trees, r);
    if (status < 0) {
        run__abort_err(r, e);
    } else {
        take_added(r, g);
        r->has_tree = true;
        run__save(r, NULL); // where it began: recovery needs it
        bots__tell_worktree(r->b, BOTS_TREE_MADE, r->rec.worktree, r->rec.branch,
                            r->rec.repository);
        find_dir(r);
    }
    run__back(r);
}

static void add_tree(void *arg)
{
    struct run *r = arg;
    static const struct bot_config nothing;
    const struct bot_config *c = run__config(r) != NULL ? run__config(r) : &nothing;
    struct git_worktree w = run__worktree(r);
    struct git_add add = {.repo = r->rec.root,
                          .dir = r->rec.worktree,
                          .branch = r->rec.branch,
                          .from = r->makes_branch ? GIT_FROM_STATE : GIT_FROM_BRANCH,
                          .include = arena_list(&r->arena, c->include.p, c->include.n),
                          .link = arena_list(&r->arena, c->link.p, c->link.n),
                          .over = r->former != NULL, // a killed hub may have left it, without work
                          .steal = r->taken,
                          .quarantine = w.quarantine};
    r->rec.link.n = 0;
    record_add_all(&r->rec, &r->rec.link, c->link.p, c->link.n);
    r->job = git_add(r->b->git, &add, on_added, r);
    git_set_umask(r->job, r->umask);
}

void run__tree(struct run *r)
{
    if (r->b->git == NULL) {
        run__abort_err(r, &r->b->git_fault);
        return;
    }
    assert(!r->has_tree && r->job == NULL && !r->rec.in_place);
    r->makes_branch = !run__has_begun(&r->rec); // a resumed one may have waited in the queue only
    run__away(r);
    turnstile_enter(&r->b->trees, r->rec.common, add_tree, r);
}
