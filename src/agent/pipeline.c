// Raise a hook point: run its handlers, and note which plugins changed the value.
//
// Most handlers in the hub's Lua end in the call that starts them; then `done` is called from inside
// pipe_start() and nothing was allocated. One that waits ends later. Callers treat both alike: what
// follows a point is in `done`.

#include "agent/pipeline.h"

#include <assert.h>

#include "gen/gen.h"

static const char *unit_of(const struct hook *h)
{
    const struct gen_item *it = h != NULL ? gen_item_of(h) : NULL;
    return it != NULL ? gen_item_unit(it)->name : NULL;
}

static void on_changed(struct hook_args *args, const struct hook_run *run)
{
    struct pipe *p = container_of(args, struct pipe, args);
    const char *name = unit_of(run->hook);
    vec_foreach (it, &p->changed_by) {
        if (name == NULL || strcmp(*it, name) == 0) {
            return;
        }
    }
    if (name != NULL) {
        vec_push(&p->changed_by, name);
    }
}

static void on_over(struct hook_run *run, void *arg)
{
    struct pipe *p = arg;
    (void)run;
    p->running = false;
    if (p->o.done != NULL) {
        p->o.done(p, p->o.arg);
    }
}

static void on_fault(void *arg, struct hook *h, enum hook_answer how, const struct hook_run *run,
                     bool switched_off)
{
    struct pipe *p = arg;
    (void)how;
    (void)switched_off;
    if (p->o.failed != NULL) {
        p->o.failed(p->o.failed_arg, unit_of(h), h, run);
    }
}

static const struct hook_list *list_of(const struct hook_set *hooks, enum hook_point_id point)
{
    const struct hook_point *hp = &hook_points[point];
    return hooks != NULL ? hook_set_get(hooks, str_of(hp->name), hp->kind) : NULL;
}

bool pipe_heard(const struct hook_set *hooks, enum hook_point_id point)
{
    return list_of(hooks, point) != NULL;
}

void pipe_start(struct pipe *p, const struct pipe_opts *o)
{
    assert(!p->running && o->arena != NULL);
    const struct hook_list *list = list_of(o->hooks, o->point);
    p->args = (struct hook_args){.point = o->point,
                                 .ctx = o->ctx,
                                 .values = {o->a, o->b},
                                 .n = o->b != NULL ? 2 : o->a != NULL,
                                 .arena = o->arena,
                                 .changed = on_changed};
    p->changed_by.n = 0;
    p->o = *o;
    p->run.result = HOOK_KEEP;
    p->run.by = NULL;
    if (list == NULL) {
        on_over(&p->run, p);
        return;
    }
    struct hook_run_opts run = {.list = list,
                                .loop = o->loop,
                                .args = &p->args,
                                .subject = o->subject,
                                .may_wait = hook_points[o->point].may_wait,
                                .done = hook_points[o->point].may_wait ? on_over : NULL,
                                .fault = on_fault,
                                .arg = p};
    p->running = true;
    if (hook_run_start(&p->run, &run)) {
        on_over(&p->run, p);
    }
}

void pipe_cancel(struct pipe *p)
{
    if (p->running) {
        p->running = false;
        hook_run_cancel(&p->run);
    }
}

void pipe_fini(struct pipe *p)
{
    assert(!p->running);
    vec_fini(&p->changed_by);
}

const struct json *pipe_value(const struct pipe *p)
{
    return p->args.n != 0 ? p->args.values[p->args.n - 1] : NULL;
}

const char *pipe_by(const struct pipe *p)
{
    return unit_of(p->run.by);
}

void pipe_write_changed(const struct pipe *p, struct jw *w)
{
    jw_kstrs(w, "changed_by", p->changed_by.p, p->changed_by.n);
}
