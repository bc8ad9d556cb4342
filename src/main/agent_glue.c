// The agent in its place: which parts answer what sessions ask, and who hears of sessions.
//
//     agent ── plugins ──> plugin/sessions.h          agent ── environment ──> agent/environ.h
//           ── enter, leave, settings ──> settings/projects.h, then plugins of the project
//           ── made, ended ──> environment, handlers of agent_created and agent_deleted

#include "main/agent_glue.h"

#include "agent/environ.h"
#include "agent/providers.h"
#include "bind/bind.h"
#include "engine/world.h"
#include "mcp/mcp.h"
#include "net/http_client.h"
#include "plugin/plugins.h"
#include "plugin/sessions.h"
#include "settings/projects.h"

struct agent_glue {
    struct agent_glue_opts o;
    struct plugin_view view;
    struct http_client *http;
    struct engine_world *engines;
    struct providers *providers;
    struct agent *agent;
    struct agent_env *env;
    loop_fn *done;
    void *done_arg;
};

// ---- projects -----------------------------------------------------------------------------------

/// A session on its way into a directory: first its settings are read, since they name plugins, then its plugins.
struct arrival {
    struct agent_glue *g;
    char *dir; // the real one; NULL: there is none
    void (*done)(void *arg, const char *real_dir);
    void *arg;
};

static void on_started(void *arg)
{
    struct arrival e = *(struct arrival *)arg;
    free(arg);
    e.done(e.arg, e.dir);
    free(e.dir);
}

/// Wait for the MCP servers of the directory, as long as they may take to start.
static void on_entered(void *arg, const char *real_dir)
{
    struct arrival *e = arg;
    if (real_dir == NULL && e->dir != NULL) { // the caller will not leave it
        projects_leave(e->g->o.projects, e->dir);
        free(e->dir);
        e->dir = NULL;
    }
    if (e->dir != NULL && e->g->o.mcp != NULL) {
        mcp_enter(e->g->o.mcp, e->dir, on_started, e);
    } else {
        on_started(e);
    }
}

static void on_settings(void *arg, const char *real_dir)
{
    struct arrival *e = arg;
    e->dir = real_dir != NULL ? xstrdup(real_dir) : NULL;
    if (e->g->o.plugins != NULL && real_dir != NULL) {
        plugins_enter_dir(e->g->o.plugins, real_dir, on_entered, e);
    } else {
        on_entered(e, real_dir);
    }
}

static void enter(void *arg, const char *dir, void (*done)(void *arg, const char *real_dir),
                  void *done_arg)
{
    struct arrival *e = xmalloc(sizeof *e);
    *e = (struct arrival){.g = arg, .done = done, .arg = done_arg};
    projects_enter(e->g->o.projects, dir, on_settings, e);
}

static void leave(void *arg, const char *real_dir)
{
    struct agent_glue *g = arg;
    projects_leave(g->o.projects, real_dir);
    if (g->o.plugins != NULL) {
        plugins_leave_dir(g->o.plugins, real_dir);
    }
    if (g->o.mcp != NULL) {
        mcp_leave(g->o.mcp, real_dir);
    }
}

static const struct config *config_of(void *arg, const char *dir)
{
    struct agent_glue *g = arg;
    return projects_config(g->o.projects, dir);
}

static char *refusal(void *arg, const char *dir)
{
    struct agent_glue *g = arg;
    return projects_refusal(g->o.projects, dir);
}

// ---- the project's environment --------------------------------------------------------------------

static void ask_environ(void *arg, const struct session *s, agent_environ_cb *done, void *done_arg)
{
    struct agent_glue *g = arg;
    agent_env_ask(g->env, s, done, done_arg);
}

static void forget_environ(void *arg, const struct session *s, void *done_arg)
{
    struct agent_glue *g = arg;
    agent_env_forget(g->env, s, done_arg);
}

// ---- Lua ----------------------------------------------------------------------------------------

/// Handlers of `event` get the session's row.
static void tell_lua(struct agent_glue *g, const char *event, const struct session *s)
{
    struct arena arena = {0};
    struct buf row = {.max = SIZE_MAX};
    struct json *v;
    if (g->o.bind == NULL) {
        return;
    }
    struct jw w = {.out = &row};
    agent_session_write(s, &w);
    if (json_parse(&v, &arena, buf_str(&row), NULL, NULL) == 0) {
        bind_notify(g->o.bind, event, v);
    }
    buf_fini(&row);
    arena_fini(&arena);
}

static void made(void *arg, const struct session *s)
{
    struct agent_glue *g = arg;
    agent_env_made(g->env, s);
    tell_lua(g, "agent_created", s);
}

static void changed(void *arg, const struct session *s)
{
    struct agent_glue *g = arg;
    agent_env_changed(g->env, s);
}

static void ended(void *arg, const struct session *s)
{
    struct agent_glue *g = arg;
    agent_env_ended(g->env, s);
    if (g->o.mcp != NULL) {
        mcp_lend(g->o.mcp, agent_session_id(s), NULL, NULL, NULL, NULL);
    }
    tell_lua(g, "agent_deleted", s);
}

static void vacated(void *arg, const struct session *s)
{
    struct agent_glue *g = arg;
    agent_env_ended(g->env, s);
}

/// Tools of MCP servers are in every session, whatever plugins it lists.
static enum agent_reach reach(void *view, const struct gen_unit *u, const char *session,
                              const char *working_dir)
{
    const struct agent_glue *g = container_of(view, struct agent_glue, view);
    enum mcp_reach r = mcp_reach(g->o.mcp, u, session, working_dir);
    return r == MCP_FOREIGN ? plugin_view_reach(view, u, session, working_dir)
           : r == MCP_HERE  ? AGENT_ALWAYS
                            : AGENT_NEVER;
}

// ---- life ---------------------------------------------------------------------------------------

struct agent_glue *agent_glue_open(const struct agent_glue_opts *o, loop_fn *ready, void *arg)
{
    struct agent_glue *g = xcalloc(1, sizeof *g);
    assert(o->agent.providers == NULL && o->agent.http == NULL && o->projects != NULL);
    char *name = xasprintf("afloat/%s", o->version);
    g->o = *o;
    const struct agent_opts *a = &o->agent;
    g->http = http_client_open(a->hub->loop, name);
    g->providers = providers_open(a->hub->loop, g->http);
    g->view = (struct plugin_view){.loop = a->hub->loop,
                                   .engine = a->engine,
                                   .plugins = o->plugins,
                                   .improvements = o->improvements};
    free(name);
    struct agent_env_opts env = {.hub = a->hub, .watcher = o->watcher};
    g->env = agent_env_open(&env);
    struct agent_opts opts = *a;
    opts.providers = g->providers;
    opts.http = g->http;
    opts.host = (struct agent_host){.plugins = &g->view,
                                    .reach = reach,
                                    .known = plugin_view_known,
                                    .required = plugin_view_required,
                                    .loaded = plugin_view_loaded,
                                    .file = plugin_view_file,
                                    .save = plugin_view_save,
                                    .enter = enter,
                                    .leave = leave,
                                    .config = config_of,
                                    .refusal = refusal,
                                    .environ = ask_environ,
                                    .forget_environ = forget_environ,
                                    .made = made,
                                    .changed = changed,
                                    .ended = ended,
                                    .vacated = vacated,
                                    .arg = g};
    g->agent = agent_open(&opts, ready, arg);
    agent_env_set_agent(g->env, g->agent);
    g->engines = engine_world_open(a->hub->loop, g->http, o->version, a->hub->home->socket);
    agent_set_engines(g->agent, engine_kinds, g->engines);
    return g;
}

struct agent *agent_glue_agent(struct agent_glue *g)
{
    return g->agent;
}

struct providers *agent_glue_providers(struct agent_glue *g)
{
    return g->providers;
}

static void on_stopped(void *arg)
{
    struct agent_glue *g = arg;
    agent_env_close(g->env);
    engine_world_close(g->engines);
    g->o.bind = NULL;
    g->done(g->done_arg);
}

void agent_glue_stop(struct agent_glue *g, loop_fn *done, void *arg)
{
    assert(g->done == NULL && g->env != NULL);
    g->done = done;
    g->done_arg = arg;
    agent_stop(g->agent, on_stopped, g);
}

void agent_glue_close(struct agent_glue *g)
{
    assert(g->providers != NULL && g->o.bind == NULL); // it has stopped
    providers_close(g->providers);
    http_client_close(g->http);
    g->providers = NULL;
    g->http = NULL;
}

void agent_glue_free(struct agent_glue *g)
{
    if (g != NULL) {
        agent_free(g->agent);
        agent_env_free(g->env);
        free(g);
    }
}
