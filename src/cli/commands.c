// The tables of commands and flags, and the few ways to look into them.

#include "cli/commands.h"

#include "cli/cli_int.h"
#include "proto/ops.h"

_Static_assert(FLAG__COUNT <= 64, "a command has a bit for each flag");

const struct flag flags[FLAG__COUNT] = {
#define FLAG(id, nm, sh, val, glob, hlp)                                                           \
    [FLAG_##id] = {.name = nm, .letter = sh, .value = val, .global = glob, .help = hlp},
#include "cli/flags.def"
#undef FLAG
};

enum { OP_NONE = -1 };

#define F(id) (UINT64_C(1) << FLAG_##id)
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
    {"list", "ls"},       {"show", "get"},   {"remove", "rm"},
    {"remove", "delete"}, {"create", "new"}, {"new", "create"},
};
const size_t n_verb_aliases = ARRAY_LEN(verb_aliases);

static const char *canonical(struct str verb)
{
    for (size_t i = 0; i < n_verb_aliases; i++) {
        if (str_eqz(verb, verb_aliases[i].alias)) {
            return verb_aliases[i].verb;
        }
    }
    return NULL;
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

const struct command *command_find_verb(const struct command *first, struct str verb)
{
    const char *same = canonical(verb);
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        if (str_eqz(verb, c->verb) || (same != NULL && strcmp(same, c->verb) == 0)) {
            return c;
        }
    }
    return NULL;
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
    return flags[id].global || (row->flags & (UINT64_C(1) << id)) != 0;
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
