#pragma once

#include "base/err.h"
#include "base/map.h"
#include "loop/work.h"

// For whom each improvement is active. What a session's agent wrote is for that session, what a
// bot's agent wrote for that bot, until a person says otherwise; what a person put there is for all.
// Kept in one small file of the hub's own, outside the improvements' reach.

enum scope_kind { SCOPE_ALL, SCOPE_SESSION, SCOPE_BOT };
/// "all", "session", "bot"
const char *scope_kind_name(enum scope_kind kind);

/// One improvement's scope; `of` is the session's id or the bot and workspace, "" for all.
struct scope {
    enum scope_kind kind;
    char *of;
};

struct scopes {
    char *path;        // NULL: kept in memory only
    struct lane *lane; // writes the file
    struct map by_name;
};

/// Read `path` (may be NULL). A file that is missing is empty; a damaged one is an error, after which
/// only scopes_fini() is left; a row that cannot be read is for nobody. `lane` has one thread and
/// is borrowed.
int scopes_init(struct scopes *s, const char *path, struct lane *lane, struct err *e) MUST_CHECK;
void scopes_fini(struct scopes *s);

/// The scope of improvement `name`; SCOPE_ALL when nothing was said.
struct scope scopes_get(const struct scopes *s, struct str name); // `of` is borrowed
/// Say it. SCOPE_ALL is what a person says with `afloat plugin enable`.
void scopes_set(struct scopes *s, struct str name, enum scope_kind kind, struct str of);
/// The file is gone: whoever makes one of that name later begins anew.
void scopes_forget(struct scopes *s, struct str name);
