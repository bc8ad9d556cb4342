#pragma once

#include "base/err.h"
#include "base/str.h"
#include "sandbox/grant.h"

// The box: what the commands and file tools of a session may write, read and reach.
//
// A policy is what was asked for, as data. box_new() looks at the disk and turns it into a box: the
// list of mounts that the launcher makes for a command (loop/launch.h), and the same borders as
// questions for tools that run inside the hub. Both come from one list, so they cannot disagree.
//
//     read-only            nothing but a private /tmp can be written
//     workspace-write      and the working directory and `writable`, without their .git and .afloat
//     danger-full-access   no box at all: everything the user may do
//
// In the first two modes the home of Afloat is out of reach but for a few folders that can be read,
// `hide` is out of reach, and without `network` no socket can be made. docs/internals/sandbox.md
// says how, and why in this order.

enum box_mode { BOX_READ_ONLY, BOX_WORKSPACE_WRITE, BOX_FULL_ACCESS };

/// "read-only", "workspace-write", "danger-full-access"; box_mode_parse() is false for any other name.
const char *box_mode_name(enum box_mode mode);
bool box_mode_parse(struct str name, enum box_mode *out);

/// What a session asks for. Paths are absolute or begin with `~/`; lists end with NULL and may be
/// NULL. Everything is borrowed.
struct box_policy {
    enum box_mode mode;
    bool network;
    const char *working_dir;
    const char *const *writable; // more trees besides the working directory
    const char *const *hide;     // there or not yet
    const char *const *guard;    // what runs outside of the box: no command changes or makes it
    const char *home, *runtime;  // AFLOAT_HOME and AFLOAT_RUNTIME
    const char *own;             // a directory there that is the program's, writable in any mode
    const char *tmp_dir;         // what the tools see as /tmp; NULL: an empty one for each command
    struct grants *grants;       // what the directories stand for; NULL: found for this box alone
};

/// The mode for a working directory when none was asked for: `wanted`, or read-only where that is /, the
/// user's home directory, a directory above AFLOAT_HOME, or in a `.git` or bare repository. `*why` is then a
/// line for the user (a constant, the cause before its colon), else NULL. Looks at the disk: not on the loop thread.
enum box_mode box_choose_mode(enum box_mode wanted, const char *working_dir, const char *home,
                              const char **why);

struct box;

/// Look at the disk and work the box out; on any thread, it may block. What changes on the disk
/// afterwards is the launcher's to find. ERR_DENIED with a way out for what cannot be protected;
/// ERR_CONFLICT for a granted directory that was replaced.
int box_new(struct box **out, const struct box_policy *p, struct err *e) MUST_CHECK;
void box_free(struct box *b);

/// The rules for proc_opts.box; NULL for danger-full-access. Borrowed from the box.
const char *const *box_rules(const struct box *b);
const char *box_dir(const struct box *b); // the working directory, its real path
bool box_network(const struct box *b);

/// May a file with this real path (absolute, no symbolic links, no `.` or `..`) be read, may it be
/// made or changed? `why` (may be NULL) gets the reason, a constant for the model to read.
bool box_may_read(const struct box *b, const char *real, const char **why);
bool box_may_write(const struct box *b, const char *real, const char **why);

/// Does it run outside of the box (box_policy.guard), so that only the user may agree to a change?
bool box_is_guarded(const struct box *b, const char *real);
bool box_has_guards(const struct box *b); // is there anything of this kind in reach?

/// Where we find the file that a command sees at `path`: beneath /tmp it is in the private directory. NULL when
/// there is no such place, because each command has its own /tmp. Elsewhere a `..` stays: it leads up from where a link
/// before it leads, which only the kernel can tell. Looks at the disk. Caller frees.
char *box_map(const struct box *b, const char *path);

// ---- does it work on this machine? -----------------------------------------------------------

/// What the launcher said when it could not make a box, with the ways out: "the kernel allows no
/// user namespaces here (Operation not permitted): ...". Into `e`, code ERR_UNSUPPORTED; or ERR_CONFLICT when only
/// something that it was to mount was moved. `instead` is what else the user can do.
int box_explain(int kind, int errnum, const char *instead, struct err *e);
#define BOX_INSTEAD "use the sandbox mode danger-full-access"

/// Make a box and run /bin/true in it. Blocks, with its own loop: for a program that is not the hub.
/// ERR_UNSUPPORTED with the cause when no box can be made.
int box_probe(struct err *e) MUST_CHECK;
