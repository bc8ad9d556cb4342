#pragma once

#include "env/env.h"

/// Append what the shell of dialect `d` reads to run task `t` itself: its directory and its variables,
/// for the time of the task, then its command, in the shell's own language with `in_shell`, else by sh.
/// It does nothing when the task's `status` says so (not asked with `force`), or when a task that it
/// comes after failed in this shell. To be read inside the function __afloat_task (runtime/shell).
void task_text(const struct env_task *t, enum env_dialect d, bool force, struct buf *out);
