// Routes of a unit: their names, and which of them answers a request.
//
//     "GET /stats/:day"     one segment, given to the handler as params.day
//     "GET /files/*"        the rest of the path, given as params["*"]
//
// A unit has a handful of routes, so finding one is a walk over them. Of several that fit, the one that
// is more literal at the first segment in which they differ answers, whatever their order.

#include "gen/route.h"

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

// ---- names ------------------------------------------------------------------------------------

static bool is_identifier(struct str s)
{
    bool ok = s.n != 0 && !(s.p[0] >= '0' && s.p[0] <= '9');
    for (size_t i = 0; i < s.n && ok; i++) {
        char c = s.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    }
    return ok;
}

/// The next segment of `*rest`, which begins with `/`.
static struct str cut_segment(struct str *rest)
{
    struct str s = str_from(*rest, 1);
    ptrdiff_t end = str_index(s, '/');
    *rest = end < 0 ? STR_NULL : str_from(s, (size_t)end);
    s.n = end < 0 ? s.n : (size_t)end;
    return s;
}

static int check_segment(struct str seg, bool last, struct str *names, size_t *n, struct err *e)
{
    if (str_eqz(seg, "*") && last) {
        return 0;
    }
    if (seg.n == 0 || seg.p[0] != ':') {
        bool ok = seg.n != 0 && !str_eqz(seg, ".") && !str_eqz(seg, "..");
        for (size_t i = 0; i < seg.n && ok; i++) {
            char c = seg.p[i];
            ok = (unsigned char)c > ' ' && c != 0x7f && strchr("?#*\\", c) == NULL;
        }
        return ok ? 0
                  : err_set(e, ERR_INVALID, "a route cannot have the segment '" STR_FMT "'",
                            STR_ARG(seg));
    }
    struct str name = str_from(seg, 1);
    bool twice = false;
    for (size_t i = 0; i < *n; i++) {
        twice = twice || str_eq(names[i], name);
    }
    if (!is_identifier(name) || twice) {
        return err_set(e, ERR_INVALID, "a route cannot have the parameter '" STR_FMT "'%s",
                       STR_ARG(seg), twice ? " twice" : "");
    }
    if (*n == GEN_PARAMS - 1) { // `*` is one more
        return err_set(e, ERR_INVALID, "a route has at most %d parameters", GEN_PARAMS - 1);
    }
    names[(*n)++] = name;
    return 0;
}

// ---- matching ---------------------------------------------------------------------------------

enum rank { RANK_REST, RANK_PARAM, RANK_LITERAL };

static struct str pattern_of(const struct gen_item *it)
{
    struct str name = str_of(gen_item_name(it));
    return str_from(name, (size_t)str_index(name, ' ') + 1);
}

static bool fits(struct str pattern, struct str path)
{
    while (pattern.n != 0 && path.n != 0) {
        struct str want = cut_segment(&pattern);
        if (str_eqz(want, "*")) {
            return true;
        }
        struct str have = cut_segment(&path);
        bool ok = want.n != 0 && want.p[0] == ':' ? have.n != 0 : str_eq(want, have);
        if (!ok) {
            return false;
        }
    }
    return pattern.n == 0 && path.n == 0;
}

static enum rank rank_of(struct str segment)
{
    if (str_eqz(segment, "*")) {
        return RANK_REST;
    }
    return segment.n != 0 && segment.p[0] == ':' ? RANK_PARAM : RANK_LITERAL;
}

/// Is `a` more literal than `b` where they first differ? Both fit the same path.
static bool is_better(struct str a, struct str b)
{
    while (a.n != 0 && b.n != 0) {
        enum rank ra = rank_of(cut_segment(&a)), rb = rank_of(cut_segment(&b));
        if (ra != rb) {
            return ra > rb;
        }
    }
    return false;
}

static void fill_params(struct gen_route_call *c, struct str pattern)
{
    struct str path = c->path;
    c->n_params = 0;
    while (pattern.n != 0) {
        struct str want = cut_segment(&pattern), rest = path;
        if (rank_of(want) == RANK_REST) {
            c->params[c->n_params++] = (struct gen_pair){want, str_from(rest, 1)};
            return;
        }
        struct str have = cut_segment(&path);
        if (rank_of(want) == RANK_PARAM) {
            c->params[c->n_params++] = (struct gen_pair){str_from(want, 1), have};
        }
    }
}

/// The best route for the path that answers to `method`.
static struct gen_item *find(const struct gen_unit *u, const struct gen_route_call *c,
                             struct str method)
{
    struct gen_item *best = NULL;
    for (size_t i = 0; i < gen_unit_count(u); i++) {
        struct gen_item *it = gen_unit_at(u, i);
        struct str name = str_of(gen_item_name(it));
        if (gen_item_kind(it) != GEN_ROUTE || !str_eq(str_cut(&name, ' '), method) ||
            !fits(pattern_of(it), c->path)) {
            continue;
        }
        if (best == NULL || is_better(pattern_of(it), pattern_of(best))) {
            best = it;
        }
    }
    return best;
}

// ---- public -----------------------------------------------------------------------------------

int gen_route_name(struct buf *out, struct str method, struct str path, struct err *e)
{
    const char *name = NULL;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        name = str_caseeqz(method, methods[i]) ? methods[i] : name;
    }
    struct str names[GEN_PARAMS];
    size_t n = 0;
    if (name == NULL) {
        return err_set(e, ERR_INVALID, "'" STR_FMT "' is no method of HTTP", STR_ARG(method));
    }
    if (path.n == 0 || path.p[0] != '/') {
        return err_set(e, ERR_INVALID, "the path of a route begins with '/', not '" STR_FMT "'",
                       STR_ARG(path));
    }
    if (path.n > 1 && path.p[path.n - 1] == '/') {
        path.n--;
    }
    for (struct str rest = path.n > 1 ? path : STR_NULL; rest.n != 0;) {
        struct str seg = cut_segment(&rest);
        int rc = check_segment(seg, rest.n == 0, names, &n, e);
        if (rc < 0) {
            return rc;
        }
    }
    buf_addf(out, "%s ", name);
    buf_adds(out, path);
    return 0;
}

bool gen_route_same(struct str a, struct str b)
{
    bool same = str_eq(str_cut(&a, ' '), str_cut(&b, ' '));
    while (same && a.n > 1 && b.n > 1) {
        struct str x = cut_segment(&a), y = cut_segment(&b);
        same = rank_of(x) == rank_of(y) && (rank_of(x) != RANK_LITERAL || str_eq(x, y));
    }
    return same && a.n <= 1 && b.n <= 1; // "/" alone has no segment
}

struct gen_item *gen_route_find(const struct gen_unit *u, struct gen_route_call *c, bool *other,
                                struct buf *allow)
{
    *other = false;
    if (c->path.n == 0 || c->path.p[0] != '/') {
        return NULL;
    }
    struct gen_item *it = find(u, c, c->method);
    if (it == NULL && str_eqz(c->method, "HEAD")) {
        it = find(u, c, STR("GET"));
    }
    if (it != NULL) {
        fill_params(c, pattern_of(it));
        return it;
    }
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        bool is_head = str_eqz(str_of(methods[i]), "HEAD");
        if (find(u, c, str_of(methods[i])) != NULL || (is_head && find(u, c, STR("GET")) != NULL)) {
            buf_addf(allow, "%s%s", *other ? ", " : "", methods[i]);
            *other = true;
        }
    }
    return NULL;
}
