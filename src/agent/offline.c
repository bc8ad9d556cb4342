// The model that answers when no key is set: simple rules over what the user said last.
//
// A user who has just installed the program should see a real agent loop before having a key: tool
// calls with their permission questions, a file that changes, a plugin that is live in the next step.
// So this model understands a handful of requests, does each of them with real tools, and says each
// time that it is only the offline demo.
//
//     request ──> words of the last user message ──> first rule that fits ──> its step ──> scene
//
// A rule has one or more steps: a tool call, perhaps another, then a text about the result. The number
// of results since the user's message tells the step, so nothing is kept between two requests, and a
// retry, a fork or a resumed session needs no special care. A failed result ends the rule with the error.
//
// In a bot's run the user's words are the quoted lines under "## User Input", and the last text comes
// with session_complete, so that the run ends. Without these lines the user said nothing: a bot's
// instructions are for a model that understands them.

#include "agent/offline.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

#include "agent/compact.h"
#include "agent/make.h"
#include "agent/wire.h"
#include "base/utf8.h"

enum { QUOTES = 2, EXCERPT_LINES = 12, EXCERPT_BYTES = 1500, ASKED_BYTES = 200 };

struct offline {
    struct arena *arena;
    const struct json *tools;
    struct str said;          // the user's words
    struct str path;          // the first file name in them; empty: none
    struct str quote[QUOTES]; // the parts of them in quotes
    size_t n_quotes;
    size_t turns;      // messages of the user so far
    size_t steps;      // results since the last of them
    struct str result; // the last result
    bool failed;       // it is a failure
    struct str called; // the tool that gave it
    // the answer
    const char *text;
    const char *tool; // NULL: none
    struct json *input;
};

static const char notice[] =
    "\n\n(This is the offline demo: a scripted model that follows simple rules.)";

static const char abilities[] =
    "Things to try, each done with real tools:\n"
    "- `list the files`\n"
    "- `read README.md`\n"
    "- `search for \"TODO\"`\n"
    "- `write \"hello\" to notes.txt`\n"
    "- `replace \"hello\" with \"goodbye\" in notes.txt`\n"
    "- `run \"date\"`\n"
    "- `write a plugin`: it is live in the next step\n"
    "- `what is Afloat?`\n\n"
    "For a real model set OPENAI_API_KEY or ANTHROPIC_API_KEY, or run `afloat setup`.";

// ---- reading the request ------------------------------------------------------------------------

static struct str content_text(struct arena *a, const struct json *content)
{
    struct buf out = {.max = SIZE_MAX};
    wire_foreach_item(item, content)
    {
        if (wire_item_type(item) == WIRE_TEXT) {
            buf_adds(&out, wire_item_text(item));
        }
    }
    struct str text = arena_str(a, buf_str(&out));
    buf_fini(&out);
    return text;
}

static const char *find(struct str text, const char *wanted)
{
    return text.p != NULL ? memmem(text.p, text.n, wanted, strlen(wanted)) : NULL;
}

/// The user's words in a message: all of it, or what the prompt of a bot quotes, if it quotes anything.
static struct str user_words(struct arena *a, struct str message)
{
    static const char heading[] = "## User Input\n", status[] = "\n\n## Status\n- Project: ";
    const char *at = find(message, heading);
    if (at == NULL) {
        return find(message, status) != NULL ? STR_NULL : str_trim(message);
    }
    struct str rest = str_from(message, (size_t)(at - message.p) + strlen(heading));
    struct buf out = {.max = SIZE_MAX};
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        if (str_starts(line, ">")) {
            buf_adds(&out, str_trim(str_from(line, 1)));
            buf_addc(&out, '\n');
        } else if (out.n != 0) {
            break;
        }
    }
    struct str words = str_trim(arena_str(a, buf_str(&out)));
    buf_fini(&out);
    return words;
}

static void take_result(struct offline *o, const struct json *item)
{
    const struct json *output = json_get(item, "output");
    o->steps++;
    o->failed = !json_bool(json_get(item, "success"), true);
    if (output != NULL && output->type != JSON_STR) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, output, 0);
        o->result = arena_str(o->arena, buf_str(&text));
        buf_fini(&text);
    } else {
        o->result = json_str(output, "");
    }
}

static void read_messages(struct offline *o, const struct json *messages)
{
    json_foreach_item (m, messages) {
        if (wire_is_role(m, "user") && wire_has_item(m, WIRE_TEXT)) {
            o->said = user_words(o->arena, content_text(o->arena, json_get(m, "content")));
            o->turns++;
            o->steps = 0;
            o->called = STR_NULL;
        }
        wire_foreach_item(item, json_get(m, "content"))
        {
            if (wire_item_type(item) == WIRE_CALL) {
                o->called = json_get_text(item, "name");
            } else if (wire_item_type(item) == WIRE_RESULT) {
                take_result(o, item);
            }
        }
    }
}

/// The word as a file name, without punctuation at its end; empty: it has no dot and no slash.
static struct str as_path(struct str word)
{
    while (word.n != 0 && strchr("?!,;:.)", word.p[word.n - 1]) != NULL) {
        word.n--;
    }
    bool named = word.n > 1 && (str_index(word, '/') >= 0 || str_index(word, '.') >= 0);
    return named ? word : STR_NULL;
}

/// Find the quotes ("..." or `...`) and the first file name outside of them, else inside.
static void find_arguments(struct offline *o)
{
    struct str rest = o->said;
    while (rest.n != 0) {
        char c = rest.p[0];
        size_t n = 1;
        bool quoted = c == '"' || c == '`';
        while (n < rest.n && (quoted ? rest.p[n] != c : !isspace((unsigned char)rest.p[n]))) {
            n++;
        }
        if (quoted && n < rest.n && o->n_quotes < QUOTES) {
            o->quote[o->n_quotes++] = (struct str){rest.p + 1, n - 1};
        } else if (!quoted && o->path.n == 0) {
            o->path = as_path((struct str){rest.p, n});
        }
        rest = str_trim(str_from(rest, quoted ? n + 1 : n));
    }
    for (size_t i = 0; i < o->n_quotes && o->path.n == 0; i++) {
        o->path = str_index(o->quote[i], ' ') < 0 ? as_path(o->quote[i]) : STR_NULL;
    }
}

static bool has_word(struct str text, struct str wanted)
{
    for (size_t at = 0, n; at < text.n; at += n + 1) {
        for (n = 0; at + n < text.n && isalnum((unsigned char)text.p[at + n]);) {
            n++;
        }
        if (n == wanted.n && strncasecmp(text.p + at, wanted.p, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_one_of(struct str text, const char *words)
{
    struct str rest = str_of(words);
    while (rest.n != 0) {
        if (has_word(text, str_cut(&rest, ' '))) {
            return true;
        }
    }
    return false;
}

static bool is_offered(const struct offline *o, const char *tool)
{
    json_foreach_item (t, o->tools) {
        if (str_eqz(json_get_text(t, "name"), tool)) {
            return true;
        }
    }
    return false;
}

// ---- making the answer --------------------------------------------------------------------------

static void call(struct offline *o, const char *tool, const char *key, struct str value,
                 const char *text)
{
    o->text = text;
    o->tool = tool;
    o->input = make_obj(o->arena, 3);
    if (key != NULL) {
        make_put(o->input, key, make_str(value));
    }
}

/// The first lines of the last result, as a block of code.
static const char *excerpt(const struct offline *o)
{
    struct str rest = o->result;
    size_t lines = 0, shown = 0;
    if (str_trim(rest).n == 0) {
        return "(nothing)";
    }
    while (rest.n != 0 && lines < EXCERPT_LINES) {
        struct str line = str_cut(&rest, '\n');
        if (shown + line.n > EXCERPT_BYTES) {
            break;
        }
        shown = (size_t)(line.p + line.n - o->result.p);
        lines++;
    }
    return arena_printf(o->arena, "```\n%.*s\n```%s", (int)shown, o->result.p,
                        shown < str_trim(o->result).n ? "\n(and more)" : "");
}

// ---- the rules ----------------------------------------------------------------------------------

/// Call a tool, then show what it answered after `heading`.
static void call_and_show(struct offline *o, const char *tool, const char *key, struct str value,
                          const char *text, const char *heading)
{
    if (o->steps == 0) {
        call(o, tool, key, value, text);
    } else {
        o->text = arena_printf(o->arena, "%s\n%s", heading, excerpt(o));
    }
}

static void list_files(struct offline *o)
{
    call_and_show(o, "list_files", o->path.n != 0 ? "path" : NULL, o->path, "I will look.",
                  "These files are there:");
}

static void read_file(struct offline *o)
{
    call_and_show(o, "read_file", "path", o->path, "I will read it.",
                  arena_printf(o->arena, "This is how `" STR_FMT "` begins:", STR_ARG(o->path)));
}

static void search(struct offline *o)
{
    call_and_show(o, "search_files", "pattern", o->quote[0], "I will search.", "Found:");
}

static void run_command(struct offline *o)
{
    call_and_show(o, "shell", "cmd", o->quote[0], "I will run it in the sandbox.", "It printed:");
}

static void write_file(struct offline *o)
{
    if (o->steps == 0) {
        call(o, "write_file", "path", o->path, "I will write the file.");
        make_put(o->input, "content",
                 make_strz(arena_printf(o->arena, STR_FMT "\n", STR_ARG(o->quote[0]))));
    } else {
        o->text = arena_printf(
            o->arena, "`" STR_FMT "` is written. Ask me to read it, or look at it in your editor.",
            STR_ARG(o->path));
    }
}

static void replace(struct offline *o)
{
    if (o->steps == 0) {
        call(o, "edit_file", "path", o->path, "I will edit the file.");
        make_put(o->input, "old", make_str(arena_str(o->arena, o->quote[0])));
        make_put(o->input, "new", make_str(arena_str(o->arena, o->quote[1])));
    } else {
        o->text = arena_printf(o->arena, "`" STR_FMT "` is changed.", STR_ARG(o->path));
    }
}

static void write_plugin(struct offline *o)
{
    static const char content[] = "tool {\n"
                                  "  name = \"roll_dice\",\n"
                                  "  description = \"roll a die\",\n"
                                  "  input = { sides = \"integer?\" },\n"
                                  "  run = function(ctx, input)\n"
                                  "    return \"the die shows \" .. math.random(input.sides or 6)\n"
                                  "  end,\n"
                                  "}\n";
    if (o->steps == 0) {
        call(o, "plugin_save", "name", STR("dice"),
             "I will write a plugin that gives me a new tool, `roll_dice`.");
        make_put(o->input, "content", make_strz(content));
    } else if (o->steps == 1) {
        call(o, "roll_dice", NULL, STR_NULL,
             "The plugin is live: one step later I have the tool. I will use it.");
    } else {
        o->text = arena_printf(
            o->arena,
            STR_FMT
            ".\n\nThat tool did not exist when you asked. It is a Lua file that I saved, and it "
            "is active in this session only. `afloat plugin enable improvements/dice` keeps it "
            "for all sessions; `afloat plugin` lists it. Edit the file and save: the next call "
            "runs the new version.",
            STR_ARG(o->result));
    }
}

/// The part of `text` from after `before` to `after`; empty: it has none.
static struct str between(struct str text, const char *before, char after)
{
    const char *at = find(text, before);
    struct str rest =
        at != NULL ? str_from(text, (size_t)(at - text.p) + strlen(before)) : STR_NULL;
    return str_cut(&rest, after);
}

/// What `/plugin NAME WHAT` of the chat asks for: the file itself, as an answer.
static void send_plugin(struct offline *o)
{
    struct str name = between(o->said, "named '", '\'');
    struct json what = make_str(between(o->said, "What it has to do: ", '\n'));
    struct buf purpose = {.max = SIZE_MAX};
    json_write(&purpose, &what, 0); // Lua reads it as a text, too
    o->text = arena_printf(
        o->arena,
        "I cannot program: a real model would write what you ask for. This plugin puts a "
        "line under each answer, so that you see it work.\n\n"
        "```lua\n"
        "local purpose = %s\n"
        "plugin { api = \"1.0\", name = \"" STR_FMT "\", description = purpose }\n\n"
        "-- Every answer passes here. Change the text and save: the next answer has it.\n"
        "on_final(function(ctx, text)\n"
        "  return text .. \"\\n\\n" STR_FMT ": \" .. purpose\n"
        "end)\n"
        "```",
        buf_z(&purpose), STR_ARG(name), STR_ARG(name));
    buf_fini(&purpose);
}

static void explain(struct offline *o)
{
    o->text = arena_printf(
        o->arena,
        "Afloat is a workbench for AI agents in which everything around a running agent changes "
        "while "
        "it runs: plugins, hooks, tools, prompts and shell environments. A saved file is live in "
        "milliseconds, and a broken save changes nothing.\n\n%s",
        abilities);
}

static void meet(struct offline *o)
{
    if (o->turns > 1) {
        o->text = arena_printf(o->arena, "I follow simple rules and have none for that.\n\n%s",
                               abilities);
    } else if (o->steps == 0) {
        call(o, "list_files", NULL, STR_NULL,
             "I am the scripted demo model: I follow simple rules and understand little. Let me "
             "look "
             "around to show you a tool call.");
    } else {
        o->text = arena_printf(o->arena, "These are the files of the working directory:\n%s\n\n%s",
                               excerpt(o), abilities);
    }
}

/// The first row that fits is used: the user's message has one of `words`, a file name if `path`, as
/// many quotes as `quotes`, and `phrase` as it stands.
static const struct offline_rule {
    const char *words;
    bool path;
    size_t quotes;
    const char *tool; // must be offered; NULL: none
    void (*step)(struct offline *o);
    const char *phrase; // NULL: none
} rules[] = {
    {"plugin", false, 0, NULL, send_plugin, "in one ```lua block"},
    {"plugin", false, 0, "plugin_save", write_plugin, NULL},
    {"replace change edit", true, 2, "edit_file", replace, NULL},
    {"write create save make put add", true, 1, "write_file", write_file, NULL},
    {"run execute", false, 1, "shell", run_command, NULL},
    {"search find grep where", false, 1, "search_files", search, NULL},
    {"read show open cat print explain see what", true, 0, "read_file", read_file, NULL},
    {"list ls files directory folder", false, 0, "list_files", list_files, NULL},
    {"afloat help you who", false, 0, NULL, explain, NULL},
};

/// Used when no row fits.
static const struct offline_rule meeting = {NULL, false, 0, "list_files", meet, NULL};

static const struct offline_rule *choose(const struct offline *o)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const struct offline_rule *r = &rules[i];
        bool fits = has_one_of(o->said, r->words) && o->n_quotes >= r->quotes &&
                    (!r->path || o->path.n != 0);
        if (fits && (r->phrase == NULL || find(o->said, r->phrase) != NULL)) {
            return r;
        }
    }
    return &meeting;
}

/// The scene: the text and the call. Without a call it is the last answer, which gets the notice.
static struct json *write_scene(struct offline *o)
{
    struct json *scene = make_obj(o->arena, 2);
    if (o->tool == NULL) {
        o->text = arena_printf(o->arena, "%s%s", o->text, notice);
        if (is_offered(o, "session_complete") && !str_eqz(o->called, "session_complete")) {
            call(o, "session_complete", "action", STR("review"), o->text);
            make_put(o->input, "summary",
                     make_strz("the offline demo answered; no model was asked"));
        }
    }
    make_put(scene, "text", make_strz(o->text));
    if (o->tool != NULL) {
        struct json *named = make_obj(o->arena, 2), *calls = make_arr(o->arena, 1);
        make_put(named, "name", make_strz(o->tool));
        make_put(named, "input", *o->input);
        make_push(calls, *named);
        make_put(scene, "tool_calls", *calls);
    }
    return scene;
}

/// What the user asked for, the first line of each message: the messages follow the task as "role: text", each with an
/// empty line after it.
static void summarise(struct offline *o)
{
    struct buf out = {.max = SIZE_MAX};
    struct str rest = o->said;
    buf_addz(&out, "So far the user asked for this:");
    for (bool first = true; rest.n != 0;) {
        struct str line = str_cut(&rest, '\n');
        if (first && str_starts(line, "user: ")) {
            line = str_from(line, strlen("user: "));
            buf_addf(&out, "\n- %.*s", (int)utf8_cut(line.p, line.n, ASKED_BYTES), line.p);
        }
        first = line.n == 0;
    }
    o->text = arena_strdup(o->arena, buf_str(&out));
    buf_fini(&out);
}

struct json *offline_scene(struct arena *a, const struct json *request)
{
    struct offline o = {.arena = a, .tools = json_get(request, "tools")};
    read_messages(&o, json_get(request, "messages"));
    find_arguments(&o);
    const struct offline_rule *rule = choose(&o);
    if (str_starts(o.said, COMPACT_TASK)) {
        summarise(&o);
    } else if (str_eqz(o.called, "session_complete")) {
        o.text = "The run is complete.";
    } else if (o.steps != 0 && o.failed) {
        o.text = arena_printf(a, "That did not work. The tool `" STR_FMT "` answered:\n%s",
                              STR_ARG(o.called), excerpt(&o));
    } else if (o.steps == 0 && rule->tool != NULL && !is_offered(&o, rule->tool)) {
        o.text = arena_printf(
            a, "For that I need the tool `%s`, which this session does not offer.\n\n%s",
            rule->tool, abilities);
    } else {
        rule->step(&o);
    }
    assert(o.text != NULL);
    return write_scene(&o);
}
