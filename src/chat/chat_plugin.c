// `/plugin NAME WHAT`: the model writes a plugin, the hub checks it, the person decides.
//
//     ask ──> answer with a block of Lua ──> validate ──┬─ good ──> shown what it registers ──> save?
//      ^                                                └─ bad ──┐
//      └──────────────── what is wrong with it ──────────────────┘  at most TRIES times
//
// Validating has no effect (the hub records what the code would register, in a process of its own), and
// nothing is written before the person has said yes.

#include "chat/chat_int.h"

enum { TRIES = 3 };

static const char guide[] =
    "Write a plugin for Afloat in Lua, named '%.*s'. What it has to do: %.*s\n\n"
    "Answer with the whole file in one ```lua block. What a plugin can use:\n"
    "- plugin { api = \"1.0\", name = \"NAME\", description = \"...\" } comes first\n"
    "- tool { name =, description =, input = { x = \"string\", n = \"integer?\" }, run = "
    "function(ctx, "
    "input) return text end }\n"
    "- command { name =, description =, run = function(args, ctx) return text end }\n"
    "- route(\"GET\", \"/path/:id\", function(req) return { id = req.params.id } end)\n"
    "- prompt(\"text for the model's instructions\")\n"
    "- hooks; returning nil keeps what was given: on_user_message(function(ctx, text) return text "
    "end), "
    "on_tool_call(function(ctx, call) return call end), on_resolve_tool({ tool = \"shell\" }, "
    "function(ctx, call) return { output =, success = } end), on_tool_result(function(ctx, call, "
    "result) "
    "return result end), on_final(function(ctx, text) return text end), on_done(function(ctx) "
    "end)\n"
    "- modules: json, log, timer, store, fs, exec, http\n";

static bool is_name(struct str s)
{
    bool fits = s.n >= 1 && s.n <= 64 && s.p[0] >= 'a' && s.p[0] <= 'z';
    for (size_t i = 0; i < s.n && fits; i++) {
        char c = s.p[i];
        fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }
    return fits;
}

// The first block of Lua (or of no language) in an answer; STR_NULL when there is none.
static struct str find_code(struct str answer)
{
    while (answer.n != 0) {
        struct str line = str_trim(str_cut(&answer, '\n'));
        if (!str_eqz(line, "```lua") && !str_eqz(line, "```")) {
            continue;
        }
        for (struct str rest = answer; rest.n != 0;) {
            size_t at = answer.n - rest.n;
            if (str_eqz(str_trim(str_cut(&rest, '\n')), "```")) {
                return (struct str){answer.p, at};
            }
        }
    }
    return STR_NULL;
}

/// Say what the code would register: "it loads: hooks on_final, on_done; commands roll".
static void note_contributions(struct chat *t, const struct json *v)
{
    static const char *const kinds[] = {"hooks", "tools", "routes", "commands"};
    struct buf text = {.max = SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = 0;
        json_foreach_item (name, json_get(v, kinds[i])) {
            if (n++ == 0) {
                buf_addf(&text, "%s%s ", text.n != 0 ? "; " : "", kinds[i]);
            } else {
                buf_addz(&text, ", ");
            }
            buf_adds(&text, json_str(name, "?"));
        }
    }
    out_note(&t->c->out, "it loads: %s", text.n != 0 ? buf_z(&text) : "it registers nothing");
    buf_fini(&text);
}

// True when the code is good; else `why` says what is wrong. A hub that does not answer is `*code`.
static bool validate(struct chat *t, const char *name, const char *content, struct buf *why,
                     int *code)
{
    struct client_answer a;
    struct arena arena = {0};
    struct buf path = {.max = 4096}, body = {.max = CHAT_TEXT_MAX};
    struct err e = {0};
    struct ask_param params[] = {{"name", name}, {"content", content}};
    client_answer_init(&a);
    int rc = ask_build(OP_PLUGIN_VALIDATE, params, ARRAY_LEN(params), &path, &body, &e);
    struct client_request r = {.method = "POST",
                               .path = buf_z(&path),
                               .body = buf_str(&body),
                               .timeout_ms = ask_limit_ms(OP_PLUGIN_VALIDATE)};
    *code = rc < 0 ? cli__fail(t->c, &e) : ask_request(t->c, &r, &a);
    const struct json *v = *code == EXIT_OK ? ask_json(t->c, &arena, &a) : NULL;
    buf_clear(why);
    buf_adds(why, json_str(json_get(v, a.status == 200 ? "name" : "detail"), "no answer"));
    bool good = v != NULL && a.status == 200;
    if (good) {
        note_contributions(t, v);
    }
    buf_fini(&path);
    buf_fini(&body);
    arena_fini(&arena);
    client_answer_fini(&a);
    return good;
}

static void offer(struct chat *t, const char *name, const char *content)
{
    struct arena arena = {0};
    const struct json *v;
    struct ask_param params[] = {{"name", name}, {"content", content}};
    enum chat_line line =
        chat__ask(t, "save it, so that it runs in the hub with your permissions? [y/N] ");
    struct str answer = str_trim(edit_text(&t->reply));
    if (line != CHAT_LINE || answer.n == 0 || (answer.p[0] | 0x20) != 'y') {
        out_note(&t->c->out, "not saved");
        return;
    }
    if (ask_value(t->c, OP_PLUGIN_SAVE, params, ARRAY_LEN(params), &arena, &v) == EXIT_OK) {
        struct str path = json_get_text(v, "path");
        out_note(&t->c->out, "saved as " STR_FMT, STR_ARG(path));
    }
    arena_fini(&arena);
}

// One try: say `text`, look at the answer. True when there is nothing more to try.
static bool try_once(struct chat *t, const char *name, struct buf *text)
{
    int code = chat__say(t, buf_str(text));
    struct str found = find_code(buf_str(&t->view.final));
    if (code != EXIT_OK) {
        return true;
    }
    if (found.n == 0) {
        buf_clear(text);
        buf_addz(text, "There is no ```lua block in the answer. Send the whole file in one.");
        out_note(&t->c->out, "the answer has no code in it");
        return false;
    }
    struct buf why = {.max = SIZE_MAX};
    char *content = str_dup(found);
    bool good = validate(t, name, content, &why, &code);
    if (good) {
        offer(t, name, content);
    } else if (code == EXIT_OK) {
        out_note(&t->c->out, "it does not load: " STR_FMT, STR_ARG(buf_str(&why)));
        buf_clear(text);
        buf_addf(text, "It does not load: " STR_FMT "\n\nSend the whole corrected file.",
                 STR_ARG(buf_str(&why)));
    }
    buf_fini(&why);
    free(content);
    return good || code != EXIT_OK;
}

void chat__write_plugin(struct chat *t, struct str arg)
{
    struct str what = arg;
    struct str name = str_cut(&what, ' ');
    what = str_trim(what);
    if (!is_name(name) || what.n == 0) {
        out_error(&t->c->out,
                  "say '/plugin NAME WHAT IT DOES'; a name is lower case letters, digits, "
                  "'-' and '_'");
        return;
    }
    struct buf text = {.max = CHAT_TEXT_MAX};
    char *z = str_dup(name);
    bool ended = false;
    buf_addf(&text, guide, STR_ARG(name), STR_ARG(what));
    for (int i = 0; i < TRIES && !ended; i++) {
        ended = try_once(t, z, &text);
    }
    if (!ended) {
        out_error(&t->c->out, "the model wrote no plugin that loads in %d tries", TRIES);
    }
    buf_fini(&text);
    free(z);
}
