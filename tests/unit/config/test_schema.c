// keys.def itself, and the grammar of `listen`.

#include "config/config.h"
#include "config/schema_int.h"
#include "unit/config/fixture.h"

TEST(every_default_is_a_value_of_its_key)
{
    struct arena a = {0};
    for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
        struct json v;
        if (k->fallback != NULL && !schema__parse(k, str_of(k->fallback), &a, &v)) {
            test_fail(__FILE__, __LINE__, "default of %s", k->pattern);
        }
        if (k->project == SCHEMA_NARROW) {
            CHECK(k->type == SCHEMA_BOOL || k->type == SCHEMA_ENUM);
        }
        if (k->project == SCHEMA_ADD) {
            CHECK(k->type == SCHEMA_STRINGS && k->fallback != NULL);
        }
    }
    arena_fini(&a);
}

TEST(every_variable_sets_a_known_key)
{
    for (const struct schema__variable *v = schema__variables; v->name != NULL; v++) {
        CHECK(schema__find(str_of(v->key)) != NULL);
    }
}

TEST(the_defaults_are_those_of_the_contract)
{
    static const struct {
        const char *key, *json;
    } rows[] = {
        {"listen", "\"\""},
        {"allowed_hosts", "[]"},
        {"public_url", "\"\""},
        {"behind_proxy", "false"},
        {"profile", "\"default\""},
        {"features.plugins", "true"},
        {"session.plugins", "\"*\""},
        {"session.permission", "\"auto\""},
        {"sandbox.mode", "\"workspace-write\""},
        {"sandbox.network", "false"},
        {"sandbox.writable", "[]"},
        {"watch.debounce_ms", "5"},
        {"watch.poll_ms", "2000"},
        {"watch.poll", "false"},
        {"shell.marker", "true"},
        {"limits.lua_ms", "200"},
        {"limits.load_ms", "500"},
        {"limits.hook_ms", "1000"},
        {"limits.start_ms", "2000"},
        {"limits.tool_ms", "30000"},
        {"limits.memory_mb", "64"},
        {"tool_env.drop", "[\"*KEY*\",\"*SECRET*\",\"*TOKEN*\",\"*PASSWORD*\",\"LD_*\"]"},
        {"providers.scripted.kind", "\"scripted\""},
    };
    static const char *const hidden[] = {"~/.ssh", "~/.gnupg", "~/.aws", "~/.kube", "~/.netrc"};
    struct fixture f;
    fixture_init(&f);
    CHECK_INT(fixture_load(&f, NULL, NULL), 0);
    CHECK_INT(f.diags.n, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(fixture_value(&f, rows[i].key), rows[i].json);
    }
    const char *const *hide = config_strings(f.config, "sandbox.hide");
    for (size_t i = 0; i < ARRAY_LEN(hidden); i++) {
        bool there = false;
        for (size_t j = 0; hide[j] != NULL; j++) {
            there = there || strcmp(hide[j], hidden[i]) == 0;
        }
        CHECK(there);
    }
    fixture_fini(&f);
}

TEST(listen_takes_addresses_with_ports_and_nothing_else)
{
    static const char *const good[] = {
        "",         "auto",   "127.0.0.1:0",    "127.0.0.1:4700", "0.0.0.0:65535",
        "[::1]:80", "[::]:0", "localhost:4700", "[fe80::1]:1",    "[::ffff:1.2.3.4]:5",
    };
    static const char *const bad[] = {
        " ",
        "Auto",
        "4700",
        ":4700",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:-1",
        "1.2.3:4",
        "127.0.0.1:65536",
        "127.0.0.1:4700 ",
        "127.0.0.1:+1",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[]:80",
        "[127.0.0.1]:80",
        "example.org:80",
        "localhost",
        "localhost:x",
        "*:80",
        "127.0.0.1:0x50",
        "256.0.0.1:80",
        "[::1]:99999",
        "[fe80::1%eth0]:80",
        "127.0.0.1:000080",
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        if (!config_listen_valid(str_of(good[i]))) {
            test_fail(__FILE__, __LINE__, "'%s' was refused", good[i]);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (config_listen_valid(str_of(bad[i]))) {
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        }
    }
    CHECK(!config_listen_valid((struct str){"127.0.0.1\0:80", 13}));
}
