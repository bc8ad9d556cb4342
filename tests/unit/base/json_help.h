#pragma once

// What the JSON tests share: an arena for the test that runs, and parsing that must succeed.

#include "base/json_int.h"
#include "unit/test.h"

static struct arena mem; // reachable until the test's process ends

static inline struct json *parse_with(const char *text, size_t n, enum json_dup dup)
{
    struct json_opts opts = {.dup = dup};
    struct json *v;
    struct err e;
    if (json_parse(&v, &mem, (struct str){text, n}, &opts, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%.60s: %s", text, e.msg);
    }
    return v;
}

static inline struct json *parse(const char *text)
{
    return parse_with(text, strlen(text), JSON_DUP_REJECT);
}

static inline void check_written(const struct json *v, unsigned indent, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 24);
    json_write(&out, v, indent);
    CHECK(buf_ok(&out));
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

static inline void check_same_after_writing(const struct json *v, unsigned indent)
{
    struct buf out;
    buf_init(&out, 1 << 24);
    json_write(&out, v, indent);
    CHECK(json_equal(v, parse(buf_z(&out))));
    buf_fini(&out);
}
