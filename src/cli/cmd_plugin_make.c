// Writing plugins: new, validate, test, verify.
//
// `new` needs no hub: it writes files, and asks a running hub to load them. The others ask the hub, which
// runs the code in a sandboxed process. A plugin is given by its name, by a path (whatever has a slash or
// exists), or as "-" for stdin.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/call.h"
#include "cli/scaffold.h"

enum { CONTENT_MAX = 8 << 20 };

// ---- new -------------------------------------------------------------------------------------

static bool is_name(const char *z)
{
    size_t n = strspn(z, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return z[0] >= 'a' && z[0] <= 'z' && z[n] == '\0' && n <= 64;
}

static void replace(struct buf *out, struct str text, const char *mark, const char *by)
{
    const char *at;
    while ((at = memmem(text.p, text.n, mark, strlen(mark))) != NULL) {
        buf_add(out, text.p, (size_t)(at - text.p));
        buf_addz(out, by);
        text = str_from(text, (size_t)(at - text.p) + strlen(mark));
    }
    buf_adds(out, text);
}

static int write_one(const struct shipped *s, const char *path, const char *name, struct err *e)
{
    struct buf named, text;
    char *tool = xstrdup(name), *dir = str_dup(path_dir(str_of(path)));
    for (char *p = tool; *p != '\0'; p++) {
        *p = (char)(*p == '-' ? '_' : *p); // models take names of tools without it
    }
    buf_init(&named, SIZE_MAX);
    buf_init(&text, SIZE_MAX);
    replace(&named, (struct str){s->text, s->n}, "@NAME@", name);
    replace(&text, buf_str(&named), "@TOOL@", tool);
    int rc = path_mkdirs(dir, 0700, e);
    if (rc == 0) {
        rc = path_write_atomic(path, buf_str(&text), 0600, e);
    }
    buf_fini(&named);
    buf_fini(&text);
    free(tool);
    free(dir);
    return rc;
}

/// The repository round the working directory; NULL when there is none. Caller frees.
static char *find_repo(void)
{
    const char *given = getenv("AFLOAT_REPO");
    char *at = given != NULL && given[0] != '\0' ? realpath(given, NULL) : getcwd(NULL, 0);
    while (at != NULL && given == NULL) {
        char *git = path_join(at, ".git"), *own = path_join(at, ".afloat");
        bool found = access(git, F_OK) == 0 || access(own, F_OK) == 0, root = strcmp(at, "/") == 0;
        free(git);
        free(own);
        if (found) {
            break;
        }
        char *up = root ? NULL : str_dup(path_dir(str_of(at)));
        free(at);
        at = up;
    }
    return at;
}

/// The directory that the plugin goes to; NULL, said, when there is none. Caller frees.
static char *find_root(struct cli *c)
{
    if (!args_has(&c->args, FLAG_IN_REPO)) {
        return path_join(c->home.dir, "plugins");
    }
    char *repo = find_repo(), *root = NULL;
    if (repo == NULL) {
        out_error(&c->out, "'--repo' is for a repository; there is none round this directory");
    } else {
        root = path_join(repo, ".afloat/plugins");
    }
    free(repo);
    return root;
}

static int write_scaffold(struct cli *c, const char *base, const char *name)
{
    bool dir = args_has(&c->args, FLAG_DIR);
    struct err e = {0};
    for (const struct shipped *s = scaffold; s->rel != NULL; s++) {
        bool in_dir = str_starts(str_of(s->rel), "dir/");
        if (in_dir != dir) {
            continue;
        }
        char *path = in_dir ? path_join(base, s->rel + 4) : xstrdup(base);
        int rc = write_one(s, path, name, &e);
        free(path);
        if (rc < 0) {
            return cli__fail(c, &e);
        }
    }
    return EXIT_OK;
}

static void tell_new(struct cli *c, const char *base, const char *name)
{
    if (c->json) {
        struct jw w;
        jw_init(&w, &c->out.data);
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
        out_note(&c->out, "a project's plugins run after 'afloat trust'");
    }
}

/// A running hub sees the files by itself, a little later; asked to reload, it has the plugin before the
/// next command is typed. What is wrong with others is not for this command to say.
static void tell_hub(struct cli *c)
{
    struct client_peer hub = {.socket = c->home.socket};
    struct client_request r = {.method = op_method_name(ops[OP_RELOAD].method),
                               .path = ops[OP_RELOAD].path,
                               .body = STR("{}")};
    struct client_answer a;
    struct err e;
    client_answer_init(&a);
    int rc = client_call(&hub, &r, &a, &e);
    if (rc < 0 && rc != ERR_UNREACHABLE) {
        out_note(&c->out, "the hub did not answer (%s); it will see the plugin by itself", e.msg);
    }
    client_answer_fini(&a);
}

int cmd_plugin_new(struct cli *c)
{
    const char *name = args_word(&c->args, 0), *lang = args_value(&c->args, FLAG_LANG);
    if (lang != NULL && strcmp(lang, "lua") != 0) {
        out_error(&c->out, "no host for %s", lang);
        return EXIT_FAILED;
    }
    if (!is_name(name)) {
        out_error(&c->out,
                  "'%s' is no name for a plugin: a-z first, then a-z, 0-9, '-' and '_', 64 at most",
                  name);
        return EXIT_USAGE;
    }
    char *root = find_root(c);
    if (root == NULL) {
        return EXIT_NOT_FOUND;
    }
    char *file = xasprintf("%s/%s.lua", root, name), *dir = xasprintf("%s/%s", root, name);
    const char *base = args_has(&c->args, FLAG_DIR) ? dir : file;
    int code = EXIT_OK;
    if (access(file, F_OK) == 0 || access(dir, F_OK) == 0) {
        out_error(&c->out, "there is a plugin '%s' already: '%s'", name,
                  access(file, F_OK) == 0 ? file : dir);
        code = EXIT_CONFLICT;
    } else if ((code = write_scaffold(c, base, name)) == EXIT_OK) {
        tell_hub(c);
        tell_new(c, base, name);
    }
    free(file);
    free(dir);
    free(root);
    return code;
}

// ---- which plugin is meant -------------------------------------------------------------------

/// The path that `word` means: itself, or where the plugin of that name lies. Caller frees; NULL: said.
static char *find_path(struct cli *c, const char *word, int *code)
{
    struct arena arena;
    const struct json *row = NULL;
    char *path = NULL;
    bool json = c->json;
    *code = EXIT_OK;
    if (strchr(word, '/') != NULL || access(word, F_OK) == 0) {
        path = realpath(word, NULL);
        if (path == NULL) {
            out_error(&c->out, "cannot find '%s': %s", word, err_text(-errno));
            *code = EXIT_NOT_FOUND;
        }
        return path;
    }
    struct ask_param params[] = {{"name", word}};
    arena_init(&arena);
    c->json = false; // this answer is not the one that was asked for
    *code = ask_value(c, OP_PLUGIN_SHOW, params, ARRAY_LEN(params), &arena, &row);
    c->json = json;
    struct str found = json_str(json_get(row, "path"), "");
    path = *code == EXIT_OK ? str_dup(found) : NULL;
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
    show_note(c, "plugin '{name}' is valid", v);
}

int cmd_plugin_validate(struct cli *c)
{
    struct arena arena;
    struct buf content;
    const struct json *v = NULL;
    const char *word = args_word(&c->args, 0);
    bool typed = strcmp(word, "-") == 0;
    int code = EXIT_OK;
    arena_init(&arena);
    buf_init(&content, CONTENT_MAX);
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
            out_text(&c->out, json_str(json_get(t, "name"), ""));
            out_addf(&c->out, ok ? "\n" : "\n        ");
        }
        if (!c->json && !ok) {
            out_text(&c->out, json_str(json_get(t, "error"), ""));
            out_addf(&c->out, "\n");
        }
    }
    if (n == 0) {
        out_error(&c->out,
                  "the plugin has no tests: put them in test.lua, or behind 'if test then'");
        return EXIT_NOT_FOUND;
    }
    out_note(&c->out, "%zu of %zu tests passed", n - failed, n);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_plugin_test(struct cli *c)
{
    struct arena arena;
    struct client_answer a;
    int code;
    char *path = find_path(c, args_word(&c->args, 0), &code);
    if (path == NULL) {
        return code;
    }
    struct ask_param params[] = {{"path", path}, {"test", "true"}};
    arena_init(&arena);
    client_answer_init(&a);
    code = ask_op(c, OP_PLUGIN_VALIDATE, params, ARRAY_LEN(params), &a);
    if (code == EXIT_OK) {
        code = print_tests(c, json_get(ask_json(c, &arena, &a), "tests"));
    }
    client_answer_fini(&a);
    arena_fini(&arena);
    free(path);
    return code;
}

// ---- verify ----------------------------------------------------------------------------------

/// What one side contributes; NULL, said, when it is not valid.
static const struct json *contributions(struct cli *c, const char *path, bool built,
                                        struct arena *arena, int *code)
{
    const struct json *v;
    struct ask_param params[] = {{"path", path}, {"built", built ? "true" : NULL}};
    *code = ask_value(c, OP_PLUGIN_VALIDATE, params, ARRAY_LEN(params), arena, &v);
    return json_get(v, "contributions");
}

static int compare(struct cli *c, const struct json *source, const struct json *built)
{
    size_t differ = 0;
    json_foreach_member (m, source) {
        if (!json_equal(&m->value, json_get_str(built, m->key))) {
            out_tinted(&c->out, OUT_RED, m->key);
            out_addf(&c->out, ": source and built files contribute different things\n");
            differ++;
        }
    }
    if (differ == 0) {
        out_note(&c->out, "source and built files contribute the same");
    }
    return differ == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_plugin_verify(struct cli *c)
{
    struct arena arena;
    int code;
    bool json = c->json;
    char *path = find_path(c, args_word(&c->args, 0), &code);
    if (path == NULL) {
        return code;
    }
    arena_init(&arena);
    c->json = false; // two answers are asked for, and neither is the command's own
    const struct json *built = NULL, *source = contributions(c, path, false, &arena, &code);
    if (code == EXIT_OK) {
        built = contributions(c, path, true, &arena, &code);
    }
    c->json = json;
    if (code == EXIT_OK) {
        code = compare(c, source, built);
    }
    arena_fini(&arena);
    free(path);
    return code;
}
