// The tool `task`: a subagent does a part of the work, in a session of its own, while the call waits.
//
//     task ──> a session like the parent's ──> the prompt is its message ──> its turn ends ──> it is ended
//                    │                                                             └─ its answer ─> the result
//                    └─ usage, steps, questions, changes of files: counted, asked and kept at the parent's
//
// A subagent may do nothing that its parent may not: sandbox, permission mode, rules, granted directories and
// plugins are those of the session that the user talks to, and questions are asked there. They are looked up when
// they are needed, so that a change reaches subagents at work. Its tools are a subset of its parent's.
//
// Invariants:
//   - a call of `task` is over only when its subagent has ended, also when it is interrupted: while a session
//     has a `task`, the call and the turn that it points to exist.
//   - a session may be ended by a client at any time: a task finds its session by its id.
//   - nesting ends at DEPTH: a session that deep has no tool `task`.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/tool_int.h"
#include "base/utf8.h"

enum { DEPTH = 2, WEIGHT = 4, TITLE_BYTES = 80, LINE_BYTES = 160 };

struct task {
    struct tool_call *call;
    char *id;        // of its session; NULL: it is not made yet
    struct buf said; // progress for the parent's readers, while an earlier piece is being written
    struct buf output;
    char *error; // NULL: it succeeded
};

// ---- the parents --------------------------------------------------------------------------------

struct turn *turn__parent(const struct turn *t)
{
    return t->s->task != NULL ? t->s->task->call->site->turn : NULL;
}

struct turn *turn__root(struct turn *t)
{
    for (struct turn *above; (above = turn__parent(t)) != NULL;) {
        t = above;
    }
    return t;
}

const struct session *agent__session_root(const struct session *s)
{
    while (s->task != NULL) {
        s = s->task->call->site->turn->s;
    }
    return s;
}

// ---- the subagent -------------------------------------------------------------------------------

/// The session of the task; NULL: it is not made yet, or gone.
static struct session *child_of(const struct task *k)
{
    return k->id != NULL ? map_get(&k->call->site->agent->sessions, str_of(k->id)) : NULL;
}

const struct turn *task__turn(const struct tool_call *c)
{
    const struct session *child = c->task != NULL ? child_of(c->task) : NULL;
    return child != NULL ? child->turn : NULL;
}

void task__tell(const struct turn *t, struct str text, struct str more)
{
    struct task *k = t->s->task;
    struct str line = str_cut(&more, '\n');
    if (k == NULL || (text.n == 0 && line.n == 0)) {
        return;
    }
    buf_adds(&k->said, text);
    buf_addz(&k->said, text.n != 0 && line.n != 0 ? " " : "");
    buf_add(&k->said, line.p, utf8_cut(line.p, line.n, LINE_BYTES));
    buf_addc(&k->said, '\n');
    if (!k->call->telling) {
        tool_call__tell_progress(k->call, buf_str(&k->said));
        buf_clear(&k->said);
    }
}

// ---- the end ------------------------------------------------------------------------------------

static void on_left(void *arg, struct session *s, const struct agent_no *no)
{
    (void)arg;
    (void)no;
    if (s != NULL) {
        agent__session_forget(s);
    }
}

/// Finish the call: its session has ended, or was never made.
static void finish(struct task *k)
{
    struct tool_call *c = k->call;
    struct session *child = child_of(k);
    assert(c->task == k);
    if (child != NULL) { // it leaves memory when its callers are done with it
        child->task = NULL;
        agent__answer_session(child->agent, on_left, NULL, child, NULL);
    }
    c->task = NULL;
    tool_call_finish(c, tool_call__clip(c->site->arena, buf_str(&k->output)),
                     k->error != NULL ? arena_strdup(c->site->arena, str_of(k->error)) : NULL);
    buf_fini(&k->said);
    buf_fini(&k->output);
    free(k->error);
    free(k->id);
    free(k);
}

static void on_ended(void *arg, struct session *s, const struct agent_no *no)
{
    (void)s;
    (void)no; // the call is over in any case
    finish(arg);
}

/// End its session, then finish.
static void end_child(struct task *k)
{
    struct session *child = child_of(k);
    if (child != NULL) {
        agent_session_end(child, false, on_ended, k);
    } else {
        finish(k);
    }
}

static void on_outcome(void *arg, const struct agent_outcome *o, const struct agent_no *no)
{
    struct task *k = arg;
    // only the root session waits
    assert(o != NULL && no == NULL && o->state != AGENT_TURN_WAITING);
    (void)no;
    buf_adds(&k->output, o->text);
    if (o->state == AGENT_TURN_FAILED) {
        k->error =
            xasprintf("the subagent failed: " STR_FMT " (%s)", STR_ARG(o->error), o->error_code);
    } else if (o->state == AGENT_TURN_INTERRUPTED) {
        k->error = xstrdup("the subagent was interrupted");
    }
    end_child(k);
}

// ---- the beginning ------------------------------------------------------------------------------

static void on_sent(void *arg, const struct agent_sent *sent, const struct agent_no *no)
{
    struct task *k = arg;
    if (sent == NULL) {
        k->error = xasprintf("the subagent cannot begin: %s", no->detail);
        end_child(k);
        return;
    }
    agent_wait(sent->s, sent->turn_id, on_outcome, k);
    if (k->call->cancelled) {
        agent_interrupt(sent->s);
    }
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct task *k = arg;
    if (s == NULL) {
        k->error = xasprintf("the subagent cannot begin: %s", no->detail);
        finish(k);
        return;
    }
    k->id = xstrdup(s->id);
    s->task = k;
    if (k->call->cancelled) {
        end_child(k);
    } else {
        struct str prompt = json_get_text(tool_call_input(k->call), "prompt");
        agent_send(s, &(struct agent_message){.text = prompt}, on_sent, k);
    }
}

/// Set what differs from the parent's settings.
static void prepare(struct session *child, const void *wish)
{
    const struct tool_call *c = wish;
    const struct json *input = tool_call_input(c), *tools = json_get(input, "tools");
    const struct session *parent = tool_call__session(c->site);
    struct str model = json_get_text(input, "model");
    unsigned depth = 1;
    struct str rest = str_trim(json_get_text(input, "prompt")), line = str_cut(&rest, '\n');
    // our own loop, also when an engine runs the parent
    agent__session_set(&child->engine, STR(""));
    agent__session_set(&child->title, (struct str){line.p, utf8_cut(line.p, line.n, TITLE_BYTES)});
    if (model.n != 0) { // "MODEL" of the parent's provider, or "PROVIDER/MODEL"
        struct str name = model, provider = str_cut(&name, '/');
        bool named = provider.n < model.n &&
                     providers_has(parent->agent->o.providers, agent__session_config(parent),
                                   provider, parent->working_dir);
        agent__session_set(&child->want_provider, named ? provider : str_of(parent->provider));
        agent__session_set(&child->want_model, named ? name : model);
    }
    for (const struct session *s = parent; s->task != NULL; s = s->task->call->site->turn->s) {
        depth++;
    }
    if (depth >= DEPTH) {
        vec_push(&child->disabled_tools, xstrdup("task"));
    }
    if (tools == NULL || tools->type != JSON_ARR) {
        return;
    }
    vec_fini_each(&child->tools, free);
    child->tools = (struct session_names){0};
    child->some_tools = true;
    json_foreach_item (it, tools) {
        vec_push(&child->tools, str_dup(toolbox_find(&c->site->tools, json_str(it, ""))->name));
    }
}

static void start(struct tool_call *c)
{
    json_foreach_item (it, json_get(tool_call_input(c), "tools")) {
        struct str name = json_str(it, "");
        if (toolbox_find(&c->site->tools, name) == NULL) {
            tool_call_finish(c, STR(""),
                             arena_printf(c->site->arena, "'tools': you have no tool '%.*s'",
                                          (int)MIN(name.n, (size_t)64), name.p));
            return;
        }
    }
    struct task *k = xmalloc(sizeof *k);
    *k = (struct task){.call = c, .said = {.max = SIZE_MAX}, .output = {.max = SIZE_MAX}};
    c->task = k;
    agent__session_spawn(tool_call__session(c->site), prepare, c, on_made, k);
}

/// Interrupt the subagent; the call is over when it has ended.
static bool cancel(struct tool_call *c)
{
    struct session *child = c->task != NULL ? child_of(c->task) : NULL;
    if (child != NULL) {
        agent_interrupt(child);
    }
    return c->task == NULL;
}

const struct tool_ops tool_TASK = {
    .start = start, .cancel = cancel, .needs_session = true, .weight = WEIGHT};

// ---- purging ------------------------------------------------------------------------------------

struct purging {
    struct session *s;
    size_t open;
    loop_fn *done;
};

static void on_purged(void *arg, struct session *s, const struct agent_no *no)
{
    struct purging *p = arg;
    (void)s;
    (void)no; // one that could not be removed stays in the lists
    assert(p->open != 0);
    if (--p->open == 0) {
        p->done(p->s);
        free(p);
    }
}

static void on_found(void *arg, struct session *s, const struct agent_no *no)
{
    if (s != NULL) {
        agent_session_end(s, true, on_purged, arg);
    } else {
        on_purged(arg, NULL, no);
    }
}

static void on_listed(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct purging *p = arg;
    (void)e;
    for (size_t i = 0; status == 0 && i < r->n; i++) {
        p->open++;
        agent_session_get(p->s->agent, r->rows[i].id, on_found, p);
    }
    on_purged(p, NULL, NULL);
}

void agent__purge_tasks(struct session *s, loop_fn *done)
{
    struct purging *p = xmalloc(sizeof *p);
    *p = (struct purging){.s = s, .open = 1, .done = done};
    store_list(s->agent->o.hub->store, &(struct store_filter){.parent = str_of(s->id)}, STR_NULL, 0,
               on_listed, p);
}
