// Does a line run commands that its text does not show?
//
// A name that the shell decides ("$X a") is the plain case. A shell that reads its input is another: only the text
// of a here-document of its own was read with the line. And bash has builtins and variables that take commands.

#include "permit/match_int.h"

/// Is this a name for the input, or for what only the shell knows?
static bool names_input(const struct cmd_word *w)
{
    return w->dynamic || str_eqz(w->text, "-") || str_starts(w->text, "/dev/") ||
           str_starts(w->text, "/proc/");
}

/// "$DIR/env.sh": a script like another one, wherever it is.
static bool names_file(const struct cmd_word *w)
{
    return w->dynamic && str_index(w->text, '/') > 0;
}

/// Does this option of a shell take the next word?
static bool takes_word(struct str w)
{
    bool letters = w.p[1] != '-';
    return letters ? str_index(w, 'o') > 0 || str_index(w, 'O') > 0
                   : str_eqz(w, "--rcfile") || str_eqz(w, "--init-file");
}

/// Does this shell run what comes to its input?
static bool reads_input(const struct cmd_simple *c)
{
    for (size_t i = 1; i < c->n_words; i++) {
        struct str w = c->words[i].text;
        bool option = w.n > 1 && (w.p[0] == '-' || w.p[0] == '+') && !c->words[i].dynamic;
        bool letters = option && w.p[1] != '-' && w.p[0] == '-';
        if (letters && str_index(w, 's') > 0 && str_index(w, 'c') < 0) {
            return true;
        }
        if (!option || (letters && str_index(w, 'c') > 0)) {
            return !option && names_input(&c->words[i]);
        }
        if (str_eqz(w, "--version") || str_eqz(w, "--help")) {
            return false;
        }
        i += takes_word(w);
    }
    return true;
}

/// su without -c, and sudo -s or -i without a command, start a shell that reads its input.
static bool starts_shell(const struct cmd_simple *c)
{
    struct str name = cmd_name(c);
    bool su = str_eqz(name, "su"), sudo = str_eqz(name, "sudo") || str_eqz(name, "doas");
    bool shell = su;
    for (size_t i = 1; (su || sudo) && i < c->n_words; i++) {
        struct str w = c->words[i].text;
        bool letters = match__is_option(w) && w.p[1] != '-';
        if (su && ((letters && str_index(w, 'c') > 0) || str_starts(w, "--command"))) {
            return false;
        }
        if (sudo && !match__is_option(w)) {
            return false;
        }
        shell |= (letters && (str_index(w, 's') > 0 || str_index(w, 'i') > 0)) ||
                 str_eqz(w, "--shell") || str_eqz(w, "--login");
        i += sudo && (str_eqz(w, "-u") || str_eqz(w, "-g"));
    }
    return shell;
}

/// Text that builtins expand once more as the index of an array: 'a[$(x)]'.
static bool holds_index(struct str w)
{
    for (size_t i = 0; i + 2 < w.n; i++) {
        if (w.p[i] == '[' && (w.p[i + 1] == '`' || (w.p[i + 1] == '$' && w.p[i + 2] == '('))) {
            return true;
        }
    }
    return false;
}

/// Variables that bash takes commands from, and values that arithmetic would run.
static bool assigns_commands(const struct cmd_simple *c)
{
    static const char *const names[] = {"BASH_ENV", "PROMPT_COMMAND"};
    for (size_t i = 0; i < c->n_assigns + c->n_words; i++) {
        bool word = i >= c->n_assigns; // `export A=1`, `env A=1`
        struct str value = word ? c->words[i - c->n_assigns].text : c->assigns[i].text;
        struct str name = str_cut(&value, '=');
        bool runs =
            str_eqz(name, "PS4") && (str_index(value, '`') >= 0 || str_index(value, '(') >= 0);
        if (value.p != NULL && (runs || str_lookup(name, names, ARRAY_LEN(names)) >= 0 ||
                                (!word && holds_index(value)))) {
            return true;
        }
    }
    return false;
}

/// Builtins that run an argument, or make a name stand for another command.
static bool makes_commands(const struct cmd_simple *c)
{
    static const struct {
        const char *name, *option; // with this option, or any operand ("=": one with a `=`)
    } rows[] = {{"alias", "="},     {"mapfile", "-C"}, {"readarray", "-C"},
                {"compgen", "-C"},  {"compgen", "-W"}, {"compgen", "-F"},
                {"complete", "-C"}, {"hash", "-p"},    {"enable", "-f"}};
    static const char *const indexes[] = {"let",    "test",    "[",        "[[",      "declare",
                                          "local",  "typeset", "read",     "unset",   "wait",
                                          "export", "printf",  "readonly", "mapfile", "readarray"};
    struct str name = cmd_name(c);
    bool index = str_lookup(name, indexes, ARRAY_LEN(indexes)) >= 0;
    index =
        index && (!str_eqz(name, "printf") || (c->n_words > 1 && str_eqz(c->words[1].text, "-v")));
    for (size_t i = 1; i < c->n_words; i++) {
        struct str w = c->words[i].text;
        if (index && !c->words[i].dynamic && holds_index(w)) {
            return true;
        }
        for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
            bool fits =
                rows[k].option[0] == '=' ? str_index(w, '=') > 0 : str_starts(w, rows[k].option);
            if (fits && str_eqz(name, rows[k].name)) {
                return true;
            }
        }
    }
    return false;
}

/// The text of a here-document of its own was read with the line.
static bool hides_what_it_runs(const struct cmd_simple *c, const void *arg)
{
    if (c->n_words == 0 || assigns_commands(c)) {
        return assigns_commands(c);
    }
    struct str name = cmd_name(c);
    bool source = str_eqz(name, "source") || str_eqz(name, ".");
    (void)arg;
    return (c->words[0].dynamic && !c->pattern) || starts_shell(c) || makes_commands(c) ||
           (source && c->n_words > 1 && names_input(&c->words[1]) && !names_file(&c->words[1])) ||
           (cmd_is_shell(name) && !c->fed && reads_input(c));
}

bool match_is_opaque(const struct cmdline *l, struct arena *a)
{
    bool gave_up = false;
    return (l->flags & CMD_BROKEN) != 0 ||
           match__search(l, a, hides_what_it_runs, NULL, &gave_up) || gave_up;
}
