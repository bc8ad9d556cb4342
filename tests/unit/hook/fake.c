#include "unit/hook/fake.h"

char fake_trace[512];

void fake_clear(void)
{
    fake_trace[0] = '\0';
}

static enum hook_answer enter(void *data, struct hook_run *run)
{
    struct fake *f = data;
    struct fake_args *args = run->args;
    size_t at = strlen(fake_trace);
    f->calls++;
    if (f->id != NULL) {
        snprintf(fake_trace + at, sizeof fake_trace - at, "%s%s", at != 0 ? " " : "", f->id);
    }
    if (args != NULL) {
        f->saw_n = args->n;
    }
    if (f->inside != NULL) {
        f->inside(f->arg);
    }
    if (f->answer == HOOK_VALUE && f->value != NULL) {
        args->v[0] = f->value; // the others stay
    }
    if (f->answer == HOOK_FAILED || f->answer == HOOK_STALE) {
        hook_run_fault(run, "fake.lua", 7, "%s broke", f->id);
    }
    if (f->answer == HOOK_LATER) {
        f->waiting = run;
    }
    return f->answer;
}

static void cancel(void *data, struct hook_run *run)
{
    struct fake *f = data;
    CHECK(f->waiting == run);
    f->waiting = NULL;
    f->cancels++;
}

static void release(void *data)
{
    ((struct fake *)data)->releases++;
}

const struct hook_target fake_target = {.enter = enter, .cancel = cancel, .release = release};

struct hook *fake_hook(struct fake *f, const char *point, enum hook_kind kind,
                       const struct hook_spec *more)
{
    static uint64_t order;
    struct hook_spec spec = more != NULL ? *more : (struct hook_spec){0};
    struct hook *h;
    struct err e;
    spec.point = str_of(point);
    spec.kind = kind;
    spec.terms.target = &fake_target;
    spec.terms.data = f;
    spec.terms.order = order++;
    CHECK_INT(hook_new(&h, &spec, &e), 0);
    return h;
}

struct hook_set *fake_set(struct hook **hooks, size_t n, const struct hook_keeper *keeper)
{
    struct hook_place places[128] = {0};
    CHECK(n <= 128);
    for (size_t i = 0; i < n; i++) {
        places[i] = (struct hook_place){hooks[i], i};
    }
    struct hook_set *s = hook_set_new(places, n, keeper);
    for (size_t i = 0; i < n; i++) {
        hook_unref(hooks[i]);
    }
    return s;
}

struct hook_run fake_dispatch(const struct hook_set *s, const char *point, enum hook_kind kind,
                              struct fake_args *args)
{
    struct hook_run run;
    const struct hook_list *l = hook_set_get(s, str_of(point), kind);
    CHECK(l != NULL);
    CHECK(hook_run_start(&run, &(struct hook_run_opts){.list = l, .args = args}));
    return run;
}
