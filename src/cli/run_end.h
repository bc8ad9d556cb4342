#pragma once

#include "cli/ask.h"
#include "view/view.h"

// What is said of a run: how it ended, or that it goes on without us, and what to do next.

/// Ask for the record of run `id` over a connection of its own, without starting a hub; NULL when that
/// fails. Lives in `arena`.
const struct json *run_end_record(struct cli *c, const char *id, struct arena *arena);
/// Say how the run went and, in lines that can be pasted, what to do next. An error that `seen` (may be NULL)
/// has shown is not repeated. The exit code of its end.
int run_end_say(struct cli *c, const struct json *record, const struct view *seen);
/// Two lines to paste, which show the work of run `id` and take it over.
void run_end_say_work(struct cli *c, struct str id);
/// Say that a run continues without us, and how to follow or stop it.
void run_end_say_detached(struct cli *c, const char *id, const char *bot);
