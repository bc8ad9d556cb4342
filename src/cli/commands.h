#pragma once

#include "base/buf.h"

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
    char letter; // 0: none
    // what it takes: "N", "[ID]" (optional), "WHEN=a|b" (one of these); NULL: nothing
    const char *value;
    bool global;
    const char *help; // where a command says nothing else
};
extern const struct flag flags[FLAG__COUNT];

/// The name of a flag's value, as "WHEN", and the words it may be, as "a|b"; STR_NULL for none.
struct str flag_value_name(const struct flag *f);
struct str flag_choices(const struct flag *f);
/// Append the choices as a sentence has them: "a, b or c".
void flag_add_choices(struct buf *out, const struct flag *f);

/// A flag that a command takes.
struct flag_use {
    enum flag_id id;  // FLAG__COUNT ends a list
    const char *help; // NULL: the usual one
};

enum command_mode {
    CMD_DEFAULT = 1,  // what its noun alone means
    CMD_STARTS = 2,   // needs the hub, and starts it unless told not to
    CMD_HOMELESS = 4, // works where no home can be found
    CMD_PROGRAM = 8,  // its first word is a program, and all after that is the program's
    CMD_SUBJECT = 16, // of a noun's default row: the first word may stand before the verb
    CMD_FIRST = 32,   // one of the ten that `afloat help` alone shows, with its first example
};

/// Sections of the help, in order.
enum command_group {
    GROUP_CHAT,
    GROUP_BOTS,
    GROUP_PLUGINS,
    GROUP_SHELL,
    GROUP_HUB,
    GROUP_CARE,
    GROUP_INNER, // started by the program itself
    GROUP__COUNT
};
extern const char *const group_titles[GROUP__COUNT];

struct form;
struct command {
    command_fn *run;
    const struct form *form; // of a row that is data, else NULL
    enum command_group group;
    const char *noun;
    const char *other; // the noun in its other number, or NULL
    const char *verb;  // "" when the noun is all
    unsigned mode;
    int op; // enum op_id of the operation it calls, or -1
    const char *args;
    const struct flag_use *flags; // without the global ones
    const char *help;             // one line
    const char *examples;         // one a line
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
/// Does it take the flag? Global flags included.
bool command_takes(const struct command *row, enum flag_id id);
/// How many words its ARGUMENTS allow.
void command_count_args(const struct command *row, size_t *least, size_t *most);
