#pragma once

#include "base/err.h"
#include "base/shipped.h"
#include "config/home.h"
#include "term/color.h"

// The full-screen interface: drawn from a tree of nodes that live Lua makes (docs/internals/tui.md).

struct tui_opts {
    const struct home *home;
    const char *project;           // the directory where sessions begin
    const char *version;           // of the program
    const struct shipped *shipped; // the program's Lua; rows below "ui/" are used
    enum color_depth color;
    bool safe; // the shipped interface only
};

/// Take the terminal on stdin and run until the user leaves; a hub must run. All of `o` is borrowed.
/// Returns 0, or a negative code when the terminal cannot be taken or is gone.
int tui_run(const struct tui_opts *o, struct err *e) MUST_CHECK;
