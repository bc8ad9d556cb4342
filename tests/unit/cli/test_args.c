#include "cli/args.h"
#include "unit/test.h"

// Parse a line of words; the result is the caller's to end.
static int parse(struct args *a, const char *line, struct err *e)
{
    static char text[512];
    char *argv[32];
    int argc = 0;
    snprintf(text, sizeof text, "afloat %s", line);
    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;) {
        if (word[0] != '\0') {
            argv[argc++] = word;
        }
    }
    return args_parse(a, argc, argv, e);
}

static void check_command(const char *line, const char *noun, const char *verb)
{
    struct args a;
    struct err e = {0};
    int rc = parse(&a, line, &e);
    if (rc != 0) {
        test_fail(__FILE__, __LINE__, "'%s': %s", line, e.msg);
    }
    CHECK_STR(a.cmd->noun, noun);
    CHECK_STR(a.cmd->verb, verb);
    args_fini(&a);
}

static void check_refused(const char *line, const char *message)
{
    struct args a;
    struct err e = {0};
    CHECK_INT(parse(&a, line, &e), ERR_USAGE);
    CHECK_STR(e.msg, message);
    args_fini(&a);
}

TEST(commands_are_found_in_every_spelling)
{
    check_command("feature list", "feature", "list");
    check_command("features ls", "feature", "list");
    check_command("features", "feature", "list");
    check_command("secret rm X", "secret", "remove");
    check_command("secrets delete X", "secret", "remove");
    check_command("token get", "token", "show");
    check_command("config", "config", "show");
    check_command("config get", "config", "show");
    check_command("events -f", "events", "list");
    check_command("event emit user.x", "events", "emit");
    check_command("log -n 3", "logs", "");
    check_command("--json feature --quiet list", "feature", "list");
    check_command("events -q --json -f", "events", "list");
    check_command("--safe", "tui", ""); // `afloat` alone is the interface
}

TEST(what_is_not_there_names_what_is)
{
    check_refused("stauts", "unknown command 'stauts', did you mean 'status'?");
    check_refused("xyzzy", "unknown command 'xyzzy'; 'afloat help --all' lists them");
    check_refused("feature enabel",
                  "unknown command 'feature enabel', did you mean 'feature enable'?");
    check_refused("feature xyzzy", "unknown command 'feature xyzzy'; see 'afloat help feature'");
    check_refused("token", "'token' needs a verb; see 'afloat help token'");
    check_refused("events --typs x", "unknown flag '--typs', did you mean '--types'?");
    check_refused("status --types x", "unknown flag '--types'");
    check_refused("status -x", "unknown flag '-x'");
    check_refused("status --json=1", "'--json' takes no value");
    check_refused("logs -n", "'--lines' needs a value (N)");
    check_refused("status more", "'status' does not take 'more'");
    check_refused("--plain chat", "'tui' does not take 'chat'");
    check_refused("secret set", "'secret set' needs NAME");
}

TEST(flags_and_words_arrive)
{
    struct args a;
    int64_t n;
    CHECK_INT(parse(&a, "api post /x --header A:1 -H B:2 - -H=C:3 -- ", NULL), 0);
    CHECK_STR(args_value(&a, FLAG_HEADER), "=C:3");
    CHECK_STR(args_word(&a, 2), "-");
    CHECK(args_word(&a, 3) == NULL);
    CHECK_INT(a.flags.n, 3);
    args_fini(&a);
    CHECK_INT(parse(&a, "logs -n7", NULL), 0);
    CHECK_INT(args_number(&a, FLAG_LINES, 1, &n, NULL), 0);
    CHECK_INT(n, 7);
    CHECK_INT(args_number(&a, FLAG_AFTER, 5, &n, NULL), 0);
    CHECK_INT(n, 5);
    args_fini(&a);
}

TEST(help_forgives_missing_words)
{
    struct args a;
    CHECK_INT(parse(&a, "secret set --help", NULL), 0);
    CHECK_STR(a.cmd->verb, "set");
    CHECK(!a.only_noun);
    args_fini(&a);
    CHECK_INT(parse(&a, "token --help", NULL), 0);
    CHECK(a.only_noun);
    args_fini(&a);
}

TEST(json_is_known_even_when_the_line_is_wrong)
{
    struct args a;
    CHECK_INT(parse(&a, "--json stauts", NULL), ERR_USAGE);
    CHECK(args_has(&a, FLAG_JSON));
    args_fini(&a);
}

TEST(the_table_is_well_formed)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = &commands[i];
        CHECK(c->help[0] != '\0');
        CHECK(strncmp(c->examples, "afloat ", 7) == 0 || strstr(c->examples, "afloat ") != NULL);
        // rows of one noun stand together, and at most one of them is the default
        unsigned defaults = 0;
        for (const struct command *v = command_find_noun(str_of(c->noun)); v != NULL;
             v = command_next_verb(v)) {
            defaults += (v->mode & CMD_DEFAULT) != 0;
        }
        CHECK(defaults <= 1);
        CHECK(command_find_verb(command_find_noun(str_of(c->noun)), str_of(c->verb)) == c);
        for (size_t k = 0; k < n_commands; k++) {
            bool same = strcmp(commands[k].noun, c->noun) == 0;
            CHECK(same || c->other == NULL || strcmp(commands[k].noun, c->other) != 0);
        }
    }
    for (size_t i = 0; i < FLAG__COUNT; i++) {
        for (size_t k = i + 1; k < FLAG__COUNT; k++) {
            bool together = flags[i].global || flags[k].global; // some command takes both
            for (size_t n = 0; n < n_commands; n++) {
                together = together || (command_takes(&commands[n], (enum flag_id)i) &&
                                        command_takes(&commands[n], (enum flag_id)k));
            }
            CHECK(!together || strcmp(flags[i].name, flags[k].name) != 0);
            CHECK(!together || flags[i].letter == 0 || flags[i].letter != flags[k].letter);
        }
    }
}

TEST(a_command_takes_a_flag_once_and_explains_it)
{
    for (size_t i = 0; i < n_commands; i++) {
        for (const struct flag_use *f = commands[i].flags; f->id != FLAG__COUNT; f++) {
            CHECK(!flags[f->id].global);
            CHECK(f->help == NULL || f->help[0] != '\0');
            for (const struct flag_use *g = commands[i].flags; g != f; g++) {
                CHECK(g->id != f->id);
            }
        }
        CHECK(commands[i].group < GROUP__COUNT);
    }
}

TEST(a_flag_with_choices_takes_no_other_word)
{
    struct args a;
    CHECK_INT(parse(&a, "sessions allow 0195 --remember tool", NULL), 0);
    CHECK_STR(args_value(&a, FLAG_REMEMBER), "tool");
    args_fini(&a);
    CHECK_INT(parse(&a, "chat --permission plan", NULL), 0);
    args_fini(&a);
    check_refused("sessions allow 0195 --remember session",
                  "'--remember' takes once, exact, prefix, tool or project, not 'session'");
    check_refused("status --color", "'--color' needs a value (WHEN)");
}

static void check_words(const char *line, const char *verb, size_t n, const char *first)
{
    struct args a;
    struct err e = {0};
    int rc = parse(&a, line, &e);
    if (rc != 0) {
        test_fail(__FILE__, __LINE__, "'%s': %s", line, e.msg);
    }
    CHECK_STR(a.cmd->verb, verb);
    CHECK_INT(a.words.n, n);
    CHECK_STR(args_word(&a, 0), first);
    args_fini(&a);
}

TEST(a_bot_may_stand_before_the_verb)
{
    check_words("memory reviewer", "show", 1, "reviewer");
    check_words("memory reviewer show", "show", 1, "reviewer");
    check_words("memory show reviewer", "show", 1, "reviewer");
    check_words("memory reviewer get key", "get", 2, "reviewer");
    check_words("memory get reviewer key", "get", 2, "reviewer");
    check_words("memory reviewer rm key", "remove", 2, "reviewer");
    check_words("memory --project api reviewer set k v", "set", 3, "reviewer");
    check_words("memory reviewer --project api clear", "clear", 1, "reviewer");
    check_words("memory show show", "show", 1, "show");
    check_words("memory -- show", "show", 1, "show");
    check_words("history reviewer", "list", 1, "reviewer");
    check_words("history reviewer ls", "list", 1, "reviewer");
    check_words("history reviewer get 3", "show", 2, "reviewer");
    check_refused("memory", "'memory show' needs BOT");
    check_refused("memory reviewer gte k",
                  "unknown command 'memory gte', did you mean 'memory get'?");
}

TEST(one_verb_has_one_meaning_where_it_exists_itself)
{
    check_command("bots rm x", "bots", "delete");
    check_command("bot remove x", "bots", "delete");
    check_command("bots new x", "bots", "create");
    check_command("skills delete x", "skills", "remove");
    check_command("plugin create x", "plugin", "new");
    check_command("run reviewer list", "run", "");
    check_command("runs", "runs", "list");
}

TEST(a_value_in_brackets_may_be_left_out)
{
    struct args a;
    struct err e = {0};
    CHECK_INT(parse(&a, "run reviewer --resume", &e), 0);
    CHECK(args_has(&a, FLAG_RESUME_RUN) && args_value(&a, FLAG_RESUME_RUN) == NULL);
    args_fini(&a);
    CHECK_INT(parse(&a, "run reviewer --resume --detach", &e), 0);
    CHECK(args_value(&a, FLAG_RESUME_RUN) == NULL && args_has(&a, FLAG_DETACH));
    args_fini(&a);
    CHECK_INT(parse(&a, "run reviewer --resume 1a2b --detach", &e), 0);
    CHECK_STR(args_value(&a, FLAG_RESUME_RUN), "1a2b");
    args_fini(&a);
    CHECK_INT(parse(&a, "run reviewer --resume=1a2b prompt", &e), 0);
    CHECK_STR(args_value(&a, FLAG_RESUME_RUN), "1a2b");
    CHECK_STR(args_word(&a, 1), "prompt");
    args_fini(&a);
}
