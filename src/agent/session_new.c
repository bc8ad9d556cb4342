// A session is made: its settings are taken, its directory entered, its files written, its event synced.
//
//     agent_session_new ──> choose_mode (lane) ──> the session before it ──> enter ──> store ──> session.created ──> the caller
//
// Nobody sees it before the event is in the journal; whatever fails before that leaves no session.

#include <assert.h>
#include <sys/random.h>

#include "agent/agent_int.h"

struct creation {
    struct session *s;
    unsigned asked; // SESSION_ASKED_...
    bool copy;      // its past is still to come: who copies tells that it was made
    struct err why; // its event could not be written: its files go again
    agent_session_cb *cb;
    void *arg;
};

static void creation_fail(struct creation *c, enum problem p, const char *why)
{
    struct agent_no no;
    struct agent *a = c->s->agent;
    agent__no(&no, p, NULL, "%s", why);
    c->cb(c->arg, NULL, &no);
    agent__session_leave(c->s);
    agent__session_free(c->s);
    free(c);
    agent__release(a);
}

static void on_undone(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    (void)status; // there is nothing more to try: it is listed, and empty
    (void)e;
    creation_fail(c, PROBLEM_STORE_FAILED, c->why.msg);
}

static void on_created(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    struct session *s = c->s;
    if (status < 0) {
        c->why = *e;
        store_session_remove(s->agent->o.store, str_of(s->id), on_undone, c);
        return;
    }
    map_set(&s->agent->sessions, str_of(s->id), s);
    if (!c->copy) {
        agent__session_inherit(s);
        agent__session_tell_made(s);
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
    const char *why;
    // What the granted paths stand for is fixed before any command of the session runs. What fails here
    // fails again, with its reason, in the first call that needs it.
    struct grant g;
    (void)!grants_find(c->s->grants, c->s->working_dir, &g, NULL);
    vec_foreach (dir, &c->s->writable) {
        (void)!grants_find(c->s->grants, *dir, &g, NULL);
    }
    grants_rest(c->s->grants); // an idle session holds no descriptors
    if ((c->asked & SESSION_ASKED_SANDBOX) == 0) {
        c->s->sandbox =
            box_choose_mode(c->s->sandbox, c->s->working_dir, c->s->agent->o.home->dir, &why);
    }
}

/// Plugins of the project are there now, and may be named.
static void on_entered(struct session *s, void *arg)
{
    struct creation *c = arg;
    struct agent_no no;
    struct buf meta;
    struct jw w;
    const struct agent_host *h = &s->agent->o.host;
    const struct config *config = agent__session_config(s);
    char *wrong = h->refusal != NULL ? h->refusal(h->arg, s->working_dir) : NULL;
    if (wrong != NULL) { // with what the settings say of sessions: no new one begins
        creation_fail(c, PROBLEM_CONFLICT, wrong);
        free(wrong);
        return;
    }
    bool fits = true;
    if (config != s->agent->o.config->now) { // what the project says of sessions in it
        agent__session_default(s, config, c->asked);
        fits = agent__session_choose(s, &no);
    }
    if (!fits || !agent__session_knows_plugins(s, &no)) {
        creation_fail(c, no.problem, no.detail);
        return;
    }
    buf_init(&meta, SIZE_MAX);
    jw_init(&w, &meta);
    agent__session_write_meta(s, &w);
    char *dir = xasprintf(STR_FMT "/%s", STR_ARG(s->role.dir), s->id);
    store_session_new(s->agent->o.store, str_of(s->id), str_of(dir), buf_str(&meta), on_stored, c);
    free(dir);
    buf_fini(&meta);
}

static void on_before(void *arg, struct session *before, const struct agent_no *no)
{
    struct creation *c = arg;
    (void)before; // in memory now, where agent__session_inherit() finds it
    (void)no;     // or gone: it begins without a past
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

static void make_id(char out[16])
{
    uint8_t bytes[6];
    ssize_t n = getrandom(bytes, sizeof bytes, 0);
    assert(n == (ssize_t)sizeof bytes); // cannot fail for so few, once the machine is up
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

static void create(const struct creation *wish)
{
    struct session *s = wish->s;
    assert(s->working_dir != NULL && s->chosen);
    struct creation *c = xmalloc(sizeof *c);
    *c = *wish;
    agent__hold(s->agent);
    work_submit(s->agent->files, 0, choose_mode, on_mode, c);
}

void agent_session_new(struct agent *a, const struct json *params, const struct agent_role *role,
                       agent_session_cb *cb, void *arg)
{
    char id[16];
    struct agent_no no;
    struct str bot = json_str(json_get(params, "bot"), "");
    make_id(id);
    struct session *s = agent__session_new(a, str_of(id));
    if (role != NULL) {
        agent__session_set_role(s, role);
    }
    if (bot.n != 0 && !str_eq(bot, s->role.bot)) {
        agent__no(&no, PROBLEM_NOT_FOUND, "`afloat bots` lists them", "there is no bot '%.*s'",
                  (int)MIN(bot.n, (size_t)64), bot.p);
    } else if (a->stopping) {
        agent__no(&no, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (a->rules_fault.code != 0) {
        agent__no(&no, PROBLEM_CONFLICT, "mend the line; the file is read again when it is saved",
                  "%s", a->rules_fault.msg);
    } else if (agent__session_take(s, params, &no)) {
        if (s->working_dir == NULL) {
            s->working_dir = xstrdup("/");
        }
        if (agent__session_choose(s, &no) && agent__engine_usable(s, &no)) {
            unsigned asked =
                (json_get(params, "sandbox") != NULL ? SESSION_ASKED_SANDBOX : 0U) |
                (json_get(params, "network") != NULL ? SESSION_ASKED_NETWORK : 0U) |
                (json_get(params, "permission") != NULL ? SESSION_ASKED_PERMISSION : 0U);
            create(&(struct creation){.s = s, .asked = asked, .cb = cb, .arg = arg});
            return;
        }
    }
    agent__session_free(s);
    agent__answer_session(a, cb, arg, NULL, &no);
}

void agent__session_tell_made(const struct session *s)
{
    const struct agent_host *h = &s->agent->o.host;
    h->made(h->arg, s);
}

/// Create `s`, whose settings are those of another session.
static void create_like(struct session *s, bool copy, agent_session_cb *cb, void *arg)
{
    struct agent *a = s->agent;
    struct agent_no no;
    if (agent__session_choose(s, &no)) {
        create(&(struct creation){.s = s, .asked = ~0U, .copy = copy, .cb = cb, .arg = arg});
    } else {
        agent__session_free(s);
        agent__answer_session(a, cb, arg, NULL, &no);
    }
}

static struct session *new_like(const struct session *s)
{
    char id[16];
    make_id(id);
    struct session *copy = agent__session_new(s->agent, str_of(id));
    agent__session_copy_settings(copy, s);
    return copy;
}

void agent__session_copy(const struct session *s, agent_session_cb *cb, void *arg)
{
    struct session *copy = new_like(s);
    copy->turns = s->turns; // its past has these names already
    create_like(copy, true, cb, arg);
}

void agent__session_spawn(const struct session *s,
                          void (*prepare)(struct session *child, const void *wish),
                          const void *wish, agent_session_cb *cb, void *arg)
{
    struct session *child = new_like(s);
    agent__session_set_role(child, &(struct agent_role){.dir = STR("sessions")});
    agent__session_set(&child->parent, str_of(s->id));
    prepare(child, wish);
    create_like(child, false, cb, arg);
}
