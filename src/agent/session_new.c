// A session is made: its settings are taken, its directory entered, its files written, its event synced.
//
//     agent_session_new ──> its directories ──> its engine ──> choose_mode (lane) ──┐
//                                                                                   │
//     the caller <── session.created <── store <── enter <── the session before it <┘
//
// No client sees it before the event is in the journal; a failure before that leaves no session behind.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/random.h"

struct creation {
    struct session *s;
    unsigned asked; // SESSION_ASKED_...
    // a fork, whose past is still to be copied: session_fork.c tells the host that it was made
    bool copy;
    bool only_asked; // agent_session_check(): nothing is made
    struct err why;  // why its event could not be written, while its files are removed again
    agent_session_cb *cb;
    void *arg;
};

static void creation_refuse(struct creation *c, const struct agent_no *no)
{
    struct agent *a = c->s->agent;
    c->cb(c->arg, NULL, no);
    agent__session_leave(c->s);
    agent__session_free(c->s);
    free(c);
    agent__release(a);
}

static void creation_fail(struct creation *c, enum problem p, const char *why)
{
    struct agent_no no;
    agent_no_set(&no, p, NULL, "%s", why);
    creation_refuse(c, &no);
}

static void on_undone(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    (void)status; // if even this failed, an empty session stays in the lists
    (void)e;
    creation_fail(c, PROBLEM_STORE_FAILED, c->why.msg);
}

static void on_created(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    struct session *s = c->s;
    if (status < 0) {
        c->why = *e;
        store_session_remove(s->agent->o.hub->store, str_of(s->id), on_undone, c);
        return;
    }
    map_set(&s->agent->sessions, str_of(s->id), s);
    if (!c->copy) {
        agent__session_inherit(s);
        agent__session_begin_talk(s);
        s->agent->o.host.made(s->agent->o.host.arg, s);
    }
    c->cb(c->arg, s, NULL);
    free(c);
    agent__release(s->agent);
}

static void on_stored(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    struct note n;
    if (status < 0) {
        creation_fail(c, PROBLEM_STORE_FAILED, e->msg);
        return;
    }
    struct jw *w = note__begin(&n, c->s, NULL, EVENT_SESSION_CREATED);
    jw_kstrz(w, "working_dir", c->s->working_dir);
    jw_kstrz(w, "provider", c->s->provider);
    jw_kstrz(w, "model", c->s->model);
    jw_kstrz(w, "title", c->s->title);
    if (c->s->parent != NULL) {
        jw_kstrz(w, "parent", c->s->parent);
    }
    if (c->s->role.bot.n != 0) {
        agent__session_write_role(c->s, w);
    }
    note__end(&n, STORE_SYNCED, on_created, c);
}

static void choose_mode(void *arg) // on a lane: it looks at the disk
{
    struct creation *c = arg;
    // Look up what the granted paths stand for before any command of the session runs. A path that fails here
    // fails again, with its reason, in the first call that needs it.
    struct grant g;
    (void)!grants_find(c->s->grants, c->s->working_dir, &g, NULL);
    vec_foreach (dir, &c->s->writable) {
        (void)!grants_find(c->s->grants, *dir, &g, NULL);
    }
    grants_rest(c->s->grants); // an idle session holds no descriptors
    if ((c->asked & SESSION_ASKED_SANDBOX) == 0) {
        c->s->sandbox = box_choose_mode(c->s->sandbox, c->s->working_dir,
                                        c->s->agent->o.hub->home->dir, &c->s->sandbox_reason);
    }
}

/// The plugins of the project serve now, and `plugins` may name them.
static void on_entered(struct session *s, void *arg)
{
    struct creation *c = arg;
    struct agent_no no;
    struct buf meta = {.max = SIZE_MAX};
    const struct agent_host *h = &s->agent->o.host;
    const struct config *config = agent__session_config(s);
    char *wrong = h->refusal != NULL ? h->refusal(h->arg, s->working_dir) : NULL;
    if (wrong != NULL) { // the settings cannot be used: no new session begins
        creation_fail(c, PROBLEM_CONFLICT, wrong);
        free(wrong);
        return;
    }
    bool fits = true;
    if (config != s->agent->o.hub->config->now) { // the project has settings of its own
        agent__session_default(s, config, c->asked);
        fits = agent__session_choose(s, &no);
    }
    if (!fits || !agent__session_knows_plugins(s, &no)) {
        creation_refuse(c, &no);
        return;
    }
    struct jw w = {.out = &meta};
    agent__session_write_meta(s, &w);
    char *dir = xasprintf(STR_FMT "/%s", STR_ARG(s->role.dir), s->id);
    store_session_new(s->agent->o.hub->store, str_of(s->id), str_of(dir), buf_str(&meta), on_stored,
                      c);
    free(dir);
    buf_fini(&meta);
}

static void on_before(void *arg, struct session *before, const struct agent_no *no)
{
    struct creation *c = arg;
    (void)before; // it is in memory now, where agent__session_inherit() finds it
    (void)no;     // if it is gone, the new session begins without a past
    agent__session_enter(c->s, on_entered, c);
}

static void on_mode(void *arg)
{
    struct creation *c = arg;
    if (c->s->role.before.n != 0 && !c->copy) {
        agent_session_get(c->s->agent, c->s->role.before, on_before, c);
    } else {
        agent__session_enter(c->s, on_entered, c);
    }
}

/// The settings are complete: continue with the disk and the store.
static void create(struct creation *c)
{
    const struct session *s = c->s;
    assert(s->working_dir != NULL && s->chosen);
    if (c->only_asked) {
        creation_refuse(c, NULL);
        return;
    }
    work_submit(s->agent->files, work_mount_key(s->working_dir), choose_mode, on_mode, c);
}

static struct creation *creation_new(struct session *s, agent_session_cb *cb, void *arg)
{
    struct creation *c = xcalloc(1, sizeof *c);
    *c = (struct creation){.s = s, .cb = cb, .arg = arg};
    agent__hold(s->agent);
    return c;
}

static bool take_params(struct session *s, const struct json *params, struct agent_no *no)
{
    const struct agent *a = s->agent;
    struct str bot = json_get_text(params, "bot");
    if (bot.n != 0 && !str_eq(bot, s->role.bot)) {
        return agent_no_set(no, PROBLEM_NOT_FOUND, "`afloat bots` lists them",
                            "there is no bot '%.*s'", (int)MIN(bot.n, (size_t)64), bot.p);
    }
    if (a->stopping) {
        return agent_no_set(no, PROBLEM_STOPPING, NULL, "the hub is stopping");
    }
    if (a->rules_fault.code != 0) {
        return agent_no_set(no, PROBLEM_CONFLICT,
                            "mend the line; the file is read again when it is saved", "%s",
                            a->rules_fault.msg);
    }
    if (!agent__session_take(s, params, no)) {
        return false;
    }
    if (s->working_dir == NULL) {
        s->working_dir = xstrdup("/");
    }
    return agent__session_choose(s, no);
}

static void on_usable(void *arg, const struct agent_no *no)
{
    if (no != NULL) {
        creation_refuse(arg, no);
    } else {
        create(arg);
    }
}

static void on_places(void *arg, const struct json *params, const char *read_only,
                      const struct agent_no *not_there)
{
    static const struct {
        const char *param;
        unsigned asked;
    } asks[] = {{"sandbox", SESSION_ASKED_SANDBOX},
                {"network", SESSION_ASKED_NETWORK},
                {"permission", SESSION_ASKED_PERMISSION}};
    struct creation *c = arg;
    struct agent_no no;
    (void)read_only; // choose_mode() looks again, for forks and subagents too
    if (not_there != NULL || !take_params(c->s, params, &no)) {
        creation_refuse(c, not_there != NULL ? not_there : &no);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        c->asked |= json_get(params, asks[i].param) != NULL ? asks[i].asked : 0;
    }
    if (c->s->engine != NULL) {
        (void)agent__engine_look(c->s, on_usable, c); // a creation cannot be cancelled
    } else {
        create(c);
    }
}

static struct session *new_with_id(struct agent *a)
{
    char id[13];
    random_hex(id, sizeof id);
    return agent__session_new(a, str_of(id));
}

static void begin(struct agent *a, const struct json *params, const struct agent_role *role,
                  bool only_asked, agent_session_cb *cb, void *arg)
{
    struct agent_no no;
    if (a->stopping) {
        agent_no_set(&no, PROBLEM_STOPPING, NULL, "the hub is stopping");
        agent__answer_session(a, cb, arg, NULL, &no);
        return;
    }
    struct session *s = new_with_id(a);
    if (role != NULL) {
        agent__session_set_role(s, role);
    }
    struct creation *c = creation_new(s, cb, arg);
    c->only_asked = only_asked;
    agent__find_places(a, params, on_places, c);
}

void agent_session_new(struct agent *a, const struct json *params, const struct agent_role *role,
                       agent_session_cb *cb, void *arg)
{
    begin(a, params, role, false, cb, arg);
}

void agent_session_check(struct agent *a, const struct json *params, const struct agent_role *role,
                         agent_session_cb *cb, void *arg)
{
    begin(a, params, role, true, cb, arg);
}

/// Create `s`, whose settings are those of another session.
static void create_like(struct session *s, bool copy, agent_session_cb *cb, void *arg)
{
    struct agent *a = s->agent;
    struct agent_no no;
    if (agent__session_choose(s, &no)) {
        struct creation *c = creation_new(s, cb, arg);
        c->asked = ~0U;
        c->copy = copy;
        create(c);
    } else {
        agent__session_free(s);
        agent__answer_session(a, cb, arg, NULL, &no);
    }
}

void agent__session_copy(const struct session *s, agent_session_cb *cb, void *arg)
{
    struct session *copy = new_with_id(s->agent);
    // a conversation with the same bot that belongs to no run
    agent__session_set_role(copy, &(struct agent_role){.bot = s->role.bot,
                                                       .project = s->role.project,
                                                       .dir = s->role.dir,
                                                       .before = s->role.before});
    agent__session_set_settings(copy, s);
    copy->turns = s->turns; // the past that it gets has turns of these numbers
    create_like(copy, true, cb, arg);
}

void agent__session_spawn(const struct session *s,
                          void (*prepare)(struct session *child, const void *wish),
                          const void *wish, agent_session_cb *cb, void *arg)
{
    struct session *child = new_with_id(s->agent);
    agent__session_set_settings(child, s);
    agent__session_set_role(child, &(struct agent_role){.dir = STR("sessions")});
    agent__session_set(&child->parent, str_of(s->id));
    prepare(child, wish);
    create_like(child, false, cb, arg);
}
