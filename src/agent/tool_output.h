#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "loop/work.h"

// The output of a command, of any length: a short one is kept whole, of a longer one the head and the tail, with
// all of it in a file. Memory does not grow with the length: when the file is slower than the command,
// tool_output_add() says so, and the caller stops reading until `on_room`.

struct tool_output;

/// `path` is the file, created with its directory only when needed; `on_room` is called on the loop thread when
/// there is room again. Everything is borrowed until tool_output_free().
struct tool_output *tool_output_new(struct lane *lane, const char *path, loop_fn *on_room,
                                    void *arg);

/// Take `bytes` in. Returns false when the caller should pause until on_room.
bool tool_output_add(struct tool_output *o, struct str bytes);

/// No more comes: write out the rest, then call `done` from the loop; at once when there is no file.
void tool_output_end(struct tool_output *o, loop_fn *done, void *arg);

/// Append the text for the model, UTF-8: all, or head and tail with a line between them. Only after `done`.
void tool_output_text(struct tool_output *o, struct buf *out);
void tool_output_free(struct tool_output *o); // only after `done`

/// Append `bytes` to `out` as UTF-8: invalid bytes and NUL become U+FFFD.
void tool_output_clean(struct buf *out, struct str bytes);
