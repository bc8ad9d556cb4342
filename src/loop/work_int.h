#pragma once

#include "loop/work.h"

/// lane_open() with the time after which an idle thread ends.
struct lane *lane__open(struct loop *l, const char *name, unsigned threads, unsigned idle_ms);

/// Threads alive right now.
unsigned lane__threads(struct lane *lane);

/// work_mount_key() on the text of a mount table.
uint64_t mount__key(struct str table, const char *path);
