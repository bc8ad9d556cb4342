// The commands of [worktree] setup: in the new worktree, in the sandbox that the bot's own commands have.

#include <assert.h>

#include "agent/providers.h"
#include "bot/run_int.h"
#include "config/home.h"

enum { SETUP_MS = 600 * 1000, TAIL = 400 };

/// "NAME=value" of the client, without what tools may not have.
static const char *const *environment(struct run *r, struct arena *a)
{
    size_t n = 0;
    const char **all = arena_calloc(a, (r->env != NULL ? r->env->n : 0) + 1, sizeof *all);
    json_foreach_member (m, r->env) {
        struct str value = json_str(&m->value, "");
        bool plain =
            memchr(value.p, '\0', value.n) == NULL && memchr(m->key.p, '\0', m->key.n) == NULL;
        if (plain && !providers_owns_variable(r->b->o.hub->config->now, m->key)) {
            all[n++] = arena_printf(a, STR_FMT "=" STR_FMT, STR_ARG(m->key), STR_ARG(value));
        }
    }
    return tool_environment(all, config_strings(r->b->o.hub->config->now, "tool_env.drop"), a);
}

static void on_done(struct tool_job *call, const struct tool_result *res, void *arg)
{
    struct run *r = arg;
    const char *cmd = run__config(r)->setup.p[r->n_setup];
    (void)call;
    r->call = NULL;
    if (res->success || r->stop_wanted) {
        r->n_setup++;
        run__go(r, RUN_SETUP);
    } else {
        struct agent_no no;
        struct str tail =
            str_trim(str_from(res->output, res->output.n > TAIL ? res->output.n - TAIL : 0));
        agent_no_set(&no, PROBLEM_CONFLICT, "see [worktree] setup in its config.md",
                     "setup command '%.80s' failed: %s: %.*s", cmd, res->error,
                     (int)MIN(tail.n, (size_t)120), tail.p + tail.n - MIN(tail.n, (size_t)120));
        run__abort(r, &no);
    }
    run__back(r);
}

static void start(struct run *r, const char *cmd)
{
    static const struct tool_cb callbacks = {.on_done = on_done};
    struct bots *b = r->b;
    const struct bot_config *c = run__config(r);
    struct arena a = {0};
    enum box_mode mode = BOX_WORKSPACE_WRITE;
    bool network = config_bool(b->o.hub->config->now, "sandbox.network");
    if (c->network != BOT_UNSET && !config_is_policy(b->o.hub->config->now, "sandbox.network")) {
        network = c->network != 0;
    }
    box_mode_parse(str_of(run__sandbox(b, c->sandbox)), &mode);
    // the person wrote what is run here: it may write even where the bot may only read
    struct box_policy policy = {.mode = mode == BOX_READ_ONLY ? BOX_WORKSPACE_WRITE : mode,
                                .network = network,
                                .working_dir = r->rec.worktree,
                                .hide = config_strings(b->o.hub->config->now, "sandbox.hide"),
                                .home = b->home,
                                .runtime = b->o.hub->home->runtime};
    struct tool_env env = {.loop = b->loop,
                           .lane = b->lane,
                           .policy = &policy,
                           .environment = environment(r, &a),
                           .outputs_dir = arena_printf(&a, "%s/outputs", r->ws.dir),
                           .call_id = arena_printf(&a, "setup-%s", r->rec.run_id),
                           .timeout_ms = SETUP_MS};
    agent_guard(b->o.agent, &env, &a);
    struct json_member m = {.key = STR("cmd"), .value = {.type = JSON_STR, .s = str_of(cmd)}};
    struct json input = {.type = JSON_OBJ, .n = 1, .members = &m};
    run__away(r);
    r->call = tool_job_start(&env, tool_find(STR("shell")), &input, &callbacks, r);
    arena_fini(&a);
}

void run__setup(struct run *r)
{
    assert(run__config(r) != NULL && r->call == NULL);
    const struct bot_names *setup = &run__config(r)->setup;
    assert(r->n_setup <= setup->n);
    if (r->n_setup < setup->n) {
        start(r, setup->p[r->n_setup]);
    } else {
        run__go(r, RUN_GATHER);
    }
}
