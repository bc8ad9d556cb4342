// What the threads of all engines share.
//
// Invariants:
//   - `cb` is NULL once the thread is closed or has died.
//   - `task` is set exactly while a callback is due: none is called from inside a function of engine_ops.

#include "engine/base.h"

#include <assert.h>

void engine_base_init(struct engine_base *b, const struct engine_ops *ops, struct engine_world *w,
                      const struct engine_spec *q, const struct engine_cb *cb, void *arg)
{
    assert(b->cb == NULL && b->child == NULL && cb != NULL);
    b->thread.ops = ops;
    b->world = w;
    b->cb = cb;
    b->arg = arg;
    b->cwd = arena_strdup(&b->arena, str_of(q->env->policy->working_dir));
    b->system = arena_strdup(&b->arena, q->system);
    b->past = arena_strdup(&b->arena, q->past);
    b->tools = json_clone(&b->arena, q->tools);
}

void engine_base_fini(struct engine_base *b)
{
    assert(b->thread.ops != NULL);
    b->cb = NULL;
    if (b->task != NULL) {
        loop_cancel(b->world->loop, b->task);
    }
    if (b->child != NULL) {
        engine_child_close(b->child);
    }
    arena_fini(&b->arena);
    free(b->id);
}

void engine_base_pause(struct engine_thread *t, bool paused)
{
    const struct engine_base *b = container_of(t, struct engine_base, thread);
    if (b->child != NULL) {
        engine_child_pause(b->child, paused);
    }
}

bool engine_base_begun(struct engine_base *b, struct str id, bool resumed, const char *none)
{
    struct err e;
    if (id.n == 0) {
        err_set(&e, ERR_INVALID, "%s", none);
        engine_die(b, &e);
        return false;
    }
    free(b->id);
    b->id = str_dup(id);
    b->cb->on_thread(b->arg, id, resumed);
    return true;
}

void engine_base_ended(void *arg, const struct err *e)
{
    engine_die(arg, e);
}

void engine_die(struct engine_base *b, const struct err *e)
{
    const struct engine_cb *cb = b->cb;
    b->cb = NULL;
    if (cb != NULL) {
        cb->on_died(b->arg, e);
    }
}

struct json *engine_read_line(struct engine_base *b, struct arena *a, struct str line,
                              const char *name)
{
    static const struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct json *msg;
    struct err e;
    arena_fini(a);
    if (json_parse(&msg, a, line, &opts, NULL) == 0 && msg->type == JSON_OBJ) {
        return msg;
    }
    err_set(&e, ERR_PARSE, "%s sent a line that is no JSON object", name);
    engine_die(b, &e);
    return NULL;
}

const char *const *engine_argv(struct arena *a, const char *const *own, const char *const *more)
{
    vec(const char *) list = {0};
    assert(own[0] != NULL);
    for (; *own != NULL; own++) {
        vec_push(&list, *own);
    }
    for (; more != NULL && *more != NULL; more++) {
        vec_push(&list, *more);
    }
    vec_push(&list, NULL);
    const char *const *argv = arena_copy_list(a, list.p);
    vec_fini(&list);
    return argv;
}

void engine_add_past(struct buf *out, const char *past)
{
    if (past[0] != '\0') {
        buf_addf(out, "The conversation so far, before you took over:\n\n%s\nIt goes on:\n\n",
                 past);
    }
}
