#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#include "loop/launch.h"

// The parts of afloat-launch. What fails ends the process with a report to the hub.

/// What the box of this command is, from the command line: rules as in loop/launch.h.
struct launch_box {
    bool on;
    const char *rules[LAUNCH_RULES_MAX];
    size_t n;
    bool network;
    bool loopback; // a network of its own, with the hub at its other end
};

static inline char launch_rule_kind(const char *rule)
{
    return rule[0];
}

static inline const char *launch_rule_path(const char *rule)
{
    return strchr(rule, '/'); // there always is one
}

/// Tell the hub, with errno, and end.
_Noreturn void launch__fail(enum launch_kind kind);
/// True when `path` is `dir` or beneath it.
bool launch__beneath(const char *path, const char *dir);
/// Open a path that leads through no symbolic link (the last part may be one); -1 with errno.
int launch__open(const char *path);

// ---- namespaces and mounts: launch_box.c ---------------------------------------------------------

/// Fork into new user, mount, process and IPC namespaces in which we are who we were. Returns as
/// fork() does; in the child, ids are in place. `loopback`: into a new network namespace too.
pid_t box__fork(bool loopback);
/// In the child: bring up 127.0.0.1 of its own network, listen there, and give the socket to the hub.
void box__listen(void);
/// In the child: make the mounts.
void box__mount(const struct launch_box *b);

// ---- names that must not appear: launch_keep.c ---------------------------------------------------

/// In the supervisor, before the fork: make what the rules `k` and `f` name, until keep__drop().
void keep__make(const struct launch_box *b);
/// In the child: forget them, the supervisor removes them.
void keep__forget(void);
/// When no process is left: remove what is still as we made it and not used by another supervisor.
void keep__drop(void);

// ---- the first process of a box: launch_init.c ---------------------------------------------------

/// What a box may take in all; 0: as much as there is.
struct launch_limits {
    size_t processes;
    uint64_t memory; // bytes
};

/// How it ended; in memory that init and the supervisor share.
struct launch_over {
    int status; // of the program; -1 before
    int limit;  // of enum launch_limit: passed, and the box was ended for it; 0: none
};

/// In init: bury the dead until the program is among them or a limit is passed; our own end ends all others.
_Noreturn void init__watch_over(pid_t program, const struct launch_limits *limits,
                                volatile struct launch_over *over);

// ---- the process itself: launch_walls.c ----------------------------------------------------------

/// In the process that becomes the program, last of all: privileges, Landlock, system calls.
void walls__enter(const struct launch_box *b);
