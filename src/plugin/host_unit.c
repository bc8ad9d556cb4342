// Registrations of a host become hooks and tools of a generation.
//
//     register{hook}  ──┐                                      hook_run ── enter ──> host_call(hook)
//     register{tool}  ──┼──> offers ── stage ──> gen_unit          ^                      │ result
//     register{event} ──┘                                          └── hook_run_answer ───┘
//
// The host is hostile: a name is checked against a list, texts against a length, numbers are put
// into bounds, and the whole against a count. What it answers is a value like any other.
//
// A hook or tool can outlive the version that made it (a generation still holds it): each offer
// has a reference on the whole, and a host that is gone makes a call fail instead of a crash.

#include "plugin/host_unit.h"

#include <assert.h>

#include "base/vec.h"
#include "gen/result.h"
#include "hook/args.h"
#include "hook/run.h"

enum {
    OFFERS_MAX = 256,
    NAME_LEN = 64,
    ABOUT_MAX = 64 * 1024,
    PRIORITY_MAX = 1000,
    TIMEOUT_MAX_MS = 10000,
    TOOL_MS = 30000, // where nobody says how long
};

enum offer_kind { OFFER_HOOK, OFFER_TOOL, OFFER_EVENT };

struct offer {
    struct host_unit *unit; // a reference once it is staged
    enum offer_kind kind;
    char *name;  // of the point, tool or event
    char *title; // of a hook: its own name; of a tool: its `about`
    char *filter;
    int64_t handler; // of a hook: the host's number for it
    bool chain;
    int priority;
    uint32_t timeout_ms;
};

struct host_unit {
    unsigned refs;
    const struct host_rules *rules;
    const struct host_args *args;
    struct host *host; // NULL once detached
    vec(struct offer *) offers;
};

// ---- registering ---------------------------------------------------------------------------

static bool listed(const char *const *list, struct str name)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (str_glob(str_of(list[i]), name)) {
            return true;
        }
    }
    return false;
}

static bool is_tool_name(struct str s)
{
    bool ok = s.n != 0 && s.n <= NAME_LEN && s.p[0] >= 'a' && s.p[0] <= 'z';
    for (size_t i = 0; i < s.n && ok; i++) {
        char c = s.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }
    return ok;
}

static struct offer *add_offer(struct host_unit *u, enum offer_kind kind, struct str name)
{
    struct offer *o = xcalloc(1, sizeof *o);
    o->unit = u;
    o->kind = kind;
    o->name = str_dup(name);
    vec_push(&u->offers, o);
    return o;
}

static int64_t bounded(const struct json *v, int64_t low, int64_t high)
{
    return MIN(MAX(json_int(v, 0), low), high);
}

static int register_hook(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str point = json_str(json_get(what, "point"), "");
    const struct hook_point *p = listed(u->rules->points, point) ? hook_point_find(point) : NULL;
    struct str title = json_str(json_get(what, "name"), "");
    struct str tool = json_str(json_get(what, "tool"), "");
    if (p == NULL || (p->kind != HOOK_OBSERVE && p->kind != HOOK_CHAIN)) {
        return err_set(e, ERR_DENIED, "hook point '" STR_FMT "' is not open here", STR_ARG(point));
    }
    if (title.n > NAME_LEN * 2 || tool.n > NAME_LEN * 2) {
        return err_set(e, ERR_TOO_LARGE, "a name of a hook is too long");
    }
    struct offer *o = add_offer(u, OFFER_HOOK, str_of(p->name));
    o->title = str_dup(title);
    o->filter = str_dup(tool);
    o->handler = json_int(json_get(what, "handler"), 0);
    o->chain = p->kind == HOOK_CHAIN;
    o->priority = (int)bounded(json_get(what, "priority"), -PRIORITY_MAX, PRIORITY_MAX);
    o->timeout_ms = (uint32_t)bounded(json_get(what, "timeout_ms"), 0, TIMEOUT_MAX_MS);
    return 0;
}

/// What people and models are told of a tool: these members of the message, as they are.
static char *tool_about(const struct json *what)
{
    static const char *const members[] = {"description", "input", "input_schema"};
    struct buf text;
    struct jw w;
    buf_init(&text, ABOUT_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const struct json *v = json_get(what, members[i]);
        if (v != NULL) {
            jw_key(&w, members[i]);
            jw_value(&w, v);
        }
    }
    jw_end_obj(&w);
    char *about = buf_ok(&text) ? buf_take(&text, NULL) : NULL;
    buf_fini(&text);
    return about;
}

static int register_tool(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str name = json_str(json_get(what, "name"), "");
    if (!is_tool_name(name)) {
        return err_set(e, ERR_INVALID, "a tool's name has to be like 'roll-dice'");
    }
    char *about = tool_about(what);
    if (about == NULL) {
        return err_set(e, ERR_TOO_LARGE, "the description of a tool is too long");
    }
    add_offer(u, OFFER_TOOL, name)->title = about;
    return 0;
}

static int register_event(struct host_unit *u, const struct json *what, struct err *e)
{
    struct str name = json_str(json_get(what, "name"), "");
    if (name.n > NAME_LEN * 2 || !listed(u->rules->events, name)) {
        return err_set(e, ERR_DENIED, "that event is not open here");
    }
    add_offer(u, OFFER_EVENT, name);
    return 0;
}

// ---- calling a hook ------------------------------------------------------------------------

struct hook_job {
    struct host_call call;
    struct hook_run *run;
    struct offer *offer;
};

static enum hook_answer take_value(struct hook_job *j, const struct json *value)
{
    struct err e = {0};
    if (!j->offer->chain || value == NULL || value->type == JSON_NULL) {
        return HOOK_KEEP;
    }
    if (j->offer->unit->args->take(j->run->args, value, &e) < 0) {
        hook_run_fault(j->run, NULL, 0, "%s", e.msg);
        return HOOK_FAILED;
    }
    if (j->offer->unit->args->changed != NULL) {
        j->offer->unit->args->changed(j->run->args, j->run);
    }
    return HOOK_VALUE;
}

static void on_hook_done(struct host_call *c, int status, const struct json *value,
                         const struct host_fault *fault)
{
    struct hook_job *j = container_of(c, struct hook_job, call);
    struct hook_run *run = j->run;
    enum hook_answer answer;
    if (status < 0) {
        hook_run_fault(run, fault->path, fault->line, "%s", fault->message);
        answer = fault->code == DIAG_HOOK_TIMEOUT ? HOOK_TIMEOUT : HOOK_FAILED;
    } else {
        answer = take_value(j, value);
    }
    free(j);
    hook_run_answer(run, answer);
}

/// The object text of `w` without its braces.
static struct str inner(const struct buf *object)
{
    return (struct str){object->p + 1, object->n - 2};
}

static void send_hook(struct hook_job *j)
{
    struct buf text;
    struct jw w;
    const struct offer *o = j->offer;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_kstrz(&w, "point", o->name);
    jw_kint(&w, "handler", o->handler);
    jw_kint(&w, "deadline_ms", j->run->timeout_ms);
    o->unit->args->write(j->run->args, &w);
    jw_end_obj(&w);
    host_call(o->unit->host, &j->call, "hook", inner(&text));
    buf_fini(&text);
}

static bool is_live(const struct offer *o)
{
    return o->unit->host != NULL && host_alive(o->unit->host);
}

static enum hook_answer enter_hook(void *data, struct hook_run *run)
{
    struct offer *o = data;
    if (!is_live(o) || !run->may_wait) {
        hook_run_fault(run, NULL, 0, "%s",
                       run->may_wait ? "its host has ended" : "a host cannot be asked here");
        return HOOK_FAILED;
    }
    struct hook_job *j = xcalloc(1, sizeof *j);
    j->call.done = on_hook_done;
    j->call.timeout_ms = run->timeout_ms;
    j->run = run;
    j->offer = o;
    run->target_data = j;
    send_hook(j);
    return HOOK_LATER;
}

static void cancel_hook(void *data, struct hook_run *run)
{
    struct offer *o = data;
    struct hook_job *j = run->target_data;
    if (o->unit->host != NULL) {
        host_cancel(o->unit->host, &j->call);
    }
    free(j);
}

static void release_offer(void *data)
{
    struct offer *o = data;
    host_unit_unref(o->unit);
}

static const struct hook_target hook_face = {
    .enter = enter_hook,
    .cancel = cancel_hook,
    .release = release_offer,
};

// ---- calling a tool ------------------------------------------------------------------------

struct tool_job {
    struct host_call call;
    struct gen_call *gen;
};

static void on_tool_done(struct host_call *c, int status, const struct json *value,
                         const struct host_fault *fault)
{
    struct tool_job *j = container_of(c, struct tool_job, call);
    struct gen_call *gen = j->gen;
    struct arena a;
    struct err e = {0};
    free(j);
    if (status < 0) {
        err_set(&e, status, "%s", fault->message);
        gen->done(gen, status, NULL, &e);
        return;
    }
    arena_init(&a);
    gen->done(gen, 0, gen_result_of(&a, value), NULL);
    arena_fini(&a);
}

static void send_tool(struct tool_job *j, const struct offer *o)
{
    const struct hook_args none = {.ctx = j->gen->ctx};
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_kstrz(&w, "name", o->name);
    hook_args_write(&none, &w);
    jw_key(&w, "input");
    jw_value(&w, j->gen->input);
    jw_kint(&w, "deadline_ms", j->call.timeout_ms);
    jw_end_obj(&w);
    host_call(o->unit->host, &j->call, "tool", inner(&text));
    buf_fini(&text);
}

static void call_tool(void *data, struct gen_call *gen)
{
    struct offer *o = data;
    if (!is_live(o)) {
        struct err e = {0};
        int rc = err_set(&e, UV_EPIPE, "the host of tool '%s' has ended", o->name);
        gen->done(gen, rc, NULL, &e);
        return;
    }
    struct tool_job *j = xcalloc(1, sizeof *j);
    j->call.done = on_tool_done;
    j->call.timeout_ms = gen->timeout_ms != 0 ? gen->timeout_ms : TOOL_MS;
    j->gen = gen;
    gen->target_data = j;
    send_tool(j, o);
}

static void cancel_tool(void *data, struct gen_call *gen)
{
    struct offer *o = data;
    struct tool_job *j = gen->target_data;
    if (o->unit->host != NULL) {
        host_cancel(o->unit->host, &j->call);
    }
    free(j);
}

static const struct gen_target tool_face = {.call = call_tool, .cancel = cancel_tool};
static const struct gen_item_ops item_ops = {.release = release_offer};

// ---- staging -------------------------------------------------------------------------------

/// A handler replaces those of the same point and name, whoever made them: so its name begins with
/// that of its unit, or one plugin could push another's out.
static int stage_hook(struct offer *o, struct gen_unit *g, struct err *e)
{
    char *name = xasprintf("%s:%s", g->name, o->title);
    const struct hook_spec spec = {
        .point = str_of(o->name),
        .kind = o->chain ? HOOK_CHAIN : HOOK_OBSERVE,
        .name = o->title[0] != '\0' ? str_of(name) : STR_NULL,
        .filter = str_of(o->filter),
        .priority = o->priority,
        .timeout_ms = o->timeout_ms,
        .target = &hook_face,
        .data = o,
    };
    int rc = gen_unit_hook(g, &spec, NULL, e);
    free(name);
    return rc;
}

static int stage_item(struct offer *o, struct gen_unit *g, struct err *e)
{
    bool tool = o->kind == OFFER_TOOL;
    const struct gen_item_spec spec = {
        .kind = tool ? GEN_TOOL : GEN_SUBSCRIPTION,
        .name = str_of(o->name),
        .about = str_of(o->title),
        .ops = &item_ops,
        .face = tool ? &tool_face : NULL,
        .data = o,
    };
    return gen_unit_add(g, &spec, NULL, e);
}

static void offer_free(struct offer *o)
{
    free(o->name);
    free(o->title);
    free(o->filter);
    free(o);
}

struct host_unit *host_unit_new(const struct host_rules *rules, const struct host_args *args)
{
    struct host_unit *u = xcalloc(1, sizeof *u);
    u->refs = 1;
    u->rules = rules;
    u->args = args;
    return u;
}

void host_unit_unref(struct host_unit *u)
{
    if (u == NULL || --u->refs != 0) {
        return;
    }
    vec_foreach (o, &u->offers) {
        offer_free(*o);
    }
    vec_fini(&u->offers);
    free(u);
}

void host_unit_attach(struct host_unit *u, struct host *h)
{
    u->host = h;
}

void host_unit_detach(struct host_unit *u)
{
    u->host = NULL;
}

int host_unit_register(struct host_unit *u, const struct json *what, struct err *e)
{
    static const struct {
        const char *kind;
        int (*fn)(struct host_unit *u, const struct json *what, struct err *e);
    } kinds[] = {{"hook", register_hook}, {"tool", register_tool}, {"event", register_event}};
    struct str kind = json_str(json_get(what, "kind"), "");
    if (u->offers.n >= OFFERS_MAX) {
        return err_set(e, ERR_TOO_LARGE, "more than %d registrations", OFFERS_MAX);
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (str_eqz(kind, kinds[i].kind)) {
            return kinds[i].fn(u, what, e);
        }
    }
    return err_set(e, ERR_UNSUPPORTED, "nothing of that kind can be registered here");
}

void host_unit_stage(struct host_unit *u, struct gen_unit *g)
{
    vec_foreach (it, &u->offers) {
        struct err e = {0};
        struct offer *o = *it;
        int rc = o->kind == OFFER_HOOK ? stage_hook(o, g, &e) : stage_item(o, g, &e);
        if (rc == 0) {
            u->refs++;
        } else {
            gen_unit_note(g, &(struct gen_diag){.code = DIAG_LOAD_FAILED, .message = e.msg});
        }
    }
}

bool host_unit_hears(const struct host_unit *u, struct str event)
{
    for (size_t i = 0; i < u->offers.n; i++) {
        const struct offer *o = u->offers.p[i];
        if (o->kind == OFFER_EVENT && str_glob(str_of(o->name), event)) {
            return true;
        }
    }
    return false;
}

bool host_unit_listens(const struct host_unit *u)
{
    for (size_t i = 0; i < u->offers.n; i++) {
        if (u->offers.p[i]->kind == OFFER_EVENT) {
            return true;
        }
    }
    return false;
}

size_t host_unit_count(const struct host_unit *u)
{
    return u->offers.n;
}
