#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "store/tree.h"
#include "unit/store/files.h"
#include "unit/test.h"

static struct tree tree(const char *rel)
{
    struct tree t;
    struct err e = {0};
    if (tree_read(&t, at(rel), &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return t;
}

static const char *hash(const char *rel)
{
    static char text[4][SHA256_HEX];
    static unsigned turn;
    char *out = text[turn++ % 4];
    struct tree t = tree(rel);
    memcpy(out, t.hash, SHA256_HEX);
    tree_fini(&t);
    return out;
}

TEST(a_directory_is_read_with_all_below_it_in_order)
{
    put("p/init.lua", "one");
    put("p/sub/b.lua", "");
    put("p/sub/a.lua", "two");
    put("p/run.sh", "#!/bin/sh\n");
    CHECK_INT(chmod(at("p/run.sh"), 0755), 0);
    struct tree t = tree("p");
    CHECK(!t.is_file);
    CHECK_INT(t.files.n, 4);
    CHECK_STR(t.files.p[0].path, "init.lua");
    CHECK_STR(t.files.p[1].path, "run.sh");
    CHECK_STR(t.files.p[2].path, "sub/a.lua");
    CHECK_STR(t.files.p[3].path, "sub/b.lua");
    CHECK(t.files.p[1].executable && !t.files.p[0].executable);
    CHECK_SPAN(tree_find(&t, STR("sub/a.lua"))->bytes, "two");
    CHECK(tree_find(&t, STR("sub")) == NULL);
    CHECK(tree_find(&t, STR("")) == NULL);
    tree_fini(&t);
}

TEST(a_single_file_has_the_name_it_was_asked_by)
{
    put("real/x.lua", "one");
    CHECK_INT(symlink("real/x.lua", at("alias.lua")), 0);
    struct tree t = tree("alias.lua");
    CHECK(t.is_file);
    CHECK_INT(t.files.n, 1);
    CHECK_STR(t.files.p[0].path, "alias.lua");
    CHECK_SPAN(t.files.p[0].bytes, "one");
    tree_fini(&t);
}

TEST(equal_trees_have_equal_hashes_and_others_have_not)
{
    put("a/x", "1");
    put("a/y", "2");
    put("b/y", "2");
    put("b/x", "1");
    CHECK_STR(hash("a"), hash("b"));
    put("b/x", "12");
    put("b/y", "");
    CHECK(strcmp(hash("a"), hash("b")) != 0); // not the bytes in a row
    put("b/x", "1");
    put("b/y", "2");
    CHECK_INT(chmod(at("b/x"), 0700), 0);
    CHECK(strcmp(hash("a"), hash("b")) != 0);
    put("one/x", "1");
    CHECK(strcmp(hash("one"), hash("one/x")) != 0); // a directory of one file, and that file
}

TEST(leavings_and_version_control_are_passed_over)
{
    put("p/x", "1");
    const char *before = hash("p");
    put("p/.git/config", "");
    put("p/.hg/x", "");
    put("p/.svn/x", "");
    put("p/node_modules/m/index.js", "");
    put("p/sub/__pycache__/m.pyc", "");
    put("p/x~", "");
    put("p/.x.swp", "");
    put("p/4913", "");
    CHECK_INT(symlink("me@there:1", at("p/.#x")), 0);
    CHECK_STR(hash("p"), before);
}

TEST(a_link_is_followed_inside_only)
{
    struct tree t;
    struct err e;
    put("p/sub/x", "1");
    put("out/y", "2");
    CHECK_INT(symlink("sub/x", at("p/in")), 0);
    CHECK_INT(symlink("sub", at("p/dir")), 0);
    t = tree("p");
    CHECK_SPAN(tree_find(&t, STR("in"))->bytes, "1");
    CHECK_SPAN(tree_find(&t, STR("dir/x"))->bytes, "1");
    tree_fini(&t);
    static const char *const outs[] = {"../out/y", "../out", "../../../../../../etc/passwd",
                                       "/etc/passwd", "sub/../../out"};
    for (size_t i = 0; i < ARRAY_LEN(outs); i++) {
        CHECK_INT(symlink(outs[i], at("p/leak")), 0);
        CHECK_INT(tree_read(&t, at("p"), &e), ERR_DENIED);
        CHECK(strstr(e.msg, "symbolic link 'leak' leads out of the plugin") != NULL);
        CHECK_INT(t.files.n, 0);
        CHECK_INT(unlink(at("p/leak")), 0);
    }
}

TEST(what_is_read_beneath_a_root_does_not_lead_out_of_it)
{
    struct tree t;
    struct err e;
    put("p/root/sub/x", "1");
    put("p/out/y", "2");
    char *inside = realpath(at("p/root"), NULL), *absolute = path_join(inside, "sub/x");
    CHECK_INT(symlink("sub/x", at("p/root/in")), 0);
    CHECK_INT(symlink(absolute, at("p/root/absolute")), 0);
    CHECK_INT(symlink("../root/sub", at("p/root/dir")), 0);
    CHECK_INT(symlink("../out", at("p/root/leak")), 0);
    static const char *const ins[] = {"in", "absolute", "dir/x", "sub/x"};
    for (size_t i = 0; i < ARRAY_LEN(ins); i++) {
        char *path = path_join(inside, ins[i]);
        CHECK_INT(tree_read_beneath(&t, inside, path, NULL), 0);
        CHECK_STR(t.files.p[0].path, path_base(str_of(ins[i])).p);
        CHECK_SPAN(t.files.p[0].bytes, "1");
        tree_fini(&t);
        free(path);
    }
    static const char *const outs[] = {"leak", "leak/y", "dir/../../out/y", "../out",
                                       "/etc/passwd"};
    for (size_t i = 0; i < ARRAY_LEN(outs); i++) {
        char *path = path_join(inside, outs[i]);
        CHECK_INT(tree_read_beneath(&t, inside, path, &e), ERR_DENIED);
        CHECK_INT(t.files.n, 0);
        free(path);
    }
    char *dir = path_join(inside, "dir");
    CHECK_INT(tree_read_beneath(&t, inside, dir, NULL), 0);
    CHECK(!t.is_file && t.files.n == 1);
    tree_fini(&t);
    free(dir);
    free(absolute);
    free(inside);
}

TEST(links_in_circles_and_to_nothing_are_passed_over)
{
    put("p/a/x", "1");
    const char *before = hash("p");
    CHECK_INT(symlink(".", at("p/self")), 0);
    CHECK_INT(symlink("..", at("p/a/up")), 0);
    CHECK_INT(symlink("loop", at("p/loop")), 0);
    CHECK_INT(symlink("nothing", at("p/dangling")), 0);
    CHECK_STR(hash("p"), before);
}

TEST(fifos_sockets_and_devices_are_never_opened)
{
    put("p/x", "1");
    const char *before = hash("p");
    CHECK_INT(mkfifo(at("p/fifo"), 0600), 0);
    CHECK_INT(symlink("fifo", at("p/to-fifo")), 0);
    CHECK_STR(hash("p"), before);
    struct tree t;
    CHECK_INT(tree_read(&t, at("p/fifo"), NULL), ERR_UNSUPPORTED);
    CHECK_INT(tree_read(&t, at("p/nothing"), NULL), ERR_NOT_FOUND);
    CHECK_INT(tree_read(&t, at("p/x/y"), NULL), ERR_NOT_FOUND);
}

static void sized(const char *rel, off_t size)
{
    put(rel, "");
    CHECK_INT(truncate(at(rel), size), 0);
}

TEST(a_tree_has_bounds)
{
    struct tree t;
    char path[4096] = "deep";
    for (int i = 0; i < TREE_DEPTH; i++) {
        strcat(path, "/d");
    }
    strcat(path, "/x");
    put(path, "");
    CHECK_INT(tree_read(&t, at("deep"), NULL), ERR_TOO_LARGE);
    CHECK_INT(t.files.n, 0);
    sized("huge/x", TREE_FILE_BYTES + 1);
    CHECK_INT(tree_read(&t, at("huge"), NULL), ERR_TOO_LARGE);
    CHECK_INT(tree_read(&t, at("huge/x"), NULL), ERR_TOO_LARGE);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "sum/f%d", i);
        sized(path, TREE_FILE_BYTES);
    }
    CHECK_INT(tree_read(&t, at("sum"), NULL), ERR_TOO_LARGE);
    for (int i = 0; i <= TREE_FILES; i++) {
        snprintf(path, sizeof path, "many/f%d", i);
        put(path, "");
    }
    CHECK_INT(tree_read(&t, at("many"), NULL), ERR_TOO_LARGE);
}

TEST(links_that_multiply_directories_are_bounded)
{
    struct tree t;
    char path[64];
    for (int i = 0; i < 12; i++) { // d0 has four links to d1, d1 four to d2, ...: 4^12 directories
        snprintf(path, sizeof path, "p/d%d", i); // empty: it is not the files that run out
        CHECK_INT(path_mkdirs(at(path), 0700, NULL), 0);
        for (int k = 0; k < 4 && i < 11; k++) {
            char target[32];
            snprintf(path, sizeof path, "p/d%d/l%d", i, k);
            snprintf(target, sizeof target, "../d%d", i + 1);
            CHECK_INT(symlink(target, at(path)), 0);
        }
    }
    CHECK_INT(tree_read(&t, at("p"), NULL), ERR_TOO_LARGE);
}

TEST(a_file_that_changes_all_the_time_is_a_conflict_or_one_moments)
{
    put("p/a", "0");
    put("p/b", "0");
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) { // always writes the same into both, first a, then b
        for (unsigned i = 0;; i++) {
            for (int k = 0; k < 2; k++) {
                int fd = open(at(k == 0 ? "p/a" : "p/b"), O_WRONLY | O_TRUNC);
                dprintf(fd, "%u", i);
                close(fd);
            }
        }
    }
    int conflicts = 0;
    for (int i = 0; i < 20000 && conflicts == 0; i++) { // the first is seen within a few
        struct tree t;
        int rc = tree_read(&t, at("p"), NULL);
        CHECK(rc == 0 || rc == ERR_CONFLICT);
        conflicts += rc == ERR_CONFLICT;
        tree_fini(&t);
    }
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(conflicts != 0);
}

/// Is a tree of another user's because of `name`? NULL: it is not.
static void check_foreign(const char *rel, const char *name)
{
    struct tree t = tree(rel);
    if (name == NULL ? t.foreign != NULL : t.foreign == NULL || strstr(t.foreign, name) == NULL) {
        test_fail(__FILE__, __LINE__, "%s: %s, not %s", rel, t.foreign, name);
    }
    tree_fini(&t);
}

TEST(what_another_user_owns_or_may_write_is_named)
{
    static const char *const rows[] = {"d/p/sub/a.lua", "d/p/sub", "d/p", "d"};
    static const char *const names[] = {"sub/a.lua", "sub", ".", "/d"};
    put("d/p/sub/a.lua", "");
    put("d/single.lua", "");
    check_foreign("d/p", NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(chmod(at(rows[i]), 0757), 0);
        check_foreign("d/p", names[i]);
        CHECK_INT(chmod(at(rows[i]), 0755), 0);
    }
    CHECK_INT(chmod(at("d"), 01777), 0); // as /tmp: each removes their own only
    check_foreign("d/p", NULL);
    check_foreign("d/single.lua", NULL);
    CHECK_INT(chmod(at("d"), 0777), 0);
    check_foreign("d/single.lua", "/d");
    CHECK_INT(chmod(at("d"), 0755), 0);
    if (geteuid() != 0) {
        test_skip("only root gives files to others");
    }
    CHECK_INT(chown(at("d/p/sub/a.lua"), 4243, 4243), 0);
    check_foreign("d/p", "sub/a.lua");
    CHECK_INT(chown(at("d/p/sub/a.lua"), 0, 4243) | chmod(at("d/p/sub/a.lua"), 0664), 0);
    check_foreign("d/p", "sub/a.lua"); // by its group
}

TEST(a_tree_survives_as_a_text)
{
    static const char *const rows[] = {"p", "p/a.lua"};
    struct buf text;
    put("p/a.lua", "return 1\n");
    put("p/sub/b\xc3\xa4", "\x01\xff, no text");
    put("p/empty", "");
    CHECK_INT(chmod(at("p/a.lua"), 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tree t = tree(rows[i]), again;
        buf_init(&text, SIZE_MAX);
        tree_to_text(&t, &text);
        CHECK_INT(tree_of_text(&again, buf_str(&text), NULL), 0);
        CHECK_STR(again.hash, t.hash);
        CHECK(again.is_file == t.is_file && again.files.n == t.files.n);
        CHECK(t.link == NULL);
        tree_fini(&again);
        tree_fini(&t);
        buf_fini(&text);
    }
    CHECK_INT(symlink("a.lua", at("p/linked.lua")), 0);
    struct tree t = tree("p");
    CHECK_STR(t.link, "linked.lua");
    tree_fini(&t);
}

TEST(a_text_that_leads_out_is_refused)
{
    static const struct {
        int code;
        const char *file;
    } rows[] = {
        {0, "{'path':'a/b.lua','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'../b.lua','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'/etc/passwd','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'a/../../b','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'a//b','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'./b','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'a/','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'a\\u0000b','bytes':'eA=='}"},
        {ERR_DENIED, "{'path':'','bytes':'eA=='}"},
        {ERR_DENIED, "{'bytes':'eA=='}"},
        {ERR_DENIED, "17"},
        {ERR_CORRUPT, "{'path':'a','bytes':'no base64'}"},
        {ERR_CORRUPT, "{'path':'b','bytes':''},{'path':'a','bytes':''}"},
        {ERR_CORRUPT, "{'path':'a','bytes':''},{'path':'a','bytes':''}"},
        {ERR_CORRUPT, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tree t;
        char text[200];
        int n = snprintf(text, sizeof text, "{'file':false,'files':[%s]}", rows[i].file);
        for (char *c = text; *c != '\0'; c++) {
            *c = *c == '\'' ? '"' : *c;
        }
        int rc = tree_of_text(&t, (struct str){text, (size_t)n}, NULL);
        if (rc != rows[i].code) {
            test_fail(__FILE__, __LINE__, "%s: %d", rows[i].file, rc);
        }
        if (rc == 0) {
            tree_fini(&t);
        }
    }
    struct tree t;
    CHECK(tree_of_text(&t, STR("{\"file\":true,\"files\":[{\"path\":\"a/b\",\"bytes\":\"\"}]}"),
                       NULL) == ERR_DENIED);
    CHECK(tree_of_text(&t, STR("[]"), NULL) == ERR_CORRUPT);
    CHECK(tree_of_text(&t, STR("{"), NULL) < 0);
}
