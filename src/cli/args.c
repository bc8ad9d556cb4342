// The grammar of the command line.
//
//     afloat [GLOBAL]... NOUN [GLOBAL]... [VERB] [FLAG | WORD]...
//
// Global flags may stand anywhere. The flags of a command stand after its verb: only then is it known
// which of them take a value. `--` ends the flags, `-` alone is a word. After a program that a command
// runs, flags are the program's. For some nouns the first word may stand before the verb: `memory BOT
// show` is `memory show BOT`.

#include "cli/args.h"

#include <assert.h>

struct walk {
    struct args *a;
    char *const *argv;
    int argc, i;
    const struct command *noun; // first row of the noun, until the verb is known
    bool only_words;            // after `--`, or a program
    bool verb_open;             // `cmd` is what the noun alone means, a verb may still come
};

// ---- flags ---------------------------------------------------------------------------------

/// The flag of this name or letter that may stand here; -1 when there is none.
static int find_flag(const struct walk *w, struct str name, char letter)
{
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        bool usable =
            w->a->cmd != NULL ? command_takes(w->a->cmd, (enum flag_id)i) : flags[i].global;
        if (usable && (letter != 0 ? flags[i].letter == letter : str_eqz(name, flags[i].name))) {
            return (int)i;
        }
    }
    return -1;
}

static int unknown_flag(const struct walk *w, struct str name, struct err *e)
{
    const char *names[FLAG__COUNT];
    size_t n = 0;
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        names[n] = flags[i].name;
        n += find_flag(w, str_of(flags[i].name), 0) >= 0;
    }
    const char *near = str_nearest(name, names, n);
    return near != NULL
               ? err_set(e, ERR_USAGE, "unknown flag '--" STR_FMT "', did you mean '--%s'?",
                         STR_ARG(name), near)
               : err_set(e, ERR_USAGE, "unknown flag '--" STR_FMT "'", STR_ARG(name));
}

static int check_value(const struct flag *f, const char *value, struct err *e)
{
    struct buf choices = {.max = SIZE_MAX};
    bool found = flag_choices(f).n == 0;
    for (struct str rest = flag_choices(f); rest.n != 0 && !found;) {
        found = str_eqz(str_cut(&rest, '|'), value);
    }
    flag_add_choices(&choices, f);
    int rc =
        found ? 0
              : err_set(e, ERR_USAGE, "'--%s' takes %s, not '%s'", f->name, buf_z(&choices), value);
    buf_fini(&choices);
    return rc;
}

/// Note flag `id`. `value` is what stood after `=` or the letter, or NULL: then a flag that takes a value
/// takes the next word, unless the value is optional and that is a flag.
static int note_flag(struct walk *w, int id, const char *value, struct err *e)
{
    const struct flag *f = &flags[id];
    assert(id >= 0 && id < FLAG__COUNT);
    bool optional = f->value != NULL && f->value[0] == '[';
    bool word = w->i < w->argc && (!optional || w->argv[w->i][0] != '-');
    if (f->value == NULL && value != NULL) {
        return err_set(e, ERR_USAGE, "'--%s' takes no value", f->name);
    }
    if (f->value != NULL && value == NULL && !word && !optional) {
        return err_set(e, ERR_USAGE, "'--%s' needs a value (" STR_FMT ")", f->name,
                       STR_ARG(flag_value_name(f)));
    }
    if (f->value != NULL && value == NULL && word) {
        value = w->argv[w->i++];
    }
    struct given g = {.id = (enum flag_id)id, .value = value};
    vec_push(&w->a->flags, g);
    return value != NULL ? check_value(f, value, e) : 0;
}

/// `--name`, `--name=value`, `-f`, `-n 5`, `-n5`
static int take_flag(struct walk *w, const char *arg, struct err *e)
{
    assert(arg[0] == '-');
    if (arg[1] != '-') {
        int id = find_flag(w, STR_NULL, arg[1]);
        return id < 0 ? err_set(e, ERR_USAGE, "unknown flag '%s'", arg)
                      : note_flag(w, id, arg[2] != '\0' ? arg + 2 : NULL, e);
    }
    struct str rest = str_of(arg + 2), name = str_cut(&rest, '=');
    int id = find_flag(w, name, 0);
    return id < 0 ? unknown_flag(w, name, e) : note_flag(w, id, rest.p, e);
}

// ---- words ---------------------------------------------------------------------------------

static int unknown_noun(const char *word, struct err *e)
{
    const char *names[128];
    size_t n = 0;
    for (size_t i = 0; i < n_commands && n < ARRAY_LEN(names) - 1; i++) {
        bool known = i > 0 && strcmp(commands[i].noun, commands[i - 1].noun) == 0;
        if (!known) {
            names[n++] = commands[i].noun;
        }
        if (!known && commands[i].other != NULL) {
            names[n++] = commands[i].other;
        }
    }
    const char *near = str_nearest(str_of(word), names, n);
    return near != NULL
               ? err_set(e, ERR_USAGE, "unknown command '%s', did you mean '%s'?", word, near)
               : err_set(e, ERR_USAGE, "unknown command '%s'; 'afloat help --all' lists them",
                         word);
}

static int unknown_verb(const struct command *noun, const char *word, struct err *e)
{
    const char *names[32];
    size_t n = 0;
    for (const struct command *c = noun; c != NULL && n < ARRAY_LEN(names);
         c = command_next_verb(c)) {
        names[n++] = c->verb;
    }
    const char *near = str_nearest(str_of(word), names, n);
    return near != NULL ? err_set(e, ERR_USAGE, "unknown command '%s %s', did you mean '%s %s'?",
                                  noun->noun, word, noun->noun, near)
                        : err_set(e, ERR_USAGE, "unknown command '%s %s'; see 'afloat help %s'",
                                  noun->noun, word, noun->noun);
}

static int take_noun(struct walk *w, const char *word, struct err *e)
{
    const struct command *c = command_find_noun(str_of(word));
    const char *colon = strchr(word, ':');
    if (c == NULL && colon != NULL && colon != word && colon[1] != '\0') {
        w->a->cmd = command_find_noun(STR("x")); // PLUGIN:COMMAND is short for x PLUGIN:COMMAND
        vec_push(&w->a->words, word);
        return 0;
    }
    if (c == NULL) {
        return unknown_noun(word, e);
    }
    if (c->verb[0] == '\0') {
        w->a->cmd = c;
    } else {
        w->noun = c;
    }
    return 0;
}

/// Take what the noun alone means; when that has a subject, a verb may still come.
static void assume_default(struct walk *w)
{
    assert(w->noun != NULL);
    const struct command *c = command_default(w->noun);
    w->a->cmd = c;
    w->verb_open = c != NULL && (c->mode & CMD_SUBJECT) != 0;
}

/// The default is meant unless a verb comes, before or after the subject.
static int take_open_verb(struct walk *w, const char *word, struct err *e)
{
    const struct command *verb = w->only_words ? NULL : command_find_verb(w->noun, str_of(word));
    if (verb != NULL) {
        w->a->cmd = verb;
        w->verb_open = false;
    } else if (w->a->words.n == 0) {
        vec_push(&w->a->words, word);
    } else {
        return unknown_verb(w->noun, word, e);
    }
    return 0;
}

static int take_word(struct walk *w, const char *word, struct err *e)
{
    struct args *a = w->a;
    if (a->cmd == NULL && w->noun == NULL) {
        return take_noun(w, word, e);
    }
    const struct command *first = a->cmd == NULL ? command_default(w->noun) : NULL;
    if (first != NULL && (first->mode & CMD_SUBJECT) != 0) {
        assume_default(w);
    }
    if (w->verb_open && !w->only_words) {
        return take_open_verb(w, word, e);
    }
    if (a->cmd == NULL) {
        a->cmd = command_find_verb(w->noun, str_of(word));
        return a->cmd != NULL ? 0 : unknown_verb(w->noun, word, e);
    }
    // a noun that is a command by itself may have verbs too: its first word, but not after `--`
    const struct command *verb = NULL;
    if (!w->only_words && a->words.n == 0 && a->cmd->verb[0] == '\0' && word[0] != '\0') {
        verb = command_find_verb(a->cmd, str_of(word));
    }
    if (verb != NULL) {
        a->cmd = verb;
    } else {
        vec_push(&a->words, word);
        w->only_words |= (a->cmd->mode & CMD_PROGRAM) != 0;
    }
    return 0;
}

static int take(struct walk *w, struct err *e)
{
    const char *arg = w->argv[w->i++];
    if (w->only_words || arg[0] != '-' || arg[1] == '\0') {
        return take_word(w, arg, e);
    }
    if (strcmp(arg, "--") == 0) {
        w->only_words = true;
        return 0;
    }
    struct str rest = str_of(arg + 2), name = str_cut(&rest, '=');
    bool global = find_flag(w, name, arg[1] == '-' ? 0 : arg[1]) >= 0;
    if (w->a->cmd == NULL && w->noun != NULL && !global) {
        assume_default(w); // a flag of the command where a verb could stand
    } else if (w->a->cmd == NULL && !global && (str_eqz(name, "plain") || str_eqz(name, "safe"))) {
        w->a->cmd = command_find_noun(STR("tui")); // which `afloat` alone is
    }
    return take_flag(w, arg, e);
}

static int check_count(const struct args *a, struct err *e)
{
    assert(a->cmd != NULL);
    size_t least, most;
    const struct command *c = a->cmd;
    const char *gap = c->verb[0] != '\0' ? " " : "";
    command_count_args(c, &least, &most);
    if (a->words.n < least) {
        return err_set(e, ERR_USAGE, "'%s%s%s' needs %s", c->noun, gap, c->verb, c->args);
    }
    if (a->words.n > most) {
        return err_set(e, ERR_USAGE, "'%s%s%s' does not take '%s'", c->noun, gap, c->verb,
                       a->words.p[most]);
    }
    return 0;
}

static int settle_command(struct walk *w, struct err *e)
{
    struct args *a = w->a;
    bool asks = args_has(a, FLAG_HELP) || args_has(a, FLAG_VERSION);
    if (a->cmd == NULL && w->noun != NULL) {
        a->only_noun = true;
        a->cmd = asks ? w->noun : command_default(w->noun);
        if (a->cmd == NULL) {
            return err_set(e, ERR_USAGE, "'%s' needs a verb; see 'afloat help %s'", w->noun->noun,
                           w->noun->noun);
        }
    }
    return a->cmd == NULL || asks ? 0 : check_count(a, e);
}

// ---- public --------------------------------------------------------------------------------

int args_parse(struct args *a, int argc, char *const *argv, struct err *e)
{
    *a = (struct args){0};
    assert(argc >= 0);
    struct walk w = {.a = a, .argc = argc, .argv = argv, .i = 1};
    while (w.i < argc) {
        int rc = take(&w, e);
        if (rc < 0) {
            return rc;
        }
    }
    return settle_command(&w, e);
}

void args_fini(struct args *a)
{
    vec_fini(&a->flags);
    vec_fini(&a->words);
}

bool args_has(const struct args *a, enum flag_id id)
{
    assert(id < FLAG__COUNT);
    for (size_t i = 0; i < a->flags.n; i++) {
        if (a->flags.p[i].id == id) {
            return true;
        }
    }
    return false;
}

const char *args_value(const struct args *a, enum flag_id id)
{
    assert(id < FLAG__COUNT && flags[id].value != NULL);
    const char *value = NULL;
    for (size_t i = 0; i < a->flags.n; i++) {
        value = a->flags.p[i].id == id ? a->flags.p[i].value : value;
    }
    return value;
}

int args_number(const struct args *a, enum flag_id id, int64_t fallback, int64_t *out,
                struct err *e)
{
    const char *value = args_value(a, id);
    *out = fallback;
    if (value != NULL && (!str_to_i64(str_of(value), out) || *out < 0)) {
        return err_set(e, ERR_USAGE, "'--%s' takes a number, not '%s'", flags[id].name, value);
    }
    return 0;
}

const char *args_word(const struct args *a, size_t i)
{
    return i < a->words.n ? a->words.p[i] : NULL;
}
