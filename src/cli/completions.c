// Completions for bash, zsh and fish, written from the tables.
//
// bash and zsh get one function that finds noun and verb among the words so far and offers what may
// follow; it does not call afloat while the user types. fish has rules of its own for that.

#include <assert.h>

#include "cli/cli_int.h"

// ---- lists of words ------------------------------------------------------------------------

static void add_nouns(struct out *o)
{
    for (size_t i = 0; i < n_commands; i++) {
        if (i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0) {
            out_addf(o, "%s ", commands[i].noun);
        }
    }
}

/// The words of "bash|zsh|fish".
static void add_choices(struct out *o, const char *args)
{
    for (struct str rest = str_of(args); rest.n != 0;) {
        struct str word = str_cut(&rest, '|');
        out_addf(o, STR_FMT " ", STR_ARG(word));
    }
}

/// Arguments in small letters are words to type.
static bool is_choice(const char *args)
{
    return args[0] >= 'a' && args[0] <= 'z';
}

static void add_flags(struct out *o, const struct command *first)
{
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        bool taken = flags[i].global;
        for (const struct command *c = first; c != NULL && !taken; c = command_next_verb(c)) {
            taken = command_takes(c, (enum flag_id)i);
        }
        if (taken) {
            out_addf(o, "--%s ", flags[i].name);
        }
    }
}

static const struct command *next_noun(const struct command *row)
{
    assert(row != NULL);
    const struct command *last = row;
    while (command_next_verb(last) != NULL) {
        last = command_next_verb(last);
    }
    return last + 1 < commands + n_commands ? last + 1 : NULL;
}

static void add_names(struct out *o, const struct command *row, const char *between)
{
    out_addf(o, "%s", row->noun);
    if (row->other != NULL) {
        out_addf(o, "%s%s", between, row->other);
    }
}

// ---- bash and zsh --------------------------------------------------------------------------

// case "$noun" in hub) words='...' flags='...' ;; ... esac
static void add_cases(struct out *o)
{
    out_add(o, STR("    case \"$noun\" in\n        '') words='"));
    add_nouns(o);
    out_add(o, STR("' flags='"));
    add_flags(o, NULL);
    out_add(o, STR("' ;;\n"));
    for (const struct command *c = commands; c != NULL; c = next_noun(c)) {
        out_add(o, STR("        "));
        add_names(o, c, "|");
        out_add(o, STR(") words='"));
        if (is_choice(c->args)) {
            add_choices(o, c->args);
        } else if (strcmp(c->noun, "help") == 0) {
            add_nouns(o);
        }
        for (const struct command *v = c; v != NULL; v = command_next_verb(v)) {
            out_addf(o, "%s%s", v->verb, v->verb[0] != '\0' ? " " : "");
        }
        out_add(o, STR("' flags='"));
        add_flags(o, c);
        out_add(o, STR("' ;;\n"));
    }
    out_add(o, STR("    esac\n"));
}

static void add_walk(struct out *o, const char *words, const char *first, const char *end)
{
    const char *between = "";
    out_addf(o, "    for ((i = %s; i < %s; i++)); do\n        case \"${%s[i]}\" in\n            ",
             first, end, words);
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        if (flags[i].value != NULL) { // its value is the next word, which is no noun then
            out_addf(o, flags[i].letter != 0 ? "%s--%s|-%c" : "%s--%s", between, flags[i].name,
                     flags[i].letter);
            between = "|";
        }
    }
    out_addf(o,
             ") ((i++)) ;;\n"
             "            -*) ;;\n"
             "            *) if [[ -z $noun ]]; then noun=${%s[i]}; else more=1; fi ;;\n"
             "        esac\n"
             "    done\n",
             words);
}

static void print_bash(struct out *o)
{
    out_add(o, STR("# bash completions of afloat: source <(afloat completions bash)\n"
                   "_afloat() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} noun= more= words= flags= i\n"));
    add_walk(o, "COMP_WORDS", "1", "COMP_CWORD");
    add_cases(o);
    out_add(o, STR("    if [[ $cur == -* ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
                   "    elif [[ -z $more && -n $words ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                   "    else\n"
                   "        COMPREPLY=()\n"
                   "    fi\n"
                   "}\n"
                   "complete -o default -F _afloat afloat\n"));
}

static void print_zsh(struct out *o)
{
    out_add(o, STR("#compdef afloat\n"
                   "# zsh completions of afloat: a file _afloat in a directory of $fpath\n"
                   "_afloat() {\n"
                   "    local cur=${words[CURRENT]} noun= more= flags= i\n"
                   "    local -a typed=(\"${words[@]}\")\n"
                   "    local words=\n"));
    add_walk(o, "typed", "2", "CURRENT");
    add_cases(o);
    out_add(o, STR("    if [[ $cur == -* ]]; then\n"
                   "        compadd -- ${=flags}\n"
                   "    elif [[ -z $more && -n $words ]]; then\n"
                   "        compadd -- ${=words}\n"
                   "    else\n"
                   "        _files\n"
                   "    fi\n"
                   "}\n"
                   "if [[ $funcstack[1] == _afloat ]]; then\n"
                   "    _afloat \"$@\"\n"
                   "else\n"
                   "    compdef _afloat afloat\n"
                   "fi\n"));
}

// ---- fish ----------------------------------------------------------------------------------

static void add_quoted(struct out *o, const char *text)
{
    out_add(o, STR("'"));
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            out_add(o, STR("\\"));
        }
        out_add(o, (struct str){text, 1});
    }
    out_add(o, STR("'"));
}

static void add_fish_flag(struct out *o, const struct flag *f, const char *help,
                          const struct command *row)
{
    out_add(o, STR("complete -c afloat"));
    if (row != NULL) {
        out_add(o, STR(" -n '__fish_seen_subcommand_from "));
        add_names(o, row, " ");
        out_add(o, STR("'"));
    }
    out_addf(o, f->letter != 0 ? " -l %s -s %c" : " -l %s", f->name, f->letter);
    out_addf(o, "%s -d ", f->value != NULL ? " -r" : "");
    add_quoted(o, help != NULL ? help : f->help);
    out_add(o, STR("\n"));
}

static void add_fish_noun(struct out *o, const struct command *first)
{
    out_addf(o, "complete -c afloat -f -n __fish_use_subcommand -a %s -d ", first->noun);
    add_quoted(o, first->help);
    out_add(o, STR("\n"));
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        if (c->verb[0] != '\0' || is_choice(c->args)) {
            out_add(o, STR("complete -c afloat -f -n '__fish_seen_subcommand_from "));
            add_names(o, c, " ");
            out_add(o, STR("' -a '"));
            add_choices(o, c->verb[0] != '\0' ? c->verb : c->args);
            out_add(o, STR("' -d "));
            add_quoted(o, c->help);
            out_add(o, STR("\n"));
        }
        for (const struct flag_use *f = c->flags; f->id != FLAG__COUNT; f++) {
            add_fish_flag(o, &flags[f->id], f->help, c);
        }
    }
}

static void print_fish(struct out *o)
{
    out_add(o, STR("# fish completions of afloat: ~/.config/fish/completions/afloat.fish\n"));
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        if (flags[i].global) {
            add_fish_flag(o, &flags[i], NULL, NULL);
        }
    }
    for (const struct command *c = commands; c != NULL; c = next_noun(c)) {
        add_fish_noun(o, c);
    }
}

// ---- the command ---------------------------------------------------------------------------

int cmd_completions(struct cli *c)
{
    static const char *const names[] = {"bash", "zsh", "fish"};
    static void (*const prints[])(struct out * o) = {print_bash, print_zsh, print_fish};
    const char *wanted = args_word(&c->args, 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(wanted, names[i]) == 0) {
            prints[i](&c->out);
            return EXIT_OK;
        }
    }
    const char *near = str_nearest(str_of(wanted), names, ARRAY_LEN(names));
    out_error(&c->out,
              near != NULL ? "no completions for '%s', did you mean '%s'?"
                           : "no completions for '%s'; there are some for bash, zsh and fish%s",
              wanted, near != NULL ? near : "");
    return EXIT_USAGE;
}
