// Sessions from outside: what there is, what one does, and answers to what waits for a person.

#include <unistd.h>

#include "cli/chat_int.h"
#include "cli/sessions.h"
#include "client/interrupt.h"
#include "pty/tty.h"

enum { PAGE = 100 };

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

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

struct prefix {
    const char *given;
    struct buf found; // all ids that begin like it, one a line
    size_t n;
};

static bool add_match(const struct json *row, void *arg)
{
    struct prefix *p = arg;
    struct str id = text_of(row, "id");
    if (str_starts(id, p->given)) {
        buf_adds(&p->found, id);
        buf_addc(&p->found, '\n');
        p->n++;
    }
    return p->n < 2;
}

int sessions__resolve(struct cli *c, const char *given, char *out, size_t size)
{
    struct prefix p = {.given = given};
    buf_init(&p.found, 4096);
    int code = given[0] != '\0' ? sessions__each(c, add_match, &p) : EXIT_OK;
    if (code == EXIT_OK && p.n != 1) {
        code = p.n == 0 ? EXIT_NOT_FOUND : EXIT_USAGE;
        out_error(&c->out,
                  p.n == 0 ? "there is no session '%s'; 'afloat sessions' lists them"
                           : "several sessions begin with '%s'; give more of the id",
                  given);
    }
    struct str rest = buf_str(&p.found);
    struct str id = str_cut(&rest, '\n');
    if (code == EXIT_OK) {
        snprintf(out, size, STR_FMT, STR_ARG(id));
    }
    buf_fini(&p.found);
    return code;
}

int sessions__each(struct cli *c, sessions_row_fn *fn, void *arg)
{
    char *cursor = NULL, limit[16];
    bool more = true;
    int code = EXIT_OK;
    snprintf(limit, sizeof limit, "%d", PAGE);
    while (more && code == EXIT_OK) {
        struct arena arena;
        const struct json *v;
        struct ask_param params[] = {{"cursor", cursor}, {"limit", limit}};
        arena_init(&arena);
        code = sessions__ask(c, OP_SESSION_LIST, params, ARRAY_LEN(params), &arena, &v);
        json_foreach_item (row, json_get(v, "sessions")) {
            more = more && fn(row, arg);
        }
        struct str next = text_of(v, "next");
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
    char behind[24];
    snprintf(behind, sizeof behind, "%llu", (unsigned long long)after);
    struct ask_param params[] = {{"id", id}, {"after", behind}};
    return sessions__ask(c, OP_SESSION_EVENTS, params, ARRAY_LEN(params), arena, out);
}

// Call the command's operation for the session that its first word names.
static int ask_about(struct cli *c, struct arena *arena, const struct json **out)
{
    char id[CHAT_ID_MAX];
    struct ask_param params[] = {{"id", id}};
    *out = NULL;
    int code = sessions__resolve(c, args_word(&c->args, 0), id, sizeof id);
    return code == EXIT_OK
               ? ask_value(c, (enum op_id)c->cmd->op, params, ARRAY_LEN(params), arena, out)
               : code;
}

// ---- list and show -------------------------------------------------------------------------

static enum out_tint tint_of(struct str state)
{
    return str_eqz(state, "running")   ? OUT_GREEN
           : str_eqz(state, "waiting") ? OUT_YELLOW
           : str_eqz(state, "crashed") ? OUT_RED
                                       : OUT_PLAIN;
}

static bool add_row(const struct json *row, void *arg)
{
    struct table *t = arg;
    struct str title = text_of(row, "title");
    struct str provider = text_of(row, "provider"), model = text_of(row, "model");
    table_add(t, OUT_BOLD, text_of(row, "id"));
    table_add(t, tint_of(text_of(row, "state")), text_of(row, "state"));
    table_add(t, OUT_DIM, text_of(row, "started_at"));
    table_addf(t, STR_FMT "/" STR_FMT, STR_ARG(provider), STR_ARG(model));
    table_add(t, OUT_DIM, text_of(row, "working_dir"));
    if (title.n == 0 &&
        text_of(row, "run_id").n != 0) { // its prompt begins like that of all others
        struct str bot = text_of(row, "bot"), run = text_of(row, "run_id");
        table_addf(t, STR_FMT " #%lld of run " STR_FMT, STR_ARG(bot),
                   (long long)json_int(json_get(row, "session_number"), 0), STR_ARG(run));
    } else {
        table_add(t, OUT_PLAIN, title.n != 0 ? title : text_of(row, "prompt_summary"));
    }
    return true;
}

int cmd_session_list(struct cli *c)
{
    struct arena arena;
    struct table t;
    const struct json *v;
    if (c->json) {
        arena_init(&arena);
        int code = ask_value(c, OP_SESSION_LIST, NULL, 0, &arena, &v);
        arena_fini(&arena);
        return code;
    }
    table_init(&t, 6);
    int code = sessions__each(c, add_row, &t);
    table_print(&t, &c->out);
    if (code == EXIT_OK && t.cells.n == 0) {
        out_note(&c->out, "there are none yet: 'afloat chat' begins one");
    }
    table_fini(&t);
    return code;
}

// An object as two columns; what is not a text is printed as JSON.
static void print_object(struct cli *c, const struct json *v)
{
    struct table t;
    table_init(&t, 2);
    json_foreach_member (m, v) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        if (m->value.type == JSON_STR) {
            buf_adds(&text, m->value.s);
        } else {
            json_write(&text, &m->value, 0);
        }
        table_add(&t, OUT_BOLD, m->key);
        table_add(&t, OUT_PLAIN, buf_str(&text));
        buf_fini(&text);
    }
    table_print(&t, &c->out);
    table_fini(&t);
}

// `show`, and whatever else answers with an object.
int cmd_session_show(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_about(c, &arena, &v);
    print_object(c, v);
    arena_fini(&arena);
    return code;
}

static void print_point(struct cli *c, struct str name, const struct json *handlers)
{
    bool first = true;
    json_foreach_item (h, handlers) {
        int64_t priority = json_int(json_get(h, "priority"), 0);
        if (first) {
            out_tinted(&c->out, OUT_BOLD, name);
            out_add(&c->out, STR("\n"));
        }
        first = false;
        out_add(&c->out, STR("  "));
        out_text(&c->out, text_of(h, "plugin"));
        if (priority != 0) {
            out_addf(&c->out, " (priority %lld)", (long long)priority);
        }
        if (!json_bool(json_get(h, "live"), true)) {
            out_add(&c->out, STR(" (switched off)"));
        }
        out_add(&c->out, STR("\n"));
    }
}

int cmd_session_pipeline(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_about(c, &arena, &v);
    if (v != NULL) {
        struct str missing = text_of(v, "unavailable");
        out_addf(&c->out,
                 "generation %lld, plugins:", (long long)json_int(json_get(v, "generation"), 0));
        json_foreach_item (name, json_get(v, "plugins")) {
            out_add(&c->out, STR(" "));
            out_text(&c->out, json_str(name, ""));
        }
        out_add(&c->out, STR("\n"));
        json_foreach_item (point, json_get(v, "hooks")) {
            print_point(c, text_of(point, "hook"), json_get(point, "handlers"));
        }
        if (missing.n != 0) {
            out_note(&c->out, STR_FMT, STR_ARG(missing));
        }
    }
    arena_fini(&arena);
    return code;
}

int cmd_session_end(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    char id[CHAT_ID_MAX];
    bool purge = args_has(&c->args, FLAG_PURGE);
    struct ask_param params[] = {{"id", id}, {"purge", purge ? "true" : NULL}};
    arena_init(&arena);
    int code = sessions__resolve(c, args_word(&c->args, 0), id, sizeof id);
    if (code == EXIT_OK) {
        code = ask_value(c, OP_SESSION_END, params, ARRAY_LEN(params), &arena, &v);
    }
    if (code == EXIT_OK) {
        out_note(&c->out, "session %s %s", id, purge ? "is gone" : "has ended");
    }
    arena_fini(&arena);
    return code;
}

// ---- what waits for a person ---------------------------------------------------------------

// The one thing of that kind that waits, when none is named.
static int find_waiting(struct cli *c, const char *id, const char *key, struct arena *arena,
                        const char **out)
{
    const struct json *row;
    struct ask_param params[] = {{"id", id}};
    size_t n = 0;
    int code = sessions__ask(c, OP_SESSION_SHOW, params, ARRAY_LEN(params), arena, &row);
    json_foreach_item (p, json_get(row, "pending")) {
        struct str found = text_of(p, key);
        if (found.n != 0) {
            *out = arena_strdup(arena, found);
            n++;
        }
    }
    if (code == EXIT_OK && n != 1) {
        out_error(&c->out,
                  n == 0 ? "nothing of session '%s' waits for that"
                         : "several of session '%s' wait; name one of 'sessions show'",
                  id);
        code = n == 0 ? EXIT_NOT_FOUND : EXIT_USAGE;
    }
    return code;
}

int cmd_session_decide(struct cli *c)
{
    bool allow = strcmp(c->cmd->verb, "allow") == 0;
    char id[CHAT_ID_MAX];
    struct arena arena;
    const struct json *v;
    const char *request = args_word(&c->args, 1);
    arena_init(&arena);
    int code = sessions__resolve(c, args_word(&c->args, 0), id, sizeof id);
    if (code == EXIT_OK && request == NULL) {
        code = find_waiting(c, id, "request_id", &arena, &request);
    }
    if (code == EXIT_OK) {
        struct ask_param params[] = {{"id", id},
                                     {"request_id", request},
                                     {"decision", allow ? "allow" : "deny"},
                                     {"remember", args_value(&c->args, FLAG_REMEMBER)},
                                     {"reason", args_value(&c->args, FLAG_REASON)}};
        code = ask_value(c, OP_SESSION_PERMISSION, params, ARRAY_LEN(params), &arena, &v);
    }
    if (code == EXIT_OK) {
        out_note(&c->out, allow ? "allowed" : "denied");
    }
    arena_fini(&arena);
    return code;
}

int cmd_session_answer(struct cli *c)
{
    char id[CHAT_ID_MAX];
    struct arena arena;
    struct buf text;
    struct jw w;
    const struct json *v;
    const char *question = args_word(&c->args, 2);
    arena_init(&arena);
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_strz(&w, args_word(&c->args, 1));
    int code = sessions__resolve(c, args_word(&c->args, 0), id, sizeof id);
    if (code == EXIT_OK && question == NULL) {
        code = find_waiting(c, id, "question_id", &arena, &question);
    }
    if (code == EXIT_OK) {
        struct ask_param params[] = {
            {"id", id}, {"question_id", question}, {"answer", buf_z(&text)}};
        code = ask_value(c, OP_SESSION_ANSWER, params, ARRAY_LEN(params), &arena, &v);
    }
    buf_fini(&text);
    arena_fini(&arena);
    return code;
}
