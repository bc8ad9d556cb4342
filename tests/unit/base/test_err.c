#include <errno.h>

#include "base/err.h"
#include "base/utf8.h"
#include "unit/test.h"

TEST(failing_is_one_line)
{
    struct err e;
    CHECK_INT(err_set(&e, ERR_PARSE, "cannot read '%s'", "x"), ERR_PARSE);
    CHECK_INT(e.code, ERR_PARSE);
    CHECK_STR(e.msg, "cannot read 'x'");
    CHECK_INT(err_set(NULL, -EIO, "nobody reads this"), -EIO);
}

TEST(a_new_message_may_be_made_of_the_old_one)
{
    struct err e;
    err_set(&e, ERR_PARSE, "line 3");
    CHECK_INT(err_set(&e, ERR_CORRUPT, "%s is damaged", e.msg), ERR_CORRUPT);
    CHECK_INT(e.code, ERR_CORRUPT);
    CHECK_STR(e.msg, "line 3 is damaged");
}

TEST(the_text_of_errno_is_appended)
{
    struct err e;
    errno = ENOENT;
    CHECK_INT(err_sys(&e, "cannot open '%s'", "x"), -ENOENT);
    CHECK_STR(e.msg, "cannot open 'x': No such file or directory");
    errno = ENOSPC;
    CHECK_INT(err_sys(NULL, "nobody reads this"), -ENOSPC);
}

TEST(a_failure_without_errno_is_still_a_failure)
{
    struct err e;
    errno = 0;
    CHECK(err_sys(&e, "cannot") < 0);
    CHECK(e.code < 0);
}

TEST(a_prefix_says_where)
{
    struct err e;
    err_set(&e, ERR_INVALID, "not a number");
    CHECK_INT(err_prefix(&e, "line %d", 3), ERR_INVALID);
    CHECK_STR(e.msg, "line 3: not a number");
}

// Three bytes a character: of every three lengths of prefix two would split one.
TEST(a_long_message_is_cut_between_characters)
{
    char text[400] = "";
    for (size_t i = 0; i < 120; i++) {
        memcpy(text + 3 * i, "\xE4\xB8\xAD", 4);
    }
    for (int shift = 0; shift < 3; shift++) {
        struct err e;
        err_set(&e, ERR_INVALID, "%.*s%s", shift, "ab", text);
        CHECK(utf8_valid(str_of(e.msg)));
        CHECK(strlen(e.msg) > sizeof e.msg - 5);
        err_set(&e, ERR_INVALID, "%s", text);
        err_prefix(&e, "%.*s", shift, "ab");
        CHECK(utf8_valid(str_of(e.msg)));
        CHECK(strlen(e.msg) > sizeof e.msg - 5);
    }
}

TEST(every_code_has_a_text)
{
    CHECK_STR(err_text(ERR_TOO_LARGE), "too large");
    CHECK_STR(err_text(-ENOENT), "No such file or directory");
    CHECK_STR(err_text(-99999), "unknown error");
    CHECK_STR(err_text(1), "unknown error");
}
