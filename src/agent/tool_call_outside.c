// A call of a tool without a session: POST /tool.
//
//     enter the directory ─> sandbox mode (lane) ─> remembered rules ─> a site with one call ─> the answer
//
// The call goes through the same pipeline as those of a turn, with the plugins, rules and settings of its directory.
// A call that would need a question is refused. The generation stays pinned until the answer.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/list.h"
#include "base/redact.h"

/// The tools of one generation that can be called outside of projects: collected once, shared by all such calls.
struct tool_shelf {
    unsigned refs;
    const struct gen *gen; // only compared, never dereferenced
    uint64_t number;
    struct arena arena;
    struct str *units; // names of those that reach here
    size_t n;
    struct toolbox tools;
};

struct tool_run {
    struct call_site site;
    struct arena arena;
    struct hook_ctx ctx;
    struct str name;
    const struct json *input; // borrowed from the caller until the answer
    const struct hook_caller *caller;
    void *caller_arg;
    bool answered, cancelled;
    struct tool_shelf *shelf;     // whose tools the site has; NULL: it has its own
    struct tool_run *prev, *next; // in agent.runs
    agent_tool_cb *cb;
    void *arg;
};

static void shelf_unref(struct tool_shelf *s)
{
    assert(s == NULL || s->refs != 0);
    if (s != NULL && --s->refs == 0) {
        toolbox_fini(&s->tools);
        arena_fini(&s->arena);
        free(s);
    }
}

static void run_free(void *arg)
{
    struct tool_run *r = arg;
    struct agent *a = r->site.agent;
    if (r->site.dir != NULL) {
        a->o.host.leave(a->o.host.arg, r->site.dir);
    }
    for (size_t i = 0; i < r->site.calls.n; i++) {
        tool_call__free(r->site.calls.p[i]);
    }
    if (r->shelf != NULL) {
        r->site.tools = (struct toolbox){0};
        shelf_unref(r->shelf);
    }
    tool_call__site_fini(&r->site);
    list_remove(&a->runs, r);
    arena_fini(&r->arena);
    free(r);
    agent__release(a);
}

/// Answer, with `answer` or with `no`. Freed later, because callers may still be inside the call.
static void run_end(struct tool_run *r, const struct agent_tool_answer *answer,
                    const struct agent_no *no)
{
    assert(!r->answered);
    r->answered = true;
    r->cb(r->arg, answer, no);
    loop_defer(r->site.agent->o.hub->loop, run_free, r);
}

static void run_refuse(struct tool_run *r, enum problem p, const char *hint, const char *text)
{
    struct agent_no no;
    struct buf clean = {.max = SIZE_MAX};
    redact_text(&clean, str_of(text));
    agent_no_set(&no, p, hint, "%s", buf_z(&clean));
    buf_fini(&clean);
    run_end(r, NULL, &no);
}

/// Tell the caller how it ended: a result, or why there is none.
static void on_ended(struct tool_call *c)
{
    struct tool_run *r = container_of(c->site, struct tool_run, site);
    struct str error = json_get_text(c->result, "error");
    bool plugin = c->entry != NULL && c->entry->tool == &tool_call__plugin_tool;
    const struct gen_item *item = plugin ? c->entry->data : NULL;
    char *text;
    struct str output = json_get_text(c->result, "output");
    bool as_said = str_eq(output, c->content_says); // no plugin changed it or answered in its place
    switch (c->end) {
    case CALL_RAN:
        run_end(
            r,
            &(struct agent_tool_answer){.output = output,
                                        .content = as_said ? c->content : NULL,
                                        .structured = as_said ? c->structured : NULL,
                                        .success = json_bool(json_get(c->result, "success"), true),
                                        .error = json_str(json_get(c->result, "error"), NULL),
                                        .generation = gen_number(r->site.gen)},
            NULL);
        break;
    case CALL_UNFIT: run_refuse(r, PROBLEM_INVALID_BODY, NULL, error.p); break;
    case CALL_DENIED:
        text = arena_printf(&r->arena, "denied by '%s'%s%s", c->denied_by,
                            c->reason[0] != '\0' ? ": " : "", c->reason);
        run_refuse(r, PROBLEM_FORBIDDEN, NULL, text);
        break;
    case CALL_UNASKED:
        text = arena_printf(
            &r->arena, "this call needs approval%s%s, and there is no session to ask in",
            c->asked_by != NULL ? ", says " : "", c->asked_by != NULL ? c->asked_by : "");
        run_refuse(r, PROBLEM_FORBIDDEN, "run it in a session, where the user can be asked", text);
        break;
    case CALL_TIMEOUT:
    case CALL_BROKEN:
        text = item != NULL ? arena_printf(&r->arena, "tool '%s' of '%s': %s", gen_item_name(item),
                                           gen_item_unit(item)->name, error.p)
                            : arena_strdup(&r->arena, error);
        run_refuse(r, c->end == CALL_TIMEOUT ? PROBLEM_PLUGIN_TIMEOUT : PROBLEM_PLUGIN_FAILED, NULL,
                   text);
        break;
    case CALL_CANCELLED:
        run_refuse(r, PROBLEM_STOPPING, NULL,
                   r->cancelled ? "the call was cancelled" : "the hub is stopping");
        break;
    }
}

/// Fill `tools` with the tools that can be called in `dir` without a session; `names` gets the names of their units.
/// Returns how many units there are.
static size_t fill_tools(const struct agent *a, const struct gen *g, const char *dir,
                         struct toolbox *tools, struct str **names, struct arena *arena)
{
    const struct agent_host *h = &a->o.host;
    struct gen_unit **units = arena_calloc(arena, gen_count(g) + 1, sizeof(struct gen_unit *));
    size_t n = 0;
    *names = arena_calloc(arena, gen_count(g) + 1, sizeof **names);
    for (size_t i = 0; i < gen_count(g); i++) {
        struct gen_unit *u = gen_at(g, i);
        if (h->reach(h->plugins, u, "", dir) != AGENT_NEVER) {
            (*names)[n] = arena_str(arena, str_of(u->name));
            units[n++] = u;
        }
    }
    toolbox_fill(tools, g, units, n, &(struct toolbox_rules){0}, arena);
    return n;
}

/// The shelf of the current generation `g`. Generations of one turn of the loop share a number, so their addresses are
/// compared too: none is freed before that turn ends.
static struct tool_shelf *shelf_of(struct agent *a, const struct gen *g)
{
    struct tool_shelf *s = a->shelf;
    if (s == NULL || s->gen != g || s->number != gen_number(g)) {
        shelf_unref(s);
        s = xcalloc(1, sizeof *s);
        *s = (struct tool_shelf){.refs = 1, .gen = g, .number = gen_number(g)};
        s->n = fill_tools(a, g, "/", &s->tools, &s->units, &s->arena);
        a->shelf = s;
    }
    return s;
}

void agent__drop_shelf(struct agent *a)
{
    shelf_unref(a->shelf);
    a->shelf = NULL;
}

/// Pin the current generation and take its tools and hooks for this directory. False: the caller was told why not.
static bool fill_site(struct tool_run *r)
{
    struct call_site *site = &r->site;
    struct agent *a = site->agent;
    struct gen *g = gen_current(a->o.engine);
    struct str *names;
    struct err e = {0};
    if (g == NULL || a->stopping) {
        run_refuse(r, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return false;
    }
    if (agent__check_required(a, g, site->dir != NULL ? site->dir : "/", &e) < 0) {
        run_refuse(r, PROBLEM_PLUGIN_UNAVAILABLE, NULL, e.msg);
        return false;
    }
    site->gen = gen_pin(g);
    if (site->dir != NULL) {
        size_t n = fill_tools(a, g, site->dir, &site->tools, &names, &r->arena);
        site->hooks = gen_hooks_of(g, names, n);
    } else {
        r->shelf = shelf_of(a, g);
        r->shelf->refs++;
        site->tools = r->shelf->tools;
        site->hooks = gen_hooks_of(g, r->shelf->units, r->shelf->n);
    }
    return true;
}

/// Can the tool be called here? False: the caller was told why not.
static bool check_tool(struct tool_run *r)
{
    const struct tool_entry *e = toolbox_find(&r->site.tools, r->name);
    struct arena *a = &r->arena;
    const char *name = arena_printf(a, "%.*s", (int)MIN(r->name.n, (size_t)100), r->name.p);
    if (e == NULL && gen_item_find(r->site.gen, GEN_TOOL, r->name) != NULL) {
        run_refuse(r, PROBLEM_NOT_FOUND, "give a 'working_dir' in its project",
                   arena_printf(a, "tool '%s' belongs to another project or session", name));
    } else if (e == NULL) {
        run_refuse(r, PROBLEM_NOT_FOUND, "`afloat tools` lists them",
                   arena_printf(a, "there is no tool '%s'", name));
    } else if (e->tool->ops->needs_session) {
        run_refuse(r, PROBLEM_NOT_FOUND, "`afloat tools` lists the others",
                   arena_printf(a, "tool '%s' runs in sessions only", name));
    } else if (toolbox_is_off(r->site.agent->o.hub->choices, e, a)) {
        run_refuse(r, PROBLEM_CONFLICT, "`afloat tool enable NAME` switches it on",
                   arena_printf(a, "tool '" STR_FMT "' is switched off", STR_ARG(e->name)));
    } else if (e->tool->ops->work != NULL && r->site.dir == NULL) {
        run_refuse(r, PROBLEM_INVALID_BODY, NULL, "built-in tools need a 'working_dir'");
    } else {
        return true;
    }
    return false;
}

static void on_rules(void *arg, struct book_project *rules, const struct err *e)
{
    struct tool_run *r = arg;
    struct agent *a = r->site.agent;
    const struct err *fault = e != NULL ? e : &a->rules_fault;
    r->site.rules = rules;
    if (fault->code != 0) { // the rule that cannot be read may be the one that forbids
        run_refuse(r, PROBLEM_CONFLICT, NULL,
                   arena_printf(&r->arena, "a permission rule cannot be read: %s", fault->msg));
    } else if (r->cancelled) {
        run_refuse(r, PROBLEM_STOPPING, NULL, "the call was cancelled");
    } else if (fill_site(r) && check_tool(r)) {
        const char *id = arena_printf(&r->arena, "api-%llu", (unsigned long long)++a->n_runs);
        struct tool_call *c = tool_call__new(&r->site, str_of(id), r->input);
        c->caller = r->caller;
        c->caller_arg = r->caller_arg;
        tool_call__begin(c, r->name, NULL);
    }
}

static void choose_mode(void *arg) // on the lane: links have to be followed
{
    struct tool_run *r = arg;
    const char *why;
    r->site.mode =
        box_choose_mode(r->site.mode, r->site.dir, r->site.agent->o.hub->home->dir, &why);
}

static void on_mode(void *arg)
{
    struct tool_run *r = arg;
    book_find(r->site.agent->book, r->site.dir, on_rules, r);
}

static void on_entered(void *arg, const char *dir)
{
    struct tool_run *r = arg;
    struct agent *a = r->site.agent;
    if (dir == NULL) {
        run_refuse(r, PROBLEM_INVALID_BODY, NULL, "'working_dir' is not a directory that exists");
        return;
    }
    r->site.dir = arena_strdup(&r->arena, str_of(dir));
    r->ctx.working_dir = str_of(r->site.dir);
    const char *mode = config_str(agent__config_at(a, dir), "sandbox.mode");
    (void)box_mode_parse(str_of(mode), &r->site.mode);
    work_submit(a->tools, 0, choose_mode, on_mode, r);
}

struct tool_run *agent_tool_run(struct agent *a, struct str name, const struct json *input,
                                const struct agent_tool_from *from, agent_tool_cb *cb, void *arg)
{
    static const struct json object = {.type = JSON_OBJ}, list = {.type = JSON_ARR};
    struct tool_run *r = xcalloc(1, sizeof *r);
    r->name = name;
    r->input = input != NULL ? input : &object;
    r->cb = cb;
    r->arg = arg;
    r->caller = from->caller;
    r->caller_arg = from->caller_arg;
    r->ctx = (struct hook_ctx){
        .state = &object, .memory = &list, .arena = &r->arena, .client = from->client};
    r->site = (struct call_site){.agent = a,
                                 .arena = &r->arena,
                                 .ctx = &r->ctx,
                                 .mode = BOX_WORKSPACE_WRITE,
                                 .ended = on_ended};
    list_add(&a->runs, r);
    agent__hold(a);
    if (from->dir == NULL) {
        on_rules(r, NULL, NULL);
    } else if (a->stopping) {
        run_refuse(r, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else {
        a->o.host.enter(a->o.host.arg, from->dir, on_entered, r);
    }
    return r->answered ? NULL : r; // it is freed in a later turn
}

void agent_tool_cancel(struct tool_run *r)
{
    assert(!r->answered);
    r->cancelled = true;
    if (r->site.calls.n != 0) {
        tool_call__cancel(r->site.calls.p[0]);
    }
}

struct entering {
    struct agent *agent;
    void (*done)(void *arg, const char *real_dir);
    void *arg;
};

static void on_arrived(void *arg, const char *real_dir)
{
    struct entering e = *(struct entering *)arg;
    free(arg);
    e.done(e.arg, real_dir);
    agent__release(e.agent);
}

static void on_stopping(void *arg)
{
    on_arrived(arg, NULL);
}

void agent_enter(struct agent *a, const char *dir, void (*done)(void *arg, const char *real_dir),
                 void *arg)
{
    struct entering *e = xmalloc(sizeof *e);
    *e = (struct entering){.agent = a, .done = done, .arg = arg};
    agent__hold(a);
    if (a->stopping) {
        loop_defer(a->o.hub->loop, on_stopping, e);
    } else {
        a->o.host.enter(a->o.host.arg, dir, on_arrived, e);
    }
}

void agent_leave(struct agent *a, const char *real_dir)
{
    a->o.host.leave(a->o.host.arg, real_dir);
}

bool agent_reaches(const struct agent *a, const struct gen_unit *u, const char *dir)
{
    return a->o.host.reach(a->o.host.plugins, u, "", dir != NULL ? dir : "/") != AGENT_NEVER;
}

/// The tools that can be called in `dir`; borrowed until the loop turns. The caller ends `own`.
static const struct toolbox *tools_at(struct agent *a, struct gen *g, const char *dir,
                                      struct toolbox *own, struct arena *arena)
{
    struct str *names;
    if (dir == NULL) {
        return &shelf_of(a, g)->tools;
    }
    fill_tools(a, g, dir, own, &names, arena);
    return own;
}

/// Is it a tool of a plugin? Tools of MCP servers are not passed on.
static bool is_of_plugin(const struct tool_entry *e)
{
    return e->tool == &tool_call__plugin_tool && strcmp(gen_item_unit(e->data)->host, "mcp") != 0;
}

/// Is it a tool of a plugin that is not switched off?
static bool is_offered(const struct agent *a, const struct tool_entry *e, struct arena *arena)
{
    return is_of_plugin(e) && !toolbox_is_off(a->o.hub->choices, e, arena);
}

size_t agent_tool_list(struct agent *a, const char *dir, struct arena *arena,
                       const struct agent_tool **out)
{
    struct gen *g = gen_current(a->o.engine);
    size_t n = 0;
    *out = NULL;
    if (g == NULL) {
        return 0;
    }
    struct toolbox own = {0};
    const struct toolbox *tools = tools_at(a, g, dir, &own, arena);
    struct agent_tool *list = arena_calloc(arena, tools->list.n + 1, sizeof *list);
    vec_foreach (it, &tools->list) {
        if (is_offered(a, it, arena)) {
            list[n++] = (struct agent_tool){.name = it->name, .item = it->data};
        }
    }
    *out = list;
    toolbox_fini(&own);
    return n;
}

const struct gen_item *agent_tool_find(struct agent *a, const char *dir, struct str name,
                                       struct arena *arena)
{
    struct gen *g = gen_current(a->o.engine);
    struct toolbox own = {0};
    const struct tool_entry *e =
        g != NULL ? toolbox_find(tools_at(a, g, dir, &own, arena), name) : NULL;
    bool listed = e != NULL && str_eq(e->name, name) && is_offered(a, e, arena);
    const struct gen_item *item = listed ? e->data : NULL;
    toolbox_fini(&own);
    return item;
}

void agent__cancel_runs(struct agent *a)
{
    for (struct tool_run *r = a->runs; r != NULL; r = r->next) {
        if (r->site.calls.n != 0) {
            tool_call__cancel(r->site.calls.p[0]);
        }
    }
}
