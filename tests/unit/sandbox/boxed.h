#pragma once

// A workspace, a home of Afloat and the world around them in a directory of the test's own, and
// commands that run in a box there.
//
//     BASE/ws/               the working directory
//     BASE/outside/safe      what must stay as it is
//     BASE/home/token ...    AFLOAT_HOME
//     BASE/hidden/key        on the hide list

#include "base/buf.h"
#include "loop/proc.h"
#include "sandbox/box.h"
#include "unit/loop.h"

/// A command: what it wrote and how it ended.
struct boxed_cmd {
    struct proc *proc; // NULL when it is over
    struct buf out;
    struct proc_exit exit;
    struct err why; // not launched: what it said
};

struct boxed {
    struct loop loop;
    char base[300], ws[320], home[320], runtime[330], hidden[320];
    const char *hide[2];
    struct box_policy policy;
    uint64_t process_limit, memory_limit;
    void (*on_listen)(
        uv_stream_t *from); // the box has 127.0.0.1 only, and we listen there; NULL: it has not
    int fd3;                // given to the command as descriptor 3; 0 for none
    struct boxed_cmd cmd;   // the last one of boxed_run()
    struct err missing;     // why this machine gives no box; code 0: it does
};

extern struct boxed boxed;

/// Make it all. `outside_tmp`: not beneath /tmp, which the box replaces.
void boxed_begin(bool outside_tmp);
/// The same as an ordinary user; skips the test where that cannot be.
void boxed_begin_as_nobody(void);
void boxed_end(void);
/// Skip the test where the kernel gives no box (a chroot, a container without user namespaces).
void boxed_need(void);

/// A path beneath the base, valid until the next four calls.
const char *boxed_path(const char *name);
void boxed_save(const char *name, const char *text);  // beneath the base, with its directories
bool boxed_holds(const char *name, const char *text); // is that what the file holds?
bool boxed_exists(const char *name);

/// Run a shell script in the working directory to its end, as boxed.cmd. Returns its exit status,
/// minus the signal that ended it, or BOXED_NOT_LAUNCHED.
enum { BOXED_NOT_LAUNCHED = -1000 };
int boxed_run(const char *script);

/// The same in steps; `cmd` is overwritten, boxed_free() releases what it wrote.
void boxed_start(struct boxed_cmd *cmd, const char *script);
void boxed_start_in(struct boxed_cmd *cmd, const char *script, const struct box *box);
void boxed_wait_for(struct boxed_cmd *cmd, const char *text); // in its output
int boxed_wait(struct boxed_cmd *cmd);
void boxed_free(struct boxed_cmd *cmd);
