// The tables of commands and flags, and the few ways to look into them.

#include "cli/commands.h"

#include <assert.h>

#include "cli/call.h"

const struct flag flags[FLAG__COUNT] = {
#define FLAG(id, nm, sh, val, glob, hlp)                                                           \
    [FLAG_##id] = {.name = nm, .letter = sh, .value = val, .global = glob, .help = hlp},
#include "cli/flags.def"
#undef FLAG
};

const char *const group_titles[GROUP__COUNT] = {
    [GROUP_CHAT] = "Talk to models",
    [GROUP_BOTS] = "Run bots",
    [GROUP_PLUGINS] = "Extend the hub",
    [GROUP_SHELL] = "Shell environments",
    [GROUP_HUB] = "The hub",
    [GROUP_CARE] = "Help and care",
    [GROUP_INNER] = "Started by afloat itself",
};

enum { OP_NONE = -1 };

#define F0
#define F(id)      {FLAG_##id, NULL},
#define FH(id, he) {FLAG_##id, he},
#define CODE(fn)   .run = fn
#define CALL(name) .run = call_run, .form = &form_##name
const struct command commands[] = {
#define COMMAND(how, gr, no, ot, ve, mo, opn, ar, fl, he, ex)                                      \
    {how,                                                                                          \
     .group = GROUP_##gr,                                                                          \
     .noun = no,                                                                                   \
     .other = ot,                                                                                  \
     .verb = ve,                                                                                   \
     .mode = mo,                                                                                   \
     .op = OP_##opn,                                                                               \
     .args = ar,                                                                                   \
     .flags = (const struct flag_use[]){fl{FLAG__COUNT, NULL}},                                    \
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
    assert(first != NULL);
    const struct command *found = NULL;
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        if (str_eqz(verb, c->verb)) {
            return c;
        }
        for (size_t i = 0; i < n_verb_aliases && found == NULL; i++) {
            const struct verb_alias *a = &verb_aliases[i];
            found = str_eqz(verb, a->alias) && strcmp(c->verb, a->verb) == 0 ? c : NULL;
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
    assert(row >= commands && row < commands + n_commands);
    const struct command *next = row + 1;
    bool same = next < commands + n_commands && strcmp(next->noun, row->noun) == 0;
    return same ? next : NULL;
}

bool command_takes(const struct command *row, enum flag_id id)
{
    assert(row != NULL && id < FLAG__COUNT);
    const struct flag_use *use = row->flags;
    while (use->id != id && use->id != FLAG__COUNT) {
        use++;
    }
    return flags[id].global || use->id == id;
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

struct str flag_value_name(const struct flag *f)
{
    struct str rest = str_of(f->value);
    return str_cut(&rest, '=');
}

struct str flag_choices(const struct flag *f)
{
    struct str rest = str_of(f->value);
    str_cut(&rest, '=');
    return rest;
}

void flag_add_choices(struct buf *out, const struct flag *f)
{
    const char *between = "";
    for (struct str rest = flag_choices(f); rest.n != 0;) {
        struct str word = str_cut(&rest, '|');
        buf_addf(out, "%s" STR_FMT, between, STR_ARG(word));
        between = str_index(rest, '|') >= 0 ? ", " : " or ";
    }
}
