// The store: what it is, its schema, and moving it. These work without a hub, since a hub that cannot use
// its store does not start.

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/call.h"
#include "client/travel.h"
#include "config/config.h"
#include "pg/pg.h"
#include "settings/team.h"
#include "store/index.h"
#include "store/migrate.h"
#include "store/move.h"

/// The store that the settings name, opened.
struct place {
    struct config *config;
    struct team team;
    struct pg_link *pg; // NULL: in files
};

static int place_open(struct cli *c, struct place *p, struct err *e)
{
    *p = (struct place){.config = travel_config(&c->home, true, e)};
    int rc = p->config == NULL ? e->code : 0;
    rc = rc == 0 ? team_read(&p->team, p->config, &c->home, "", e) : rc;
    return rc == 0 && p->team.shared ? pg_link_open(&p->pg, p->team.url, e) : rc;
}

static void place_close(struct place *p)
{
    pg_link_close(p->pg);
    team_fini(&p->team);
    config_free(p->config);
}

// ---- status -----------------------------------------------------------------------------------

static int ask_status(struct place *p, struct buf *out, struct err *e)
{
    struct pg_result *r = NULL;
    int schema = INDEX_SCHEMA, rc = 0;
    uint64_t from = time_mono_ns();
    if (p->pg != NULL) {
        rc = pg_link_run(p->pg, "SELECT split_part(current_setting('server_version'), ' ', 1)",
                         NULL, 0, &r, e);
    }
    double ms = (double)(time_mono_ns() - from) / 1e6;
    rc = rc == 0 && p->pg != NULL ? migrate_schema(p->pg, &schema, e) : rc;
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "kind", p->pg != NULL ? "postgresql" : "files");
    jw_kstr(&w, "version", rc == 0 && r != NULL ? pg_get(r, 0, 0) : str_of(index_sqlite()));
    jw_kint(&w, "schema", schema);
    jw_kint(&w, "latest", p->pg != NULL ? migrate_latest() : INDEX_SCHEMA);
    jw_key(&w, "latency_ms");
    jw_double(&w, (double)(int64_t)(ms * 100) / 100);
    jw_kstrz(&w, "hub", p->team.hub);
    if (p->pg != NULL) {
        jw_kstrz(&w, "at", pg_link_shown(p->pg));
    }
    jw_end_obj(&w);
    buf_addc(out, '\n');
    pg_result_free(r);
    return rc;
}

int cmd_store_status(struct cli *c)
{
    const struct layout rows = {.columns =
                                    COLUMNS(COL("kind", TEXT, NULL), COL("version", TEXT, NULL),
                                            COL("schema", TEXT, "{schema} of {latest}"),
                                            COL("latency", TEXT, "{latency_ms} ms"),
                                            COL("hub", TEXT, NULL), COL("at", TEXT, "{at}"))};
    struct place p;
    struct buf out = {.max = SIZE_MAX};
    struct err e = {0};
    int rc = place_open(c, &p, &e);
    rc = rc == 0 ? ask_status(&p, &out, &e) : rc;
    int code = EXIT_OK;
    if (rc < 0) {
        code = cli__fail(c, &e);
    } else {
        show_local(c, &rows, buf_str(&out));
    }
    buf_fini(&out);
    place_close(&p);
    return code;
}

// ---- migrate ----------------------------------------------------------------------------------

static void on_step(void *arg, int schema, const char *name)
{
    struct cli *c = arg;
    if (!c->json) {
        out_note(&c->out, "schema %d (%s)", schema, name);
    }
}

/// A step would take functions and tables from under the hubs that use them.
static int check_no_hub_lives(struct place *p, struct err *e)
{
    struct pg_result *r = NULL;
    int rc = pg_link_run(p->pg,
                         "SELECT string_agg(quote_literal(name), ', ' ORDER BY name)"
                         " FROM afloat.hubs WHERE lease_until > clock_timestamp()",
                         NULL, 0, &r, e);
    if (rc == 0 && !pg_is_null(r, 0, 0)) {
        struct str names = pg_get(r, 0, 0);
        rc = err_set(e, ERR_CONFLICT, "hubs use the store: stop " STR_FMT " first", STR_ARG(names));
    }
    pg_result_free(r);
    return rc;
}

static int target_of(struct cli *c, struct place *p, int *target, struct err *e)
{
    assert(p->pg != NULL);
    const char *down = args_value(&c->args, FLAG_DOWN);
    int64_t steps = 0;
    int schema, rc = migrate_schema(p->pg, &schema, e);
    *target = migrate_latest();
    if (rc == 0 && down != NULL) {
        if (!str_to_i64(str_of(down), &steps) || steps < 1 || steps > schema) {
            return err_set(e, ERR_USAGE, "--down takes 1 to %d steps: the store has schema %d",
                           schema, schema);
        }
        *target = schema - (int)steps;
    }
    return rc == 0 && schema != 0 && schema != *target ? check_no_hub_lives(p, e) : rc;
}

int cmd_store_migrate(struct cli *c)
{
    struct place p;
    struct err e = {0};
    int target = 0;
    int rc = place_open(c, &p, &e);
    if (rc == 0 && p.pg == NULL) {
        rc =
            err_set(&e, ERR_USAGE,
                    "the store is in files, which need no migration; [store] url names a database");
    }
    rc = rc == 0 ? target_of(c, &p, &target, &e) : rc;
    rc = rc == 0 ? migrate_to(p.pg, target, on_step, c, &e) : rc;
    if (rc == 0 && c->json) {
        out_addf(&c->out, "{\"schema\":%d,\"latest\":%d}\n", target, migrate_latest());
    } else if (rc == 0) {
        out_note(&c->out, "the store has schema %d", target);
    }
    int code = rc < 0 ? cli__fail(c, &e) : EXIT_OK;
    place_close(&p);
    return code;
}

// ---- export and import ------------------------------------------------------------------------

enum { TELL_EVERY_MS = 500 };

struct telling {
    struct cli *c;
    uint64_t told_at;
};

static void on_moved(void *arg, const struct move_counts *n)
{
    struct telling *t = arg;
    uint64_t now = time_mono_ns() / 1000000;
    if (!t->c->json && isatty(STDERR_FILENO) && now - t->told_at > TELL_EVERY_MS) {
        t->told_at = now;
        out_note(&t->c->out, "%zu sessions, %zu events", n->sessions, n->events);
    }
}

/// Files belong to their hub while it runs; a database does not.
static int move(struct cli *c, bool in)
{
    struct place p;
    struct err e = {0};
    struct move_counts n = {0};
    struct telling t = {.c = c};
    const char *file = args_word(&c->args, 0);
    int fd = -1, code = EXIT_OK, schema = 0;
    int rc = place_open(c, &p, &e);
    if (rc == 0 && p.pg == NULL) {
        code = cli__take_home(c, &fd);
    } else if (rc == 0) {
        rc = migrate_schema(p.pg, &schema, &e);
    }
    if (rc == 0 && p.pg != NULL && schema != migrate_latest()) {
        rc = err_set(&e, ERR_UNSUPPORTED,
                     "the store has schema %d, this program needs %d: run `afloat store migrate`",
                     schema, migrate_latest());
    }
    if (rc == 0 && code == EXIT_OK) {
        struct move_side side = {.home = c->home.dir, .pg = p.pg};
        rc = (in ? move_import : move_export)(&side, file, &n, on_moved, &t, &e);
    }
    if (rc < 0) {
        code = cli__fail(c, &e);
    } else if (code == EXIT_OK && c->json) {
        out_addf(&c->out, "{\"sessions\":%zu,\"events\":%zu,\"documents\":%zu,\"skipped\":%zu}\n",
                 n.sessions, n.events, n.documents, n.skipped);
    } else if (code == EXIT_OK) {
        out_note(&c->out, "%s %zu sessions, %zu events, %zu documents%s",
                 in ? "imported and compared" : "exported", n.sessions, n.events, n.documents,
                 n.skipped != 0 ? "; some were there already" : "");
    }
    if (fd >= 0) {
        close(fd);
    }
    place_close(&p);
    return code;
}

int cmd_store_export(struct cli *c)
{
    return move(c, false);
}

int cmd_store_import(struct cli *c)
{
    return move(c, true);
}
