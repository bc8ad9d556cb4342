#pragma once

#include <stdatomic.h>

#include "agent/tool.h"
#include "agent/tool_output.h"
#include "base/arena.h"
#include "loop/proc.h"
#include "loop/timer.h"

// A job under way. Its work runs on the lane and has the job to itself; a tool that starts a program says so
// by filling in `command`, and the program is started when the lane is done.

struct tool_command {
    const char *const *argv; // NULL: there is none, the result stands
    const char *cwd;
    int nothing; // the exit status that means "fine, but nothing to show"; 0: none does
};

struct tool_job {
    const struct tool *tool;
    struct loop *loop;
    struct lane *lane;
    struct tool_cb cb;
    void *arg;
    struct arena arena; // of everything below that is a pointer
    const struct json *input;
    struct box_policy policy;
    const char *const *plugins, *const *followed;
    uint64_t memory, processes;
    bool consented, guarded; // `guarded`: it was about to change what runs outside of the box
    const char *const *environment;
    mode_t umask; // the client's
    const char *outputs_dir, *call_id;
    uint64_t timeout_ms;
    bool preview;
    atomic_bool cancelled; // read on the lane
    // an editor that has files of its own
    bool from_editor, to_editor;
    bool asked;          // for the text of the file
    struct str unsaved;  // the text that it gave; `p` NULL: none
    const char *wanted;  // the real path that it is to be asked for; NULL: none
    struct str to_write; // what it is to write there; `p` NULL: nothing, it reads
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
    struct buf cut;              // the beginning of a character whose rest was not read yet
    bool timed_out, interrupted; // ended by us, before it was over
    struct proc_exit exit;
};

#define TOOL(id, ...) extern const struct tool_ops tool_##id;
#include "agent/tools.def"
#undef TOOL

/// start and cancel of tools whose work is a job: tool_call_job.c.
void tool__start_job(struct tool_call *c);
bool tool__cancel_job(struct tool_call *c);

/// Give the result and free the job.
void tool__finish(struct tool_job *c, const struct tool_result *r);

/// The file for the output of a call, in the arena. An id comes from a model; only plain characters of it
/// become a part of the name.
char *tool__output_path(struct arena *a, const char *dir, struct str id);
/// Start the program of `command`; tool__finish() follows in any case.
void tool__spawn(struct tool_job *c);
void tool__stop(struct tool_job *c); // TERM now, KILL two seconds later

// ---- paths of a job, on the lane: tool_path.c ---------------------------------------------------

enum { TOOL_FILE_MAX = 16 << 20 }; // what read_file, write_file and edit_file work on

/// A path of the model's as an absolute one of ours: relative ones begin at the working directory,
/// /tmp is the session's. In the arena.
int tool__path(struct tool_job *c, struct str path, char **out, struct err *e) MUST_CHECK;

/// Open a file or directory for reading inside the borders of the box; `path` is from tool__path().
/// `dir`: must be a directory, else a regular file. Returns a descriptor. `*real` (may be NULL) is
/// its real path, in the arena.
int tool__open(struct tool_job *c, const char *path, bool dir, char **real,
               struct err *e) MUST_CHECK;

/// Append all of a text file to `out`, as the editor has it if there is one: ERR_TOO_LARGE past its maximum,
/// ERR_INVALID for what is not UTF-8 text, UV_EAGAIN when the editor has to be asked first (`wanted` is set; the
/// work begins anew with its answer).
int tool__read_file(struct tool_job *c, const char *path, struct buf *out,
                    struct err *e) MUST_CHECK;

/// Replace or make a file inside the borders of the box, in one step; the mode of an existing file
/// stays, missing directories are made. Notes the difference in `diff`; a preview does no more than that. UV_EAGAIN as
/// in tool__read_file().
int tool__write(struct tool_job *c, const char *path, struct str text, struct err *e) MUST_CHECK;
