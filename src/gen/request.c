// The parts of a route's request as JSON, as its handler sees them.

#include <string.h>

#include "base/url.h"
#include "gen/route.h"

/// Set a member: one that is there already gets `joint` and the value after it, or (NULL) is replaced.
static void put(struct json *to, struct arena *a, struct str name, struct str value,
                const char *joint)
{
    for (uint32_t i = 0; i < to->n; i++) {
        struct json *have = &to->members[i].value;
        if (!str_eq(to->members[i].key, name)) {
            continue;
        }
        if (joint != NULL) {
            const char *both =
                arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(have->s), joint, STR_ARG(value));
            value = str_of(both);
        }
        have->s = value;
        return;
    }
    to->members[to->n++] = (struct json_member){name, {.type = JSON_STR, .s = value}};
}

struct json gen_route_params(const struct gen_route_call *c, struct arena *a)
{
    struct json out = {.type = JSON_OBJ};
    out.members = arena_calloc(a, c->n_params, sizeof *out.members);
    for (size_t i = 0; i < c->n_params; i++) {
        put(&out, a, c->params[i].name, c->params[i].value, NULL);
    }
    return out;
}

struct json gen_route_headers(const struct gen_route_call *c, struct arena *a)
{
    struct json out = {.type = JSON_OBJ};
    out.members = arena_calloc(a, c->n_headers, sizeof *out.members);
    for (size_t i = 0; i < c->n_headers; i++) {
        put(&out, a, c->headers[i].name, c->headers[i].value, ", ");
    }
    return out;
}

/// A part of a query: `+` is a space, %XX a byte; a `%` that is neither stays.
static struct str decode(struct arena *a, struct str s)
{
    struct buf text = {.max = SIZE_MAX};
    url_decode(&text, s, true);
    struct str out = arena_str(a, buf_str(&text));
    buf_fini(&text);
    return out;
}

struct json gen_route_query(const struct gen_route_call *c, struct arena *a)
{
    struct str rest = c->query;
    struct json out = {.type = JSON_OBJ};
    size_t max = 1;
    for (size_t i = 0; i < rest.n; i++) {
        max += rest.p[i] == '&';
    }
    out.members = arena_calloc(a, max, sizeof *out.members);
    while (rest.n != 0) {
        struct str value = str_cut(&rest, '&');
        struct str name = str_cut(&value, '=');
        if (name.n != 0) {
            put(&out, a, decode(a, name), decode(a, value), NULL);
        }
    }
    return out;
}
