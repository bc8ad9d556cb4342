// Migrations.
//
//     lock ──> which schema? ──> BEGIN, script, note it, COMMIT ──> ... ──> unlock
//
// The lock is the server's (an advisory one): it goes with the connection, however that ends. Scripts of one
// step and the note that it was done are one transaction, so a step is there whole or not at all.

#include "store/migrate.h"

#include <assert.h>

#include "store/migrations.h"

#define LOCK "7041120230"

static const char prepare[] = "CREATE SCHEMA IF NOT EXISTS afloat;"
                              "CREATE TABLE IF NOT EXISTS afloat.migrations ("
                              " version integer PRIMARY KEY, name text NOT NULL,"
                              " applied_at timestamptz NOT NULL DEFAULT now())";

/// The script of step `version`, up or down; NULL when there is none. Its name without number and
/// suffix is `*name`.
static const struct shipped *find(int version, bool up, struct str *name)
{
    for (const struct shipped *s = store_migrations; s->rel != NULL; s++) {
        struct str rest = str_of(s->rel);
        int64_t number;
        if (str_to_i64(str_cut(&rest, '_'), &number) && number == version &&
            str_ends(rest, up ? ".up.sql" : ".down.sql")) {
            *name = str_cut(&rest, '.');
            return s;
        }
    }
    return NULL;
}

int migrate_latest(void)
{
    struct str name;
    int n = 0;
    while (find(n + 1, true, &name) != NULL) {
        n++;
    }
    assert(n > 0);
    return n;
}

int migrate_schema(struct pg_link *l, int *out, struct err *e)
{
    struct pg_result *r;
    *out = 0;
    int rc = pg_link_run(l, "SELECT to_regclass('afloat.migrations') IS NOT NULL", NULL, 0, &r, e);
    if (rc < 0) {
        return rc;
    }
    bool there = pg_get_bool(r, 0, 0);
    pg_result_free(r);
    if (!there) {
        return 0;
    }
    rc = pg_link_run(l, "SELECT coalesce(max(version), 0) FROM afloat.migrations", NULL, 0, &r, e);
    if (rc == 0) {
        *out = (int)pg_get_int(r, 0, 0);
        pg_result_free(r);
    }
    return rc;
}

/// One step from `version` - 1 up to it, or from it down.
static int step(struct pg_link *l, int version, bool up, char **name, struct err *e)
{
    struct str found;
    const struct shipped *script = find(version, up, &found);
    assert(script != NULL);
    struct pg_number room;
    const struct pg_param params[] = {pg_int(&room, version), pg_text(found)};
    *name = str_dup(found);
    int rc = pg_link_script(l, "BEGIN", e);
    rc = rc == 0 ? pg_link_script(l, script->text, e) : rc;
    if (rc == 0) {
        rc = up ? pg_link_run(l, "INSERT INTO afloat.migrations (version, name) VALUES ($1, $2)",
                              params, 2, NULL, e)
                : pg_link_run(l, "DELETE FROM afloat.migrations WHERE version = $1", params, 1,
                              NULL, e);
    }
    rc = rc == 0 ? pg_link_script(l, "COMMIT", e) : rc;
    if (rc < 0) {
        (void)!pg_link_script(l, "ROLLBACK", NULL);
        err_prefix(e, "migration %d %s, %s", version, *name, up ? "up" : "down");
    }
    return rc;
}

static int walk(struct pg_link *l, int target, migrate_told *told, void *arg, struct err *e)
{
    int at;
    int rc = pg_link_script(l, prepare, e);
    rc = rc == 0 ? migrate_schema(l, &at, e) : rc;
    if (rc == 0 && at > migrate_latest()) {
        rc = err_set(e, ERR_CONFLICT,
                     "the store has schema %d, this program knows %d: use a newer afloat", at,
                     migrate_latest());
    }
    while (rc == 0 && at != target) {
        char *name;
        bool up = at < target;
        rc = step(l, up ? at + 1 : at, up, &name, e);
        at += up ? 1 : -1;
        if (rc == 0 && told != NULL) {
            told(arg, at, name);
        }
        free(name);
    }
    return rc;
}

int migrate_to(struct pg_link *l, int target, migrate_told *told, void *arg, struct err *e)
{
    struct err own;
    e = e != NULL ? e : &own;
    assert(target >= 0 && target <= migrate_latest());
    int rc = pg_link_script(l, "SELECT pg_advisory_lock(" LOCK ")", e);
    if (rc == 0) {
        rc = walk(l, target, told, arg, e);
        (void)!pg_link_script(l, "SELECT pg_advisory_unlock(" LOCK ")", NULL);
    }
    return rc;
}
