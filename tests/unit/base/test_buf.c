#include "base/buf.h"
#include "unit/test.h"

TEST(a_buffer_holds_exactly_its_maximum)
{
    struct buf b;
    buf_init(&b, 5);
    CHECK_STR(buf_z(&b), "");
    buf_addz(&b, "123");
    buf_addz(&b, "45");
    CHECK(buf_ok(&b));
    CHECK_STR(buf_z(&b), "12345");
    buf_fini(&b);
    CHECK_INT(b.max, 5);
    CHECK_STR(buf_z(&b), "");
}

TEST(one_byte_too_many_changes_nothing_and_is_remembered)
{
    struct buf b;
    buf_init(&b, 5);
    buf_addz(&b, "123");
    buf_addz(&b, "456");
    CHECK(!buf_ok(&b));
    CHECK_STR(buf_z(&b), "123");
    buf_addc(&b, '4'); // would fit, but the text has a hole already
    CHECK_STR(buf_z(&b), "123");
    CHECK(buf_reserve(&b, 0) == NULL);
    buf_clear(&b);
    CHECK(buf_ok(&b));
    buf_addf(&b, "%d-%s", 12, "ab");
    CHECK_STR(buf_z(&b), "12-ab");
    buf_addf(&b, "%d", 1);
    CHECK(!buf_ok(&b));
    buf_fini(&b);
}

TEST(a_buffer_may_be_without_limit)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < 1000; i++) {
        buf_addz(&b, "0123456789");
    }
    CHECK(buf_ok(&b));
    CHECK_INT(b.n, 10000);
    CHECK(buf_reserve(&b, SIZE_MAX) == NULL);
    CHECK(buf_reserve(&b, (size_t)PTRDIFF_MAX - 1) == NULL);
    CHECK_INT(strlen(buf_z(&b)), 10000);
    buf_fini(&b);
}

TEST(room_that_was_never_used_does_not_show)
{
    struct buf b;
    buf_init(&b, 100);
    CHECK(buf_reserve(&b, 10) != NULL);
    CHECK_STR(buf_z(&b), "");
    buf_addz(&b, "ab");
    memcpy(buf_reserve(&b, 50), "cd", 2);
    buf_grow(&b, 2);
    CHECK_STR(buf_z(&b), "abcd");
    buf_fini(&b);
}

TEST(bytes_go_from_the_front_and_from_the_end)
{
    struct buf b;
    buf_init(&b, 100);
    buf_drop(&b, 0);
    buf_cut(&b, 0);
    buf_addz(&b, "abcdef");
    buf_drop(&b, 2);
    CHECK_STR(buf_z(&b), "cdef");
    buf_cut(&b, 1);
    CHECK_STR(buf_z(&b), "c");
    buf_drop(&b, 1);
    CHECK_STR(buf_z(&b), "");
    buf_adds(&b, STR_NULL);
    buf_adds(&b, STR("x\0y"));
    CHECK_INT(b.n, 3);
    buf_fini(&b);
}

TEST(taking_moves_the_bytes_out)
{
    struct buf b;
    size_t n;
    buf_init(&b, 100);
    char *nothing = buf_take(&b, &n);
    CHECK_STR(nothing, "");
    CHECK_INT(n, 0);
    buf_addz(&b, "abc");
    char *text = buf_take(&b, NULL);
    CHECK_STR(text, "abc");
    CHECK_INT(b.n, 0);
    CHECK_INT(b.max, 100);
    buf_addz(&b, "new");
    CHECK_STR(text, "abc");
    free(nothing);
    free(text);
    buf_fini(&b);
}
