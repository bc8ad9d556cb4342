#pragma once

// Like lib/fault.h, for the calls that only a watcher makes; see meson.build for which.

#include <stdbool.h>

void watch_fault_at(unsigned long n, int error, bool forever);
void watch_fault_off(void);
unsigned long watch_fault_hits(void);

/// Names of directories that were read so far.
unsigned long watch_names_read(void);

/// From now on only `n` more inotify_add_watch() calls succeed, the others fail with ENOSPC.
/// Negative: no limit.
void watch_limit(long n);
/// Leases cannot be had, as for other people's files.
void watch_no_leases(bool on);
/// Call `fn` once, on the thread that is about to close a directory that it has read.
void watch_after_read(void (*fn)(void));
/// inotify_init1() fails with EMFILE.
void watch_no_instance(bool on);
