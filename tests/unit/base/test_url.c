#include "base/url.h"
#include "unit/test.h"

TEST(an_address_has_its_parts)
{
    struct url u;
    CHECK(url_parse(&u, STR("https://Docs.Example.org:8443/a/b?q=1#f")));
    CHECK(str_eqz(u.scheme, "https") && str_eqz(u.host, "Docs.Example.org"));
    CHECK(str_eqz(u.port, "8443") && str_eqz(u.path, "/a/b?q=1#f"));
    CHECK(url_parse(&u, STR("http://example.org")) && u.port.n == 0 && u.path.n == 0);
    CHECK(url_parse(&u, STR("http://example.org.?x")) && str_eqz(u.host, "example.org"));
    CHECK(url_parse(&u, STR("http://[::1]:80/")) && str_eqz(u.host, "::1") &&
          str_eqz(u.port, "80"));
}

TEST(what_could_be_read_in_two_ways_is_refused)
{
    static const char *const bad[] = {
        "",
        "example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https:/example.org",
        "https://",
        "https:///path",
        "https://user@example.org/",
        "https://good.org@evil.org/",
        "https://good.org\\@evil.org/",
        "https://good.org%2f@evil.org/",
        "https://good%2eorg/",
        "https://good.org:80@evil.org/",
        "https://exa mple.org/",
        "https://example.org/a b",
        "https://example.org/\n",
        "https://ex\xC3\xA4mple.org/",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://example.org:8x/",
        "https://[::1/",
        "https://[::1]x/",
        "https://a:b:c/",
        "https://example.org../",
        "https://./",
    };
    struct url u;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (url_parse(&u, str_of(bad[i]))) {
            test_fail(__FILE__, __LINE__, "'%s' is taken", bad[i]);
        }
    }
}

TEST(a_link_is_read_where_it_stands)
{
    static const struct {
        const char *ref, *full;
    } rows[] = {
        {"https://other.org/x", "https://other.org/x"},
        {"mailto:me@example.org", "mailto:me@example.org"},
        {"//cdn.org/x", "https://cdn.org/x"},
        {"/top", "https://example.org:81/top"},
        {"next", "https://example.org:81/a/b/next"},
        {"./next", "https://example.org:81/a/b/next"},
        {"../up", "https://example.org:81/a/up"},
        {"../../../up", "https://example.org:81/up"},
        {"?q=2", "https://example.org:81/a/b/c?q=2"},
        {"a:b", "a:b"},
        {"", "https://example.org:81/a/b/c"},
    };
    struct url u;
    CHECK(url_parse(&u, STR("https://example.org:81/a/b/c?q=/1#x/y")));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        url_join(&out, &u, str_of(rows[i].ref));
        CHECK_STR(buf_z(&out), rows[i].full);
        buf_fini(&out);
    }
    struct buf out;
    buf_init(&out, SIZE_MAX);
    CHECK(url_parse(&u, STR("http://[fe80::1]")));
    url_join(&out, &u, STR("x"));
    CHECK_STR(buf_z(&out), "http://[fe80::1]/x");
    buf_fini(&out);
}

TEST(escapes_of_addresses)
{
    static const struct {
        const char *plain, *coded;
    } rows[] = {
        {"a-Z_0.~", "a-Z_0.~"}, {"a/b c", "a%2Fb%20c"}, {"\xc3\xa4%", "%C3%A4%25"}, {"", ""}};
    static const struct {
        const char *coded, *form;
    } kept[] = {{"100%", "100%"}, {"%4", "%4"}, {"%zz%41", "%zzA"}, {"a+b%2b", "a b+"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out = {.max = SIZE_MAX}, back = {.max = SIZE_MAX};
        url_encode(&out, str_of(rows[i].plain));
        url_decode(&back, buf_str(&out), false);
        CHECK_STR(buf_z(&out), rows[i].coded);
        CHECK_STR(buf_z(&back), rows[i].plain);
        buf_fini(&out);
        buf_fini(&back);
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        struct buf out = {.max = SIZE_MAX};
        url_decode(&out, str_of(kept[i].coded), true);
        CHECK_STR(buf_z(&out), kept[i].form);
        buf_fini(&out);
    }
}
