#pragma once

#include "config/config.h"
#include "unit/test.h"

// A place with a system file, a home and a project, all in the test's own directory.

struct fixture {
    char system[300], user_file[300], project[320], project_file[360];
    struct home home; // only `config` is set
    struct config_diags diags;
    struct config *config; // of the last fixture_load()
    struct err err;
};

void fixture_init(struct fixture *f);
void fixture_fini(struct fixture *f);

void fixture_write(const char *path, const char *text);

/// Load with all three files; `env` and `flags` may be NULL. What an earlier load gave is freed.
int fixture_load(struct fixture *f, const char *const *env, const char *const *flags);

/// Write `text` as the user's file and load; it must not fail.
void fixture_user(struct fixture *f, const char *text);

/// Diagnostic `i` as "error 3:7 message", or "none".
const char *fixture_diag(const struct fixture *f, size_t i);

/// The value of a setting as JSON, "absent" without one.
const char *fixture_value(const struct fixture *f, const char *key);
