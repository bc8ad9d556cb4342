// Calls that run as jobs (tool.c): the box and the environment of the session, or of the directory when there
// is no session.
//
// A file tool that the user is asked about runs twice: first as a preview, which writes nothing and tells what
// would change. A job that would change a file that runs outside of the sandbox stops, asks, and runs again.
// Without a session there is no client with an environment: commands get a PATH, a home and a locale.

#include <assert.h>
#include <stdlib.h>

#include "agent/agent_int.h"
#include "agent/tool_int.h"

static void on_progress(struct tool_job *j, struct str text, void *arg)
{
    (void)j;
    tool_call__tell_progress(arg, text);
}

static void on_done(struct tool_job *j, const struct tool_result *r, void *arg)
{
    struct tool_call *c = arg;
    (void)j;
    c->job = NULL;
    c->guarded = r->guarded;
    if (r->guarded && !c->consented && tool_call__can_ask(c) && !c->cancelled) {
        c->diff = arena_str(c->site->arena, r->diff);
        tool_call__ask(c);
    } else {
        c->diff = r->success ? arena_str(c->site->arena, r->diff) : STR_NULL;
        tool_call_finish(c, r->output, r->error);
    }
}

/// The preview is done: ask the user. A call that cannot succeed needs no question.
static void on_previewed(struct tool_job *j, const struct tool_result *r, void *arg)
{
    struct tool_call *c = arg;
    (void)j;
    c->job = NULL;
    if (!r->success || c->cancelled) {
        tool_call_finish(c, r->output, r->error != NULL ? r->error : "interrupted");
        return;
    }
    c->diff = arena_str(c->site->arena, r->diff);
    c->guarded = r->guarded;
    tool_call__ask(c);
}

/// The list that the setting `key` holds, followed by `more`; NULL at the end.
static const char *const *join(const struct config *config, const char *key, char *const *more,
                               size_t n_more, struct arena *a)
{
    const char *const *given = config_strings(config, key);
    size_t n = str_count(given);
    const char **list = arena_calloc(a, n + n_more + 1, sizeof *list);
    memcpy(list, given, n * sizeof *list);
    for (size_t i = 0; i < n_more; i++) {
        list[n + i] = more[i];
    }
    return list;
}

static const char *const *plain_environment(struct arena *a)
{
    const char **env = arena_calloc(a, 4, sizeof *env);
    const char *home = getenv("HOME");
    env[0] = "PATH=" AGENT_PATH;
    env[1] = "LANG=C.UTF-8";
    env[2] = arena_printf(a, "HOME=%s", home != NULL ? home : "/");
    return env;
}

void tool_call__place(struct call_site *site, const char *const *vars, struct box_policy *policy,
                      struct tool_env *env)
{
    struct agent *a = site->agent;
    struct session *s = tool_call__session(site);
    const struct session *root = s != NULL ? agent__session_root(s) : NULL;
    struct arena *arena = site->arena;
    const struct config *config =
        s != NULL ? agent__session_config(s) : agent__config_at(a, site->dir);
    *policy = (struct box_policy){
        .mode = s != NULL ? root->sandbox : site->mode,
        .network = s != NULL ? root->network : config_bool(config, "sandbox.network"),
        .working_dir = s != NULL ? s->working_dir : site->dir,
        .writable = join(config, "sandbox.writable", s != NULL ? root->writable.p : NULL,
                         s != NULL ? root->writable.n : 0, arena),
        .hide = join(config, "sandbox.hide", NULL, 0, arena),
        .home = a->o.hub->home->dir,
        .runtime = a->o.hub->home->runtime,
        .grants = s != NULL ? root->grants : NULL};
    *env = (struct tool_env){.loop = a->o.hub->loop,
                             .lane = a->tools,
                             .policy = policy,
                             .environment = s != NULL ? agent__session_filter(s, vars, arena)
                                                      : plain_environment(arena)};
    agent_guard(a, env, arena);
}

char *tool_call__outputs_dir(const struct call_site *site)
{
    const struct session *s = tool_call__session(site);
    return s != NULL ? agent__session_path(s, "outputs")
                     : xasprintf("%s/outputs", site->agent->o.hub->home->state);
}

static void start(struct tool_call *c, const char *const *vars, bool preview)
{
    const struct tool_cb callbacks = {.on_progress = on_progress,
                                      .on_editor = tool_call__ask_editor,
                                      .on_done = preview ? on_previewed : on_done};
    const struct agent_editor *ed = tool_call__editor(c);
    assert(c->job == NULL && c->entry->tool->ops->work != NULL);
    char *outputs = tool_call__outputs_dir(c->site);
    struct box_policy policy;
    struct tool_env env;
    tool_call__place(c->site, vars, &policy, &env);
    env.outputs_dir = outputs;
    env.preview = preview;
    env.consented = c->consented;
    env.from_editor = ed != NULL && ed->reads;
    env.to_editor = ed != NULL && ed->writes;
    env.call_id = arena_strdup(c->site->arena, c->id);
    c->job = tool_job_start(&env, c->entry->tool, tool_call_input(c), &callbacks, c);
    free(outputs);
}

static void on_environ(void *arg, const char *const *vars)
{
    struct tool_call *c = arg;
    c->dressing = false;
    if (!tool_call__run_terminal(c, vars)) {
        start(c, vars, false);
    }
}

/// Only a command needs variables, so no other tool waits for the project's environment.
void tool__start_job(struct tool_call *c)
{
    struct session *s = tool_call__session(c->site);
    const struct agent_host *h = &c->site->agent->o.host;
    if (s != NULL && c->entry->tool->effect == TOOL_RUNS) {
        c->dressing = true;
        h->environ(h->arg, s, on_environ, c);
    } else {
        start(c, s != NULL ? agent_session_environ(s) : NULL, false);
    }
}

void tool_call__preview(struct tool_call *c)
{
    start(c, agent_session_environ(tool_call__session(c->site)), true);
}

bool tool__cancel_job(struct tool_call *c)
{
    const struct agent_host *h = &c->site->agent->o.host;
    if (c->dressing) {
        c->dressing = false;
        h->forget_environ(h->arg, tool_call__session(c->site), c);
    }
    if (c->job != NULL) {
        tool_job_cancel(c->job);
    }
    tool_call__forget_editor(c);
    return c->job == NULL;
}
