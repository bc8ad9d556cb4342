// Events of the hub as updates for the editor.
//
// Text and thoughts are passed on as they come; of the past only whole messages. A tool's call is shown with a title that says
// what it does, the file it is about, and what it changed as a diff. The model's steps are a plan.

#include "acp/acp_int.h"
#include "base/path.h"
#include "base/utf8.h"

enum { TITLE_MAX = 120, SHOWN_MAX = 64 << 10 };

static void write_text(struct jw *w, struct str text)
{
    jw_kobj(w, "content");
    jw_kstrz(w, "type", "text");
    jw_kstr(w, "text", text);
    jw_end_obj(w);
}

void acp__say(struct acp_session *s, const char *kind, struct str text)
{
    struct acp_message u;
    if (text.n != 0) {
        write_text(acp__update(&u, s->acp, s->id, kind), text);
        acp__update_end(&u);
    }
}

// ---- calls ----------------------------------------------------------------------------------------

static const struct {
    const char *tool, *kind, *title; // the member of the input that says what it is about
} tools[] = {
    {"shell", "execute", "cmd"},    {"read_file", "read", "path"},
    {"list_files", "read", "path"}, {"write_file", "edit", "path"},
    {"edit_file", "edit", "path"},  {"search_files", "search", "pattern"},
    {"web_fetch", "fetch", "url"},  {"skill", "read", "name"},
    {"task", "think", "prompt"},
};

// Ids of calls repeat from turn to turn; those of the editor may not.
void acp__write_call_id(struct jw *w, struct str turn, struct str id)
{
    jw_key(w, "toolCallId");
    jw_strf(w, STR_FMT ":" STR_FMT, STR_ARG(turn), STR_ARG(id));
}

static char *absolute(const struct acp_session *s, struct str path)
{
    char *given = str_dup(path);
    char *full = path_join(s->dir, given);
    free(given);
    return full;
}

void acp__write_call(const struct acp_session *s, struct jw *w, struct str turn, struct str id,
                     struct str tool, const struct json *input)
{
    const char *kind = "other";
    struct str about = STR_NULL, path = json_get_text(input, "path");
    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        if (str_eqz(tool, tools[i].tool)) {
            kind = tools[i].kind;
            about = json_get_text(input, tools[i].title);
        }
    }
    bool command = strcmp(kind, "execute") == 0;
    struct str line = about;
    line = str_cut(&line, '\n');
    line.n = utf8_cut(line.p, line.n, TITLE_MAX);
    acp__write_call_id(w, turn, id);
    jw_key(w, "title");
    jw_strf(w, STR_FMT "%s" STR_FMT, STR_ARG(command ? STR("") : tool),
            about.n != 0 && !command ? " " : "", STR_ARG(line));
    jw_kstrz(w, "kind", kind);
    jw_kvalue(w, "rawInput", input);
    if (path.n != 0 && memchr(path.p, '\0', path.n) == NULL) {
        char *full = absolute(s, path);
        jw_karr(w, "locations");
        jw_obj(w);
        jw_kstrz(w, "path", full);
        jw_end_obj(w);
        jw_end_arr(w);
        free(full);
    }
}

/// The parts that a unified diff shows, before and after. A file that was not there has no text before.
void acp__write_diff(const struct acp_session *s, struct jw *w, struct str path, struct str diff)
{
    struct buf before = {.max = SIZE_MAX}, after = {.max = SIZE_MAX};
    bool fresh = false;
    struct str rest = diff;
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        struct str body = str_from(line, 1);
        fresh = fresh || str_starts(line, "@@ -0,0 ");
        if (line.n == 0 || str_starts(line, "--- ") || str_starts(line, "+++ ") ||
            line.p[0] == '@' || line.p[0] == '\\') {
            continue;
        }
        if (line.p[0] != '+') {
            buf_addf(&before, STR_FMT "\n", STR_ARG(body));
        }
        if (line.p[0] != '-') {
            buf_addf(&after, STR_FMT "\n", STR_ARG(body));
        }
    }
    char *full = absolute(s, path);
    jw_obj(w);
    jw_kstrz(w, "type", "diff");
    jw_kstrz(w, "path", full);
    jw_key(w, "oldText");
    if (fresh) {
        jw_null(w);
    } else {
        jw_str(w, buf_str(&before));
    }
    jw_kstr(w, "newText", buf_str(&after));
    jw_end_obj(w);
    free(full);
    buf_fini(&before);
    buf_fini(&after);
}

static void tell_called(struct acp_session *s, const struct json *ev)
{
    struct acp_message u;
    struct jw *w = acp__update(&u, s->acp, s->id, "tool_call");
    acp__write_call(s, w, json_get_text(ev, "turn"), json_get_text(ev, "call_id"),
                    json_get_text(ev, "tool"), json_get(ev, "input"));
    jw_kstrz(w, "status", "in_progress");
    acp__update_end(&u);
}

static void write_shown(struct jw *w, struct str text)
{
    jw_obj(w);
    jw_kstrz(w, "type", "content");
    write_text(w, text);
    jw_end_obj(w);
}

void acp__progress_free(struct acp_progress *p)
{
    free(p->id);
    buf_fini(&p->text);
    free(p);
}

static struct acp_progress *progress_of(struct acp_session *s, struct str id)
{
    vec_foreach (it, &s->calls) {
        if (str_eqz(id, (*it)->id)) {
            return *it;
        }
    }
    struct acp_progress *p = xcalloc(1, sizeof *p);
    p->id = str_dup(id);
    buf_init(&p->text, SIZE_MAX);
    vec_push(&s->calls, p);
    return p;
}

static void tell_progress(struct acp_session *s, const struct json *ev)
{
    struct acp_progress *p = progress_of(s, json_get_text(ev, "call_id"));
    struct acp_message u;
    buf_adds(&p->text, json_get_text(ev, "text"));
    if (p->text.n > SHOWN_MAX) {
        buf_drop(&p->text, p->text.n - SHOWN_MAX);
    }
    struct jw *w = acp__update(&u, s->acp, s->id, "tool_call_update");
    acp__write_call_id(w, json_get_text(ev, "turn"), json_get_text(ev, "call_id"));
    jw_karr(w, "content");
    write_shown(w, buf_str(&p->text));
    jw_end_arr(w);
    acp__update_end(&u);
}

static void tell_completed(struct acp_session *s, const struct json *ev)
{
    struct str diff = json_get_text(ev, "diff"), output = json_get_text(ev, "output"),
               error = json_get_text(ev, "error");
    bool good = json_bool(json_get(ev, "success"), false);
    struct acp_message u;
    struct jw *w = acp__update(&u, s->acp, s->id, "tool_call_update");
    acp__write_call_id(w, json_get_text(ev, "turn"), json_get_text(ev, "call_id"));
    jw_kstrz(w, "status", good ? "completed" : "failed");
    jw_karr(w, "content");
    if (diff.n != 0) { // the names of the diff are relative to the working directory
        struct str rest = diff;
        struct str first = str_cut(&rest, '\n');
        acp__write_diff(s, w, str_starts(first, "--- a/") ? str_from(first, 6) : first, diff);
    } else if (output.n != 0) {
        write_shown(w, output);
    }
    if (!good && error.n != 0) {
        write_shown(w, error);
    }
    jw_end_arr(w);
    acp__update_end(&u);
}

// ---- the rest -------------------------------------------------------------------------------------

static void tell_plan(struct acp_session *s, const struct json *ev)
{
    struct acp_message u;
    struct jw *w = acp__update(&u, s->acp, s->id, "plan");
    jw_karr(w, "entries");
    json_foreach_item (it, json_get(ev, "items")) {
        struct str state = json_get_text(it, "state");
        jw_obj(w);
        jw_kstr(w, "content", json_get_text(it, "text"));
        jw_kstrz(w, "priority", "medium");
        jw_kstrz(w, "status",
                 str_eqz(state, "done")     ? "completed"
                 : str_eqz(state, "active") ? "in_progress"
                                            : "pending");
        jw_end_obj(w);
    }
    jw_end_arr(w);
    acp__update_end(&u);
}

/// A message that is complete: what was not streamed is told now.
static void tell_message(struct acp_session *s, const struct json *ev, bool past)
{
    bool user = str_eqz(json_get_text(ev, "role"), "user");
    if (past) {
        acp__say(s, user ? "user_message_chunk" : "agent_message_chunk", json_get_text(ev, "text"));
    } else if (!user && !s->spoken) {
        acp__say(s, "agent_message_chunk", json_get_text(ev, "text"));
    }
    s->spoken = false;
}

static void tell_changed(struct acp_session *s, const struct json *ev)
{
    struct str mode = json_get_text(ev, "permission"), title = json_get_text(ev, "title");
    struct acp_message u;
    if (mode.n != 0) {
        jw_kstr(acp__update(&u, s->acp, s->id, "current_mode_update"), "currentModeId", mode);
        acp__update_end(&u);
    }
    if (title.n != 0) {
        jw_kstr(acp__update(&u, s->acp, s->id, "session_info_update"), "title", title);
        acp__update_end(&u);
    }
}

/// How full the model's context is, where both numbers are known.
static void tell_usage(struct acp_session *s, const struct json *ev)
{
    int64_t used = json_int(json_ptr(ev, "/context/used"), -1);
    int64_t window = json_int(json_ptr(ev, "/context/window"), -1);
    const struct json *cost = json_ptr(ev, "/usage/cost_usd");
    struct acp_message u;
    if (used < 0 || window < 0) {
        return;
    }
    struct jw *w = acp__update(&u, s->acp, s->id, "usage_update");
    jw_kint(w, "used", used);
    jw_kint(w, "size", window);
    if (cost != NULL && cost->type != JSON_NULL) {
        jw_kobj(w, "cost");
        jw_kvalue(w, "amount", cost);
        jw_kstrz(w, "currency", "USD");
        jw_end_obj(w);
    }
    acp__update_end(&u);
}

void acp__tell(struct acp_session *s, struct str type, const struct json *ev, bool past)
{
    bool todo = str_eqz(json_get_text(ev, "tool"), "todo"); // shown as the plan
    if (str_eqz(type, "message.delta") && !past) {
        s->spoken = s->spoken || json_get_text(ev, "text").n != 0;
        acp__say(s, "agent_message_chunk", json_get_text(ev, "text"));
        acp__say(s, "agent_thought_chunk", json_get_text(ev, "reasoning"));
    } else if (str_eqz(type, "message.completed")) {
        tell_message(s, ev, past);
    } else if (str_eqz(type, "tool.called") && !todo) {
        tell_called(s, ev);
    } else if (str_eqz(type, "tool.progress") && !past) {
        tell_progress(s, ev);
    } else if (str_eqz(type, "tool.completed") && !todo) {
        tell_completed(s, ev);
    } else if (str_eqz(type, "todo.updated")) {
        tell_plan(s, ev);
    } else if (str_eqz(type, "usage.updated") && !past) {
        tell_usage(s, ev);
    } else if (str_eqz(type, "session.updated") && !past) {
        tell_changed(s, ev);
    }
}
