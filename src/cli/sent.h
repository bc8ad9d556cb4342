#pragma once

#include "base/json.h"
#include "cli/cli_int.h"

// What is sent along with a session: the environment of this client, and what its flags choose.

/// Write the environment for the session's tools, and what chooses its model, as a JSON object.
int sent_write_env(struct cli *c, struct jw *w);
/// Append the names, not the values, of the variables that hold keys here, with commas between them.
int sent_write_keys(struct cli *c, struct buf *out);
/// The provider's name in front of a '/' in `model`, when there is such a provider; the rest is moved to
/// `*model`. Lives in `arena`; NULL when there is none.
const char *sent_cut_provider(struct cli *c, struct arena *arena, const char **model);
/// The members that flags say about a session: model, sandbox, permission, limits, plugins.
void sent_write_choices(struct cli *c, struct jw *w);
