#pragma once

#include "base/err.h"
#include "base/vec.h"
#include "cli/commands.h"

/// One flag as it was given.
struct given {
    enum flag_id id;
    const char *value; // NULL for a flag that takes none
};

/// A command line, taken apart. Strings are borrowed from argv.
struct args {
    const struct command *cmd; // NULL: no command was named
    bool only_noun;            // a noun with verbs was named, and no verb
    vec(struct given) flags;
    vec(const char *) words; // after the command
};

/// Take `argv` apart by the tables. Fails with ERR_USAGE and a text that names the nearest thing
/// that exists. What was understood until then, --json among it, is in `a`. With --help or
/// --version given, missing and surplus words are no fault.
int args_parse(struct args *a, int argc, char *const *argv, struct err *e) MUST_CHECK;
/// Free what args_parse() gathered, after a failure too.
void args_fini(struct args *a);

/// Was the flag given?
bool args_has(const struct args *a, enum flag_id id);
/// The value given last, or NULL.
const char *args_value(const struct args *a, enum flag_id id);
/// The same as a number of at least 0. ERR_USAGE when it is not one; `fallback` when it was not given.
int args_number(const struct args *a, enum flag_id id, int64_t fallback, int64_t *out,
                struct err *e) MUST_CHECK;
/// Word `i`, or NULL.
const char *args_word(const struct args *a, size_t i);
