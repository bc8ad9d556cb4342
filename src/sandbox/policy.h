#pragma once

#include "base/err.h"

// What a process of ours may still do, as data, and the call that makes it so.
//
// A process enters its policy itself, after it has loaded its libraries and opened what it needs, and before it
// reads the first byte of input: so the policy need not allow what only starting takes. It holds for the
// process and all its children and cannot be undone. Limits that are safe from the very first instruction are
// the launcher's (proc_opts).

enum policy_access {
    POLICY_READ = 1,  // read files, list directories
    POLICY_WRITE = 2, // make, change, rename and remove files and directories; nothing else
};

/// A tree that stays in reach. Files outside of all trees can no longer be opened.
struct policy_tree {
    int dirfd;       // of the directory, borrowed for the call
    unsigned access; // of enum policy_access
};

struct policy {
    const struct policy_tree *trees;
    size_t n_trees;
    uint64_t memory; // bytes that may be mapped on top of what is mapped now; 0: no limit
};

/// Enter `p` for good: no files outside its trees, no network, no other process, no program, no
/// code from memory, no new privileges; system calls are those of src/sandbox/calls.def.
/// All or nothing: after a failure the process must not begin untrusted work.
/// ERR_UNSUPPORTED when the kernel cannot do it. Before any thread was started.
int policy_enter(const struct policy *p, struct err *e) MUST_CHECK;

/// The kernel's Landlock version; 0 when it has none or it is switched off.
int policy_landlock_abi(void);
