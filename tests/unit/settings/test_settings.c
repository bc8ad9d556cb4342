#include "base/path.h"
#include "settings/settings.h"
#include "unit/test.h"

static int told;

static void on_changed(void *arg)
{
    (void)arg;
    told++;
}

static void put(const char *name, const char *text)
{
    char *path = path_join(test_dir(), name);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(path);
}

static struct home home;
static char *system_path;

static int open_them(struct settings **out, struct err *e)
{
    if (system_path == NULL) {
        system_path = path_join(test_dir(), "system.toml");
        CHECK_INT(home_resolve(&home, test_dir(), NULL), 0);
    }
    struct settings_opts o = {.home = &home, .system_path = system_path};
    int rc = settings_open(out, &o, e);
    if (rc == 0) {
        config_listen(settings_live(*out), on_changed, NULL);
    }
    return rc;
}

static void end(struct settings *s)
{
    if (s != NULL) {
        config_unlisten(settings_live(s), on_changed, NULL);
    }
    settings_close(s);
    home_fini(&home);
    free(system_path);
}

TEST(a_broken_system_file_stops_the_start)
{
    struct settings *s;
    struct err e = {0};
    put("system.toml", "[policy.sandbox]\nnetwork = fals\n");
    CHECK_INT(open_them(&s, &e), ERR_INVALID);
    CHECK(s == NULL && strstr(e.msg, "system.toml") != NULL && strstr(e.msg, "line 2") != NULL);
    end(NULL);
}

TEST(a_system_file_with_more_problems_than_are_listed_stops_the_start)
{
    struct settings *s;
    struct buf text = {.max = SIZE_MAX};
    for (int i = 0; i < 200; i++) {
        buf_addf(&text, "unknown-%d = 1\n", i);
    }
    buf_addz(&text, "[policy.sandbox]\nnetwork = 3\n");
    put("system.toml", buf_z(&text));
    buf_fini(&text);
    CHECK_INT(open_them(&s, NULL), ERR_INVALID);
    end(s);
}

TEST(a_system_file_that_cannot_be_read_is_named_without_a_line)
{
    struct settings *s;
    struct err e = {0};
    char *path = path_join(test_dir(), "system.toml");
    CHECK_INT(path_mkdirs(path, 0700, NULL), 0);
    free(path);
    CHECK_INT(open_them(&s, &e), ERR_INVALID);
    CHECK(strstr(e.msg, "line 0") == NULL && strstr(e.msg, "directory") != NULL);
    end(NULL);
}

TEST(a_broken_file_of_the_user_is_left_out_and_mended_later)
{
    struct settings *s;
    put("system.toml", "");
    put("config.toml", "[watch]\npoll_ms = no\n");
    CHECK_INT(open_them(&s, NULL), 0);
    CHECK(settings_live(s)->diags->broken);
    CHECK_INT(config_int(settings_live(s)->now, "watch.poll_ms"), 2000);
    put("config.toml", "[watch]\npoll_ms = 50\n");
    settings_reload(s);
    CHECK_INT(told, 1);
    CHECK(!settings_live(s)->diags->broken);
    CHECK_INT(config_int(settings_live(s)->now, "watch.poll_ms"), 50);
    end(s);
}

TEST(a_changed_file_of_the_system_is_seen_without_a_restart)
{
    struct settings *s;
    put("system.toml", "");
    put("config.toml", "[session]\npermission = 'auto'\n");
    CHECK_INT(open_them(&s, NULL), 0);
    settings_refresh(s);
    CHECK_INT(told, 0);
    put("system.toml", "[policy.session]\npermission = 'deny'\n");
    settings_refresh(s);
    CHECK_INT(told, 1);
    CHECK_STR(config_str(settings_live(s)->now, "session.permission"), "deny");
    end(s);
}

TEST(a_setting_that_counts_from_the_next_start_on_says_so_while_it_differs)
{
    struct settings *s;
    put("system.toml", "");
    put("config.toml", "");
    CHECK_INT(open_them(&s, NULL), 0);
    put("config.toml", "[store]\nhub_name = 'other'\n");
    settings_refresh(s);
    CHECK_INT(settings_live(s)->diags->n, 1);
    CHECK_INT(settings_live(s)->diags->p[0].line, 2);
    CHECK(strstr(settings_live(s)->diags->p[0].message, "next start") != NULL);
    put("config.toml", "broken\n");
    settings_refresh(s);
    CHECK_INT(settings_live(s)->diags->n, 1); // of the line alone
    put("config.toml", "[log]\nlevel = 'info'\n");
    settings_refresh(s);
    CHECK_INT(settings_live(s)->diags->n, 0);
    end(s);
}

TEST(the_last_good_settings_stay_over_a_broken_file)
{
    struct settings *s;
    put("system.toml", "");
    put("config.toml", "[watch]\npoll_ms = 50\n");
    CHECK_INT(open_them(&s, NULL), 0);
    put("config.toml", "[watch]\npoll_ms = 'x'\n");
    settings_reload(s);
    CHECK_INT(told, 1);
    CHECK(settings_live(s)->diags->broken);
    CHECK_INT(config_int(settings_live(s)->now, "watch.poll_ms"), 50);
    put("system.toml", "[policy\n"); // nor does one of the system's, once the hub runs
    settings_reload(s);
    CHECK_INT(config_int(settings_live(s)->now, "watch.poll_ms"), 50);
    end(s);
}
