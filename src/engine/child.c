// The process of an engine: prepared on the lane, started in the box, read line by line, ended for certain.
//
//     start ──> lane: directory, files, box ──> spawn ──> lines (sandbox/lineproc.h)
//
// Its variables are those of a command of the session, without what would steer the engine elsewhere. In a box without
// network it has 127.0.0.1 only, where the gateway listens.

#include "engine/child.h"

#include <assert.h>

#include "agent/tool.h"
#include "base/arena.h"
#include "base/path.h"
#include "sandbox/lineproc.h"
#include "trust/guard.h"

enum { PROCESSES = 64 }; // that an engine needs for itself, threads not counted

struct engine_child {
    struct engine_child_cb cb;
    void *arg;
    const struct engine_cb *owner;
    void *owner_arg;
    struct arena arena;
    struct trust_outside outside;
    const char *dir;
    struct engine_file *files;
    size_t n_files;
    struct box_policy policy;
    struct gateway *gateway;
    struct lineproc program;
};

// ---- the process ----------------------------------------------------------------------------

static int prepare(void *arg, struct box **box, struct err *e) // on the lane
{
    struct engine_child *c = arg;
    int rc = path_mkdirs(c->dir, 0700, e);
    for (size_t i = 0; rc == 0 && i < c->n_files; i++) {
        char *path = path_join(c->dir, c->files[i].name);
        rc = path_write_atomic(path, c->files[i].text, 0600, e);
        free(path);
    }
    return rc == 0 ? trust_make_box(box, &c->policy, &c->outside, e) : rc;
}

static void on_line(void *arg, struct str line)
{
    struct engine_child *c = arg;
    c->cb.on_line(c->arg, line);
}

static void on_end(void *arg, const struct err *e)
{
    struct engine_child *c = arg;
    c->cb.on_end(c->arg, e);
}

static void on_gone(void *arg)
{
    struct engine_child *c = arg;
    const struct engine_cb *owner = c->owner;
    void *owner_arg = c->owner_arg;
    gateway_close(c->gateway);
    grants_unref(c->policy.grants);
    arena_fini(&c->arena);
    free(c);
    owner->on_reaped(owner_arg);
}

static void on_listen(void *arg, uv_stream_t *from)
{
    struct engine_child *c = arg;
    gateway_listen(c->gateway, from);
}

static const struct lineproc_cb program_cb = {.prepare = prepare,
                                              .on_line = on_line,
                                              .on_end = on_end,
                                              .on_gone = on_gone,
                                              .on_listen = on_listen};

// ---- its variables --------------------------------------------------------------------------

static bool is_replaced(const char *variable, const char *const *by)
{
    size_t n = strcspn(variable, "=") + 1;
    for (; by != NULL && *by != NULL; by++) {
        if (strncmp(variable, *by, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_left_out(const char *variable, const char *const *prefixes)
{
    for (; prefixes != NULL && *prefixes != NULL; prefixes++) {
        if (str_starts(str_of(variable), *prefixes)) {
            return true;
        }
    }
    return false;
}

/// The client's TMPDIR does not exist in a box.
static const char *const *make_environment(struct engine_child *c,
                                           const struct engine_child_spec *q)
{
    vec(const char *) env = {0};
    bool boxed = c->policy.mode != BOX_FULL_ACCESS;
    for (const char *const *it = q->place->environment; *it != NULL; it++) {
        bool tmp = boxed && str_starts(str_of(*it), "TMPDIR=");
        if (!tmp && !is_replaced(*it, q->env) && !is_left_out(*it, q->without)) {
            vec_push(&env, *it);
        }
    }
    for (const char *const *it = q->env; *it != NULL; it++) {
        vec_push(&env, *it);
    }
    if (boxed) {
        vec_push(&env, "TMPDIR=/tmp");
    }
    vec_push(&env, NULL);
    const char *const *copy = arena_copy_list(&c->arena, env.p);
    vec_fini(&env);
    return copy;
}

// ---- public -------------------------------------------------------------------------------------

bool engine_child_boxed(const struct tool_env *place)
{
    return place->policy->mode != BOX_FULL_ACCESS && !place->policy->network;
}

struct engine_child *engine_child_start(struct engine_world *w, const struct engine_child_spec *q,
                                        const struct engine_child_cb *cb, void *arg)
{
    struct engine_child *c = xcalloc(1, sizeof *c);
    assert(q->argv[0] != NULL && q->dir[0] == '/');
    c->cb = *cb;
    c->arg = arg;
    c->dir = arena_strdup(&c->arena, str_of(q->dir));
    c->outside = trust_copy_outside(&c->arena, &q->place->outside);
    c->policy = tool_copy_policy(&c->arena, q->place->policy);
    c->policy.own = c->dir;
    c->n_files = q->n_files;
    c->files = arena_calloc(&c->arena, q->n_files + 1, sizeof *c->files);
    for (size_t i = 0; i < q->n_files; i++) {
        c->files[i] = (struct engine_file){arena_strdup(&c->arena, str_of(q->files[i].name)),
                                           arena_str(&c->arena, q->files[i].text)};
    }
    c->gateway = q->gateway;
    c->owner = q->owner;
    c->owner_arg = q->owner_arg;
    c->owner->on_spawn(c->owner_arg);
    uint64_t processes = q->place->processes;
    lineproc_init(&c->program, w->loop, "the engine", &program_cb, c);
    c->program.argv = arena_copy_list(&c->arena, q->argv);
    c->program.env = make_environment(c, q);
    c->program.memory = q->place->memory;
    c->program.processes = processes != 0 ? processes + PROCESSES : 0;
    c->program.loopback = c->gateway != NULL;
    lineproc_start(&c->program, w->lane, work_mount_key(c->policy.working_dir));
    return c;
}

struct jw *engine_line_new(struct engine_line *line)
{
    buf_init(&line->text, SIZE_MAX);
    jw_init(&line->w, &line->text);
    return &line->w;
}

void engine_line_flush(struct engine_child *c, struct engine_line *line)
{
    lineproc_send(&c->program, buf_str(&line->text)); // before it runs it waits
    buf_fini(&line->text);
}

struct jw *engine_line_begin(struct engine_line *line)
{
    jw_obj(engine_line_new(line));
    return &line->w;
}

void engine_line_send(struct engine_child *c, struct engine_line *line)
{
    jw_end_obj(&line->w);
    engine_line_flush(c, line);
}

void engine_child_pause(struct engine_child *c, bool paused)
{
    lineproc_pause(&c->program, paused);
}

void engine_child_close(struct engine_child *c)
{
    lineproc_close(&c->program);
}
