#pragma once

#include "base/err.h"
#include "base/map.h"
#include "loop/work.h"

// The sessions in which an improvement is active: one that a session's agent wrote in that session, until the user makes
// it active in all; one that the user put there in all. Kept in a small file that improvements cannot write.

enum scope_kind { SCOPE_ALL, SCOPE_SESSION };
/// "all", "session"
const char *scope_kind_name(enum scope_kind kind);

/// One improvement's scope; `of` is the session's id, "" for all.
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
/// only scopes_fini() is left; an invalid row is active nowhere. `lane` has one thread and is
/// borrowed.
int scopes_init(struct scopes *s, const char *path, struct lane *lane, struct err *e) MUST_CHECK;
void scopes_fini(struct scopes *s);

/// The scope of improvement `name`; SCOPE_ALL when nothing was said.
struct scope scopes_get(const struct scopes *s, struct str name); // `of` is borrowed
/// Say it. SCOPE_ALL is what a person says with `afloat plugin enable`.
void scopes_set(struct scopes *s, struct str name, enum scope_kind kind, struct str of);
/// The file is gone: a later one of that name begins without a scope.
void scopes_forget(struct scopes *s, struct str name);
