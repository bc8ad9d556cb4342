#include "unit/test.h"
#include "watch/ignore.h"

static bool ignored(const char *const *rules, const char *rel, bool is_dir)
{
    return ignore_match(rules, str_of(rel), is_dir);
}

TEST(a_rule_without_a_slash_fits_names_at_any_depth)
{
    const char *const rules[] = {"*.tmp", NULL};
    CHECK(ignored(rules, "a.tmp", false));
    CHECK(ignored(rules, "x/y/a.tmp", false));
    CHECK(ignored(rules, "x.tmp", true));
    CHECK(!ignored(rules, "a.tmp.lua", false));
}

TEST(a_rule_with_a_slash_at_its_end_fits_directories_only)
{
    const char *const rules[] = {"build/", NULL};
    CHECK(ignored(rules, "build", true));
    CHECK(ignored(rules, "x/build", true));
    CHECK(!ignored(rules, "build", false));
}

TEST(a_rule_with_a_slash_inside_fits_the_path)
{
    const char *const rules[] = {"docs/*.pdf", "/top", NULL};
    CHECK(ignored(rules, "docs/a.pdf", false));
    CHECK(!ignored(rules, "x/docs/a.pdf", false));
    CHECK(ignored(rules, "top", false));
    CHECK(!ignored(rules, "x/top", false));
}

TEST(the_last_rule_that_fits_decides)
{
    const char *const rules[] = {"*.tmp", "!keep.tmp", "keep.tmp/", NULL};
    CHECK(ignored(rules, "a.tmp", false));
    CHECK(!ignored(rules, "keep.tmp", false));
    CHECK(ignored(rules, "keep.tmp", true));
}

TEST(what_editors_leave_beside_a_file_is_ignored_by_default)
{
    CHECK(ignored(watch_ignore_default, "a/.x.lua.swp", false));
    CHECK(ignored(watch_ignore_default, "a/x.lua~", false));
    CHECK(ignored(watch_ignore_default, ".git", true));
    CHECK(!ignored(watch_ignore_default, "a/x.lua", false));
    CHECK(!ignored(watch_ignore_default, ".github", true));
}
