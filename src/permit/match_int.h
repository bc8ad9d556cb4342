#pragma once

#include "permit/match.h"

// What the files that compare rules with commands share.

/// Called with each command that a line would run, which may be assignments alone; true ends the search.
typedef bool match__visit_fn(const struct cmd_simple *c, const void *arg);

/// Visit each command of the line, and what each would run in turn. `gave_up` (may be NULL): some command was not
/// looked into. Returns whether a visit ended the search.
bool match__search(const struct cmdline *l, struct arena *a, match__visit_fn *visit,
                   const void *arg, bool *gave_up);
/// Does this word begin with `-`, and is it more than that?
bool match__is_option(struct str w);
