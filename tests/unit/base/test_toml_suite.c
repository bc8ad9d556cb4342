// The TOML project's decoder tests for TOML 1.0 (toml-test): every valid document must be read and
// equal the tagged JSON beside it, every invalid one must be refused.
//
// Tagged JSON writes a scalar as {"type": "integer", "value": "42"}; a table's members and an
// array's elements are written in place.

#include <math.h>

#include "base/json.h"
#include "base/path.h"
#include "base/toml.h"
#include "unit/test.h"

static const char *const tags[] = {
    [TOML_STR] = "string",
    [TOML_INT] = "integer",
    [TOML_DOUBLE] = "float",
    [TOML_BOOL] = "bool",
    [TOML_DATETIME] = "datetime",
    [TOML_DATETIME_LOCAL] = "datetime-local",
    [TOML_DATE_LOCAL] = "date-local",
    [TOML_TIME_LOCAL] = "time-local",
};

static bool same_double(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static bool same_scalar(const struct toml *v, const struct json *j)
{
    struct str want = json_str(json_get(j, "value"), NULL);
    char text[64];
    if (!str_eqz(json_str(json_get(j, "type"), NULL), tags[v->type])) {
        return false;
    }
    switch (v->type) {
    case TOML_INT: snprintf(text, sizeof text, "%lld", (long long)v->i); break;
    case TOML_BOOL: snprintf(text, sizeof text, "%s", v->b ? "true" : "false"); break;
    case TOML_DOUBLE:
        snprintf(text, sizeof text, STR_FMT, STR_ARG(want));
        return same_double(v->d, strtod(text, NULL));
    default: return str_eq(v->s, want);
    }
    return str_eqz(want, text);
}

static bool same(const struct toml *v, const struct json *j)
{
    if (v->type != TOML_ARR && v->type != TOML_TABLE) {
        return j->type == JSON_OBJ && same_scalar(v, j);
    }
    if (j->type != (v->type == TOML_ARR ? JSON_ARR : JSON_OBJ) || j->n != v->n) {
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; v->type == TOML_ARR && ok && i < v->n; i++) {
        ok = same(&v->items[i], &j->items[i]);
    }
    for (uint32_t i = 0; v->type == TOML_TABLE && ok && i < v->n; i++) {
        const struct json *member = json_get_str(j, v->members[i].key);
        ok = member != NULL && same(&v->members[i].value, member);
    }
    return ok;
}

static void read_file(struct buf *b, struct str name, const char *ending)
{
    char path[4096];
    struct err e;
    snprintf(path, sizeof path, "%s/toml-test/tests/" STR_FMT "%s", test_data(), STR_ARG(name),
             ending);
    buf_init(b, 1 << 20);
    if (path_read(path, b, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

/// `name` is without its ending. Says what is wrong and returns false, or returns true.
static bool check_valid(struct str name, const struct toml *doc, int rc, const struct err *e)
{
    struct buf text;
    struct arena a = {0};
    struct json *want;
    struct err bad;
    if (rc < 0) {
        fprintf(stderr, STR_FMT ": refused: %s\n", STR_ARG(name), e->msg);
        return false;
    }
    read_file(&text, name, ".json");
    if (json_parse(&want, &a, buf_str(&text), NULL, &bad) < 0) {
        test_fail(__FILE__, __LINE__, STR_FMT ".json: %s", STR_ARG(name), bad.msg);
    }
    bool ok = same(doc, want);
    if (!ok) {
        fprintf(stderr, STR_FMT ": differs from its JSON\n", STR_ARG(name));
    }
    buf_fini(&text);
    arena_fini(&a);
    return ok;
}

static bool check_invalid(struct str name, int rc, const struct err *e)
{
    bool ok = rc == ERR_PARSE && strncmp(e->msg, "line ", 5) == 0;
    if (!ok) {
        fprintf(stderr, STR_FMT ": accepted, or refused without a place\n", STR_ARG(name));
    }
    return ok;
}

static bool check_file(struct str name, bool valid)
{
    struct buf text;
    struct arena a = {0};
    struct toml *doc;
    struct err e;
    read_file(&text, name, ".toml");
    int rc = toml_parse(&doc, &a, buf_str(&text), NULL, NULL, &e);
    bool ok = valid ? check_valid(name, doc, rc, &e) : check_invalid(name, rc, &e);
    buf_fini(&text);
    arena_fini(&a);
    return ok;
}

/// Run the files of the list that begin with `kind`; there must be at least `least`.
static void run_suite(const char *kind, bool valid, int least)
{
    struct buf list;
    int ran = 0, bad = 0;
    if (test_data() == NULL) {
        test_skip("the folder of conformance data (toml-test) is not here");
    }
    read_file(&list, STR("files-toml-1.0.0"), "");
    for (struct str rest = buf_str(&list); rest.n != 0;) {
        struct str file = str_trim(str_cut(&rest, '\n'));
        if (str_starts(file, kind) && str_ends(file, ".toml")) {
            ran++;
            bad += !check_file((struct str){file.p, file.n - strlen(".toml")}, valid);
        }
    }
    buf_fini(&list);
    CHECK_INT(bad, 0);
    CHECK(ran >= least);
}

TEST(toml_reads_every_valid_document_of_toml_test)
{
    run_suite("valid/", true, 200);
}

TEST(toml_refuses_every_invalid_document_of_toml_test)
{
    run_suite("invalid/", false, 450);
}
