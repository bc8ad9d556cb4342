#pragma once

#include "store/tree.h"

// The settings that a project brings, `.afloat/config.toml` or `.mcp.json`, and whether they may be used.

struct trust_settings {
    char *root;   // of the project, a real path; NULL: the directory is in no project
    bool trusted; // `text` may be used
    char *text;   // content of the file; NULL: there is no file, or it cannot be read
    char *why;    // why it cannot be read; NULL
};

/// Read those of the project that contains `dir`, and ask the trust book of `home`. Blocks. The caller ends
/// it with trust_settings_fini().
void trust_settings_read(struct trust_settings *s, const char *home, const char *dir);
/// The same for the project's `.mcp.json`.
void trust_servers_read(struct trust_settings *s, const char *home, const char *dir);
void trust_settings_fini(struct trust_settings *s); // leaves it empty
