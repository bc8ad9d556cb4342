// Plugins: list, show, logs, switch, load. What writes plugins is in cmd_plugin_make.c.

#include "cli/report.h"
#include "cli/watch.h"
#include "trust/trust.h"

// ---- list ------------------------------------------------------------------------------------

/// "2 hooks, 1 tool": what a plugin contributes.
static void add_contributions(struct buf *out, const struct json *row)
{
    static const char *const kinds[] = {"hooks",    "tools",   "routes",
                                        "commands", "prompts", "providers"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *list = json_get(row, kinds[i]);
        unsigned n = list != NULL ? list->n : 0;
        if (n != 0) {
            buf_addf(out, "%s%u %.*s", out->n != 0 ? ", " : "", n,
                     (int)(strlen(kinds[i]) - (n == 1)), kinds[i]);
        }
    }
}

static bool is_shown(const struct cli *c, const struct json *row)
{
    struct str state = json_get_text(row, "state");
    bool quiet = str_eqz(state, "disabled") || str_eqz(state, "untrusted");
    return !quiet || json_bool(json_get(row, "serving"), false) || args_has(&c->args, FLAG_ALL);
}

static void print_plugins(struct cli *c, const struct json *v)
{
    static const struct column columns[] = {
        COL("NAME", ID, NULL),
        COL("STATE", STATE, NULL),
        COL("REVISION", WORD, "{revision?revision} {revision}||"),
        COL("LAYER", DIM, NULL),
        COL_FN("CONTRIBUTES", TEXT, add_contributions),
        COL(NULL, TEXT, NULL),
    };
    const struct json *plugins = json_get(v, "plugins");
    struct table t;
    size_t hidden = 0;
    show_begin(&t, columns);
    json_foreach_item (row, plugins) {
        if (is_shown(c, row)) {
            show_add_row(c, &t, columns, row, STR_NULL);
        } else {
            hidden++;
        }
    }
    table_print(&t, &c->out);
    table_fini(&t);
    json_foreach_item (row, plugins) {
        if (json_get_text(row, "error").n != 0 && is_shown(c, row)) {
            show_line(c, OUT_RED, "{name}", ": {error_at}: {error}||: {error}", row, STR_NULL);
        }
    }
    if (hidden != 0) {
        out_note(&c->out, "%zu more with --all", hidden);
    }
    if (!json_bool(json_get(v, "feature_enabled"), true)) {
        out_note(&c->out, "plugins are disabled; enable them with 'afloat feature enable plugins'");
    } else if (json_at(plugins, 0) == NULL) {
        out_note(&c->out, "no plugins yet; write one with 'afloat plugin new NAME'");
    }
}

const struct form form_plugin_list = {.print = print_plugins};

// ---- show ------------------------------------------------------------------------------------

static void add_duration(struct buf *out, const char *name, double us)
{
    const char *unit = us < 1e3 ? "us" : us < 1e6 ? "ms" : "s";
    buf_addf(out, "%s %.1f %s", name, us / (us < 1e3 ? 1 : us < 1e6 ? 1e3 : 1e6), unit);
}

static void add_p50(struct buf *out, const struct json *row)
{
    add_duration(out, "p50", json_double(json_get(row, "p50_us"), 0));
}

static void add_p99(struct buf *out, const struct json *row)
{
    add_duration(out, "p99", json_double(json_get(row, "p99_us"), 0));
}

static void print_costs(struct cli *c, const struct json *v)
{
    static const struct column columns[] = {
        COL("NAME", ID, "{@}"),
        COL("CALLS", WORD, "{count} calls"),
        COL("ERRORS", WORD, "{errors} errors"),
        COL_FN("P50", WORD, add_p50),
        COL_FN("P99", WORD, add_p99),
        COL(NULL, TEXT, NULL),
    };
    static const char *const kinds[] = {"hooks", "routes", "tools", "commands"};
    struct table t;
    show_begin(&t, columns);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        show_add(c, &t, columns, json_get(json_get(v, "stats"), kinds[i]));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    report_print_problems(&c->out, v); // the row has the same members
}

const struct form form_plugin_show = {
    .layout = {.columns = COLUMNS(
                   COL("name", TEXT, NULL), COL("path", TEXT, NULL), COL("source", TEXT, NULL),
                   COL("layer", TEXT, NULL), COL("project", TEXT, NULL), COL("host", TEXT, NULL),
                   COL("scope", TEXT, NULL), COL("state", STATE, NULL), COL("error", TEXT, NULL),
                   COL("revision", TEXT, "{revision}, since generation {generation}"),
                   COL("hooks", TEXT, NULL), COL("tools", TEXT, NULL), COL("routes", TEXT, NULL),
                   COL("commands", TEXT, NULL), COL("prompts", TEXT, NULL),
                   COL("shadows", TEXT, NULL), COL("memory", SIZE, "{stats.memory_bytes}"))},
    .print = print_costs};

// ---- why -------------------------------------------------------------------------------------

/// What a state means for the user, and what to do.
static const struct {
    const char *state, *means;
} states[] = {
    {"failed",
     "it does not serve: its code could not be loaded; fix the file: saving it loads it again"},
    {"disabled",
     "it does not serve: it is switched off; 'afloat plugin enable {name}' switches it on"},
    {"untrusted", "it does not serve: its project is not trusted, or the file changed since; look "
                  "at it, then type "
                  "'afloat trust'"},
    {"held",
     "it does not serve: an undo took it back; save the file again, or type 'afloat reload --force "
     "{name}'"},
    {"removed", "it does not serve: its file is gone"},
};

/// What it has registered that nothing has used yet.
static size_t print_unused(struct cli *c, const struct json *v)
{
    static const struct {
        const char *kind, *used;
    } kinds[] = {
        {"hooks",
         "runs in the turns of sessions that have this plugin: 'afloat sessions pipeline ID'"},
        {"tools", "runs when a model calls it; 'afloat tool run {@}' tries it"},
        {"routes", "answers below /api/plugins/{name}; 'afloat api' tries it"},
        {"commands", "runs as 'afloat {name}:{@}'"}};
    size_t all = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_foreach_member (it, json_get(json_get(v, "stats"), kinds[i].kind)) {
            all++;
            if (json_int(json_get(&it->value, "count"), 0) == 0) {
                struct buf line = {.max = SIZE_MAX};
                buf_addf(&line, "not used yet: " STR_FMT " ", STR_ARG(it->key));
                show_fill(c, &line, kinds[i].used, v, it->key);
                table_print_text(&c->out, buf_str(&line), 0);
                buf_fini(&line);
            }
        }
    }
    return all;
}

/// Are all plugins off, and not this one alone?
static bool is_feature_off(struct cli *c)
{
    struct arena arena = {0};
    const struct json *all = ask_quietly(c, OP_PLUGIN_LIST, NULL, 0, 0, &arena);
    bool off = !json_bool(json_get(all, "feature_enabled"), true);
    arena_fini(&arena);
    return off;
}

/// Name the files that are not used, which the user may be editing: plugins of the same name in lower layers.
static void print_shadows(struct cli *c, const struct json *v)
{
    json_foreach_item (it, json_get(v, "shadows")) {
        struct buf line = {.max = SIZE_MAX};
        buf_addf(&line, "'" STR_FMT "' has the same name and is not used; '",
                 STR_ARG(json_str(it, "")));
        buf_addf(&line, STR_FMT "' is", STR_ARG(json_get_text(v, "path")));
        table_print_text(&c->out, buf_str(&line), 0);
        buf_fini(&line);
    }
}

static void print_why(struct cli *c, const struct json *v)
{
    struct str state = json_get_text(v, "state"),
               pending = json_get_text(json_get(v, "pending"), "error");
    if (json_bool(json_get(v, "serving"), false)) {
        show_line(c, OUT_PLAIN, NULL,
                  "it serves: revision {revision}, since generation {generation}", v, STR_NULL);
        if (pending.n != 0) {
            out_add(&c->out, STR("a newer version was refused; the last good one keeps serving\n"));
        }
        print_shadows(c, v);
        report_print_problems(&c->out, v); // before the list of what is unused, which may be long
        if (print_unused(c, v) == 0 && json_at(json_get(v, "prompts"), 0) == NULL) {
            out_add(&c->out,
                    STR("but it registers nothing: no hook, tool, route, command or prompt\n"));
        }
    } else {
        const char *means = "it does not serve: its state is '{state}'";
        for (size_t i = 0; i < ARRAY_LEN(states); i++) {
            means = str_eqz(state, states[i].state) ? states[i].means : means;
        }
        if (str_eqz(state, "disabled") && is_feature_off(c)) {
            means = "it does not serve: plugins are disabled; 'afloat feature enable plugins' "
                    "enables them";
        }
        struct buf text = {.max = SIZE_MAX};
        show_fill(c, &text, means, v, STR_NULL);
        table_print_text(&c->out, buf_str(&text), 0);
        buf_fini(&text);
        print_shadows(c, v);
        report_print_problems(&c->out, v);
    }
}

static int judge_why(struct cli *c, const struct json *v)
{
    (void)c;
    return json_bool(json_get(v, "serving"), false) ? EXIT_OK : EXIT_FAILED;
}

/// The hub knows a project's plugins only while a session, run or shell is open there: note that if this project
/// has the plugin.
static void explain_project(struct cli *c, const char *name)
{
    struct trust_place p = {0};
    struct trust_scan s = {0};
    struct trust *t = NULL;
    if (trust_place_of(&p, c->home.dir, ".", NULL) == 0 && trust_scan(&s, p.root, NULL) == 0) {
        int rc = trust_open(&t, c->home.dir, NULL);
        (void)rc; // an empty book then
        vec_foreach (it, &s.items) {
            if (it->kind == TRUST_PLUGIN && strcmp(it->name, name) == 0) {
                bool no = trust_ask(t, &p, it->kind, it->path, it->tree.hash) == TRUST_NO;
                out_note(&c->out,
                         no ? "this project has it in '%s', and is not trusted: 'afloat trust "
                              "--diff' shows "
                              "it, 'afloat trust' trusts it"
                            : "this project has it in '%s': it serves while a session, run or "
                              "shell is open "
                              "here, for example 'afloat chat'",
                         it->path);
            }
        }
    }
    trust_scan_fini(&s);
    trust_close(t);
    trust_place_fini(&p);
}

int cmd_plugin_why(struct cli *c)
{
    static const struct form form = {.print = print_why, .judge = judge_why};
    int code = call_with(c, OP_PLUGIN_SHOW, &form);
    if (code == EXIT_NOT_FOUND) {
        explain_project(c, args_word(&c->args, 0));
    }
    return code;
}

// ---- logs ------------------------------------------------------------------------------------

/// The later lines of a text, as of a traceback, are indented.
static void print_line(struct cli *c, struct str ts, struct str level, struct str text)
{
    out_tinted(&c->out, OUT_DIM, ts);
    out_addf(&c->out, " ");
    out_tinted(&c->out,
               str_eqz(level, "error")  ? OUT_RED
               : str_eqz(level, "warn") ? OUT_YELLOW
                                        : OUT_PLAIN,
               level);
    out_addf(&c->out, " ");
    do {
        out_text(&c->out, str_cut(&text, '\n'));
        out_addf(&c->out, text.n != 0 ? "\n    " : "\n");
    } while (text.n != 0);
}

/// The text of a line of the hub's log, where it is quoted when it must be.
static struct str unquote(struct arena *a, struct str text)
{
    struct json *v;
    bool quoted = str_starts(text, "\"") && json_parse(&v, a, text, NULL, NULL) == 0;
    return quoted ? json_str(v, "") : text;
}

/// What `logs -f` has shown before it follows.
struct shown {
    const struct json *lines; // the list
    int64_t until;            // the newest event after that: up to there one may be in the list
};

/// The number of the newest event; 0 when there is no hub yet.
static int64_t newest_event(struct cli *c)
{
    struct arena arena = {0};
    const struct ask_param params[] = {{"types", "log"}, {"after", ASK_EVENTS_END}};
    int64_t id = json_int(
        json_get(ask_quietly(c, OP_EVENTS, params, ARRAY_LEN(params), 0, &arena), "next"), 0);
    arena_fini(&arena);
    return id;
}

static bool was_shown(const struct shown *s, const struct json *event, struct str text)
{
    if (json_int(json_get(event, "id"), INT64_MAX) > s->until) {
        return false;
    }
    json_foreach_item (line, s->lines) {
        if (str_eq(json_get_text(line, "text"), text) &&
            str_eq(json_get_text(line, "level"), json_get_text(event, "level"))) {
            return true;
        }
    }
    return false;
}

/// One event of the hub's log: ours when its line begins with the unit's name.
static void print_log(struct cli *c, struct str data, void *arg)
{
    struct arena a = {0};
    struct json *v;
    char *mark = xasprintf("unit=%s text=", args_word(&c->args, 0));
    bool ours =
        json_parse(&v, &a, data, NULL, NULL) == 0 && str_starts(json_get_text(v, "text"), mark);
    struct str text =
        ours ? unquote(&a, str_from(json_get_text(v, "text"), strlen(mark))) : STR_NULL;
    bool fresh = ours && !was_shown(arg, v, text);
    if (fresh && c->json) {
        out_add(&c->out, data);
        out_add(&c->out, STR("\n"));
    } else if (fresh) {
        print_line(c, json_get_text(v, "ts"), json_get_text(v, "level"), text);
    }
    arena_fini(&a);
    free(mark);
}

/// Follow from event `after`, which is older than the list.
static int follow_log(struct cli *c, const struct json *lines, int64_t after)
{
    char id[24];
    struct shown shown = {.lines = lines, .until = newest_event(c)};
    struct watch_opts o = {.types = "log", .after = id, .print = print_log, .arg = &shown};
    snprintf(id, sizeof id, "%lld", (long long)after);
    out_flush(&c->out);
    return watch__follow(c, &o);
}

int cmd_plugin_logs(struct cli *c)
{
    struct arena arena = {0};
    const struct json *v;
    struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    bool follow = args_has(&c->args, FLAG_FOLLOW);
    int64_t after = follow ? newest_event(c) : 0;
    int code = ask_parsed(c, OP_PLUGIN_LOGS, params, ARRAY_LEN(params), &arena, &v);
    json_foreach_item (line, c->json ? NULL : json_get(v, "lines")) {
        print_line(c, json_get_text(line, "ts"), json_get_text(line, "level"),
                   json_get_text(line, "text"));
    }
    code = code == EXIT_OK && follow ? follow_log(c, json_get(v, "lines"), after) : code;
    arena_fini(&arena);
    return code;
}

// ---- switch and load -------------------------------------------------------------------------

const struct form form_plugin_enable = {.said = "plugin '{$0}' is {state}"};
const struct form form_plugin_disable = {.said = "plugin '{$0}' is {state}"};
const struct form form_plugin_remove = {
    .said =
        "{trash?plugin} '{$0}' is in the trash||{path?plugin} '{$0}' is no longer used; its files "
        "stay where they are||plugin '{$0}' is removed"};
const struct form form_plugin_reload = {.print = report_show, .judge = report_judge};
const struct form form_plugin_add = {.print = report_show, .judge = report_judge};
