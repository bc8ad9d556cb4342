#include "base/base64.h"
#include "unit/test.h"

TEST(bytes_go_there_and_back)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf text, bytes;
        buf_init(&text, SIZE_MAX);
        buf_init(&bytes, SIZE_MAX);
        base64_encode(&text, str_of(rows[i].bytes));
        CHECK_STR(buf_z(&text), rows[i].text);
        CHECK(base64_decode(&bytes, buf_str(&text)));
        CHECK_STR(buf_z(&bytes), rows[i].bytes);
        buf_fini(&text);
        buf_fini(&bytes);
    }
    struct buf all, text, again;
    buf_init(&all, SIZE_MAX);
    buf_init(&text, SIZE_MAX);
    buf_init(&again, SIZE_MAX);
    for (int i = 0; i < 256; i++) {
        buf_addc(&all, (char)i);
    }
    base64_encode(&text, buf_str(&all));
    CHECK(base64_decode(&again, buf_str(&text)) && str_eq(buf_str(&all), buf_str(&again)));
    buf_fini(&all);
    buf_fini(&text);
    buf_fini(&again);
}

TEST(what_is_no_base64_is_refused)
{
    static const char *const bad[] = {"Z",    "Zm9vY", "Zm9v!", "Zm 9v", "Zm9v\n",
                                      "Zh==", "=",     "====",  "Z=g="};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (base64_decode(&out, str_of(bad[i]))) {
            test_fail(__FILE__, __LINE__, "'%s' is taken", bad[i]);
        }
    }
    CHECK(base64_decode(&out, STR("Zm8"))); // without padding
    buf_fini(&out);
}

TEST(the_form_for_addresses_has_no_padding_and_no_slash)
{
    struct buf out = {.max = 64};
    buf_addz(&out, "a=");
    base64_encode_url(&out, STR("\xfb\xff\xfe"));
    base64_encode_url(&out, STR("\xfb"));
    CHECK_STR(buf_z(&out), "a=-__--w");
    buf_fini(&out);
}
