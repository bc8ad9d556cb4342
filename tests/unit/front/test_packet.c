#include "front/front_int.h"
#include "unit/test.h"

static struct arena a;

static const struct json *parse(const char *text)
{
    struct json *v;
    CHECK_INT(json_parse(&v, &a, str_of(text), NULL, NULL), 0);
    return v;
}

TEST(what_is_written_is_read_again)
{
    static const char text[] =
        "{\"a\":[1,-2,true,null,\"x\"],\"b\":{\"c\":\"\",\"contents\":\"bytes\"},\"d\":[]}";
    struct buf out = {.max = SIZE_MAX};
    struct packet p;
    packet__write(&out, 77, true, parse(text));
    packet__write(&out, 78, false, parse("null"));
    struct str all = buf_str(&out);
    size_t n = (uint8_t)all.p[0] | (size_t)(uint8_t)all.p[1] << 8;
    CHECK(packet__read(&p, &a, (struct str){all.p + 4, n}));
    CHECK_INT(p.id, 77);
    CHECK(p.is_request);
    CHECK(json_equal(p.value, parse(text)));
    CHECK(packet__read(&p, &a, str_from(all, 4 + n + 4)));
    CHECK_INT(p.id, 78);
    CHECK(!p.is_request);
    CHECK_INT(p.value->type, JSON_NULL);
    buf_fini(&out);
    arena_fini(&a);
}

TEST(a_packet_that_is_cut_or_lies_about_its_lengths_is_refused)
{
    struct buf out = {.max = SIZE_MAX};
    struct packet p;
    packet__write(&out, 1, true, parse("{\"a\":[1,\"two\",{\"b\":false}]}"));
    struct str body = str_from(buf_str(&out), 4);
    for (size_t n = 0; n < body.n; n++) {
        CHECK(!packet__read(&p, &a, (struct str){body.p, n}));
    }
    for (size_t i = 4; i < body.n;
         i++) { // any one byte as large as it gets: no read beyond the end
        char *copy = str_dup(body);
        copy[i] = '\xff';
        (void)!packet__read(&p, &a, (struct str){copy, body.n});
        free(copy);
    }
    CHECK(!packet__read(&p, &a, STR("\0\0\0\0\5\xff\xff\xff\xff")));
    CHECK(!packet__read(&p, &a, STR("\0\0\0\0\7")));
    char deep[4 + 5 * 64] = {0};
    for (size_t i = 4; i < sizeof deep; i += 5) {
        memcpy(deep + i, "\5\1\0\0\0", 5);
    }
    CHECK(!packet__read(&p, &a, (struct str){deep, sizeof deep}));
    buf_fini(&out);
    arena_fini(&a);
}
