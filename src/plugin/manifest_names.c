// Words that manifests, files and requests share: names of plugins, languages, versions of the API.

#include "base/utf8.h"
#include "plugin/manifest.h"

enum { SHOWN_MAX = 80, API_DIGITS = 4 };

static const struct {
    const char *name, *also;
} langs[LANG__COUNT] = {
    [LANG_NONE] = {"", ""},        [LANG_LUA] = {"lua", "lua"}, [LANG_PYTHON] = {"python", "py"},
    [LANG_NODE] = {"node", "mjs"}, [LANG_C] = {"c", "c"},
};

static const struct {
    const char *suffix;
    enum plugin_lang lang;
} endings[] = {
    {".lua", LANG_LUA}, {".py", LANG_PYTHON}, {".mjs", LANG_NODE},
    {".js", LANG_NODE}, {".ts", LANG_NODE},   {".c", LANG_C},
};

const char *plugin_lang_name(enum plugin_lang lang)
{
    return langs[lang].name;
}

bool plugin_lang_parse(struct str name, enum plugin_lang *out)
{
    for (int i = LANG_NONE + 1; i < LANG__COUNT; i++) {
        if (str_eqz(name, langs[i].name) || str_eqz(name, langs[i].also)) {
            *out = (enum plugin_lang)i;
            return true;
        }
    }
    return false;
}

bool plugin_lang_reads(enum plugin_lang lang, struct str file)
{
    return plugin_lang_of(file) == lang || (lang == LANG_C && str_ends(file, ".h")) ||
           (lang == LANG_NODE && str_ends(file, ".json"));
}

const char *plugin_lang_ending(enum plugin_lang lang)
{
    size_t i = 0;
    while (i < ARRAY_LEN(endings) && endings[i].lang != lang) {
        i++;
    }
    return i < ARRAY_LEN(endings) ? endings[i].suffix : "";
}

enum plugin_lang plugin_lang_of(struct str file)
{
    for (size_t i = 0; i < ARRAY_LEN(endings) && !str_ends(file, ".d.ts"); i++) {
        if (str_ends(file, endings[i].suffix)) {
            return endings[i].lang;
        }
    }
    return LANG_NONE;
}

bool plugin_name_valid(struct str name)
{
    bool ok = name.n != 0 && name.n <= PLUGIN_NAME_MAX && name.p[0] >= 'a' && name.p[0] <= 'z';
    for (size_t i = 1; i < name.n && ok; i++) {
        char c = name.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }
    return ok;
}

int plugin_api_check(struct str api, struct err *e)
{
    struct str minor = api;
    struct str major = str_cut(&minor, '.');
    bool ok = str_eqz(major, "1") && minor.n <= API_DIGITS && (minor.n != 0 || api.n == 1);
    for (size_t i = 0; i < minor.n && ok; i++) {
        ok = minor.p[i] >= '0' && minor.p[i] <= '9';
    }
    return ok ? 0
              : err_set(e, ERR_UNSUPPORTED,
                        "Incompatible plugin API version: %.*s (expected " MANIFEST_API ")",
                        (int)utf8_cut(api.p, api.n, SHOWN_MAX), api.p);
}
