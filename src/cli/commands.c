// The tables of commands and flags, and the few ways to look into them.

#include "cli/commands.h"

#include "cli/cli_int.h"
#include "proto/ops.h"

_Static_assert(FLAG__COUNT <= 8 * sizeof(flag_set), "a command has a bit for each flag");

const struct flag flags[FLAG__COUNT] = {
#define FLAG(id, nm, sh, val, glob, hlp)                                                           \
    [FLAG_##id] = {.name = nm, .letter = sh, .value = val, .global = glob, .help = hlp},
#include "cli/flags.def"
#undef FLAG
};

enum { OP_NONE = -1 };

#define F(id) ((flag_set)1 << FLAG_##id)
const struct command commands[] = {
#define COMMAND(fn, no, ot, ve, mo, opn, ar, fl, he, ex)                                           \
    {.run = fn,                                                                                    \
     .noun = no,                                                                                   \
     .other = ot,                                                                                  \
     .verb = ve,                                                                                   \
     .mode = mo,                                                                                   \
     .op = OP_##opn,                                                                               \
     .args = ar,                                                                                   \
     .flags = fl,                                                                                  \
     .help = he,                                                                                   \
     .examples = ex},
#include "cli/commands.def"
#undef COMMAND
};
const size_t n_commands = ARRAY_LEN(commands);

const struct verb_alias verb_aliases[] = {
    {"list", "ls"},    {"show", "get"},   {"remove", "rm"},     {"remove", "delete"},
    {"create", "new"}, {"new", "create"}, {"delete", "remove"}, {"delete", "rm"},
};
const size_t n_verb_aliases = ARRAY_LEN(verb_aliases);

static bool is_alias(struct str alias, const char *verb)
{
    bool found = false;
    for (size_t i = 0; i < n_verb_aliases && !found; i++) {
        found = str_eqz(alias, verb_aliases[i].alias) && strcmp(verb, verb_aliases[i].verb) == 0;
    }
    return found;
}

const struct command *command_find_noun(struct str word)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = &commands[i];
        if (str_eqz(word, c->noun) || (c->other != NULL && str_eqz(word, c->other))) {
            return c;
        }
    }
    return NULL;
}

// A verb that exists is meant itself, whatever it is an alias of elsewhere.
const struct command *command_find_verb(const struct command *first, struct str verb)
{
    const struct command *found = NULL;
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        if (str_eqz(verb, c->verb)) {
            return c;
        }
        if (found == NULL && is_alias(verb, c->verb)) {
            found = c;
        }
    }
    return found;
}

const struct command *command_default(const struct command *first)
{
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        if (c->verb[0] == '\0' || (c->mode & CMD_DEFAULT) != 0) {
            return c;
        }
    }
    return NULL;
}

const struct command *command_next_verb(const struct command *row)
{
    const struct command *next = row + 1;
    bool same = next < commands + n_commands && strcmp(next->noun, row->noun) == 0;
    return same ? next : NULL;
}

bool command_takes(const struct command *row, enum flag_id id)
{
    return flags[id].global || (row->flags & ((flag_set)1 << id)) != 0;
}

void command_count_args(const struct command *row, size_t *least, size_t *most)
{
    *least = *most = 0;
    struct str rest = str_of(row->args);
    while (rest.n != 0) {
        struct str word = str_cut(&rest, ' ');
        *least += !str_starts(word, "[");
        *most = str_ends(word, "...]") ? SIZE_MAX : *most + 1;
    }
}
