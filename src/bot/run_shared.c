// Runs of hubs that share a store: written under a lease, waiting in the queue, taken, lost.
//
//     run_start ─┬─ this hub has room ──> run_add (here) ──> NOTE ─> ...        every later write: run_save
//                └─ --on LABEL, draining, full ──> run_add (queued) ──> answer
//
//     fleet: claimed ─┬─ it never began ───────────────> as if asked for here
//                     ├─ its work is on a remote ──> end what its session left open ──> clone or fetch ──> continues
//                     └─ it cannot move (it was ours before a restart) ──> recovery, as of a hub alone
//     fleet: lost ──> stop the turn, kill its commands ──> DROP: the directory goes, nothing is written
//
// A run continues as after --resume: a new iteration with the conversation of the one before, whose open calls
// ended as `unknown`. What a client's environment holds of secrets does not travel.
//
// Invariants:
//   - a run of a shared store has an epoch from its first write on; no write of it goes past fleet_run_save().
//   - after `lost` no step but DROP runs.

#include "agent/providers.h"
#include "agent/tool.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sha256.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"
#include "fleet/fleet.h"

enum { WHERE = WHERE_SPACE | WHERE_MAKE | WHERE_GIT, CLONE_HASH = 16 };

/// Can another hub continue it? Its files must be on a remote.
static bool moves(const struct record *rec)
{
    return !rec->in_place && rec->pushed[0] != '\0';
}

// ---- writes ---------------------------------------------------------------------------------------

struct shared_save {
    struct run *r;
    store_done *done;
    void *arg;
    char *text;
};

/// The hubs know: now the file here, for recovery and `afloat worktrees`.
static void save_file(struct shared_save *s)
{
    char *name = record_name(&s->r->rec);
    store_doc_put(s->r->b->store, str_of(name), str_of(s->text), s->done, s->arg);
    free(name);
    free(s->text);
    free(s);
}

static void fail_save(struct shared_save *s, const struct err *e)
{
    struct run *r = s->r;
    if (e->code == ERR_CONFLICT && r->rec.epoch != 0 && !r->lost) {
        bots__lost(r->b, str_of(r->rec.run_id));
    }
    s->done(s->arg, e->code, e);
    free(s->text);
    free(s);
}

static void on_fenced(void *arg, int status, const struct err *e)
{
    struct shared_save *s = arg;
    if (status < 0) {
        fail_save(s, e);
    } else {
        save_file(s);
    }
}

static void on_added(void *arg, int64_t epoch, const struct err *e)
{
    struct shared_save *s = arg;
    if (e != NULL) {
        fail_save(s, e);
        return;
    }
    s->r->rec.epoch = epoch;
    save_file(s);
}

/// What other hubs may know of the client's environment: no key and no other secret.
static void write_env(struct bots *b, const struct json *env, struct buf *out)
{
    const char *const *patterns = config_strings(b->o.hub->config->now, "tool_env.drop");
    struct jw w = {.out = out};
    jw_obj(&w);
    json_foreach_member (m, env) {
        bool own = str_starts(m->key, "AFLOAT_");
        if (own || (!providers_owns_variable(b->o.hub->config->now, m->key) &&
                    !tool_drops(m->key, patterns))) {
            jw_key_str(&w, m->key);
            jw_str(&w, json_str(&m->value, ""));
        }
    }
    jw_end_obj(&w);
}

static struct fleet_new new_of(const struct record *rec, const struct buf *env, const char *body)
{
    return (struct fleet_new){.id = str_of(rec->run_id),
                              .bot = str_of(rec->bot),
                              .project = str_of(rec->project),
                              .repository = str_of(rec->repository),
                              .working_dir = str_of(rec->working_dir),
                              .env = buf_str(env),
                              .body = str_of(body),
                              .on = json_str(json_get(rec->options, "on"), ""),
                              .started_at = rec->started_at};
}

static void refuse_save(void *arg)
{
    struct shared_save *s = arg;
    struct err e;
    err_set(&e, ERR_CONFLICT, "another hub has the run");
    fail_save(s, &e);
}

void run__save_shared(struct run *r, store_done *done, void *arg)
{
    struct shared_save *s = xmalloc(sizeof *s);
    struct fleet *f = r->b->o.fleet;
    r->rec.hub = record_text(&r->rec, str_of(fleet_name(f)));
    *s = (struct shared_save){.r = r, .done = done, .arg = arg, .text = record_print(&r->rec)};
    if (r->lost) {
        loop_defer(r->b->loop, refuse_save, s);
    } else if (r->rec.epoch == 0) {
        struct buf env = {.max = SIZE_MAX};
        write_env(r->b, r->env, &env);
        struct fleet_new n = new_of(&r->rec, &env, s->text);
        n.here = true;
        fleet_run_add(f, &n, on_added, s);
        buf_fini(&env);
    } else {
        struct fleet_save save = {.id = str_of(r->rec.run_id),
                                  .body = str_of(s->text),
                                  .remote = str_of(r->rec.remote),
                                  .epoch = r->rec.epoch,
                                  .heard = r->heard,
                                  .ended = !r->rec.running,
                                  .moves = moves(&r->rec)};
        fleet_run_save(f, &save, on_fenced, s);
    }
}

void run__unnote_shared(struct run *r)
{
    struct fleet *f = r->b->o.fleet;
    if (!fleet_shared(f) || r->taken || r->rec.epoch == 0) {
        return; // one that was taken goes back to the queue
    }
    struct fleet_save save = {.id = str_of(r->rec.run_id),
                              .body = str_of(r->former != NULL ? r->former : "{}"),
                              .remote = str_of(r->rec.remote),
                              .epoch = r->rec.epoch,
                              .ended = true};
    fleet_run_save(f, &save, NULL, NULL);
    if (r->former == NULL) {
        fleet_run_edit(f, str_of(r->rec.run_id), STR_NULL, NULL, NULL);
    }
}

// ---- the queue --------------------------------------------------------------------------------------

bool run__must_wait(struct ask *a)
{
    const struct bots *b = a->b;
    if (!fleet_shared(b->o.fleet) || a->taken) {
        return false;
    }
    return ask__str(a, "on").n != 0 || fleet_is_draining(b->o.fleet) ||
           (int64_t)b->runs.n >= config_int(b->o.hub->config->now, "store.max_runs");
}

static void on_queued(void *arg, int64_t epoch, const struct err *e)
{
    struct ask *a = arg;
    struct record *rec = a->data;
    if (e != NULL) {
        ask__fail(a, e);
        return;
    }
    assert(epoch == 0);
    log_info(LOG_BOT, "run=%s bot=%s queued=true", rec->run_id, rec->bot);
    a->run = rec->run_id;
    runs__answer(a, rec);
}

static void add_to_queue(struct ask *a)
{
    struct record *rec = a->data;
    struct buf env = {.max = SIZE_MAX};
    write_env(a->b, json_get(a->params, "env"), &env);
    char *body = record_print(rec);
    struct fleet_new n = new_of(rec, &env, body);
    fleet_run_add(a->b->o.fleet, &n, on_queued, a);
    free(body);
    buf_fini(&env);
}

static void on_url(void *arg, int status, const struct err *e, const char *url)
{
    struct ask *a = arg;
    struct record *rec = a->data;
    if (status < 0) {
        ask__fail(a, e);
        return;
    }
    rec->remote = record_text(rec, str_of(url));
    add_to_queue(a);
}

void run__enqueue(struct ask *a, struct record *rec)
{
    if (!run__has_begun(rec)) {
        run__fill_record(a, rec);
        rec->started_at = loop_wall(a->b->loop);
    }
    rec->queued = true;
    rec->running = false;
    rec->hub = "";
    rec->options = run__options(a, rec);
    if (a->bot->config.remote != NULL && !rec->in_place && a->b->git != NULL) {
        git_url(a->b->git, rec->common, a->bot->config.remote, on_url, a);
    } else {
        add_to_queue(a);
    }
}

// ---- taken ------------------------------------------------------------------------------------------

/// A run that this hub took, until it has begun here.
struct taking {
    struct bots *b;
    char id[RECORD_ID];
    int64_t epoch;
    bool has_dir;
    char *clone; // where its repository is cloned to, if it must be
};

static void on_begun(void *arg, struct str json, const char *name, const struct agent_no *no)
{
    struct taking *t = arg;
    struct bots *b = t->b;
    (void)json;
    (void)name;
    if (no != NULL && bots__run_of(b, str_of(t->id)) == NULL) {
        log_warn(LOG_BOT, "run=%s refused=%s", t->id, LOGQ(str_of(no->detail)).z);
        fleet_run_return(b->o.fleet, str_of(t->id), t->epoch, true);
    }
    free(t->clone);
    free(t);
    bots__release(b);
}

static void look_for_dir(struct ask *a) // on the lane
{
    struct taking *t = a->arg;
    const struct record *rec = a->data;
    t->has_dir = path_is_dir(rec->working_dir);
}

static void locate(struct ask *a)
{
    struct taking *t = a->arg;
    const struct record *rec = a->data;
    struct str dir = str_of(rec->working_dir), root = str_of(rec->root);
    if (!t->has_dir) { // the same place in the clone
        bool below = root.n != 0 && dir.n > root.n && str_starts(dir, rec->root);
        dir = str_of(arena_printf(&a->arena, "%s%s", t->clone, below ? dir.p + root.n : ""));
    }
    ask__set(a, "working_dir", dir);
    ask__set(a, "project", str_of(rec->project));
    ask__locate(a, WHERE, run_start);
}

static void on_pulled(void *arg, int status, const struct err *e)
{
    if (status < 0) {
        ask__fail(arg, e);
    } else {
        locate(arg);
    }
}

/// The repository must be here, with the branch as it was pushed last.
static void fetch(struct ask *a)
{
    struct taking *t = a->arg;
    const struct record *rec = a->data;
    bool began = run__has_begun(rec), far = rec->remote[0] != '\0' && a->b->git != NULL;
    if (!t->has_dir && !far) {
        ask__no(a, PROBLEM_CONFLICT, NULL,
                "there is no directory '%s' on this hub, and [worktree] remote names no repository",
                rec->working_dir);
    } else if (t->has_dir && (!began || !far)) {
        locate(a);
    } else {
        struct git_pull p = {.root = t->has_dir ? rec->working_dir : t->clone,
                             .remote = rec->remote,
                             .branch = began ? rec->branch : NULL,
                             .own = !t->has_dir};
        git_pull(a->b->git, &p, on_pulled, a);
    }
}

static void look(void *arg)
{
    ask__work(arg, look_for_dir, fetch);
}

/// What was asked for, as POST /bots/{bot}/runs has it.
static const struct json *params_of(struct arena *a, const struct record *rec, struct str env)
{
    const struct {
        const char *key;
        struct str value;
    } texts[] = {{"bot", str_of(rec->bot)},
                 {"prompt", str_of(rec->prompt)},
                 {"working_dir", str_of(rec->working_dir)},
                 {"project", str_of(rec->project)}};
    struct json *out = json_with(a, rec->options, STR("resume"), NULL), *vars = NULL;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct json v = {.type = JSON_STR, .s = texts[i].value};
        out = json_with(a, out, str_of(texts[i].key), &v);
    }
    return json_parse(&vars, a, env, NULL, NULL) == 0 ? json_with(a, out, STR("env"), vars) : out;
}

char *run__clone_of(const struct bots *b, const char *remote)
{
    uint8_t digest[SHA256_SIZE];
    char hash[SHA256_HEX];
    sha256_of(str_of(remote), digest);
    sha256_hex(digest, hash);
    return xasprintf("%s/clones/%.*s", b->home, CLONE_HASH, hash);
}

static void begin_here(struct bots *b, struct record *rec, const struct fleet_claim *c)
{
    struct taking *t = xcalloc(1, sizeof *t);
    struct arena arena = {0};
    t->b = b;
    t->epoch = c->epoch;
    snprintf(t->id, sizeof t->id, "%s", rec->run_id);
    t->clone = run__clone_of(b, rec->remote);
    bots__hold(b);
    struct ask *a = ask__new(b, params_of(&arena, rec, c->env), on_begun, t);
    a->taken = true;
    run__hold_record(a, rec);
    const struct record *own = a->data;
    if (run__has_begun(own) && record_last_session(own)[0] != '\0') {
        agent_session_take_over(b->o.agent, str_of(record_last_session(own)), look, a);
    } else {
        look(a);
    }
    arena_fini(&arena);
}

/// We lost it a moment ago, and its directory is still being removed.
static bool is_leaving(const struct bots *b, struct str id)
{
    vec_foreach (r, &b->runs) {
        if ((*r)->lost && str_eqz(id, (*r)->rec.run_id)) {
            return true;
        }
    }
    return false;
}

static void on_claimed(void *arg, const struct fleet_claim *c)
{
    struct bots *b = arg;
    struct record rec;
    struct err e = {0};
    if (record_parse(&rec, c->body, &e) < 0 || b->stopping || is_leaving(b, c->id)) {
        fleet_run_return(b->o.fleet, c->id, c->epoch, e.code != 0);
    } else {
        rec.epoch = c->epoch;
        rec.hub = record_text(&rec, str_of(fleet_name(b->o.fleet)));
        log_info(LOG_BOT, "run=%s bot=%s taken=true epoch=%lld", rec.run_id, rec.bot,
                 (long long)c->epoch);
        if (!moves(&rec) && (c->lost || run__has_begun(&rec))) {
            rec.running = true;
            run_recover(b, &rec);
        } else {
            begin_here(b, &rec, c);
        }
    }
    record_fini(&rec);
}

// ---- lost -------------------------------------------------------------------------------------------

void bots__lost(struct bots *b, struct str id)
{
    struct run *r = bots__run_of(b, id);
    if (r == NULL || r->lost) {
        return;
    }
    r->lost = true;
    if ((r->step == RUN_PTY || r->step == RUN_CHAT) && r->next == NULL && r->starter == NULL) {
        run__go(r, RUN_DROP);
    } else {
        run_stop(r, true);
    }
}

static void on_lost(void *arg, struct str id)
{
    bots__lost(arg, id);
}

static void finish_drop(struct run *r)
{
    struct ask *a = r->starter;
    r->starter = NULL;
    vec_foreach (w, &r->awaiting) {
        runs__answer(*w, &r->rec);
    }
    r->awaiting.n = 0;
    run__leave(r);
    if (a != NULL) {
        ask__no(a, PROBLEM_CONFLICT, NULL, "another hub took the run");
    }
}

static void on_dropped(void *arg, int status, const struct err *e)
{
    (void)status;
    (void)e; // `afloat worktrees` shows what is left
    finish_drop(arg);
}

void run__drop(struct run *r)
{
    assert(r->lost && !r->unsaved);
    log_warn(LOG_BOT, "run=%s dropped=true", r->rec.run_id);
    if (r->has_tree && moves(&r->rec) && r->b->git != NULL) {
        agent_vacate(r->b->o.agent, str_of(r->session));
        run__remove_tree(r, on_dropped);
    } else {
        finish_drop(r);
    }
}

// ---- what other hubs want ---------------------------------------------------------------------------

static void on_wanted(void *arg, struct str id, unsigned stops, struct str said, int64_t heard)
{
    struct run *r = bots__run_of(arg, id);
    if (r == NULL) {
        return;
    }
    if (said.n != 0 && heard > r->heard) {
        r->heard = heard;
        run__add_input(r, said);
        run__save(r, NULL);
        if (r->resting) {
            run__wake(r);
        }
    }
    if (stops != 0) {
        run_stop(r, stops > 1);
    }
}

static size_t count_runs(void *arg)
{
    return ((const struct bots *)arg)->runs.n;
}

static bool has_run(void *arg, struct str id)
{
    return bots__run_of(arg, id) != NULL;
}

static bool run_moves(void *arg, struct str id)
{
    const struct run *r = bots__run_of(arg, id);
    return r == NULL || moves(&r->rec);
}

void bots__join_fleet(struct bots *b)
{
    fleet_set_runner(b->o.fleet, &(struct fleet_runner){.running = count_runs,
                                                        .has = has_run,
                                                        .moves = run_moves,
                                                        .claimed = on_claimed,
                                                        .lost = on_lost,
                                                        .wanted = on_wanted,
                                                        .arg = b});
}
