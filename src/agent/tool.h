#pragma once

#include "base/json.h"
#include "loop/loop.h"
#include "loop/work.h"
#include "sandbox/box.h"

// The tools that are built in: shell, and files in and about the working directory.
//
//     rc = tool_call_start(&call, &env, STR("shell"), input, &callbacks, arg, &e);
//
// on_done follows exactly once, from the loop's deferred queue, never from inside a call of ours;
// whatever goes wrong is a result that the model can read. Nothing blocks the loop: files are read
// and written on `lane`, commands are processes in the session's box. All functions belong to the
// loop thread.
//
// Output over TOOL_OUTPUT_MAX goes whole into OUTPUTS_DIR/CALL_ID.txt and comes back as its head and
// tail with a line between them that says how much is left out and where all of it is. The memory
// of a call does not depend on the length of its output.

enum { TOOL_OUTPUT_MAX = 32 * 1024, TOOL_DIFF_MAX = 64 * 1024 };

/// What a call of it may do, for `permission = "ask"`.
enum tool_effect { TOOL_READS, TOOL_WRITES, TOOL_RUNS };

/// One built-in tool. Constant.
struct tool_info {
    const char *name, *description;
    const char *schema; // JSON Schema of the input, as text
    enum tool_effect effect;
};

/// The n-th tool of tools.def; NULL behind the last. For lists; order is that of the table.
const struct tool_info *tool_at(size_t i);
const struct tool_info *tool_find(struct str name); // NULL: not one of these

/// Where a call takes place. Everything is borrowed for the call of tool_call_start() only, but for
/// loop and lane.
struct tool_env {
    struct loop *loop;
    struct lane *lane;               // for files; closed after all calls are done
    const struct box_policy *policy; // working_dir is where relative paths begin
    const char *const *plugins;      // paths that the hub loads plugins from, see agent_guard()
    const char *const *followed;     // places that are trusted whatever they hold
    uint64_t memory, processes;      // that a command may take in its box; 0: no limit
    const char *const *environment;  // "NAME=value" for commands, see tool_environment()
    const char *outputs_dir;         // absolute; made when first needed
    const char *call_id;             // any text from a model: names the file of a big output
    uint64_t timeout_ms;             // of a command that names none; 0: two minutes
    bool preview;                    // write nothing: the result's `diff` says what would change
    bool consented; // the user agreed to this change of what runs outside of the box
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

struct tool_call;

struct tool_cb {
    /// New output of a command, as it comes, UTF-8 as far as it is text; may be NULL.
    void (*on_progress)(struct tool_call *c, struct str text, void *arg);
    /// The call is over and freed when this returns.
    void (*on_done)(struct tool_call *c, const struct tool_result *r, void *arg);
};

/// Start a call. `input` is checked against the schema first and copied; one that does not fit is a
/// failed result. ERR_NOT_FOUND when `name` is none of these: no callback follows then.
int tool_call_start(struct tool_call **out, const struct tool_env *env, struct str name,
                    const struct json *input, const struct tool_cb *cb, void *arg,
                    struct err *e) MUST_CHECK;

/// End it early: a command's processes all end (TERM, two seconds later KILL; asked twice, KILL at once).
/// on_done still comes, with error "interrupted" unless it was over already.
void tool_call_cancel(struct tool_call *c);

/// Does a name match one of the patterns of `[tool_env] drop` (NULL at the end, or NULL)? Case does not
/// count.
bool tool_drops(struct str name, const char *const *drop);
/// The umask for files that tools make: AFLOAT_UMASK of the client's environment, else proc_umask().
mode_t tool_umask(const char *const *environment);
/// The environment for tools from the client's: without the variables whose names match one of the
/// patterns, as tool_drops() says. Lists end with NULL; strings are shared,
/// the list lies in the arena.
const char *const *tool_environment(const char *const *client, const char *const *drop,
                                    struct arena *a);
