#include "unit/test.h"
#include "view/history.h"

// The newest text that a chat would find in the file.
static void check_newest(const char *path, const char *expected)
{
    struct edit ed;
    edit_init(&ed);
    history_load(&ed, path);
    CHECK(ed.history.n != 0);
    CHECK_STR(*vec_last(&ed.history), expected);
    edit_fini(&ed);
}

TEST(a_full_history_still_takes_what_is_said)
{
    char *path = xasprintf("%s/history", test_dir()), text[32];
    struct edit ed;
    edit_init(&ed);
    for (int i = 0; i < 1005; i++) {
        snprintf(text, sizeof text, "text %d", i);
        history_add(&ed, path, str_of(text));
    }
    check_newest(path, "text 1004");
    history_add(&ed, path, STR("text 1004")); // said twice: once is enough
    history_add(&ed, path, STR("the last"));
    check_newest(path, "the last");
    edit_fini(&ed);
    free(path);
}
