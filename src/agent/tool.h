#pragma once

#include "base/json.h"
#include "loop/loop.h"
#include "loop/work.h"
#include "sandbox/box.h"

// Tools: what a model can call. One `struct tool` describes a built-in tool, a tool of bots and, in a step's
// toolbox, a tool of a plugin; every call goes through the pipeline of tool_call.c. docs/internals/tools.md
// says how to add one. All functions belong to the loop thread.

enum { TOOL_OUTPUT_MAX = 32 * 1024, TOOL_DIFF_MAX = 64 * 1024 };

/// What a call may do: the permission mode decides by it.
enum tool_effect { TOOL_READS, TOOL_WRITES, TOOL_RUNS, TOOL_REACHES };

struct session;
struct tool_call; // one call in the pipeline
struct tool_job;  // the work of a built-in tool on a lane and as a process

/// On the lane. Fills in the job's `text` or `command`; a failure is `e`, for the model to read.
typedef int tool_work(struct tool_job *j, struct err *e);

/// How a tool runs. Constant.
struct tool_ops {
    /// Start the call. tool_call_finish() follows once, from inside or later.
    void (*start)(struct tool_call *c);
    /// Stop the call. True: nothing of it comes any more. False: tool_call_finish() still comes. Called
    /// for calls that have not started too. NULL: there is nothing to stop, see tool_call_ticket().
    bool (*cancel)(struct tool_call *c);
    tool_work *work;    // of tools that start with tool_call_job.c; else NULL
    bool needs_session; // cannot run through POST /tool
    unsigned weight; // of a tool without `work` that is work all the same, see tool_call.c; else 0
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

/// The input; it fits the schema. Borrowed until the call is finished.
const struct json *tool_call_input(const struct tool_call *c);
/// Whose call it is; NULL: it was made without a session.
struct session *tool_call_session(const struct tool_call *c);
/// `data` of the toolbox entry: agent_kit.arg for tools of bots.
void *tool_call_data(const struct tool_call *c);
/// The result, once. `error` NULL: it succeeded. Both are copied; `c` may be gone after this.
void tool_call_finish(struct tool_call *c, struct str output, const char *error);

/// For work that cannot be stopped: it keeps a ticket, and the call may go first. Holds the agent.
struct tool_ticket *tool_call_ticket(struct tool_call *c);
/// tool_call_finish() if the call still waits. Frees the ticket.
void tool_ticket_finish(struct tool_ticket *t, struct str output, const char *error);

// ---- jobs: built-in tools that read and write files or run a program -----------------------------
//
// on_done follows exactly once, from the loop's deferred queue; whatever goes wrong is a result that the
// model can read. Nothing blocks the loop: files are read and written on `lane`, commands are processes in
// the box. Output over TOOL_OUTPUT_MAX goes whole into OUTPUTS_DIR/CALL_ID.txt and comes back as its head
// and tail with a line between them that says how much is left out and where all of it is. The memory of a
// job does not depend on the length of its output.

/// Where a job takes place. Everything but loop and lane is borrowed for tool_job_start() only.
struct tool_env {
    struct loop *loop;
    struct lane *lane;               // for files; closed after all jobs are done
    const struct box_policy *policy; // working_dir is where relative paths begin
    const char *const *plugins;      // paths that the hub loads plugins from, see agent_guard()
    const char *const *followed;     // places that are trusted whatever they hold
    uint64_t memory, processes;      // that a command may take in its box; 0: no limit
    const char *const *environment;  // "NAME=value" for commands, see tool_environment()
    const char *outputs_dir;         // absolute; made when first needed
    const char *call_id;             // any text from a model: names the file of a big output
    uint64_t timeout_ms;             // of a command that names none; 0: two minutes
    bool preview;                    // write nothing: the result's `diff` says what would change
    bool consented;              // the user agreed to this change of what runs outside of the box
    bool from_editor, to_editor; // files are read and written through on_editor
};

/// Borrowed for the call of on_done.
struct tool_result {
    struct str output; // UTF-8; what was not is replaced
    bool success;
    const char *error;   // NULL exactly when `success`: "exit 2", "signal 9", "timed out after 5 s"
    const char *problem; // NULL, or a code of CONTRACT 4: "SANDBOX_UNAVAILABLE"
    uint64_t left_out;   // bytes of the output that are only in the file
    struct str diff;     // what a file tool changed, as a unified diff; empty: nothing, or no text
    bool guarded;        // that runs outside of the box: nothing is changed until the user agrees
};

struct tool_cb {
    /// New output of a command, as it comes, UTF-8 as far as it is text; may be NULL.
    void (*on_progress)(struct tool_job *c, struct str text, void *arg);
    /// The call is over and freed when this returns.
    void (*on_done)(struct tool_job *c, const struct tool_result *r, void *arg);
    /// Have the editor read the file at the real `path`, or write `text` (`p` not NULL) to it; the box allows it.
    /// tool_job_edited() follows. NULL without from_editor and to_editor.
    void (*on_editor)(struct tool_job *c, const char *path, struct str text, void *arg);
};

/// Start a job of `tool`, which has `work`. `input` is checked against the schema first and copied; one that
/// does not fit is a failed result.
struct tool_job *tool_job_start(const struct tool_env *env, const struct tool *tool,
                                const struct json *input, const struct tool_cb *cb, void *arg);

/// What became of on_editor.
enum tool_edited {
    TOOL_EDITOR_DONE,    // `text` is what it has of the file
    TOOL_EDITOR_REFUSED, // `text` says why
    TOOL_EDITOR_GONE,    // there is none: the file on disk counts
};
/// The answer to on_editor, once, also from inside.
void tool_job_edited(struct tool_job *c, enum tool_edited how, struct str text);

/// End it early: a command's processes all end (TERM, two seconds later KILL; asked twice, KILL at once).
/// on_done still comes, with error "interrupted" unless it was over already.
void tool_job_cancel(struct tool_job *c);

/// The box of a command: `policy` with all that runs outside of the box as its guard, found anew each time, since a file
/// may have been named since the last. `plugins` and `followed` as in struct tool_env. Blocks: for a lane.
int tool_make_box(struct box **out, struct box_policy *policy, const char *const *plugins,
                  const char *const *followed, struct err *e) MUST_CHECK;

/// A list that ends with NULL, and its texts, copied into `a`; NULL is an empty list.
const char *const *tool_copy_list(struct arena *a, const char *const *list);
/// A policy whose paths are in `a`. The caller drops its `grants` with grants_unref().
struct box_policy tool_copy_policy(struct arena *a, const struct box_policy *p);

/// Does a name match one of the patterns of `[tool_env] drop` (NULL at the end, or NULL)? Case does not
/// count.
bool tool_drops(struct str name, const char *const *drop);
/// The umask for files that tools make: AFLOAT_UMASK of the client's environment, else proc_umask().
mode_t tool_umask(const char *const *environment);
/// The environment for tools from the client's: without the variables whose names match one of the
/// patterns, as tool_drops() says. Lists end with NULL; strings are shared,
/// the list is in the arena.
const char *const *tool_environment(const char *const *client, const char *const *drop,
                                    struct arena *a);
