#include "unit/gen/fake.h"

// ---- what happened ------------------------------------------------------------------------------

static void step(struct fake_world *w, const char *what, const char *name)
{
    size_t at = strlen(w->steps);
    snprintf(w->steps + at, sizeof w->steps - at, "%s%s%s%s", at != 0 ? "; " : "", what,
             name[0] != '\0' ? " " : "", name);
    if (w->probe != NULL) {
        w->probe(w);
    }
}

static void on_event(void *arg, const char *type, struct str fields)
{
    struct fake_world *w = arg;
    size_t at = strlen(w->events);
    snprintf(w->events + at, sizeof w->events - at, "%s {" STR_FMT "}\n", type, STR_ARG(fields));
    if (w->probe != NULL) {
        w->probe(w);
    }
}

// ---- items and handlers -------------------------------------------------------------------------

static void item_start(void *data)
{
    struct fake_world *w = data;
    w->starts++;
    step(w, "start", "");
}

static void item_stop(void *data)
{
    struct fake_world *w = data;
    w->stops++;
    step(w, "stop", "");
}

static void item_release(void *data)
{
    ((struct fake_world *)data)->item_releases++;
}

const struct gen_item_ops fake_item_ops = {
    .start = item_start, .stop = item_stop, .release = item_release};

static enum hook_answer hook_enter(void *data, struct hook_run *run)
{
    (void)run;
    ((struct fake_world *)data)->hook_calls++;
    return HOOK_KEEP;
}

static void hook_release(void *data)
{
    ((struct fake_world *)data)->hook_releases++;
}

const struct hook_target fake_target = {.enter = hook_enter, .release = hook_release};

// ---- sources ------------------------------------------------------------------------------------

static void prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    struct fake_source *s = arg;
    s->prepares++;
    s->seen = *req;
    s->seen_names = req->n_names;
    if (!s->slow) {
        gen_prepared(src, s->n_plan != 0);
    }
}

static void register_all(struct fake_source *s, struct gen_unit *u, const struct fake_act *a)
{
    if (a->tool != NULL) {
        CHECK_INT(gen_unit_add(u,
                               &(struct gen_item_spec){.kind = GEN_TOOL,
                                                       .name = str_of(a->tool),
                                                       .about = str_of(a->about),
                                                       .naming = a->override ? GEN_NAME_OVERRIDE
                                                                             : GEN_NAME_PLAIN,
                                                       .ops = &fake_item_ops,
                                                       .data = s->world},
                               NULL, NULL),
                  0);
    }
    if (a->hook != NULL) {
        CHECK_INT(
            gen_unit_hook(u,
                          &(struct hook_spec){.point = str_of(a->hook),
                                              .kind = HOOK_OBSERVE,
                                              .terms = {.target = &fake_target, .data = s->world}},
                          NULL, NULL),
            0);
    }
}

static void stage_unit(struct fake_source *s, struct gen_stage *st, const struct fake_act *a)
{
    struct str prefer = str_of(a->prefer);
    struct gen_unit *u = gen_stage_unit(st, &(struct gen_unit_spec){.name = a->name,
                                                                    .path = a->name,
                                                                    .order = a->order,
                                                                    .prefer = &prefer,
                                                                    .n_prefer = a->prefer != NULL});
    register_all(s, u, a);
    step(s->world, "load", a->name);
    if (a->what == FAKE_PUT) {
        gen_stage_put(st, u);
        if (a->stands) {
            struct gen_diag d = {.code = DIAG_LOAD_FAILED, .message = a->message};
            gen_stage_stand(st, a->name, GEN_FAILED, &d);
        }
    } else {
        struct gen_diag d = {.code = DIAG_LOAD_FAILED, .line = 7, .message = a->message};
        gen_stage_refuse(st, a->name, GEN_FAILED, &d);
    }
}

static void stage(void *arg, struct gen_stage *st)
{
    struct fake_source *s = arg;
    s->stages++;
    for (size_t i = 0; i < s->n_plan; i++) {
        const struct fake_act *a = &s->plan[i];
        struct gen_diag d = {.code = DIAG_PROTECTED, .message = a->message};
        const struct gen_diag *why = a->message != NULL ? &d : NULL;
        if (a->what == FAKE_PUT || a->what == FAKE_THROW) {
            stage_unit(s, st, a);
        } else if (a->what == FAKE_GONE) {
            gen_stage_remove(st, a->name, GEN_REMOVE);
        } else if (a->what == FAKE_REFUSE) {
            gen_stage_refuse(st, a->name, a->state, why);
        } else {
            gen_stage_clear(st, a->name);
        }
        if (a->need != NULL) {
            gen_stage_need(st, a->name, GEN_HUB_RESTART, a->need);
        }
    }
}

static void commit(void *arg)
{
    struct fake_source *s = arg;
    s->commits++;
    s->n_plan = 0;
    step(s->world, "commit", s->name);
}

static void abort_stage(void *arg)
{
    struct fake_source *s = arg;
    s->aborts++;
    step(s->world, "abort", s->name);
}

static void life(struct fake_source *s, const char *what, struct gen_unit *u, const char *fault,
                 enum gen_code code, struct gen_life_call *call)
{
    step(s->world, what, u->name);
    if (s->life_slow) {
        CHECK(s->call == NULL);
        s->call = call;
        return;
    }
    struct gen_diag d = {.code = code, .message = fault};
    gen_life_done(call, fault != NULL ? &d : NULL);
}

static void leave(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call)
{
    struct fake_source *s = arg;
    s->leaves++;
    (void)why;
    life(s, "leave", u, s->leave_fault, DIAG_SHUTDOWN_FAILED, call);
}

static void enter(void *arg, struct gen_unit *u, enum gen_reason why, struct gen_life_call *call)
{
    struct fake_source *s = arg;
    s->enters++;
    (void)why;
    life(s, "enter", u, s->enter_fault, DIAG_START_FAILED, call);
}

static void release(void *arg, struct gen_unit *u)
{
    struct fake_source *s = arg;
    s->releases++;
    step(s->world, "release", u->name);
}

static const struct gen_source_ops source_ops = {
    .name = "fake",
    .prepare = prepare,
    .stage = stage,
    .commit = commit,
    .abort = abort_stage,
    .leave = leave,
    .enter = enter,
    .release = release,
};

// ---- the world ----------------------------------------------------------------------------------

void fake_open(struct fake_world *w, size_t n)
{
    static const char *const names[FAKE_SOURCES] = {"one", "two"};
    *w = (struct fake_world){0};
    test_clock_init(&w->clock);
    CHECK_INT(loop_init(&w->loop, &w->clock.clock, NULL), 0);
    w->engine = gen_open(&w->loop, on_event, w);
    for (size_t i = 0; i < n; i++) {
        struct fake_source *s = &w->source[i];
        s->world = w;
        s->name = names[i];
        s->src = gen_source_add(w->engine, &source_ops, s);
    }
}

static void on_closed(void *arg)
{
    ((struct fake_world *)arg)->closed = true;
}

void fake_close(struct fake_world *w)
{
    w->probe = NULL;
    gen_close(w->engine, on_closed, w);
    fake_settle(w);
    CHECK(w->closed);
    CHECK_INT(w->starts, w->stops);
    TEST_LOOP_END(&w->loop);
}

void fake_settle(struct fake_world *w)
{
    test_loop_settle(&w->loop);
}

void fake_plan(struct fake_source *s, struct fake_act act)
{
    CHECK(s->n_plan < FAKE_PLAN);
    s->plan[s->n_plan++] = act;
}

void fake_ready(struct fake_source *s)
{
    gen_prepared(s->src, s->n_plan != 0);
}

void fake_life(struct fake_source *s)
{
    struct gen_life_call *call = s->call;
    CHECK(call != NULL);
    s->call = NULL;
    gen_life_done(call, NULL);
}

static void on_report(const struct gen_report *r, void *arg)
{
    struct fake_world *w = arg;
    w->reports += r != NULL;
    w->refused += r == NULL;
}

void fake_ask(struct fake_world *w, const struct gen_request *req)
{
    gen_request(w->engine, req, on_report, w);
}

const struct gen_report *fake_reload(struct fake_world *w)
{
    unsigned before = w->reports;
    fake_ask(w, &(struct gen_request){.trigger = "api", .wait_all = true});
    fake_settle(w);
    CHECK_INT(w->reports, before + 1);
    return gen_last_report(w->engine);
}

const struct gen_report *fake_load(struct fake_world *w, struct fake_act act)
{
    fake_plan(&w->source[0], act);
    return fake_reload(w);
}

struct gen *fake_current(struct fake_world *w)
{
    return gen_current(w->engine);
}

struct gen_item *fake_tool(struct fake_world *w, const char *name)
{
    return gen_item_find(fake_current(w), GEN_TOOL, str_of(name));
}

size_t fake_count_events(const struct fake_world *w, const char *type)
{
    size_t n = 0, length = strlen(type);
    for (const char *p = w->events; p != NULL && *p != '\0'; p = strchr(p, '\n') + 1) {
        n += strncmp(p, type, length) == 0 && p[length] == ' ';
    }
    return n;
}

const struct gen_report_row *fake_row(const struct gen_report *r, const char *name)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        if (strcmp(r->rows[i].name, name) == 0) {
            return &r->rows[i];
        }
    }
    return NULL;
}

const struct gen_diag *fake_diag(const struct gen_report *r, enum gen_code code)
{
    for (size_t i = 0; i < r->n_diags; i++) {
        if (r->diags[i].code == code) {
            return &r->diags[i];
        }
    }
    return NULL;
}

size_t fake_notify(struct fake_world *w, const char *event)
{
    struct hook_run run;
    const struct hook_list *l =
        hook_set_get(gen_hooks(fake_current(w)), str_of(event), HOOK_OBSERVE);
    if (l == NULL) {
        return 0;
    }
    CHECK(hook_run_start(&run, &(struct hook_run_opts){.list = l}));
    return run.ran;
}
