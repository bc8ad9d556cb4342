// What files may hold: types, ranges, unknown keys, tables with names, plugins; and the JSON.

#include "base/base.h"
#include "unit/config/fixture.h"

struct complaint {
    const char *text, *diag;
};

/// Load each text as the user's file and compare the first diagnostic.
static void check_complaints(const struct complaint *rows, size_t n, bool broken)
{
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < n; i++) {
        fixture_user(&f, rows[i].text);
        CHECK_STR(fixture_diag(&f, 0), rows[i].diag);
        CHECK_INT(f.diags.n, 1);
        CHECK_INT(f.diags.broken, broken);
    }
    fixture_fini(&f);
}

TEST(wrong_values_are_errors_with_line_and_column)
{
    static const struct complaint rows[] = {
        {"listen = 4700",
         "error 1:10 expected \"\", \"auto\" or ADDR:PORT for 'listen', found 4700"},
        {"\n  listen   =   'x'",
         "error 2:16 expected \"\", \"auto\" or ADDR:PORT for 'listen', found \"x\""},
        {"allowed_hosts = 'a'",
         "error 1:17 expected a list of strings for 'allowed_hosts', found \"a\""},
        {"allowed_hosts = ['a', 1]",
         "error 1:17 expected a list of strings for 'allowed_hosts', found array"},
        {"behind_proxy = 1", "error 1:16 expected true or false for 'behind_proxy', found 1"},
        {"profile = '../up'", "error 1:11 expected a name of letters, digits, '_', '-' and '.' for "
                              "'profile', found \"../up\""},
        {"profile = '..'", "error 1:11 expected a name of letters, digits, '_', '-' and '.' for "
                           "'profile', found \"..\""},
        {"profile = ''", "error 1:11 expected a name of letters, digits, '_', '-' and '.' for "
                         "'profile', found \"\""},
        {"profile = 2024-01-01", "error 1:11 expected a name of letters, digits, '_', '-' and '.' "
                                 "for 'profile', found local date"},
        {"[watch]\ndebounce_ms = 10001",
         "error 2:15 expected an integer from 0 to 10000 for 'watch.debounce_ms', found 10001"},
        {"[watch]\ndebounce_ms = -1",
         "error 2:15 expected an integer from 0 to 10000 for 'watch.debounce_ms', found -1"},
        {"[watch]\ndebounce_ms = 5.0",
         "error 2:15 expected an integer from 0 to 10000 for 'watch.debounce_ms', found float"},
        {"watch = 3", "error 1:9 expected a table for 'watch', found 3"},
        {"[[watch]]\npoll = true", "error 1:3 expected a table for 'watch', found array"},
        {"providers.work = 'x'", "error 1:18 expected a table for 'providers.work', found string"},
        {"[sandbox]\nmode = 'all'",
         "error 2:8 expected \"read-only\" or \"workspace-write\" or \"danger-full-access\" for "
         "'sandbox.mode', found \"all\""},
        {"[session]\nplugins = 'a'",
         "error 2:11 expected \"*\" or a list of strings for 'session.plugins', found \"a\""},
        {"[prices.'m.1']\ninput = -0.5",
         "error 2:9 expected a number from 0 to 1000000 for 'prices.\"m.1\".input', found float"},
        {"[prices.m]\ninput = nan",
         "error 2:9 expected a number from 0 to 1000000 for 'prices.m.input', found float"},
        {"[model]\nname = \"a\\u0000b\"",
         "error 2:8 expected a string for 'model.name', found \"a\""},
        {"plugins = 1",
         "error 1:11 expected an array of tables, [[plugins]] for 'plugins', found 1"},
        {"plugins = ['a']", "error 1:12 expected a table for 'plugins', found string"},
        {"[[plugins]]\nhot = true", "error 1:1 expected either 'path' or 'name' in [[plugins]]"},
        {"[[plugins]]\npath = 'a'\nname = 'b'",
         "error 1:1 expected either 'path' or 'name' in [[plugins]]"},
        {"[[plugins]]\npath = 'a'\nhot = 'always'",
         "error 3:7 expected true, false or \"manual\" for 'plugins[].hot', found \"always\""},
        {"[[plugins]]\npath = 'a'\noptions = 1",
         "error 3:11 expected a table for 'plugins[].options', found 1"},
        {"[providers.\"\"]\nkind = 'scripted'",
         "error 1:12 expected a name of 1 to 256 printable bytes in [providers]"},
        {"[prices.\"a\\u001bb\"]\ninput = 1",
         "error 1:9 expected a name of 1 to 256 printable bytes in [prices]"},
    };
    check_complaints(rows, ARRAY_LEN(rows), true);
}

TEST(unknown_keys_are_warnings_with_the_nearest_known_one)
{
    static const struct complaint rows[] = {
        {"[watch]\ndebounce = 5",
         "warning 2:1 unknown key 'debounce' in [watch], did you mean 'debounce_ms'?"},
        {"lisen = 'auto'", "warning 1:1 unknown key 'lisen', did you mean 'listen'?"},
        {"[wach]\npoll = true", "warning 1:2 unknown key 'wach', did you mean 'watch'?"},
        {"[providers.openai]\nkindd = 'x'",
         "warning 2:1 unknown key 'kindd' in [providers.openai], did you mean 'kind'?"},
        {"[[plugins]]\npath = 'a'\nenable = true",
         "warning 3:1 unknown key 'enable' in [plugins], did you mean 'enabled'?"},
        {"[[plugin]]\npath = 'a'", "warning 1:3 unknown key 'plugin', did you mean 'plugins'?"},
        {"zzzzzzzzzz = 1", "warning 1:1 unknown key 'zzzzzzzzzz'"},
        {"'plugins[]'.path = 'x'", "warning 1:1 unknown key 'plugins[]', did you mean 'plugins'?"},
        {"\"a\\u001b[2Jb\" = 1", "warning 1:1 unknown key 'a?[2Jb'"},
    };
    check_complaints(rows, ARRAY_LEN(rows), false);
}

TEST(an_address_with_a_password_is_refused_and_not_shown)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "[providers.work]\nkind = 'anthropic'\nbase_url = 'https://me:hunter2@h/v1'");
    CHECK_STR(fixture_diag(&f, 0), "error 3:12 expected an http:// or https:// address without a "
                                   "user name for 'providers.work.base_url', found string");
    fixture_fini(&f);
}

TEST(diagnostics_are_bounded)
{
    struct fixture f;
    fixture_init(&f);
    FILE *file = fopen(f.user_file, "w");
    CHECK(file != NULL);
    for (int i = 0; i < 5000; i++) {
        fprintf(file, "unknown-%d = 1\n", i);
    }
    fprintf(file, "listen = 3\n");
    CHECK(fclose(file) == 0);
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_INT(f.diags.n, 101);
    CHECK_STR(f.diags.p[100].message, "more problems are not listed");
    CHECK(f.diags.broken); // the error came after the last that is listed
    fixture_fini(&f);
}

/// A user's file with more problems than are listed, and then `last`.
static void load_many_problems(struct fixture *f, const char *last)
{
    struct buf text = {.max = SIZE_MAX};
    for (int i = 0; i < 200; i++) {
        buf_addf(&text, "unknown-%d = 1\n", i);
    }
    buf_addz(&text, last);
    fixture_user(f, buf_z(&text));
    buf_fini(&text);
}

TEST(a_problem_past_the_limit_still_lets_no_session_begin)
{
    struct fixture f;
    fixture_init(&f);
    load_many_problems(&f, "[sandbox]\nnetwrok = false\n");
    CHECK(config_diags_refusal(&f.diags) != NULL); // as it is when it is listed
    load_many_problems(&f, "listen = 3\n");
    CHECK(config_diags_refusal(&f.diags) == NULL);
    CHECK(f.diags.broken);
    config_diags_refuse(&f.diags);
    CHECK(config_diags_refusal(&f.diags) != NULL);
    fixture_fini(&f);
}

TEST(an_unknown_feature_is_a_warning_with_the_nearest)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "[features]\nplugns = false\n");
    CHECK_STR(fixture_diag(&f, 0),
              "warning 2:1 unknown key 'plugns' in [features], did you mean 'plugins'?");
    CHECK_STR(fixture_value(&f, "features.plugins"), "true");
    CHECK_STR(fixture_value(&f, "features.plugns"), "absent");
    fixture_fini(&f);
}

// ---- tables with names ------------------------------------------------------------------------

TEST(named_tables_are_found_by_name)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "[providers.work]\nkind = 'openai-chat'\nbase_url = 'http://127.0.0.1:1/v1'\n"
                     "[providers.openai]\napi_key_secret = 'MINE'\n"
                     "[prices.'gpt-5.1']\ninput = 1\noutput = 2.5\n");
    CHECK_INT(f.diags.n, 0);
    CHECK_STR(fixture_value(&f, "providers.work.kind"), "\"openai-chat\"");
    CHECK_STR(fixture_value(&f, "providers.openai.kind"), "\"openai-responses\"");
    CHECK_STR(fixture_value(&f, "providers.openai.api_key_secret"), "\"MINE\"");
    CHECK_STR(fixture_value(&f, "prices.\"gpt-5.1\".output"), "2.5");
    CHECK_STR(fixture_value(&f, "features.plugins"), "true");

    const struct config_entry *e = config_find_named(f.config, "prices.*.input", "gpt-5.1");
    CHECK(e != NULL && e->value->type == JSON_INT && e->value->i == 1);
    CHECK_STR(e->name, "gpt-5.1");
    CHECK(config_find_named(f.config, "prices.*.cached", "gpt-5.1") == NULL);
    CHECK(config_find_named(f.config, "prices.*.input", "gpt-5") == NULL);

    static const char *const names[] = {"anthropic", "openai", "scripted", "work"};
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_STR(config_next_name(f.config, "providers", &at), names[i]);
    }
    CHECK(config_next_name(f.config, "providers", &at) == NULL);
    at = 0;
    CHECK(config_next_name(f.config, "provider", &at) == NULL);
    fixture_fini(&f);
}

TEST(names_that_begin_alike_are_kept_apart)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "[prices.a]\ninput = 1\noutput = 1\n[prices.a-b]\ninput = 1\noutput = 1\n"
                     "[prices.'a.b']\ninput = 1\n[prices.a1]\ninput = 1\noutput = 1\n"
                     "[prices.a10]\ninput = 1\noutput = 1\n[prices.a2]\ninput=1\n");
    size_t at = 0, n = 0;
    while (config_next_name(f.config, "prices", &at) != NULL) {
        n++;
    }
    CHECK_INT(n, 6);
    fixture_fini(&f);
}

TEST(a_provider_without_a_kind_is_a_warning)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "\n[providers.work]\nbase_url = 'https://h'");
    CHECK_STR(fixture_diag(&f, 0), "warning 3:1 provider 'work' has no 'kind'");
    fixture_fini(&f);
}

TEST(a_public_url_without_a_proxy_is_a_warning)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "public_url = 'https://h'");
    CHECK_STR(fixture_diag(&f, 0), "warning 1:1 'public_url' has no effect without a proxy");
    fixture_user(&f, "public_url = 'https://h'\nbehind_proxy = true");
    CHECK_INT(f.diags.n, 0);
    fixture_fini(&f);
}

TEST(plugins_of_all_layers_add_up_with_their_defaults)
{
    struct fixture f;
    fixture_init(&f);
    fixture_write(f.system, "[[plugins]]\nname = 'one'\n[[policy.plugins]]\nname = 'four'\n"
                            "required = true");
    fixture_write(f.project_file, "[[plugins]]\npath = 'p'\nhot = 'manual'");
    fixture_user(&f, "\n[[plugins]]\npath = 'two'\nprefer = ['t']\n[plugins.options]\n"
                     "at = 2024-01-01\ndeep = {x = [1, {y = true}]}\n");
    CHECK_INT(f.diags.n, 0);
    CHECK_STR(fixture_value(&f, "plugins.0"), "{\"name\":\"one\",\"hot\":true,\"enabled\":true,"
                                              "\"required\":false,\"prefer\":[]}");
    CHECK_STR(
        fixture_value(&f, "plugins.1"),
        "{\"path\":\"two\",\"hot\":true,\"enabled\":true,\"required\":false,\"prefer\":[\"t\"],"
        "\"options\":{\"at\":\"2024-01-01\",\"deep\":{\"x\":[1,{\"y\":true}]}}}");
    CHECK_STR(fixture_value(&f, "plugins.2"), "{\"path\":\"p\",\"hot\":\"manual\",\"enabled\":true,"
                                              "\"required\":false,\"prefer\":[]}");
    CHECK_STR(fixture_value(&f, "plugins.3"), "{\"name\":\"four\",\"hot\":true,\"enabled\":true,"
                                              "\"required\":true,\"prefer\":[]}");
    CHECK_STR(fixture_value(&f, "plugins.4"), "absent");
    CHECK_INT(config_find(f.config, "plugins.1")->line, 2);
    CHECK_INT(config_find(f.config, "plugins.2")->origin, CONFIG_PROJECT);
    CHECK_INT(config_find(f.config, "plugins.3")->origin, CONFIG_POLICY);
    fixture_fini(&f);
}

TEST(session_plugins_are_all_or_a_list)
{
    struct fixture f;
    fixture_init(&f);
    fixture_user(&f, "");
    CHECK(config_strings(f.config, "session.plugins") == NULL);
    fixture_user(&f, "[session]\nplugins = []");
    const char *const *list = config_strings(f.config, "session.plugins");
    CHECK(list != NULL && str_count(list) == 0);
    fixture_user(&f, "[session]\nplugins = ['a', 'b']");
    list = config_strings(f.config, "session.plugins");
    CHECK_INT(str_count(list), 2);
    CHECK_STR(list[1], "b");
    fixture_fini(&f);
}

// ---- JSON -----------------------------------------------------------------------------------

static struct json *write_and_parse(const struct fixture *f, struct arena *a, struct buf *b)
{
    struct json *doc;
    struct jw w;
    buf_init(b, 1 << 20);
    *a = (struct arena){0};
    jw_init(&w, b);
    config_write_json(f->config, &f->diags, &w);
    CHECK(buf_ok(b));
    CHECK_INT(json_parse(&doc, a, buf_str(b), NULL, NULL), 0);
    return doc;
}

TEST(the_json_has_every_setting_in_order_with_its_origin)
{
    struct fixture f;
    struct arena a;
    struct buf b;
    fixture_init(&f);
    fixture_user(&f, "[watch]\npoll = true\npol = 1");
    struct json *doc = write_and_parse(&f, &a, &b);
    const struct json *values = json_get(doc, "values");
    CHECK(values != NULL && values->n > 30);
    bool seen = false;
    struct str last = STR("");
    json_foreach_item (it, values) {
        struct str key = json_str(json_get(it, "key"), NULL);
        CHECK(str_cmp(last, key) < 0);
        last = key;
        if (str_eqz(key, "watch.poll")) {
            seen = true;
            CHECK(json_bool(json_get(it, "value"), false));
            CHECK_SPAN(json_str(json_get(it, "origin"), NULL), "user");
            CHECK_SPAN(json_str(json_get(it, "path"), NULL), f.user_file);
            CHECK_INT(json_int(json_get(it, "line"), 0), 2);
        }
    }
    CHECK(seen);
    const struct json *diag = json_ptr(doc, "/diagnostics/0");
    CHECK_SPAN(json_str(json_get(diag, "severity"), NULL), "warning");
    CHECK_INT(json_int(json_get(diag, "line"), 0), 3);
    CHECK_INT(json_int(json_get(diag, "col"), 0), 1);
    arena_fini(&a);
    buf_fini(&b);
    fixture_fini(&f);
}

TEST(options_that_look_secret_are_redacted)
{
    struct fixture f;
    struct arena a;
    struct buf b;
    fixture_init(&f);
    fixture_user(&f, "[[plugins]]\npath = 'p'\n[plugins.options]\nApi_Key = 'hunter2'\n"
                     "plain = 'shown'\nlist = [{password = 'hunter3'}]\ntoken = {a = 'hunter4'}\n"
                     "[mcp.m]\ncommand = 'x'\n[mcp.m.env]\nDB_PASSWD = 'hunter5'\n"
                     "PASSPHRASE = 'hunter6'\nCREDENTIALS = 'hunter7'\n"
                     "[mcp.n]\nurl = 'http://x'\n[mcp.n.headers]\nCookie = 'hunter8'\n");
    write_and_parse(&f, &a, &b);
    CHECK(strstr(buf_z(&b), "hunter") == NULL);
    CHECK(strstr(buf_z(&b), "shown") != NULL);
    CHECK(strstr(buf_z(&b), "[redacted]") != NULL);
    arena_fini(&a);
    buf_fini(&b);
    fixture_fini(&f);
}

TEST(passwords_in_urls_are_redacted)
{
    struct fixture f;
    struct arena a;
    struct buf b;
    fixture_init(&f);
    fixture_user(
        &f, "[store]\nurl = 'postgresql://me:hunter1@db/x?sslmode=require&password=hunter2&a=1'\n"
            "[mcp.m]\ncommand = 'x'\nargs = ['postgresql://me:hunter3@[::1]:5432/x', "
            "'http://a/b:c@d']\n"
            "[mcp.n]\nurl = 'http://x/?api_key=hunter4'\n");
    write_and_parse(&f, &a, &b);
    CHECK(strstr(buf_z(&b), "hunter") == NULL);
    CHECK(strstr(buf_z(&b),
                 "postgresql://me:[redacted]@db/x?sslmode=require&password=[redacted]&a=1") !=
          NULL);
    CHECK(strstr(buf_z(&b), "postgresql://me:[redacted]@[::1]:5432/x") != NULL);
    CHECK(strstr(buf_z(&b), "http://a/b:c@d") != NULL);
    CHECK(strstr(buf_z(&b), "http://x/?api_key=[redacted]") != NULL);
    arena_fini(&a);
    buf_fini(&b);
    fixture_fini(&f);
}

TEST(plugins_sort_by_number)
{
    struct fixture f;
    struct buf text;
    fixture_init(&f);
    buf_init(&text, 10000);
    for (int i = 0; i < 12; i++) {
        buf_addz(&text, "[[plugins]]\nname = 'p'\n");
    }
    fixture_user(&f, buf_z(&text));
    const struct config_entry *e;
    int next = 0;
    for (size_t at = 0; (e = config_next(f.config, &at)) != NULL;) {
        if (strncmp(e->key, "plugins.", 8) == 0) {
            CHECK_INT(atoi(e->key + 8), next++);
        }
    }
    CHECK_INT(next, 12);
    buf_fini(&text);
    fixture_fini(&f);
}
