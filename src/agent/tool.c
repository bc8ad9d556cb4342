// The table of built-in tools, and the job of one that reads and writes files or runs a program.
//
//     start ── input fits the schema? ──no──────────────────────────────┐
//       │ yes                                                           │
//       ▼ lane                              loop                        ▼
//     box_new, tool's function ──> no command: result ─────────────> on_done
//       ▲                     ├──> command: tool_shell.c, process ──────▲
//       │                     └──> on_editor: a file that it has ───────┤ written
//       └──────────────────────────────── read ─┘
//
// While the job is on the lane only the lane uses it; the loop sets no more than `cancelled`, which long walks
// check. Every path ends in tool__finish(), once.

#include "agent/tool.h"

#include <assert.h>
#include <signal.h>

#include "agent/tool_int.h"
#include "base/redact.h"
#include "base/schema.h"

static const struct tool tools[] = {
#define TOOL(id, name_, effect_, description_, ...)                                                \
    {.name = name_,                                                                                \
     .description = description_,                                                                  \
     .schema = #__VA_ARGS__,                                                                       \
     .effect = effect_,                                                                            \
     .ops = &tool_##id},
#include "agent/tools.def"
#undef TOOL
};

enum { TIMEOUT_MS = 120 * 1000 };

// ---- copies of what is borrowed ---------------------------------------------------------------

static const char *copy_text(struct arena *a, const char *z)
{
    return z != NULL ? arena_strdup(a, str_of(z)) : NULL;
}

struct box_policy tool_copy_policy(struct arena *a, const struct box_policy *p)
{
    struct box_policy copy = *p;
    copy.working_dir = copy_text(a, p->working_dir);
    copy.writable = arena_copy_list(a, p->writable);
    copy.hide = arena_copy_list(a, p->hide);
    copy.home = copy_text(a, p->home);
    copy.runtime = copy_text(a, p->runtime);
    copy.tmp_dir = copy_text(a, p->tmp_dir);
    copy.grants = p->grants != NULL ? grants_ref(p->grants) : NULL;
    return copy;
}

static void copy_env(struct tool_job *c, const struct tool_env *env)
{
    struct arena *a = &c->arena;
    c->policy = tool_copy_policy(a, env->policy);
    if (c->tool->effect == TOOL_READS && c->policy.mode == BOX_WORKSPACE_WRITE) {
        c->policy.mode = BOX_READ_ONLY; // so nothing has to be guarded from it
    }
    c->env = *env;
    c->env.policy = &c->policy;
    c->env.outside = trust_copy_outside(a, &env->outside);
    c->env.environment = arena_copy_list(a, env->environment);
    c->env.outputs_dir = copy_text(a, env->outputs_dir);
    c->env.call_id = copy_text(a, env->call_id);
    c->env.timeout_ms = env->timeout_ms != 0 ? env->timeout_ms : TIMEOUT_MS;
    c->umask = proc_umask();
    proc_umask_parse(str_of(str_env(c->env.environment, "AFLOAT_UMASK")), &c->umask);
}

// ---- the work --------------------------------------------------------------------------------

static void on_prepared(void *arg)
{
    struct tool_job *c = arg;
    bool cancelled = atomic_load(&c->cancelled);
    if (!cancelled && c->wanted != NULL) {
        c->cb.on_editor(c, c->wanted, c->to_write, c->arg);
    } else if (!cancelled && c->why.code == 0 && c->command.argv != NULL) {
        tool__spawn(c);
    } else {
        struct tool_result r = {.output = buf_str(&c->text),
                                .success = !cancelled && c->why.code == 0,
                                .diff = buf_str(&c->diff),
                                .guarded = c->guarded};
        r.error = r.success ? NULL : cancelled ? "interrupted" : c->why.msg;
        tool__finish(c, &r);
    }
}

static void prepare(void *arg) // on the lane
{
    struct tool_job *c = arg;
    int rc = c->box == NULL ? trust_make_box(&c->box, &c->policy, &c->env.outside, &c->why) : 0;
    c->why.code = rc == 0 ? c->tool->ops->work(c, &c->why) : rc;
}

void tool__finish(struct tool_job *c, const struct tool_result *r)
{
    timer_stop(&c->timer);
    // Redact the secrets that a file or a command showed.
    struct tool_result clean = *r;
    struct buf output = {.max = SIZE_MAX}, error = {.max = SIZE_MAX}, diff = {.max = SIZE_MAX};
    redact_text(&output, r->output);
    redact_text(&diff, r->diff);
    clean.output = buf_str(&output);
    clean.diff = buf_str(&diff);
    if (r->error != NULL) {
        redact_text(&error, str_of(r->error));
        clean.error = buf_z(&error);
    }
    c->cb.on_done(c, &clean, c->arg);
    buf_fini(&output);
    buf_fini(&error);
    buf_fini(&diff);
    tool_output_free(c->output);
    box_free(c->box);
    grants_unref(c->policy.grants);
    buf_fini(&c->text);
    buf_fini(&c->diff);
    buf_fini(&c->cut);
    arena_fini(&c->arena);
    free(c);
}

// ---- the environment --------------------------------------------------------------------------

char *tool__lower(struct str s)
{
    char *low = str_dup(s);
    for (size_t i = 0; i < s.n; i++) {
        low[i] = (char)(low[i] >= 'A' && low[i] <= 'Z' ? low[i] + 32 : low[i]);
    }
    return low;
}

bool tool_drops(struct str name, const char *const *drop)
{
    char *low = tool__lower(name);
    bool drops = false;
    for (size_t i = 0; drop != NULL && drop[i] != NULL && !drops; i++) {
        char *pattern = tool__lower(str_of(drop[i]));
        drops = str_glob(str_of(pattern), (struct str){low, name.n});
        free(pattern);
    }
    free(low);
    return drops;
}

const char *const *tool_environment(const char *const *client, const char *const *drop,
                                    struct arena *a)
{
    size_t n = str_count(client), kept = 0;
    const char **list = arena_calloc(a, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        struct str rest = str_of(client[i]);
        if (!tool_drops(str_cut(&rest, '='), drop)) {
            list[kept++] = client[i];
        }
    }
    return list;
}

// ---- tools and jobs --------------------------------------------------------------------------

const struct tool *tool_at(size_t i)
{
    return i < ARRAY_LEN(tools) ? &tools[i] : NULL;
}

const struct tool *tool_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        if (str_eqz(name, tools[i].name)) {
            return &tools[i];
        }
    }
    return NULL;
}

struct tool_job *tool_job_start(const struct tool_env *env, const struct tool *tool,
                                const struct json *input, const struct tool_cb *cb, void *arg)
{
    struct tool_job *c = xcalloc(1, sizeof *c);
    assert(tool->ops->work != NULL);
    c->tool = tool;
    c->cb = *cb;
    c->arg = arg;
    buf_init(&c->text, SIZE_MAX);
    buf_init(&c->diff, TOOL_DIFF_MAX);
    buf_init(&c->cut, SIZE_MAX);
    copy_env(c, env);
    c->input = json_clone(&c->arena, input);
    struct json *schema = NULL;
    int rc = json_parse(&schema, &c->arena, str_of(tool->schema), NULL, NULL);
    assert(rc == 0 && schema_check(schema, NULL) == 0);
    c->why.code = schema_fit(schema, c->input, "input", &c->why);
    if (c->why.code != 0) {
        loop_defer(c->env.loop, on_prepared, c);
    } else {
        work_submit(c->env.lane, work_mount_key(c->policy.working_dir), prepare, on_prepared, c);
    }
    return c;
}

void tool_job_cancel(struct tool_job *c)
{
    atomic_store(&c->cancelled, true);
    if (c->proc != NULL && c->interrupted) {
        proc_kill(c->proc, SIGKILL);
    } else if (c->proc != NULL) {
        c->interrupted = true;
        tool__stop(c);
    }
}

void tool_job_edited(struct tool_job *c, enum tool_edited how, struct str text)
{
    bool wrote = c->to_write.p != NULL && how != TOOL_EDITOR_GONE;
    assert(c->wanted != NULL);
    c->wanted = NULL;
    c->to_write = STR_NULL;
    c->asked = true;
    c->why.code = 0;
    if (wrote && how == TOOL_EDITOR_REFUSED) {
        err_set(&c->why, ERR_DENIED, "the editor did not write it: %.*s",
                (int)MIN(text.n, (size_t)200), text.p);
    }
    if (wrote || atomic_load(&c->cancelled)) {
        loop_defer(c->env.loop, on_prepared, c);
        return;
    }
    if (how == TOOL_EDITOR_GONE) {
        c->env.from_editor = c->env.to_editor = false;
    } else if (how == TOOL_EDITOR_DONE && text.n <= TOOL_FILE_MAX && !memchr(text.p, 0, text.n)) {
        c->unsaved = arena_str(&c->arena, text);
    }
    buf_clear(&c->text);
    buf_clear(&c->diff);
    work_submit(c->env.lane, work_mount_key(c->policy.working_dir), prepare, on_prepared, c);
}
