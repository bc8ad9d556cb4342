#include "base/log.h"
#include "base/redact.h"
#include "config/secrets.h"
#include "unit/bind/rig.h"

TEST(settings_are_read_with_secrets_blanked)
{
    rig_open();
    rig_write(
        "home/config.toml",
        "[watch]\npoll_ms = 77\n[[plugins]]\nname = \"x\"\noptions = { api_key = \"hidden\" }\n");
    struct config *fresh;
    struct config_diags d;
    config_diags_init(&d);
    struct config_sources src = {.home = &rig.home, .system_path = "/nowhere"};
    CHECK_INT(config_load(&fresh, &src, &d, NULL), 0);
    config_diags_fini(&d);
    config_put(&rig.settings, fresh, NULL);
    rig_load("a", "say(config.get('watch.poll_ms'), config.all()['watch.poll_ms']) "
                  "say(config.get('no.such')) say(json.encode(config.all()):find('hidden'))"
                  "say(json.encode(config.all()):find('redacted') ~= nil)"
                  "say(config.data_dir()) say(config.lua_path()) say(pcall(config.get))");
    CHECK(rig_said("77 77"));
    CHECK(rig_said("nil config.get: there is no setting 'no.such'"));
    CHECK(rig_said("nil") && rig_said("true"));
    CHECK(rig_said(rig_path("home")) && rig_said(rig_path("home/lua")));
    CHECK(strstr(buf_z(&rig.said), "config.get: key must be a string, not nil") != NULL);
    config_put(&rig.settings, rig.config, NULL);
    rig_close();
    config_free(fresh);
}

TEST(a_secret_is_given_and_never_logged)
{
    struct buf out;
    struct jw w;
    rig_open();
    CHECK_INT(secrets_set(rig.home.secrets, "KEY", STR("verysecretvalue"), NULL), 0);
    rig_run("say(secrets.get('KEY')) say(secrets.get('NONE')) log.info('it is ' .. "
            "secrets.get('KEY')) secrets.get('KEY', function(v) say('cb', v) end)");
    CHECK(rig_said("verysecretvalue"));
    rig_wait("cb verysecretvalue");
    CHECK(strstr(buf_z(&rig.said), "nil ") != NULL);
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_arr(&w);
    bind_log_write(rig.bind, STR("run"), &w);
    jw_end_arr(&w);
    CHECK(strstr(buf_z(&out), "it is [redacted KEY]") != NULL);
    buf_fini(&out);
    rig_close();
    redact_clear();
}

TEST(log_lines_are_kept_for_their_unit_over_a_reload)
{
    struct buf out;
    struct jw w;
    rig_open();
    rig_load("a", "log.warn('one') print('two', 3)");
    rig_load("b", "log.info('elsewhere')");
    rig_load("a", "log.debug('three') timer.after(0, function() error('oops') end) "
                  "timer.after(0.001, function() say('end') end)");
    rig_wait("end");
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_arr(&w);
    bind_log_write(rig.bind, STR("a"), &w);
    jw_end_arr(&w);
    CHECK(strstr(buf_z(&out), "\"level\":\"warn\",\"text\":\"one\"") != NULL);
    CHECK(strstr(buf_z(&out), "\"level\":\"info\",\"text\":\"two") != NULL);
    CHECK(strstr(buf_z(&out), "\"text\":\"three\"") != NULL);
    CHECK(strstr(buf_z(&out), "elsewhere") == NULL);
    buf_fini(&out);
    rig_load("c",
             "local d = hub.report() say(hub.generation() > 0, json.encode(hub.get_worktrees()))");
    CHECK(rig_said("true []"));
    rig_load("d", "say(hub.report().ok, hub.report().diagnostics[1].message)");
    CHECK(rig_said("true timer: oops"));
    rig_close();
}

TEST(empty_log_lines_are_bounded_too)
{
    struct buf out;
    struct jw w;
    size_t n = 0;
    rig_open();
    for (int i = 0; i < 20000; i++) {
        bind_log_add(rig.bind, STR("a"), LOG_INFO, STR(""));
    }
    bind_log_add(rig.bind, STR("a"), LOG_INFO, STR("last"));
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_arr(&w);
    bind_log_write(rig.bind, STR("a"), &w);
    jw_end_arr(&w);
    for (const char *p = buf_z(&out); (p = strstr(p, "\"level\"")) != NULL; p++) {
        n++;
    }
    CHECK(n > 100 && n < 5000);
    CHECK(strstr(buf_z(&out), "last") != NULL);
    buf_fini(&out);
    rig_close();
}
