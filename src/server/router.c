// From method and path to an operation.
//
// Routes come from the operations table and never change, so they are cut into segments once. A
// lookup cuts the path the same way, finds the routes of its first segment by hash and compares the
// few that are there. A literal segment is compared as it was sent: `/%68ealthz` is not `/healthz`.
// A segment in braces takes any text but the empty one, `.` and `..`; nothing is resolved.
//
// Of two routes that fit, the one with fewer braces wins (`/plugin/list` before `/plugin/{name}`).

#include <assert.h>

#include "server/server_int.h"

enum { SEGMENTS = 8 };

struct route {
    const struct op *op;
    struct route *next; // with the same first segment
    struct str segments[SEGMENTS];
    size_t n, braces;
};

static size_t cut_path(struct str path, struct str out[SEGMENTS])
{
    size_t n = 0;
    while (path.n != 0 && path.p[0] == '/') {
        path = str_from(path, 1);
        ptrdiff_t slash = str_index(path, '/');
        size_t len = slash >= 0 ? (size_t)slash : path.n;
        if (n == SEGMENTS) {
            return 0;
        }
        out[n++] = (struct str){path.p, len};
        path = str_from(path, len);
    }
    return path.n == 0 ? n : 0;
}

static bool is_brace(struct str segment)
{
    return segment.n > 2 && segment.p[0] == '{';
}

static bool fits(const struct route *r, const struct str *segments, size_t n,
                 struct str params[ROUTE_PARAMS])
{
    size_t found = 0;
    if (r->n != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct str s = segments[i];
        if (!is_brace(r->segments[i])) {
            if (!str_eq(r->segments[i], s)) {
                return false;
            }
            continue;
        }
        if (s.n == 0 || str_eqz(s, ".") || str_eqz(s, "..")) {
            return false;
        }
        params[found++] = s;
    }
    return true;
}

void router__init(struct router *r)
{
    map_init(&r->first);
    r->routes = xcalloc(OP__COUNT, sizeof *r->routes);
    for (size_t i = 0; i < OP__COUNT; i++) {
        struct route *route = &r->routes[i];
        route->op = &ops[i];
        route->n = cut_path(str_of(ops[i].path), route->segments);
        for (size_t k = 0; k < route->n; k++) {
            route->braces += is_brace(route->segments[k]);
        }
        assert(route->n != 0 && !is_brace(route->segments[0]) && route->braces <= ROUTE_PARAMS);
        route->next = map_get(&r->first, route->segments[0]);
        map_set(&r->first, route->segments[0], route);
    }
}

void router__fini(struct router *r)
{
    map_fini(&r->first);
    free(r->routes);
}

void router__match(const struct router *r, enum op_method method, struct str path,
                   struct match *out)
{
    struct str segments[SEGMENTS];
    size_t n = cut_path(path, segments), braces = SIZE_MAX;
    *out = (struct match){0};
    if (n == 0) {
        return;
    }
    for (const struct route *t = map_get(&r->first, segments[0]); t != NULL; t = t->next) {
        struct str params[ROUTE_PARAMS] = {{0}};
        if (!fits(t, segments, n, params)) {
            continue;
        }
        out->methods |= 1U << t->op->method;
        if (t->op->method == method && t->braces < braces) {
            out->op = t->op;
            braces = t->braces;
            memcpy(out->params, params, sizeof params);
        }
    }
}

void router__allow(unsigned methods, char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (unsigned m = OP_GET; m <= OP_DELETE; m++) {
        if ((methods & (1U << m)) != 0 && at < n) {
            at += (size_t)snprintf(out + at, n - at, "%s%s, ", op_method_name((enum op_method)m),
                                   m == OP_GET ? ", HEAD" : "");
        }
    }
    if (at < n) {
        snprintf(out + at, n - at, "OPTIONS");
    }
}
