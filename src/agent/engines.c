// The engines that sessions can use: the program of each, whether it is installed, and its version.
//
//     kinds and [engines.NAME] ──> the program in the client's PATH (lane) ──> `PROGRAM --version` ──> the list
//
// The PATH is the client's, so the program is the one that its sessions would start. It runs in a read-only box without
// network, because a client that may only read this list must not start anything that could do more.

#include <unistd.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/path.h"

enum { VERSION_MS = 5000, VERSION_MAX = 100 };

struct engine_list {
    struct agent *a;
    struct arena arena;
    vec(struct agent_engine) engines;
    size_t asked; // the next one whose version is asked for
    struct str path;
    agent_engines_cb *cb;
    void *arg;
};

const struct json *agent__engine_setting(const struct config *c, const char *key, const char *name)
{
    const struct config_entry *e = config_find_named(c, key, name);
    return e != NULL ? e->value : NULL;
}

const struct engine_kind *agent__find_engine(const struct agent *a, const struct config *c,
                                             const char *name)
{
    struct str kind = json_str(agent__engine_setting(c, "engines.*.kind", name), name);
    for (size_t i = 0; a->engines != NULL && a->engines[i] != NULL; i++) {
        if (str_eqz(kind, a->engines[i]->name)) {
            return a->engines[i];
        }
    }
    return NULL;
}

char *agent__find_program(struct str path, const char *program)
{
    if (strchr(program, '/') == NULL) {
        return path_find_program(path, program);
    }
    return access(program, X_OK) == 0 ? xstrdup(program) : NULL;
}

static void add_engine(struct engine_list *l, const struct config *c, const char *name)
{
    const struct engine_kind *kind = agent__find_engine(l->a, c, name);
    vec_foreach (it, &l->engines) {
        if (strcmp(it->name, name) == 0) {
            return;
        }
    }
    if (kind == NULL) {
        return;
    }
    struct str program =
        json_str(agent__engine_setting(c, "engines.*.command", name), kind->program);
    struct agent_engine e = {.name = arena_strdup(&l->arena, str_of(name)),
                             .kind = kind->name,
                             .install = kind->install,
                             .program = program.n != 0 ? arena_strdup(&l->arena, program) : NULL};
    vec_push(&l->engines, e);
}

/// Where each program is; NULL: it is not installed.
static void find_programs(void *arg) // on a lane: a directory of the PATH may not answer
{
    struct engine_list *l = arg;
    vec_foreach (it, &l->engines) {
        char *found = it->program != NULL ? agent__find_program(l->path, it->program) : NULL;
        it->program = found != NULL ? arena_strdup(&l->arena, str_of(found)) : NULL;
        free(found);
    }
}

// ---- versions -----------------------------------------------------------------------------------

static void ask_next(void *arg);

static void on_version(struct tool_job *j, const struct tool_result *r, void *arg)
{
    struct engine_list *l = arg;
    struct str rest = str_trim(r->output), line = str_cut(&rest, '\n');
    (void)j;
    if (r->success && line.n != 0) {
        l->engines.p[l->asked].version =
            arena_printf(&l->arena, "%.*s", (int)MIN(line.n, (size_t)VERSION_MAX), line.p);
    }
    l->asked++;
    ask_next(l);
}

/// Ask the next program for its version; after the last one, answer.
static void ask_next(void *arg)
{
    static const struct tool_cb cb = {.on_done = on_version};
    struct engine_list *l = arg;
    struct agent *a = l->a;
    while (l->asked < l->engines.n && (l->engines.p[l->asked].program == NULL || a->stopping)) {
        l->asked++;
    }
    if (l->asked == l->engines.n) {
        l->cb(l->arg, l->engines.p, l->engines.n);
        vec_fini(&l->engines);
        arena_fini(&l->arena);
        free(l);
        agent__release(a);
        return;
    }
    struct call_site site = {.agent = a, .arena = &l->arena, .dir = "/", .mode = BOX_READ_ONLY};
    struct box_policy policy;
    struct tool_env env;
    tool_call__place(&site, NULL, &policy, &env);
    policy.network = false;
    const char *vars[] = {arena_printf(&l->arena, "PATH=" STR_FMT, STR_ARG(l->path)),
                          env.environment[1], env.environment[2],
                          arena_printf(&l->arena, "PROGRAM=%s", l->engines.p[l->asked].program),
                          NULL};
    env.environment = vars;
    env.outputs_dir = arena_printf(&l->arena, "%s/outputs", a->o.hub->home->state);
    env.call_id = "engine-version";
    env.timeout_ms = VERSION_MS;
    struct json *input = make_obj(&l->arena, 1);
    make_put(input, "cmd", make_strz("exec \"$PROGRAM\" --version 2>/dev/null"));
    tool_job_start(&env, tool_find(STR("shell")), input, &cb, l);
}

void agent_engines(struct agent *a, struct str path, agent_engines_cb *cb, void *arg)
{
    const struct config *c = a->o.hub->config->now;
    struct engine_list *l = xcalloc(1, sizeof *l);
    l->a = a;
    l->cb = cb;
    l->arg = arg;
    l->path = arena_str(&l->arena, path.n != 0 ? path : str_of(AGENT_PATH));
    for (size_t i = 0; a->engines != NULL && a->engines[i] != NULL; i++) {
        add_engine(l, c, a->engines[i]->name);
    }
    const char *name;
    for (size_t at = 0; (name = config_next_name(c, "engines", &at)) != NULL;) {
        add_engine(l, c, name);
    }
    agent__hold(a);
    work_submit(a->tools, 0, find_programs, ask_next, l);
}
