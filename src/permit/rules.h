#pragma once

#include "base/json.h"
#include "config/config.h"
#include "permit/match.h"

// Permission rules: which calls run without a question, which need one, which never run.

/// Ordered by strictness: the strictest rule that matches decides.
enum permit_verdict { PERMIT_NONE, PERMIT_ALLOW, PERMIT_ASK, PERMIT_DENY };

/// How far an answer reaches beyond the call it was given for.
enum permit_reach {
    PERMIT_ONCE,
    PERMIT_EXACT, // this command line, file or address, in this project
    PERMIT_PREFIX, // this program and subcommand with any arguments, this directory, this host, in this project
    PERMIT_TOOL,    // this tool in this session
    PERMIT_PROJECT, // this tool in this project
    PERMIT__REACHES,
};

struct rule {
    const char *id;
    const char *tool;    // a name; `*` stands for any run of bytes
    const char *match;   // NULL: every call of the tool
    const char *session; // NULL: not only in this session
    bool exact;          // `match` is a whole command line or path, not a pattern
    enum permit_verdict decision;
    int64_t at_ms; // 0: from the configuration
    struct pattern pattern;
};

/// Rules from one place, in one arena.
struct rules {
    struct arena arena;
    struct rule *p;
    size_t n, cap;
};

/// One call of a tool, as rules see it. Borrowed.
struct permit_call {
    struct str tool;
    const struct json *input;
    const char *working_dir;   // real path
    const char *session;       // "" outside of one
    const char *file;          // path_real() of rules_file(), which blocks; NULL: it names none
    const char *const *writes; // the same of rules_writes()
};

/// An answer that a user can give, and what it covers, in words.
struct permit_offer {
    enum permit_reach reach;
    const char *covers;
};

/// The file that a call names, or the directory that a command asks to run in, an absolute path in the arena, as its tool
/// opens it; NULL: it names none, or it cannot be one.
const char *rules_file(const struct permit_call *c, struct arena *a);
/// The files that the redirections of a command write, absolute paths in the arena, NULL at the end; NULL: there are none
/// whose names can be read, or they go to /dev/null.
const char *const *rules_writes(const struct permit_call *c, struct arena *a);

/// An empty list.
void rules_init(struct rules *r);
/// Free all rules of the list.
void rules_fini(struct rules *r);
/// Add a copy of `rule`. ERR_INVALID: `match` is not a pattern for this tool; nothing is added.
int rules_add(struct rules *r, const struct rule *rule, struct err *e) MUST_CHECK;
/// Add the rules of [[permission]] in `c`. One that cannot be used is an error in `d` that lets no session begin.
void rules_read(struct rules *r, const struct config *c, struct config_diags *d);

/// What `n` lists say together about a call: deny over ask over allow; PERMIT_NONE when no rule matches.
/// `by` (may be NULL) is the rule that decided, NULL when several allow rules did together.
enum permit_verdict rules_judge(const struct rules *const *lists, size_t n,
                                const struct permit_call *c, struct arena *a,
                                const struct rule **by);

/// The answers that fit this call, PERMIT_ONCE first. `out` has room for PERMIT__REACHES. Returns how many.
size_t rules_offers(const struct permit_call *c, struct arena *a, struct permit_offer *out);
/// The rule that such an answer means, without id and time, in the arena. False: the answer was not offered.
bool rules_make(const struct permit_call *c, enum permit_reach reach, enum permit_verdict decision,
                struct arena *a, struct rule *out);

/// "once", "exact", "prefix", "tool", "project".
const char *permit_reach_name(enum permit_reach reach);
/// The reach of that name; false: there is none.
bool permit_reach_find(struct str name, enum permit_reach *out);
/// "allow", "ask", "deny".
const char *permit_verdict_name(enum permit_verdict verdict);
/// The verdict of that name; false: there is none.
bool permit_verdict_find(struct str name, enum permit_verdict *out);
