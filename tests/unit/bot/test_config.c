// config.md: what it says, what is wrong with it and where, and what wins.

#include "bot/config.h"
#include "unit/test.h"

struct parsed {
    struct bot_config c;
    struct config_diags d;
    struct err e;
    int rc;
};

static void parse(struct parsed *p, const char *text)
{
    memset(p, 0, sizeof *p);
    bot_config_init(&p->c);
    config_diags_init(&p->d);
    p->rc = bot_config_parse(&p->c, str_of(text), "bots/x/config.md", &p->d, &p->e);
}

static void done(struct parsed *p)
{
    bot_config_fini(&p->c);
    config_diags_fini(&p->d);
}

static bool has_default_instructions(const struct parsed *p)
{
    struct bot_config fresh;
    bot_config_init(&fresh);
    bool same = strcmp(p->c.instructions, fresh.instructions) == 0;
    bot_config_fini(&fresh);
    return same;
}

TEST(a_config_without_settings_is_all_instructions)
{
    struct parsed p;
    parse(&p, "Look after the tests.\n\n+++\nnot settings\n");
    CHECK_INT(p.rc, 0);
    CHECK_STR(p.c.instructions, "Look after the tests.\n\n+++\nnot settings");
    CHECK_INT(p.c.max_iterations, BOT_UNSET);
    CHECK_INT(p.c.sleep_secs, 30);
    CHECK_STR(p.c.engine, "native");
    CHECK(p.c.worktree && !p.c.skip_git_check && p.c.sandbox == NULL && p.c.model == NULL);
    CHECK_INT(p.c.merge, BOT_MERGE_ASK);
    CHECK(p.c.plugins.p == NULL);
    CHECK_INT(p.c.network, BOT_UNSET);
    done(&p);
    parse(&p, "---\na rule of Markdown\n");
    CHECK_INT(p.rc, 0);
    CHECK_STR(p.c.instructions, "---\na rule of Markdown");
    done(&p);
}

TEST(a_config_has_every_key_of_the_contract)
{
    struct parsed p;
    parse(&p,
          "+++\n"
          "description = \"looks\"\nmax_iterations = 0\nsleep_secs = 5\nmodel = \"m\"\n"
          "provider = \"p\"\nengine = \"native\"\nsandbox = \"read-only\"\nnetwork = true\n"
          "skip_git_check = true\nmerge = \"never\"\nplugins = [\"a\", \"b\"]\n"
          "stop_phrase = \"ALL DONE\"\n[worktree]\ninclude = [\".env\"]\nlink = \"node_modules\"\n"
          "setup = [\"npm ci\", \"make\"]\nremote = \"origin\"\n+++\nDo it.\n");
    CHECK_INT(p.rc, 0);
    CHECK_INT(p.d.n, 0);
    CHECK_STR(p.c.description, "looks");
    CHECK_INT(p.c.max_iterations, 0);
    CHECK_INT(p.c.sleep_secs, 5);
    CHECK_STR(p.c.model, "m");
    CHECK_STR(p.c.provider, "p");
    CHECK_STR(p.c.sandbox, "read-only");
    CHECK_INT(p.c.network, 1);
    CHECK(p.c.skip_git_check && p.c.worktree);
    CHECK_INT(p.c.merge, BOT_MERGE_NEVER);
    CHECK_INT(p.c.plugins.n, 2);
    CHECK_STR(p.c.plugins.p[1], "b");
    CHECK_STR(p.c.stop_phrase, "ALL DONE");
    CHECK_STR(p.c.include.p[0], ".env");
    CHECK_STR(p.c.link.p[0], "node_modules");
    CHECK_INT(p.c.setup.n, 2);
    CHECK_STR(p.c.setup.p[1], "make");
    CHECK_STR(p.c.remote, "origin");
    CHECK_STR(p.c.instructions, "Do it.");
    done(&p);
}

TEST(a_worktree_is_a_switch_or_a_table)
{
    struct parsed p;
    parse(&p, "+++\nworktree = false\n+++\n");
    CHECK_INT(p.rc, 0);
    CHECK(!p.c.worktree);
    done(&p);
    parse(&p, "+++\n[worktree]\nenabled = false\n+++\n");
    CHECK(p.rc == 0 && !p.c.worktree);
    done(&p);
    parse(&p, "+++\nworktree = \"no\"\n+++\n");
    CHECK_INT(p.rc, ERR_PARSE);
    CHECK_STR(p.e.msg, "bots/x/config.md:2:12: expected true, false or a table for 'worktree', "
                       "found string");
    done(&p);
}

TEST(an_empty_body_has_a_default_text)
{
    struct parsed p;
    parse(&p, "+++\nmodel = \"m\"\n+++\n \n");
    CHECK_INT(p.rc, 0);
    CHECK(has_default_instructions(&p) && strlen(p.c.instructions) > 50);
    done(&p);
    parse(&p, "");
    CHECK(p.rc == 0 && has_default_instructions(&p));
    done(&p);
}

TEST(errors_say_where_in_the_file_they_are)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"+++\nmodel = \"m\"\n",
         "bots/x/config.md:1:1: '+++' opens the settings and no other line '+++' closes them"},
        {"+++\nmodel = 3\n+++\n",
         "bots/x/config.md:2:9: expected a string for 'model', found integer"},
        {"+++\n\n  max_iterations = -1\n+++\n",
         "bots/x/config.md:3:20: expected a number from 0 to 1000000 for 'max_iterations', found "
         "integer"},
        {"+++\nsandbox = \"open\"\n+++\n",
         "bots/x/config.md:2:11: expected \"read-only\", \"workspace-write\" or "
         "\"danger-full-access\" for 'sandbox', found string"},
        {"+++\nmerge = \"maybe\"\n+++\n",
         "bots/x/config.md:2:9: expected \"ask\", \"auto\" or \"never\" for 'merge', found string"},
        {"+++\nengine = \"../codex\"\n+++\n",
         "bots/x/config.md:2:10: expected \"native\", \"codex\", \"claude\" or a name of [engines] "
         "for 'engine', found string"},
        {"+++\n[worktree]\ninclude = [\"../x\"]\n+++\n",
         "bots/x/config.md:3:11: expected paths inside the project, relative to its root for "
         "'worktree.include', found array"},
        {"+++\nnetwork = \"yes\"\n+++\n",
         "bots/x/config.md:2:11: expected true or false for 'network', found string"},
        {"a\xFF", "bots/x/config.md:1:1: the file is not text in UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parsed p;
        parse(&p, cases[i].text);
        CHECK_INT(p.rc, ERR_PARSE);
        CHECK_STR(p.e.msg, cases[i].message);
        CHECK_STR(p.c.engine, "native"); // the defaults
        done(&p);
    }
}

TEST(a_syntax_error_has_the_line_and_column_of_the_file)
{
    struct parsed p;
    parse(&p, "+++\r\nmodel = \"m\"\r\nsleep_secs = \r\n+++\r\n");
    CHECK_INT(p.rc, ERR_PARSE);
    CHECK(strncmp(p.e.msg, "bots/x/config.md:3:", 19) == 0);
    CHECK(strstr(p.e.msg, "line ") == NULL); // that of the settings alone would mislead
    done(&p);
}

TEST(every_problem_is_told_and_the_file_counts_for_nothing)
{
    struct parsed p;
    parse(&p, "+++\nmodel = 3\nsleep_secs = \"x\"\ndescription = \"d\"\n+++\nBody\n");
    CHECK_INT(p.rc, ERR_PARSE);
    CHECK_INT(p.d.n, 2);
    CHECK_INT(p.d.p[1].line, 3);
    CHECK_STR(p.c.description, "");
    CHECK(has_default_instructions(&p));
    done(&p);
}

TEST(an_unknown_key_is_a_warning_with_the_nearest)
{
    struct parsed p;
    parse(&p, "+++\nmax_iteration = 3\nzzzzzz = 1\n[worktree]\nsetpu = \"x\"\n+++\n");
    CHECK_INT(p.rc, 0);
    CHECK_INT(p.d.n, 3);
    CHECK_STR(p.d.p[0].message, "unknown key 'max_iteration', did you mean 'max_iterations'?");
    CHECK_INT(p.d.p[0].line, 2);
    CHECK_STR(p.d.p[1].message, "unknown key 'zzzzzz'");
    CHECK_STR(p.d.p[2].message, "unknown key 'setpu', did you mean 'setup'?");
    done(&p);
}

static int64_t iterations(const char *text, int64_t flag, bool prompt)
{
    struct parsed p;
    struct bot_overrides o = BOT_OVERRIDES;
    o.max_iterations = flag;
    o.has_prompt = prompt;
    parse(&p, text);
    CHECK_INT(bot_config_apply(&p.c, &o, NULL), 0);
    int64_t n = p.c.max_iterations;
    done(&p);
    return n;
}

TEST(defaults_lose_to_the_file_and_the_file_to_flags)
{
    CHECK_INT(iterations("x", BOT_UNSET, false), 10);
    CHECK_INT(iterations("x", BOT_UNSET, true), 1);
    CHECK_INT(iterations("+++\nmax_iterations = 7\n+++\n", BOT_UNSET, true), 7);
    CHECK_INT(iterations("+++\nmax_iterations = 7\n+++\n", 0, true), 0);
    struct parsed p;
    struct bot_overrides o = BOT_OVERRIDES;
    o.model = "other";
    o.sandbox = "danger-full-access";
    o.network = 0;
    o.merge = true;
    o.no_worktree = true;
    o.instructions = "Only this.";
    o.engine = "codex";
    parse(&p, "+++\nmodel = \"m\"\nprovider = \"p\"\nnetwork = true\nmerge = \"never\"\n+++\nBody");
    CHECK_INT(bot_config_apply(&p.c, &o, NULL), 0);
    CHECK_STR(p.c.model, "other");
    CHECK_STR(p.c.provider, "p");
    CHECK_STR(p.c.engine, "codex");
    CHECK_STR(p.c.sandbox, "danger-full-access");
    CHECK_INT(p.c.network, 0);
    CHECK_INT(p.c.merge, BOT_MERGE_AUTO);
    CHECK(!p.c.worktree);
    CHECK_STR(p.c.instructions, "Only this.");
    done(&p);
}

TEST(flags_are_checked_like_the_file)
{
    struct parsed p;
    struct bot_overrides o = BOT_OVERRIDES;
    parse(&p, "x");
    o.sandbox = "open";
    CHECK_INT(bot_config_apply(&p.c, &o, &p.e), ERR_INVALID);
    o.sandbox = NULL;
    o.engine = "../codex";
    CHECK_INT(bot_config_apply(&p.c, &o, &p.e), ERR_INVALID);
    o.engine = NULL;
    o.max_iterations = -2;
    CHECK_INT(bot_config_apply(&p.c, &o, &p.e), ERR_INVALID);
    CHECK_INT(p.c.max_iterations, BOT_UNSET); // as it was
    done(&p);
}

TEST(a_name_is_a_letter_and_then_letters_digits_and_dashes)
{
    static const char *const good[] = {"a", "reviewer", "a-1_b"};
    static const char *const bad[] = {"",     "A",   "1a",  "-a",       "a b",
                                      "../x", "a/b", "a.b", "\xC3\xA9", "a\n"};
    char longest[66];
    memset(longest, 'a', 65);
    longest[65] = '\0';
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK(bot_name_valid(str_of(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e;
        CHECK_INT(bot_name_check(str_of(bad[i]), &e), ERR_INVALID);
        CHECK(strstr(e.msg, "a letter a-z, then a-z, 0-9, '_' and '-', 64 at most") != NULL);
    }
    CHECK(!bot_name_valid(str_of(longest)));
    CHECK(bot_name_valid((struct str){longest, 64}));
}

TEST(a_config_is_written_as_json)
{
    struct parsed p;
    struct buf b;
    struct jw w;
    parse(&p, "+++\ndescription = \"d\"\n+++\nBody");
    buf_init(&b, SIZE_MAX);
    jw_init(&w, &b);
    jw_obj(&w);
    bot_config_write(&p.c, &w);
    jw_end_obj(&w);
    CHECK_STR(buf_z(&b), "{\"description\":\"d\",\"instructions\":\"Body\",\"max_iterations\":null,"
                         "\"sleep_secs\":30,\"model\":null,\"provider\":null,\"engine\":\"native\","
                         "\"sandbox\":null,\"network\":null,\"skip_git_check\":false,"
                         "\"worktree\":{\"enabled\":true,\"include\":[],\"link\":[],\"setup\":[],"
                         "\"remote\":null},"
                         "\"merge\":\"ask\",\"plugins\":\"*\",\"stop_phrase\":null}");
    buf_fini(&b);
    done(&p);
}
