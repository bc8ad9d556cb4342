// What the session asks the user: permissions and questions.
//
// A permission may only be given by a user who has seen what is asked: what was typed before the
// question is discarded, see chat__ask().

#include <assert.h>

#include "chat/chat_int.h"
#include "view/table.h"

// ---- permissions ---------------------------------------------------------------------------

enum { QUESTION_LINES = 400 }; // of a diff or a text

struct decision {
    const char *decision, *remember, *reason;
};

static int send_decision(struct chat *t, const struct decision *d)
{
    struct arena arena = {0};
    const struct json *v;
    char *request = arena_strdup(&arena, json_get_text(t->asked, "request_id"));
    struct ask_param params[] = {{"id", t->id},
                                 {"request_id", request},
                                 {"decision", d->decision},
                                 {"remember", d->remember},
                                 {"reason", d->reason}};
    int code = ask_value(t->c, OP_SESSION_PERMISSION, params, ARRAY_LEN(params), &arena, &v);
    arena_fini(&arena);
    return code == EXIT_CONFLICT ? EXIT_OK : code; // another client has decided
}

static void print_content(struct chat *t, struct str content)
{
    out_add(&t->c->out, content.n == 0 ? STR("  (empty)\n") : STR(""));
    for (size_t i = 0; i < QUESTION_LINES && content.n != 0; i++) {
        out_add(&t->c->out, STR("  "));
        out_text(&t->c->out, str_cut(&content, '\n'));
        out_add(&t->c->out, STR("\n"));
    }
    size_t more = str_lines(content);
    if (more != 0) {
        out_addf(&t->c->out, "  … %zu more line%s\n", more, more == 1 ? "" : "s");
    }
}

static bool has_lines(const struct json *v)
{
    return v->type == JSON_STR && str_index(v->s, '\n') >= 0;
}

/// A program is unreadable as a string of JSON, so print_texts() shows members of several lines; they are left out here.
static void write_short(struct buf *out, const struct json *args)
{
    struct arena arena = {0};
    const struct json *rest = args;
    json_foreach_member (m, args) {
        rest = has_lines(&m->value) ? json_with(&arena, rest, m->key, NULL) : rest;
    }
    json_write(out, rest, 0);
    arena_fini(&arena);
}

static void print_texts(struct chat *t, const struct json *args)
{
    json_foreach_member (m, args) {
        if (has_lines(&m->value)) {
            out_text(&t->c->out, m->key);
            out_add(&t->c->out, STR(":\n"));
            print_content(t, m->value.s);
        }
    }
}

static void print_call(struct chat *t)
{
    const struct json *call = json_get(t->asked, "call"), *args = json_get(call, "input");
    struct str cmd = json_get_text(args, "cmd"), url = json_get_text(args, "url"),
               diff = json_get_text(t->asked, "diff");
    const struct json *content = json_get(args, "content");
    bool writes = diff.n == 0 && content != NULL && content->type == JSON_STR && args->n == 2 &&
                  json_get_text(args, "path").n != 0;
    bool fetches = str_eqz(json_get_text(call, "tool_name"), "web_fetch") && url.n != 0;
    bool runs = cmd.n != 0 && args->n == 1; // a command is read as one
    struct buf input = {.max = SIZE_MAX};
    if (fetches || runs) {
        buf_adds(&input, fetches ? url : cmd);
    } else if (diff.n != 0 || writes) {
        buf_adds(&input, json_get_text(args, "path"));
    } else {
        write_short(&input, args);
    }
    view_settle(&t->view);
    out_tinted(&t->c->out, OUT_YELLOW, STR("? "));
    out_tinted(&t->c->out, OUT_BOLD, json_get_text(call, "tool_name"));
    out_add(&t->c->out, json_get_text(t->asked, "task").n != 0 ? STR(" of a subagent") : STR(""));
    out_add(&t->c->out, diff.n != 0 ? STR(" wants to change: ")
                        : writes    ? STR(" wants to write: ")
                        : fetches   ? STR(" wants to read: ")
                                    : STR(" wants to run: "));
    out_text(&t->c->out, buf_str(&input));
    out_add(&t->c->out, STR("\n"));
    if (str_eqz(json_get_text(t->asked, "by"), "sandbox")) {
        out_add(&t->c->out, STR("  this file runs outside of the sandbox\n"));
    }
    if (writes) { // without a diff: the file holds this text already, or is no text
        print_content(t, content->s);
    } else if (!fetches && !runs && diff.n == 0) {
        print_texts(t, args);
    }
    view_asked_diff(&t->view, json_get_text(call, "tool_call_id"), diff, QUESTION_LINES);
    buf_fini(&input);
}

// The letters of the answers, by what they remember.
static const struct {
    char letter;
    const char *remember;
} answers[] = {{'a', "once"}, {'e', "exact"}, {'p', "prefix"}, {'t', "tool"}, {'j', "project"}};

static const char *remember_of(const struct chat *t, char letter)
{
    json_foreach_item (o, json_get(t->asked, "offers")) {
        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
            if (answers[i].letter == letter &&
                str_eqz(json_get_text(o, "remember"), answers[i].remember)) {
                return answers[i].remember;
            }
        }
    }
    return NULL;
}

static void print_answer(struct chat *t, char letter, const char *what, struct str covers)
{
    struct buf text = {.max = SIZE_MAX};
    char key[8];
    snprintf(key, sizeof key, "  [%c] ", letter);
    out_tinted(&t->c->out, OUT_BOLD, str_of(key));
    buf_addf(&text, "%s" STR_FMT, what, STR_ARG(covers));
    table_print_text(&t->c->out, buf_str(&text), strlen(key));
    buf_fini(&text);
}

// What each answer covers, one a line.
static void print_offers(struct chat *t)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        json_foreach_item (o, json_get(t->asked, "offers")) {
            if (str_eqz(json_get_text(o, "remember"), answers[i].remember)) {
                print_answer(t, answers[i].letter, i == 0 ? "allow " : "always allow ",
                             json_get_text(o, "covers"));
            }
        }
    }
    print_answer(t, 'd', "deny; a reason for the model may follow: d REASON", STR_NULL);
}

// The letter that a word means: 'y' allows this call only, 'n' denies.
static char letter_of(struct str word)
{
    char letter = word.n == 1 ? (char)(word.p[0] | 0x20) : '\0';
    return letter == 'y' || str_caseeqz(word, "yes")  ? 'a'
           : letter == 'n' || str_caseeqz(word, "no") ? 'd'
                                                      : letter;
}

// Only a clear yes allows; Ctrl-C and Ctrl-D deny.
static enum chat_line ask_decision(struct chat *t, struct decision *d, struct arena *a)
{
    print_offers(t);
    for (;;) {
        enum chat_line line = chat__ask(t, "allow? ");
        struct str text = str_trim(edit_text(&t->reply));
        if (line != CHAT_LINE) {
            *d = (struct decision){"deny", "once", "the user gave no answer"};
            return line;
        }
        char letter = letter_of(str_cut(&text, ' '));
        struct str reason = str_trim(text);
        const char *remember = remember_of(t, letter);
        if (letter == 'd') {
            *d = (struct decision){"deny", "once", reason.n != 0 ? arena_strdup(a, reason) : NULL};
            return line;
        }
        if (remember != NULL && reason.n == 0) {
            *d = (struct decision){"allow", remember, NULL};
            return line;
        }
        out_note(&t->c->out, "type one of the letters above and Enter");
    }
}

static int settle_permission(struct chat *t)
{
    struct decision d = {"deny", "once", "this call needs approval, and no terminal is attached"};
    enum chat_line line = CHAT_LINE;
    struct arena arena = {0};
    if (t->person) {
        print_call(t);
        line = ask_decision(t, &d, &arena);
    } else {
        struct str tool = json_get_text(json_get(t->asked, "call"), "tool_name");
        out_note(&t->c->out, "denied: " STR_FMT " needs approval, and no terminal is attached",
                 STR_ARG(tool));
    }
    int code = line == CHAT_GONE        ? EXIT_INTERRUPTED
               : line == CHAT_ELSEWHERE ? EXIT_OK
                                        : send_decision(t, &d);
    arena_fini(&arena);
    if (line == CHAT_INTERRUPTED) {
        chat__interrupt(t);
    }
    return code;
}

// ---- questions -----------------------------------------------------------------------------

static void print_question(struct chat *t)
{
    unsigned n = 0;
    view_settle(&t->view);
    out_tinted(&t->c->out, OUT_YELLOW, STR("? "));
    view_text(&t->c->out, json_get_text(t->asked, "question"));
    json_foreach_item (choice, json_get(t->asked, "choices")) {
        out_addf(&t->c->out, "  %u. ", ++n);
        view_text(&t->c->out, json_str(choice, ""));
    }
}

// The number of a choice stands for it; any other text is the answer as it is.
static struct str answer_of(const struct chat *t, struct str typed)
{
    const struct json *choices = json_get(t->asked, "choices");
    uint64_t n;
    if (str_to_u64(typed, &n) && n > 0 && json_at(choices, (size_t)n - 1) != NULL) {
        return json_str(json_at(choices, (size_t)n - 1), "");
    }
    return typed;
}

static int send_answer(struct chat *t, struct str answer)
{
    struct arena arena = {0};
    struct buf text = {.max = SIZE_MAX};
    const struct json *v;
    struct jw w = {.out = &text};
    jw_str(&w, answer);
    char *question = arena_strdup(&arena, json_get_text(t->asked, "question_id"));
    struct ask_param params[] = {
        {"id", t->id}, {"question_id", question}, {"answer", buf_z(&text)}};
    int code = ask_value(t->c, OP_SESSION_ANSWER, params, ARRAY_LEN(params), &arena, &v);
    arena_fini(&arena);
    buf_fini(&text);
    return code == EXIT_CONFLICT ? EXIT_OK : code;
}

static int settle_question(struct chat *t)
{
    if (!t->person) {
        out_note(&t->c->out, "a question was not answered: no terminal is attached");
        return send_answer(t, STR("no answer: no terminal is attached"));
    }
    print_question(t);
    enum chat_line line = chat__ask(t, "answer> ");
    if (line == CHAT_GONE || line == CHAT_ELSEWHERE) {
        return line == CHAT_GONE ? EXIT_INTERRUPTED : EXIT_OK;
    }
    int code = send_answer(t, line == CHAT_LINE ? answer_of(t, str_trim(edit_text(&t->reply)))
                                                : STR("the user gave no answer"));
    if (line == CHAT_INTERRUPTED) {
        chat__interrupt(t);
    }
    return code;
}

// --print: no user can decide, so the turn ends here.
static int refuse_asked(struct chat *t)
{
    const struct json *call = json_get(t->asked, "call");
    struct str tool = json_get_text(call, "tool_name"),
               question = json_get_text(t->asked, "question");
    struct buf input = {.max = SIZE_MAX};
    json_write(&input, json_get(call, "input"), 0);
    if (call != NULL) {
        out_error(&t->c->out,
                  "'" STR_FMT "' needs approval: %s; allow it with --permission, or with a rule "
                  "([[permission]] in config.toml)",
                  STR_ARG(tool), buf_z(&input));
    } else {
        out_error(&t->c->out, "the model asks '" STR_FMT "', and --print answers no questions",
                  STR_ARG(question));
    }
    buf_fini(&input);
    chat__interrupt(t);
    return EXIT_NOT_ALLOWED;
}

// Does the session still wait for it? A client that attaches later also reads questions that were answered. If the hub
// does not answer, we assume that it waits.
static bool is_open(struct chat *t, const char *key)
{
    struct arena a = {0};
    const struct json *row =
        ask_quietly(t->c, OP_SESSION_SHOW, &(struct ask_param){"id", t->id}, 1, 0, &a);
    const struct json *pending = json_get(row, "pending");
    bool open = json_at(pending, 0) == NULL &&
                (pending == NULL || str_eqz(json_get_text(row, "state"), "waiting"));
    json_foreach_item (it, pending) {
        open = open || str_eq(json_get_text(it, key), json_get_text(t->asked, key));
    }
    arena_fini(&a);
    return open;
}

int chat__settle_asked(struct chat *t)
{
    assert(t->asked != NULL);
    bool permission = json_get(t->asked, "request_id") != NULL;
    if (!is_open(t, permission ? "request_id" : "question_id")) {
        t->asked = NULL;
        return EXIT_OK;
    }
    chat__notify(t, "waiting for your answer");
    int code = t->prints ? refuse_asked(t) : permission ? settle_permission(t) : settle_question(t);
    t->asked = NULL;
    return code;
}
