#pragma once

#include "agent/tool.h"
#include "api/api_int.h"

// Built-in tools for POST /tool, see tool_builtin.c.

typedef void api_builtin_done(void *arg, const struct tool_result *r);

/// Run `tool` in `dir` (a real path) and say how it ended, once, never from inside. `input` is borrowed
/// until then.
void api__builtin_run(struct api *api, const struct tool_info *tool, const struct json *input,
                      const char *dir, api_builtin_done *done, void *arg);
