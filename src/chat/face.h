#pragma once

#include "base/shipped.h"
#include "view/gauge.h"

// The status line and the prompt, built by Lua files that count as soon as they are saved:
//
//     runtime/lua/ui/status.lua, or HOME/lua/ui/status.lua in its place
//     HOME/lua/user/ui/status.lua, whose functions get those before as `next`

extern const struct shipped chat_face[]; // runtime/lua/ui

struct face;

/// `home` is the home of Afloat, `user_home` (may be NULL) what `~` stands for; both borrowed until face_free().
struct face *face_new(const char *home, const char *user_home);
void face_free(struct face *f); // NULL is allowed

/// Have the files changed since face_update() looked at them?
bool face_is_stale(const struct face *f);
/// Look whether the files have changed, and ask them for both texts. True: `fault` has a line that the user
/// should read, once for each fault; then the last good files count.
bool face_update(struct face *f, const struct gauge *g, size_t cols, struct buf *fault);
/// The texts as they were asked for last, one line each, without control characters. Borrowed until the next update.
const char *face_prompt(const struct face *f);
/// Append the status with a line feed, cut to `cols`; nothing when it is empty.
void face_status(const struct face *f, struct buf *out, size_t cols, enum color_depth color);
