// A server that is a program of ours: one message a line, on its standard streams.
//
//     lane: secrets, box ──> spawn, in the box ──> lines (sandbox/lineproc.h) ──> on_text
//
// Its environment is made here: a few variables that programs cannot do without, and what the spec names. It runs
// in the box of [sandbox], with its `cwd` as working directory: writable only where that setting lets tools write.
// What runs outside of the box is kept from it as from tools (trust/guard.h), as it is when the server starts.

#include <assert.h>

#include "base/log.h"
#include "config/home.h"
#include "loop/work.h"
#include "mcp/link.h"
#include "sandbox/lineproc.h"

enum { SERVER_PROCESSES = 512 };

struct link_stdio {
    struct mcp_link base;
    struct mcp_world *world;
    struct mcp_link_cb cb;
    void *arg;
    struct arena arena; // of everything until `program`
    const char **argv, **env;
    const struct mcp_pair *pairs; // of the environment, with secrets still to be filled in
    size_t n_pairs;
    struct box_policy policy;
    struct trust_outside outside;
    struct lineproc program;
};

static struct link_stdio *of(struct mcp_link *l)
{
    return container_of(l, struct link_stdio, base);
}

// ---- the process ----------------------------------------------------------------------------

static int prepare(void *arg, struct box **box, struct err *e) // on the lane
{
    struct link_stdio *l = arg;
    const char *why;
    if (l->policy.mode != BOX_FULL_ACCESS) {
        l->policy.mode =
            box_choose_mode(l->policy.mode, l->policy.working_dir, l->policy.home, &why);
    }
    int rc = trust_make_box(box, &l->policy, &l->outside, e);
    size_t n = str_count(l->env);
    for (size_t i = 0; rc == 0 && i < l->n_pairs; i++) {
        char *value = NULL;
        rc = mcp_fill_secrets(l->world->home->secrets, l->pairs[i].value, &value, e);
        if (rc == 0) {
            l->env[n++] = arena_printf(&l->arena, "%s=%s", l->pairs[i].name, value);
            explicit_bzero(value, strlen(value));
        }
        free(value);
    }
    return rc;
}

static void on_line(void *arg, struct str line)
{
    struct link_stdio *l = arg;
    l->cb.on_text(l->arg, line);
}

static void on_end(void *arg, const struct err *e)
{
    struct link_stdio *l = arg;
    l->cb.on_end(l->arg, e);
}

static void on_gone(void *arg)
{
    struct link_stdio *l = arg;
    arena_fini(&l->arena);
    free(l);
}

static const struct lineproc_cb program_cb = {
    .prepare = prepare, .on_line = on_line, .on_end = on_end, .on_gone = on_gone};

// ---- before it runs -------------------------------------------------------------------------

/// What programs cannot do without: no key of the user's is among it.
static void make_environment(struct link_stdio *l, const struct mcp_spec *s)
{
    static const char *const kept[] = {"PATH",  "HOME", "USER",   "LOGNAME",
                                       "SHELL", "LANG", "LC_ALL", "TZ"};
    size_t n = 0;
    l->env = arena_calloc(&l->arena, ARRAY_LEN(kept) + s->n_env + 1, sizeof *l->env);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const char *value = getenv(kept[i]);
        bool given = false;
        for (size_t k = 0; k < s->n_env && !given; k++) {
            given = strcmp(s->env[k].name, kept[i]) == 0;
        }
        if (value != NULL && !given) {
            l->env[n++] = arena_printf(&l->arena, "%s=%s", kept[i], value);
        }
    }
    struct mcp_pair *pairs = arena_calloc(&l->arena, s->n_env + 1, sizeof *pairs);
    for (size_t i = 0; i < s->n_env; i++) {
        pairs[i] = (struct mcp_pair){arena_strdup(&l->arena, str_of(s->env[i].name)),
                                     arena_strdup(&l->arena, str_of(s->env[i].value))};
    }
    l->pairs = pairs;
    l->n_pairs = s->n_env;
}

static void make_policy(struct link_stdio *l, const struct mcp_spec *s)
{
    struct mcp_world *w = l->world;
    const struct config *c = w->config->now;
    const char *home = getenv("HOME");
    enum box_mode mode = BOX_WORKSPACE_WRITE;
    (void)box_mode_parse(str_of(config_str(c, "sandbox.mode")), &mode);
    mode = s->project != NULL ? MIN(mode, BOX_WORKSPACE_WRITE) : mode;
    l->policy = (struct box_policy){
        .mode = s->sandbox ? mode : BOX_FULL_ACCESS,
        .network = config_bool(c, "sandbox.network"),
        .working_dir = arena_strdup(&l->arena, str_of(s->cwd != NULL ? s->cwd
                                                      : home != NULL ? home
                                                                     : "/")),
        .writable = arena_copy_list(&l->arena, config_strings(c, "sandbox.writable")),
        .hide = arena_copy_list(&l->arena, config_strings(c, "sandbox.hide")),
        .home = w->home->dir,
        .runtime = w->home->runtime};
    l->program.memory = (uint64_t)config_int(c, "limits.command_mb") << 20;
    l->program.processes = SERVER_PROCESSES;
}

// ---- the link -------------------------------------------------------------------------------

static void link_send(struct mcp_link *base, struct str text, const struct mcp_about *about)
{
    (void)about;
    lineproc_send(&of(base)->program, text);
}

static void link_close(struct mcp_link *base)
{
    lineproc_close(&of(base)->program);
}

static struct str link_said(struct mcp_link *base)
{
    return buf_str(&of(base)->program.tail);
}

static int link_pid(struct mcp_link *base)
{
    const struct link_stdio *l = of(base);
    return l->program.proc != NULL ? proc_pid(l->program.proc) : 0;
}

static const struct mcp_link_ops ops = {
    .send = link_send, .close = link_close, .said = link_said, .pid = link_pid};

struct mcp_link *mcp_link_stdio(struct mcp_world *w, const struct mcp_spec *s,
                                const struct mcp_link_cb *cb, void *arg)
{
    struct link_stdio *l = xcalloc(1, sizeof *l);
    size_t n = str_count(s->args);
    assert(s->command != NULL);
    l->base.ops = &ops;
    l->world = w;
    l->cb = *cb;
    l->arg = arg;
    lineproc_init(&l->program, w->loop, "it", &program_cb, l);
    l->argv = arena_calloc(&l->arena, n + 2, sizeof *l->argv);
    l->argv[0] = arena_strdup(&l->arena, str_of(s->command));
    for (size_t i = 0; i < n; i++) {
        l->argv[i + 1] = arena_strdup(&l->arena, str_of(s->args[i]));
    }
    make_environment(l, s);
    make_policy(l, s);
    l->outside = w->outside(w->arg, &l->arena);
    l->program.argv = l->argv;
    l->program.env = l->env;
    lineproc_start(&l->program, w->lane, work_mount_key(l->policy.working_dir));
    return &l->base;
}
