#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "store/versions.h"
#include "unit/trust/util.h"

#define PLUGIN ".afloat/plugins/x.lua"

static struct trust *book(void)
{
    struct trust *t;
    struct err e = {0};
    if (trust_open(&t, at("home"), &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return t;
}

static enum trust_answer ask(const struct trust *t, const char *dir)
{
    struct trust_place p = place(dir);
    struct tree tree;
    char *path = path_join(p.root, PLUGIN);
    CHECK_INT(tree_read(&tree, path, NULL), 0);
    enum trust_answer a = trust_ask(t, &p, TRUST_PLUGIN, PLUGIN, tree.hash);
    tree_fini(&tree);
    free(path);
    trust_place_fini(&p);
    return a;
}

static int add(struct trust *t, const char *dir, bool follow, struct err *e)
{
    struct trust_place p = place(dir);
    struct trust_scan s;
    CHECK_INT(trust_scan(&s, p.root, NULL), 0);
    int rc = trust_add(t, &p, s.items.p, s.items.n, follow, e);
    trust_scan_fini(&s);
    trust_place_fini(&p);
    return rc;
}

static void begin(void)
{
    put_dir("home");
    put_repo("repo");
    put("repo/" PLUGIN, "-- one\n");
}

TEST(nothing_is_trusted_at_first)
{
    begin();
    struct trust *t = book();
    struct trust_place p = place("repo");
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    CHECK(!trust_knows(t, &p));
    CHECK(trust_last(t, &p, TRUST_PLUGIN, PLUGIN) == NULL);
    trust_place_fini(&p);
    trust_close(t);
}

TEST(what_was_trusted_is_trusted_by_others_who_read_the_file)
{
    begin();
    struct trust *t = book();
    CHECK_INT(add(t, "repo", false, NULL), 0);
    CHECK_INT(ask(t, "repo"), TRUST_YES);
    trust_close(t);
    t = book();
    CHECK_INT(ask(t, "repo"), TRUST_YES);
    trust_close(t);
    struct stat st;
    CHECK_INT(stat(at("home/trust.json"), &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
}

TEST(a_change_is_not_trusted_and_every_hash_once_trusted_is)
{
    begin();
    struct trust *t = book();
    struct trust_place p = place("repo");
    CHECK_INT(add(t, "repo", false, NULL), 0);
    char first[SHA256_HEX];
    snprintf(first, sizeof first, "%s", trust_last(t, &p, TRUST_PLUGIN, PLUGIN));
    put("repo/" PLUGIN, "-- two\n");
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    CHECK_INT(add(t, "repo", false, NULL), 0);
    CHECK_INT(ask(t, "repo"), TRUST_YES);
    CHECK(!trust_keeps(t, first));
    put("repo/" PLUGIN, "-- one\n");
    CHECK_INT(ask(t, "repo"), TRUST_YES);
    CHECK(strcmp(trust_last(t, &p, TRUST_PLUGIN, PLUGIN), first) != 0);
    CHECK_INT(add(t, "repo", false, NULL), 0); // an old one again is the latest again
    CHECK_STR(trust_last(t, &p, TRUST_PLUGIN, PLUGIN), first);
    CHECK(trust_keeps(t, first));
    trust_place_fini(&p);
    trust_close(t);
}

TEST(trust_is_for_a_kind_and_a_path)
{
    begin();
    struct trust *t = book();
    CHECK_INT(add(t, "repo", false, NULL), 0);
    struct trust_place p = place("repo");
    char hash[SHA256_HEX];
    snprintf(hash, sizeof hash, "%s", trust_last(t, &p, TRUST_PLUGIN, PLUGIN));
    CHECK_INT(trust_ask(t, &p, TRUST_SKILL, PLUGIN, hash), TRUST_NO);
    CHECK_INT(trust_ask(t, &p, TRUST_PLUGIN, ".afloat/plugins/y.lua", hash), TRUST_NO);
    CHECK_INT(trust_ask(t, &p, TRUST_PLUGIN, PLUGIN, ""), TRUST_NO);
    trust_place_fini(&p);
    put_repo("other");
    put("other/" PLUGIN, "-- one\n");
    CHECK_INT(ask(t, "other"), TRUST_NO);
    trust_close(t);
}

TEST(a_followed_place_is_trusted_whatever_it_holds)
{
    begin();
    struct trust *t = book();
    CHECK_INT(add(t, "repo", true, NULL), 0);
    put("repo/" PLUGIN, "-- two\n");
    CHECK_INT(ask(t, "repo"), TRUST_FOLLOWED);
    CHECK_INT(add(t, "repo", false, NULL), 0); // does not end it
    put("repo/" PLUGIN, "-- three\n");
    CHECK_INT(ask(t, "repo"), TRUST_FOLLOWED);
    trust_close(t);
}

TEST(a_linked_worktree_is_trusted_by_content_and_ours_are_never_followed)
{
    begin();
    put_worktree("repo", "mine", "mine");
    put_worktree("repo", "home/worktrees/repo/bot-1", "bot-1");
    put("mine/" PLUGIN, "-- one\n");
    put("home/worktrees/repo/bot-1/" PLUGIN, "-- one\n");
    struct trust *t = book();
    CHECK_INT(add(t, "repo", true, NULL), 0);
    CHECK_INT(ask(t, "mine"), TRUST_YES);
    CHECK_INT(ask(t, "home/worktrees/repo/bot-1"), TRUST_YES);
    put("mine/" PLUGIN, "-- two\n");
    put("home/worktrees/repo/bot-1/" PLUGIN, "-- two\n");
    CHECK_INT(ask(t, "mine"), TRUST_FOLLOWED);
    CHECK_INT(ask(t, "home/worktrees/repo/bot-1"), TRUST_NO);
    trust_close(t);
}

TEST(untrusting_forgets_the_place_and_no_other)
{
    begin();
    put_repo("other");
    put("other/" PLUGIN, "-- one\n");
    struct trust *t = book();
    struct trust_place p = place("repo");
    CHECK_INT(trust_remove(t, &p, NULL), ERR_NOT_FOUND);
    CHECK_INT(add(t, "repo", true, NULL), 0);
    CHECK_INT(add(t, "other", false, NULL), 0);
    CHECK_INT(trust_remove(t, &p, NULL), 0);
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    CHECK_INT(ask(t, "other"), TRUST_YES);
    trust_close(t);
    t = book();
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    CHECK_INT(ask(t, "other"), TRUST_YES);
    trust_place_fini(&p);
    trust_close(t);
}

TEST(contents_are_kept_but_not_the_environments)
{
    begin();
    put("repo/.afloat/env.toml", "dotenv = ['.env']\n");
    put("repo/.env", "PASSWORD=x\n");
    struct trust *t = book();
    CHECK_INT(add(t, "repo", false, NULL), 0);
    struct trust_place p = place("repo");
    struct tree tree;
    CHECK_INT(versions_get(&tree, at("home/state/versions"),
                           trust_last(t, &p, TRUST_PLUGIN, PLUGIN), NULL),
              0);
    CHECK(tree.is_file);
    CHECK_SPAN(tree.files.p[0].bytes, "-- one\n");
    tree_fini(&tree);
    CHECK_INT(versions_get(&tree, at("home/state/versions"),
                           trust_last(t, &p, TRUST_ENV, TRUST_ENV_PATH), NULL),
              ERR_NOT_FOUND);
    trust_place_fini(&p);
    trust_close(t);
}

TEST(an_item_with_an_error_is_never_trusted)
{
    begin();
    put("outside.lua", "");
    put_link("repo/.afloat/plugins/out.lua", "../../../outside.lua");
    struct trust *t = book();
    CHECK_INT(add(t, "repo", false, NULL), 0);
    struct trust_place p = place("repo");
    CHECK(trust_last(t, &p, TRUST_PLUGIN, ".afloat/plugins/out.lua") == NULL);
    trust_place_fini(&p);
    trust_close(t);
}

static unsigned told;

static void count(const struct trust *t, void *arg)
{
    (void)t;
    CHECK(arg == &told);
    told++;
}

TEST(listeners_are_told_of_changes_and_of_nothing_else)
{
    begin();
    struct trust *hub = book(), *t = book();
    trust_listen(hub, count, &told);
    CHECK_INT(add(t, "repo", false, NULL), 0);
    CHECK_INT(ask(hub, "repo"), TRUST_NO);
    trust_adopt(hub, book());
    CHECK_INT(told, 1);
    CHECK_INT(ask(hub, "repo"), TRUST_YES);
    trust_adopt(hub, book());
    CHECK_INT(told, 1);
    trust_unlisten(hub, count, &told);
    CHECK_INT(add(t, "repo", true, NULL), 0);
    trust_adopt(hub, book());
    CHECK_INT(told, 1);
    trust_close(t);
    trust_close(hub);
}

TEST(two_writers_lose_nothing)
{
    enum { EACH = 10 };
    put_dir("home");
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < EACH; i++) {
            char path[64];
            snprintf(path, sizeof path, "r%d-%d/" PLUGIN, w, i);
            put(path, "");
        }
    }
    for (int w = 0; w < 2; w++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            struct trust *t = book(); // what it knows is soon old
            for (int i = 0; i < EACH; i++) {
                char dir[32];
                snprintf(dir, sizeof dir, "r%d-%d", w, i);
                CHECK_INT(add(t, dir, false, NULL), 0);
            }
            _exit(0);
        }
    }
    for (int w = 0; w < 2; w++) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK_INT(status, 0);
    }
    struct trust *t = book();
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < EACH; i++) {
            char dir[32];
            snprintf(dir, sizeof dir, "r%d-%d", w, i);
            CHECK_INT(ask(t, dir), TRUST_YES);
        }
    }
    trust_close(t);
}

#define H "5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c"
#define ITEM                                                                                       \
    "{\"kind\":\"plugin\",\"path\":\"a\",\"trusted_at\":\"2026-11-15T05:00:00Z\",\"hashes\":"
#define FILE_(places) "{\"version\":1,\"places\":" places "}"
#define PLACE(items)  FILE_("[{\"path\":\"/p\",\"follow\":true,\"items\":" items "}]")

TEST(a_damaged_file_is_set_aside_and_trusts_nothing)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"places\":[]}",
        "{\"version\":\"1\",\"places\":[]}",
        "{\"version\":0,\"places\":[]}",
        FILE_("{}"),
        FILE_("[1]"),
        FILE_("[{}]"),
        FILE_("[{\"path\":\"p\",\"follow\":true,\"items\":[]}]"),
        FILE_("[{\"path\":\"/p\",\"follow\":1,\"items\":[]}]"),
        FILE_("[{\"path\":\"/p\",\"items\":[]}]"),
        FILE_("[{\"path\":\"/p\\u0000q\",\"follow\":true,\"items\":[]}]"),
        FILE_("[{\"path\":[\"/p\"],\"follow\":true,\"items\":[]}]"),
        FILE_("[{\"path\":\"/p\",\"follow\":true,\"items\":[]},"
              "{\"path\":\"/p\",\"follow\":true,\"items\":[]}]"),
        PLACE("{}"),
        PLACE("[null]"),
        PLACE("[{}]"),
        PLACE("[" ITEM "[]}]"),
        PLACE("[" ITEM "[1]}]"),
        PLACE("[" ITEM "\"" H "\"}]"),
        PLACE("[" ITEM "[\"" H "0\"]}]"),
        PLACE("[" ITEM "[\"../../../etc\"]}]"),
        PLACE("[" ITEM "[\"" H "\"]}," ITEM "[\"" H "\"]}]"),
        PLACE("[{\"kind\":\"pluggin\",\"path\":\"a\",\"trusted_at\":\"2026-11-15T05:00:00Z\","
              "\"hashes\":[\"" H "\"]}]"),
        PLACE("[{\"kind\":\"plugin\",\"path\":\"../a\",\"trusted_at\":\"2026-11-15T05:00:00Z\","
              "\"hashes\":[\"" H "\"]}]"),
        PLACE("[{\"kind\":\"plugin\",\"path\":\"/a\",\"trusted_at\":\"2026-11-15T05:00:00Z\","
              "\"hashes\":[\"" H "\"]}]"),
        PLACE("[{\"kind\":\"plugin\",\"path\":\"a\",\"trusted_at\":\"yesterday\",\"hashes\":[\"" H
              "\"]}]"),
    };
    struct trust_place p = {.root = (char[]){"/p"}, .place = (char[]){"/p"}};
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct trust *t;
        struct err e = {0};
        put("home/trust.json", texts[i]);
        CHECK_INT(trust_open(&t, at("home"), &e), ERR_CORRUPT);
        CHECK(strstr(e.msg, "set aside") != NULL);
        CHECK(!trust_knows(t, &p));
        CHECK(stat(at("home/trust.json"), &st) != 0);
        trust_close(t);
        t = book(); // and the next one begins anew
        trust_close(t);
    }
    put("home/trust.json", PLACE("[" ITEM "[\"" H "\"]}]")); // the one that is right
    struct trust *t = book();
    CHECK_INT(trust_ask(t, &p, TRUST_PLUGIN, "a", H), TRUST_YES);
    trust_close(t);
}

TEST(a_file_of_a_later_version_trusts_nothing_and_is_not_written_over)
{
    static const char later[] = "{\"version\":2,\"places\":[]}";
    struct trust *t;
    begin();
    put("home/trust.json", later);
    CHECK_INT(trust_open(&t, at("home"), NULL), ERR_UNSUPPORTED);
    CHECK_INT(add(t, "repo", true, NULL), ERR_UNSUPPORTED);
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    struct buf b = get("home/trust.json");
    CHECK_STR(buf_z(&b), later);
    buf_fini(&b);
    trust_close(t);
}

TEST(a_file_that_others_may_write_trusts_nothing)
{
    struct trust *t;
    begin();
    t = book();
    CHECK_INT(add(t, "repo", true, NULL), 0);
    trust_close(t);
    CHECK_INT(chmod(at("home/trust.json"), 0622), 0);
    CHECK_INT(trust_open(&t, at("home"), NULL), ERR_DENIED);
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    CHECK_INT(add(t, "repo", true, NULL), ERR_DENIED);
    trust_close(t);
    CHECK_INT(rename(at("home/trust.json"), at("home/real.json")), 0);
    CHECK_INT(chmod(at("home/real.json"), 0600), 0);
    put_link("home/trust.json", "real.json");
    CHECK(trust_open(&t, at("home"), NULL) < 0);
    CHECK_INT(ask(t, "repo"), TRUST_NO);
    trust_close(t);
}

TEST(answers_say_what_is_there)
{
    begin();
    struct trust *t = book();
    struct trust_place p = place("repo");
    struct trust_scan s;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    CHECK_INT(trust_scan(&s, p.root, NULL), 0);
    CHECK_STR(trust_state(t, &p, &s.items.p[0]), "new");
    trust_write_scan(t, &p, &s, true, true, &b);
    CHECK(strstr(buf_z(&b), "\"follow\":true,\"dry_run\":true,\"items\":[{\"kind\":\"plugin\","
                            "\"name\":\"x\",\"path\":\".afloat/plugins/x.lua\"") != NULL);
    CHECK(strstr(buf_z(&b), "\"files\":[\"x.lua\"],\"state\":\"new\"}") != NULL);
    trust_scan_fini(&s);
    CHECK_INT(add(t, "repo", false, NULL), 0);
    put("repo/" PLUGIN, "-- two\n");
    CHECK_INT(trust_scan(&s, p.root, NULL), 0);
    CHECK_STR(trust_state(t, &p, &s.items.p[0]), "changed");
    trust_scan_fini(&s);
    buf_clear(&b);
    trust_write(t, &b);
    CHECK(strstr(buf_z(&b), "\"versions\":1") != NULL);
    CHECK(strstr(buf_z(&b), "\"next\":null") != NULL);
    buf_fini(&b);
    trust_place_fini(&p);
    trust_close(t);
}

static bool allows(const struct trust *t)
{
    struct trust_place p = place("repo");
    struct tree tree;
    CHECK_INT(tree_read(&tree, at("repo/" PLUGIN), NULL), 0);
    bool yes = trust_allows(t, &p, TRUST_PLUGIN, PLUGIN, &tree);
    tree_fini(&tree);
    trust_place_fini(&p);
    return yes;
}

TEST(following_ends_where_another_user_can_write)
{
    static const char *const rows[] = {"repo", "repo/.afloat", "repo/.afloat/plugins",
                                       "repo/" PLUGIN};
    begin();
    struct trust *t = book();
    CHECK_INT(add(t, "repo", true, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put("repo/" PLUGIN, "-- two\n");
        CHECK(allows(t));
        bool file = i + 1 == ARRAY_LEN(rows); // whose executable bit is a part of its hash
        CHECK_INT(chmod(at(rows[i]), file ? 0666 : 0777), 0);
        CHECK(!allows(t));
        put("repo/" PLUGIN, "-- one\n"); // these very bytes were trusted
        CHECK(allows(t));
        CHECK_INT(chmod(at(rows[i]), file ? 0644 : 0755), 0);
    }
    trust_close(t);
}

TEST(an_environment_of_another_user_is_told)
{
    static const char *const rows[] = {"repo/env.sh", "repo/conf", "repo/.afloat/env.toml"};
    begin();
    put("repo/.afloat/env.toml", "script = 'env.sh'\ndotenv = 'conf/.env'\n");
    put("repo/env.sh", "");
    put("repo/conf/.env", "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tree tree;
        CHECK_INT(chmod(at(rows[i]), 0777), 0);
        CHECK_INT(trust_env_read(&tree, at("repo"), NULL), 0);
        CHECK(tree.foreign != NULL && strstr(tree.foreign, rows[i]) != NULL);
        tree_fini(&tree);
        CHECK_INT(chmod(at(rows[i]), 0755), 0);
    }
}
