// What all hubs of a user have in common and take over while they run: choices, and the current set of plugins.
//
//     doorbell, or every POLL_MS ──> plugin_look ──> choices: read again, told when they differ
//                                                └─> the set that this hub is to have
//
//     another set than ours:  the set ──> plan (worker) ──> contents ──> files (worker) ──> reload
//                                 ──> all serve: said "committed"
//                                 ──> one does not: files back (worker) ──> reload ──> said "rolled_back"
//     how to get back is known, and the set is not wanted any more: the same way back
//
// No hub tells another to roll back: the database says which set each hub is to have, and each hub takes that one. So
// a hub goes back by itself when the hub that leads a roll-out is lost, and one that was down takes the current set
// at its start. The doorbell only says that there is something to look at; a ring that is lost costs a poll.
//
// Invariants:
//   - one job at a time; it has `state` while it runs.
//   - a set that could not be taken is not tried again until another is wanted or the hub starts anew.

#include <assert.h>

#include "base/log.h"
#include "config/home.h"
#include "fleet/fleet_int.h"
#include "store/choices.h"

enum { POLL_MS = 1000 };

static const struct pg_stmt stmt_look = {
    "plugin_look", "SELECT choices, wanted, current, id, EXISTS (SELECT FROM afloat.hubs"
                   " WHERE owner = current_user AND name = $1 AND state = 'draining')"
                   " FROM afloat.plugin_look($1)"};
static const struct pg_stmt stmt_set = {
    "plugin_set", "SELECT body FROM afloat.plugin_sets WHERE owner = afloat.plugin_owner()"
                  " AND number = $1"};
static const struct pg_stmt stmt_blobs = {
    "plugin_blobs", "SELECT hash, body FROM afloat.plugin_blobs WHERE owner = afloat.plugin_owner()"
                    " AND hash = ANY ($1)"};
static const struct pg_stmt stmt_say = {"plugin_say", "SELECT afloat.plugin_say($1, $2, $3)"};

void channel__ask(struct fleet *f, const struct pg_stmt *stmt, const struct pg_param *params, int n,
                  pg_cb *cb, void *arg)
{
    f->n_asked++;
    pg_query(f->hub.pg, CHANNEL_KEY, stmt, params, n, cb, arg);
}

// ---- choices --------------------------------------------------------------------------------------

static void on_choices(void *arg, int status, const struct err *e)
{
    struct fleet *f = arg;
    struct channel *c = &f->channel;
    struct buf now = {.max = SIZE_MAX};
    json_write(&now, choices_all(f->o.choices), 0);
    c->reading = false;
    if (status < 0) {
        c->choices = -1; // the next look tries again
        log_warn(LOG_STORE, "choices=unread reason=%s", LOGQ(str_of(e->msg)).z);
    } else if (!str_eq(buf_str(&now), buf_str(&c->choices_as)) && f->open) {
        f->plugins.chosen(f->plugins.arg);
    }
    buf_fini(&c->choices_as);
    buf_fini(&now);
    fleet__answered(f);
}

static void read_choices(struct fleet *f, int64_t change)
{
    struct channel *c = &f->channel;
    if (!c->reading && change != c->choices) {
        c->reading = true;
        c->choices = change;
        buf_init(&c->choices_as, SIZE_MAX);
        json_write(&c->choices_as, choices_all(f->o.choices), 0);
        f->n_asked++;
        choices_load(f->o.choices, on_choices, f);
    }
}

// ---- a job ----------------------------------------------------------------------------------------

struct job {
    struct fleet *f;
    int64_t number; // of the set that is taken, or left
    char *home;
    struct channel_state state; // of the channel, while the job runs
    struct plugin_set set;
    channel_plan plan;
    channel_blobs blobs;
    channel_paths touched; // what may serve other contents than before
    channel_paths own;     // of these, files that this hub published itself
    struct buf kept;       // places that the user changed during the roll-out
    int64_t generation_before, generation;
    char *reason; // why it failed; NULL: it did not
    int rc;
    struct err e;
};

static struct job *job_new(struct fleet *f, int64_t number)
{
    struct job *j = xcalloc(1, sizeof *j);
    struct channel *c = &f->channel;
    assert(!c->busy);
    j->f = f;
    j->number = number;
    j->home = xstrdup(f->o.home->dir);
    j->state = c->state;
    j->generation_before = j->generation = f->o.generation(f->o.arg);
    buf_init(&j->kept, SIZE_MAX);
    c->state = (struct channel_state){0};
    c->busy = true;
    f->n_asked++;
    return j;
}

static void job_free(struct job *j)
{
    struct fleet *f = j->f;
    bool failed = j->rc < 0; // then the next poll tries again, not this moment
    f->channel.state = j->state;
    f->channel.busy = false;
    plugin_set_fini(&j->set);
    vec_fini(&j->plan);
    channel_blobs_fini(&j->blobs);
    channel_paths_fini(&j->touched);
    channel_paths_fini(&j->own);
    buf_fini(&j->kept);
    free(j->reason);
    free(j->home);
    free(j);
    if (f->open && !failed) {
        channel__look(f);
    }
    fleet__answered(f);
}

static void add_path(channel_paths *to, const struct job *j, const struct set_item *it)
{
    vec_push(to, ((struct channel_path){.path = channel_path_of(j->home, it)}));
}

/// Add the plugins that the set changed and that were not written here: this hub published them, so their files are as the
/// user wants them.
static void add_published(channel_paths *to, const struct job *j)
{
    const struct channel_state *s = &j->state;
    vec_foreach (it, &s->base.items) {
        if (strcmp(it->hash, plugin_set_hash(&s->before_base, it)) != 0 &&
            plugin_set_find(&s->before_files, it) == NULL) {
            add_path(to, j, it);
        }
    }
}

/// Add why the job failed to what is known of that.
static void add_reason(struct job *j, const char *what, const char *why)
{
    char *before = j->reason;
    j->reason = xasprintf("%s%s%s: %s", before != NULL ? before : "", before != NULL ? "; " : "",
                          what, why);
    free(before);
}

// ---- its answer -----------------------------------------------------------------------------------

static void write_steps(struct jw *w, const struct job *j, enum channel_what what, const char *key)
{
    bool any = false;
    vec_foreach (s, &j->plan) {
        if (s->what == what) {
            if (!any) {
                jw_karr(w, key);
            }
            any = true;
            jw_strf(w, "%s: %s", s->item->place, s->why);
        }
    }
    if (any) {
        jw_end_arr(w);
    }
}

static void on_said(void *arg, const struct pg_result *r, const struct err *e)
{
    struct fleet *f = arg;
    (void)r;
    if (e != NULL) {
        log_warn(LOG_STORE, "plugins=unsaid reason=%s", LOGQ(str_of(e->msg)).z);
    }
    fleet__answered(f);
}

/// Say what became of the set, and end the job.
static void say(struct job *j, const char *state)
{
    struct fleet *f = j->f;
    struct buf answer = {.max = SIZE_MAX};
    struct pg_number n;
    struct jw w = {.out = &answer};
    jw_obj(&w);
    jw_kstrz(&w, "state", state);
    jw_kint(&w, "generation_before", j->generation_before);
    jw_kint(&w, "generation_after", j->generation);
    if (j->reason != NULL) {
        jw_kstrz(&w, "reason", j->reason);
    }
    write_steps(&w, j, CHANNEL_CONFLICT, "conflicts");
    write_steps(&w, j, CHANNEL_SKIP, "skipped");
    jw_karr(&w, "plugins");
    vec_foreach (p, &j->touched) {
        struct fleet_plugin found;
        if (f->plugins.find(f->plugins.arg, p->path, &found)) {
            jw_strz(&w, found.unit);
        }
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    log_info(LOG_STORE, "plugins set=%lld state=%s generation=%lld reason=%s", (long long)j->number,
             state, (long long)j->generation, LOGQ(str_of(j->reason != NULL ? j->reason : "")).z);
    const struct pg_param params[] = {pg_text(str_of(f->hub.name)), pg_int(&n, j->number),
                                      pg_text(buf_str(&answer))};
    channel__ask(f, &stmt_say, params, 3, on_said, f);
    buf_fini(&answer);
    job_free(j);
}

/// It was not even begun.
static void refuse(struct job *j, const char *state, const char *why)
{
    free(j->reason);
    j->reason = xstrdup(why);
    j->f->channel.refused = j->number;
    say(j, state);
}

// ---- back -----------------------------------------------------------------------------------------

static void on_held(void *arg, int64_t generation)
{
    struct job *j = arg;
    j->generation = generation != 0 ? generation : j->generation;
    say(j, "rolled_back");
}

/// The files of a hub that published are the user's own and stay; what serves goes back.
static void hold_own(struct job *j, int64_t generation)
{
    struct fleet *f = j->f;
    vec(const char *) paths = {0};
    struct err e = {0};
    j->generation = generation != 0 ? generation : j->generation;
    vec_foreach (p, &j->own) {
        vec_push(&paths, p->path);
    }
    int rc = paths.n == 0 ? ERR_NOT_FOUND
                          : f->plugins.hold(f->plugins.arg, j->state.generation, paths.p, paths.n,
                                            on_held, j, &e);
    if (rc < 0 && paths.n != 0) {
        add_reason(j, "this hub still serves its own files", e.msg);
    }
    vec_fini(&paths);
    if (rc < 0) {
        on_held(j, 0);
    }
}

static void on_back_reloaded(void *arg, int64_t generation)
{
    hold_own(arg, generation);
}

static void revert_work(void *arg) // on the lane
{
    struct job *j = arg;
    j->rc = channel_revert(j->home, &j->state, &j->kept, &j->e);
}

static void on_reverted(void *arg)
{
    struct job *j = arg;
    struct fleet *f = j->f;
    if (j->rc < 0) {
        log_error(LOG_STORE, "plugins=unreverted reason=%s", LOGQ(str_of(j->e.msg)).z);
        refuse(j, "rolled_back", j->e.msg);
        return;
    }
    if (j->kept.n != 0) {
        add_reason(j, "changed here meanwhile and kept", buf_z(&j->kept));
    }
    f->plugins.reload(f->plugins.arg, on_back_reloaded, j);
}

static void go_back(struct job *j)
{
    const struct channel_state *s = &j->state;
    vec_fini(&j->plan); // its items go with the state
    add_published(&j->own, j);
    vec_foreach (it, &s->before_base.items) { // and those that it removed
        if (plugin_set_find(&s->base, it) == NULL &&
            plugin_set_find(&s->before_files, it) == NULL) {
            add_path(&j->own, j, it);
        }
    }
    work_submit(j->f->lane, 0, revert_work, on_reverted, j);
}

// ---- there ----------------------------------------------------------------------------------------

static void save_work(void *arg) // on the lane
{
    struct job *j = arg;
    j->state.doing = false;
    j->state.generation = j->generation;
    j->rc = channel_state_save(&j->state, j->home, &j->e);
}

static void on_saved(void *arg)
{
    struct job *j = arg;
    if (j->rc < 0) {
        j->reason = xstrdup(j->e.msg);
        j->f->channel.refused = j->number;
        go_back(j);
    } else {
        say(j, "committed");
    }
}

static void on_reloaded(void *arg, int64_t generation)
{
    struct job *j = arg;
    struct fleet *f = j->f;
    struct fleet_plugin found;
    j->generation = generation != 0 ? generation : j->generation;
    vec_foreach (p, &j->touched) {
        if (j->reason == NULL && f->plugins.find(f->plugins.arg, p->path, &found) &&
            found.fault != NULL) {
            j->reason = xasprintf("plugin '%s': %s", found.unit, found.fault);
        }
    }
    if (generation == 0 && j->reason == NULL) {
        j->reason = xstrdup("the hub is stopping");
    }
    if (j->reason != NULL) {
        f->channel.refused = j->number;
        go_back(j);
    } else {
        work_submit(f->lane, 0, save_work, on_saved, j);
    }
}

static void take_work(void *arg) // on the lane
{
    struct job *j = arg;
    if (j->state.generation == 0) {
        j->state.generation = j->generation_before; // the first set: back to what was
    }
    vec_fini(&j->plan); // the files here may have changed while the contents came
    channel_make_plan(&j->plan, j->home, &j->state, &j->set);
    j->rc = channel_take(&j->plan, j->home, &j->state, &j->set, j->number, &j->blobs, &j->e);
}

static void on_files(void *arg)
{
    struct job *j = arg;
    if (j->rc < 0) {
        vec_fini(&j->plan);
        refuse(j, "rolled_back", j->e.msg);
        return;
    }
    vec_foreach (it, &j->state.before_files.items) {
        add_path(&j->touched, j, it);
    }
    add_published(&j->touched, j);
    j->f->plugins.reload(j->f->plugins.arg, on_reloaded, j);
}

static void on_blobs(void *arg, const struct pg_result *r, const struct err *e)
{
    struct job *j = arg;
    struct fleet *f = j->f;
    for (size_t i = 0; r != NULL && i < pg_rows(r); i++) {
        struct str text = pg_get(r, i, 1), hash = pg_get(r, i, 0);
        struct channel_blob b = {.text = str_dup(text), .n = text.n};
        memcpy(b.hash, hash.p, MIN(hash.n, sizeof b.hash - 1));
        vec_push(&j->blobs, b);
    }
    if (e != NULL) {
        j->rc = e->code;
        job_free(j);
    } else {
        work_submit(f->lane, 0, take_work, on_files, j);
    }
    fleet__answered(f);
}

static void plan_work(void *arg) // on the lane
{
    struct job *j = arg;
    channel_make_plan(&j->plan, j->home, &j->state, &j->set);
}

static void on_planned(void *arg)
{
    struct job *j = arg;
    struct buf list = {.max = SIZE_MAX};
    size_t n = 0;
    vec_foreach (s, &j->plan) {
        n += s->what == CHANNEL_WRITE;
    }
    pg_array_begin(&list, n);
    vec_foreach (s, &j->plan) {
        if (s->what == CHANNEL_WRITE) {
            pg_array_add(&list, str_of(s->item->hash));
        }
    }
    const struct pg_param hashes = pg_array(&list);
    channel__ask(j->f, &stmt_blobs, &hashes, 1, on_blobs, j);
    buf_fini(&list);
}

static void on_set(void *arg, const struct pg_result *r, const struct err *e)
{
    struct job *j = arg;
    struct fleet *f = j->f;
    struct arena a = {0};
    struct json *v;
    if (e != NULL || pg_rows(r) != 1) {
        j->rc = ERR_NOT_FOUND;
        job_free(j);
    } else if (json_parse(&v, &a, pg_get(r, 0, 0), NULL, &j->e) < 0 ||
               plugin_set_read(&j->set, v, &j->e) < 0) {
        refuse(j, "rolled_back", j->e.msg);
    } else {
        work_submit(f->lane, 0, plan_work, on_planned, j);
    }
    arena_fini(&a);
    fleet__answered(f);
}

static void take(struct fleet *f, int64_t number)
{
    struct job *j = job_new(f, number);
    struct pg_number n;
    const char *off = f->plugins.off(f->plugins.arg);
    j->generation_before = rollout__previous(f, number, j->generation_before);
    if (off != NULL) {
        refuse(j, "skipped", off);
    } else {
        const struct pg_param param = pg_int(&n, number);
        channel__ask(f, &stmt_set, &param, 1, on_set, j);
    }
}

// ---- looking --------------------------------------------------------------------------------------

static void confirm_work(void *arg) // on the lane
{
    struct job *j = arg;
    j->rc = channel_confirm(j->home, &j->state, &j->e);
}

static void on_confirmed(void *arg)
{
    job_free(arg);
}

/// This hub is to have set `wanted` of the channel `id`; `current` is what all have.
static void want(struct fleet *f, int64_t wanted, int64_t current, struct str id)
{
    struct channel *c = &f->channel;
    struct channel_state *s = &c->state;
    if (!c->loaded || c->busy) {
        return;
    }
    if (!str_eqz(id,
                 s->channel)) { // another database: what it says is compared with the files alone
        channel_state_fini(s);
        memcpy(s->channel, id.p, MIN(id.n, sizeof s->channel - 1));
        c->refused = 0;
    }
    bool first = !c->looked;
    c->looked = true;
    if (s->may_revert && (s->doing || wanted != s->number)) {
        struct job *j = job_new(f, s->number);
        go_back(j);
    } else if (s->may_revert && current == s->number) {
        work_submit(f->lane, 0, confirm_work, on_confirmed, job_new(f, current));
    } else if (wanted != s->number && wanted != c->refused && wanted != 0 &&
               (first || !f->draining || f->rollout != NULL)) {
        take(f, wanted);
    }
}

static void on_looked(void *arg, const struct pg_result *r, const struct err *e)
{
    struct fleet *f = arg;
    struct channel *c = &f->channel;
    c->looking = false;
    if (e == NULL && f->open) {
        c->looks++;
        f->draining = pg_get_bool(r, 0, 4); // the other look may not have told yet
        read_choices(f, pg_get_int(r, 0, 0));
        want(f, pg_get_int(r, 0, 1), pg_get_int(r, 0, 2), pg_get(r, 0, 3));
    }
    if (f->open) {
        timer_start(&c->poll, c->again ? 0 : POLL_MS);
    }
    c->again = false;
    fleet__answered(f);
}

void channel__look(void *arg)
{
    struct fleet *f = arg;
    struct channel *c = &f->channel;
    const struct pg_param hub = pg_text(str_of(f->hub.name));
    if (c->looking) { // its answer may be older than what rang
        c->again = true;
        return;
    }
    c->looking = true;
    channel__ask(f, &stmt_look, &hub, 1, on_looked, f);
}

static void load_work(void *arg) // on the lane
{
    struct job *j = arg;
    j->rc = channel_state_load(&j->state, j->home, &j->e);
}

static void on_loaded(void *arg)
{
    struct job *j = arg;
    if (j->rc < 0) {
        log_error(LOG_STORE, "plugins=off reason=%s", LOGQ(str_of(j->e.msg)).z);
    }
    j->f->channel.loaded = j->rc == 0;
    job_free(j);
}

void channel__open(struct fleet *f)
{
    assert(f->shared && f->plugins.chosen != NULL);
    f->channel.choices = -1;
    timer_init(&f->channel.poll, f->o.loop, channel__look, f);
    work_submit(f->lane, 0, load_work, on_loaded, job_new(f, 0));
}

void channel__close(struct fleet *f)
{
    timer_stop(&f->channel.poll);
    rollout__stop(f, "the hub is stopping");
}

void channel__fini(struct fleet *f)
{
    assert(!f->channel.busy);
    channel_state_fini(&f->channel.state);
}
