// Any bytes as a plugin's manifest. The first byte says which manifest it is and whether the plugin is
// built; the rest is its text. Whatever is resolved is in the tree and has a good name; whatever is
// not has a code, a place and a message. The same text is a schema too, of which a value may be asked.

#include <assert.h>

#include "base/schema.h"
#include "plugin/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/// Sorted, as a tree's are; the manifest is put in its place.
static struct tree_file files[] = {
    {"dist/front/index.js", {"", 0}, false},
    {"dist/init.lua", {"", 0}, false},
    {"init.lua", {"", 0}, false},
    {"package.json", {"", 0}, false},
    {"plugin.json", {"", 0}, false},
    {"prompt.md", {"", 0}, false},
    {"skills/a.md", {"", 0}, false},
    {"ui/a.lua", {"", 0}, false},
};
enum { PACKAGE = 3, PLUGIN = 4 };

static void check_file(const struct tree *t, const char *path)
{
    assert(path == NULL || tree_find(t, str_of(path)) != NULL);
}

static void check_options(const struct plugin_shape *s, struct arena *a)
{
    const struct json *out;
    struct gen_diag fault;
    if (manifest_options(s, s->options, a, &out, &fault) < 0) {
        assert(out == NULL && fault.message != NULL);
    } else {
        assert(schema_fit(s->options, out, "options", NULL) == 0);
    }
}

static void check_resolve(const struct tree *t, bool built, struct arena *a)
{
    struct plugin_shape s;
    struct gen_diag fault;
    if (manifest_resolve(&s, a, t, "/plugins/thing", built, &fault) < 0) {
        assert(fault.code >= 0 && fault.code < DIAG__COUNT);
        assert(fault.path != NULL && fault.message != NULL && fault.line >= 0);
        assert(s.name != NULL);
        return;
    }
    assert(plugin_name_valid(str_of(s.name)));
    assert(plugin_api_check(str_of(s.api), NULL) == 0);
    assert((s.server == NULL) == (s.lang == LANG_NONE));
    check_file(t, s.server);
    check_file(t, s.front);
    check_file(t, s.prompt);
    check_options(&s, a);
}

static void check_schema(struct str text, struct arena *a)
{
    struct json *v;
    struct err e = {0};
    if (json_parse(&v, a, text, NULL, NULL) < 0) {
        return;
    }
    if (schema_check(v, &e) < 0) {
        assert((e.code == ERR_INVALID || e.code == ERR_UNSUPPORTED) && e.msg[0] != '\0');
        return;
    }
    int rc = schema_fit(v, schema_defaults(v, v, a), "value", &e);
    assert(rc == 0 || e.msg[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    if (size == 0) {
        return 0;
    }
    bool package = (data[0] & 1) != 0, built = (data[0] & 2) != 0;
    struct str text = {(const char *)data + 1, size - 1};
    struct tree t = {0};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (i == (package ? PLUGIN : PACKAGE)) {
            continue;
        }
        files[i].bytes = i == PACKAGE || i == PLUGIN ? text : STR_NULL;
        vec_push(&t.files, files[i]);
    }
    check_resolve(&t, built, &a);
    check_schema(text, &a);
    arena_fini(&a);
    vec_fini(&t.files);
    return 0;
}
