// What can be said to the chat itself: lines that begin with '/'.
//
// Our own commands are a table; every other name is looked for among the commands that plugins
// contribute, as PLUGIN:NAME or as NAME alone. A command that fails prints its error, and the chat continues.

#include "chat/chat_int.h"
#include "cli/report.h"
#include "cli/sessions.h"

// ---- lists ---------------------------------------------------------------------------------

/// Show what the hub answers by `l`. The exit code.
static int show_asked(struct chat *t, enum op_id op, const struct ask_param *param,
                      const struct layout *l)
{
    struct arena arena = {0};
    const struct json *v;
    int code = ask_value(t->c, op, param, param != NULL ? 1 : 0, &arena, &v);
    if (code == EXIT_OK) {
        show_answer(t->c, l, v);
    }
    arena_fini(&arena);
    return code;
}

static bool slash_tools(struct chat *t, struct str arg)
{
    const struct layout tools = {
        "tools",
        COLUMNS(COL("NAME", ID, NULL), COL("PLUGIN", WORD, NULL), COL("DESCRIPTION", LONG, NULL)),
        NULL};
    (void)arg;
    show_asked(t, OP_TOOL_LIST, NULL, &tools);
    return true;
}

static bool slash_plugins(struct chat *t, struct str arg)
{
    const struct layout plugins = {
        "plugins",
        COLUMNS(COL("NAME", ID, NULL), COL("STATE", STATE, NULL), COL("LAYER", DIM, NULL)),
        "no plugins yet; have one written with '/plugin NAME WHAT IT DOES'"};
    (void)arg;
    show_asked(t, OP_PLUGIN_LIST, NULL, &plugins);
    return true;
}

// ---- the session ---------------------------------------------------------------------------

static void print_model(struct chat *t, const struct json *row)
{
    struct str provider = json_get_text(row, "provider"), model = json_get_text(row, "model");
    out_note(&t->c->out, "the model is " STR_FMT "/" STR_FMT, STR_ARG(provider), STR_ARG(model));
}

static void list_providers(struct chat *t)
{
    const struct layout providers = {
        "providers",
        COLUMNS(COL("NAME", ID, NULL), COL("KIND", WORD, NULL), COL("MODEL", TEXT, NULL)), NULL};
    struct buf keys = {.max = 64 << 10};
    sent_write_keys(t->c, &keys);
    show_asked(t, OP_PROVIDER_LIST, &(struct ask_param){"keys", keys.n != 0 ? buf_z(&keys) : NULL},
               &providers);
    buf_fini(&keys);
}

static bool slash_model(struct chat *t, struct str arg)
{
    struct arena arena = {0};
    const struct json *row = NULL;
    const char *model = arena_strdup(&arena, arg);
    if (arg.n == 0) {
        list_providers(t);
        chat__row(t, &arena, &row);
    } else {
        const char *provider = sent_cut_provider(t->c, &arena, &model);
        struct ask_param params[] = {{"id", t->id}, {"provider", provider}, {"model", model}};
        ask_value(t->c, OP_SESSION_PATCH, params, ARRAY_LEN(params), &arena, &row);
    }
    if (row != NULL) {
        print_model(t, row);
        gauge_row(&t->gauge, row);
    }
    arena_fini(&arena);
    return true;
}

static void add_cost(struct buf *out, const struct json *row)
{
    double cost = json_double(json_ptr(row, "/usage/cost_usd"), -1);
    if (cost < 0) {
        buf_addz(out, "unknown: [prices] has no price of this model");
    } else {
        buf_addf(out, "%.4f USD", cost);
    }
}

static bool slash_cost(struct chat *t, struct str arg)
{
    const struct layout usage = {.columns =
                                     COLUMNS(COL("input", TEXT, "{usage.input}||unknown"),
                                             COL("cached", TEXT, "{usage.cached}||unknown"),
                                             COL("output", TEXT, "{usage.output}||unknown"),
                                             COL("reasoning", TEXT, "{usage.reasoning}||unknown"),
                                             COL_FN("cost", TEXT, add_cost))};
    (void)arg;
    show_asked(t, OP_SESSION_SHOW, &(struct ask_param){"id", t->id}, &usage);
    return true;
}

static bool slash_permission(struct chat *t, struct str arg)
{
    const struct layout rules = {"rules",
                                 COLUMNS(COL("ID", ID, NULL), COL("TOOL", WORD, NULL),
                                         COL("MATCH", TEXT, "{match}||every call"),
                                         COL("DECISION", STATE, NULL), COL("SCOPE", WORD, NULL)),
                                 "no permission rules for this project; 'always allow' makes one"};
    struct arena arena = {0};
    const struct json *v;
    struct str rest = arg;
    const char *dir = arena_strdup(&arena, str_of(t->gauge.dir));
    bool removes = str_eqz(str_cut(&rest, ' '), "remove");
    if (arg.n == 0) {
        out_note(&t->c->out, "the mode is %s: ask, edits, plan, auto or deny (Shift-Tab)",
                 t->gauge.permission);
        show_asked(t, OP_PERMISSION_LIST, &(struct ask_param){"path", dir}, &rules);
    } else if (removes) {
        struct ask_param params[] = {{"id", arena_strdup(&arena, str_trim(rest))}};
        if (ask_value(t->c, OP_PERMISSION_REMOVE, params, ARRAY_LEN(params), &arena, &v) ==
            EXIT_OK) {
            out_note(&t->c->out, "rule removed");
        }
    } else {
        chat__set_permission(t, arena_strdup(&arena, arg));
    }
    arena_fini(&arena);
    return true;
}

static bool slash_export(struct chat *t, struct str arg)
{
    char path[CHAT_ID_MAX + 16];
    snprintf(path, sizeof path, "afloat-%s.md", t->id);
    char *given = str_dup(arg);
    chat__export(t, arg.n != 0 ? given : path);
    free(given);
    return true;
}

static bool slash_compact(struct chat *t, struct str arg)
{
    struct arena arena = {0};
    const struct json *v;
    struct ask_param params[] = {{"id", t->id}};
    (void)arg;
    if (ask_value(t->c, OP_SESSION_COMPACT, params, ARRAY_LEN(params), &arena, &v) == EXIT_OK) {
        out_note(&t->c->out, "conversation compacted: earlier messages were replaced by a summary");
        chat__refresh(t);
    }
    arena_fini(&arena);
    return true;
}

// What would change is shown and agreed to first.
static bool slash_rewind(struct chat *t, struct str arg)
{
    struct arena arena = {0};
    const struct json *v;
    const char *to = arg.n != 0 ? arena_strdup(&arena, arg) : NULL;
    struct ask_param plan[] = {{"id", t->id}, {"to", to}, {"dry_run", "true"}};
    if (ask_value(t->c, OP_SESSION_REWIND, plan, ARRAY_LEN(plan), &arena, &v) == EXIT_OK) {
        bool conflict = json_at(json_get(v, "conflicts"), 0) != NULL;
        bool files = json_at(json_get(v, "restored"), 0) != NULL ||
                     json_at(json_get(v, "deleted"), 0) != NULL;
        to = arena_strdup(&arena, json_get_text(v, "to"));
        sessions__print_rewound(t->c, v);
        enum chat_line line =
            chat__ask(t, arena_printf(&arena, "go back to before turn %s%s? [y/N] ", to,
                                      conflict ? ", and overwrite what changed since"
                                      : files  ? ": these files and the conversation"
                                               : ": the conversation only, no file changes"));
        struct ask_param params[] = {
            {"id", t->id}, {"to", to}, {"force", conflict ? "true" : NULL}};
        struct str answer = str_trim(edit_text(&t->reply));
        if (line == CHAT_LINE && (str_caseeqz(answer, "y") || str_caseeqz(answer, "yes")) &&
            ask_value(t->c, OP_SESSION_REWIND, params, ARRAY_LEN(params), &arena, &v) == EXIT_OK) {
            out_note(&t->c->out, "back at the state before turn %s", to);
            chat__refresh(t);
        }
    }
    arena_fini(&arena);
    return true;
}

static bool slash_new(struct chat *t, struct str arg)
{
    char old[CHAT_ID_MAX];
    uint64_t seq = t->seq;
    (void)arg;
    memcpy(old, t->id, sizeof old);
    if (chat__new(t) == EXIT_OK) {
        out_note(&t->c->out, "session %s begins; '/resume %s' goes back", t->id, old);
    } else {
        memcpy(t->id, old, sizeof old);
        t->seq = seq;
    }
    return true;
}

static const struct column recent_columns[] = {
    COL("ID", ID, NULL),
    COL("STARTED", TIME, "{started_at}"),
    COL("SAID", TEXT, "{title}||{prompt_summary}"),
    COL("ANSWER", DIM, "{response_summary}"),
    COL(NULL, TEXT, NULL),
};

struct recent {
    struct cli *c;
    struct table table;
    int left;
};

static bool add_recent(const struct json *row, void *arg)
{
    struct recent *r = arg;
    show_add_row(r->c, &r->table, recent_columns, row, STR_NULL);
    return --r->left > 0;
}

static bool slash_resume(struct chat *t, struct str arg)
{
    char old[CHAT_ID_MAX];
    uint64_t seq = t->seq;
    if (arg.n == 0) {
        struct recent r = {.c = t->c, .left = 10};
        show_begin(&r.table, recent_columns);
        sessions__each(t->c, add_recent, &r);
        table_print(&r.table, &t->c->out);
        table_fini(&r.table);
        return true;
    }
    char *id = str_dup(arg);
    memcpy(old, t->id, sizeof old);
    if (chat__resume(t, id) != EXIT_OK) {
        memcpy(t->id, old, sizeof old);
        t->seq = seq;
    }
    free(id);
    return true;
}

// ---- the hub -------------------------------------------------------------------------------

static bool slash_reload(struct chat *t, struct str arg)
{
    struct arena arena = {0};
    const struct json *report;
    (void)arg;
    if (ask_value(t->c, OP_RELOAD, NULL, 0, &arena, &report) == EXIT_OK) {
        report_print(&t->c->out, report);
    }
    arena_fini(&arena);
    return true;
}

static bool slash_plugin(struct chat *t, struct str arg)
{
    chat__write_plugin(t, arg);
    return true;
}

static bool slash_quit(struct chat *t, struct str arg)
{
    (void)t;
    (void)arg;
    return false;
}

static bool slash_help(struct chat *t, struct str arg);

static const struct slash {
    const char *name, *args, *help;
    bool (*run)(struct chat *t, struct str arg); // false: leave
} slashes[] = {
    {"help", "", "this list", slash_help},
    {"model", "[[PROVIDER/]MODEL]", "show the models, or take another one", slash_model},
    {"tools", "", "the tools", slash_tools},
    {"plugins", "", "the plugins", slash_plugins},
    {"plugin", "NAME WHAT IT DOES", "have the model write a plugin, and check it", slash_plugin},
    {"permission", "[MODE|remove ID]", "show mode and rules, or change them", slash_permission},
    {"reload", "", "take over what changed", slash_reload},
    {"cost", "", "what this session has used", slash_cost},
    {"compact", "", "replace the conversation so far by a summary", slash_compact},
    {"rewind", "[TURN]", "go back to before the last or another turn; asks first", slash_rewind},
    {"export", "[FILE]", "write the conversation as Markdown", slash_export},
    {"new", "", "begin a new session", slash_new},
    {"resume", "[ID]", "list recent sessions, or continue one", slash_resume},
    {"quit", "", "leave; the session stays", slash_quit},
};

// see test_chat_screen.py: every one of them is pressed there
static const struct {
    const char *key, *help;
} help_keys[] = {
    {"Enter", "send; during a turn: say it to the turn"},
    {"Alt-Enter, \\ Enter", "a new line; during a turn Alt-Enter queues the message"},
    {"Esc, Ctrl-C", "interrupt the turn; Ctrl-C twice leaves"},
    {"Shift-Tab", "the next permission mode: ask, edits, plan, auto"},
    {"Tab", "complete /commands, @files and !programs"},
    {"Up, Down, Ctrl-R", "recall earlier input of this project; search it"},
    {"Ctrl-O", "show all of what tools print and the model thinks, or little of it"},
    {"Ctrl-A -E -W -U -K -Y", "edit as in a shell; Alt-B and -F move by words"},
    {"Ctrl-_", "undo"},
    {"Ctrl-L, Ctrl-Z, Ctrl-D", "clear the screen, suspend, leave"},
};

// ---- commands of plugins -------------------------------------------------------------------

static bool slash_help(struct chat *t, struct str arg)
{
    struct arena arena = {0};
    struct table table;
    const struct json *v;
    (void)arg;
    table_init(&table, 2);
    for (size_t i = 0; i < ARRAY_LEN(slashes); i++) {
        const struct slash *s = &slashes[i];
        table_addf(&table, "/%s%s%s", s->name, s->args[0] != '\0' ? " " : "", s->args);
        table_add(&table, OUT_PLAIN, str_of(s->help));
    }
    ask_value(t->c, OP_COMMAND_LIST, NULL, 0, &arena, &v);
    json_foreach_item (command, json_get(v, "commands")) {
        struct str name = json_get_text(command, "name");
        table_addf(&table, "/" STR_FMT, STR_ARG(name));
        table_add(&table, OUT_PLAIN, json_get_text(command, "description"));
    }
    table_add(&table, OUT_PLAIN, STR("!COMMAND, !!COMMAND"));
    table_add(&table, OUT_PLAIN,
              STR("run a command of your own here; with ! the model reads what it printed"));
    for (size_t i = 0; i < ARRAY_LEN(help_keys); i++) {
        table_add(&table, OUT_PLAIN, str_of(help_keys[i].key));
        table_add(&table, OUT_PLAIN, str_of(help_keys[i].help));
    }
    table_print(&table, &t->c->out);
    table_fini(&table);
    arena_fini(&arena);
    return true;
}

void chat__slash_names(struct chat *t, struct menu *m, struct str start)
{
    struct arena arena = {0};
    const struct json *v;
    char *prefix = str_dup(start);
    for (size_t i = 0; i < ARRAY_LEN(slashes); i++) {
        if (str_starts(str_of(slashes[i].name), prefix)) {
            menu_offer(m, str_of(slashes[i].name));
        }
    }
    ask_value(t->c, OP_COMMAND_LIST, NULL, 0, &arena, &v);
    json_foreach_item (command, json_get(v, "commands")) {
        if (str_starts(json_get_text(command, "name"), prefix)) {
            menu_offer(m, json_get_text(command, "name"));
        }
    }
    arena_fini(&arena);
    free(prefix);
}

// The row of the command that `name` means; NULL when there is none, or several.
static const struct json *find_command(const struct json *contributed, struct str name)
{
    const struct json *found = NULL;
    size_t n = 0;
    json_foreach_item (command, contributed) {
        struct str full = json_get_text(command, "name"), last = full;
        str_cut(&last, ':');
        if (str_eq(full, name)) {
            return command;
        }
        if (last.n != 0 && str_eq(last, name)) {
            found = command;
            n++;
        }
    }
    return n == 1 ? found : NULL;
}

static char *args_as_json(struct arena *arena, struct str arg)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_arr(&w);
    while (arg.n != 0) {
        struct str word = str_cut(&arg, ' ');
        if (word.n != 0) {
            jw_str(&w, word);
        }
    }
    jw_end_arr(&w);
    char *out = arena_strdup(arena, buf_str(&text));
    buf_fini(&text);
    return out;
}

void chat__slash_words(struct chat *t, struct menu *m, struct str line)
{
    struct arena arena = {0};
    struct str words = str_from(str_trim((struct str){line.p, m->from}), 1);
    struct str name = str_cut(&words, ' '), word = str_from(line, m->from);
    const struct json *all = ask_quietly(t->c, OP_COMMAND_LIST, NULL, 0, 0, &arena);
    const struct json *command = find_command(json_get(all, "commands"), name);
    struct str prompt = json_get_text(command, "name"),
               unit = str_cut(&prompt, ':'); // mcp:SERVER:PROMPT
    struct str server = str_cut(&prompt, ':');
    if (str_eqz(unit, "mcp") && json_bool(json_get(command, "prompt"), false)) {
        struct ask_param params[] = {{"name", arena_strdup(&arena, server)},
                                     {"prompt", arena_strdup(&arena, prompt)},
                                     {"words", args_as_json(&arena, words)},
                                     {"word", arena_strdup(&arena, word)}};
        const struct json *v =
            ask_quietly(t->c, OP_MCP_COMPLETE, params, ARRAY_LEN(params), 0, &arena);
        json_foreach_item (it, json_get(v, "values")) {
            menu_offer(m, json_str(it, ""));
        }
    }
    arena_fini(&arena);
}

static void run_contributed(struct chat *t, struct str name, struct str arg)
{
    struct arena arena = {0};
    const struct json *v;
    int code = ask_value(t->c, OP_COMMAND_LIST, NULL, 0, &arena, &v);
    const struct json *command = find_command(json_get(v, "commands"), name);
    bool prompt = json_bool(json_get(command, "prompt"), false); // of an MCP server: for the model
    if (code == EXIT_OK && command == NULL) {
        out_error(&t->c->out, "there is no command '/" STR_FMT "'; /help lists them",
                  STR_ARG(name));
    } else if (code == EXIT_OK) {
        const struct json *row =
            ask_quietly(t->c, OP_SESSION_SHOW, &(struct ask_param){"id", t->id}, 1, 0, &arena);
        struct str dir = json_get_text(row, "working_dir");
        struct ask_param params[] = {
            {"name", arena_strdup(&arena, json_get_text(command, "name"))},
            {"args", args_as_json(&arena, arg)},
            {"working_dir", dir.n != 0 ? arena_strdup(&arena, dir) : NULL}};
        code = ask_value(t->c, OP_COMMAND_RUN, params, ARRAY_LEN(params), &arena, &v);
        if (code == EXIT_OK) {
            show_output(t->c, v);
        }
        if (code == EXIT_OK && prompt) {
            chat__say(t, json_get_text(v, "output"));
        }
    }
    arena_fini(&arena);
}

bool chat__slash(struct chat *t, struct str line)
{
    struct str arg = str_from(line, 1);
    struct str name = str_cut(&arg, ' ');
    bool stays = true;
    const struct slash *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(slashes); i++) {
        found = str_eqz(name, slashes[i].name) ? &slashes[i] : found;
    }
    if (found != NULL) {
        stays = found->run(t, str_trim(arg));
    } else {
        run_contributed(t, name, str_trim(arg));
    }
    out_flush(&t->c->out);
    return stays;
}
