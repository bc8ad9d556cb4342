#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include "base/path.h"
#include "lib/fault.h"
#include "store/versions.h"
#include "unit/store/files.h"
#include "unit/test.h"

/// Keep what lies at `rel`; returns its hash, in one of a few buffers.
static const char *keep(const char *rel)
{
    static char text[4][SHA256_HEX];
    static unsigned turn;
    char *out = text[turn++ % 4];
    struct tree t;
    struct err e = {0};
    CHECK_INT(tree_read(&t, at(rel), NULL), 0);
    if (versions_put(at("state/versions"), &t, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    memcpy(out, t.hash, SHA256_HEX);
    tree_fini(&t);
    return out;
}

TEST(a_version_comes_back_as_it_was)
{
    struct tree t;
    put("p/init.lua", "one");
    put("p/sub/deep/x", "two");
    put("p/run", "");
    CHECK_INT(chmod(at("p/run"), 0700), 0);
    const char *hash = keep("p");
    CHECK_STR(keep("p"), hash);
    CHECK_INT(path_remove_tree(at("p"), NULL), 0);
    CHECK_INT(versions_get(&t, at("state/versions"), hash, NULL), 0);
    CHECK_STR(t.hash, hash);
    CHECK(!t.is_file);
    CHECK_SPAN(tree_find(&t, STR("sub/deep/x"))->bytes, "two");
    CHECK(tree_find(&t, STR("run"))->executable);
    tree_fini(&t);
}

TEST(a_single_file_comes_back_as_one_and_a_directory_of_one_as_a_directory)
{
    struct tree t;
    put("x.lua", "one");
    put("p/x.lua", "one");
    const char *file = keep("x.lua"), *dir = keep("p");
    CHECK_INT(versions_get(&t, at("state/versions"), file, NULL), 0);
    CHECK(t.is_file);
    tree_fini(&t);
    CHECK_INT(versions_get(&t, at("state/versions"), dir, NULL), 0);
    CHECK(!t.is_file);
    tree_fini(&t);
}

TEST(a_version_that_was_tampered_with_is_not_given_out)
{
    struct tree t;
    char path[256];
    put("x.lua", "one");
    const char *hash = keep("x.lua");
    snprintf(path, sizeof path, "state/versions/%s/x.lua", hash);
    put(path, "evil");
    CHECK_INT(versions_get(&t, at("state/versions"), hash, NULL), ERR_CORRUPT);
    CHECK_INT(t.files.n, 0);
}

TEST(a_hash_from_outside_is_no_path)
{
    struct tree t;
    static const char *const odd[] = {"", "..", "../../etc", "5f0c", ".new-1"};
    put("state/versions/.new-1/x", "");
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        CHECK_INT(versions_get(&t, at("state/versions"), odd[i], NULL), ERR_NOT_FOUND);
    }
    char none[SHA256_HEX];
    memset(none, '0', sizeof none - 1);
    none[sizeof none - 1] = '\0';
    CHECK_INT(versions_get(&t, at("state/versions"), none, NULL), ERR_NOT_FOUND);
}

static bool is_wanted(const char *hash, void *arg)
{
    return strcmp(hash, arg) == 0;
}

TEST(pruning_removes_what_nobody_wants_and_what_was_left_behind)
{
    struct tree t;
    char wanted[SHA256_HEX];
    put("a.lua", "a");
    put("b.lua", "b");
    put("c.lua", "c");
    snprintf(wanted, sizeof wanted, "%s", keep("a.lua"));
    keep("b.lua");
    keep("c.lua");
    put("state/versions/.new-old/x", "");
    put("state/versions/.new-now/x", "");
    put("state/versions/notes.txt", "not ours");
    CHECK_INT(utime(at("state/versions/.new-old"), &(struct utimbuf){0}), 0);
    CHECK_INT(versions_prune(at("state/versions"), is_wanted, wanted, NULL), 2);
    CHECK_INT(versions_get(&t, at("state/versions"), wanted, NULL), 0);
    tree_fini(&t);
    CHECK(access(at("state/versions/.new-old"), F_OK) != 0);
    CHECK(access(at("state/versions/.new-now/x"), F_OK) == 0);
    CHECK(access(at("state/versions/notes.txt"), F_OK) == 0);
    CHECK_INT(versions_prune(at("nowhere"), is_wanted, wanted, NULL), 0);
}

/// Fail each call of a put in turn: there is a whole version, or none and an error.
TEST(a_failing_put_leaves_nothing_or_all)
{
    struct tree t, back;
    unsigned points = 0;
    put("p/a", "one");
    put("p/sub/b", "two");
    CHECK_INT(tree_read(&t, at("p"), NULL), 0);
    for (unsigned long n = 1;; n++) {
        fault_at(n, ENOSPC, n % 2 == 0);
        int rc = versions_put(at("state/versions"), &t, NULL);
        unsigned long hits = fault_hits();
        fault_off();
        int got = versions_get(&back, at("state/versions"), t.hash, NULL);
        CHECK(got == 0 || (got == ERR_NOT_FOUND && rc < 0));
        if (got == 0) {
            tree_fini(&back);
        }
        if (access(at("state"), F_OK) == 0) {
            CHECK_INT(path_remove_tree(at("state"), NULL), 0);
        }
        if (hits == 0) {
            break;
        }
        points++;
    }
    printf("%u points failed\n", points);
    CHECK(points != 0);
    tree_fini(&t);
}
