// Completions for bash, zsh and fish.
//
// The scripts know nothing: at each Tab they call `afloat complete WORDS...`, whose last word is the one being typed,
// and it prints what may stand there, one a line, with an explanation after a tab. So there is one place that decides,
// and names (bots, runs, sessions, plugins, ...) are those that exist now. It asks a hub that runs and never starts
// one; where nothing fits it prints nothing, and the shell offers files.

#include <assert.h>
#include <unistd.h>

#include "base/map.h"
#include "base/visible.h"
#include "cli/sent.h"
#include "cli/sessions.h"
#include "client/travel.h"
#include "config/secrets.h"
#include "env/env.h"
#include "env/spec.h"

/// What the words before the last one mean.
struct typed {
    const struct command *noun; // its first row; NULL before it was typed
    const struct command *row;  // NULL while the verb is missing
    const struct flag *flag;    // whose value is being typed, or NULL
    size_t n;                   // arguments before this one
    struct str before;          // the last of them
    bool program;               // what follows belongs to another program
    const char *start;          // of the word that is being typed
};

static void offer(struct cli *c, const struct typed *t, const char *before, struct str word,
                  const char *help)
{
    char *whole = xasprintf("%s" STR_FMT, before, STR_ARG(word));
    if (strncmp(whole, t->start, strlen(t->start)) == 0) {
        struct buf text = {
            .max = SIZE_MAX}; // a title is a model's text, and the shell prints it as it is
        visible_add(&text, str_of(help != NULL ? help : ""), false);
        out_addf(&c->out, "%s%s%s\n", whole, text.n != 0 ? "\t" : "", buf_z(&text));
        buf_fini(&text);
    }
    free(whole);
}

static void offer_choices(struct cli *c, const struct typed *t, struct str choices)
{
    while (choices.n != 0) {
        offer(c, t, "", str_cut(&choices, '|'), NULL);
    }
}

// ---- names of things that exist ------------------------------------------------------------

/// Where the names of a noun come from.
static const struct names {
    const char *noun;
    enum op_id op;
    const char *rows, *id, *help;
} names[] = {
    {"bots", OP_BOT_LIST, "bots", "name", "description"},
    {"runs", OP_RUN_LIST, "runs", "run_id", "summary"},
    {"sessions", OP_SESSION_LIST, "sessions", "id", "title"},
    {"plugin", OP_PLUGIN_LIST, "plugins", "name", "state"},
    {"tool", OP_TOOL_LIST, "tools", "name", NULL},
    {"skills", OP_SKILL_LIST, "skills", "name", "description"},
    {"feature", OP_FEATURE_LIST, "features", "name", "description"},
    {"generations", OP_GENERATIONS, "generations", "generation", "at"},
    {"permission", OP_PERMISSION_LIST, "rules", "id", "match"},
    {"models", OP_PROVIDER_LIST, "providers", "name", "kind"},
    {"type", OP_SESSION_TYPES, "types", "name", "description"},
    {"template", OP_TEMPLATE_LIST, "templates", "name", "description"},
    {"mcp", OP_MCP_LIST, "servers", "name", "state"},
    {"pty", OP_PTY_LIST, "ptys", "id", "name"},
    {"x", OP_COMMAND_LIST, "commands", "name", "description"},
};

static void offer_names(struct cli *c, const struct typed *t, const char *noun)
{
    const struct names *n = names;
    while (n < names + ARRAY_LEN(names) && strcmp(n->noun, noun) != 0) {
        n++;
    }
    if (n == names + ARRAY_LEN(names)) {
        return;
    }
    char *here = getcwd(NULL, 0);
    bool by_path = n->op == OP_SESSION_TYPES;
    struct ask_param where = {by_path ? "path" : "working_dir", here};
    bool asks_where =
        (by_path || strstr(ops[n->op].params, "working_dir:") != NULL) && here != NULL;
    const struct json *v = NULL;
    struct arena arena = {0};
    if (ask_parsed(c, n->op, &where, asks_where ? 1 : 0, &arena, &v) == EXIT_OK) {
        json_foreach_item (row, json_get(v, n->rows)) {
            char number[24];
            snprintf(number, sizeof number, "%lld", (long long)json_int(json_get(row, n->id), 0));
            struct str id = json_str(json_get(row, n->id), number);
            struct str help = json_str(json_get(row, n->help != NULL ? n->help : ""), "");
            struct str line = str_cut(&help, '\n');
            offer(c, t, "", id, line.n != 0 ? arena_strdup(&arena, line) : NULL);
        }
    }
    arena_fini(&arena);
    free(here);
}

/// The tasks of the project's env.toml; the file is read, nothing of it runs.
static void offer_tasks(struct cli *c, const struct typed *t)
{
    struct env_project project = {0};
    struct env_spec spec = {0};
    struct env_vars none;
    struct arena arena = {0};
    env_vars_init(&none, &arena);
    if (env_project_find(&project, ".", NULL) == 0 && project.root != NULL) {
        if (env_spec_read(&spec, project.root, &none, NULL) == 0) {
            vec_foreach (task, &spec.tasks) {
                offer(c, t, "", str_of(task->name), NULL);
            }
        }
        env_spec_fini(&spec);
    }
    env_project_fini(&project);
    env_vars_fini(&none);
    arena_fini(&arena);
}

/// The names of secrets; values are not read.
static void offer_secrets(struct cli *c, const struct typed *t)
{
    struct secret_names found = {0};
    if (secrets_list(c->home.secrets, &found, NULL) == 0) {
        vec_foreach (name, &found) {
            offer(c, t, "", str_of(*name), NULL);
        }
    }
    secret_names_fini(&found);
}

/// Rows of an operation that have a provider and a model, as PROVIDER/MODEL, each once.
static void offer_used(struct cli *c, const struct typed *t, enum op_id op, const char *rows,
                       const char *provider, struct map *seen)
{
    const struct json *v = NULL;
    struct arena arena = {0};
    if (ask_parsed(c, op, NULL, 0, &arena, &v) == EXIT_OK) {
        json_foreach_item (row, json_get(v, rows)) {
            struct str model = json_get_text(row, "model");
            struct str of = json_str(json_get(row, provider), "");
            if (model.n != 0 && of.n != 0) {
                const char *whole =
                    arena_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(of), STR_ARG(model));
                if (map_get(seen, str_of(whole)) == NULL) {
                    map_set(seen, str_of(whole), seen);
                    offer(c, t, "", str_of(whole), NULL);
                }
            }
        }
    }
    arena_fini(&arena);
}

/// Models: those that providers are set to and sessions used; after "PROVIDER/" all that it offers.
static void offer_models(struct cli *c, const struct typed *t)
{
    const char *slash = strchr(t->start, '/');
    struct arena arena = {0};
    struct buf keys = {.max = 64 << 10};
    struct map seen = {0};
    const struct json *v = NULL;
    if (slash == NULL) {
        offer_used(c, t, OP_PROVIDER_LIST, "providers", "name", &seen);
        offer_used(c, t, OP_SESSION_LIST, "sessions", "provider", &seen);
    } else if (sent_write_keys(c, &keys) == EXIT_OK) {
        char *provider = xstrndup(t->start, (size_t)(slash - t->start));
        char *before = xstrndup(t->start, (size_t)(slash - t->start) + 1);
        models__of(c, provider, keys.n != 0, &arena, &v);
        json_foreach_item (model, json_get(v, "models")) {
            offer(c, t, before, json_str(model, ""), NULL);
        }
        free(before);
        free(provider);
    }
    buf_fini(&keys);
    map_fini(&seen);
    arena_fini(&arena);
}

/// Those that are built in, and the tables [engines.NAME].
static void offer_engines(struct cli *c, const struct typed *t)
{
    struct config *config = travel_config(&c->home, false, NULL);
    size_t at = 0;
    offer_choices(c, t, STR("native|codex|claude"));
    for (const char *name;
         config != NULL && (name = config_next_name(config, "engines", &at)) != NULL;) {
        if (strcmp(name, "codex") != 0 && strcmp(name, "claude") != 0) {
            offer(c, t, "", str_of(name), NULL);
        }
    }
    config_free(config);
}

// ---- what may stand at a place -------------------------------------------------------------

static void offer_nouns(struct cli *c, const struct typed *t)
{
    for (size_t i = 0; i < n_commands; i++) {
        bool first = i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0;
        if (first && commands[i].group != GROUP_INNER) {
            offer(c, t, "", str_of(commands[i].noun), commands[i].help);
        }
    }
}

static void offer_verbs(struct cli *c, const struct typed *t, const struct command *noun)
{
    for (const struct command *v = noun; v != NULL; v = command_next_verb(v)) {
        if (v->verb[0] != '\0' && v->group != GROUP_INNER) {
            offer(c, t, "", str_of(v->verb), v->help);
        }
    }
}

static void offer_flags(struct cli *c, const struct typed *t)
{
    const struct command *first = t->row != NULL ? t->row : t->noun;
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        const char *help = flags[i].global ? flags[i].help : NULL;
        for (const struct command *r = first; r != NULL && help == NULL;
             r = t->row == NULL ? command_next_verb(r) : NULL) {
            for (const struct flag_use *f = r->flags; f->id != FLAG__COUNT; f++) {
                if (f->id == (enum flag_id)i) {
                    help = f->help != NULL ? f->help : flags[i].help;
                }
            }
        }
        if (help != NULL) {
            offer(c, t, "--", str_of(flags[i].name), help);
        }
    }
}

static void offer_value(struct cli *c, const struct typed *t)
{
    assert(t->flag != NULL);
    static const struct {
        enum flag_id flag;
        const char *noun;
    } of[] = {{FLAG_BOT, "bots"},       {FLAG_RESUME, "sessions"}, {FLAG_RESUME_RUN, "runs"},
              {FLAG_PLUGINS, "plugin"}, {FLAG_PROVIDER, "models"}, {FLAG_SESSION, "sessions"},
              {FLAG_TO, "generations"}, {FLAG_TYPE, "type"},       {FLAG_RESUME_PTY, "runs"}};
    offer_choices(c, t, flag_choices(t->flag));
    if (t->flag == &flags[FLAG_MODEL]) {
        offer_models(c, t);
    } else if (t->flag == &flags[FLAG_ENGINE]) {
        offer_engines(c, t);
    } else if (t->flag == &flags[FLAG_LANG]) { // which takes 'py' and 'mjs' too
        offer_choices(c, t, STR("lua|python|node|c"));
    }
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        if (t->flag == &flags[of[i].flag]) {
            offer_names(c, t, of[i].noun);
        }
    }
}

/// An argument is named in the row: small letters are words to type, BOT and RUN are what they say, DIR, PATH
/// and FILE are left to the shell, and the rest is a name of the noun's own kind.
static void offer_argument(struct cli *c, const struct typed *t)
{
    assert(t->row != NULL);
    struct str rest = str_of(t->row->args), word = str_cut(&rest, ' ');
    for (size_t i = 0; i < t->n; i++) {
        word = str_ends(word, "...]") ? word : str_cut(&rest, ' ');
    }
    word = str_starts(word, "[") ? str_from(word, 1) : word;
    if (word.n != 0 && word.p[0] >= 'a' && word.p[0] <= 'z') {
        offer_choices(c, t, word);
    } else if (str_starts(word, "COMMAND")) {
        offer_nouns(c, t);
    } else if (str_starts(word, "VERB")) {
        offer_verbs(c, t, command_find_noun(t->before));
    } else if (str_starts(word, "BOT") || str_starts(word, "RUN")) {
        offer_names(c, t, word.p[0] == 'B' ? "bots" : "runs");
    } else if (strcmp(t->row->verb, "task") == 0) {
        offer_tasks(c, t);
    } else if (strcmp(t->row->noun, "secret") == 0) {
        offer_secrets(c, t);
    } else if (strcmp(t->row->noun, "reload") == 0) {
        offer_names(c, t, "plugin");
    } else if (t->n == 0 && strcmp(t->row->verb, "new") != 0 &&
               strcmp(t->row->verb, "create") != 0) {
        offer_names(c, t, t->row->noun);
    }
}

// ---- the words so far ----------------------------------------------------------------------

/// The flag that `word` is; of two with one name that of the command.
static const struct flag *flag_of(const struct typed *t, struct str word)
{
    const struct flag *found = NULL;
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        bool same = str_starts(word, "--") ? str_eqz(str_from(word, 2), flags[i].name)
                                           : word.n == 2 && word.p[1] == flags[i].letter;
        bool own = t->row != NULL && command_takes(t->row, (enum flag_id)i);
        found = same && (found == NULL || own) ? &flags[i] : found;
    }
    return found;
}

static void take_word(struct typed *t, struct str word)
{
    if (t->noun == NULL) {
        t->noun = command_find_noun(word);
        t->row = t->noun != NULL && t->noun->verb[0] == '\0' ? t->noun : NULL;
        return;
    }
    const struct command *verb = t->n == 0 && (t->row == NULL || t->row->verb[0] == '\0')
                                     ? command_find_verb(t->noun, word)
                                     : NULL;
    if (verb != NULL) {
        t->row = verb;
        return;
    }
    t->row =
        t->row != NULL ? t->row : command_default(t->noun); // its subject may stand before the verb
    t->n++;
    t->before = word;
    t->program = t->row != NULL && (t->row->mode & CMD_PROGRAM) != 0;
}

int cmd_complete(struct cli *c)
{
    struct typed t = {0};
    // the first word is the name of the program
    for (size_t i = 1; i + 1 < c->args.words.n && !t.program; i++) {
        struct str word = str_of(c->args.words.p[i]);
        const struct flag *flag = str_starts(word, "-") ? flag_of(&t, word) : NULL;
        if (t.flag != NULL) {
            t.flag = NULL; // this was its value
        } else if (str_starts(word, "-")) {
            t.flag = flag != NULL && flag->value != NULL ? flag : NULL;
        } else {
            take_word(&t, word);
        }
    }
    t.start = c->args.words.n > 1 ? c->args.words.p[c->args.words.n - 1] : "";
    if (t.program) {
        return EXIT_OK;
    }
    if (t.flag != NULL) {
        offer_value(c, &t);
    } else if (t.start[0] == '-') {
        offer_flags(c, &t);
    } else if (t.noun == NULL) {
        offer_nouns(c, &t);
    } else {
        if (t.n == 0 && (t.row == NULL || t.row->verb[0] == '\0')) {
            offer_verbs(c, &t, t.noun);
        }
        if (t.row != NULL) {
            offer_argument(c, &t);
        }
    }
    return EXIT_OK;
}

// ---- the scripts ---------------------------------------------------------------------------

static const struct {
    const char *shell, *text;
} scripts[] = {
    {"bash", "# bash completions of afloat: source <(afloat completions bash)\n"
             "_afloat() {\n"
             "    local IFS=$'\\n'\n"
             "    COMPREPLY=($(\"${COMP_WORDS[0]}\" --no-start --quiet complete "
             "\"${COMP_WORDS[@]:0:COMP_CWORD+1}\" "
             "2>/dev/null | cut -f1))\n"
             "}\n"
             "complete -o default -F _afloat afloat\n"},
    {"zsh", "#compdef afloat\n"
            "# zsh completions of afloat: a file _afloat in a directory of $fpath\n"
            "_afloat() {\n"
            "    local line\n"
            "    local -a found texts\n"
            "    for line in \"${(@f)$(\"${words[1]}\" --no-start --quiet complete "
            "\"${(@)words[1,CURRENT]}\" "
            "2>/dev/null)}\"; do\n"
            "        [[ -n $line ]] || continue\n"
            "        found+=(\"${line%%$'\\t'*}\")\n"
            "        texts+=(\"${line/$'\\t'/  -- }\")\n"
            "    done\n"
            "    if (( $#found )); then compadd -l -d texts -a found; else _files; fi\n"
            "}\n"
            "if [[ $funcstack[1] == _afloat ]]; then\n"
            "    _afloat \"$@\"\n"
            "else\n"
            "    compdef _afloat afloat\n"
            "fi\n"},
    {"fish",
     "# fish completions of afloat: ~/.config/fish/completions/afloat.fish\n"
     "function __afloat_complete\n"
     "    set -l typed (commandline -opc) (commandline -ct)\n"
     "    $typed[1] --no-start --quiet complete $typed 2>/dev/null\n"
     "end\n"
     "complete -c afloat -f -n 'test -n \"$(__afloat_complete)\"' -a '(__afloat_complete)'\n"},
};

int cmd_completions(struct cli *c)
{
    const char *wanted = args_word(&c->args, 0), *known[ARRAY_LEN(scripts)];
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        known[i] = scripts[i].shell;
        if (strcmp(wanted, scripts[i].shell) == 0) {
            out_add(&c->out, str_of(scripts[i].text));
            return EXIT_OK;
        }
    }
    const char *near = str_nearest(str_of(wanted), known, ARRAY_LEN(known));
    out_error(&c->out,
              near != NULL ? "no completions for '%s', did you mean '%s'?"
                           : "no completions for '%s'; there are some for bash, zsh and fish%s",
              wanted, near != NULL ? near : "");
    return EXIT_USAGE;
}
