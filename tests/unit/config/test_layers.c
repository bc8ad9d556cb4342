// Which layer wins, and what a project may not do.

#include "base/base.h"
#include "unit/config/fixture.h"

static const char *origin(const struct fixture *f, const char *key)
{
    return config_origin_name(config_find(f->config, key)->origin);
}

/// The same key in more and more layers: each one added must win over all before it.
TEST(each_layer_wins_over_those_below_it)
{
    static const char *const env[] = {"OTHER=1", "AFLOAT_PROFILE=environment", NULL};
    static const char *const flags[] = {"profile=flag", NULL};
    struct fixture f;

    fixture_init(&f);
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_STR(config_str(f.config, "profile"), "default");
    CHECK_STR(origin(&f, "profile"), "default");

    fixture_write(f.system, "profile = 'system'");
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_STR(config_str(f.config, "profile"), "system");

    fixture_write(f.user_file, "profile = 'user'");
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_STR(config_str(f.config, "profile"), "user");

    fixture_write(f.project_file, "profile = 'project'");
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_STR(config_str(f.config, "profile"), "project");

    CHECK_INT(fixture_load(&f, env, NULL), 0);
    CHECK_STR(config_str(f.config, "profile"), "environment");

    CHECK_INT(fixture_load(&f, env, flags), 0);
    CHECK_STR(config_str(f.config, "profile"), "flag");

    fixture_write(f.system, "profile = 'system'\n[policy]\nprofile = 'policy'");
    CHECK_INT(fixture_load(&f, env, flags), 0);
    CHECK_STR(config_str(f.config, "profile"), "policy");
    CHECK_INT(f.diags.n, 0);
    fixture_fini(&f);
}

TEST(every_value_says_its_origin_with_file_and_line)
{
    static const char *const env[] = {"AFLOAT_LOG=debug", NULL};
    static const char *const flags[] = {"listen=auto", NULL};
    struct fixture f;

    fixture_init(&f);
    fixture_write(f.system, "\nbehind_proxy = true\n[policy.shell]\n\nmarker = true");
    fixture_write(f.user_file, "# mine\n\n[limits]\nlua_ms = 7");
    fixture_write(f.project_file, "[shell]\nmarker = false\nbuild_timeout_s = 9");
    CHECK_INT(fixture_load(&f, env, flags), 0);

    static const struct {
        const char *key, *origin;
        uint32_t line;
    } rows[] = {
        {"behind_proxy", "system", 2},   {"shell.marker", "policy", 5},
        {"limits.lua_ms", "user", 4},    {"shell.build_timeout_s", "project", 3},
        {"log.level", "environment", 0}, {"listen", "flag", 0},
        {"watch.poll", "default", 0},
    };
    const char *const paths[] = {f.system,     f.system, f.user_file, f.project_file,
                                 "AFLOAT_LOG", NULL,     NULL};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct config_entry *e = config_find(f.config, rows[i].key);
        CHECK_STR(config_origin_name(e->origin), rows[i].origin);
        CHECK_INT(e->line, rows[i].line);
        CHECK((paths[i] == NULL) == (e->path == NULL));
        CHECK_STR(e->path != NULL ? e->path : "", paths[i] != NULL ? paths[i] : "");
    }
    CHECK_INT(f.diags.n, 0);
    fixture_fini(&f);
}

// ---- projects -------------------------------------------------------------------------------

struct refusal {
    const char *user, *project; // texts of the files
    const char *key, *value;    // what must come out
    const char *diag;           // the first diagnostic, or "none"
};

static const struct refusal refusals[] = {
    {"", "listen = 'auto'", "listen", "\"\"", "warning 1:10 a project may not set 'listen'"},
    {"", "\nallowed_hosts = ['evil']", "allowed_hosts", "[]",
     "warning 2:17 a project may not set 'allowed_hosts'"},
    {"", "public_url = 'https://evil'", "public_url", "\"\"",
     "warning 1:14 a project may not set 'public_url'"},
    {"", "behind_proxy = true", "behind_proxy", "false",
     "warning 1:16 a project may not set 'behind_proxy'"},
    {"", "[providers.evil]\nbase_url = 'https://evil'", "providers.evil.base_url", "absent",
     "warning 2:12 a project may not set 'providers.evil.base_url'"},
    {"", "[providers.openai]\nbase_url = 'https://evil'", "providers.openai.base_url",
     "\"https://api.openai.com/v1\"",
     "warning 2:12 a project may not set 'providers.openai.base_url'"},
    {"", "providers.openai.api_key_file = 'x'", "providers.openai.api_key_file", "absent",
     "warning 1:33 a project may not set 'providers.openai.api_key_file'"},
    {"", "[sandbox]\nmode = 'danger-full-access'", "sandbox.mode", "\"workspace-write\"",
     "warning 2:8 a project may not widen 'sandbox.mode'"},
    {"[sandbox]\nmode = 'read-only'", "[sandbox]\nmode = 'workspace-write'", "sandbox.mode",
     "\"read-only\"", "warning 2:8 a project may not widen 'sandbox.mode'"},
    {"", "[sandbox]\nmode = 'read-only'", "sandbox.mode", "\"read-only\"", "none"},
    {"[sandbox]\nmode = 'danger-full-access'", "[sandbox]\nmode = 'workspace-write'",
     "sandbox.mode", "\"workspace-write\"", "none"},
    {"", "[sandbox]\nnetwork = true", "sandbox.network", "false",
     "warning 2:11 a project may not widen 'sandbox.network'"},
    {"[sandbox]\nnetwork = true", "[sandbox]\nnetwork = true", "sandbox.network", "true", "none"},
    {"[sandbox]\nnetwork = true", "[sandbox]\nnetwork = false", "sandbox.network", "false", "none"},
    {"", "[sandbox]\nwritable = ['/']", "sandbox.writable", "[]",
     "warning 2:12 a project may not set 'sandbox.writable'"},
    {"[sandbox]\nhide = ['~/a']", "[sandbox]\nhide = []", "sandbox.hide", "[\"~/a\"]", "none"},
    {"[sandbox]\nhide = ['~/a']", "[sandbox]\nhide = ['b', '~/a']", "sandbox.hide",
     "[\"~/a\",\"b\"]", "none"},
    {"[tool_env]\ndrop = ['A']", "[tool_env]\ndrop = ['B']", "tool_env.drop", "[\"A\",\"B\"]",
     "none"},
    {"[session]\npermission = 'ask'", "[session]\npermission = 'auto'", "session.permission",
     "\"ask\"", "warning 2:14 a project may not widen 'session.permission'"},
    {"", "[session]\npermission = 'deny'", "session.permission", "\"deny\"", "none"},
    {"[features]\nplugins = false", "[features]\nplugins = true", "features.plugins", "false",
     "warning 2:11 a project may not set 'features.plugins'"},
    {"", "features.other = true", "features.other", "absent",
     "warning 1:10 unknown key 'other' in [features]"},
    {"", "[log]\nlevel = 'error'", "log.level", "\"info\"",
     "warning 2:9 a project may not set 'log.level'"},
    {"", "[model]\nname = 'm'", "model.name", "\"m\"", "none"},
    {"", "[policy]\nlisten = 'auto'", "listen", "\"\"",
     "warning 1:2 [policy] counts only in /etc/afloat/config.toml"},
};

TEST(a_project_may_not_widen_or_redirect)
{
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        const struct refusal *r = &refusals[i];
        fixture_write(f.user_file, r->user);
        fixture_write(f.project_file, r->project);
        CHECK_INT(fixture_load(&f, NULL, NULL), 0);
        CHECK_STR(fixture_diag(&f, 0), r->diag);
        CHECK_STR(fixture_value(&f, r->key), r->value);
        CHECK(!f.diags.broken);
        CHECK(f.diags.n == 0 || strcmp(f.diags.p[0].path, f.project_file) == 0);
    }
    fixture_fini(&f);
}

TEST(policy_of_the_users_file_means_nothing)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "listen = 'auto'\n[policy]\nlisten = ''");
    CHECK_STR(config_str(f.config, "listen"), "auto");
    CHECK_STR(fixture_diag(&f, 0), "warning 2:2 [policy] counts only in /etc/afloat/config.toml");
    fixture_fini(&f);
}

// ---- broken files ---------------------------------------------------------------------------

TEST(a_broken_file_counts_not_at_all_and_keeps_the_others)
{
    struct fixture f;
    fixture_init(&f);
    fixture_write(f.system, "profile = 'system'");
    fixture_write(f.project_file, "[session]\nanswer_s = 9");
    fixture_user(&f,
                 "profile = 'user'\n[watch]\npoll_ms = 3000\npoll = 'yes'\n[log]\nlevel='warn'");
    CHECK(f.diags.broken);
    CHECK_STR(fixture_diag(&f, 0),
              "error 4:8 expected true or false for 'watch.poll', found \"yes\"");
    CHECK_STR(f.diags.p[0].path, f.user_file);
    CHECK_STR(config_str(f.config, "profile"), "system");
    CHECK_STR(config_str(f.config, "log.level"), "info");
    CHECK_INT(config_int(f.config, "watch.poll_ms"), 2000);
    CHECK_INT(config_int(f.config, "session.answer_s"), 9);
    fixture_fini(&f);
}

TEST(a_syntax_error_is_shown_with_its_place)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "profile = 'user'\nlisten = \n");
    CHECK(f.diags.broken);
    CHECK_INT(f.diags.n, 1);
    CHECK_INT(f.diags.p[0].line, 2);
    CHECK_INT(f.diags.p[0].col, 10);
    CHECK_STR(f.diags.p[0].message, "in 'listen': expected a value, found the end of the line");
    CHECK(f.diags.p[0].hint != NULL);
    CHECK_STR(config_str(f.config, "profile"), "default");
    fixture_fini(&f);
}

TEST(an_error_in_the_policy_breaks_the_whole_system_file_and_the_other_way_round)
{
    struct fixture f;
    fixture_init(&f);
    fixture_write(f.system, "profile = 'system'\n[policy]\nlisten = 7");
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK(f.diags.broken);
    CHECK_STR(config_str(f.config, "profile"), "default");

    fixture_write(f.system, "profile = 7\n[policy]\nlisten = 'auto'");
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK(f.diags.broken);
    CHECK_STR(config_str(f.config, "listen"), "");
    CHECK(strstr(f.diags.p[0].hint, "[policy]") != NULL);

    fixture_write(f.system, "policy = 1");
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_STR(fixture_diag(&f, 0), "error 1:10 expected a table for 'policy', found 1");
    fixture_fini(&f);
}

TEST(a_file_that_is_a_directory_or_too_large_is_broken)
{
    struct fixture f;
    fixture_init(&f);
    f.home.config = f.project;
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK(f.diags.broken);

    f.home.config = f.user_file;
    FILE *file = fopen(f.user_file, "w");
    CHECK(file != NULL);
    for (int i = 0; i < 1024 * 1024 + 1; i++) {
        CHECK(fputc('#', file) == '#');
    }
    CHECK(fclose(file) == 0);
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK(f.diags.broken);
    fixture_fini(&f);
}

TEST(a_missing_project_directory_is_an_empty_layer)
{
    struct fixture f;
    fixture_init(&f);
    snprintf(f.project, sizeof f.project, "%s", f.user_file); // below a file: ENOTDIR
    fixture_user(&f, "profile = 'user'");
    CHECK_INT(f.diags.n, 0);
    CHECK_STR(config_str(f.config, "profile"), "user");
    fixture_fini(&f);
}

// ---- environment and flags ------------------------------------------------------------------

TEST(variables_set_their_keys)
{
    static const char *const env[] = {"AFLOAT_LISTEN=127.0.0.1:0", "AFLOAT_PROFILE=p",
                                      "AFLOAT_PROVIDER=work",      "AFLOAT_MODEL=m",
                                      "AFLOAT_LOG=warn",           NULL};
    struct fixture f;
    fixture_init(&f);
    CHECK_INT(fixture_load(&f, env, NULL), 0);
    CHECK_STR(config_str(f.config, "listen"), "127.0.0.1:0");
    CHECK_STR(config_str(f.config, "profile"), "p");
    CHECK_STR(config_str(f.config, "model.provider"), "work");
    CHECK_STR(config_str(f.config, "model.name"), "m");
    CHECK_STR(config_str(f.config, "log.level"), "warn");
    fixture_fini(&f);
}

TEST(an_empty_variable_counts_as_unset)
{
    static const char *const env[] = {"AFLOAT_LISTEN=", "AFLOAT_LOG=", NULL};
    struct fixture f;
    fixture_init(&f);
    fixture_write(f.user_file, "listen = 'auto'");
    CHECK_INT(fixture_load(&f, env, NULL), 0);
    CHECK_STR(config_str(f.config, "listen"), "auto");
    fixture_fini(&f);
}

TEST(the_hubs_own_environment_decides_nothing_about_sessions)
{
    static const char *const env[] = {"AFLOAT_PROVIDER=work", "AFLOAT_MODEL=m", "AFLOAT_LOG=warn",
                                      NULL};
    struct config_sources src = {.system_path = "/nonexistent", .env = env, .hub = true};
    struct config_diags d;
    struct config *c;
    config_diags_init(&d);
    CHECK_INT(config_load(&c, &src, &d, NULL), 0);
    CHECK_STR(config_str(c, "model.provider"), "");
    CHECK_STR(config_str(c, "model.name"), "");
    CHECK_STR(config_str(c, "log.level"), "warn");
    config_free(c);
    config_diags_fini(&d);
}

TEST(a_bad_flag_or_variable_fails_the_load)
{
    static const struct {
        const char *text;
        const char *message;
    } flags[] = {
        {"watch.poll=maybe", "expected true or false for watch.poll, found 'maybe'"},
        {"watch.poll_ms=5", "expected an integer from 10 to 3600000 for watch.poll_ms, found '5'"},
        {"watch.pol=true", "expected KEY=VALUE with a known key, found 'watch.pol=true'"},
        {"listen", "expected KEY=VALUE with a known key, found 'listen'"},
        {"prices.*.input=1", "expected KEY=VALUE with a known key, found 'prices.*.input=1'"},
        {"profile=../x", "expected a name of letters, digits, '_', '-' and '.' for profile, "
                         "found '../x'"},
        {"model.name=\xff", NULL},
    };
    static const char *const env[] = {"AFLOAT_LISTEN=4700", NULL};
    struct fixture f;

    fixture_init(&f);
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const char *const list[] = {flags[i].text, NULL};
        CHECK_INT(fixture_load(&f, NULL, list), ERR_USAGE);
        CHECK(f.config == NULL);
        if (flags[i].message != NULL) {
            CHECK_STR(f.err.msg, flags[i].message);
        }
    }
    CHECK_INT(fixture_load(&f, env, NULL), ERR_INVALID);
    CHECK_STR(f.err.msg, "expected \"\", \"auto\" or ADDR:PORT for AFLOAT_LISTEN, found '4700'");
    fixture_fini(&f);
}

TEST(flags_read_values_by_the_type_of_their_key)
{
    static const char *const flags[] = {"allowed_hosts=a, b", "session.plugins=", "watch.poll=true",
                                        "watch.debounce_ms=0", NULL};
    struct fixture f;
    fixture_init(&f);
    CHECK_INT(fixture_load(&f, NULL, flags), 0);
    const char *const *hosts = config_strings(f.config, "allowed_hosts");
    CHECK_INT(str_count(hosts), 2);
    CHECK_STR(hosts[1], "b");
    CHECK(config_strings(f.config, "session.plugins") != NULL);
    CHECK_INT(str_count(config_strings(f.config, "session.plugins")), 0);
    CHECK(config_bool(f.config, "watch.poll"));
    CHECK_INT(config_int(f.config, "watch.debounce_ms"), 0);
    fixture_fini(&f);
}
