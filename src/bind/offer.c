// Tools, commands and prompt sections of plugins: from a call of the generation into Lua and back.
//
//     gen_call ── input fits the schema? ──> job ── bind_call ──> Lua ──┬── returns ──> a value ──> done
//                                                                       ├── throws, time-out ──> done(e)
//                                                                       └── waits; cancel() gives it up
//
// A call ends exactly once: with done() or with cancel(). The caller pins the generation, so an offer outlives its calls;
// when the hub stops, they end with an error.

#include "bind/offer.h"

#include <lauxlib.h>

#include "base/path.h"
#include "base/schema.h"
#include "base/time.h"
#include "plugin/manifest.h"

// ---- life -----------------------------------------------------------------------------------------

/// The bytes that it needs in C, about: its texts are kept as they are, parsed, and in the item.
static size_t offer_bytes(struct str name, struct str about)
{
    return 1024 + name.n * 2 + about.n * 3;
}

static void offer_free(void *offer)
{
    struct offer *f = offer;
    bind__quota_give(f->o, QUOTA_OFFER, offer_bytes(str_of(f->name), str_of(f->about)));
    refs_drop(f->o->vm, f->fn);
    arena_fini(&f->arena);
    free(f->about);
    free(f->name);
    free(f);
}

static const struct gen_item_ops item_ops = {.release = offer_free};

/// handle:off(); the upvalue is the id of the item.
static int l_off(lua_State *L)
{
    struct bind_owner *o = bind__owner(L);
    uint64_t id = (uint64_t)lua_tointeger(L, lua_upvalueindex(1));
    return args_bool(L, gen_unit_off(o->unit, id, NULL) == 0);
}

static struct offer *offer_new(lua_State *L, const struct offer_kind *kind, struct str name,
                               struct str about, int fn)
{
    struct bind_owner *o = bind_owner_running(L);
    struct json *parsed = NULL;
    struct offer *f = xcalloc(1, sizeof *f);
    f->kind = kind;
    f->o = o;
    if (fn != 0) {
        lua_pushvalue(L, fn);
        f->fn = refs_take(L, o->owner);
    }
    f->name = str_dup(name);
    f->about = str_dup(about);
    if (about.n != 0 && json_parse(&parsed, &f->arena, str_of(f->about), NULL, NULL) == 0) {
        bool checked = !json_bool(json_get(parsed, "unchecked"), false);
        f->schema = checked ? json_get(parsed, "input_schema") : NULL;
    }
    return f;
}

int offer_add(lua_State *L, const struct offer_kind *kind, struct str name, struct str about,
              enum gen_naming naming, int fn)
{
    struct plugin__version *v = plugin__running(L, kind->what);
    struct err e = {0};
    struct gen_item *it;
    assert(fn == 0 || kind->push != NULL);
    for (size_t i = 0; i < gen_unit_count(v->unit); i++) {
        const struct gen_item *other = gen_unit_at(v->unit, i);
        struct str have = str_of(gen_item_name(other));
        if (gen_item_kind(other) == kind->kind &&
            (kind->kind == GEN_ROUTE ? gen_route_same(name, have) : str_eq(name, have))) {
            char text[256];
            snprintf(text, sizeof text, "%s '%.200s' is already registered; the first one is kept",
                     kind->what, name.p);
            bind__note_here(L, kind->conflict, text);
            return args_fail(L, "%s", text);
        }
    }
    int refused = bind__quota_take(L, QUOTA_OFFER, offer_bytes(name, about), kind->what);
    if (refused != 0) {
        return refused;
    }
    struct offer *f = offer_new(L, kind, name, about, fn);
    struct gen_item_spec spec = {.kind = kind->kind,
                                 .name = name,
                                 .about = about,
                                 .naming = naming,
                                 .ops = &item_ops,
                                 .face = kind->face,
                                 .data = f};
    if (gen_unit_add(v->unit, &spec, &it, &e) < 0) {
        offer_free(f);
        return args_fail(L, "%s: %s", kind->what, e.msg);
    }
    return bind__push_handle(L, l_off, gen_item_id(it));
}

// ---- the table that describes an offer ---------------------------------------------------------------

void offer_check(lua_State *L, const char *who, const char *const *keys)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_checkstack(L, 24, who);
    args_keys(L, 1, who, keys);
}

struct str offer_name(lua_State *L, const char *who, const char *const *keys, const char *like)
{
    offer_check(L, who, keys);
    args_field(L, 1, "name");
    struct str name = args_str(L, -1, who, "name");
    if (!plugin_name_valid(name)) {
        luaL_error(L, "%s: invalid name '%s'; use a name like '%s'", who, name.p, like);
    }
    return name;
}

struct str offer_text(lua_State *L, const char *who, const char *key, struct str fallback)
{
    return args_field(L, 1, key) ? args_str(L, -1, who, key) : fallback;
}

void offer_write_text(lua_State *L, struct jw *w, const char *who, const char *key, const char *as)
{
    if (args_field(L, 1, key)) {
        jw_kstr(w, as, args_str(L, -1, who, key));
    }
}

int offer_fn(lua_State *L, const char *who, const char *key)
{
    args_field(L, 1, key);
    args_fn(L, lua_gettop(L), who);
    return lua_gettop(L);
}

static int by_key(const void *a, const void *b)
{
    return str_cmp(((const struct json_member *)a)->key, ((const struct json_member *)b)->key);
}

void offer_sort(struct json *v)
{
    if (v->type == JSON_OBJ && v->n != 0) {
        qsort(v->members, v->n, sizeof *v->members, by_key);
    }
    for (size_t i = 0; v->type == JSON_OBJ && i < v->n; i++) {
        offer_sort(&v->members[i].value);
    }
    for (size_t i = 0; v->type == JSON_ARR && i < v->n; i++) {
        offer_sort(&v->items[i]);
    }
}

struct json *offer_value(lua_State *L, const char *who, const char *key, struct arena *a)
{
    struct json *v = NULL;
    struct err e = {0};
    if (args_field(L, 1, key) && value_read(&v, a, L, -1, &e) < 0) {
        luaL_error(L, "%s: %s: %s", who, key, e.msg);
    }
    if (v != NULL) {
        offer_sort(v);
    }
    return v;
}

// ---- calls ----------------------------------------------------------------------------------------

static void on_done(void *arg, const struct bind_result *r)
{
    struct offer_job *j = arg;
    struct offer *f = j->offer;
    assert(j->call != NULL && j->ended != NULL);
    if (r->end != BIND_CANCELLED) {
        hook_stats_add(&f->stats, time_mono_ns() - j->began_ns);
        f->stats.errors += r->end != BIND_DONE;
        f->strikes = r->end == BIND_TIMEOUT ? f->strikes + 1 : 0;
    }
    j->ended(j, r);
}

bool offer_begin(struct offer_job *j, struct offer *f, offer_ended *ended, uint32_t timeout_ms)
{
    assert(f->fn != 0);
    j->offer = f;
    j->ended = ended;
    j->call = f->o->bind->stopped ? NULL : bind_call_begin(f->o, f->fn);
    if (j->call == NULL) {
        return false;
    }
    j->arena = (struct arena){0};
    lua_State *L = bind_call_stack(j->call);
    lua_checkstack(L, 16);
    j->began_ns = time_mono_ns();
    bind__call_name(j->call, f->kind->what, f->name);
    int n = f->kind->push(j, L);
    j->ctx.call = j->call;
    bind_call_run(j->call, n, timeout_ms, on_done, j);
    return true;
}

void offer_cancel(struct offer_job *j)
{
    struct vm *vm = j->offer->o->vm;
    bind_call_cancel(j->call);
    agent_ctx_drop(&j->ctx, vm);
    arena_fini(&j->arena);
}

static int fill_error(struct err *e, int code, const struct gen_diag *fault)
{
    if (fault->path == NULL || fault->line == 0) {
        return err_set(e, code, "%s", fault->message);
    }
    struct str file = path_base(str_of(fault->path));
    return err_set(e, code, "%s (" STR_FMT ":%d)", fault->message, STR_ARG(file), fault->line);
}

int offer_fault(struct err *e, const struct bind_result *r)
{
    if (r->fault == NULL) {
        return err_set(e, ERR_CONFLICT, "the plugin was unloaded");
    }
    return fill_error(e, r->end == BIND_TIMEOUT ? ERR_TIMEOUT : ERR_INVALID, r->fault);
}

int offer_bad_answer(struct offer_job *j, lua_State *L, struct err *e)
{
    struct offer *f = j->offer;
    struct err why = *e;
    struct gen_diag d = {.code = DIAG_HOOK_FAILED, .message = why.msg};
    char what[128];
    snprintf(what, sizeof what, "%s '%.90s'", f->kind->what, f->name);
    bind__place_of(L, f->fn, &d);
    bind__note_fault(f->o, what, &d);
    f->stats.errors++;
    return fill_error(e, why.code, &d);
}

const struct hook_stats *offer_stats(const void *data)
{
    const struct offer *f = data;
    return &f->stats;
}

// ---- a call of the generation ---------------------------------------------------------------------

struct call_job {
    struct offer_job job; // first
    struct gen_call *gen;
};

struct gen_call *offer_gen_call(struct offer_job *j)
{
    return container_of(j, struct call_job, job)->gen;
}

/// The value of a command or prompt section: what it returned.
static int read_value(struct offer_job *j, lua_State *L, int n, const struct json **out,
                      struct err *e)
{
    struct json *v;
    if (n == 0) {
        lua_pushnil(L);
    }
    int rc = value_read(&v, &j->arena, L, 1, e);
    if (rc == 0 && j->offer->kind->kind == GEN_PROMPT && v->type == JSON_NULL) {
        *v = (struct json){.type = JSON_STR, .s = STR("")};
    } else if (rc == 0 && j->offer->kind->kind == GEN_PROMPT && v->type != JSON_STR) {
        rc = err_set(e, ERR_INVALID, "a prompt section must be a text, not %s", json_type_name(v));
    }
    *out = v;
    return rc;
}

/// What a call that came to its end answers, and what it did to its ctx.
static int read_answer(struct offer_job *j, lua_State *L, int n, const struct json **out,
                       struct err *e)
{
    bool tool = j->offer->kind->kind == GEN_TOOL;
    int rc = agent_ctx_take(&j->ctx, j->offer->o->vm, e);
    if (rc == 0 && !tool && n > 1 && lua_isnil(L, 1) && lua_type(L, 2) == LUA_TSTRING) {
        j->offer->stats.errors++; // the plugin says itself that it failed
        return err_set(e, ERR_INVALID, "%s", lua_tostring(L, 2));
    }
    if (rc == 0) {
        rc = (tool ? offer_tool_read : read_value)(j, L, n, out, e);
    }
    return rc < 0 ? offer_bad_answer(j, L, e) : 0;
}

static void on_call_ended(struct offer_job *j, const struct bind_result *r)
{
    struct gen_call *gen = offer_gen_call(j);
    const struct json *out = NULL;
    struct vm *vm = j->offer->o->vm;
    struct err e = {0};
    int rc = r->end == BIND_DONE ? read_answer(j, r->L, r->n, &out, &e) : offer_fault(&e, r);
    agent_ctx_drop(&j->ctx, vm);
    gen->done(gen, rc, rc < 0 ? NULL : out, rc < 0 ? &e : NULL);
    arena_fini(&j->arena);
    free(container_of(j, struct call_job, job));
}

static void target_call(void *data, struct gen_call *gen)
{
    struct offer *f = data;
    struct err e = {0};
    int rc = f->schema != NULL ? schema_fit(f->schema, gen->input, "input", &e) : 0;
    if (rc < 0) {
        gen->done(gen, rc, NULL, &e);
        return;
    }
    struct call_job *c = xcalloc(1, sizeof *c);
    c->gen = gen;
    gen->target_data = c;
    if (!offer_begin(&c->job, f, on_call_ended, gen->timeout_ms)) {
        free(c);
        rc = err_set(&e, ERR_CONFLICT, "%s '%s' can no longer be called", f->kind->what, f->name);
        gen->done(gen, rc, NULL, &e);
    }
}

static void target_cancel(void *data, struct gen_call *gen)
{
    (void)data;
    struct call_job *c = gen->target_data;
    offer_cancel(&c->job);
    free(c);
}

const struct gen_target offer_target = {
    .call = target_call, .cancel = target_cancel, .stats = offer_stats};

// ---- commands and prompt sections -----------------------------------------------------------------

void offer_push_ctx(struct offer_job *j, lua_State *L)
{
    agent_ctx_push(&j->ctx, L, j->offer->o->bind, offer_gen_call(j)->ctx);
}

int offer_push_input(struct offer_job *j, lua_State *L)
{
    value_push(L, offer_gen_call(j)->input);
    offer_push_ctx(j, L);
    return 2;
}

static int push_prompt(struct offer_job *j, lua_State *L)
{
    offer_push_ctx(j, L);
    return 1;
}

static int push_tool(struct offer_job *j, lua_State *L)
{
    const struct json *input = offer_gen_call(j)->input;
    offer_push_ctx(j, L);
    if (j->offer->schema != NULL && input != NULL) {
        input = schema_defaults(j->offer->schema, input, &j->arena);
    }
    value_push(L, input);
    return 2;
}

const struct offer_kind offer_tool_kind = {"tool", GEN_TOOL, DIAG_TOOL_CONFLICT, &offer_target,
                                           push_tool};
static const struct offer_kind command_kind = {"command", GEN_COMMAND, DIAG_COMMAND_CONFLICT,
                                               &offer_target, offer_push_input};
static const struct offer_kind prompt_kind = {"prompt", GEN_PROMPT, DIAG_PROMPT_CONFLICT,
                                              &offer_target, push_prompt};

enum gen_naming offer_naming(lua_State *L)
{
    bool is_long = args_field(L, 1, "short") && !lua_toboolean(L, -1);
    return is_long ? GEN_NAME_LONG : GEN_NAME_PLAIN;
}

/// command{name, description, short, run}
int offer_command(lua_State *L)
{
    static const char *const keys[] = {"name", "description", "short", "run", NULL};
    struct str name = offer_name(L, "command", keys, "say-hello");
    struct args_scratch *s = args_scratch(L);
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_kstr(&w, "description", offer_text(L, "command", "description", STR("")));
    jw_end_obj(&w);
    return offer_add(L, &command_kind, name, args_json(L, s, "command", "the table"),
                     offer_naming(L), offer_fn(L, "command", "run"));
}

int offer_prompt(lua_State *L, struct str id, struct str about, int fn)
{
    return offer_add(L, &prompt_kind, id, about, GEN_NAME_PLAIN, fn);
}
