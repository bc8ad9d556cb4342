// Calls of an agent's tools.
//
//     tool_call, tool_call_update ──> what is known of the call ──┬─ the agent asks: ENGINE_ASKS, then the answer
//     session/request_permission ─────────────────────────────────┤
//                                                                 └─ it runs without a question: ENGINE_RAN
//
// An agent may say that a call is pending, or even in progress, before it asks. So a call is told when it is asked about,
// or when something more than its beginning is heard. Our name for it goes by its kind: what reads, changes a file or runs
// a command is judged by the rules for `read_file`, `edit_file` and `shell`; anything else is a tool `agent`.

#include <assert.h>

#include "agent/make.h"
#include "base/linediff.h"
#include "base/path.h"
#include "engine/acp_int.h"

enum { CALLS_MAX = 1000, TEXT_MAX = 256 * 1024, DIFF_MAX = 64 * 1024 };

/// What a kind of call is to us. `about`: the member of the input that says what it does.
static const struct kind {
    const char *kind, *tool, *about;
    enum tool_effect effect;
} kinds[] = {
    {"execute", "shell", "cmd", TOOL_RUNS},      {"read", "read_file", "path", TOOL_READS},
    {"edit", "edit_file", "path", TOOL_WRITES},  {"search", "search_files", "pattern", TOOL_READS},
    {"fetch", "web_fetch", "url", TOOL_REACHES}, {"think", "agent", "title", TOOL_READS},
    {"delete", "agent", "title", TOOL_WRITES},   {"move", "agent", "title", TOOL_WRITES},
    {"other", "agent", "title", TOOL_RUNS},
};

static const struct kind *kind_of(const struct acp_call *c)
{
    for (size_t i = 0; i + 1 < ARRAY_LEN(kinds); i++) {
        if (c->kind != NULL && strcmp(c->kind, kinds[i].kind) == 0) {
            return &kinds[i];
        }
    }
    return &kinds[ARRAY_LEN(kinds) - 1];
}

static void call_free(struct acp_call *c)
{
    char *texts[] = {c->id, c->ours, c->title, c->kind, c->path, c->allow, c->reject};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(texts[i]);
    }
    buf_fini(&c->text);
    buf_fini(&c->diff);
    arena_fini(&c->arena);
    free(c);
}

void acp__forget_calls(struct acp_thread *t)
{
    acp__cancel_questions(t);
    vec_fini_each(&t->calls, call_free);
}

static void drop(struct acp_thread *t, struct acp_call *c)
{
    vec_drop(&t->calls, c);
    call_free(c);
}

static struct acp_call *find(const struct acp_thread *t, struct str id)
{
    vec_foreach (it, &t->calls) {
        if (str_eqz(id, (*it)->id)) {
            return *it;
        }
    }
    return NULL;
}

static struct acp_call *find_or_new(struct acp_thread *t, struct str id)
{
    struct acp_call *c = find(t, id);
    if (c == NULL && id.n != 0 && t->calls.n < CALLS_MAX) {
        c = xcalloc(1, sizeof *c);
        c->id = str_dup(id);
        c->ours = xasprintf("call-%u", ++t->n_calls);
        buf_init(&c->text, TEXT_MAX);
        buf_init(&c->diff, DIFF_MAX);
        vec_push(&t->calls, c);
    }
    return c;
}

// ---- what is known ------------------------------------------------------------------------------

static void set_text(char **place, const struct json *v)
{
    struct str text = json_str(v, "");
    if (text.n != 0) {
        free(*place);
        *place = str_dup(text);
    }
}

/// Text and diffs of the content, which replace what was there.
static void take_content(struct acp_call *c, const struct json *content)
{
    buf_clear(&c->text);
    buf_clear(&c->diff);
    json_foreach_item (it, content) {
        struct str type = json_get_text(it, "type");
        if (str_eqz(type, "diff")) {
            set_text(&c->path, json_get(it, "path"));
            linediff_write(&c->diff, str_of(c->path != NULL ? c->path : ""),
                           json_get_text(it, "oldText"), json_get_text(it, "newText"));
        } else if (str_eqz(type, "content")) {
            struct str text = json_str(json_ptr(it, "/content/text"), "");
            buf_addf(&c->text, "%s" STR_FMT, c->text.n != 0 ? "\n" : "", STR_ARG(text));
        }
    }
}

static void take_fields(struct acp_call *c, const struct json *v)
{
    const struct json *input = json_get(v, "rawInput"), *content = json_get(v, "content");
    set_text(&c->title, json_get(v, "title"));
    set_text(&c->kind, json_get(v, "kind"));
    set_text(&c->path, json_ptr(v, "/locations/0/path"));
    if (input != NULL && input->type == JSON_OBJ) {
        c->input = json_clone(&c->arena, input);
    }
    if (content != NULL && content->type == JSON_ARR) {
        take_content(c, content);
    }
}

/// A command as one line, whether the agent has it as a text or as words.
static void add_command(struct buf *out, const struct acp_call *c)
{
    const struct json *cmd = json_get(c->input, "command");
    cmd = cmd != NULL ? cmd : json_get(c->input, "cmd");
    bool shell = cmd != NULL && cmd->type == JSON_ARR && cmd->n == 3 &&
                 str_starts(json_str(&cmd->items[1], ""), "-") &&
                 str_ends(json_str(&cmd->items[1], ""), "c");
    if (shell) { // bash -lc "..."
        buf_adds(out, json_str(&cmd->items[2], ""));
    } else if (cmd != NULL && cmd->type == JSON_STR) {
        buf_adds(out, cmd->s);
    } else if (cmd != NULL && cmd->type == JSON_ARR) {
        json_foreach_item (it, cmd) {
            buf_addf(out, "%s" STR_FMT, out->n != 0 ? " " : "", STR_ARG(json_str(it, "")));
        }
    } else {
        buf_addz(out, c->title != NULL ? c->title : "");
    }
}

static const struct json *make_input(const struct acp_thread *t, struct acp_call *c,
                                     const struct kind *k)
{
    struct json *v = make_obj(&c->arena, 2);
    const struct json *given = json_get(c->input, k->about);
    struct buf text = {.max = TEXT_MAX};
    if (strcmp(k->tool, "shell") == 0) {
        add_command(&text, c);
    } else if (strcmp(k->about, "path") == 0 && c->path != NULL) {
        const char *below = path_below(t->base.cwd, c->path); // as our own tools are called
        buf_addz(&text, below != NULL && below[0] != '\0' ? below : c->path);
    } else if (given != NULL && given->type == JSON_STR) {
        buf_adds(&text, given->s);
    } else {
        buf_addz(&text, c->title != NULL ? c->title : c->id);
    }
    make_put(v, k->about, make_str(arena_str(&c->arena, buf_str(&text))));
    buf_fini(&text);
    if (strcmp(k->tool, "agent") == 0 && c->input != NULL) {
        make_put(v, "input", *c->input);
    }
    return v;
}

static void tell(struct acp_thread *t, struct acp_call *c, enum engine_runner runner)
{
    const struct kind *k = kind_of(c);
    assert(!c->told);
    acp__flush(t);
    c->told = true;
    struct engine_call call = {.id = str_of(c->ours),
                               .tool = str_of(k->tool),
                               .input = make_input(t, c, k),
                               .runner = runner,
                               .effect = k->effect,
                               .diff = buf_str(&c->diff)};
    t->base.cb->on_call(t->base.arg, &call);
}

// ---- updates ------------------------------------------------------------------------------------

/// The output of a call that is over; `rawOutput` where it shows nothing.
static void finish(struct acp_thread *t, struct acp_call *c, const struct json *update, bool good)
{
    const struct json *raw = json_get(update, "rawOutput");
    struct buf out = {.max = SIZE_MAX};
    buf_adds(&out, buf_str(&c->text));
    if (out.n == 0 && raw != NULL && raw->type == JSON_STR) {
        buf_adds(&out, raw->s);
    } else if (out.n == 0 && raw != NULL && raw->type != JSON_NULL) {
        json_write(&out, raw, 0);
    }
    t->base.cb->on_result(t->base.arg, str_of(c->ours), buf_str(&out),
                          good ? STR("") : STR("it failed"), buf_str(&c->diff));
    buf_fini(&out);
    drop(t, c);
}

void acp__call_update(struct acp_thread *t, const struct json *update, bool begins)
{
    struct acp_call *c = find_or_new(t, json_get_text(update, "toolCallId"));
    struct str status = json_get_text(update, "status");
    bool good = str_eqz(status, "completed"), over = good || str_eqz(status, "failed");
    if (c == NULL) {
        return;
    }
    if (c->refused) {
        if (over) {
            drop(t, c);
        }
        return;
    }
    size_t before = c->text.n;
    take_fields(c, update);
    bool runs = str_eqz(status, "in_progress") && !begins;
    if (!c->told && c->ask == NULL && (over || runs)) {
        tell(t, c, ENGINE_RAN);
    }
    if (t->base.cb == NULL || find(t, json_get_text(update, "toolCallId")) != c) {
        return; // the turn was ended over it
    }
    if (c->told && over) {
        finish(t, c, update, good);
    } else if (c->told && c->text.n > before) {
        t->base.cb->on_progress(t->base.arg, str_of(c->ours), str_from(buf_str(&c->text), before));
    }
}

void acp__plan(struct acp_thread *t, const struct json *update)
{
    struct arena a = {0};
    const struct json *entries = json_get(update, "entries");
    struct json *input = make_obj(&a, 1);
    struct json *items = make_arr(&a, entries != NULL ? entries->n : 0);
    json_foreach_item (it, entries) {
        struct str status = json_get_text(it, "status");
        struct json *item = make_obj(&a, 2);
        make_put(item, "text", make_str(json_get_text(it, "content")));
        make_put(item, "state",
                 make_strz(str_eqz(status, "completed")     ? "done"
                           : str_eqz(status, "in_progress") ? "active"
                                                            : "pending"));
        make_push(items, *item);
    }
    make_put(input, "items", *items);
    char id[32];
    snprintf(id, sizeof id, "plan-%u", ++t->n_calls);
    acp__flush(t);
    if (t->base.cb != NULL) {
        t->n_ours++;
        t->base.cb->on_call(t->base.arg, &(struct engine_call){.id = str_of(id),
                                                               .tool = STR("todo"),
                                                               .input = input,
                                                               .runner = ENGINE_OURS});
    }
    arena_fini(&a);
}

// ---- questions ----------------------------------------------------------------------------------

static void answer(struct acp_thread *t, struct acp_call *c, const char *option)
{
    assert(c->ask != NULL);
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kobj(&w, "outcome");
    jw_kstrz(&w, "outcome", option != NULL ? "selected" : "cancelled");
    if (option != NULL) {
        jw_kstrz(&w, "optionId", option);
    }
    jw_end_obj(&w);
    jw_end_obj(&w);
    acp__reply(t, c->ask, buf_z(&text));
    c->ask = NULL;
    buf_fini(&text);
}

void acp__cancel_questions(struct acp_thread *t)
{
    vec_foreach (it, &t->calls) {
        if ((*it)->ask != NULL) {
            answer(t, *it, NULL);
        }
    }
}

/// The options that stand for "yes" and "no", this once.
static void take_options(struct acp_call *c, const struct json *options)
{
    static const char *const yes[] = {"allow_once", "allow_always"};
    static const char *const no[] = {"reject_once", "reject_always"};
    free(c->allow);
    free(c->reject);
    c->allow = c->reject = NULL;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        json_foreach_item (it, options) {
            struct str kind = json_get_text(it, "kind");
            if (c->allow == NULL && str_eqz(kind, yes[i])) {
                set_text(&c->allow, json_get(it, "optionId"));
            }
            if (c->reject == NULL && str_eqz(kind, no[i])) {
                set_text(&c->reject, json_get(it, "optionId"));
            }
        }
    }
}

void acp__permission(struct acp_thread *t, const struct json *id, const struct json *params)
{
    static const char cancelled[] = "{\"outcome\":{\"outcome\":\"cancelled\"}}";
    const struct json *call = json_get(params, "toolCall");
    struct acp_call *c = NULL;
    if (t->in_turn && !t->stopping) {
        c = find_or_new(t, json_get_text(call, "toolCallId"));
    }
    if (c == NULL || c->ask != NULL) { // no turn runs, or the question is open already
        acp__reply(t, id, cancelled);
        return;
    }
    if (c->told) { // one more question about the same call is a call of its own
        free(c->ours);
        c->ours = xasprintf("call-%u", ++t->n_calls);
        c->told = c->refused = false;
    }
    take_fields(c, call);
    take_options(c, json_get(params, "options"));
    c->ask = json_clone(&c->arena, id);
    tell(t, c, ENGINE_ASKS);
}

void acp__decide(struct acp_thread *t, struct str ours, bool allow)
{
    vec_foreach (it, &t->calls) {
        struct acp_call *c = *it;
        if (str_eqz(ours, c->ours) && c->ask != NULL) {
            answer(t, c, allow ? c->allow : c->reject);
            c->refused = !allow;
            return;
        }
    }
}
