// Build an environment once, with a loop of the command's own.

#include "cli/env_once.h"

#include <assert.h>
#include <limits.h>
#include <unistd.h>

#include "base/path.h"
#include "base/visible.h"
#include "cli/shell_config.h"
#include "env/gate.h"
#include "loop/proc.h"

struct building {
    struct env_once *once;
    struct cli *c;
    bool over;
};

static void on_building(const struct env_building *m, void *arg)
{
    (void)m;
    (void)arg;
}

static void on_ready(const struct env_ready *m, void *arg)
{
    struct building *b = arg;
    assert(!b->over);
    b->once->result = env_result_ref(m->result);
    b->over = true;
}

static void on_failed(const struct env_failed *m, void *arg)
{
    struct building *b = arg;
    assert(!b->over);
    b->once->code = m->code;
    b->once->error = xstrdup(m->text);
    b->over = true;
}

static void on_log(struct str line, void *arg)
{
    struct building *b = arg;
    struct buf text = {.max = SIZE_MAX};
    visible_add(&text, line, true);
    if (!b->c->out.quiet) {
        fprintf(stderr, "%s\n", buf_z(&text));
    }
    buf_fini(&text);
}

static void keep_inputs(struct env_once *o, struct env_coord *coord)
{
    const struct env_input *all = env_coord_get_inputs(coord, &o->n_inputs);
    o->inputs = arena_calloc(&o->arena, o->n_inputs + 1, sizeof *o->inputs);
    for (size_t i = 0; i < o->n_inputs; i++) {
        o->inputs[i] = all[i];
        o->inputs[i].path = arena_strdup(&o->arena, str_of(all[i].path));
    }
}

// The environment that a wrapper was started with is the one outside its shell.
static char **outer_of(struct env_once *o, int wrapper)
{
    struct buf text = {.max = SIZE_MAX};
    vec(const char *) entries = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", wrapper);
    if (wrapper == 0 || path_read(path, &text, NULL) != 0) {
        buf_fini(&text);
        return env_result_environ(NULL, (const char *const *)environ);
    }
    for (struct str rest = buf_str(&text); rest.n != 0;) {
        vec_push(&entries, arena_strdup(&o->arena, str_cut(&rest, '\0')));
    }
    vec_push(&entries, NULL);
    char **block = env_result_environ(NULL, entries.p);
    vec_fini(&entries);
    buf_fini(&text);
    return block;
}

static int build(struct env_once *o, struct cli *c, struct err *e)
{
    struct loop loop;
    struct env_gate gate;
    struct building b = {.once = o, .c = c};
    int rc = proc_setup(e);
    rc = rc == 0 ? loop_init(&loop, NULL, e) : rc;
    if (rc != 0) {
        return rc;
    }
    env_gate_trust_init(&gate, c->home.dir);
    struct env_coord_opts opts = {
        .loop = &loop,
        .root = o->project.root,
        .base = (const char *const *)o->outer,
        .gate = &gate,
        .timeout_ms = shell_config_read(c, o->project.root).build_timeout_ms,
        .cb = {.building = on_building, .ready = on_ready, .failed = on_failed, .log = on_log},
        .arg = &b};
    struct env_coord *coord = env_coord_open(&opts);
    env_coord_reload(coord, true);
    while (!b.over) {
        loop_run_once(&loop, true);
    }
    keep_inputs(o, coord);
    env_coord_close(coord);
    loop_run(&loop);
    rc = loop_close(&loop, e);
    env_gate_trust_fini(&gate);
    proc_teardown();
    return rc;
}

int env_once_build(struct env_once *o, struct cli *c, const char *dir, int wrapper, struct err *e)
{
    *o = (struct env_once){0};
    int rc = env_project_find(&o->project, dir != NULL ? dir : ".", e);
    if (rc != 0) {
        return rc;
    }
    o->outer = outer_of(o, wrapper);
    return build(o, c, e);
}

void env_once_fini(struct env_once *o)
{
    env_result_unref(o->result);
    env_project_fini(&o->project);
    free(o->outer);
    free(o->error);
    arena_fini(&o->arena);
}

// ---- a task ----------------------------------------------------------------------------------

struct running {
    struct cli *c;
    bool over, ok;
};

static void on_progress(const struct env_task_progress *p, void *arg)
{
    static const char *const words[] = {
        [ENV_TASK_STARTED] = "started",       [ENV_TASK_DONE] = "done",
        [ENV_TASK_SKIPPED] = "nothing to do", [ENV_TASK_FAILED] = "failed",
        [ENV_TASK_BLOCKED] = "not run",       [ENV_TASK_IN_SHELL] = "left to the shell"};
    struct running *r = arg;
    if (p->state == ENV_TASK_OUTPUT) {
        out_text(&r->c->out, str_of(p->text));
        out_add(&r->c->out, STR("\n"));
        out_flush(&r->c->out);
    } else {
        out_note(&r->c->out, "task %s: %s%s%s", p->task->name, words[p->state],
                 p->text[0] != '\0' ? ": " : "", p->text);
    }
}

static void on_tasks_end(const struct env_tasks_end *end, void *arg)
{
    struct running *r = arg;
    r->ok = end->ok;
    r->over = true;
}

int env_once_task(struct env_once *o, struct cli *c, const char *name)
{
    assert(o->result != NULL); // a failed build has no tasks
    struct loop loop;
    struct err e = {0};
    struct env_tasks *tasks = NULL;
    struct running r = {.c = c};
    int rc = proc_setup(&e);
    rc = rc == 0 ? loop_init(&loop, NULL, &e) : rc;
    if (rc != 0) {
        return cli__fail(c, &e);
    }
    struct env_tasks_opts opts = {.loop = &loop,
                                  .result = o->result,
                                  .base = (const char *const *)o->outer,
                                  .root = o->project.root,
                                  .only = name,
                                  .in_shell = true,
                                  .force = true,
                                  .progress = on_progress,
                                  .end = on_tasks_end,
                                  .arg = &r};
    rc = env_tasks_open(&tasks, &opts, &e);
    while (rc == 0 && !r.over) {
        loop_run_once(&loop, true);
    }
    env_tasks_close(tasks);
    loop_run(&loop);
    struct err closing;
    int closed = loop_close(&loop, &closing);
    proc_teardown();
    if (rc != 0 || closed != 0) {
        return cli__fail(c, rc != 0 ? &e : &closing);
    }
    return r.ok ? EXIT_OK : EXIT_FAILED;
}
