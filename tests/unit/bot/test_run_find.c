#include "base/path.h"
#include "bot/runs.h"
#include "unit/test.h"

static void put(const char *bot, const char *project, const char *id, const char *started,
                const char *session)
{
    char path[600], text[600];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/bots/%s/workspaces/%s/runs", test_dir(), bot, project);
    CHECK_INT(path_mkdirs(path, 0700, &e), 0);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%s.json", id);
    snprintf(text, sizeof text,
             "{\"run_id\":\"%s\",\"bot\":\"%s\",\"project\":\"%s\",\"started_at\":\"%s\","
             "\"iterations\":[{\"number\":1,\"session_id\":\"%s\"}]}",
             id, bot, project, started, session);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, &e), 0);
}

static void put_some(void)
{
    put("rev", "api", "aaaa0001", "2026-01-01T00:00:00.000Z", "111111111111");
    put("rev", "api", "aaaa0002", "2026-01-03T00:00:00.000Z", "222222222222");
    put("rev", "web", "bbbb0001", "2026-01-09T00:00:00.000Z", "333333333333");
    put("doc", "api", "cccc0001", "2026-01-08T00:00:00.000Z", "444444444444");
}

static void check_found(const char *bot, const char *id, int rc, const char *run_id)
{
    struct runs_index *x = runs_index_new(test_dir());
    struct record r;
    struct err e = {0};
    CHECK_INT(runs_find(&r, x, bot, str_of(id), &e), rc);
    CHECK_STR(r.run_id, run_id);
    record_fini(&r);
    runs_index_free(x);
}

TEST(a_run_is_found_by_its_id_or_a_beginning_that_is_its_alone)
{
    put_some();
    check_found(NULL, "aaaa0002", 0, "aaaa0002");
    check_found(NULL, "bb", 0, "bbbb0001");
    check_found(NULL, "aaaa", ERR_CONFLICT, "");
    check_found(NULL, "dddd", ERR_NOT_FOUND, "");
    check_found(NULL, "", ERR_NOT_FOUND, "");
    check_found("rev", "cccc0001", ERR_NOT_FOUND, "");
    check_found(NULL, "../../../etc/passwd", ERR_NOT_FOUND, "");
}

TEST(a_run_is_found_by_one_of_its_sessions)
{
    struct record r;
    struct err e = {0};
    struct runs_index *x = runs_index_new(test_dir());
    put_some();
    CHECK_INT(runs_find_any(&r, x, "rev", STR("222222222222"), &e), 0);
    CHECK_STR(r.run_id, "aaaa0002");
    record_fini(&r);
    CHECK_INT(runs_find_any(&r, x, "rev", STR("444444444444"), &e), ERR_NOT_FOUND);
    record_fini(&r);
    runs_index_free(x);
}

TEST(the_last_run_is_that_of_the_workspace)
{
    struct record r;
    struct err e = {0};
    struct runs_index *x = runs_index_new(test_dir());
    put_some();
    CHECK_INT(runs_find_last(&r, x, "rev", "api", &e), 0);
    CHECK_STR(r.run_id, "aaaa0002");
    record_fini(&r);
    CHECK_INT(runs_find_last(&r, x, "doc", "web", &e), ERR_NOT_FOUND);
    record_fini(&r);
    runs_index_free(x);
}

TEST(a_broken_record_is_told_by_its_path)
{
    struct record r;
    struct err e = {0};
    char path[600];
    put("rev", "api", "aaaa0001", "2026-01-01T00:00:00.000Z", "111111111111");
    snprintf(path, sizeof path, "%s/bots/rev/workspaces/api/runs/aaaa0001.json", test_dir());
    CHECK_INT(path_write_atomic(path, STR("{\"run"), 0600, &e), 0);
    struct runs_index *x = runs_index_new(test_dir());
    CHECK(runs_find(&r, x, NULL, STR("aaaa"), &e) < 0);
    CHECK(strstr(e.msg, "aaaa0001.json") != NULL);
    record_fini(&r);
    runs_index_free(x);
}
