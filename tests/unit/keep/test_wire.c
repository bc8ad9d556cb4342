#include "base/err.h"
#include "keep/wire.h"
#include "unit/test.h"

TEST(messages_come_out_as_they_went_in_however_they_are_split)
{
    struct buf out = {.max = SIZE_MAX};
    struct wire w;
    struct wire_msg m;
    int n = 0;
    wire_add(&out, WIRE_INPUT, STR("keys"), STR_NULL);
    wire_add(&out, WIRE_KILL, STR_NULL, STR_NULL);
    wire_add(&out, WIRE_OUTPUT, STR("head"), STR("and body"));
    wire_init(&w, 100);
    for (size_t i = 0; i < out.n; i++) {
        wire_feed(&w, (struct str){out.p + i, 1});
        while (wire_next(&w, &m) > 0) {
            static const enum wire_type types[] = {WIRE_INPUT, WIRE_KILL, WIRE_OUTPUT};
            static const char *const texts[] = {"keys", "", "headand body"};
            CHECK_INT(m.type, types[n]);
            CHECK_SPAN(m.payload, texts[n]);
            n++;
        }
    }
    CHECK_INT(n, 3);
    wire_fini(&w);
    buf_fini(&out);
}

TEST(a_length_or_type_that_cannot_be_is_refused_before_anything_is_kept)
{
    static const char *const bad[] = {"\0\0\0\0", "\xff\xff\xff\xff", "\x65\0\0\0",
                                      "\x01\0\0\0\x7f", "\x01\0\0\0\0"};
    static const size_t sizes[] = {4, 4, 4, 5, 5};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wire w;
        struct wire_msg m;
        wire_init(&w, 100);
        wire_feed(&w, (struct str){bad[i], sizes[i]});
        CHECK_INT(wire_next(&w, &m), ERR_PARSE);
        wire_fini(&w);
    }
}

TEST(numbers_are_read_back_and_missing_ones_are_noticed)
{
    struct buf out = {.max = SIZE_MAX};
    uint64_t v;
    wire_put(&out, 0x0102030405060708u, 8);
    wire_put(&out, 65535, 2);
    struct str s = buf_str(&out);
    CHECK(wire_get(&s, 8, &v) && v == 0x0102030405060708u);
    CHECK(wire_get(&s, 2, &v) && v == 65535);
    CHECK(!wire_get(&s, 1, &v));
    buf_fini(&out);
}
