// Writing plugins: new, save, validate, test, verify.
//
// `new` needs no hub: it writes files, and asks a running hub to load them. The others ask the hub, which
// runs the code in a sandboxed process. A plugin is given by its name, by a path (whatever has a slash or
// exists), or as "-" for stdin.

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/call.h"
#include "cli/report.h"
#include "cli/sessions.h"
#include "template/template.h"
#include "trust/place.h"

enum { CONTENT_MAX = 8 << 20 };

// ---- new -------------------------------------------------------------------------------------

/// The directory that a new plugin goes into, without `plugins/`: the home, or `.afloat` of the project around
/// the working directory. Caller frees; NULL: there is no project.
static char *find_root(struct cli *c)
{
    struct trust_place place = {0};
    const char *given = getenv("AFLOAT_REPO");
    if (!args_has(&c->args, FLAG_IN_REPO)) {
        return xstrdup(c->home.dir);
    }
    int rc =
        trust_place_of(&place, c->home.dir, given != NULL && given[0] != '\0' ? given : ".", NULL);
    char *root = rc == 0 ? path_join(place.root, ".afloat") : NULL;
    trust_place_fini(&place);
    return root;
}

/// The languages that plugins are written in; the templates plugin-NAME and plugin-NAME-dir are its examples.
static const struct language {
    const char *name, *other, *ending;
} languages[] = {
    {"lua", "lua", ".lua"},
    {"python", "py", ".py"},
    {"node", "mjs", ".mjs"},
    {"c", "c", ".c"},
};

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (strcmp(name, languages[i].name) == 0 || strcmp(name, languages[i].other) == 0) {
            return &languages[i];
        }
    }
    return NULL;
}

static void tell_new(struct cli *c, const char *base, const char *name)
{
    if (c->json) {
        struct jw w = {.out = &c->out.data};
        jw_obj(&w);
        jw_kstrz(&w, "name", name);
        jw_kstrz(&w, "path", base);
        jw_end_obj(&w);
        out_add(&c->out, STR("\n"));
        return;
    }
    out_addf(&c->out, "%s\n", base);
    out_note(&c->out, "next: 'afloat plugin test %s', 'afloat plugin show %s'", name, name);
    if (args_has(&c->args, FLAG_IN_REPO)) {
        out_note(&c->out, "a project's plugins run only after 'afloat trust'");
    }
}

int cmd_plugin_new(struct cli *c)
{
    const char *name = args_word(&c->args, 0), *lang = args_value(&c->args, FLAG_LANG);
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    const struct language *l = find_language(lang != NULL ? lang : "lua");
    if (l == NULL) {
        out_error(&c->out, "unknown language '%s': lua, python, node or c", lang);
        return EXIT_USAGE;
    }
    if (name[0] < 'a' || name[0] > 'z' || name[n] != '\0' || n > 64) {
        out_error(&c->out,
                  "invalid plugin name '%s': use a-z, then a-z, 0-9, '-' and '_', at most 64",
                  name);
        return EXIT_USAGE;
    }
    if (op_has_path("/plugin/", str_of(name))) {
        out_error(&c->out, "'%s' is reserved; choose another name", name);
        return EXIT_USAGE;
    }
    char *root = find_root(c);
    if (root == NULL) {
        out_error(&c->out, "'--repo' needs a repository; there is none around this directory");
        return EXIT_NOT_FOUND;
    }
    bool dir = args_has(&c->args, FLAG_DIR);
    char *template = xasprintf("plugin-%s%s", l->name, dir ? "-dir" : "");
    char *base = xasprintf("%s/plugins/%s%s", root, name, dir ? "" : l->ending);
    struct err e = {0};
    int code = EXIT_OK,
        rc = template_install(template_find(str_of(template)), name, root, NULL, &e);
    if (rc < 0) {
        code = cli__fail(c, &e);
    } else {
        // a running hub sees the files by itself; asked to reload, it has them before the next command
        ask_nudge(c, OP_RELOAD, "plugin");
        tell_new(c, base, name);
    }
    free(base);
    free(template);
    free(root);
    return code;
}

// ---- save --------------------------------------------------------------------------------------

/// The language of a file by its ending; NULL: the hub finds out.
static const char *language_of(const char *file)
{
    for (size_t i = 0; file != NULL && i < ARRAY_LEN(languages); i++) {
        if (str_ends(str_of(file), languages[i].ending)) {
            return languages[i].name;
        }
    }
    bool script = file != NULL && (str_ends(str_of(file), ".js") || str_ends(str_of(file), ".ts"));
    return script ? "node" : NULL;
}

int cmd_plugin_save(struct cli *c)
{
    struct form form = {.words = "name content", .print = report_show, .judge = report_judge};
    const char *lang = language_of(args_word(&c->args, 1));
    if (lang != NULL && args_value(&c->args, FLAG_LANG) == NULL) {
        form.fixed = "lang";
        form.fixed_value = lang;
    }
    return call_with(c, OP_PLUGIN_SAVE, &form);
}

// ---- which plugin is meant -------------------------------------------------------------------

/// The path that `word` means: itself, or that of the plugin with this name. Caller frees; NULL: the exit
/// code is in `*code`, and the error was printed.
static char *find_path(struct cli *c, const char *word, int *code)
{
    assert(word != NULL);
    struct arena arena = {0};
    const struct json *row = NULL;
    *code = EXIT_OK;
    if (strchr(word, '/') != NULL || access(word, F_OK) == 0) {
        char *path = realpath(word, NULL);
        if (path == NULL) {
            out_error(&c->out, "cannot find '%s': %s", word, err_text(-errno));
            *code = EXIT_NOT_FOUND;
        }
        return path;
    }
    struct ask_param params[] = {{"name", word}};
    *code = sessions__ask(c, OP_PLUGIN_SHOW, params, ARRAY_LEN(params), &arena, &row);
    char *path = *code == EXIT_OK ? str_dup(json_get_text(row, "path")) : NULL;
    arena_fini(&arena);
    return path;
}

// ---- validate --------------------------------------------------------------------------------

static void print_registered(struct cli *c, const struct json *v)
{
    static const char *const kinds[] = {"hooks", "tools", "routes", "commands"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *list = json_get(v, kinds[i]);
        if (json_at(list, 0) != NULL) {
            out_tinted(&c->out, OUT_BOLD, str_of(kinds[i]));
            json_foreach_item (name, list) {
                out_add(&c->out, STR("  "));
                out_text(&c->out, json_str(name, ""));
            }
            out_add(&c->out, STR("\n"));
        }
    }
    if (json_get_text(v, "front").n != 0) {
        show_line(c, OUT_BOLD, "front", "  {front}", v, STR_NULL);
    }
    json_foreach_item (d, json_get(v, "diagnostics")) {
        show_note(c, "{code}: {message}; {hint}", d);
    }
    show_note(c, "plugin '{name}' is valid", v);
}

int cmd_plugin_validate(struct cli *c)
{
    struct arena arena = {0};
    struct buf content = {.max = CONTENT_MAX};
    const struct json *v = NULL;
    const char *word = args_word(&c->args, 0);
    bool typed = strcmp(word, "-") == 0;
    int code = EXIT_OK;
    char *path = typed ? NULL : find_path(c, word, &code);
    if (typed) {
        code = call_read_text(c, word, &content);
    }
    if (code == EXIT_OK) {
        struct ask_param params[] = {{"name", typed ? "stdin" : NULL},
                                     {"content", typed ? buf_z(&content) : NULL},
                                     {"lang", args_value(&c->args, FLAG_LANG)},
                                     {"path", path}};
        code = ask_value(c, OP_PLUGIN_VALIDATE, params, ARRAY_LEN(params), &arena, &v);
    }
    if (v != NULL) {
        print_registered(c, v);
    }
    free(path);
    buf_fini(&content);
    arena_fini(&arena);
    return code;
}

// ---- test ------------------------------------------------------------------------------------

static int print_tests(struct cli *c, const struct json *tests)
{
    size_t failed = 0, n = 0;
    json_foreach_item (t, tests) {
        bool ok = json_bool(json_get(t, "ok"), false);
        n++;
        failed += !ok;
        if (!c->json) {
            out_tinted(&c->out, ok ? OUT_GREEN : OUT_RED, ok ? STR("ok    ") : STR("FAILED"));
            out_addf(&c->out, "  ");
            out_text(&c->out, json_get_text(t, "name"));
            out_addf(&c->out, ok ? "\n" : "\n        ");
        }
        if (!c->json && !ok) {
            out_text(&c->out, json_get_text(t, "error"));
            out_addf(&c->out, "\n");
        }
    }
    if (n == 0) {
        out_error(&c->out,
                  "the plugin has no tests; write them in test.lua, or after 'if test then'; in "
                  "Python as functions test_... in the file or in test.py, in JavaScript with "
                  "test() in test.mjs, in C as .tests of AFLOAT_PLUGIN");
        return EXIT_NOT_FOUND;
    }
    out_note(&c->out, "%zu of %zu tests passed", n - failed, n);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_plugin_test(struct cli *c)
{
    struct arena arena = {0};
    const struct json *v;
    int code;
    char *path = find_path(c, args_word(&c->args, 0), &code);
    if (path == NULL) {
        return code;
    }
    struct ask_param params[] = {{"path", path}, {"test", "true"}};
    code = ask_parsed(c, OP_PLUGIN_VALIDATE, params, ARRAY_LEN(params), &arena, &v);
    if (code == EXIT_OK) {
        code = print_tests(c, json_get(v, "tests"));
    }
    arena_fini(&arena);
    free(path);
    return code;
}

// ---- verify ----------------------------------------------------------------------------------

static int compare(struct cli *c, const struct json *source, const struct json *built)
{
    size_t differ = 0;
    struct jw w = {.out = &c->out.data}; // of --json
    if (c->json) {
        jw_obj(&w);
        jw_karr(&w, "different");
    }
    json_foreach_member (m, source) {
        bool same = json_equal(&m->value, json_get_str(built, m->key));
        if (!same && c->json) {
            jw_str(&w, m->key);
        } else if (!same) {
            show_line(c, OUT_RED, "{@}", ": source and built files contribute different things",
                      NULL, m->key);
        }
        differ += !same;
    }
    if (c->json) {
        jw_end_arr(&w);
        jw_end_obj(&w);
        out_add(&c->out, STR("\n"));
    } else if (differ == 0) {
        out_note(&c->out, "source and built files contribute the same");
    }
    return differ == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_plugin_verify(struct cli *c)
{
    struct arena arena = {0};
    const struct json *side[2] = {NULL, NULL}; // source, built
    int code;
    char *path = find_path(c, args_word(&c->args, 0), &code);
    for (size_t i = 0; i < 2 && code == EXIT_OK; i++) {
        struct ask_param params[] = {{"path", path}, {"built", i == 1 ? "true" : NULL}};
        code = sessions__ask(c, OP_PLUGIN_VALIDATE, params, ARRAY_LEN(params), &arena, &side[i]);
    }
    if (code == EXIT_OK) {
        code = compare(c, json_get(side[0], "contributions"), json_get(side[1], "contributions"));
    }
    arena_fini(&arena);
    free(path);
    return code;
}
