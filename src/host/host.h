#pragma once

// `afloat host lua PATH`: the far end of the host protocol.

/// Run the improvement at PATH: lock this process in (its directory is all that stays in reach), then
/// serve what comes on descriptor 3 until that is closed. Returns the exit code of the process.
int host_lua_main(const char *path);
