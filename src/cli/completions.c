// Completions for bash, zsh and fish, written from the tables.
//
// bash and zsh get one function that finds noun and verb among the words so far and offers what may
// follow; it needs no call of afloat while a person types. fish has rules of its own for that.

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

static void add_verbs(struct out *o, const struct command *first)
{
    for (const struct command *c = first; c != NULL; c = command_next_verb(c)) {
        out_addf(o, "%s%s", c->verb, c->verb[0] != '\0' ? " " : "");
    }
}

// "bash|zsh|fish": arguments in small letters are words to type.
static bool is_choice(const char *args)
{
    return args[0] >= 'a' && args[0] <= 'z';
}

static void add_choices(struct out *o, const char *args)
{
    struct str rest = str_of(args);
    while (rest.n != 0) {
        struct str word = str_cut(&rest, '|');
        out_addf(o, STR_FMT " ", STR_ARG(word));
    }
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
        } else {
            add_verbs(o, c);
        }
        out_add(o, STR("' flags='"));
        add_flags(o, c);
        out_add(o, STR("' ;;\n"));
    }
    out_add(o, STR("    esac\n"));
}

// Flags whose value is the next word: that word is no noun.
static void add_value_flags(struct out *o)
{
    const char *between = "";
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        if (flags[i].value != NULL) {
            out_addf(o, "%s--%s", between, flags[i].name);
            if (flags[i].letter != 0) {
                out_addf(o, "|-%c", flags[i].letter);
            }
            between = "|";
        }
    }
}

static void add_walk(struct out *o, const char *words, const char *first, const char *end)
{
    out_addf(o, "    for ((i = %s; i < %s; i++)); do\n        case \"${%s[i]}\" in\n            ",
             first, end, words);
    add_value_flags(o);
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

static void add_fish_flag(struct out *o, const struct flag *f, const struct command *row)
{
    out_add(o, STR("complete -c afloat"));
    if (row != NULL) {
        out_add(o, STR(" -n '__fish_seen_subcommand_from "));
        add_names(o, row, " ");
        out_add(o, STR("'"));
    }
    out_addf(o, " -l %s", f->name);
    if (f->letter != 0) {
        out_addf(o, " -s %c", f->letter);
    }
    out_addf(o, "%s -d ", f->value != NULL ? " -r" : "");
    add_quoted(o, f->help);
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
            if (c->verb[0] != '\0') {
                out_addf(o, "%s", c->verb);
            } else {
                add_choices(o, c->args);
            }
            out_add(o, STR("' -d "));
            add_quoted(o, c->help);
            out_add(o, STR("\n"));
        }
        for (size_t i = 0; i < FLAG__COUNT; i++) {
            if (!flags[i].global && command_takes(c, (enum flag_id)i)) {
                add_fish_flag(o, &flags[i], c);
            }
        }
    }
}

static void print_fish(struct out *o)
{
    out_add(o, STR("# fish completions of afloat: ~/.config/fish/completions/afloat.fish\n"));
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        if (flags[i].global) {
            add_fish_flag(o, &flags[i], NULL);
        }
    }
    for (const struct command *c = commands; c != NULL; c = next_noun(c)) {
        add_fish_noun(o, c);
    }
}

// ---- the command ---------------------------------------------------------------------------

int cmd_completions(struct cli *c)
{
    static const struct {
        const char *name;
        void (*print)(struct out *o);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const char *names[ARRAY_LEN(shells)];
    const char *wanted = args_word(&c->args, 0);
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        names[i] = shells[i].name;
        if (strcmp(wanted, shells[i].name) == 0) {
            shells[i].print(&c->out);
            return EXIT_OK;
        }
    }
    const char *near = str_nearest(str_of(wanted), names, ARRAY_LEN(names));
    out_error(&c->out,
              near != NULL ? "no completions for '%s', did you mean '%s'?"
                           : "no completions for '%s': bash, zsh and fish%s have them",
              wanted, near != NULL ? near : "");
    return EXIT_USAGE;
}
