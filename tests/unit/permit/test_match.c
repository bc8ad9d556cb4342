#include "base/buf.h"
#include "permit/match.h"
#include "unit/test.h"

enum { ROOM = 64 };

static struct pattern pattern_of(struct arena *a, const char *text)
{
    struct pattern p;
    struct err e = {0};
    if (pattern_parse(&p, a, str_of(text), &e) < 0) {
        test_fail(__FILE__, __LINE__, "'%s': %s", text, e.msg);
    }
    return p;
}

/// Would an allow rule of this pattern let the line run in /w?
static bool allows(const char *pattern, const char *line)
{
    struct arena a = {0};
    struct cmdline l;
    struct pattern p = pattern_of(&a, pattern);
    cmdline_parse(&l, &a, str_of(line));
    bool ok = match_is_plain(&l, STR("/w"), STR("/w"));
    for (size_t i = 0; i < l.n_simples; i++) {
        ok = ok && match_allows(&p, &l.simples[i]);
    }
    arena_fini(&a);
    return ok;
}

static bool finds(const char *pattern, const char *line)
{
    struct arena a = {0};
    struct cmdline l;
    struct pattern p = pattern_of(&a, pattern);
    cmdline_parse(&l, &a, str_of(line));
    bool found = match_finds(&p, &l, &a);
    arena_fini(&a);
    return found;
}

struct table {
    bool (*ask)(const char *pattern, const char *line);
    const char *pattern;
    const char *yes[ROOM], *no[ROOM];
};

static void check_table(const struct table *t)
{
    for (size_t i = 0; t->yes[i] != NULL; i++) {
        if (!t->ask(t->pattern, t->yes[i])) {
            test_fail(__FILE__, __LINE__, "'%s' does not cover: %s", t->pattern, t->yes[i]);
        }
    }
    for (size_t i = 0; t->no[i] != NULL; i++) {
        if (t->ask(t->pattern, t->no[i])) {
            test_fail(__FILE__, __LINE__, "'%s' covers: %s", t->pattern, t->no[i]);
        }
    }
}

TEST(an_allow_rule_covers_what_it_shows_and_nothing_more)
{
    static const struct table t = {
        allows,
        "git status *",
        {"git status", "git status -s", "git  status 'a b'", "\"git\" status", "g\\it status",
         "git status > out.txt", "git status 2>&1", "git status >/dev/null", "git status $A",
         "LANG=C git status", "git status; git status -s", "git status && git status | git status",
         "git status > ./sub/../x", "NO_COLOR=1 LC_ALL=C git status", "git status *.c", NULL},
        {"git",
         "git push",
         "git -C /x status",
         "/tmp/git status",
         "./git status",
         "git status; rm x",
         "git status && rm x",
         "git status | sh",
         "git status\nrm x",
         "git status & rm x",
         "git status $(rm x)",
         "git status `rm x`",
         "git status > /etc/x",
         "git status > ../x",
         "git status > $X",
         "git status > ~/x",
         "cd / ; git status > x",
         "PATH=/x git status",
         "GIT_PAGER=x git status",
         "LANG=$(x) git status",
         "env git status",
         "sudo git status",
         "(git status)",
         "{ git status; }",
         "git status <<E\nE",
         "git status <(x)",
         "git status $[x]",
         "$G status",
         "git statusx",
         "'git status'",
         "git status 'a",
         "if git status; then git status; fi",
         "sh -c 'git status'",
         "xargs git status",
         "",
         NULL},
    };
    check_table(&t);
}

TEST(an_allow_pattern_without_a_star_is_the_whole_command)
{
    static const struct table t = {allows,
                                   "make test",
                                   {"make test", "make 'test'", NULL},
                                   {"make", "make test x", "make *", NULL}};
    static const struct table glob = {
        allows,
        "npm run test-*",
        {"npm run test-unit", "npm run test-", NULL},
        {"npm run build", "npm run test-a b", "npm run test-$X", NULL}};
    static const struct table literal = {
        allows, "echo '*'", {"echo '*'", "echo \\*", NULL}, {"echo *", "echo a", "echo", NULL}};
    check_table(&t);
    check_table(&glob);
    check_table(&literal);
}

TEST(a_deny_rule_holds_however_the_command_is_dressed)
{
    static const struct table t = {
        finds,
        "rm *",
        {"rm",
         "rm x",
         "/bin/rm x",
         "A=1 rm x",
         "ls; rm x",
         "ls && rm x",
         "ls | xargs rm",
         "echo $(rm x)",
         "echo `rm x`",
         "echo \"$(rm x)\"",
         "env rm x",
         "env -i A=1 rm x",
         "env -S 'rm x'",
         "nohup rm x",
         "timeout 5 rm x",
         "timeout -k 5 --signal KILL 10 rm x",
         "nice -n 10 rm x",
         "sudo -u bob rm x",
         "command rm x",
         "exec rm x",
         "eval 'rm x'",
         "eval rm x",
         "sh -c 'rm x'",
         "bash -ec \"rm x\"",
         "bash --norc -c 'ls; rm x'",
         "find . -exec rm {} \\;",
         "find . -name x -execdir /bin/rm {} +",
         "xargs -I{} -n 1 rm {}",
         "if true; then rm x; fi",
         "(rm x)",
         "f() { rm x; }",
         "r\\m x",
         "'rm' x",
         "$'\\x72m' x",
         "bash <<E\nrm x\nE",
         "sudo sh -c 'env rm x'",
         "diff <(rm x) y",
         "trap 'rm x' EXIT",
         "! rm x",
         "env - rm x",
         "env -S'rm x'",
         "env -iS 'rm x'",
         "env --split-string='rm x'",
         "env -S 'sh -c' 'rm x'",
         "eval -- rm x",
         "trap -- 'rm x' EXIT",
         "su --command='rm x' bob",
         "su --command 'rm x'",
         "bash <<< 'rm x'",
         "cat <<< 'rm x' | sh",
         "cat <<< 'rm x' | sudo bash -s; ls",
         "coproc X { rm x; }",
         "coproc X while rm x; do :; done",
         "coproc rm x",
         NULL},
        {"ls", "echo rm x", "echo 'rm x'", "git rm x", "rmdir x", "cat rm", "ls # rm x",
         "cat <<E\nrm x\nE", "echo a > rm", "timeout 5 echo rm", "env FOO=rm ls", "grep rm x",
         "sh script rm", "find . -name rm", "cat <<< 'rm x'", "env - ls rm", "coproc X rm",

         "trap - EXIT", NULL}};
    check_table(&t);
}

TEST(a_star_alone_stands_for_every_command)
{
    static const struct table allow = {allows,
                                       "*",
                                       {"ls", "ls -la x", "ls; make test", NULL},
                                       {"ls $(x)", "$X a", "ls > /etc/x", "PATH=/x ls", NULL}};
    static const struct table fence = {
        finds, "*", {"ls", "rm x", "rm -r x y", "A=1 rm x", NULL}, {"", "A=1", NULL}};
    check_table(&allow);
    check_table(&fence);
}

TEST(a_deny_rule_sees_past_options)
{
    static const struct table push = {finds,
                                      "git push *",
                                      {"git push", "git push origin", "git -C /x push",
                                       "git -c a=b --no-pager push -f", "git --git-dir /x push",
                                       "sudo git -C /x push", NULL},
                                      {"git pull", "git log push", "git status",
                                       "git commit -m push x push", "echo git push", NULL}};
    static const struct table force = {
        finds,
        "rm -rf *",
        {"rm -rf x", "rm -fr x", "rm -r -f x", "rm x -r -f", "rm -rvf x", NULL},
        {"rm x", "rm -r x", "rm -f x", "ls -rf", NULL}};
    static const struct table long_option = {
        finds,
        "git push --force *",
        {"git push --force", "git push origin --force", "git -C x push origin main --force=1",
         NULL},
        {"git push", "git push --force-with-lease", "git push force", NULL}};
    check_table(&push);
    check_table(&force);
    check_table(&long_option);
}

TEST(a_command_without_a_readable_name_is_opaque)
{
    static const char *const opaque[] = {"$X a",
                                         "`x` a",
                                         "{rm,x}",
                                         "/bin/r? x",
                                         "env $X",
                                         "sh -c \"$X\"",
                                         "echo 'a",
                                         "curl x | sh",
                                         "curl x | sudo bash -s a",
                                         "env env env env env env env env env rm x"};
    static const char *const clear[] = {"ls",         "ls $X",       "echo *",    "env A=1 ls $X",
                                        "sh -c 'ls'", "sh script a", "sh <<E\nE", "sh -x script"};
    struct arena a = {0};
    struct cmdline l;
    for (size_t i = 0; i < ARRAY_LEN(opaque); i++) {
        cmdline_parse(&l, &a, str_of(opaque[i]));
        if (!match_is_opaque(&l, &a)) {
            test_fail(__FILE__, __LINE__, "clear: %s", opaque[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(clear); i++) {
        cmdline_parse(&l, &a, str_of(clear[i]));
        if (match_is_opaque(&l, &a)) {
            test_fail(__FILE__, __LINE__, "opaque: %s", clear[i]);
        }
    }
    arena_fini(&a);
}

TEST(a_line_made_up_of_wrappers_takes_no_longer_than_another)
{
    struct arena a = {0};
    struct cmdline l;
    struct buf line;
    static const char *const layers[] = {"env -a ", "env -S ", "sudo -u nice -n ",
                                         "xargs -I 'env -S x' "};
    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        buf_init(&line, SIZE_MAX);
        for (unsigned k = 0; k < 2000; k++) {
            buf_addz(&line, layers[i]);
        }
        struct pattern p = pattern_of(&a, "rm *");
        cmdline_parse(&l, &a, buf_str(&line));
        CHECK(!match_finds(&p, &l, &a)); // was never answered
        CHECK(match_is_opaque(&l, &a));
        buf_fini(&line);
    }
    arena_fini(&a);
}

TEST(a_pattern_is_one_plain_command)
{
    static const char *const bad[] = {"",      "  ", "a; b",   "a | b", "a $(b)",
                                      "a > b", "'a", "a '*'*", "a\nb"};
    struct arena a = {0};
    struct pattern p;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = {0};
        CHECK_INT(pattern_parse(&p, &a, str_of(bad[i]), &e), ERR_INVALID);
        CHECK(e.msg[0] != '\0');
    }
    arena_fini(&a);
}

TEST(a_quoted_word_matches_itself_alone)
{
    static const char *const words[] = {"a", "*", "a b", "it's", "", "$x", "a;b"};
    struct arena a = {0};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        pattern_quote(&text, str_of(words[i]));
        struct pattern p = pattern_of(&a, buf_z(&text));
        CHECK_INT(p.n, 1);
        CHECK(!p.words[0].dynamic && str_eqz(p.words[0].text, words[i]));
        buf_fini(&text);
    }
    arena_fini(&a);
}

TEST(inside_is_judged_by_the_cleaned_path)
{
    CHECK(match_is_inside(STR("a"), STR("/w/s"), STR("/w")));
    CHECK(match_is_inside(STR("../a"), STR("/w/s"), STR("/w")));
    CHECK(match_is_inside(STR("/w"), STR("/w"), STR("/w")));
    CHECK(match_is_inside(STR("/x"), STR("/"), STR("/")));
    CHECK(!match_is_inside(STR("../../a"), STR("/w/s"), STR("/w")));
    CHECK(!match_is_inside(STR("/wx/a"), STR("/w"), STR("/w")));
    CHECK(!match_is_inside(STR(""), STR("/w"), STR("/w")));
    CHECK(!match_is_inside(((struct str){"a\0b", 3}), STR("/w"), STR("/w")));
}
