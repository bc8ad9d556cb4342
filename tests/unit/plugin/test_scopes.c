// For whom an improvement is active is kept over restarts, and damage never widens it.

#include "base/path.h"
#include "plugin/scopes.h"
#include "unit/loop.h"

static struct loop l;
static struct lane *lane;
static struct scopes s;
static char path[300];

static void begin(void)
{
    snprintf(path, sizeof path, "%s/scopes.json", test_dir());
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    lane = lane_open(&l, "scopes", 1);
    CHECK_INT(scopes_init(&s, path, lane, NULL), 0);
}

static void end(void)
{
    scopes_fini(&s);
    lane_close(lane);
    TEST_LOOP_END(&l);
}

TEST(what_nobody_spoke_of_is_for_all)
{
    begin();
    CHECK_INT(scopes_get(&s, STR("x")).kind, SCOPE_ALL);
    CHECK_STR(scopes_get(&s, STR("x")).of, "");
    end();
}

TEST(scopes_are_there_again_after_a_restart)
{
    begin();
    scopes_set(&s, STR("x"), SCOPE_SESSION, STR("s-1"));
    scopes_set(&s, STR("z"), SCOPE_SESSION, STR("s-2"));
    scopes_set(&s, STR("z"), SCOPE_ALL, STR_NULL);
    scopes_set(&s, STR("gone"), SCOPE_SESSION, STR("s-3"));
    scopes_forget(&s, STR("gone"));
    end();
    begin();
    CHECK_INT(scopes_get(&s, STR("x")).kind, SCOPE_SESSION);
    CHECK_STR(scopes_get(&s, STR("x")).of, "s-1");
    CHECK_INT(scopes_get(&s, STR("z")).kind, SCOPE_ALL);
    CHECK_INT(scopes_get(&s, STR("gone")).kind, SCOPE_ALL);
    end();
}

TEST(a_row_that_cannot_be_read_is_for_nobody)
{
    struct err e = {0};
    begin();
    end();
    CHECK_INT(path_write_atomic(path,
                                STR("{\"improvements\":{\"x\":{\"scope\":\"everyone\"},\"y\":7}}"),
                                0600, &e),
              0);
    begin();
    CHECK_INT(scopes_get(&s, STR("x")).kind, SCOPE_SESSION);
    CHECK_STR(scopes_get(&s, STR("x")).of, "");
    CHECK_INT(scopes_get(&s, STR("y")).kind, SCOPE_SESSION);
    end();
}

TEST(a_damaged_file_is_an_error)
{
    struct err e = {0};
    begin();
    end();
    CHECK_INT(path_write_atomic(path, STR("{"), 0600, &e), 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    lane = lane_open(&l, "scopes", 1);
    CHECK(scopes_init(&s, path, lane, &e) < 0);
    end();
}
