#pragma once

#include <stdatomic.h>

#include "agent/tool.h"
#include "agent/tool_output.h"
#include "base/arena.h"
#include "loop/proc.h"
#include "loop/timer.h"

// A job under way. While its work runs on the lane nothing else uses the job. A tool that runs a program fills in
// `command`, and the program is started when the lane is done.

struct tool_command {
    const char *const *argv; // NULL: the tool runs no program
    const char *cwd;
    int nothing; // the exit status that means success without output; 0: there is none
};

struct tool_job {
    const struct tool *tool;
    struct tool_cb cb;
    void *arg;
    struct arena arena; // of everything below that is a pointer
    const struct json *input;
    struct tool_env env; // a copy: all of it is in the arena
    struct box_policy policy;
    bool guarded;          // it would change a file that runs outside of the sandbox
    mode_t umask;          // the client's
    atomic_bool cancelled; // read on the lane
    // with an editor that may have unsaved files
    bool asked;          // the editor was asked for the text of the file
    struct str unsaved;  // the text that it gave; `p` NULL: none
    const char *wanted;  // the real path to ask the editor for; NULL: none
    struct str to_write; // the text that it is to write there; `p` NULL: it is to read
    // made on the lane
    struct box *box;
    struct tool_command command;
    struct buf text; // the output of a tool that runs no program
    struct buf diff; // what it writes
    struct err why;  // code 0: fine
    // of a program
    struct proc *proc;
    struct timer timer;
    struct tool_output *output;
    struct buf cut;              // the first bytes of a character whose rest was not read yet
    bool timed_out, interrupted; // why we ended it
    struct proc_exit exit;
};

#define TOOL(id, ...) extern const struct tool_ops tool_##id;
#include "agent/tools.def"
#undef TOOL

/// `start` and `cancel` of tools whose work is a job. For one that is a command, `start` waits for the environment of
/// the project first. tool_call_job.c.
void tool__start_job(struct tool_call *c);
bool tool__cancel_job(struct tool_call *c);

/// A copy of `s` in lower case (ASCII). The caller frees it.
char *tool__lower(struct str s);
/// Give the result and free the job.
void tool__finish(struct tool_job *c, const struct tool_result *r);

/// The file for the output of a call, in the arena. The id comes from a model: all but plain characters of it are
/// replaced.
char *tool__output_path(struct arena *a, const char *dir, struct str id);
/// Start the program of `command`; tool__finish() follows, also when it cannot be started.
void tool__spawn(struct tool_job *c);
void tool__stop(struct tool_job *c); // TERM now, KILL two seconds later

// ---- paths of a job, on the lane: tool_path.c ---------------------------------------------------

enum { TOOL_FILE_MAX = 16 << 20 }; // what read_file, write_file and edit_file work on

/// Turn a path that the model gave into an absolute one, in the arena. Relative paths start at the working directory;
/// /tmp is that of the session.
int tool__path(struct tool_job *c, struct str path, char **out, struct err *e) MUST_CHECK;

/// Open a file or directory for reading, if the box allows it; `path` is from tool__path(). With `dir` it
/// must be a directory, else a regular file. Returns a descriptor; `*real` (may be NULL) is its real path, in
/// the arena.
int tool__open(struct tool_job *c, const char *path, bool dir, char **real,
               struct err *e) MUST_CHECK;

/// Append a text file to `out`, with the editor's unsaved text if there is an editor. ERR_TOO_LARGE past the maximum of
/// `out`, ERR_INVALID for what is not UTF-8 text, UV_EAGAIN when the editor has to be asked first (`wanted` is set; the
/// work is started again with its answer).
int tool__read_file(struct tool_job *c, const char *path, struct buf *out,
                    struct err *e) MUST_CHECK;

/// Replace or create a file in one step, if the box allows it. An existing file keeps its mode; missing
/// directories are created. The difference goes to `diff`; a preview does no more than that. UV_EAGAIN as in
/// tool__read_file().
int tool__write(struct tool_job *c, const char *path, struct str text, struct err *e) MUST_CHECK;
