#pragma once

#include "base/json.h"
#include "loop/loop.h"
#include "loop/work.h"
#include "sandbox/box.h"
#include "trust/guard.h"

// Tools: what a model can call. One `struct tool` describes a built-in tool, a tool of bots and, in a step's
// toolbox, a tool of a plugin; every call goes through the pipeline of tool_call.c. docs/internals/tools.md
// says how to add one. Call all functions on the loop thread.

enum { TOOL_OUTPUT_MAX = 32 * 1024, TOOL_DIFF_MAX = 64 * 1024 };

/// What a call may do; the permission mode decides by it.
enum tool_effect { TOOL_READS, TOOL_WRITES, TOOL_RUNS, TOOL_REACHES };

struct session;
struct tool_call; // one call in the pipeline
struct tool_job;  // the work of a built-in tool on a lane and as a process

/// The work of a job, on the lane: fill in its `text` or `command`. The model reads the error.
typedef int tool_work(struct tool_job *j, struct err *e);

/// How a tool runs. Constant.
struct tool_ops {
    /// Start the call. tool_call_finish() follows once, from inside or later.
    void (*start)(struct tool_call *c);
    /// Stop the call, which may not have started. True: it is over. False: tool_call_finish() still follows. NULL:
    /// there is nothing to stop, see tool_call_ticket().
    bool (*cancel)(struct tool_call *c);
    tool_work *work;    // of tools that run as jobs (tool_call_job.c); else NULL
    bool needs_session; // cannot be called through POST /tool
    unsigned weight;    // without `work`: how many jobs it counts as, see tool_call.c
};

/// A tool. Constant.
struct tool {
    const char *name, *description;
    const char *schema; // JSON Schema of the input, as text
    enum tool_effect effect;
    const struct tool_ops *ops;
};

/// The i-th tool of tools.def; NULL after the last.
const struct tool *tool_at(size_t i);
/// The tool of tools.def with that name; NULL: there is none.
const struct tool *tool_find(struct str name);

// ---- for the code of a tool ---------------------------------------------------------------------

/// The input, which fits the schema. Borrowed until the call is finished.
const struct json *tool_call_input(const struct tool_call *c);
/// The session of the call; NULL: it was made without one.
struct session *tool_call_session(const struct tool_call *c);
/// `data` of the toolbox entry: agent_kit.arg for tools of bots.
void *tool_call_data(const struct tool_call *c);
/// Give the result, once. `error` NULL: it succeeded. Both are copied; `c` may be freed.
void tool_call_finish(struct tool_call *c, struct str output, const char *error);

/// A ticket for work that cannot be stopped: the call may be cancelled and freed first. Holds the agent.
struct tool_ticket *tool_call_ticket(struct tool_call *c);
/// tool_call_finish() if the call still waits; frees the ticket.
void tool_ticket_finish(struct tool_ticket *t, struct str output, const char *error);

// ---- jobs: built-in tools that read and write files or run a program -----------------------------
//
// on_done follows exactly once, from the loop's deferred queue; a failure is a result that the model can read.
// Nothing blocks the loop: files are read and written on `lane`, commands are processes in the box. An output
// over TOOL_OUTPUT_MAX is stored in OUTPUTS_DIR/CALL_ID.txt; the result has its head and tail, and between them a
// line that says how much is left out and where all of it is. The memory of a job does not depend on the length
// of its output.

/// The surroundings of a job. Everything but loop and lane is borrowed for tool_job_start() only.
struct tool_env {
    struct loop *loop;
    struct lane *lane;               // for files; closed after all jobs are done
    const struct box_policy *policy; // working_dir is where relative paths begin
    struct trust_outside outside;    // what a box guards, see agent_guard()
    uint64_t memory, processes;      // limits of a command in its box; 0: none
    const char *const *environment;  // "NAME=value" for commands, see tool_environment()
    const char *outputs_dir;         // absolute; created when first needed
    const char *call_id;             // names the file of a long output; any text from a model
    uint64_t timeout_ms;             // for a command that sets none; 0: two minutes
    bool preview;                    // write nothing: the result's `diff` tells what would change
    bool consented;                  // the user agreed to a change of what runs outside of the box
    bool from_editor, to_editor;     // files are read and written through on_editor
};

/// Borrowed for the call of on_done.
struct tool_result {
    struct str output; // UTF-8; invalid bytes are replaced
    bool success;
    /// NULL exactly when `success`: "exit 2", "signal 9", "timed out after 5 s", "SANDBOX_UNAVAILABLE: why".
    const char *error;
    struct str diff; // what a file tool changed, as a unified diff; empty: nothing, or not text
    bool guarded;    // the file runs outside of the box: it changes only if the user agrees
};

struct tool_cb {
    /// New output of a command, as it comes, in UTF-8; may be NULL.
    void (*on_progress)(struct tool_job *c, struct str text, void *arg);
    /// The job is over, and freed when this returns.
    void (*on_done)(struct tool_job *c, const struct tool_result *r, void *arg);
    /// Have the editor read the file at the real `path`, or write `text` (`p` not NULL) to it; the box allows it.
    /// The answer is tool_job_edited(). NULL without from_editor and to_editor.
    void (*on_editor)(struct tool_job *c, const char *path, struct str text, void *arg);
};

/// Start a job of `tool`, which has `work`. `input` is copied and checked against the schema; one that does not fit is
/// a failed result.
struct tool_job *tool_job_start(const struct tool_env *env, const struct tool *tool,
                                const struct json *input, const struct tool_cb *cb, void *arg);

/// How on_editor ended.
enum tool_edited {
    TOOL_EDITOR_DONE,    // `text` is the editor's text of the file
    TOOL_EDITOR_REFUSED, // `text` says why
    TOOL_EDITOR_GONE,    // there is no editor: use the file on disk
};
/// Answer on_editor, once, also from inside.
void tool_job_edited(struct tool_job *c, enum tool_edited how, struct str text);

/// End it early: all processes of a command end (TERM, KILL two seconds later; the second time, KILL at once). on_done
/// still follows, with the error "interrupted" unless it was over already.
void tool_job_cancel(struct tool_job *c);

/// Copy a policy; its paths are in `a`. The caller drops its `grants` with grants_unref().
struct box_policy tool_copy_policy(struct arena *a, const struct box_policy *p);

/// Does a name match one of the patterns of `[tool_env] drop` (NULL at the end, or NULL)? Case is ignored.
bool tool_drops(struct str name, const char *const *drop);
/// The client's environment without the variables that tool_drops(). Lists end with NULL; the strings are shared, the
/// list is in the arena.
const char *const *tool_environment(const char *const *client, const char *const *drop,
                                    struct arena *a);
