// Tools that need the session itself: skill, todo, plugin_save, plugin_diagnostics. ask_user is in permission.c.

#include "agent/agent_int.h"
#include "agent/tool_int.h"
#include "gen/engine.h"

static void read_skill(struct tool_call *c)
{
    struct skills skills;
    struct str name = json_get_text(tool_call_input(c), "name");
    turn__skills(c->site->turn, &skills);
    const struct skill *sk = skills_find(&skills, name);
    const char *why = arena_printf(c->site->arena, "there is no skill '%.*s'",
                                   (int)MIN(name.n, (size_t)64), name.p);
    tool_call_finish(c, sk != NULL ? sk->body : STR(""), sk != NULL ? NULL : why);
    skills_fini(&skills);
}

const struct tool_ops tool_SKILL = {.start = read_skill, .needs_session = true};

/// Journal the list: clients that follow the session show it, and the model has it in its own call.
static void tell_todo(struct tool_call *c)
{
    const struct json *items = json_get(tool_call_input(c), "items");
    struct note n;
    size_t done = 0;
    json_foreach_item (it, items) {
        done += str_eqz(json_get_text(it, "state"), "done");
    }
    struct jw *w = note__begin(&n, tool_call_session(c), c->site->turn, EVENT_TODO_UPDATED);
    jw_kvalue(w, "items", items);
    note__end(&n, STORE_WRITTEN, NULL, NULL);
    const char *said = arena_printf(c->site->arena, "%zu of %u done", done, items->n);
    tool_call_finish(c, str_of(said), NULL);
}

const struct tool_ops tool_TODO = {.start = tell_todo, .needs_session = true};

// ---- plugin_save --------------------------------------------------------------------------------

/// Waits for the report of a reload.
struct plugin_saving {
    struct tool_ticket *ticket;
    char *unit;
};

static void on_saved(void *arg, const struct gen_report *r, const struct err *e)
{
    struct plugin_saving *sv = arg;
    struct buf out = {.max = SIZE_MAX};
    struct jw w;
    const char *error = e != NULL ? e->msg : "the hub is stopping";
    if (r != NULL) {
        jw_init(&w, &out);
        gen_report_write(r, &w);
        error = NULL;
        for (size_t i = 0; i < r->n_rows; i++) {
            if (strcmp(r->rows[i].name, sv->unit) == 0 && r->rows[i].state == GEN_FAILED) {
                error = "the plugin was not taken";
            }
        }
    }
    tool_ticket_finish(sv->ticket, buf_str(&out), error);
    buf_fini(&out);
    free(sv->unit);
    free(sv);
}

static void save_plugin(struct tool_call *c)
{
    const struct agent_host *h = &c->site->agent->o.host;
    const struct json *input = tool_call_input(c);
    struct str name = json_get_text(input, "name");
    struct plugin_saving *sv = xmalloc(sizeof *sv);
    *sv = (struct plugin_saving){.ticket = tool_call_ticket(c),
                                 .unit = xasprintf("improvements/" STR_FMT, STR_ARG(name))};
    h->save(h->plugins, name, json_get_text(input, "content"), tool_call_session(c)->id, on_saved,
            sv);
}

const struct tool_ops tool_PLUGIN_SAVE = {.start = save_plugin, .needs_session = true};

static void show_diagnostics(struct tool_call *c)
{
    const struct gen_report *r = gen_last_report(c->site->agent->o.engine);
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    if (r != NULL) {
        gen_report_write(r, &w);
    } else {
        jw_null(&w);
    }
    tool_call_finish(c, buf_str(&out), NULL);
    buf_fini(&out);
}

const struct tool_ops tool_PLUGIN_DIAGNOSTICS = {.start = show_diagnostics, .needs_session = true};
