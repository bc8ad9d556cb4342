// What the models of bots can call besides the tools of every session. They write through the same functions as
// people do, in the hub and not in the sandbox, so they work in every sandbox mode.
//
//     start ──> on the loop: session_complete, session_history (the store)
//           └─> on the lane: memory, skill_save, a session's text

#include "base/path.h"
#include "bot/history.h"
#include "bot/history_view.h"
#include "bot/memory.h"
#include "bot/run_int.h"
#include "bot/skillset.h"
#include "config/home.h"

enum { LISTED = 20 };

/// One call while it works.
struct tool_use {
    struct bots *b;
    struct arena arena;
    const struct json *input;           // a copy
    const char *bot, *run_id, *session; // whose it is
    const char *rel, *space;            // its workspace, relative to the home and absolute
    struct shelf *shelf;
    struct tool_ticket *ticket;
    void (*work)(struct tool_use *u); // on the lane
    const char *dir;                  // of a session, absolute
    int rc;
    struct err e;
    struct buf out;
};

static struct str input_str(const struct tool_use *u, const char *key)
{
    return json_str(json_get(u->input, key), "");
}

// ---- begin and end ---------------------------------------------------------------------------

static struct tool_use *use_new(struct tool_call *c)
{
    struct bots *b = tool_call_data(c);
    struct session *s = tool_call_session(c);
    const struct agent_role *role = agent_session_role(s);
    struct tool_use *u = xcalloc(1, sizeof *u);
    buf_init(&u->out, SIZE_MAX);
    u->b = b;
    u->shelf = b->shelf;
    u->ticket = tool_call_ticket(c);
    u->input = json_clone(&u->arena, tool_call_input(c));
    u->bot = arena_strdup(&u->arena, role->bot);
    u->run_id = arena_strdup(&u->arena, role->run_id);
    u->session = arena_strdup(&u->arena, str_of(agent_session_id(s)));
    u->rel = arena_strdup(&u->arena, path_dir(role->dir));
    u->space = arena_printf(&u->arena, "%s/%s", b->home, u->rel);
    bots__hold(b);
    return u;
}

static void use_end(struct tool_use *u, struct str output, const char *error)
{
    struct bots *b = u->b;
    tool_ticket_finish(u->ticket, output, error);
    buf_fini(&u->out);
    arena_fini(&u->arena);
    free(u);
    bots__release(b);
}

static void use_fail(struct tool_use *u, const char *why)
{
    use_end(u, STR(""), why);
}

static void do_work(void *arg) // on the lane
{
    struct tool_use *u = arg;
    u->work(u);
}

static void on_work(void *arg)
{
    struct tool_use *u = arg;
    if (u->rc < 0) {
        use_fail(u, u->e.msg);
    } else {
        use_end(u, buf_str(&u->out), NULL);
    }
}

static void use_work(struct tool_use *u, void (*work)(struct tool_use *u))
{
    u->work = work;
    work_submit(u->b->lane, 0, do_work, on_work, u);
}

// ---- session_complete ---------------------------------------------------------------------------

static void start_complete(struct tool_call *c)
{
    struct tool_use *u = use_new(c);
    struct run *r = u->run_id[0] != '\0' ? bots__run_of(u->b, str_of(u->run_id)) : NULL;
    struct str action = input_str(u, "action");
    if (r == NULL) {
        use_fail(u, "session_complete ends a run, and this is a conversation: just answer");
        return;
    }
    if (!run_complete(r, str_of(u->session), input_str(u, "summary"),
                      action.n != 0 ? action : STR("review"))) {
        use_fail(u, "the run continues, or ends, without this session: just answer");
        return;
    }
    buf_addz(&u->out, "Session complete. Good work.");
    use_end(u, buf_str(&u->out), NULL);
}

// ---- session_history ----------------------------------------------------------------------------

static void on_listed(void *arg, int status, const struct history_page *p, const struct err *e)
{
    struct tool_use *u = arg;
    if (status < 0) {
        use_fail(u, e->msg);
        return;
    }
    history_write_table(&u->out, p->rows, p->n);
    use_end(u, buf_str(&u->out), NULL);
}

static void view(struct tool_use *u) // on the lane
{
    struct history_wish w = {.offset = (uint64_t)json_int(json_get(u->input, "offset"), 0),
                             .limit =
                                 (uint64_t)json_int(json_get(u->input, "limit"), HISTORY_LIMIT)};
    struct str section = input_str(u, "section");
    if (section.n != 0 && !history_section_parse(section, &w.section)) {
        u->rc = err_set(&u->e, ERR_INVALID, "section is all, response or commands");
        return;
    }
    u->rc = history_view(&u->out, NULL, u->shelf, u->dir, &w, &u->e);
}

static void on_found(void *arg, int status, const struct history_page *p, const struct err *e)
{
    struct tool_use *u = arg;
    if (status < 0) {
        use_fail(u, e->msg);
        return;
    }
    u->dir = arena_printf(&u->arena, "%s/" STR_FMT, u->b->home, STR_ARG(p->rows[0].dir));
    use_work(u, view);
}

static void start_history(struct tool_call *c)
{
    struct tool_use *u = use_new(c);
    struct store *s = u->b->store;
    int64_t number = json_int(json_get(u->input, "session_number"), 0);
    if (str_eqz(input_str(u, "action"), "list")) {
        int64_t limit = json_int(json_get(u->input, "limit"), LISTED);
        history_list(s, str_of(u->rel), STR_NULL, (size_t)MIN(limit, 1000), on_listed, u);
    } else if (number < 1) {
        use_fail(u, "view needs a session_number: list shows them");
    } else {
        char which[24];
        snprintf(which, sizeof which, "%lld", (long long)number);
        history_find(s, str_of(u->rel), str_of(which), on_found, u);
    }
}

// ---- memory, skill_save -------------------------------------------------------------------------

static void recall(struct tool_use *u)
{
    struct memory m;
    struct str key = input_str(u, "key");
    bool list = str_eqz(input_str(u, "action"), "list");
    u->rc = memory_load(&m, u->shelf, u->space, &u->e);
    const struct memory_entry *one = u->rc == 0 && !list ? memory_find(&m, key) : NULL;
    if (one != NULL) {
        buf_adds(&u->out, one->text);
    } else if (u->rc == 0 && !list) {
        u->rc = err_set(&u->e, ERR_NOT_FOUND, "there is no key '%.*s'",
                        (int)MIN(key.n, (size_t)MEMORY_KEY), key.p);
    } else if (u->rc == 0) {
        vec_foreach (it, &m.list) {
            buf_addf(&u->out, STR_FMT ": " STR_FMT "\n", STR_ARG(it->key), STR_ARG(it->text));
        }
        if (m.list.n == 0) {
            buf_addz(&u->out, "(nothing)\n");
        }
    }
    memory_fini(&m);
}

static void remember(struct tool_use *u) // on the lane
{
    struct str action = input_str(u, "action"), key = input_str(u, "key");
    const struct json *value = json_get(u->input, "value");
    if (str_eqz(action, "set") && value == NULL) {
        u->rc = err_set(&u->e, ERR_INVALID, "set needs a value");
    } else if (str_eqz(action, "set")) {
        u->rc = memory_set(u->shelf, u->space, key, json_str(value, ""), NULL, &u->e);
        buf_addz(&u->out, "remembered");
    } else if (str_eqz(action, "remove")) {
        u->rc = memory_remove(u->shelf, u->space, key, NULL, &u->e);
        buf_addz(&u->out, "forgotten");
    } else {
        recall(u);
    }
}

static void start_memory(struct tool_call *c)
{
    use_work(use_new(c), remember);
}

static void save(struct tool_use *u) // on the lane
{
    struct skillset_new n = {.name = input_str(u, "name"),
                             .description = input_str(u, "description"),
                             .body = input_str(u, "body")};
    u->rc = skillset_save(u->shelf, u->b->home, u->bot, &n, &u->e);
    buf_addf(&u->out, "saved: later sessions have the skill '" STR_FMT "'", STR_ARG(n.name));
}

static void start_skill_save(struct tool_call *c)
{
    use_work(use_new(c), save);
}

// ---- the table ----------------------------------------------------------------------------------

// clang-format off
static const struct tool tools[] = {
    {.name = "session_complete",
     .description = "Say that the work of this run is done. The run ends after this turn. `summary` tells the next "
                    "session what was done; `action` is what should become of the commits on the branch: merge "
                    "them, let a person review them, or discard them.",
     .schema = "{\"type\":\"object\",\"properties\":{\"summary\":{\"type\":\"string\"},"
               "\"action\":{\"type\":\"string\",\"enum\":[\"merge\",\"review\",\"discard\"]}},"
               "\"required\":[\"summary\"],\"additionalProperties\":false}",
     .effect = TOOL_READS,
     .ops = &(const struct tool_ops){.start = start_complete, .needs_session = true}},
    {.name = "session_history",
     .description = "Earlier sessions in this project: `list` them, or `view` one by its number. A view is paged "
                    "from its end: offset 0 is the last `limit` lines.",
     .schema = "{\"type\":\"object\",\"properties\":{\"action\":{\"type\":\"string\",\"enum\":[\"list\",\"view\"]},"
               "\"session_number\":{\"type\":\"integer\",\"minimum\":1},"
               "\"offset\":{\"type\":\"integer\",\"minimum\":0},\"limit\":{\"type\":\"integer\",\"minimum\":1},"
               "\"section\":{\"type\":\"string\",\"enum\":[\"all\",\"response\",\"commands\"]}},"
               "\"required\":[\"action\"],\"additionalProperties\":false}",
     .effect = TOOL_READS,
     .ops = &(const struct tool_ops){.start = start_history, .needs_session = true}},
    {.name = "memory",
     .description = "What you remember of this project over sessions: `list` all, `get` a key, `set` a key to a "
                    "text, `remove` a key.",
     .schema = "{\"type\":\"object\",\"properties\":{"
               "\"action\":{\"type\":\"string\",\"enum\":[\"get\",\"set\",\"remove\",\"list\"]},"
               "\"key\":{\"type\":\"string\"},\"value\":{\"type\":\"string\"}},"
               "\"required\":[\"action\"],\"additionalProperties\":false}",
     .effect = TOOL_READS,
     .ops = &(const struct tool_ops){.start = start_memory, .needs_session = true}},
    {.name = "skill_save",
     .description = "Write a skill: Markdown that you, in later sessions, will be shown. One of the same name is "
                    "replaced.",
     .schema = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
               "\"description\":{\"type\":\"string\"},\"body\":{\"type\":\"string\"}},"
               "\"required\":[\"name\",\"description\",\"body\"],\"additionalProperties\":false}",
     .effect = TOOL_READS,
     .ops = &(const struct tool_ops){.start = start_skill_save, .needs_session = true}},
    {.name = NULL},
};
// clang-format on

const struct tool *bots_tools(void)
{
    return tools;
}
