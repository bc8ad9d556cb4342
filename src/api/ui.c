// The open page, as others see and drive it.
//
//     page: PUT /ui/state ──> kept ──> GET /ui/state, tool ui_state
//     POST /ui/command, tool ui_command ──> event ui.command {id} ──> page does it ──> POST /ui/command/{id}
//                                    └ answered with what the page says of the effect, or that none did it in time
//
// The state is an object of the page's; it lives as long as the hub. A page that writes it replaces all but the
// keys that plugins asked to preserve (`preserve_ui`), so that what a plugin put there is not lost to a page that does
// not know of it; a key that the page names is replaced in any case.

#include "agent/agent.h"
#include "agent/tool.h"
#include "api/handlers.h"
#include "api/plugin_int.h"
#include "loop/timer.h"

enum { COMMAND_MS = 5000, STATE_MAX = 1 << 20 };

/// What became of a command: `result` (a JSON value, may be NULL), or `error`. Borrowed for the call.
typedef void ui_done(void *arg, const struct json *result, const char *error);

struct ui_command {
    uint64_t id;
    struct api *api;
    struct timer timer;
    ui_done *done;
    void *arg;
};

/// End a command and tell its caller.
static void finish(struct ui_command *k, const struct json *result, const char *error)
{
    timer_stop(&k->timer);
    k->done(k->arg, result, error);
    free(k);
}

void api__ui_stop(struct api *api)
{
    while (api->ui_commands.n != 0) {
        finish(vec_pop(&api->ui_commands), NULL, "the hub is stopping");
    }
}

void api__ui_free(struct api *api)
{
    assert(api->ui_commands.n == 0);
    vec_fini(&api->ui_commands);
    arena_fini(&api->ui_arena);
}

// ---- the state ----------------------------------------------------------------------------------

void op_UI_STATE(struct api *api, struct op_call *c)
{
    struct jw *w = op_begin(c);
    if (api->ui_state != NULL) {
        jw_value(w, api->ui_state);
    } else {
        jw_obj(w);
        jw_end_obj(w);
    }
    op_end(c, 200);
}

static bool is_preserved(struct gen *g, struct str key)
{
    struct gen_walk all = gen_walk(g, GEN_OUTPUT);
    for (const struct gen_item *it; (it = gen_walk_next(&all)) != NULL;) {
        struct str name = str_of(gen_item_name(it));
        if (str_starts(name, "ui-key:") && str_eq(str_from(name, strlen("ui-key:")), key)) {
            return true;
        }
    }
    return false;
}

void op_UI_SET(struct api *api, struct op_call *c)
{
    struct gen *g = api->engine != NULL ? gen_current(api->engine) : NULL;
    const struct json *given = json_get(c->params, "state");
    struct buf text = {.max = STATE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    json_foreach_member (m, given) {
        jw_key_str(&w, m->key);
        jw_value(&w, &m->value);
    }
    json_foreach_member (old, api->ui_state) {
        if (json_get_str(given, old->key) == NULL && is_preserved(g, old->key)) {
            jw_key_str(&w, old->key);
            jw_value(&w, &old->value);
        }
    }
    jw_end_obj(&w);
    struct arena a = {0};
    struct json *made = NULL;
    struct str kept = buf_ok(&text) ? arena_str(&a, buf_str(&text)) : STR_NULL;
    if (kept.n == 0 || json_parse(&made, &a, kept, NULL, NULL) < 0) {
        arena_fini(&a);
        op_fail(c, PROBLEM_TOO_LARGE, NULL, "the state of the page is larger than 1 MiB");
    } else {
        arena_fini(&api->ui_arena);
        api->ui_arena = a;
        api->ui_state = made;
        op_UI_STATE(api, c);
    }
    buf_fini(&text);
}

// ---- commands -----------------------------------------------------------------------------------

static struct ui_command *take_command(struct api *api, uint64_t id)
{
    for (size_t i = 0; i < api->ui_commands.n; i++) {
        struct ui_command *k = api->ui_commands.p[i];
        if (k->id == id) {
            vec_remove(&api->ui_commands, i);
            return k;
        }
    }
    return NULL;
}

static void on_late(void *arg)
{
    struct ui_command *k = arg;
    take_command(k->api, k->id);
    finish(k, NULL, "no open page has carried it out; `afloat open` opens one");
}

static void ask_page(struct api *api, struct str kind, const struct json *params, ui_done *done,
                     void *arg)
{
    struct ui_command *k = xcalloc(1, sizeof *k);
    *k = (struct ui_command){.id = ++api->last_ui_command, .api = api, .done = done, .arg = arg};
    timer_init(&k->timer, api->o.hub->loop, on_late, k);
    timer_start(&k->timer, COMMAND_MS);
    vec_push(&api->ui_commands, k);
    struct buf fields = {.max = SIZE_MAX};
    struct jw w = {.out = &fields};
    jw_obj(&w);
    jw_kint(&w, "command", (int64_t)k->id);
    jw_kstr(&w, "kind", kind);
    if (params != NULL) {
        jw_kvalue(&w, "params", params);
    } else {
        jw_kobj(&w, "params");
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    event_emit_object(api->o.hub->events, EVENT_UI_COMMAND, &fields);
}

static void on_op_done(void *arg, const struct json *result, const char *error)
{
    struct op_call *c = arg;
    if (error != NULL) {
        op_fail(c, PROBLEM_CONFLICT, NULL, "%s", error);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kbool(w, "ok", true);
    jw_kvalue(w, "result", result);
    op_end_obj(c, 200);
}

void op_UI_COMMAND(struct api *api, struct op_call *c)
{
    static const char *const kinds[] = {"open_file",    "open_panel", "close_panel",
                                        "open_surface", "navigate",   "notify"};
    struct str kind = json_get_text(c->params, "kind");
    if (str_lookup(kind, kinds, ARRAY_LEN(kinds)) < 0) {
        op_fail(c, PROBLEM_INVALID_BODY, str_nearest(kind, kinds, ARRAY_LEN(kinds)),
                "'kind' is open_file, open_panel, close_panel, open_surface, navigate or notify");
        return;
    }
    ask_page(api, kind, json_get(c->params, "params"), on_op_done, c);
}

void op_UI_DONE(struct api *api, struct op_call *c)
{
    struct ui_command *k = take_command(api, (uint64_t)json_int(json_get(c->params, "command"), 0));
    const struct json *error = json_get(c->params, "error");
    if (k != NULL) {
        finish(k, json_get(c->params, "result"),
               error != NULL ? arena_strdup(c->arena, json_str(error, "")) : NULL);
    }
    struct jw *w = op_begin_obj(c);
    jw_kbool(w, "taken", k != NULL);
    op_end_obj(c, 200);
}

// ---- for tools ----------------------------------------------------------------------------------

static void on_tool_done(void *arg, const struct json *result, const char *error)
{
    struct buf out = {.max = SIZE_MAX};
    json_write(&out, result, 0);
    tool_ticket_finish(arg, error == NULL && result != NULL ? buf_str(&out) : STR("done"), error);
    buf_fini(&out);
}

static void tool_state(void *arg, struct buf *out)
{
    const struct api *api = arg;
    if (api->ui_state != NULL) {
        json_write(out, api->ui_state, 0);
    } else {
        buf_addz(out, "{}");
    }
}

static void tool_command(void *arg, struct str kind, const struct json *params,
                         struct tool_ticket *ticket)
{
    ask_page(arg, kind, params, on_tool_done, ticket);
}

void api__ui_give(struct api *api, struct agent *agent)
{
    agent_set_screen(agent, &(struct agent_screen){tool_state, tool_command, api});
}
