// What happens in a turn of Codex, in our words.
//
//     item/started fileChange ──> remembered ──requestApproval──> on_call for each file ──> accept, decline
//     item/started commandExecution ────────────requestApproval──> on_call "shell" ───────> accept, decline
//     item/tool/call ──> on_call of a tool of ours ──> the answer
//     item/completed ──> on_result, on_message
//
// A broken stream begins the message anew under another id, and steering leaves one without an end: the pieces of a
// message that another one follows are void.

#include <assert.h>

#include "agent/make.h"
#include "base/path.h"
#include "engine/codex_int.h"
#include "permit/cmdline.h"

enum { ITEM_ID_MAX = 150 };

// ---- calls --------------------------------------------------------------------------------------

static struct codex_call *find_call(const struct codex *c, struct str item)
{
    for (size_t i = 0; i < c->calls.n; i++) {
        if (str_eqz(item, c->calls.p[i]->item)) {
            return c->calls.p[i];
        }
    }
    return NULL;
}

static struct codex_call *add_call(struct codex *c, struct str item)
{
    struct codex_call *call = xcalloc(1, sizeof *call);
    call->item = str_dup(item);
    call->request = -1;
    vec_push(&c->calls, call);
    return call;
}

static void call_free(struct codex_call *call)
{
    free(call->item);
    arena_fini(&call->arena);
    free(call);
}

void codex__forget_calls(struct codex *c)
{
    vec_fini_each(&c->calls, call_free);
}

static void answer(struct codex *c, int64_t request, bool accept)
{
    struct engine_line m;
    jw_kstrz(codex__begin_answer(&m, request), "decision", accept ? "accept" : "decline");
    codex__send(c, &m);
}

void codex__decide(struct codex *c, struct str id, bool allow)
{
    struct str rest = id, item = str_cut(&rest, '#'); // ITEM#2: the second file of a change
    struct codex_call *call = find_call(c, id);
    call = call != NULL ? call : find_call(c, item);
    if (call != NULL && call->waiting != 0) {
        call->waiting--;
        call->refused = call->refused || !allow;
        if (call->request >= 0 && call->waiting == 0) {
            answer(c, call->request, !call->refused);
            call->request = -1;
        }
    }
}

// ---- commands -----------------------------------------------------------------------------------

/// Codex shows a command as a shell gets it: "/bin/bash -lc 'git status'". Ours is what the shell is told.
static struct str unwrap(struct arena *a, struct str line)
{
    struct cmdline parsed;
    cmdline_parse(&parsed, a, line);
    const struct cmd_simple *s = parsed.n_simples != 0 ? &parsed.simples[0] : NULL;
    bool wraps = s != NULL && s->n_words == 3 && s->n_assigns == 0 && cmd_is_shell(cmd_name(s)) &&
                 (str_eqz(s->words[1].text, "-lc") || str_eqz(s->words[1].text, "-c")) &&
                 !s->words[2].dynamic && parsed.n_writes == 0;
    return wraps ? s->words[2].text : line;
}

static void tell_command(struct codex *c, struct str id, const struct json *of,
                         enum engine_runner runner)
{
    struct str cwd = json_get_text(of, "cwd");
    struct json_member members[2] = {
        {STR("cmd"), make_str(unwrap(&c->line, json_get_text(of, "command")))},
        {STR("cwd"), make_str(cwd)}};
    bool elsewhere = cwd.n != 0 && !str_eqz(cwd, c->base.cwd);
    struct json input = {.type = JSON_OBJ, .n = elsewhere ? 2 : 1, .members = members};
    struct engine_call call = {.id = id,
                               .tool = STR("shell"),
                               .input = &input,
                               .runner = runner,
                               .effect = TOOL_RUNS,
                               .diff = STR("")};
    c->base.cb->on_call(c->base.arg, &call);
}

// ---- changes of files ---------------------------------------------------------------------------

/// The id of our call for a file; of the only one it is the item's.
static struct str file_id(struct codex *c, const struct codex_call *call, size_t i)
{
    return call->changes->n == 1 ? str_of(call->item)
                                 : str_of(arena_printf(&c->line, "%s#%zu", call->item, i + 1));
}

static void tell_file(struct codex *c, const struct codex_call *call, size_t i,
                      enum engine_runner runner)
{
    const struct json *change = &call->changes->items[i];
    struct str path = json_get_text(change, "path");
    bool adds = str_eqz(json_str(json_ptr(change, "/kind/type"), ""), "add");
    const char *below = path_below(c->base.cwd, arena_strdup(&c->line, path));
    struct json_member members[1] = {
        {STR("path"), make_str(below != NULL && below[0] != '\0' ? str_of(below) : path)}};
    struct json input = {.type = JSON_OBJ, .n = 1, .members = members};
    struct engine_call q = {.id = file_id(c, call, i),
                            .tool = adds ? STR("write_file") : STR("edit_file"),
                            .input = &input,
                            .runner = runner,
                            .effect = TOOL_WRITES,
                            .diff = json_get_text(change, "diff")};
    c->base.cb->on_call(c->base.arg, &q);
}

static void tell_files(struct codex *c, struct codex_call *call, enum engine_runner runner)
{
    size_t n = call->changes->n;
    call->told = true;
    for (size_t i = 0; i < n && c->in_turn; i++) {
        tell_file(c, call, i, runner);
    }
}

// ---- questions ----------------------------------------------------------------------------------

static void ask_command(struct codex *c, int64_t id, const struct json *params)
{
    struct str item = json_get_text(params, "itemId");
    struct str kind = json_str(json_get(params, "kind"), "command");
    struct codex_call *call = find_call(c, item);
    bool again = call != NULL && call->told;
    if (again || !str_eqz(kind, "command") || item.n == 0 || item.n > ITEM_ID_MAX) {
        answer(c, id, false); // what it wants beyond that is not ours to give
        return;
    }
    call = call != NULL ? call : add_call(c, item);
    call->request = id;
    call->told = true;
    call->waiting = 1;
    tell_command(c, item, params, ENGINE_ASKS);
}

static void ask_file(struct codex *c, int64_t id, const struct json *params)
{
    struct codex_call *call = find_call(c, json_get_text(params, "itemId"));
    if (call == NULL || call->changes == NULL || call->changes->n == 0 || call->told) {
        answer(c, id, false); // what it would change is unknown
        return;
    }
    call->request = id;
    call->waiting = call->changes->n;
    tell_files(c, call, ENGINE_ASKS);
}

static void call_tool(struct codex *c, int64_t id, const struct json *params)
{
    static const struct json nothing = {.type = JSON_OBJ};
    struct str item = json_get_text(params, "callId");
    const struct json *input = json_get(params, "arguments");
    if (item.n == 0 || item.n > ITEM_ID_MAX || find_call(c, item) != NULL) {
        struct engine_line m;
        codex__begin_answer(&m, id); // nothing
        codex__send(c, &m);
        return;
    }
    struct codex_call *call = add_call(c, item);
    call->request = id;
    call->told = true;
    struct engine_call q = {.id = item,
                            .tool = json_get_text(params, "tool"),
                            .input = input != NULL && input->type == JSON_OBJ ? input : &nothing,
                            .runner = ENGINE_OURS,
                            .diff = STR("")};
    c->base.cb->on_call(c->base.arg, &q);
}

static const struct {
    const char *method;
    void (*take)(struct codex *c, int64_t id, const struct json *params);
} questions[] = {{"item/commandExecution/requestApproval", ask_command},
                 {"item/fileChange/requestApproval", ask_file},
                 {"item/tool/call", call_tool}};

void codex__questioned(struct codex *c, int64_t id, struct str method, const struct json *params)
{
    for (size_t i = 0; i < ARRAY_LEN(questions) && c->base.cb != NULL && c->in_turn; i++) {
        if (str_eqz(method, questions[i].method)) {
            questions[i].take(c, id, params);
            return;
        }
    }
    answer(c, id, false);
}

// ---- items --------------------------------------------------------------------------------------

/// The pieces of a message that another one follows are void.
static void begin_message(struct codex *c, struct str id)
{
    if (c->message != NULL && str_eqz(id, c->message)) {
        return;
    }
    bool was_open = c->message_open;
    free(c->message);
    c->message = str_dup(id);
    c->message_open = false;
    if (was_open) {
        c->base.cb->on_void(c->base.arg, str_of(c->error));
    }
}

static void started(struct codex *c, const struct json *params)
{
    const struct json *item = json_get(params, "item");
    struct str type = json_get_text(item, "type"), id = json_get_text(item, "id");
    if (str_eqz(type, "agentMessage")) {
        begin_message(c, id);
    } else if (str_eqz(type, "fileChange") && find_call(c, id) == NULL && id.n <= ITEM_ID_MAX) {
        struct codex_call *call = add_call(c, id);
        const struct json *changes = json_get(item, "changes");
        bool listed = changes != NULL && changes->type == JSON_ARR;
        call->changes = listed ? json_clone(&call->arena, changes) : NULL;
    }
}

static void command_over(struct codex *c, const struct json *item, struct str id)
{
    struct codex_call *call = find_call(c, id);
    struct str output = json_get_text(item, "aggregatedOutput");
    struct str status = json_get_text(item, "status");
    const struct json *code = json_get(item, "exitCode");
    struct str error = STR("");
    if (code != NULL && json_int(code, 0) != 0) {
        error = str_of(arena_printf(&c->line, "exit %lld", (long long)json_int(code, 0)));
    } else if (!str_eqz(status, "completed")) {
        error = status.n != 0 ? status : STR("failed");
    }
    if (call == NULL || !call->told) {
        if (str_eqz(status, "declined")) {
            return;
        }
        tell_command(c, id, item, ENGINE_RAN);
    }
    if (c->in_turn) {
        c->base.cb->on_result(c->base.arg, id, output, error, STR(""));
    }
}

static void files_over(struct codex *c, const struct json *item, struct str id)
{
    struct codex_call *call = find_call(c, id);
    struct str status = json_get_text(item, "status");
    bool done = str_eqz(status, "completed");
    if (call == NULL || call->changes == NULL || (!call->told && !done)) {
        return;
    }
    if (!call->told) {
        tell_files(c, call, ENGINE_RAN);
    }
    for (size_t i = 0; i < call->changes->n && c->in_turn; i++) {
        struct str diff = json_get_text(&call->changes->items[i], "diff");
        c->base.cb->on_result(c->base.arg, file_id(c, call, i), done ? STR("changed") : STR(""),
                              done ? STR("") : status, done ? diff : STR(""));
    }
}

static void completed(struct codex *c, const struct json *params)
{
    const struct json *item = json_get(params, "item");
    struct str type = json_get_text(item, "type"), id = json_get_text(item, "id");
    if (str_eqz(type, "agentMessage")) {
        begin_message(c, id);
        c->message_open = false;
        c->base.cb->on_message(c->base.arg, json_get_text(item, "text"));
    } else if (str_eqz(type, "commandExecution")) {
        command_over(c, item, id);
    } else if (str_eqz(type, "fileChange")) {
        files_over(c, item, id);
    }
}

// ---- the rest -----------------------------------------------------------------------------------

static void text_delta(struct codex *c, const struct json *params)
{
    struct provider_delta d = {.text = json_get_text(params, "delta"), .reasoning = STR("")};
    begin_message(c, json_get_text(params, "itemId"));
    if (d.text.n != 0) {
        c->message_open = true;
        c->base.cb->on_delta(c->base.arg, &d);
    }
}

static void reasoning_delta(struct codex *c, const struct json *params)
{
    struct provider_delta d = {.text = STR(""), .reasoning = json_get_text(params, "delta")};
    if (d.reasoning.n != 0) {
        c->base.cb->on_delta(c->base.arg, &d);
    }
}

static void output_delta(struct codex *c, const struct json *params)
{
    c->base.cb->on_progress(c->base.arg, json_get_text(params, "itemId"),
                            json_get_text(params, "delta"));
}

/// One request to the model is over. The same numbers may come twice.
static void usage(struct codex *c, const struct json *params)
{
    const struct json *u = json_get(params, "tokenUsage"), *last = json_get(u, "last");
    int64_t total = json_int(json_ptr(u, "/total/totalTokens"), -1);
    if (last == NULL || total == c->tokens) {
        return;
    }
    c->tokens = total;
    struct provider_usage used = {.input = json_int(json_get(last, "inputTokens"), -1),
                                  .cached = json_int(json_get(last, "cachedInputTokens"), -1),
                                  .output = json_int(json_get(last, "outputTokens"), -1),
                                  .reasoning =
                                      json_int(json_get(last, "reasoningOutputTokens"), -1)};
    c->base.cb->on_usage(c->base.arg, &used, json_int(json_get(u, "modelContextWindow"), 0));
}

static void failed(struct codex *c, const struct json *params)
{
    struct str message = json_str(json_ptr(params, "/error/message"), "");
    snprintf(c->error, sizeof c->error, "%.*s", (int)MIN(message.n, sizeof c->error - 1),
             message.p);
    if (json_bool(json_get(params, "willRetry"), false)) {
        free(c->message);
        c->message = NULL;
        c->message_open = false;
        c->base.cb->on_void(c->base.arg, str_of(c->error));
        c->error[0] = '\0';
    }
}

static void turn_over(struct codex *c, const struct json *params)
{
    struct str status = json_str(json_ptr(params, "/turn/status"), "");
    struct str why = json_str(json_ptr(params, "/turn/error/message"), "");
    why = why.n != 0 ? why : str_of(c->error[0] != '\0' ? c->error : "Codex did not say why");
    if (str_eqz(status, "completed")) {
        codex__end(c, ENGINE_COMPLETED, STR(""));
    } else if (str_eqz(status, "interrupted")) {
        codex__end(c, ENGINE_INTERRUPTED, STR(""));
    } else {
        codex__end(c, ENGINE_FAILED, why);
    }
}

static const struct {
    const char *method;
    void (*take)(struct codex *c, const struct json *params);
} notices[] = {{"item/agentMessage/delta", text_delta},
               {"item/reasoning/summaryTextDelta", reasoning_delta},
               {"item/reasoning/textDelta", reasoning_delta},
               {"item/commandExecution/outputDelta", output_delta},
               {"item/started", started},
               {"item/completed", completed},
               {"thread/tokenUsage/updated", usage},
               {"error", failed},
               {"turn/completed", turn_over}};

void codex__notified(struct codex *c, struct str method, const struct json *params)
{
    for (size_t i = 0; i < ARRAY_LEN(notices) && c->base.cb != NULL && c->begun; i++) {
        if (str_eqz(method, notices[i].method)) {
            notices[i].take(c, params);
            return;
        }
    }
}
