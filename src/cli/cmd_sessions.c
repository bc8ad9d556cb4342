// Sessions and permission rules: list, show, end, and answers to what waits for the user.

#include <assert.h>
#include <unistd.h>

#include "cli/call.h"
#include "cli/sessions.h"

// ---- shared --------------------------------------------------------------------------------

int sessions__ask(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
                  struct arena *arena, const struct json **out)
{
    bool json = c->json;
    c->json = false;
    int code = ask_value(c, op, params, n, arena, out);
    c->json = json;
    return code;
}

void sessions__note(struct cli *c, const struct json *row)
{
    struct str reason = json_get_text(row, "sandbox_reason");
    if (json_bool(json_get(row, "fallback"), false)) {
        out_note(&c->out,
                 "no model key found: this is the scripted demo model; see 'afloat setup'");
    }
    if (reason.n != 0) {
        out_note(&c->out, STR_FMT, STR_ARG(reason));
    }
}

struct prefix {
    const char *given;
    char found[SESSION_ID_MAX]; // the first id that begins like it
    size_t n;
};

static bool add_match(const struct json *row, void *arg)
{
    struct prefix *p = arg;
    struct str id = json_get_text(row, "id");
    if (str_starts(id, p->given) && p->n++ == 0) {
        snprintf(p->found, sizeof p->found, STR_FMT, STR_ARG(id));
    }
    return p->n < 2;
}

int sessions__resolve(struct cli *c, const char *given, char *out, size_t size)
{
    struct prefix p = {.given = given};
    assert(size >= sizeof p.found);
    int code = given[0] != '\0' ? sessions__each(c, add_match, &p) : EXIT_OK;
    bool whole = strlen(given) == 12 && strspn(given, "0123456789abcdef") == 12;
    if (code == EXIT_OK && p.n == 0 && whole) { // of a subagent: these are not listed
        snprintf(out, size, "%s", given);
        return EXIT_OK;
    }
    if (code == EXIT_OK && p.n == 0 && given[0] != '\0' && c->json) {
        // what the hub answers is the output
        struct client_answer a;
        client_answer_init(&a);
        code = ask_op(c, OP_SESSION_SHOW, &(struct ask_param){"id", given}, 1, &a);
        client_answer_fini(&a);
        snprintf(out, size, "%s", given);
        return code;
    }
    if (code == EXIT_OK && p.n != 1) {
        code = p.n == 0 ? EXIT_NOT_FOUND : EXIT_USAGE;
        out_error(&c->out,
                  p.n == 0 ? "there is no session '%s'; 'afloat sessions' lists them"
                           : "several sessions begin with '%s'; give more of the id",
                  given);
    }
    snprintf(out, size, "%s", p.found);
    return code;
}

int sessions__each(struct cli *c, sessions_row_fn *fn, void *arg)
{
    char *cursor = NULL;
    bool more = true;
    int code = EXIT_OK;
    while (more && code == EXIT_OK) {
        struct arena arena = {0};
        const struct json *v;
        struct ask_param params[] = {{"cursor", cursor}, {"limit", "100"}};
        code = sessions__ask(c, OP_SESSION_LIST, params, ARRAY_LEN(params), &arena, &v);
        json_foreach_item (row, json_get(v, "sessions")) {
            more = more && fn(row, arg);
        }
        struct str next = json_get_text(v, "next");
        free(cursor);
        cursor = str_dup(next);
        more = more && next.n != 0;
        arena_fini(&arena);
    }
    free(cursor);
    return code;
}

int sessions__events(struct cli *c, const char *id, uint64_t after, struct arena *arena,
                     const struct json **out)
{
    char last[24];
    snprintf(last, sizeof last, "%llu", (unsigned long long)after);
    struct ask_param params[] = {{"id", id}, {"after", last}};
    return sessions__ask(c, OP_SESSION_EVENTS, params, ARRAY_LEN(params), arena, out);
}

// ---- list, show, end -----------------------------------------------------------------------

const struct form form_session_list = {
    .layout = {"sessions",
               COLUMNS(COL("ID", ID, NULL), COL("STATE", STATE, NULL),
                       COL("STARTED", TIME, "{started_at}"),
                       COL("MODEL", TEXT, "{provider}/{model}"),
                       COL("DIRECTORY", PATH, "{working_dir}"),
                       COL("TITLE", TEXT,
                           "{title}||{bot} #{session_number} of run {run_id}||{prompt_summary}")),
               "no sessions yet; start one with 'afloat chat'"}};

const struct form form_session_show = {.session = true};

const struct form form_session_types = {
    .here = "path",
    .layout = {
        "types",
        COLUMNS(COL("TYPE", ID, "{name}"), COL("KIND", WORD, NULL), COL("STATE", STATE, NULL),
                COL("LAYER", DIM, NULL), COL("PATH", PATH, NULL),
                COL("DESCRIPTION", TEXT, "{error}||{description}")),
        "no session types; one is a file sessions/TYPE/init.lua in your home or in .afloat/"}};

const struct form form_session_end = {
    .session = true,
    .said = "session {id} {-purge?ended, its files are deleted:ended}"
            "||session {$0} {-purge?ended, its files are deleted:ended}"};

const struct form form_session_prune = {
    .layout = {"pruned",
               COLUMNS(COL("ID", ID, NULL), COL("USED", TIME, "{used_at}"),
                       COL("DIRECTORY", PATH, "{working_dir}"), COL("TITLE", TEXT, NULL)),
               NULL},
    .said = "{#pruned} {-dry-run?would be deleted:deleted}"};

const struct form form_session_checkpoints = {
    .session = true,
    .layout = {"checkpoints",
               COLUMNS(COL("TURN", ID, NULL), COL("AT", TIME, NULL), COL("FILES", WORD, "{#files}"),
                       COL("TEXT", TEXT, NULL)),
               "no turns yet"}};

void sessions__print_rewound(struct cli *c, const struct json *v)
{
    static const struct {
        const char *member, *said;
    } rows[] = {{"restored", "restored"}, {"deleted", "deleted"}};
    const struct json *conflicts = json_get(v, "conflicts");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_foreach_item (path, json_get(v, rows[i].member)) {
            bool conflict = false;
            json_foreach_item (other, conflicts) {
                conflict = conflict || json_equal(path, other);
            }
            out_addf(&c->out, "%s%s  ", rows[i].said,
                     conflict ? " (changed since by another program)" : "");
            out_tinted(&c->out, OUT_PLAIN, json_str(path, ""));
            out_add(&c->out, STR("\n"));
        }
    }
    json_foreach_item (line, json_get(v, "not_kept")) {
        struct str text = json_str(line, "");
        out_note(&c->out, "not kept, so not restored: " STR_FMT, STR_ARG(text));
    }
}

#define REWIND_FORM(only, value)                                                                   \
    {                                                                                              \
        .session = true, .fixed = only, .fixed_value = value, .print = sessions__print_rewound,    \
        .said = "{-dry-run?this would bring back:back at} the state before {to}"                   \
    }

int cmd_session_rewind(struct cli *c)
{
    static const struct form both = REWIND_FORM(NULL, NULL);
    static const struct form files = REWIND_FORM("conversation", "false");
    static const struct form talk = REWIND_FORM("files", "false");
    bool only_files = args_has(&c->args, FLAG_ONLY_FILES),
         only_talk = args_has(&c->args, FLAG_ONLY_TALK);
    if (only_files + only_talk + args_has(&c->args, FLAG_BOTH) > 1) {
        out_error(&c->out, "give one of --files, --conversation and --both");
        return EXIT_USAGE;
    }
    return call_with(c, OP_SESSION_REWIND, only_files ? &files : only_talk ? &talk : &both);
}

static void print_hooks(struct cli *c, const struct json *v)
{
    json_foreach_item (point, json_get(v, "hooks")) {
        const struct json *handlers = json_get(point, "handlers");
        if (json_at(handlers, 0) != NULL) {
            out_tinted(&c->out, OUT_BOLD, json_get_text(point, "hook"));
            out_add(&c->out, STR("\n"));
        }
        json_foreach_item (h, handlers) {
            int64_t priority = json_int(json_get(h, "priority"), 0);
            out_add(&c->out, STR("  "));
            out_text(&c->out, json_get_text(h, "plugin"));
            if (priority != 0) {
                out_addf(&c->out, " (priority %lld)", (long long)priority);
            }
            bool live = json_bool(json_get(h, "live"), true);
            out_add(&c->out, live ? STR("\n") : STR(" (disabled)\n"));
        }
    }
    if (json_get_text(v, "unavailable").n != 0) {
        show_note(c, "{unavailable}", v);
    }
}

const struct form form_session_pipeline = {
    .session = true, .text = "generation {generation}, plugins: {plugins}", .print = print_hooks};

const struct form form_permission_list = {
    .here = "path",
    .layout = {
        "rules",
        COLUMNS(COL("DECISION", STATE, NULL), COL("TOOL", WORD, NULL),
                COL("MATCH", TEXT, "{match}||every call"), COL("SCOPE", WORD, NULL),
                COL("ID", ID, NULL)),
        "no permission rules for this project; answer a question of 'afloat chat --permission "
        "ask', or add [[permission]] to config.toml"}};

const struct form form_permission_remove = {.said = "removed rule '{$0}'"};

// ---- what waits for the user ---------------------------------------------------------------

// The one call or question that waits, when none is named.
static int find_waiting(struct cli *c, const char *id, const char *key, struct arena *arena,
                        const char **out)
{
    assert(id[0] != '\0' && key != NULL);
    const struct json *row;
    struct ask_param params[] = {{"id", id}};
    size_t n = 0;
    int code = sessions__ask(c, OP_SESSION_SHOW, params, ARRAY_LEN(params), arena, &row);
    json_foreach_item (p, json_get(row, "pending")) {
        struct str found = json_get_text(p, key);
        if (found.n != 0) {
            *out = arena_strdup(arena, found);
            n++;
        }
    }
    if (code == EXIT_OK && n != 1) {
        out_error(&c->out,
                  n == 0 ? "session '%s' is not waiting for that"
                         : "session '%s' waits for several; name one, 'sessions show' lists them",
                  id);
        code = n == 0 ? EXIT_NOT_FOUND : EXIT_USAGE;
    }
    return code;
}

// `allow`, `deny` and `answer`
int cmd_session_decide(struct cli *c)
{
    const struct args *a = &c->args;
    bool answers = c->cmd->op == OP_SESSION_ANSWER;
    const char *key = answers ? "question_id" : "request_id";
    const char *waiting = args_word(a, answers ? 2 : 1);
    char id[SESSION_ID_MAX];
    struct arena arena = {0};
    struct buf answer = {.max = SIZE_MAX};
    const struct json *v;
    struct jw w = {.out = &answer};
    jw_strz(&w, args_word(a, 1));
    int code = sessions__resolve(c, args_word(a, 0), id, sizeof id);
    if (code == EXIT_OK && waiting == NULL) {
        code = find_waiting(c, id, key, &arena, &waiting);
    }
    if (code == EXIT_OK) {
        struct ask_param params[] = {
            {"id", id},
            {key, waiting},
            {"answer", buf_z(&answer)},
            {"decision", c->cmd->verb},
            {"remember", answers ? NULL : args_value(a, FLAG_REMEMBER)},
            {"reason", answers ? NULL : args_value(a, FLAG_REASON)},
        };
        code = ask_value(c, (enum op_id)c->cmd->op, params, ARRAY_LEN(params), &arena, &v);
    }
    if (code == EXIT_OK && !answers) {
        out_note(&c->out, strcmp(c->cmd->verb, "allow") == 0 ? "allowed" : "denied");
    }
    buf_fini(&answer);
    arena_fini(&arena);
    return code;
}
