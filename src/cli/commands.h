#pragma once

#include "base/str.h"

// The tables of commands and flags as data.

struct cli;
typedef int command_fn(struct cli *c); // returns the exit code

enum flag_id {
#define FLAG(id, ...) FLAG_##id,
#include "cli/flags.def"
#undef FLAG
    FLAG__COUNT
};

struct flag {
    const char *name;
    char letter;       // 0: none
    const char *value; // what it takes, in capitals; NULL: nothing
    bool global;
    const char *help;
};
extern const struct flag flags[FLAG__COUNT];

/// A bit for each flag.
__extension__ typedef unsigned __int128 flag_set;

enum command_mode {
    CMD_DEFAULT = 1,  // what its noun alone means
    CMD_STARTS = 2,   // needs the hub, and starts it unless told not to
    CMD_HOMELESS = 4, // works where no home can be found
    CMD_PROGRAM = 8,  // its first word is a program, and all behind that is the program's
    CMD_SUBJECT = 16, // of a noun's default row: the first word may stand before the verb
};

struct command {
    command_fn *run;
    const char *noun;
    const char *other; // the noun in its other number, or NULL
    const char *verb;  // "" when the noun is all
    unsigned mode;
    int op; // enum op_id of the operation it calls, or -1
    const char *args;
    flag_set flags; // without the global ones
    const char *help;
    const char *examples; // one a line
};
extern const struct command commands[];
extern const size_t n_commands;

/// Verbs that mean the same, wherever one of them exists.
struct verb_alias {
    const char *verb, *alias;
};
extern const struct verb_alias verb_aliases[];
extern const size_t n_verb_aliases;

/// The first row of the noun, in either number; NULL when there is none.
const struct command *command_find_noun(struct str word);
/// The row of `first`'s noun for `verb` or an alias of it; NULL when there is none.
const struct command *command_find_verb(const struct command *first, struct str verb);
/// What `first`'s noun alone means; NULL when it needs a verb.
const struct command *command_default(const struct command *first);
/// The next row of the same noun, or NULL.
const struct command *command_next_verb(const struct command *row);
bool command_takes(const struct command *row, enum flag_id id); // global flags included
/// How many words its ARGUMENTS allow.
void command_count_args(const struct command *row, size_t *least, size_t *most);
