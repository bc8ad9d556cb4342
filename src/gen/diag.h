#pragma once

#include "base/json.h"

// What a report says about a problem.

enum gen_severity { DIAG_ERROR, DIAG_WARNING };

enum gen_code {
    DIAG_NONE = -1,
#define CODE(id, severity) DIAG_##id,
#include "gen/codes.def"
#undef CODE
    DIAG__COUNT
};

/// The name of a code ("LOAD_FAILED"), how bad it is, and the code of a name (false: there is none).
const char *gen_code_name(enum gen_code code);
enum gen_severity gen_code_severity(enum gen_code code);
bool gen_code_parse(struct str name, enum gen_code *out);

/// One diagnostic. As a parameter all strings are borrowed, and NULL means "not known"; what is
/// kept is a copy.
struct gen_diag {
    enum gen_code code;
    const char *plugin; // the unit; NULL: the unit that is reported on, or the hub
    const char *source; // server front ui config hub; NULL: server
    const char *origin; // module directory file init; NULL: the unit's
    const char *path;
    int line; // 0: not known
    const char *message;
    const char *hint;
    const char *hook; // what ran: a hook point, "tool 'x'", "route 'GET /x'"; NULL: nothing did
    const char *traceback; // of code that failed, innermost first; NULL
};

/// A copy with strings of its own; NULL fields stay NULL.
struct gen_diag gen_diag_copy(const struct gen_diag *d);
void gen_diag_fini(struct gen_diag *d); // of a copy
bool gen_diag_equal(const struct gen_diag *a, const struct gen_diag *b);
/// As an object of the report; fields that are not known are left out.
void gen_diag_write(const struct gen_diag *d, struct jw *w);
