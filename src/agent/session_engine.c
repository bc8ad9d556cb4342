// The process of an outside agent that runs the turns of a session: opened for a turn, kept for the next one.
//
//     turn ──> what it was opened with still holds? ──yes──> the thread that runs
//                     │ no: another model, box, environment ...
//                     └──> close it, open one that resumes the same conversation
//
// The engine keeps a memory of the conversation by itself, which its thread's id stands for (metadata.json,
// `engine_thread`). Our journal is what counts: where the two may differ (a rewind, a fork, another engine before) the
// id is forgotten, and a new thread is told the past as text.
//
// Invariants:
//   - `live` exactly while a thread is open. It is closed when the session is cooled or ended, when nobody has used it for
//     IDLE_MS, and before agent_stop() is done.
//   - a session ends, and agent_stop() is done, when `engine_processes` is 0: no process outlives its session.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/utf8.h"
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

bool agent__engine_usable(const struct session *s, struct agent_no *no)
{
    const struct config *c = agent__session_config(s);
    const struct engine_kind *kind = agent__engine_kind(s);
    if (s->engine == NULL) {
        return true;
    }
    if (kind == NULL) {
        agent__no(no, PROBLEM_INVALID_BODY,
                  "there are " ENGINE_NATIVE ", " ENGINE_CODEX ", " ENGINE_CLAUDE
                  " and the names of [engines]",
                  "there is no engine '%.60s'", s->engine);
        return false;
    }
    const struct json *command = agent__engine_setting(c, "engines.*.command", s->engine);
    struct str program = json_str(command, kind->program);
    if (program.n == 0) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL,
                  "the engine '%.60s' needs its program: set 'command' in [engines.%.60s]",
                  s->engine, s->engine);
        return false;
    }
    struct str path = str_of(AGENT_PATH);
    for (char **it = s->environment; it != NULL && *it != NULL; it++) {
        path = str_starts(str_of(*it), "PATH=") ? str_from(str_of(*it), 5) : path;
    }
    char *found = agent__find_program(path, program.p);
    free(found);
    if (found == NULL) {
        agent__no(no, PROBLEM_INVALID_BODY, NULL,
                  "the engine '%.60s' needs the program '%.100s', which is not installed%s%s",
                  s->engine, program.p, kind->install != NULL ? ": " : "",
                  kind->install != NULL ? kind->install : "");
        return false;
    }
    return true;
}

// ---- the past -----------------------------------------------------------------------------------

static void add_cut(struct buf *out, struct str text)
{
    size_t n = utf8_cut(text.p, text.n, PAST_ITEM);
    buf_add(out, text.p, n);
    buf_addz(out, n < text.n ? " [...]\n" : "\n");
}

static void add_item(struct buf *out, const struct json *it)
{
    struct str type = json_str(json_get(it, "type"), "");
    if (str_eqz(type, "text")) {
        add_cut(out, json_str(json_get(it, "text"), ""));
    } else if (str_eqz(type, "tool_call")) {
        struct buf input;
        struct jw w;
        buf_init(&input, SIZE_MAX);
        jw_init(&w, &input);
        jw_value(&w, json_get(it, "input"));
        buf_addf(out, "[called " STR_FMT " ", STR_ARG(json_str(json_get(it, "name"), "")));
        add_cut(out, buf_str(&input));
        buf_fini(&input);
    } else if (str_eqz(type, "tool_result")) {
        add_cut(out, json_str(json_get(it, "output"), ""));
    } else if (str_eqz(type, "image")) {
        buf_addf(out, "[picture " STR_FMT "]\n", STR_ARG(json_str(json_get(it, "name"), "")));
    }
}

/// What was said before this turn: the last PAST_MAX bytes of it, whole messages.
static struct str write_past(struct turn *t)
{
    const struct json *said = talk_messages(t->s->talk);
    struct buf out, one;
    size_t from = said->n - MIN(talk_tail(t->s->talk), (size_t)said->n), room = PAST_MAX;
    buf_init(&out, SIZE_MAX);
    buf_init(&one, SIZE_MAX);
    vec(struct str) texts = {0};
    while (from-- > 0 && room != 0) {
        const struct json *m = &said->items[from], *content = json_get(m, "content");
        buf_clear(&one);
        buf_addf(&one, "## " STR_FMT "\n", STR_ARG(json_str(json_get(m, "role"), "")));
        if (content->type == JSON_STR) {
            add_cut(&one, content->s);
        }
        json_foreach_item (it, content) {
            add_item(&one, it);
        }
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

/// What a thread cannot change while it runs.
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

/// Tools that every engine has by itself, and runs by our permissions.
static bool has_its_own(const struct tool_entry *e)
{
    static const char *const names[] = {"shell",     "read_file",  "write_file",
                                        "edit_file", "list_files", "search_files"};
    return str_lookup(e->name, names, ARRAY_LEN(names)) >= 0 && tool_find(e->name) == e->tool;
}

static const struct json *offered_tools(struct turn *t)
{
    struct toolbox offered = {0};
    vec_foreach (it, &t->site.tools.list) {
        if (!has_its_own(it)) {
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

/// The engine goes on with the tools that it knows; who follows is told that some changed.
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
    struct buf fixed, tools;
    struct jw w;
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
        .system = json_str(json_get(t->request, "system"), ""),
        .tools = offered_tools(t),
        .dir = s->engine_dir,
        .env = &env,
        .choice = &s->choice};
    buf_init(&fixed, SIZE_MAX);
    buf_init(&tools, SIZE_MAX);
    jw_init(&w, &tools);
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
        timer_init(&e->idle, a->o.loop, on_idle, s);
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
