#include "plugin/manifest.h"
#include "unit/test.h"

// Trees are built by hand: a list of names and texts, sorted by name.

static struct arena mem; // reachable until the test's process ends
static struct gen_diag fault;
static struct plugin_shape shape;

struct file {
    const char *path, *text;
};

static int by_path(const void *a, const void *b)
{
    const struct tree_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static int resolve_in(const char *path, bool built, const struct file *files, size_t n)
{
    static struct tree t;
    t = (struct tree){.is_file = n == 1 && strchr(files[0].path, '/') == NULL &&
                                 str_ends(str_of(path), files[0].path)};
    t.files.p = arena_calloc(&mem, n, sizeof *t.files.p);
    for (t.files.n = 0; t.files.n < n; t.files.n++) {
        const struct file *f = &files[t.files.n];
        t.files.p[t.files.n] = (struct tree_file){f->path, str_of(f->text), false};
    }
    qsort(t.files.p, t.files.n, sizeof *t.files.p, by_path);
    fault = (struct gen_diag){.code = DIAG_NONE};
    memset(&shape, 0xa5, sizeof shape); // nothing of what it held may count
    return manifest_resolve(&shape, &mem, &t, path, built, &fault);
}

#define FILES(...) ((struct file[]){__VA_ARGS__})
#define RESOLVE(path, built, ...)                                                                  \
    resolve_in(path, built, FILES(__VA_ARGS__), ARRAY_LEN(FILES(__VA_ARGS__)))
#define LUA                                                                                        \
    {                                                                                              \
        "init.lua", "return {}"                                                                    \
    }

/// A directory with init.lua and that plugin.json.
static int manifest(const char *text)
{
    return RESOLVE("/p/thing", false, LUA, {"plugin.json", text});
}

static void check_fault(enum gen_code code, const char *path, int line, const char *message)
{
    CHECK(fault.code != DIAG_NONE);
    CHECK_STR(gen_code_name(fault.code), gen_code_name(code));
    CHECK_STR(fault.path, path);
    CHECK_INT(fault.line, line);
    CHECK_STR(fault.message, message);
}

static const char *text_of(const struct json *v)
{
    struct buf b;
    buf_init(&b, 4096);
    json_write(&b, v, 0);
    const char *text = arena_strdup(&mem, buf_str(&b));
    buf_fini(&b);
    return text;
}

// ---- conventions ----------------------------------------------------------------------------

TEST(a_directory_without_a_manifest_is_found_by_convention)
{
    CHECK_INT(RESOLVE("/p/thing", false, LUA, {"front/index.tsx", ""}, {"ui/layout.lua", ""},
                      {"skills/a.md", ""}, {"prompt.md", ""}),
              0);
    CHECK_STR(shape.name, "thing");
    CHECK_STR(shape.origin, "directory");
    CHECK_STR(shape.api, "1.0");
    CHECK(shape.version == NULL && shape.description == NULL);
    CHECK_INT(shape.lang, LANG_LUA);
    CHECK_STR(shape.server, "init.lua");
    CHECK_STR(shape.front, "front/index.tsx");
    CHECK_STR(shape.ui, "ui");
    CHECK_STR(shape.skills, "skills");
    CHECK_STR(shape.prompt, "prompt.md");
    CHECK(shape.options == NULL && shape.permissions == NULL && shape.n_warnings == 0);
    CHECK_STR(text_of(shape.metadata), "{\"api\":\"1.0\",\"name\":\"thing\"}");
}

TEST(the_server_side_is_looked_for_in_the_order_of_languages)
{
    CHECK_INT(RESOLVE("/p/x", false, {"init.c", ""}, {"init.mjs", ""}, {"init.py", ""}, LUA), 0);
    CHECK_STR(shape.server, "init.lua");
    CHECK_INT(RESOLVE("/p/x", false, {"init.c", ""}, {"init.mjs", ""}, {"init.py", ""}), 0);
    CHECK_STR(shape.server, "init.py");
    CHECK_INT(shape.lang, LANG_PYTHON);
    CHECK_INT(RESOLVE("/p/x", false, {"init.c", ""}, {"init.mjs", ""}), 0);
    CHECK_STR(shape.server, "init.mjs");
    CHECK_INT(shape.lang, LANG_NODE);
    CHECK_INT(RESOLVE("/p/x", false, {"init.c", ""}, {"other.lua", ""}), 0);
    CHECK_STR(shape.server, "init.c");
    CHECK_INT(shape.lang, LANG_C);
}

TEST(the_front_is_source_first_and_built_only_where_there_is_nothing_else)
{
    CHECK_INT(RESOLVE("/p/x", false, {"front/index.js", ""}, {"dist/front/index.js", ""}), 0);
    CHECK_STR(shape.front, "front/index.js");
    CHECK_INT(RESOLVE("/p/x", false, {"x", ""}, {"dist/front/index.js", ""}), 0);
    CHECK_STR(shape.front, "dist/front/index.js");
    CHECK(shape.server == NULL);
    CHECK_INT(shape.lang, LANG_NONE);
}

TEST(what_is_fixed_comes_from_dist_first)
{
    CHECK_INT(RESOLVE("/p/x", true, LUA, {"dist/init.py", ""}, {"dist/front/index.js", ""},
                      {"front/index.tsx", ""}, {"ui/a.lua", ""}, {"dist/ui/a.lua", ""},
                      {"dist/prompt.md", ""}),
              0);
    CHECK_STR(shape.server, "dist/init.py");
    CHECK_INT(shape.lang, LANG_PYTHON);
    CHECK_STR(shape.front, "dist/front/index.js");
    CHECK_STR(shape.ui, "dist/ui");
    CHECK(shape.prompt == NULL); // text is not built
    CHECK_INT(RESOLVE("/p/x", true, LUA, {"front/index.tsx", ""}), 0);
    CHECK_STR(shape.server, "init.lua");
    CHECK_STR(shape.front, "front/index.tsx");
}

TEST(what_is_hot_comes_from_the_source)
{
    CHECK_INT(RESOLVE("/p/x", false, LUA, {"dist/init.lua", ""}), 0);
    CHECK_STR(shape.server, "init.lua");
}

TEST(a_declared_part_has_its_built_twin_too)
{
    const char *m = "{\"server\":\"src/main.lua\",\"front\":\"web/app.tsx\"}";
    CHECK_INT(RESOLVE("/p/x", true, {"plugin.json", m}, {"src/main.lua", ""}, {"web/app.tsx", ""},
                      {"dist/src/main.lua", ""}, {"dist/web/app.js", ""}),
              0);
    CHECK_STR(shape.server, "dist/src/main.lua");
    CHECK_STR(shape.front, "dist/web/app.js");
}

TEST(a_directory_with_nothing_in_it_is_no_plugin)
{
    CHECK_INT(RESOLVE("/p/thing", false, {"README.md", ""}), ERR_NOT_FOUND);
    check_fault(DIAG_ENTRY_MISSING, "/p/thing", 0, "there is nothing to load");
    CHECK_STR(shape.name, "thing");
    CHECK_INT(RESOLVE("/p/thing", false, {"plugin.json", "{}"}), ERR_NOT_FOUND);
    check_fault(DIAG_ENTRY_MISSING, "/p/thing/plugin.json", 0, "there is nothing to load");
}

// ---- single files ---------------------------------------------------------------------------

TEST(a_single_file_is_named_by_its_stem)
{
    static const struct {
        const char *path, *file;
        enum plugin_lang lang;
    } rows[] = {
        {"/p/one.lua", "one.lua", LANG_LUA},  {"/p/one.py", "one.py", LANG_PYTHON},
        {"/p/one.mjs", "one.mjs", LANG_NODE}, {"/p/one.js", "one.js", LANG_NODE},
        {"/p/one.c", "one.c", LANG_C},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(RESOLVE(rows[i].path, true, {rows[i].file, ""}), 0);
        CHECK_STR(shape.name, "one");
        CHECK_STR(shape.origin, "file");
        CHECK_STR(shape.server, rows[i].file);
        CHECK_INT(shape.lang, rows[i].lang);
        CHECK_STR(text_of(shape.metadata), "{\"api\":\"1.0\",\"name\":\"one\"}");
    }
}

TEST(a_single_file_of_no_language_or_with_a_bad_name_is_refused)
{
    CHECK_INT(RESOLVE("/p/notes", false, {"notes", ""}), ERR_NOT_FOUND);
    check_fault(DIAG_ENTRY_MISSING, "/p/notes", 0,
                "a single file must be of a known language (.lua .py .mjs .js .ts .c)");
    CHECK_STR(shape.name, "notes");
    CHECK_STR(fault.origin, "file");
    CHECK_INT(RESOLVE("/p/My Tool.lua", false, {"My Tool.lua", ""}), ERR_INVALID);
    check_fault(DIAG_NAME_INVALID, "/p/My Tool.lua", 0, "'My Tool' cannot be the name of a plugin");
    CHECK_STR(shape.name, "My Tool");
}

// ---- manifests ------------------------------------------------------------------------------

TEST(a_manifest_says_everything)
{
    CHECK_INT(RESOLVE("/p/thing", false,
                      {"plugin.json",
                       "{\"name\":\"other\",\"version\":\"1.2.0-rc.1\",\"description\":\"d\","
                       "\"api\":\"1.3\",\"server\":\"./src//main.py\",\"front\":\"f.js\","
                       "\"ui\":\"tui/\",\"prompt\":\"p.txt\",\"skills\":\"know/how\","
                       "\"options\":{\"type\":\"object\"},\"permissions\":[\"secret:KEY\"],"
                       "\"$schema\":\"x\",\"author\":{}}"},
                      {"src/main.py", ""}, {"f.js", ""}, {"tui/layout.lua", ""}, {"p.txt", ""},
                      {"know/how/a.md", ""}, LUA, {"prompt.md", ""}),
              0);
    CHECK_STR(shape.name, "other");
    CHECK_STR(shape.version, "1.2.0-rc.1");
    CHECK_STR(shape.description, "d");
    CHECK_STR(shape.api, "1.3");
    CHECK_STR(shape.server, "src/main.py");
    CHECK_INT(shape.lang, LANG_PYTHON);
    CHECK_STR(shape.front, "f.js");
    CHECK_STR(shape.ui, "tui");
    CHECK_STR(shape.prompt, "p.txt");
    CHECK_STR(shape.skills, "know/how");
    CHECK_STR(text_of(shape.options), "{\"type\":\"object\"}");
    CHECK_STR(text_of(shape.permissions), "[\"secret:KEY\"]");
    CHECK_INT(shape.n_warnings, 0);
    CHECK_STR(text_of(shape.metadata), "{\"api\":\"1.3\",\"name\":\"other\",\"version\":"
                                       "\"1.2.0-rc.1\",\"description\":\"d\"}");
}

TEST(conventions_count_only_where_the_manifest_is_silent)
{
    CHECK_INT(RESOLVE("/p/x", false, {"plugin.json", "{\"server\":\"a.lua\",\"ui\":false}"},
                      {"a.lua", ""}, LUA, {"ui/a.lua", ""}, {"skills/s.md", ""}),
              0);
    CHECK_STR(shape.server, "a.lua");
    CHECK(shape.ui == NULL);
    CHECK_STR(shape.skills, "skills");
    CHECK_INT(RESOLVE("/p/x", false, {"plugin.json", "{\"server\":false}"}, LUA, {"prompt.md", ""}),
              0);
    CHECK(shape.server == NULL);
    CHECK_INT(shape.lang, LANG_NONE);
}

TEST(declared_but_missing_is_an_error_and_never_a_fallback)
{
    static const struct {
        const char *key, *source;
    } rows[] = {{"server", "server"},
                {"front", "front"},
                {"ui", "ui"},
                {"prompt", "server"},
                {"skills", "server"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[80], message[80];
        snprintf(text, sizeof text, "{\n  \"api\": \"1\",\n  \"%s\": \"gone.lua\"\n}", rows[i].key);
        snprintf(message, sizeof message, "%s: 'gone.lua' is not there", rows[i].key);
        CHECK_INT(RESOLVE("/p/thing", false, {"plugin.json", text}, LUA, {"front/index.js", ""},
                          {"ui/a.lua", ""}, {"prompt.md", ""}, {"skills/a.md", ""}),
                  ERR_NOT_FOUND);
        check_fault(DIAG_ENTRY_MISSING, "/p/thing/plugin.json", 3, message);
        CHECK_STR(fault.source, rows[i].source);
        CHECK_STR(fault.origin, "directory");
        CHECK_STR(shape.name, "thing");
    }
    CHECK_INT(RESOLVE("/p/x", false, {"plugin.json", "{\"server\":\"src\"}"}, {"src/a.lua", ""}),
              ERR_NOT_FOUND);
    check_fault(DIAG_ENTRY_MISSING, "/p/x/plugin.json", 1, "server: 'src' is a directory");
    CHECK_INT(RESOLVE("/p/x", false, {"plugin.json", "{\"ui\":\"a.lua\"}"}, {"a.lua", ""}),
              ERR_NOT_FOUND);
    CHECK_INT(RESOLVE("/p/x", false, {"plugin.json", "{\"ui\":\"u\"}"}, {"uu/a.lua", ""}),
              ERR_NOT_FOUND);
}

TEST(a_path_that_leads_out_of_the_plugin_is_refused)
{
    static const char *const paths[] = {"../init.lua",
                                        "a/../../init.lua",
                                        "a/../init.lua",
                                        "/etc/passwd",
                                        "a\\\\init.lua",
                                        "init.lua\\u0000.png",
                                        "..",
                                        "./../x"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char text[80];
        snprintf(text, sizeof text, "{\n\"server\":\n\"%s\"}", paths[i]);
        CHECK_INT(manifest(text), ERR_DENIED);
        CHECK_STR(gen_code_name(fault.code), "PATH_ESCAPE");
        CHECK_STR(fault.path, "/p/thing/plugin.json");
        CHECK_INT(fault.line, 2);
        CHECK(shape.server == NULL);
    }
    CHECK_INT(manifest("{\"skills\":\"..\"}"), ERR_DENIED);
    check_fault(DIAG_PATH_ESCAPE, "/p/thing/plugin.json", 1,
                "skills: '..' leads out of the plugin");
    CHECK_INT(manifest("{\"server\":\"./init.lua\"}"), 0);
    CHECK_INT(
        RESOLVE("/p/x", false, {"plugin.json", "{\"server\":\"..a/b..lua\"}"}, {"..a/b..lua", ""}),
        0);
}

TEST(a_name_is_checked_where_it_is_said)
{
    static const char *const bad[] = {"", "1a", "A", "a b", "a/b", "a.b", "..", "\xc3\xa9", "-a"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[80], message[80];
        snprintf(text, sizeof text, "{\n\n\"name\": \"%s\"}", bad[i]);
        snprintf(message, sizeof message, "name: '%s' cannot be the name of a plugin", bad[i]);
        CHECK_INT(manifest(text), ERR_INVALID);
        check_fault(DIAG_NAME_INVALID, "/p/thing/plugin.json", 3, message);
        CHECK(fault.hint != NULL);
        CHECK_STR(shape.name, "thing"); // a bad name is never shown as one
    }
    CHECK_INT(RESOLVE("/p/My Plugin", false, LUA), ERR_INVALID);
    check_fault(DIAG_NAME_INVALID, "/p/My Plugin", 0, "'My Plugin' cannot be the name of a plugin");
    CHECK_INT(RESOLVE("/p/My Plugin", false, LUA, {"plugin.json", "{\"name\":\"mine\"}"}), 0);
    CHECK_STR(shape.name, "mine");
}

TEST(names_have_one_rule)
{
    char name[70];
    memset(name, 'a', sizeof name);
    CHECK(plugin_name_valid((struct str){name, 64}));
    CHECK(!plugin_name_valid((struct str){name, 65}));
    CHECK(plugin_name_valid(STR("a-b_9")));
    CHECK(!plugin_name_valid(STR("")) && !plugin_name_valid(STR("_a")));
    CHECK(!plugin_name_valid(STR("a\0b")));
}

TEST(an_api_that_we_do_not_speak_is_refused_in_the_words_of_the_contract)
{
    static const char *const good[] = {"1", "1.0", "1.7", "1.42"};
    static const char *const bad[] = {"2",     "2.0", "0.9", "1.", "1.x",
                                      "1.0.0", "",    "10",  "v1", "1.-1"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CHECK_INT(plugin_api_check(str_of(good[i]), NULL), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[60], message[80];
        snprintf(text, sizeof text, "{\n\"api\":\"%s\"}", bad[i]);
        snprintf(message, sizeof message, "Incompatible plugin API version: %s (expected 1.0)",
                 bad[i]);
        CHECK_INT(manifest(text), ERR_UNSUPPORTED);
        check_fault(DIAG_API_INCOMPATIBLE, "/p/thing/plugin.json", 2, message);
    }
}

TEST(a_manifest_that_is_not_json_says_line_and_column)
{
    CHECK_INT(manifest("{\n  \"name\": \"a\",\n  oops\n}"), ERR_INVALID);
    CHECK_STR(gen_code_name(fault.code), "MANIFEST_INVALID");
    CHECK_STR(fault.path, "/p/thing/plugin.json");
    CHECK_INT(fault.line, 3);
    CHECK(strstr(fault.message, "line 3, column 3: ") == fault.message);
    CHECK_STR(shape.name, "thing");
    CHECK_INT(manifest(""), ERR_INVALID);
    CHECK_INT(fault.line, 1);
    CHECK_INT(manifest("{\"name\":\"a\",\n\"name\":\"b\"}"), ERR_INVALID);
    CHECK_INT(fault.line, 2);
    CHECK_INT(manifest("[]"), ERR_INVALID);
    check_fault(DIAG_MANIFEST_INVALID, "/p/thing/plugin.json", 1, "must be an object, is array");
}

TEST(a_member_of_the_wrong_kind_is_named_with_its_line)
{
    static const struct {
        const char *member, *message;
    } rows[] = {
        {"\"name\":1", "name: must be a text, is integer"},
        {"\"name\":\"a\\u0000\"", "name: must be a text, is one with NUL"},
        {"\"version\":1.0", "version: must be a text, is number"},
        {"\"version\":\"latest\"", "version: 'latest' is not a version, write it like 1.2.0"},
        {"\"version\":\"1.0 beta\"", "version: '1.0 beta' is not a version, write it like 1.2.0"},
        {"\"description\":[]", "description: must be a text, is array"},
        {"\"api\":1.0", "api: must be a string like \"1.0\", is number"},
        {"\"server\":true", "server: must be a path or false, is boolean"},
        {"\"server\":\"\"", "server: must be a path or false, is string"},
        {"\"skills\":null", "skills: must be a path or false, is null"},
        {"\"server\":\"prompt.md\"",
         "server: 'prompt.md' is of no known language (.lua .py .mjs .js .ts .c)"},
        {"\"options\":[]", "options: must be an object, is an array"},
        {"\"options\":{\"properties\":{\"n\":{\"type\":\"int\"}}}",
         "options: properties.n: unknown type 'int' (did you mean 'integer'?)"},
        {"\"permissions\":\"all\"", "permissions: must be an array of strings, is string"},
        {"\"permissions\":[1]", "permissions: must be an array of strings, is array"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\n  \"license\": \"x\",\n\n  %s\n}", rows[i].member);
        CHECK_INT(RESOLVE("/p/thing", false, LUA, {"plugin.json", text}, {"prompt.md", ""}),
                  ERR_INVALID);
        check_fault(DIAG_MANIFEST_INVALID, "/p/thing/plugin.json", 4, rows[i].message);
    }
}

TEST(the_line_is_that_of_the_key_and_not_of_its_namesakes)
{
    CHECK_INT(
        manifest("{\"license\": \"server\",\n\"author\": {\"server\": 1, \"x\": [\"server\"]},\n"
                 "\"homepage\": \"\\\"{[\",\n\"server\" \t\r\n : \"gone.lua\"}"),
        ERR_NOT_FOUND);
    CHECK_INT(fault.line, 4);
}

TEST(an_unknown_member_is_a_warning_with_the_nearest_known_one)
{
    CHECK_INT(manifest("{\n\"name\":\"a\",\n\"sever\":\"x.lua\",\n\"zzzzzz\":1}"), 0);
    CHECK_INT(shape.n_warnings, 2);
    CHECK_STR(shape.warnings[0].path, "/p/thing/plugin.json");
    CHECK_INT(shape.warnings[0].line, 3);
    CHECK_STR(shape.warnings[0].message, "unknown member 'sever', did you mean 'server'?");
    CHECK_INT(shape.warnings[1].line, 4);
    CHECK_STR(shape.warnings[1].message, "unknown member 'zzzzzz'");
}

TEST(a_manifest_full_of_unknown_members_warns_a_few_times)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_addc(&b, '{');
    for (int i = 0; i < 2000; i++) {
        buf_addf(&b, "\"member%d\":0,\n", i);
    }
    buf_addz(&b, "\"name\":\"a\"}");
    CHECK_INT(manifest(buf_z(&b)), 0);
    CHECK_INT(shape.n_warnings, 32);
    buf_fini(&b);
}

// ---- package.json ---------------------------------------------------------------------------

TEST(a_package_is_a_manifest_when_it_has_our_member)
{
    CHECK_INT(RESOLVE("/p/thing", false, LUA, {"a.lua", ""},
                      {"package.json", "{\"name\":\"@acme/pack\",\"version\":\"2.0.0\","
                                       "\"description\":\"of the package\",\"main\":\"x.js\","
                                       "\"afloat\":{\"server\":\"a.lua\"}}"}),
              0);
    CHECK_STR(shape.name, "pack");
    CHECK_STR(shape.version, "2.0.0");
    CHECK_STR(shape.description, "of the package");
    CHECK_STR(shape.server, "a.lua");
    CHECK_INT(shape.n_warnings, 0);
    CHECK_INT(RESOLVE("/p/thing", false, LUA,
                      {"package.json", "{\"name\":\"pack\",\"version\":\"2.0.0\",\"afloat\":"
                                       "{\"name\":\"mine\",\"version\":\"3\"}}"}),
              0);
    CHECK_STR(shape.name, "mine");
    CHECK_STR(shape.version, "3");
}

TEST(a_package_without_our_member_is_no_manifest)
{
    CHECK_INT(RESOLVE("/p/thing", false, LUA, {"package.json", "{\"name\":\"BAD NAME\"}"}), 0);
    CHECK_STR(shape.name, "thing");
    CHECK(shape.version == NULL);
}

TEST(of_two_manifests_plugin_json_counts_and_the_other_is_not_read)
{
    CHECK_INT(RESOLVE("/p/thing", false, LUA, {"plugin.json", "{\"name\":\"first\"}"},
                      {"package.json", "{\"afloat\":{\"name\":\"second\",\"api\":\"9\"},"}),
              0);
    CHECK_STR(shape.name, "first");
}

TEST(faults_of_a_package_have_the_lines_of_the_package)
{
    static const struct {
        const char *text, *message;
        enum gen_code code;
        int line;
    } rows[] = {
        {"{\"server\":1,\n\"afloat\":\n{\n\"server\":\"gone.lua\"}}",
         "server: 'gone.lua' is not there", DIAG_ENTRY_MISSING, 4},
        {"{\"afloat\":{},\n\"x\":{\"name\":1},\n\"name\":\"NO\"}",
         "name: 'NO' cannot be the name of a plugin", DIAG_NAME_INVALID, 3},
        {"{\n\"afloat\":true}", "afloat: must be an object, is boolean", DIAG_MANIFEST_INVALID, 2},
        {"{\"afloat\":{},\n\"version\":\"x\"}",
         "version: 'x' is not a version, write it like 1.2.0", DIAG_MANIFEST_INVALID, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK(RESOLVE("/p/thing", false, LUA, {"package.json", rows[i].text}) < 0);
        check_fault(rows[i].code, "/p/thing/package.json", rows[i].line, rows[i].message);
    }
    CHECK_INT(RESOLVE("/p/thing", false, LUA, {"package.json", "{"}), ERR_INVALID);
    CHECK_STR(gen_code_name(fault.code), "MANIFEST_INVALID");
}

// ---- options and languages ------------------------------------------------------------------

static const struct json *options(const char *text)
{
    struct json *v;
    CHECK_INT(json_parse(&v, &mem, str_of(text), NULL, NULL), 0);
    return v;
}

TEST(options_are_checked_against_the_manifest_and_get_its_defaults)
{
    const struct json *out;
    CHECK_INT(manifest("{\"options\":{\"type\":\"object\",\"required\":[\"n\"],"
                       "\"additionalProperties\":false,\"properties\":{\"n\":{\"type\":\"integer\","
                       "\"default\":3},\"on\":{\"type\":\"boolean\"}}}}"),
              0);
    CHECK_INT(manifest_options(&shape, NULL, &mem, &out, &fault), 0);
    CHECK_STR(text_of(out), "{\"n\":3}");
    CHECK_INT(manifest_options(&shape, options("{\"on\":true}"), &mem, &out, &fault), 0);
    CHECK_STR(text_of(out), "{\"on\":true,\"n\":3}");
    CHECK_INT(manifest_options(&shape, options("{\"n\":\"x\"}"), &mem, &out, &fault), ERR_INVALID);
    CHECK(out == NULL);
    CHECK_STR(gen_code_name(fault.code), "MANIFEST_INVALID");
    CHECK_STR(fault.source, "config");
    CHECK_STR(fault.message, "options.n: must be an integer, is a string");
    CHECK_INT(manifest_options(&shape, options("{\"m\":1}"), &mem, &out, &fault), ERR_INVALID);
    CHECK_STR(fault.message, "options.m: is not known");
}

TEST(without_a_schema_options_are_anything)
{
    const struct json *out, *given = options("{\"a\":[1]}");
    CHECK_INT(manifest("{}"), 0);
    CHECK_INT(manifest_options(&shape, given, &mem, &out, &fault), 0);
    CHECK(out == given);
    CHECK_INT(manifest_options(&shape, NULL, &mem, &out, &fault), 0);
    CHECK_STR(text_of(out), "{}");
}

TEST(languages_have_names_and_short_names)
{
    enum plugin_lang lang;
    CHECK(plugin_lang_parse(STR("py"), &lang) && lang == LANG_PYTHON);
    CHECK(plugin_lang_parse(STR("mjs"), &lang) && lang == LANG_NODE);
    CHECK(!plugin_lang_parse(STR(""), &lang) && !plugin_lang_parse(STR("perl"), &lang));
    CHECK_STR(plugin_lang_name(LANG_NONE), "");
    for (int i = LANG_LUA; i < LANG__COUNT; i++) {
        CHECK(plugin_lang_parse(str_of(plugin_lang_name((enum plugin_lang)i)), &lang));
        CHECK_INT(lang, i);
    }
    CHECK_INT(plugin_lang_of(STR("a/b.js")), LANG_NODE);
    CHECK_INT(plugin_lang_of(STR("a.luac")), LANG_NONE);
}
