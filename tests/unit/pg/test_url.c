#include "pg/pq_api.h"
#include "pg/url.h"
#include "unit/test.h"

static const char *value(const struct pg_url *u, const char *key)
{
    const char *found = "";
    for (size_t i = 0; u->keys.p[i] != NULL; i++) {
        found = strcmp(u->keys.p[i], key) == 0 ? u->values.p[i] : found;
    }
    return found;
}

static const struct {
    const char *url, *mode;
    bool local;
} table[] = {
    {"postgresql://db.example.org/x", "verify-full", false},
    {"postgres://u:secret@10.0.0.7:5433/x", "verify-full", false},
    {"postgresql://db.example.org/x?sslmode=require", "require", false},
    {"postgresql://localhost,db.example.org/x", "verify-full", false},
    {"postgresql://127.0.0.1.example.org/x", "verify-full", false},
    {"postgresql://localhost/x?hostaddr=10.1.1.1", "verify-full", false},
    {"postgresql:///x?service=team", "verify-full", false},
    {"postgresql://localhost/x", "prefer", true},
    {"postgresql://127.0.0.1:5433/x", "prefer", true},
    {"postgresql://[::1]/x", "prefer", true},
    {"postgresql:///x?host=/run/postgresql", "prefer", true},
    {"postgresql://localhost/x?sslmode=verify-ca", "verify-ca", true},
};

TEST(url_tls)
{
    unsetenv("PGHOST");
    setenv("PGSSLMODE", "disable", 1);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct pg_url u;
        CHECK_INT(pg_url_read(&u, table[i].url, NULL), 0);
        CHECK_STR(value(&u, "sslmode"), table[i].mode);
        CHECK_INT(u.local, table[i].local);
        CHECK(strstr(u.shown, "secret") == NULL);
        pg_url_fini(&u);
    }
}

TEST(url_host_of_environment)
{
    struct pg_url u;
    setenv("PGHOST", "db.example.org", 1);
    CHECK_INT(pg_url_read(&u, "postgresql:///x", NULL), 0);
    CHECK_STR(value(&u, "sslmode"), "verify-full");
    pg_url_fini(&u);
}

TEST(url_refused)
{
    static const char *const bad[] = {"mysql://x/y", "", "host=x password=hush-hush",
                                      "postgresql://x/y?hush-hush=1"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct pg_url u;
        struct err e = {0};
        CHECK_INT(pg_url_read(&u, bad[i], &e), ERR_INVALID);
        CHECK(strstr(e.msg, "postgresql://") != NULL);
        CHECK(strstr(e.msg, "hush") == NULL);
        CHECK(u.keys.p == NULL);
    }
}

TEST(api_missing)
{
    struct pq_api api;
    struct err e;
    CHECK_INT(pq_api_load(&api, "libno-such-pq.so", &e), ERR_UNSUPPORTED);
    CHECK(strstr(e.msg, "install libpq5") != NULL);
    CHECK_INT(pq_api_load(&api, "libm.so.6", &e), ERR_UNSUPPORTED);
    CHECK(strstr(e.msg, "PQconninfoParse") != NULL);
}
