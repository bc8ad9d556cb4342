#include "env/paths.h"
#include "unit/test.h"

static struct arena arena;

// "front | back" of a difference.
static const char *diff(const char *base, const char *now)
{
    static char text[256];
    struct env_list front = {0}, back = {0};
    if (!env_paths_diff(&arena, base, now, &front, &back)) {
        return "plain";
    }
    snprintf(text, sizeof text, "%s|%s", env_paths_join(&arena, front.items, front.n),
             env_paths_join(&arena, back.items, back.n));
    return text;
}

TEST(the_difference_of_two_lists_is_what_was_put_around)
{
    static const struct {
        const char *base, *now, *diff;
    } rows[] = {
        {"/a:/b", "/a:/b", "|"},
        {"/a:/b", "/p:/q:/a:/b", "/p:/q|"},
        {"/a:/b", "/a:/b:/z", "|/z"},
        {"/a:/b", "/p:/a:/b:/z", "/p|/z"},
        {"/a:/b", "/b:/a", "/b|"},          // one of theirs moved to the front
        {NULL, "/p:/q", "/p:/q|"},          // there was none
        {"/a:/b", "/p", "/p|"},             // theirs are left out, and stay
        {"/a:/b", "/p:/b:/q", "/p|/q"},     // the same in the middle
        {"/a:/b", "/p:/p:/a:/b", "/p|"},    // no element twice
        {"/a::/b", "/p:/a::/b", "/p|"},     // an empty one of theirs
        {"/a", "/a:", "plain"},             // an empty one that is new
        {"/a:/b:/a", "/p:/a:/b:/a", "/p|"}, // twice in theirs
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(diff(rows[i].base, rows[i].now), rows[i].diff) != 0) {
            test_fail(__FILE__, __LINE__, "row %zu: %s", i, diff(rows[i].base, rows[i].now));
        }
    }
    arena_fini(&arena);
}

TEST(a_list_of_many_thousand_elements_is_a_plain_value)
{
    struct buf long_list;
    buf_init(&long_list, SIZE_MAX);
    for (int i = 0; i < 20000; i++) {
        buf_addf(&long_list, "%s/d%d", i == 0 ? "" : ":", i);
    }
    CHECK_STR(diff("/a", buf_z(&long_list)), "plain");
    buf_fini(&long_list);
    arena_fini(&arena);
}

TEST(elements_are_put_around_without_doubles)
{
    const char *front_items[] = {"/p", "/b"}, *back_items[] = {"/z", "/a"};
    struct env_list front = {"PATH", front_items, 2}, back = {"PATH", back_items, 2};
    CHECK_STR(env_paths_put(&arena, "/a:/b:/c", &front, NULL), "/p:/b:/a:/c");
    CHECK_STR(env_paths_put(&arena, "/a:/b:/c", &front, &back), "/p:/b:/c:/z:/a");
    CHECK_STR(env_paths_put(&arena, NULL, &front, NULL), "/p:/b");
    CHECK_STR(env_paths_put(&arena, ":/c", &front, NULL), "/p:/b::/c");
    arena_fini(&arena);
}
