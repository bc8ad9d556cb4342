#include "gen/route.h"
#include "unit/gen/fake.h"

static struct fake_world w;
static char answer[300];

/// A unit with these routes, NULL at the end.
static const struct gen_unit *open_with(const char *const *routes)
{
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a"});
    struct gen_unit *u = gen_at(fake_current(&w), 0);
    for (size_t i = 0; routes[i] != NULL; i++) {
        struct gen_item_spec spec = {.kind = GEN_ROUTE, .name = str_of(routes[i])};
        CHECK_INT(gen_unit_add(u, &spec, NULL, NULL), 0);
    }
    return u;
}

/// "ROUTE name=value ...", or "-" with the methods that the path answers to.
static const char *find(const struct gen_unit *u, const char *method, const char *path)
{
    struct gen_route_call c = {.method = str_of(method), .path = str_of(path)};
    struct buf allow;
    bool other;
    buf_init(&allow, SIZE_MAX);
    const struct gen_item *it = gen_route_find(u, &c, &other, &allow);
    CHECK_INT(other, allow.n != 0);
    size_t n = (size_t)snprintf(answer, sizeof answer, "%s%s", it != NULL ? gen_item_name(it) : "-",
                                buf_z(&allow));
    for (size_t i = 0; i < c.n_params; i++) {
        n += (size_t)snprintf(answer + n, sizeof answer - n, " " STR_FMT "=" STR_FMT,
                              STR_ARG(c.params[i].name), STR_ARG(c.params[i].value));
    }
    buf_fini(&allow);
    return answer;
}

TEST(a_literal_wins_over_a_parameter_and_that_over_the_rest)
{
    const struct gen_unit *u = open_with((const char *[]){
        "GET /*", "GET /:a", "GET /x", "GET /x/:b", "GET /:a/y", "GET /files/*", "GET /", NULL});
    CHECK_STR(find(u, "GET", "/"), "GET /");
    CHECK_STR(find(u, "GET", "/x"), "GET /x");
    CHECK_STR(find(u, "GET", "/z"), "GET /:a a=z");
    CHECK_STR(find(u, "GET", "/x/y"), "GET /x/:b b=y"); // literal where they differ first
    CHECK_STR(find(u, "GET", "/z/y"), "GET /:a/y a=z");
    CHECK_STR(find(u, "GET", "/files/a/b"), "GET /files/* *=a/b");
    CHECK_STR(find(u, "GET", "/q/r/s"), "GET /* *=q/r/s");
    fake_close(&w);
}

TEST(other_methods_are_listed_and_head_is_answered_by_get)
{
    const struct gen_unit *u =
        open_with((const char *[]){"GET /a", "POST /a", "DELETE /b/:c", NULL});
    CHECK_STR(find(u, "HEAD", "/a"), "GET /a");
    CHECK_STR(find(u, "PUT", "/a"), "-GET, HEAD, POST");
    CHECK_STR(find(u, "GET", "/b/1"), "-DELETE");
    CHECK_STR(find(u, "GET", "/c"), "-");
    CHECK_STR(find(u, "GET", "/b/"), "-"); // an empty segment is no parameter
    CHECK_STR(find(u, "GET", ""), "-");
    CHECK_STR(find(u, "GET", "a"), "-");
    fake_close(&w);
}

TEST(names_are_cleaned_and_checked)
{
    static const struct {
        const char *method, *path, *expect; // NULL: refused
    } cases[] = {
        {"get", "/a/:b/", "GET /a/:b"},
        {"POST", "/", "POST /"},
        {"GET", "/a/*", "GET /a/*"},
        {"FETCH", "/", NULL},
        {"GET", "a", NULL},
        {"GET", "", NULL},
        {"GET", "/a//b", NULL},
        {"GET", "/../a", NULL},
        {"GET", "/a b", NULL},
        {"GET", "/a?b", NULL},
        {"GET", "/*/a", NULL},
        {"GET", "/:", NULL},
        {"GET", "/:a-b", NULL},
        {"GET", "/:a/:a", NULL},
        {"GET", "/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out;
        struct err e = {0};
        buf_init(&out, SIZE_MAX);
        int rc = gen_route_name(&out, str_of(cases[i].method), str_of(cases[i].path), &e);
        CHECK_INT(rc, cases[i].expect != NULL ? 0 : ERR_INVALID);
        CHECK_STR(buf_z(&out), cases[i].expect != NULL ? cases[i].expect : "");
        CHECK((e.msg[0] != '\0') == (rc < 0));
        CHECK(rc == 0 || e.msg[strlen(e.msg) - 1] != ' ');
        buf_fini(&out);
    }
}

TEST(two_units_may_have_the_same_route)
{
    fake_open(&w, 1);
    fake_load(&w, (struct fake_act){.name = "a"});
    fake_load(&w, (struct fake_act){.name = "b"});
    for (size_t i = 0; i < 2; i++) {
        struct gen_item_spec spec = {.kind = GEN_ROUTE, .name = STR("GET /")};
        CHECK_INT(gen_unit_add(gen_at(fake_current(&w), i), &spec, NULL, NULL), 0);
    }
    fake_settle(&w);
    CHECK_INT(fake_reload(&w)->n_diags, 0);
    fake_close(&w);
}
