// Built-in tools outside a session: in the sandbox of the settings that count in their directory, with a
// plain environment.
//
// Which mode a directory gets is found out on a worker, because links have to be followed; the tool then
// runs as it does in a session. There is no client whose variables could be taken: commands see a PATH, a
// home and a locale.

#include <stdlib.h>

#include "agent/agent.h"
#include "api/tool_int.h"
#include "base/path.h"
#include "loop/work.h"
#include "sandbox/box.h"

struct builtin_run {
    struct api *api;
    const struct tool_info *tool;
    const struct json *input; // borrowed until the answer
    char *dir;                // real path
    enum box_mode mode;
    struct tool_call *call;
    api_builtin_done *done;
    void *arg;
};

static void run_end(struct builtin_run *r, const struct tool_result *result)
{
    r->done(r->arg, result);
    free(r->dir);
    free(r);
}

static void on_done(struct tool_call *c, const struct tool_result *result, void *arg)
{
    (void)c;
    run_end(arg, result);
}

static const char *const *plain_environment(struct arena *a)
{
    const char **env = arena_calloc(a, 4, sizeof *env);
    const char *home = getenv("HOME");
    env[0] = "PATH=/usr/local/bin:/usr/bin:/bin";
    env[1] = "LANG=C.UTF-8";
    env[2] = arena_printf(a, "HOME=%s", home != NULL ? home : "/");
    return env;
}

/// A list of the settings with its NULL.
static const char *const *settings_list(const struct config *c, const char *key, struct arena *a)
{
    size_t n;
    const char *const *list = config_strings(c, key, &n);
    const char **copy = arena_calloc(a, n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        copy[i] = list[i];
    }
    return copy;
}

static void start(struct builtin_run *r, struct arena *a)
{
    static const struct tool_cb callbacks = {.on_done = on_done};
    struct api *api = r->api;
    const struct config *config = agent_config_at(api->agent, r->dir);
    struct err e = {0};
    struct box_policy policy = {.mode = r->mode,
                                .network = config_bool(config, "sandbox.network"),
                                .working_dir = r->dir,
                                .writable = settings_list(config, "sandbox.writable", a),
                                .hide = settings_list(config, "sandbox.hide", a),
                                .home = api->home->dir,
                                .runtime = api->home->runtime};
    struct tool_env env = {.loop = api->loop,
                           .lane = api->files,
                           .policy = &policy,
                           .environment = plain_environment(a),
                           .outputs_dir = arena_printf(a, "%s/outputs", api->home->state),
                           .call_id =
                               arena_printf(a, "api-%llu", (unsigned long long)++api->tool_runs)};
    agent_guard(api->agent, &env, a);
    if (tool_call_start(&r->call, &env, str_of(r->tool->name), r->input, &callbacks, r, &e) < 0) {
        run_end(r, &(struct tool_result){.output = STR(""), .error = e.msg});
    }
}

static void choose_work(void *arg)
{
    struct builtin_run *r = arg;
    const char *why;
    r->mode = box_choose_mode(r->mode, r->dir, r->api->home->dir, &why);
}

static void choose_done(void *arg)
{
    struct builtin_run *r = arg;
    struct arena a;
    arena_init(&a);
    if (r->api->files == NULL) {
        run_end(r, &(struct tool_result){.output = STR(""), .error = "the hub is stopping"});
    } else {
        start(r, &a);
    }
    arena_fini(&a);
}

void api__builtin_run(struct api *api, const struct tool_info *tool, const struct json *input,
                      const char *dir, api_builtin_done *done, void *arg)
{
    struct builtin_run *r = xcalloc(1, sizeof *r);
    *r = (struct builtin_run){.api = api,
                              .tool = tool,
                              .input = input,
                              .dir = xstrdup(dir),
                              .mode = BOX_WORKSPACE_WRITE,
                              .done = done,
                              .arg = arg};
    const struct config *c = agent_config_at(api->agent, dir);
    (void)box_mode_parse(str_of(config_str(c, "sandbox.mode")), &r->mode);
    work_submit(api->files, 0, choose_work, choose_done, r);
}
