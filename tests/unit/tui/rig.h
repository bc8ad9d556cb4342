#pragma once

#include "tui/tui_int.h"

// An interface without a terminal and a hub: what Lua files give, drawn on cells.

struct rig {
    struct tui t;
    struct tui_opts o;
    struct home home;
    struct shipped shipped[16];
    ui_files files;
    struct ui_fault fault;
};

/// A screen of this size, the shipped files read from the source tree, and no build yet.
void rig_open(struct rig *r, int rows, int cols);
void rig_close(struct rig *r);

/// Add a file of the user's; `text` is borrowed.
void rig_file(struct rig *r, enum ui_kind kind, const char *text);
/// Build anew with all files, in the place of the last build. False: `fault` says why, the last one stays.
bool rig_build(struct rig *r);
/// Run the layout and draw it.
void rig_draw(struct rig *r);
/// A row of the screen without the blanks at its end; static storage.
const char *rig_row(const struct rig *r, int row);
/// Press a key by the bytes that a terminal sends, and draw.
void rig_type(struct rig *r, const char *bytes);
