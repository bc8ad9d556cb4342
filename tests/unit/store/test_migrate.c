#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/pg_server.h"
#include "store/migrate.h"
#include "unit/test.h"

static int told[16];
static size_t n_told;

static void on_told(void *arg, int schema, const char *name)
{
    (void)arg;
    CHECK(name[0] != '\0' && n_told < ARRAY_LEN(told));
    told[n_told++] = schema;
}

static struct pg_link *open_link(const char *url)
{
    struct pg_link *l;
    struct err e = {0};
    if (pg_link_open(&l, url, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return l;
}

static int64_t ask(struct pg_link *l, const char *sql)
{
    struct pg_result *r;
    CHECK_INT(pg_link_run(l, sql, NULL, 0, &r, NULL), 0);
    int64_t n = pg_get_int(r, 0, 0);
    pg_result_free(r);
    return n;
}

static int schema(struct pg_link *l)
{
    int n;
    CHECK_INT(migrate_schema(l, &n, NULL), 0);
    return n;
}

#define OBJECTS                                                                                    \
    "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'afloat'::regnamespace)"           \
    " + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'afloat'::regnamespace)"

TEST(migrate_up_and_down)
{
    struct err e = {0};
    struct pg_link *l = open_link(pg_server_start());
    CHECK_INT(schema(l), 0);
    if (migrate_to(l, migrate_latest(), on_told, NULL, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_INT((int)n_told, migrate_latest());
    CHECK_INT(told[0], 1);
    CHECK_INT(schema(l), migrate_latest());
    int64_t whole = ask(l, OBJECTS);
    CHECK(whole > 30);

    // down to each version, and back
    for (int to = migrate_latest() - 1; to >= 0; to--) {
        CHECK_INT(migrate_to(l, to, NULL, NULL, &e), 0);
        CHECK_INT(schema(l), to);
        CHECK_INT(migrate_to(l, migrate_latest(), NULL, NULL, &e), 0);
        CHECK_INT(ask(l, OBJECTS), whole);
    }
    CHECK_INT(migrate_to(l, 0, NULL, NULL, &e), 0);
    CHECK_INT(ask(l, OBJECTS), 2); // the list of migrations and its index

    // a newer one is left alone
    CHECK_INT(pg_link_script(l, "INSERT INTO afloat.migrations VALUES (999, 'x')", NULL), 0);
    CHECK_INT(migrate_to(l, 1, NULL, NULL, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "schema 999") != NULL);
    pg_link_close(l);
}

static pid_t migrate_in_child(const char *url)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct pg_link *l = open_link(url);
        int rc = migrate_to(l, migrate_latest(), NULL, NULL, NULL);
        pg_link_close(l);
        _exit(rc == 0 ? 0 : 1);
    }
    return pid;
}

static int end_of(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

TEST(migrate_killed_half_way)
{
    const char *url = pg_server_start();
    struct pg_link *l = open_link(url);
    // a role of the same name that is not committed: the step waits for it, near its end
    CHECK_INT(pg_link_script(l, "BEGIN; CREATE ROLE afloat_hub", NULL), 0);
    pid_t pid = migrate_in_child(url);
    while (ask(l, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == 0) {
        CHECK_INT(pg_link_script(l, "SELECT pg_stat_clear_snapshot()", NULL), 0);
    }
    kill(pid, SIGKILL);
    CHECK(WIFSIGNALED(end_of(pid)));
    CHECK_INT(pg_link_script(l, "ROLLBACK", NULL), 0);

    // two at once, behind the dead one, whose server process may still wait
    pid_t first = migrate_in_child(url), second = migrate_in_child(url);
    CHECK_INT(end_of(first), 0);
    CHECK_INT(end_of(second), 0);
    CHECK_INT(schema(l), migrate_latest());
    CHECK_INT(ask(l, "SELECT count(*) FROM afloat.migrations"), migrate_latest());
    pg_link_close(l);
}

TEST(migrate_without_rights)
{
    struct err e = {0};
    const char *url = pg_server_start();
    struct pg_link *l = open_link(url);
    CHECK_INT(pg_link_script(l, "CREATE ROLE guest LOGIN", NULL), 0);
    pg_link_close(l);
    char other[600];
    snprintf(other, sizeof other, "postgresql://guest@%s", strstr(url, "@") + 1);
    l = open_link(other);
    CHECK_INT(migrate_to(l, migrate_latest(), NULL, NULL, &e), ERR_DENIED);
    CHECK_INT(schema(l), 0);
    pg_link_close(l);
}
