// The environment of a project, for the tools of the sessions that work in it.
//
//     session made, or a tool asks ──> guest of env/share ──> build, watch
//                                          │ applied, failed
//                                          v
//                         env.applied, env.failed: journal of the session, stream of the hub
//
// A session has one guest, made of its directory and its client's environment; when a client changes either, the
// guest moves. The hub's own environment is not used. Builds belong to the project, so env.building and env.ready go to
// the hub's stream only, and name no session.

#include "agent/environ.h"

#include <assert.h>

#include "base/log.h"
#include "base/map.h"
#include "env/gate.h"
#include "env/share.h"
#include "event/event.h"

enum { FIELDS_MAX = 64 * 1024, ERROR_MAX = 8 * 1024 };

struct agent_env {
    struct agent_env_opts o;
    struct agent *agent;
    struct env_gate gate;
    struct env_share *share;
    struct map tenants; // id of the session -> struct tenant
};

struct tenant {
    char *id;
    struct env_guest *guest;
};

// ---- events --------------------------------------------------------------------------------------

/// `ms` is how long it took; -1: it has only begun.
static void write_build(struct jw *w, const char *project, uint64_t generation,
                        const char *const *changed, size_t n, int64_t ms)
{
    jw_kstrz(w, "project", project);
    jw_kint(w, "generation", (int64_t)generation);
    env_write_changed(w, changed, n);
    if (ms >= 0) {
        jw_kint(w, "duration_ms", ms);
    }
}

static void emit_build(struct agent_env *v, enum event_id event, const char *project,
                       uint64_t generation, const char *const *changed, size_t n, int64_t ms)
{
    struct buf fields = {.max = FIELDS_MAX};
    struct jw w = {.out = &fields};
    jw_obj(&w);
    write_build(&w, project, generation, changed, n, ms);
    jw_end_obj(&w);
    event_emit_object(v->o.hub->events, event, &fields);
}

static void on_building(void *arg, const char *project, const struct env_building *m)
{
    emit_build(arg, EVENT_ENV_BUILDING, project, m->generation, m->changed, m->n_changed, -1);
}

static void on_ready(void *arg, const char *project, const struct env_ready *m)
{
    emit_build(arg, EVENT_ENV_READY, project, m->result->generation, m->changed, m->n_changed,
               (int64_t)m->result->duration_ms);
}

static void on_log(void *arg, const char *project, struct str line)
{
    (void)arg;
    log_info(LOG_AGENT, "env project=%s line=%s", LOGQ(str_of(project)).z, LOGQ(line).z);
}

// ---- what a session is told ------------------------------------------------------------------------

struct applied {
    const struct agent_env *v;
    const char *id;
    const struct env_applied *m;
};

/// Write the names of variables, without those that are kept from tools.
static void write_names(struct jw *w, const struct applied *a, const char *key,
                        const char *const *names)
{
    jw_karr(w, key);
    for (; *names != NULL; names++) {
        if (!agent_drops_variable(a->v->agent, str_of(a->id), str_of(*names))) {
            jw_strz(w, *names);
        }
    }
    jw_end_arr(w);
}

static void write_applied(struct jw *w, void *arg)
{
    const struct applied *a = arg;
    const struct env_applied *m = a->m;
    write_build(w, m->project, m->generation, m->changed, m->n_changed, (int64_t)m->duration_ms);
    write_names(w, a, "added", m->added);
    write_names(w, a, "changed", m->replaced);
    write_names(w, a, "removed", m->removed);
}

static void on_applied(void *arg, void *guest, const struct env_applied *m)
{
    struct agent_env *v = arg;
    struct tenant *t = guest;
    struct applied a = {.v = v, .id = t->id, .m = m};
    agent_tell(v->agent, str_of(t->id), EVENT_ENV_APPLIED, write_applied, &a);
}

struct failed {
    const char *project;
    const struct env_failed *m;
};

static void write_failed(struct jw *w, void *arg)
{
    const struct failed *f = arg;
    struct str text = str_of(f->m->text);
    text.n = MIN(text.n, (size_t)ERROR_MAX);
    write_build(w, f->project, f->m->generation, f->m->changed, f->m->n_changed,
                (int64_t)f->m->duration_ms);
    jw_kstr(w, "error", text);
}

static void on_failed(void *arg, void *guest, const char *project, const struct env_failed *m)
{
    struct agent_env *v = arg;
    struct tenant *t = guest;
    struct failed f = {.project = project, .m = m};
    log_warn(LOG_AGENT, "session=%s env=failed project=%s reason=%s", t->id,
             LOGQ(str_of(project)).z, LOGQ(str_of(m->text)).z);
    agent_tell(v->agent, str_of(t->id), EVENT_ENV_FAILED, write_failed, &f);
}

// ---- sessions ------------------------------------------------------------------------------------

static struct env_guest *guest_of(struct agent_env *v, const struct session *s)
{
    struct str id = str_of(agent_session_id(s));
    struct tenant *t = map_get(&v->tenants, id);
    if (t == NULL) { // the session is new, or from before the hub was restarted
        t = xcalloc(1, sizeof *t);
        t->id = str_dup(id);
        t->guest = env_guest_new(v->share, agent_session_dir(s), agent_session_environ(s), t);
        map_set(&v->tenants, id, t);
    }
    return t->guest;
}

static void free_tenant(struct tenant *t)
{
    if (t != NULL) {
        env_guest_free(t->guest);
        free(t->id);
        free(t);
    }
}

// ---- public --------------------------------------------------------------------------------------

static void on_settings(void *arg)
{
    struct agent_env *v = arg;
    const struct config *c = v->o.hub->config->now;
    bool boxed = strcmp(config_str(c, "sandbox.mode"), "danger-full-access") != 0;
    env_gate_unattended_set(&v->gate, boxed, config_bool(c, "sandbox.network"),
                            config_strings(c, "sandbox.hide"));
    env_share_set_timeout(v->share, (uint64_t)config_int(c, "shell.build_timeout_s") * 1000);
}

struct agent_env *agent_env_open(const struct agent_env_opts *o)
{
    struct agent_env *v = xcalloc(1, sizeof *v);
    v->o = *o;
    map_init(&v->tenants);
    env_gate_unattended_init(&v->gate, o->hub->home->dir, o->hub->home->runtime);
    struct env_share_opts opts = {.loop = o->hub->loop,
                                  .watcher = o->watcher,
                                  .gate = &v->gate,
                                  .building = on_building,
                                  .ready = on_ready,
                                  .log = on_log,
                                  .applied = on_applied,
                                  .failed = on_failed,
                                  .arg = v};
    v->share = env_share_open(&opts);
    on_settings(v);
    config_listen(o->hub->config, on_settings, v);
    return v;
}

void agent_env_close(struct agent_env *v)
{
    assert(v->share != NULL);
    map_fini_each(&v->tenants, free_tenant);
    config_unlisten(v->o.hub->config, on_settings, v);
    env_share_close(v->share);
    v->share = NULL;
}

void agent_env_free(struct agent_env *v)
{
    if (v != NULL) {
        assert(v->share == NULL);
        env_gate_trust_fini(&v->gate);
        free(v);
    }
}

void agent_env_set_agent(struct agent_env *v, struct agent *a)
{
    assert(v->agent == NULL && a != NULL);
    v->agent = a;
}

void agent_env_made(struct agent_env *v, const struct session *s)
{
    guest_of(v, s);
}

void agent_env_changed(struct agent_env *v, const struct session *s)
{
    struct tenant *t = map_get(&v->tenants, str_of(agent_session_id(s)));
    if (t != NULL) {
        env_guest_move(t->guest, agent_session_dir(s), agent_session_environ(s));
    }
}

void agent_env_ended(struct agent_env *v, const struct session *s)
{
    free_tenant(map_remove(&v->tenants, str_of(agent_session_id(s))));
}

void agent_env_ask(struct agent_env *v, const struct session *s, agent_environ_cb *done, void *arg)
{
    env_guest_ask(guest_of(v, s), done, arg);
}

void agent_env_forget(struct agent_env *v, const struct session *s, void *arg)
{
    struct tenant *t = map_get(&v->tenants, str_of(agent_session_id(s)));
    if (t != NULL) {
        env_guest_forget(t->guest, arg);
    }
}
