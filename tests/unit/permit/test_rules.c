#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "permit/rules.h"
#include "unit/test.h"

static struct arena arena;
static struct rules config, book;

static void begin(void)
{
    rules_init(&config);
    rules_init(&book);
}

static void end(void)
{
    rules_fini(&config);
    rules_fini(&book);
    arena_fini(&arena);
}

static void add(struct rules *r, enum permit_verdict decision, const char *tool, const char *match)
{
    struct rule rule = {.id = "x", .tool = tool, .match = match, .decision = decision};
    struct err e = {0};
    if (rules_add(r, &rule, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

static const struct json *input_of(const char *member, const char *value, const char *cwd)
{
    struct json *v = arena_calloc(&arena, 1, sizeof *v);
    struct json_member *m = arena_calloc(&arena, 2, sizeof *m);
    m[0] = (struct json_member){str_of(member), {.type = JSON_STR, .s = str_of(value)}};
    m[1] = (struct json_member){STR("cwd"), {.type = JSON_STR, .s = str_of(cwd)}};
    *v = (struct json){.type = JSON_OBJ, .n = cwd != NULL ? 2 : 1, .members = m};
    return v;
}

static struct permit_call call_of(const char *tool, const struct json *input)
{
    struct permit_call c = {
        .tool = str_of(tool), .input = input, .working_dir = test_dir(), .session = "s1"};
    const char *file = rules_file(&c, &arena);
    char *real = file != NULL ? path_real(file) : NULL;
    c.file = real != NULL ? arena_strdup(&arena, str_of(real)) : NULL;
    free(real);
    const char *const *writes = rules_writes(&c, &arena);
    const char **found = arena_calloc(&arena, str_count(writes) + 1, sizeof *found);
    for (size_t i = 0; writes != NULL && writes[i] != NULL; i++) {
        real = path_real(writes[i]);
        found[i] = arena_strdup(&arena, str_of(real));
        free(real);
    }
    c.writes = found;
    return c;
}

static enum permit_verdict judge(const char *tool, const struct json *input)
{
    const struct rules *const lists[] = {&config, &book};
    struct permit_call c = call_of(tool, input);
    return rules_judge(lists, 2, &c, &arena, NULL);
}

static enum permit_verdict judge_cmd(const char *cmd)
{
    return judge("shell", input_of("cmd", cmd, NULL));
}

TEST(deny_is_stronger_than_ask_and_ask_than_allow)
{
    begin();
    add(&book, PERMIT_ALLOW, "shell", "git *");
    add(&config, PERMIT_ASK, "shell", "git push *");
    add(&config, PERMIT_DENY, "shell", "git push --force *");
    CHECK_INT(judge_cmd("git status"), PERMIT_ALLOW);
    CHECK_INT(judge_cmd("git push"), PERMIT_ASK);
    CHECK_INT(judge_cmd("git push --force origin"), PERMIT_DENY);
    CHECK_INT(judge_cmd("ls"), PERMIT_NONE);
    CHECK_INT(judge_cmd("git status; ls"), PERMIT_NONE);
    CHECK_INT(judge_cmd("git status; git push"), PERMIT_ASK);
    end();
}

TEST(several_promises_may_cover_one_line_together)
{
    begin();
    add(&config, PERMIT_ALLOW, "shell", "git status *");
    add(&book, PERMIT_ALLOW, "shell", "make test");
    CHECK_INT(judge_cmd("git status && make test"), PERMIT_ALLOW);
    CHECK_INT(judge_cmd("git status && make install"), PERMIT_NONE);
    CHECK_INT(judge("shell", input_of("cmd", "git status", "sub")), PERMIT_ALLOW);
    CHECK_INT(judge("shell", input_of("cmd", "git status", "..")), PERMIT_NONE);
    CHECK_INT(judge("shell", input_of("cmd", "git status", "/etc")), PERMIT_NONE);
    end();
}

TEST(a_hidden_command_is_asked_about_where_there_is_a_fence)
{
    begin();
    CHECK_INT(judge_cmd("$X -rf /"), PERMIT_NONE);
    add(&config, PERMIT_DENY, "shell", "rm *");
    CHECK_INT(judge_cmd("$X -rf /"), PERMIT_ASK);
    CHECK_INT(judge_cmd("echo 'a"), PERMIT_ASK);
    CHECK_INT(judge_cmd("echo $X"), PERMIT_NONE);
    add(&config, PERMIT_ASK, "shell", "git push *");
    add(&config, PERMIT_ALLOW, "shell", "*");
    CHECK_INT(judge_cmd("X=push; git $X"), PERMIT_ASK);
    CHECK_INT(judge_cmd("git add $X"), PERMIT_ALLOW);
    end();
}

TEST(an_exact_rule_covers_one_text)
{
    begin();
    struct rule r = {.id = "x",
                     .tool = "shell",
                     .match = "echo $(date) > x",
                     .exact = true,
                     .decision = PERMIT_ALLOW};
    CHECK_INT(rules_add(&book, &r, NULL), 0);
    CHECK_INT(judge_cmd("echo $(date) > x"), PERMIT_ALLOW);
    CHECK_INT(judge_cmd("echo $(date) > x "), PERMIT_NONE);
    CHECK_INT(judge("shell", input_of("cmd", "echo $(date) > x", "/")), PERMIT_NONE);
    end();
}

TEST(a_rule_of_one_session_counts_there_alone)
{
    begin();
    struct rule r = {.id = "x", .tool = "shell", .session = "s2", .decision = PERMIT_ALLOW};
    CHECK_INT(rules_add(&book, &r, NULL), 0);
    CHECK_INT(judge_cmd("ls"), PERMIT_NONE);
    r.session = "s1";
    CHECK_INT(rules_add(&book, &r, NULL), 0);
    CHECK_INT(judge_cmd("ls"), PERMIT_ALLOW);
    end();
}

TEST(paths_are_compared_where_the_file_really_is)
{
    begin();
    char path[512];
    snprintf(path, sizeof path, "%s/docs", test_dir());
    CHECK_INT(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/src", test_dir());
    CHECK_INT(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/docs/link", test_dir());
    CHECK_INT(symlink("../src", path), 0);
    add(&config, PERMIT_ALLOW, "edit_file", "docs/**");
    add(&config, PERMIT_DENY, "write_file", "src/*.c");
    CHECK_INT(judge("edit_file", input_of("path", "docs/a.md", NULL)), PERMIT_ALLOW);
    CHECK_INT(judge("edit_file", input_of("path", "docs/sub/a.md", NULL)), PERMIT_ALLOW);
    CHECK_INT(judge("edit_file", input_of("path", "docs/../src/a.c", NULL)), PERMIT_NONE);
    CHECK_INT(judge("edit_file", input_of("path", "docs/link/a.c", NULL)), PERMIT_NONE);
    CHECK_INT(judge("edit_file", input_of("path", "/etc/docs/a", NULL)), PERMIT_NONE);
    CHECK_INT(judge("write_file", input_of("path", "docs/link/a.c", NULL)), PERMIT_DENY);
    CHECK_INT(judge("write_file", input_of("path", "src/a.c", NULL)), PERMIT_DENY);
    CHECK_INT(judge("write_file", input_of("path", "src/deep/a.c", NULL)), PERMIT_NONE);
    // directories that the call would make
    add(&config, PERMIT_DENY, "write_file", "src/**");
    CHECK_INT(judge("edit_file", input_of("path", "docs/link/new/a.c", NULL)), PERMIT_NONE);
    CHECK_INT(judge("write_file", input_of("path", "docs/link/new/deep/a.c", NULL)), PERMIT_DENY);
    // the kernel follows a link before it goes up
    CHECK_INT(judge("edit_file", input_of("path", "docs/link/../docs/a", NULL)), PERMIT_ALLOW);
    snprintf(path, sizeof path, "%s/src/sub", test_dir());
    CHECK_INT(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/docs/sub", test_dir());
    CHECK_INT(symlink("../src/sub", path), 0);
    CHECK_INT(judge("edit_file", input_of("path", "docs/sub/../a.c", NULL)), PERMIT_NONE);
    CHECK_INT(judge("write_file", input_of("path", "docs/sub/../a.c", NULL)), PERMIT_DENY);
    // the file tools know ~
    CHECK_INT(setenv("HOME", test_dir(), 1), 0);
    CHECK_INT(judge("edit_file", input_of("path", "~/docs/a", NULL)), PERMIT_ALLOW);
    CHECK_INT(judge("write_file", input_of("path", "~/src/a", NULL)), PERMIT_DENY);
    CHECK_INT(setenv("HOME", "/", 1), 0);
    add(&config, PERMIT_ALLOW, "edit_file", "**");
    CHECK_INT(judge("edit_file", input_of("path", "~/a", NULL)), PERMIT_NONE);
    end();
}

TEST(a_command_is_covered_only_where_its_directory_really_is_inside)
{
    begin();
    char path[512];
    snprintf(path, sizeof path, "%s/in", test_dir());
    CHECK_INT(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/in/link", test_dir());
    CHECK_INT(symlink("/etc", path), 0);
    add(&config, PERMIT_ALLOW, "shell", "ls *");
    CHECK_INT(judge("shell", input_of("cmd", "ls", "in")), PERMIT_ALLOW);
    CHECK_INT(judge("shell", input_of("cmd", "ls", "in/missing")), PERMIT_ALLOW);
    CHECK_INT(judge("shell", input_of("cmd", "ls", "in/link")), PERMIT_NONE);
    CHECK_INT(judge("shell", input_of("cmd", "ls", "in/link/..")), PERMIT_NONE);
    CHECK_INT(judge("shell", input_of("cmd", "ls", "..")), PERMIT_NONE);
    end();
}

TEST(a_redirection_is_covered_only_where_its_file_really_is_inside)
{
    static const struct {
        const char *target, *cwd;
        bool fits;
    } rows[] = {{"new", NULL, true},        {"in/new", NULL, true},    {"out/x", NULL, false},
                {"out/new/x", NULL, false}, {"file", NULL, false},     {"null", NULL, true},
                {"back/in/x", NULL, true},  {"x", "in", true},         {"../out/x", "in", false},
                {"/dev/null", NULL, true},  {"out/../x", NULL, false}, {"'file'", NULL, false}};
    static const char *const links[][2] = {
        {"/etc", "out"}, {"/etc/hosts", "file"}, {"/dev/null", "null"}, {".", "back"}};
    begin();
    char path[512], cmd[64];
    snprintf(path, sizeof path, "%s/in", test_dir());
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        snprintf(path, sizeof path, "%s/%s", test_dir(), links[i][1]);
        CHECK_INT(symlink(links[i][0], path), 0);
    }
    add(&config, PERMIT_ALLOW, "shell", "ls *");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(cmd, sizeof cmd, "ls a > %s", rows[i].target);
        if ((judge("shell", input_of("cmd", cmd, rows[i].cwd)) == PERMIT_ALLOW) != rows[i].fits) {
            test_fail(__FILE__, __LINE__, "%s", cmd);
        }
    }
    end();
}

TEST(two_stars_and_a_slash_stand_for_whole_directories)
{
    static const struct {
        const char *pattern, *path;
        bool fits;
    } rows[] = {{"**/test.py", "test.py", true},
                {"**/test.py", "a/b/test.py", true},
                {"**/test.py", "contest.py", false},
                {"a/**/b", "a/b", true},
                {"a/**/b", "a/x/y/b", true},
                {"a/**/b", "a/xb", false},
                {"a/**/b", "ab", false},
                {"src/**", "src/x/y", true},
                {"**.md", "a/b.md", true},
                {"*.md", "a/b.md", false},
                {"a?c/**/*.c", "abc/x/y.c", true},
                {"a?c", "a/c", false},
                {"**/*a*/**/*b*", "xa/y/zb", true},
                {"**/*a*/**/*b*", "xa", false},
                {"***/x", "a/b/x", true},
                {"*", "a", true},
                {"src/**/**/x", "src/x", true},
                {"src/*/x", "src/x", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin();
        add(&config, PERMIT_ALLOW, "edit_file", rows[i].pattern);
        enum permit_verdict v = judge("edit_file", input_of("path", rows[i].path, NULL));
        if ((v == PERMIT_ALLOW) != rows[i].fits) {
            test_fail(__FILE__, __LINE__, "'%s' and '%s'", rows[i].pattern, rows[i].path);
        }
        end();
    }
}

TEST(a_path_made_up_to_be_hard_takes_no_longer_than_another)
{
    begin();
    char path[4000];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    add(&config, PERMIT_DENY, "edit_file", "**/*a*a*a*a*a*a*a*a*a*a*b");
    add(&config, PERMIT_DENY, "edit_file", "**a**a**a**a**a**a**a**b");
    CHECK_INT(judge("edit_file", input_of("path", path, NULL)), PERMIT_NONE); // was never answered
    char *huge = arena_alloc(&arena, 1 << 20);
    memset(huge, 'a', (1 << 20) - 1);
    huge[(1 << 20) - 1] = '\0';
    add(&config, PERMIT_DENY, "edit_file", "**");
    CHECK_INT(judge("edit_file", input_of("path", huge, NULL)), PERMIT_NONE); // no file can have it
    end();
}

static void check_offers(const char *tool, const struct json *input, const char *expected)
{
    struct permit_offer offers[PERMIT__REACHES];
    struct permit_call c = call_of(tool, input);
    char all[1024] = "";
    size_t n = rules_offers(&c, &arena, offers);
    for (size_t i = 0; i < n; i++) {
        struct rule r;
        bool made = rules_make(&c, offers[i].reach, PERMIT_ALLOW, &arena, &r);
        CHECK_INT(made, offers[i].reach != PERMIT_ONCE);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s%s%s", i != 0 ? " | " : "",
                 permit_reach_name(offers[i].reach), made && r.match != NULL ? " " : "",
                 made && r.match != NULL ? r.match : "");
    }
    CHECK_STR(all, expected);
}

TEST(an_answer_is_offered_only_where_it_says_what_it_covers)
{
    begin();
    check_offers("shell", input_of("cmd", "git status -s", NULL),
                 "once | exact git status -s | prefix git status * | tool | project");
    check_offers("shell", input_of("cmd", "npm run build", NULL),
                 "once | exact npm run build | prefix npm run build * | tool | project");
    check_offers("shell", input_of("cmd", "ls -la /x", NULL),
                 "once | exact ls -la /x | prefix ls * | tool | project");
    check_offers("shell", input_of("cmd", "a && b", NULL), "once | exact a && b | tool | project");
    check_offers("shell", input_of("cmd", "sudo ls", NULL),
                 "once | exact sudo ls | tool | project");
    check_offers("shell", input_of("cmd", "python3 x.py", NULL),
                 "once | exact python3 x.py | tool | project");
    check_offers("shell", input_of("cmd", "ls", "/"), "once | tool | project");
    check_offers("edit_file", input_of("path", "src/a.c", NULL),
                 "once | exact src/a.c | prefix src/** | tool | project");
    check_offers("edit_file", input_of("path", "../a.c", NULL), "once | tool | project");
    check_offers(
        "web_fetch", input_of("url", "https://Docs.Example.org/a?b", NULL),
        "once | exact https://Docs.Example.org/a?b | prefix docs.example.org | tool | project");
    check_offers("web_fetch", input_of("url", "https://a@b/", NULL), "once | tool | project");
    check_offers("dice:roll", input_of("sides", "6", NULL), "once | tool | project");
    end();
}

static enum permit_verdict judge_url(const char *url)
{
    return judge("web_fetch", input_of("url", url, NULL));
}

TEST(addresses_are_compared_by_their_hosts)
{
    begin();
    add(&book, PERMIT_ALLOW, "web_fetch", "*.Example.org");
    add(&book, PERMIT_ALLOW, "web_fetch", "localhost:8080");
    add(&config, PERMIT_DENY, "web_fetch", "*.evil.org");
    CHECK_INT(judge_url("https://docs.example.org/a/b"), PERMIT_ALLOW);
    CHECK_INT(judge_url("http://DOCS.EXAMPLE.ORG:80"), PERMIT_ALLOW);
    CHECK_INT(judge_url("http://localhost:8080/x"), PERMIT_ALLOW);
    CHECK_INT(judge_url("http://localhost/x"), PERMIT_NONE);
    CHECK_INT(judge_url("https://docs.example.org:8443/"), PERMIT_NONE);
    CHECK_INT(judge_url("https://other.org/docs.example.org"), PERMIT_NONE);
    CHECK_INT(judge_url("https://other.org/?.example.org"), PERMIT_NONE);
    CHECK_INT(judge_url("https://other.org#.example.org"), PERMIT_NONE);
    CHECK_INT(judge_url("https://www.evil.org/"), PERMIT_DENY);
    CHECK_INT(judge_url("https://www.evil.org./"), PERMIT_DENY);
    CHECK_INT(judge_url("https://www.evil.org:8443/"), PERMIT_DENY);
    CHECK_INT(judge_url("https://www.evil.org:0443/"), PERMIT_DENY);
    CHECK_INT(judge_url("https://docs.example.org@www.evil.org/"), PERMIT_DENY);
    CHECK_INT(judge_url("https://x\\@docs.example.org/"), PERMIT_DENY);
    end();
}

/// What rules_add() says of such a rule.
static int try_rule(const char *tool, const char *match, struct err *e)
{
    struct rules r;
    const struct rule rule = {.tool = tool, .match = match, .decision = PERMIT_ASK};
    rules_init(&r);
    int rc = rules_add(&r, &rule, e);
    CHECK_INT(r.n, rc == 0);
    rules_fini(&r);
    return rc;
}

TEST(a_rule_that_cannot_be_is_refused_with_its_reason)
{
    struct err e = {0};
    CHECK_INT(try_rule("shell", "a; b", &e), ERR_INVALID);
    CHECK_INT(try_rule("shell", "", &e), ERR_INVALID);
    CHECK_INT(try_rule("roll", "x", &e), ERR_INVALID);
    CHECK(strstr(e.msg, "'roll'") != NULL);
    CHECK_INT(try_rule("shell", "git *", &e), 0);
    CHECK_INT(try_rule("edit_file", "src/**", &e), 0);
}
