// The process of an outside agent that runs the turns of a session: opened for a turn, kept for the next one.
//
//     turn ──> is it open, and with the same model, box, environment? ──yes──> use its thread
//                     │ no
//                     └──> close it, open one that resumes the same conversation
//
// The engine keeps its own memory of the conversation, named by the id of its thread (metadata.json,
// `engine_thread`). Our journal is the truth: where the two may differ (a rewind, a fork, another engine before) the
// id is forgotten, and a new thread is told the past as text.
//
// Invariants:
//   - `live` is set exactly while a thread is open. It is closed when the session leaves memory or ends, after IDLE_MS
//     without a turn, and before agent_stop() is done.
//   - a session ends, and agent_stop() is done, only when `engine_processes` is 0: no process outlives its session.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "proto/engines.h"

enum { IDLE_MS = 2 * 60 * 1000, PAST_MAX = 64 * 1024, PAST_ITEM = 4096 };

void agent_set_engines(struct agent *a, const struct engine_kind *const *kinds,
                       struct engine_world *world)
{
    a->engines = kinds;
    a->engine_world = world;
}

// ---- which one ----------------------------------------------------------------------------------

const struct engine_kind *agent__engine_kind(const struct session *s)
{
    return s->engine != NULL ? agent__find_engine(s->agent, agent__session_config(s), s->engine)
                             : NULL;
}

/// The program of an engine, looked for on a thread: a directory of the client's PATH may never answer.
struct engine_look {
    struct agent *agent;
    char *path, *program;
    struct agent_no no;   // why the engine cannot be used; its detail is empty when it can
    agent__usable_cb *cb; // NULL: agent__engine_stop_looking() was called
    void *arg;
};

static void look_for_program(void *arg)
{
    struct engine_look *l = arg;
    char *found = l->program != NULL ? agent__find_program(str_of(l->path), l->program) : NULL;
    if (found != NULL) {
        l->no.detail[0] = '\0';
    }
    free(found);
}

static void on_looked(void *arg)
{
    struct engine_look *l = arg;
    struct agent *a = l->agent;
    if (l->cb != NULL) {
        l->cb(l->arg, l->no.detail[0] != '\0' ? &l->no : NULL);
    }
    free(l->path);
    free(l->program);
    free(l);
    agent__release(a);
}

struct engine_look *agent__engine_look(const struct session *s, agent__usable_cb *cb, void *arg)
{
    const struct engine_kind *kind = agent__engine_kind(s);
    const struct json *command =
        agent__engine_setting(agent__session_config(s), "engines.*.command", s->engine);
    struct str program = json_str(command, kind != NULL ? kind->program : NULL);
    struct engine_look *l = xcalloc(1, sizeof *l);
    *l = (struct engine_look){.agent = s->agent, .cb = cb, .arg = arg};
    if (kind == NULL) {
        agent_no_set(&l->no, PROBLEM_INVALID_BODY,
                     "there are " ENGINE_NATIVE ", " ENGINE_CODEX ", " ENGINE_CLAUDE
                     " and the names of [engines]",
                     "there is no engine '%.60s'", s->engine);
    } else if (program.n == 0) {
        agent_no_set(&l->no, PROBLEM_INVALID_BODY, NULL,
                     "the engine '%.60s' needs its program: set 'command' in [engines.%.60s]",
                     s->engine, s->engine);
    } else { // the answer unless look_for_program() finds it
        agent_no_set(&l->no, PROBLEM_INVALID_BODY, NULL,
                     "the engine '%.60s' needs the program '%.100s', which is not installed%s%s",
                     s->engine, program.p, kind->install != NULL ? ": " : "",
                     kind->install != NULL ? kind->install : "");
        const char *path = str_env((const char *const *)s->environment, "PATH");
        l->path = xstrdup(path != NULL ? path : AGENT_PATH);
        l->program = str_dup(program);
    }
    agent__hold(s->agent);
    // by PATH, so that one with a dead network mount does not occupy the whole lane
    uint64_t key = l->path != NULL ? map_hash(str_of(l->path)) : 0;
    work_submit(s->agent->tools, key, look_for_program, on_looked, l);
    return l;
}

void agent__engine_stop_looking(struct engine_look *l)
{
    l->cb = NULL;
}

// ---- the past -----------------------------------------------------------------------------------

/// The messages before this turn as text: as many whole ones, from the end, as PAST_MAX bytes hold.
static struct str write_past(struct turn *t)
{
    const struct json *said = talk_messages(t->s->talk);
    struct buf out = {.max = SIZE_MAX}, one = {.max = SIZE_MAX};
    size_t from = said->n - MIN(talk_tail(t->s->talk), (size_t)said->n), room = PAST_MAX;
    vec(struct str) texts = {0};
    while (from-- > 0 && room != 0) {
        const struct json *m = &said->items[from];
        buf_clear(&one);
        buf_addf(&one, "## " STR_FMT "\n", STR_ARG(json_get_text(m, "role")));
        talk_write_content(&one, m, PAST_ITEM);
        room = one.n < room ? room - one.n : 0;
        vec_push(&texts, arena_str(&t->step_arena, buf_str(&one)));
    }
    for (size_t i = texts.n; i-- > 0;) {
        buf_adds(&out, texts.p[i]);
    }
    struct str past = arena_str(&t->step_arena, buf_str(&out));
    vec_fini(&texts);
    buf_fini(&one);
    buf_fini(&out);
    return past;
}

// ---- open and closed ----------------------------------------------------------------------------

void agent__engine_close(struct session *s)
{
    struct session_engine *e = s->live;
    if (e != NULL) {
        s->live = NULL;
        assert(e->thread != NULL);
        timer_stop(&e->idle);
        e->thread->ops->close(e->thread);
        buf_fini(&e->fixed);
        buf_fini(&e->tools);
        buf_fini(&e->system);
        free(e);
    }
}

void agent__engine_forget(struct session *s)
{
    agent__engine_close(s);
    agent__session_set(&s->engine_thread, STR(""));
    agent__session_set(&s->engine_dir, STR(""));
}

bool agent__engine_inherit(struct session *s, struct session *from)
{
    bool fits =
        from->engine_thread != NULL && s->engine != NULL && strcmp(from->engine, s->engine) == 0;
    if (fits) {
        agent__session_set(&s->engine_thread, str_of(from->engine_thread));
        agent__session_set(&s->engine_dir, str_of(from->engine_dir));
        agent__engine_forget(from);
    }
    return fits;
}

static void on_idle(void *arg)
{
    struct session *s = arg;
    if (s->turn == NULL) {
        agent__engine_close(s);
    }
}

void agent__engine_rest(struct session *s)
{
    assert(s->turn == NULL || s->turn->step != TURN_ENGINE || !s->turn->engine.under_way);
    if (s->live != NULL) {
        timer_start(&s->live->idle, IDLE_MS);
    }
}

struct str agent__engine_system(struct session *s, struct str system)
{
    struct session_engine *e = s->live;
    if (str_eq(buf_str(&e->system), system)) {
        return STR("");
    }
    buf_clear(&e->system);
    buf_adds(&e->system, system);
    return system;
}

/// Everything that cannot change while a thread runs.
static void write_fixed(struct buf *out, const struct engine_spec *q)
{
    const struct box_policy *p = q->env->policy;
    buf_addf(out, "%s\n%d %d %s\n", q->command != NULL ? q->command : "", (int)p->mode, p->network,
             p->working_dir);
    buf_addf(out, "%s %s %s\n", q->choice->provider, q->choice->model,
             q->choice->base_url != NULL ? q->choice->base_url : "");
    for (const char *const *it = p->writable; *it != NULL; it++) {
        buf_addf(out, "%s\n", *it);
    }
    for (const char *const *it = q->env->environment; *it != NULL; it++) {
        buf_addf(out, "%s\n", *it);
    }
}

/// The tools that the engine is given: all but those that every engine brings itself, and runs with our permissions.
static const struct json *offered_tools(struct turn *t)
{
    static const char *const own[] = {"shell",     "read_file",  "write_file",
                                      "edit_file", "list_files", "search_files"};
    struct toolbox offered = {0};
    vec_foreach (it, &t->site.tools.list) {
        bool brings = str_lookup(it->name, own, ARRAY_LEN(own)) >= 0;
        if (!brings || tool_find(it->name) != it->tool) {
            vec_push(&offered.list, *it);
        }
    }
    const struct json *list = toolbox_json(&offered, &t->step_arena);
    toolbox_fini(&offered);
    return list;
}

static const char *const *setting_list(struct turn *t, const struct json *list)
{
    const char **out =
        arena_calloc(&t->step_arena, (list != NULL ? list->n : 0) + (size_t)1, sizeof *out);
    size_t n = 0;
    json_foreach_item (it, list) {
        out[n++] = arena_strdup(&t->step_arena, json_str(it, ""));
    }
    return out;
}

/// If the tools changed, report that an engine with fixed tools keeps those it knows.
static void note_fixed_tools(struct turn *t, struct session_engine *e, struct str tools)
{
    struct note n;
    if (!e->kind->fixed_tools || str_eq(buf_str(&e->tools), tools)) {
        return;
    }
    buf_clear(&e->tools);
    buf_adds(&e->tools, tools);
    struct jw *w = note__begin(&n, t->s, t, EVENT_PLUGIN_NEEDS);
    jw_kstrz(w, "plugin", t->s->engine);
    jw_kstrz(w, "kind", "session-restart");
    jw_kstrz(w, "reason",
             "the engine keeps the tools that its conversation began with; tools changed since");
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

struct engine_thread *agent__engine_open(struct turn *t, const char *const *vars)
{
    struct session *s = t->s;
    struct agent *a = s->agent;
    const struct config *c = agent__session_config(s);
    const struct engine_kind *kind = agent__engine_kind(s);
    const struct json *command = agent__engine_setting(c, "engines.*.command", s->engine);
    struct box_policy policy;
    struct tool_env env;
    struct buf fixed = {.max = SIZE_MAX}, tools = {.max = SIZE_MAX};
    if (s->engine_dir == NULL) {
        s->engine_dir = agent__session_path(s, "engine");
    }
    assert(kind != NULL && t->step == TURN_ENGINE);
    tool_call__place(&t->site, vars, &policy, &env);
    struct engine_spec q = {
        .session = s->id,
        .command = command != NULL ? arena_strdup(&t->step_arena, json_str(command, "")) : NULL,
        .args = setting_list(t, agent__engine_setting(c, "engines.*.args", s->engine)),
        .thread = s->engine_thread,
        .system = json_get_text(t->request, "system"),
        .tools = offered_tools(t),
        .dir = s->engine_dir,
        .env = &env,
        .choice = &s->choice};
    struct jw w = {.out = &tools};
    jw_value(&w, q.tools);
    write_fixed(&fixed, &q);
    struct session_engine *e = s->live;
    if (e != NULL && (e->useless || !str_eq(buf_str(&e->fixed), buf_str(&fixed)) ||
                      (!kind->fixed_tools && !str_eq(buf_str(&e->tools), buf_str(&tools))))) {
        agent__engine_close(s);
        e = NULL;
    }
    if (e == NULL) {
        q.past = write_past(t);
        e = xcalloc(1, sizeof *e);
        e->kind = kind;
        e->fixed = fixed;
        e->tools = tools;
        buf_init(&e->system, SIZE_MAX);
        buf_adds(&e->system, q.system);
        timer_init(&e->idle, a->o.hub->loop, on_idle, s);
        s->live = e;
        e->thread = kind->open(a->engine_world, &q, &turn__engine_cb, s);
    } else {
        note_fixed_tools(t, e, buf_str(&tools));
        timer_stop(&e->idle);
        buf_fini(&fixed);
        buf_fini(&tools);
    }
    return e->thread;
}
