// How agents are started is decided in Lua: runtime/lua/handlers/agents.lua and other handlers of the same events.
//
//     operation ─┬─ with `type`: its file is read (lane), trust asked, Lua says what it holds ─┬─> before_agent_create
//                └─────────────────────────────────────────────────────────────────────────────┘         │
//     operation continues with the parameters that came out <── checked against its row <─────────────────┘
//
// Lua gets the parameters as a table with `kind` (pty, chat, bot) and, for a session type, `session_type`; it gives
// them back changed, or refuses: `refuse = "why"`, or an error of a handler that blocks. What a user alone decides
// (parameters marked so in ops.def: sandbox, permission, ...) is as it was asked for, whatever Lua says.

#include "api/policy.h"

#include "agent/make.h"
#include "api/api_int.h"
#include "api/handlers.h"
#include "api/types.h"
#include "bot/bots.h"
#include "keep/terms.h"
#include "loop/work.h"
#include "trust/hub.h"

/// An operation that waits for Lua, for files, or for both.
struct deciding {
    struct api *api;
    struct op_call *call;
    const char *kind;
    op_fn *run;
    struct str type;            // that was named; empty: none
    const struct json *values;  // what that says; NULL: nothing yet
    const char *dir;            // where: `cwd`, `working_dir` or `path`; NULL: nowhere
    char *profile;              // for the lane
    struct session_types types; // while they are read
    void (*then)(struct deciding *d);
};

static struct deciding *deciding_new(struct api *api, struct op_call *c)
{
    static const char *const names[] = {"cwd", "working_dir", "path"};
    struct deciding *d = xcalloc(1, sizeof *d);
    *d = (struct deciding){.api = api, .call = c, .type = json_get_text(c->params, "type")};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct str dir = json_str(json_get(c->params, names[i]), "");
        d->dir = dir.n != 0 ? arena_strdup(c->arena, dir) : d->dir;
    }
    return d;
}

static void deciding_free(struct deciding *d)
{
    types_fini(&d->types);
    free(d->profile);
    free(d);
}

static void refuse(struct deciding *d, enum problem p, const char *why)
{
    op_fail(d->call, p, NULL, "%s", why);
    deciding_free(d);
}

static void ask_lua(struct deciding *d, const char *event, const struct json *value,
                    api_decided *done)
{
    const struct api_host *h = &d->api->o.host;
    if (h->ask == NULL) {
        done(d, value, NULL);
    } else {
        h->ask(h->arg, event, value, d->call->arena, done, d);
    }
}

// ---- what comes out -----------------------------------------------------------------------------

/// The parameters of the operation: Lua's where its row has them, the caller's where a user decides.
static const struct json *merge(const struct deciding *d, const struct json *lua)
{
    const struct op *op = &ops[d->call->id];
    const struct json *asked = d->call->params;
    struct json *out = make_obj(d->call->arena, lua->n + asked->n);
    struct str rest = str_of(op->params);
    struct op_param p;
    while (op_next_param(op, &rest, &p)) {
        const struct json *v = json_get_str(p.of_person ? asked : lua, p.name);
        if (v != NULL && v->type != JSON_NULL) {
            out->members[out->n++] = (struct json_member){.key = p.name, .value = *v};
        }
    }
    return out;
}

static void on_decided(void *arg, const struct json *value, const char *refused)
{
    struct deciding *d = arg;
    struct op_fault fault;
    struct str why = json_get_text(value, "refuse");
    if (refused != NULL || why.n != 0) {
        refuse(d, PROBLEM_FORBIDDEN, refused != NULL ? refused : arena_strdup(d->call->arena, why));
        return;
    }
    if (value->type != JSON_OBJ || json_get(value, "session_type") != NULL) {
        refuse(d, PROBLEM_PLUGIN_FAILED,
               "no handler of 'before_agent_create' used the session type");
        return;
    }
    const struct json *params = merge(d, value);
    if (!op_check_params(d->call->id, OP_BY_CLIENT, params, &fault)) {
        refuse(d, fault.problem, fault.detail);
        return;
    }
    d->call->params = params;
    struct api *api = d->api;
    struct op_call *c = d->call;
    op_fn *run = d->run;
    deciding_free(d);
    run(api, c);
}

static void ask_policy(struct deciding *d)
{
    const struct json *asked = d->call->params;
    struct json *spec = make_obj(d->call->arena, asked->n + 2);
    json_foreach_member (m, asked) {
        spec->members[spec->n++] = *m;
    }
    make_put(spec, "kind", make_strz(d->kind));
    if (d->values != NULL) {
        make_put(spec, "session_type", *d->values);
    }
    ask_lua(d, "before_agent_create", spec, on_decided);
}

// ---- session types ------------------------------------------------------------------------------

static void read_types(void *arg) // on the lane
{
    struct deciding *d = arg;
    types_read(&d->types, d->api->o.hub->home->dir, d->profile, d->dir);
}

static void on_types(void *arg)
{
    struct deciding *d = arg;
    types_judge(&d->types, trust_hub_book(d->api->o.trust));
    d->then(d);
}

static void find_types(struct deciding *d, void (*then)(struct deciding *d))
{
    if (d->api->files == NULL) {
        refuse(d, PROBLEM_STOPPING, "the hub is stopping");
        return;
    }
    d->then = then;
    d->profile = xstrdup(config_str(d->api->o.hub->config->now, "profile"));
    work_submit(d->api->files, 0, read_types, on_types, d);
}

/// A type as Lua and lists get it.
static struct json *describe(struct arena *a, const struct session_types *t,
                             const struct session_type *it)
{
    struct json *row = make_obj(a, 8);
    make_put(row, "name", make_strz(it->name));
    make_put(row, "layer", make_strz(it->layer));
    make_put(row, "path", make_strz(arena_strdup(a, str_of(it->path))));
    make_put(row, "state",
             make_strz(!it->trusted     ? "untrusted"
                       : it->status < 0 ? "failed"
                                        : "loaded"));
    make_put(row, "shadowed", make_bool(types_is_shadowed(t, it)));
    if (it->status < 0) {
        make_put(row, "error", make_strz(arena_strdup(a, str_of(it->e.msg))));
    } else if (it->trusted) {
        make_put(row, "source", make_str(arena_str(a, types_source(it))));
    }
    return row;
}

/// Ask Lua what these types hold: each gets `values`, or `error`.
static void ask_values(struct deciding *d, struct json *list, api_decided *done)
{
    struct json *value = make_obj(d->call->arena, 2);
    make_put(value, "types", *list);
    if (d->dir != NULL) {
        make_put(value, "cwd", make_strz(d->dir));
    }
    ask_lua(d, "session_types", value, done);
}

static enum problem problem_of(const struct err *e)
{
    return e->code == ERR_NOT_FOUND ? PROBLEM_NOT_FOUND
           : e->code == ERR_DENIED  ? PROBLEM_UNTRUSTED
                                    : PROBLEM_INVALID_BODY;
}

/// The one that was named, for Lua; NULL: it was refused.
static struct json *only_type(struct deciding *d)
{
    struct err e = {0};
    const struct session_type *it = types_find(&d->types, d->type, &e);
    if (it == NULL) {
        refuse(d, problem_of(&e), e.msg);
        return NULL;
    }
    struct json *list = make_arr(d->call->arena, 1), *row = describe(d->call->arena, &d->types, it);
    make_push(list, *row);
    return list;
}

static void on_values(void *arg, const struct json *value, const char *refused)
{
    struct deciding *d = arg;
    const struct json *row = json_at(json_get(value, "types"), 0);
    struct str error = json_get_text(row, "error");
    d->values = json_get(row, "values");
    if (refused != NULL || error.n != 0) {
        refuse(d, PROBLEM_INVALID_BODY,
               refused != NULL ? refused : arena_strdup(d->call->arena, error));
    } else if (d->values == NULL) {
        refuse(d, PROBLEM_PLUGIN_FAILED, "no handler of 'session_types' read it");
    } else {
        ask_policy(d);
    }
}

static void use_type(struct deciding *d)
{
    struct json *list = only_type(d);
    if (list != NULL) {
        ask_values(d, list, on_values);
    }
}

void api__decide(struct api *api, struct op_call *c, const char *kind, op_fn *run)
{
    if (api->o.host.refresh_settings != NULL) { // a save just before it counts for what begins now
        api->o.host.refresh_settings(api->o.host.arg);
    }
    struct deciding *d = deciding_new(api, c);
    d->kind = kind;
    d->run = run;
    if (d->type.n != 0) {
        find_types(d, use_type);
    } else {
        ask_policy(d);
    }
}

// ---- lists --------------------------------------------------------------------------------------

/// A row without its source; `kind` and `description` of the values beside the name.
static void write_row(struct jw *w, const struct json *row, bool whole)
{
    const struct json *values = json_get(row, "values"), *error = json_get(row, "error");
    struct str state = json_get_text(row, "state");
    jw_obj(w);
    for (const char *const *k = (const char *const[]){"name", "layer", "path", "shadowed", NULL};
         *k != NULL; k++) {
        jw_kvalue(w, *k, json_get(row, *k));
    }
    jw_kstr(w, "state", error != NULL && str_eqz(state, "loaded") ? STR("failed") : state);
    jw_kvalue(w, "kind", json_get(values, "kind"));
    jw_kvalue(w, "description", json_get(values, "description"));
    jw_kvalue(w, "error", error);
    if (whole) {
        jw_kvalue(w, "values", values);
    }
    jw_end_obj(w);
}

static void on_listed(void *arg, const struct json *value, const char *refused)
{
    struct deciding *d = arg;
    if (refused != NULL) {
        refuse(d, PROBLEM_PLUGIN_FAILED, refused);
        return;
    }
    struct jw *w = op_begin_obj(d->call);
    jw_karr(w, "types");
    json_foreach_item (row, json_get(value, "types")) {
        write_row(w, row, false);
    }
    jw_end_arr(w);
    jw_kstrz(w, "next", NULL);
    op_end_obj(d->call, 200);
    deciding_free(d);
}

static void list(struct deciding *d)
{
    struct json *all = make_arr(d->call->arena, d->types.list.n);
    vec_foreach (it, &d->types.list) {
        make_push(all, *describe(d->call->arena, &d->types, it));
    }
    ask_values(d, all, on_listed);
}

void op_SESSION_TYPES(struct api *api, struct op_call *c)
{
    find_types(deciding_new(api, c), list);
}

static void on_shown(void *arg, const struct json *value, const char *refused)
{
    struct deciding *d = arg;
    if (refused != NULL) {
        refuse(d, PROBLEM_PLUGIN_FAILED, refused);
        return;
    }
    write_row(op_begin(d->call), json_at(json_get(value, "types"), 0), true);
    op_end(d->call, 200);
    deciding_free(d);
}

static void show(struct deciding *d)
{
    struct json *one = only_type(d);
    if (one != NULL) {
        ask_values(d, one, on_shown);
    }
}

void op_SESSION_TYPE_SHOW(struct api *api, struct op_call *c)
{
    find_types(deciding_new(api, c), show);
}

// ---- the end of a terminal ------------------------------------------------------------------------

/// A run whose program has ended, while Lua says what becomes of its work.
struct ending {
    struct api *api;
    struct arena arena;
    const char *terminal; // its id, in the arena
    int status;
};

static void on_ending(void *arg, const struct json *value, const char *refused)
{
    static const char *const actions[] = {"review", "merge", "discard"};
    struct ending *n = arg;
    struct str wish = json_get_text(value, "action");
    const char *action = "review";
    for (size_t i = 0; refused == NULL && i < ARRAY_LEN(actions); i++) {
        action = str_eqz(wish, actions[i]) ? actions[i] : action;
    }
    if (n->api->bots != NULL) {
        bots_terminal_ended(n->api->bots, str_of(n->terminal), n->status, action);
    }
    arena_fini(&n->arena);
    free(n);
}

void api__decide_end(struct api *api, const struct term *t)
{
    struct ending *n = xcalloc(1, sizeof *n);
    struct buf text = {.max = SIZE_MAX};
    struct json *row = NULL;
    *n = (struct ending){.api = api, .status = term_status(t)};
    n->terminal = arena_strdup(&n->arena, str_of(term_id(t)));
    struct jw w = {.out = &text};
    term_write(t, &w);
    int rc = json_parse(&row, &n->arena, arena_str(&n->arena, buf_str(&text)), NULL, NULL);
    assert(rc == 0); // we wrote it
    (void)rc;
    buf_fini(&text);
    struct json *value = make_obj(&n->arena, row->n + 2);
    json_foreach_member (m, row) {
        value->members[value->n++] = *m;
    }
    make_put(value, "kind", make_strz("pty"));
    make_put(value, "action", make_strz("review"));
    if (api->o.host.ask != NULL) {
        api->o.host.ask(api->o.host.arg, "before_agent_delete", value, &n->arena, on_ending, n);
    } else {
        on_ending(n, value, NULL);
    }
}
