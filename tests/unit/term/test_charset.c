// Terminals without UTF-8: which those are, and what they get.

#include <stdlib.h>

#include "term/charset.h"
#include "unit/test.h"

static bool with(const char *all, const char *type, const char *lang)
{
    const char *const values[] = {all, type, lang}, *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < 3; i++) {
        if (values[i] != NULL) {
            setenv(names[i], values[i], 1);
        } else {
            unsetenv(names[i]);
        }
    }
    return charset_is_utf8();
}

TEST(charset_only_another_encoding_says_no)
{
    CHECK(with(NULL, NULL, NULL));
    CHECK(with(NULL, NULL, "C"));
    CHECK(with(NULL, NULL, "en_US.UTF-8"));
    CHECK(with("C.utf8", NULL, "de_DE.ISO-8859-1"));
    CHECK(with("", NULL, "de_DE"));
    CHECK(!with(NULL, NULL, "de_DE.ISO-8859-1"));
    CHECK(!with(NULL, "ru_RU.KOI8-R", "en_US.UTF-8"));
}

TEST(charset_text_keeps_its_width)
{
    struct buf out = {.max = 1000};
    charset_add_ascii(&out, STR("\033[1m● shell\033[0m · ✓ done… ╭─╮ │ naïve 漢\n"));
    CHECK_STR(buf_z(&out), "\033[1m* shell\033[0m - + done. +-+ | na?ve ??\n");
    buf_clear(&out);
    charset_add_ascii(&out, STR("\xff broken \xc3"));
    CHECK_STR(buf_z(&out), "? broken ?");
    buf_fini(&out);
}
