// Plugins and improvements as sessions see them, and the improvements that sessions write.
//
//     plugin_save ── scope: this session ── file written ── reload of that one ── report
//
// The scope is said before the file is there, so that what an agent writes is never active anywhere else,
// not for a moment. A name that a person or another session uses is refused.

#include "main/agent_glue.h"

#include "agent/agent.h"
#include "agent/providers.h"
#include "base/path.h"
#include "bind/bind.h"
#include "loop/work.h"
#include "main/agent_env.h"
#include "net/http_client.h"
#include "plugin/improvements.h"
#include "plugin/manifest.h"
#include "plugin/plugins.h"
#include "settings/projects.h"
#include "store/tree.h"

#define IMPROVEMENTS "improvements/"

enum { CONTENT_MAX = 256 * 1024 };

struct agent_glue {
    struct agent_glue_opts o;
    struct http_client *http;
    struct providers *providers;
    struct agent *agent;
    struct agent_env *env;
    struct lane *files;
    loop_fn *done;
    void *done_arg;
};

// ---- which plugins ------------------------------------------------------------------------------

static enum agent_reach reach_improvement(struct agent_glue *g, struct str name,
                                          const char *session)
{
    if (g->o.improvements == NULL) {
        return AGENT_NEVER;
    }
    struct scope s = scopes_get(improvements_scopes(g->o.improvements), name);
    if (s.kind == SCOPE_SESSION) {
        return strcmp(s.of, session) == 0 ? AGENT_ALWAYS : AGENT_NEVER;
    }
    return s.kind == SCOPE_ALL ? AGENT_LISTED : AGENT_NEVER;
}

static enum agent_reach reach(void *arg, const struct gen_unit *u, const char *session,
                              const char *working_dir)
{
    struct agent_glue *g = arg;
    struct str name = str_of(u->name);
    struct plugin_row row;
    if (str_starts(name, IMPROVEMENTS)) {
        return reach_improvement(g, str_from(name, strlen(IMPROVEMENTS)), session);
    }
    if (g->o.plugins == NULL || !plugins_find(g->o.plugins, name, &row)) {
        return AGENT_ALWAYS; // a module of the hub
    }
    if (!plugins_reaches(g->o.plugins, name, working_dir)) {
        return AGENT_NEVER;
    }
    return row.required ? AGENT_ALWAYS : AGENT_LISTED;
}

static bool known(void *arg, struct str name)
{
    struct agent_glue *g = arg;
    struct plugin_row row;
    if (str_starts(name, IMPROVEMENTS)) {
        return gen_state_of(g->o.engine, name) != GEN_REMOVED;
    }
    return g->o.plugins != NULL && plugins_find(g->o.plugins, name, &row);
}

static const char *required(void *arg, size_t i, const char *working_dir)
{
    struct agent_glue *g = arg;
    size_t n = g->o.plugins != NULL ? plugins_count(g->o.plugins) : 0;
    for (size_t k = 0; k < n; k++) {
        struct plugin_row row = plugins_at(g->o.plugins, k);
        bool ours =
            row.project == NULL || plugins_reaches(g->o.plugins, str_of(row.name), working_dir);
        if (row.required && ours && i-- == 0) {
            return row.name;
        }
    }
    return NULL;
}

static void loaded(void *arg, void (*each)(void *each_arg, const char *path), void *each_arg)
{
    struct agent_glue *g = arg;
    size_t n = g->o.plugins != NULL ? plugins_count(g->o.plugins) : 0;
    for (size_t i = 0; i < n; i++) {
        struct plugin_row row = plugins_at(g->o.plugins, i);
        if (row.project == NULL && row.enabled && row.path[0] == '/') {
            each(each_arg, row.path);
        }
    }
}

static struct str file(void *arg, const struct gen_unit *u, const char *path)
{
    struct agent_glue *g = arg;
    struct plugin_row row;
    if (g->o.plugins == NULL || !plugins_find(g->o.plugins, str_of(u->name), &row) ||
        row.tree == NULL) {
        return STR_NULL;
    }
    const struct tree_file *f = tree_find(row.tree, str_of(path));
    return f != NULL ? f->bytes : STR_NULL;
}

/// Somebody on the way into a directory: its settings first, since they name plugins, then its plugins.
struct entry {
    struct agent_glue *g;
    char *dir; // the real one
    void (*done)(void *arg, const char *real_dir);
    void *arg;
};

static void on_entered(void *arg, const char *real_dir)
{
    struct entry e = *(struct entry *)arg;
    free(arg);
    if (real_dir == NULL && e.dir != NULL) { // nobody will leave it
        projects_leave(e.g->o.projects, e.dir);
    }
    e.done(e.arg, real_dir);
    free(e.dir);
}

static void on_settings(void *arg, const char *real_dir)
{
    struct entry *e = arg;
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
    struct entry *e = xmalloc(sizeof *e);
    *e = (struct entry){.g = arg, .done = done, .arg = done_arg};
    projects_enter(e->g->o.projects, dir, on_settings, e);
}

static void leave(void *arg, const char *real_dir)
{
    struct agent_glue *g = arg;
    projects_leave(g->o.projects, real_dir);
    if (g->o.plugins != NULL) {
        plugins_leave_dir(g->o.plugins, real_dir);
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

// ---- plugin_save --------------------------------------------------------------------------------

struct saving {
    struct agent_glue *g;
    char *name, *content, *path;
    int rc;
    struct err e;
    void (*done)(void *arg, const struct gen_report *r, const struct err *e);
    void *arg;
};

static void saving_end(struct saving *s, const struct gen_report *r, const struct err *e)
{
    s->done(s->arg, r, e);
    free(s->name);
    free(s->content);
    free(s->path);
    free(s);
}

static void on_report(const struct gen_report *r, void *arg)
{
    saving_end(arg, r, NULL);
}

/// On a lane. Improvements may write to their directory: the temporary file is made in the one above, out
/// of their reach.
static void write_file(void *arg)
{
    struct saving *s = arg;
    struct str dir = path_dir(str_of(s->path));
    char *inside = str_dup(dir), *above = str_dup(path_dir(dir));
    s->rc = path_mkdirs(inside, 0700, &s->e);
    if (s->rc == 0) {
        s->rc = path_write_through(above, s->path, str_of(s->content), 0600, &s->e);
    }
    free(inside);
    free(above);
}

static void on_written(void *arg)
{
    struct saving *s = arg;
    struct str unit = str_of(s->name);
    if (s->rc < 0) {
        saving_end(s, NULL, &s->e);
        return;
    }
    improvements_put(s->g->o.improvements, str_from(unit, strlen(IMPROVEMENTS)),
                     str_of(s->content));
    struct gen_request req = {.trigger = "agent", .names = &unit, .n_names = 1, .wait_all = true};
    gen_request(s->g->o.engine, &req, on_report, s);
}

static void on_refused(void *arg)
{
    struct saving *s = arg;
    saving_end(s, NULL, &s->e);
}

static int check_save(struct agent_glue *g, struct str name, struct str content,
                      const char *session, struct err *e)
{
    if (g->o.improvements == NULL) {
        return err_set(e, ERR_UNSUPPORTED, "plugins cannot be written here: improvements are off");
    }
    if (!plugin_name_valid(name)) {
        return err_set(e, ERR_INVALID,
                       "'%.*s' is no name for a plugin: it has to be like 'roll-dice'",
                       (int)MIN(name.n, (size_t)64), name.p);
    }
    if (content.n > CONTENT_MAX || memchr(content.p, '\0', content.n) != NULL) {
        return err_set(e, ERR_TOO_LARGE, "the code is no text of at most %d bytes", CONTENT_MAX);
    }
    struct scope s = scopes_get(improvements_scopes(g->o.improvements), name);
    char *unit = xasprintf(IMPROVEMENTS STR_FMT, STR_ARG(name));
    bool taken = s.kind == SCOPE_ALL ? gen_state_of(g->o.engine, str_of(unit)) != GEN_REMOVED
                                     : s.kind != SCOPE_SESSION || strcmp(s.of, session) != 0;
    free(unit);
    return taken ? err_set(e, ERR_CONFLICT, "the name '%.*s' is taken: choose another", (int)name.n,
                           name.p)
                 : 0;
}

static void save(void *arg, struct str name, struct str content, const char *session,
                 void (*done)(void *arg, const struct gen_report *r, const struct err *e),
                 void *done_arg)
{
    struct agent_glue *g = arg;
    struct saving *s = xcalloc(1, sizeof *s);
    s->g = g;
    s->done = done;
    s->arg = done_arg;
    if (check_save(g, name, content, session, &s->e) < 0) {
        loop_defer(g->o.loop, on_refused, s);
        return;
    }
    s->name = xasprintf(IMPROVEMENTS STR_FMT, STR_ARG(name));
    s->content = str_dup(content);
    s->path = xasprintf("%s/lua/improvements/" STR_FMT ".lua", g->o.home->dir, STR_ARG(name));
    scopes_set(improvements_scopes(g->o.improvements), name, SCOPE_SESSION, str_of(session));
    work_submit(g->files, 0, write_file, on_written, s);
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
    struct arena arena;
    struct buf row;
    struct json *v;
    struct jw w;
    if (g->o.bind == NULL) {
        return;
    }
    arena_init(&arena);
    buf_init(&row, SIZE_MAX);
    jw_init(&w, &row);
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
    tell_lua(g, "agent_deleted", s);
}

static void vacated(void *arg, const struct session *s)
{
    struct agent_glue *g = arg;
    agent_env_ended(g->env, s);
}

// ---- life ---------------------------------------------------------------------------------------

struct agent_glue *agent_glue_open(const struct agent_glue_opts *o, loop_fn *ready, void *arg)
{
    struct agent_glue *g = xcalloc(1, sizeof *g);
    char *name = xasprintf("afloat/%s", o->version);
    g->o = *o;
    g->http = http_client_open(o->loop, name);
    g->providers = providers_open(o->loop, g->http);
    g->files = lane_open(o->loop, "improvements", 1);
    free(name);
    struct agent_env_opts env = {.loop = o->loop,
                                 .home = o->home,
                                 .config = o->config,
                                 .watcher = o->watcher,
                                 .events = o->events};
    g->env = agent_env_open(&env);
    struct agent_opts opts = {.loop = o->loop,
                              .home = o->home,
                              .config = o->config,
                              .store = o->store,
                              .events = o->events,
                              .choices = o->choices,
                              .trust = o->trust,
                              .providers = g->providers,
                              .engine = o->engine,
                              .host = {.reach = reach,
                                       .known = known,
                                       .required = required,
                                       .loaded = loaded,
                                       .file = file,
                                       .enter = enter,
                                       .leave = leave,
                                       .save = save,
                                       .config = config_of,
                                       .refusal = refusal,
                                       .environ = ask_environ,
                                       .forget_environ = forget_environ,
                                       .made = made,
                                       .changed = changed,
                                       .ended = ended,
                                       .vacated = vacated,
                                       .arg = g}};
    g->agent = agent_open(&opts, ready, arg);
    agent_env_set_agent(g->env, g->agent);
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
    lane_close(g->files);
    agent_env_close(g->env);
    g->o.bind = NULL;
    g->done(g->done_arg);
}

void agent_glue_stop(struct agent_glue *g, loop_fn *done, void *arg)
{
    g->done = done;
    g->done_arg = arg;
    agent_stop(g->agent, on_stopped, g);
}

void agent_glue_close(struct agent_glue *g)
{
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
