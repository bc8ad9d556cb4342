// Calls that go through an editor.
//
// A session that an editor drives (editor/) works on files that may be open there and not saved. While the editor is
// connected, read_file, write_file and edit_file take the text from it and have it write:
//
//     job on the lane: where is the file, does the box allow it? ──> on_editor ──> the editor ──> tool_job_edited
//
// The box decides first, by the real path, because the editor runs with the user's permissions. A file that the editor
// does not have is read from the disk; one that it refuses to write is not written.
//
// A terminal of the editor has no sandbox. So a command runs there only in sessions with danger-full-access, where it
// would have none here either.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/tool_int.h"
#include "base/path.h"
#include "base/redact.h"

enum { TERMINAL_MS = 120 * 1000 };

void agent_set_editor(struct agent *a, struct str session, const struct agent_editor *editor)
{
    if (editor != NULL) {
        map_set(&a->editors, session, (void *)(uintptr_t)editor);
    } else {
        map_remove(&a->editors, session);
    }
}

const struct agent_editor *tool_call__editor(const struct tool_call *c)
{
    const struct session *s = tool_call__session(c->site);
    return s != NULL ? map_get(&s->agent->editors, str_of(agent__session_root(s)->id)) : NULL;
}

// ---- files --------------------------------------------------------------------------------------

static void on_edited(void *arg, const struct json *result, const char *why)
{
    struct tool_call *c = arg;
    struct tool_job *j = c->job;
    const struct json *content = json_get(result, "content");
    bool reads = c->editing == EDITING_READS, given = content != NULL && content->type == JSON_STR;
    assert(c->editing != EDITING_NOTHING && j != NULL);
    c->editing = EDITING_NOTHING;
    if (result != NULL && (!reads || given)) {
        tool_job_edited(j, TOOL_EDITOR_DONE, reads ? content->s : STR(""));
    } else if (result != NULL || why != NULL) {
        tool_job_edited(j, TOOL_EDITOR_REFUSED, str_of(why != NULL ? why : "it gave no text"));
    } else {
        tool_job_edited(j, TOOL_EDITOR_GONE, STR_NULL);
    }
}

void tool_call__ask_editor(struct tool_job *j, const char *path, struct str text, void *arg)
{
    struct tool_call *c = arg;
    const struct agent_editor *ed = tool_call__editor(c);
    struct buf params = {.max = SIZE_MAX};
    if (ed == NULL) {
        tool_job_edited(j, TOOL_EDITOR_GONE, STR_NULL);
        return;
    }
    c->editing = text.p != NULL ? EDITING_WRITES : EDITING_READS;
    struct jw w = {.out = &params};
    jw_obj(&w);
    jw_kstrz(&w, "path", path);
    if (text.p != NULL) {
        jw_kstr(&w, "content", text);
    }
    jw_end_obj(&w);
    ed->ask(ed->arg, text.p != NULL ? "write" : "read", buf_str(&params), on_edited, c);
    buf_fini(&params);
}

// ---- terminals ----------------------------------------------------------------------------------

static void on_ran(void *arg, const struct json *result, const char *why)
{
    struct tool_call *c = arg;
    struct arena *a = c->site->arena;
    int64_t status = json_int(json_get(result, "exit_code"), -1);
    struct str sign = json_get_text(result, "signal");
    struct buf shown = {.max = SIZE_MAX};
    const char *error = NULL;
    assert(c->editing == EDITING_RUNS);
    c->editing = EDITING_NOTHING;
    if (result == NULL) {
        error = arena_printf(a, "it did not run in the editor's terminal: %s",
                             why != NULL ? why : "the editor is gone");
    } else if (json_bool(json_get(result, "timed_out"), false)) {
        error = "timed out";
    } else if (sign.n != 0) {
        error = arena_printf(a, "signal " STR_FMT, STR_ARG(sign));
    } else if (status != 0) {
        error = arena_printf(a, "exit %lld", (long long)status);
    }
    if (json_bool(json_get(result, "truncated"), false)) {
        buf_addz(&shown, "[the beginning is left out]\n");
    }
    redact_text(&shown, json_get_text(result, "output"));
    tool_call_finish(c, buf_str(&shown), error);
    buf_fini(&shown);
}

bool tool_call__run_terminal(struct tool_call *c, const char *const *vars)
{
    const struct agent_editor *ed = tool_call__editor(c);
    const struct session *s = tool_call__session(c->site);
    const struct json *input = tool_call_input(c), *limit = json_get(input, "timeout_s");
    if (ed == NULL || !ed->terminals || c->entry->tool->ops != &tool_SHELL ||
        agent__session_root(s)->sandbox != BOX_FULL_ACCESS) {
        return false;
    }
    struct arena *a = c->site->arena;
    double seconds = json_double(limit != NULL ? limit : json_get(input, "timeout"), 0);
    char *dir = path_join(s->working_dir, arena_strdup(a, json_get_text(input, "cwd")));
    struct buf params = {.max = SIZE_MAX};
    struct jw w = {.out = &params};
    jw_obj(&w);
    jw_kstrz(&w, "turn", c->site->turn->id);
    jw_kstr(&w, "call_id", c->id);
    jw_kstr(&w, "cmd", json_get_text(input, "cmd"));
    jw_kstrz(&w, "cwd", dir);
    jw_kint(&w, "timeout_ms", seconds > 0 ? (int64_t)(seconds * 1000) : TERMINAL_MS);
    jw_kint(&w, "limit", TOOL_OUTPUT_MAX);
    jw_karr(&w, "env");
    for (const char *const *it = agent__session_filter(s, vars, a); *it != NULL; it++) {
        struct str value = str_of(*it), name = str_cut(&value, '=');
        jw_obj(&w);
        jw_kstr(&w, "name", name);
        jw_kstr(&w, "value", value);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    c->editing = EDITING_RUNS;
    ed->ask(ed->arg, "terminal", buf_str(&params), on_ran, c);
    buf_fini(&params);
    free(dir);
    return true;
}

void tool_call__forget_editor(struct tool_call *c)
{
    const struct agent_editor *ed = tool_call__editor(c);
    enum call_editing what = c->editing;
    if (what == EDITING_NOTHING) {
        return;
    }
    assert(ed != NULL); // an editor that disconnects answers first
    c->editing = EDITING_NOTHING;
    ed->forget(ed->arg, c);
    if (what != EDITING_RUNS) { // a file: its job goes on without the editor, to its end
        tool_job_edited(c->job, TOOL_EDITOR_GONE, STR_NULL);
    }
}
