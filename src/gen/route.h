#pragma once

#include "gen/gen.h"

// Routes: HTTP below `/api/plugins/NAME/`, answered by a unit. An item of GEN_ROUTE is called
// "GET /stats/:day"; its face is a gen_route. Routes belong to their unit: two units never meet.

enum { GEN_PARAMS = 16 };

struct gen_pair {
    struct str name, value;
};

struct gen_route_call;
/// The answer, once, on the loop thread: an HTTP status, headers and a body, all borrowed for the call;
/// or status 0 and `e`: ERR_TIMEOUT; ERR_DENIED when it was switched off for running out of time too often
/// (503 HOOK_DISABLED); else the handler failed. Inside, `call` may be freed.
typedef void gen_route_done(struct gen_route_call *call, int status, const struct gen_pair *headers,
                            size_t n_headers, struct str body, const struct err *e);

/// A request, in the caller's storage until `done`; everything is borrowed until then. The caller pins
/// the generation.
struct gen_route_call {
    struct str method;
    struct str path;  // below the plugin, decoded: "/stats/today"
    struct str query; // as it came, without `?`
    struct str body;
    const struct gen_pair *headers; // names in lower case
    size_t n_headers;
    struct gen_pair params[GEN_PARAMS]; // filled in by gen_route_find()
    size_t n_params;
    gen_route_done *done;
    void *arg;
    void *target_data;
};

struct gen_route {
    void (*call)(void *data, struct gen_route_call *call); // `done` may come before it returns
    void (*cancel)(void *data, struct gen_route_call *call);
    const struct hook_stats *(*stats)(const void *data); // what it cost; NULL: not counted
};

/// Check and clean "GET" and "/a/:b": methods of HTTP in upper case, a path that begins with `/`, at
/// most GEN_PARAMS parameters with distinct names, `*` as the last segment takes the rest. `out` is the
/// item's name.
int gen_route_name(struct buf *out, struct str method, struct str path, struct err *e) MUST_CHECK;
/// Do two routes, by their names, answer the same requests? How parameters are called does not matter.
bool gen_route_same(struct str a, struct str b);

/// The route of `u` for `c->method` and `c->path`; fills in the parameters. A literal segment wins over
/// a parameter, which wins over `*`; HEAD is answered by GET. NULL: `*other` says whether the path
/// answers to other methods, which are then listed in `allow` ("GET, POST").
struct gen_item *gen_route_find(const struct gen_unit *u, struct gen_route_call *c, bool *other,
                                struct buf *allow);

/// The parameters, headers (those of one name joined by ", ") and decoded query (the last of one name counts) of a
/// request, as objects in `a` that share texts with it.
struct json gen_route_params(const struct gen_route_call *c, struct arena *a);
struct json gen_route_headers(const struct gen_route_call *c, struct arena *a);
struct json gen_route_query(const struct gen_route_call *c, struct arena *a);
