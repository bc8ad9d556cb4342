// Which provider, model and key a session gets.

#include <math.h>
#include <sys/stat.h>

#include "agent/providers.h"
#include "base/path.h"
#include "config/secrets.h"
#include "unit/agent/mock.h"

static struct config *config;
static struct home home;
static struct provider_choice choice;
static struct err e;

static char *in_dir(const char *name)
{
    static char ring[4][320];
    static unsigned at;
    char *out = ring[at++ % 4];
    snprintf(out, sizeof ring[0], "%s/%s", test_dir(), name);
    return out;
}

static void load(const char *toml)
{
    struct config_diags diags;
    char *path = in_dir("config.toml");
    CHECK_INT(path_write_atomic(path, str_of(toml), 0600, NULL), 0);
    struct config_sources src = {.system_path = path, .hub = true};
    config_diags_init(&diags);
    config_free(config);
    CHECK_INT(config_load(&config, &src, &diags, &e), 0);
    CHECK_INT(diags.n, 0);
    config_diags_fini(&diags);
    home = (struct home){.dir = (char *)(uintptr_t)test_dir(), .secrets = in_dir("secrets.json")};
}

static int resolve(const char *provider, const char *model, const char *const *env)
{
    struct provider_wish wish = {
        .provider = provider, .model = model, .env = env, .home = &home, .cwd = "/somewhere"};
    provider_choice_fini(&choice);
    return providers_resolve(&choice, config, &wish, &e);
}

static void check_choice(const char *provider, const char *model, bool fallback)
{
    CHECK_STR(choice.provider, provider);
    CHECK_STR(choice.model, model);
    CHECK_INT(choice.fallback, fallback);
}

static void check_says(const char *says)
{
    if (strstr(e.msg, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", e.msg, says);
    }
}

static void end(void)
{
    provider_choice_fini(&choice);
    config_free(config);
    config = NULL;
}

TEST(the_policy_decides_provider_and_model_over_every_wish)
{
    static const char *const env[] = {"AFLOAT_PROVIDER=scripted", "AFLOAT_MODEL=mine",
                                      "ANTHROPIC_API_KEY=sk-ant-1234567", NULL};
    load("[policy.model]\nprovider = 'anthropic'\n");
    CHECK_INT(resolve("scripted", "demo", env), 0);
    check_choice("anthropic", "claude-sonnet-4-5", false);
    CHECK_INT(resolve(NULL, "scripted/demo", env), 0);
    check_choice("anthropic", "claude-sonnet-4-5", false);
    CHECK_INT(resolve(NULL, NULL, env), 0);
    check_choice("anthropic", "mine", false); // the policy names no model
    load("[policy.model]\nname = 'held'\n");
    CHECK_INT(resolve("scripted", "demo", env), 0);
    check_choice("scripted", "held", false);
    end();
}

TEST(the_first_built_in_provider_with_a_key_is_taken_else_scripted)
{
    static const char *const none[] = {"PATH=/bin", "OPENAI_API_KEY=", NULL};
    static const char *const one[] = {"ANTHROPIC_API_KEY=sk-ant-1234567", NULL};
    static const char *const both[] = {"ANTHROPIC_API_KEY=a-12345678", "OPENAI_API_KEY=o-12345678",
                                       NULL};
    load("");
    CHECK_INT(resolve(NULL, NULL, none), 0);
    check_choice("scripted", "scripted", true);
    CHECK_INT(resolve(NULL, NULL, NULL), 0);
    check_choice("scripted", "scripted", true);
    CHECK_INT(resolve(NULL, NULL, one), 0);
    CHECK_STR(choice.kind, "anthropic");
    CHECK_STR(choice.base_url, "https://api.anthropic.com");
    CHECK_STR(choice.key, "sk-ant-1234567");
    CHECK(!choice.fallback && choice.model[0] != '\0');
    CHECK_INT(resolve("", "", both), 0);
    CHECK_STR(choice.provider, "openai");
    CHECK_INT(choice.retry.tries, 5);
    CHECK_INT(choice.retry.first_ms, 200);
    CHECK_INT(choice.retry.total_ms, 60000);
    CHECK_INT(resolve("scripted", NULL, both), 0);
    check_choice("scripted", "scripted", false); // asked for
    end();
}

TEST(the_hubs_own_environment_decides_nothing)
{
    setenv("OPENAI_API_KEY", "o-12345678", 1);
    setenv("AFLOAT_PROVIDER", "openai", 1);
    setenv("AFLOAT_SCENARIO", "/x", 1);
    load("");
    CHECK_INT(resolve(NULL, NULL, NULL), 0);
    check_choice("scripted", "scripted", true);
    CHECK(choice.scenario == NULL);
    end();
}

TEST(a_wish_wins_over_the_environment_and_that_over_the_settings)
{
    static const char *const env[] = {"AFLOAT_PROVIDER=env", "AFLOAT_MODEL=m-env", NULL};
    static const char *const env_both[] = {"AFLOAT_MODEL=env/org/m", NULL};
    load("[model]\nprovider = 'set'\nname = 'm-set'\n"
         "[providers.set]\nkind = 'openai-chat'\nbase_url = 'http://h/v1/'\n"
         "[providers.env]\nkind = 'openai-chat'\nbase_url = 'http://h/v1'\n"
         "[providers.own]\nkind = 'openai-chat'\nbase_url = 'http://h/v1'\nmodel = 'm-own'\n");
    CHECK_INT(resolve(NULL, NULL, NULL), 0);
    check_choice("set", "m-set", false);
    CHECK_STR(choice.base_url, "http://h/v1");
    CHECK(choice.key == NULL);
    CHECK_INT(resolve(NULL, NULL, env), 0);
    check_choice("env", "m-env", false);
    CHECK_INT(resolve("set", NULL, env), 0);
    check_choice("set", "m-env", false);
    CHECK_INT(resolve("own", NULL, NULL), 0); // [model] name is for another provider
    check_choice("own", "m-own", false);
    CHECK_INT(resolve(NULL, "own/m-2", env), 0);
    check_choice("own", "m-2", false);
    CHECK_INT(resolve(NULL, "meta/m-3", NULL), 0); // no provider: part of the name
    check_choice("set", "meta/m-3", false);
    CHECK_INT(resolve("env", "own/m-4", NULL), 0);
    check_choice("env", "own/m-4", false);
    CHECK_INT(resolve(NULL, NULL, env_both), 0);
    check_choice("env", "org/m", false);
    end();
}

TEST(what_cannot_be_chosen_says_what_to_do)
{
    load("[providers.work]\nkind = 'openai-chat'\nbase_url = 'http://h'\napi_key_env = 'WORK_KEY'\n"
         "model = 'm'\n[providers.bare]\nkind = 'openai-chat'\nmodel = 'm'\n"
         "[providers.free]\nkind = 'openai-chat'\nbase_url = 'http://h'\n");
    CHECK_INT(resolve("wrok", NULL, NULL), ERR_NOT_FOUND);
    check_says("there is no provider 'wrok'; did you mean 'work'?");
    CHECK_INT(resolve("work", NULL, NULL), ERR_INVALID);
    check_says("set the environment variable WORK_KEY");
    CHECK_INT(resolve("bare", NULL, NULL), ERR_INVALID);
    check_says("'bare' has no base_url");
    CHECK_INT(resolve("free", NULL, NULL), ERR_INVALID);
    check_says("no model for provider 'free'");
    end();
}

TEST(keys_come_from_files_and_secrets_that_only_we_can_read)
{
    char *file = in_dir("key");
    load("[providers.f]\nkind = 'anthropic'\nbase_url = 'http://h'\nmodel = 'm'\n"
         "api_key_file = 'key'\n[providers.s]\nkind = 'anthropic'\nbase_url = 'http://h'\n"
         "model = 'm'\napi_key_secret = 'NAME'\n");
    CHECK_INT(resolve("f", NULL, NULL), ERR_INVALID);
    check_says("no key for provider 'f'");
    CHECK_INT(path_write_atomic(file, STR("  sk-in-a-file\n"), 0644, NULL), 0);
    CHECK_INT(resolve("f", NULL, NULL), ERR_DENIED);
    check_says("chmod 600");
    CHECK(strstr(e.msg, "sk-in") == NULL);
    CHECK_INT(chmod(file, 0600), 0);
    CHECK_INT(resolve("f", NULL, NULL), 0);
    CHECK_STR(choice.key, "sk-in-a-file");
    CHECK_INT(path_write_atomic(file, STR("sk-two\nlines-1234"), 0600, NULL), 0);
    CHECK_INT(resolve("f", NULL, NULL), ERR_INVALID);
    CHECK(strstr(e.msg, "lines") == NULL);
    CHECK_INT(resolve("s", NULL, NULL), ERR_INVALID);
    CHECK_INT(secrets_set(home.secrets, "NAME", STR("sk-in-secrets"), &e), 0);
    CHECK_INT(resolve("s", NULL, NULL), 0);
    CHECK_STR(choice.key, "sk-in-secrets");
    end();
}

TEST(a_scenario_is_found_from_where_the_client_stands)
{
    static const char *const relative[] = {"AFLOAT_SCENARIO=a.jsonl", NULL};
    static const char *const absolute[] = {"AFLOAT_SCENARIO=/x/a.jsonl", NULL};
    load("[providers.play]\nkind = 'scripted'\nscenario = 'plays/b.jsonl'\n");
    CHECK_INT(resolve(NULL, NULL, relative), 0);
    CHECK_STR(choice.scenario, "/somewhere/a.jsonl");
    CHECK(choice.fallback); // a scenario is no wish for the scripted model
    CHECK_INT(resolve("scripted", NULL, absolute), 0);
    CHECK_STR(choice.scenario, "/x/a.jsonl");
    CHECK_INT(resolve("play", NULL, NULL), 0);
    CHECK_STR(choice.scenario, in_dir("plays/b.jsonl"));
    end();
}

TEST(cost_is_known_only_with_prices_and_numbers)
{
    load("[prices.m]\ninput = 3.0\ncached = 0.3\noutput = 15.0\n[prices.'half.1']\ninput = 2.0\n"
         "output = 4.0\n");
    struct provider_usage u = {.input = 1000000, .cached = 400000, .output = 100000};
    CHECK_INT(resolve("scripted", "m", NULL), 0);
    CHECK(fabs(provider_cost(&choice, &u) - (0.6 * 3 + 0.4 * 0.3 + 0.1 * 15)) < 1e-9);
    u.cached = -1;
    CHECK(fabs(provider_cost(&choice, &u) - 4.5) < 1e-9);
    u.output = -1;
    CHECK(isnan(provider_cost(&choice, &u)));
    u = (struct provider_usage){.input = 1000000, .cached = 400000, .output = 0};
    CHECK_INT(resolve("scripted", "half.1", NULL), 0);
    CHECK(fabs(provider_cost(&choice, &u) - 2.0) < 1e-9); // cached counts like the rest
    CHECK_INT(resolve("scripted", "unknown", NULL), 0);
    CHECK(isnan(provider_cost(&choice, &u)));
    end();
}

TEST(variables_of_providers_are_known)
{
    load("[providers.work]\nkind = 'openai-chat'\napi_key_env = 'WORK_KEY'\n");
    CHECK(providers_owns_variable(config, STR("AFLOAT_SCENARIO")));
    CHECK(providers_owns_variable(config, STR("WORK_KEY")));
    CHECK(providers_owns_variable(config, STR("OPENAI_API_KEY")));
    CHECK(!providers_owns_variable(config, STR("PATH")));
    end();
}

TEST(the_list_says_who_has_a_key_and_shows_none)
{
    static const char *const env[] = {"ANTHROPIC_API_KEY=sk-ant-1234567", NULL};
    struct provider_wish wish = {.env = env, .home = &home};
    struct buf out;
    struct jw w;
    load("");
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    providers_write_list(&w, config, &wish);
    CHECK(strstr(buf_z(&out), "{\"name\":\"anthropic\",\"kind\":\"anthropic\",\"base_url\":"
                              "\"https://api.anthropic.com\"") != NULL);
    CHECK(strstr(buf_z(&out), "\"has_key\":true,\"needs_key\":true,\"default\":true}") != NULL);
    CHECK(strstr(buf_z(&out), "sk-ant") == NULL);
    CHECK(strstr(buf_z(&out),
                 "{\"name\":\"scripted\",\"kind\":\"scripted\",\"base_url\":null,"
                 "\"model\":null,\"has_key\":false,\"needs_key\":false,\"default\":false}") !=
          NULL);
    buf_fini(&out);
    end();
}

TEST(the_list_says_what_is_wrong_with_a_key_that_is_kept)
{
    struct provider_wish wish = {.home = &home};
    struct buf out;
    struct jw w;
    load("[providers.s]\nkind = 'anthropic'\nbase_url = 'http://h'\nmodel = 'm'\n"
         "api_key_secret = 'NAME'\n");
    for (int set = 0; set < 2; set++) {
        buf_init(&out, SIZE_MAX);
        jw_init(&w, &out);
        providers_write_list(&w, config, &wish);
        const char *want = set ? "\"model\":\"m\",\"has_key\":true,"
                               : "\"model\":\"m\",\"key_error\":\"there is no secret 'NAME'\","
                                 "\"has_key\":false,";
        CHECK(strstr(buf_z(&out), want) != NULL);
        buf_fini(&out);
        CHECK_INT(secrets_set(home.secrets, "NAME", STR("sk-in-secrets"), &e), 0);
    }
    end();
}

TEST(a_model_of_a_provider_that_there_is_not_is_refused)
{
    load("[providers.corp]\nkind = 'anthropic'\nbase_url = 'http://h'\n");
    CHECK_INT(resolve(NULL, "corpp/x", NULL), ERR_NOT_FOUND);
    check_says("there is no provider 'corpp'; did you mean 'corp'?");
    CHECK_INT(resolve(NULL, "nosuch/x", NULL), ERR_NOT_FOUND); // nobody but the demo could know it
    check_says("there is no provider 'nosuch'");
    CHECK_INT(resolve("corp", "corpp/x", NULL), 0); // who was asked for knows what it has
    CHECK_STR(choice.model, "corpp/x");
    end();
}

// ---- a key that changes ---------------------------------------------------------------------

static void answer_new_key_only(struct web_conn *conn, const char *head)
{
    if (web_header(head, "Authorization: Bearer sk-new-0123456789")) {
        mock_stream(conn, mock_formats[0].hello);
    } else {
        mock_status(conn, 401, "", "{}");
    }
}

TEST(a_refused_key_is_read_again_once)
{
    mock_begin("openai-responses", answer_new_key_only, NULL);
    char *file = in_dir("key");
    mock.choice.key_file = xstrdup(file);
    CHECK_INT(path_write_atomic(file, STR("sk-secret-0123456789"), 0600, NULL), 0);
    mock_ask(NULL);
    CHECK_INT(mock.why.fault, PROVIDER_AUTH); // the same key again is not tried
    CHECK_INT(mock.web.requests, 1);
    CHECK_INT(path_write_atomic(file, STR("sk-new-0123456789\n"), 0600, NULL), 0);
    mock_ask(NULL);
    CHECK_INT(mock.dones, 1);
    CHECK_INT(mock.web.requests, 3);
    CHECK_INT(path_write_atomic(file, STR("sk-other-0123456789"), 0600, NULL), 0);
    mock_ask(NULL);
    CHECK_INT(mock.fails, 1);
    CHECK_INT(mock.web.requests, 5); // the new one is refused as well
    mock_end();
}

// ---- models ---------------------------------------------------------------------------------

static char listed[600];

static void on_models(const char *const *names, size_t n, const struct provider_error *why,
                      void *arg)
{
    CHECK(arg == &mock);
    snprintf(listed, sizeof listed, "%s", why != NULL ? why->message : "models:");
    for (size_t i = 0; i < n; i++) {
        strncat(listed, " ", sizeof listed - strlen(listed) - 1);
        strncat(listed, names[i], sizeof listed - strlen(listed) - 1);
    }
}

static const char *list_models(void)
{
    listed[0] = '\0';
    provider_models_get(mock.service, &mock.choice, on_models, &mock);
    while (listed[0] == '\0') {
        loop_run_once(&l, false);
    }
    return listed;
}

static int models_status;
static const char *models_body;

static void answer_models(struct web_conn *conn, const char *head)
{
    bool anthropic = strstr(head, "x-api-key") != NULL;
    CHECK(str_starts(str_of(head),
                     anthropic ? "GET /v1/models?limit=1000 HTTP" : "GET /models HTTP"));
    CHECK(strstr(head, "sk-secret-0123456789") != NULL);
    mock_status(conn, models_status, "", models_body);
}

TEST(models_are_listed_by_name)
{
    for (size_t i = 0; i < 3; i++) {
        mock_begin(mock_formats[i].kind, answer_models, NULL);
        models_status = 200;
        models_body = "{\"data\": [{\"id\": \"b\"}, {\"id\": \"a\"}, {\"id\": 7}, 3]}";
        CHECK_STR(list_models(), "models: a b");
        models_body = "{}";
        CHECK(strstr(list_models(), "no list of models") != NULL);
        models_status = 401;
        models_body = "{\"error\": {\"message\": \"bad key sk-secret-0123456789\"}}";
        CHECK_STR(list_models(), "'mock' answered with status 401: bad key [redacted mock]");
        struct provider_models *m =
            provider_models_get(mock.service, &mock.choice, on_models, &mock);
        provider_models_cancel(m);
        mock_end();
    }
    mock_begin("scripted", answer_models, NULL);
    CHECK_STR(list_models(), "models: m-1");
    provider_models_cancel(provider_models_get(mock.service, &mock.choice, on_models, &mock));
    mock_end();
}
