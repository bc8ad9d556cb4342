// What a project brings that does something once it is trusted.
//
// The items come from a table of directories and files; each is read as a tree (store/tree.h), the
// environment by env.c. Nothing is run and nothing is decided here: an item that cannot be read is in the
// list with its error, so that the user sees it, and can never be trusted.
//
// The list itself is untrusted: `.afloat` may be huge, or a link to anywhere. The real path of every
// directory of the table, and of every item, must be below the root.

#include "trust/scan.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/utf8.h"
#include "trust/trust_int.h"

struct trust_scanner {
    struct trust_scan *s;
    const char *root; // real
    struct err *e;
};

/// Does a name in a directory for this kind make an item? Of plugins each that the hub would load.
static bool is_wanted(enum trust_kind kind, struct str name, bool is_dir)
{
    static const char *const endings[] = {".lua", ".py", ".mjs", ".js", ".ts", ".c"};
    if (kind == TRUST_BOT || kind == TRUST_SKILL || kind == TRUST_SESSION) {
        return is_dir || (kind == TRUST_SKILL && str_ends(name, ".md"));
    }
    if (is_dir) {
        return !str_eqz(name, "node_modules") && !str_eqz(name, "__pycache__");
    }
    bool plugin = false;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        plugin |= str_ends(name, endings[i]);
    }
    return plugin && !str_ends(name, ".d.ts");
}

/// Return 0 when the real path of `path` is below the root.
static int check_inside(const char *root, const char *path, struct err *e)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return err_sys(e, "cannot find it");
    }
    const char *rel = path_below(root, real);
    bool inside = rel != NULL && rel[0] != '\0';
    free(real);
    return inside ? 0 : err_set(e, ERR_DENIED, "it leads outside the project");
}

/// Put an item into the list; with a negative `rc` as one that cannot be read, because of `why`.
static int push(struct trust_scanner *sc, struct trust_item it, int rc, const struct err *why)
{
    struct trust_scan *s = sc->s;
    if (s->items.n == TRUST_ITEMS) {
        if (rc == 0) {
            tree_fini(&it.tree);
        }
        return err_set(sc->e, ERR_TOO_LARGE, "'%s' holds more than %d plugins, skills and bots",
                       sc->root, TRUST_ITEMS);
    }
    it.path = arena_strdup(&s->arena, str_of(it.path));
    it.error = rc < 0 ? arena_strdup(&s->arena, str_of(why->msg)) : NULL;
    vec_push(&s->items, it);
    return 0;
}

int trust_read_item(struct tree *t, const char *root, const char *rel, struct err *e)
{
    char *path = path_join(root, rel);
    int rc = utf8_valid(str_of(rel)) ? check_inside(root, path, e)
                                     : err_set(e, ERR_INVALID, "its name is not UTF-8");
    rc = rc == 0 ? tree_read_beneath(t, root, path, e) : rc;
    free(path);
    return rc;
}

static int add_item(struct trust_scanner *sc, enum trust_kind kind, const char *name,
                    const char *rel)
{
    struct trust_item it = {.kind = kind, .name = name, .path = rel};
    struct err why;
    int rc = trust_read_item(&it.tree, sc->root, rel, &why);
    return push(sc, it, rc, &why);
}

static const struct trust_source {
    const char *dir;
    enum trust_kind kind;
} sources[] = {
    {".afloat/plugins", TRUST_PLUGIN},   {".afloat/shared/plugins", TRUST_PLUGIN},
    {".afloat/skills", TRUST_SKILL},     {".afloat/bots", TRUST_BOT},
    {".afloat/sessions", TRUST_SESSION}, {".afloat/shared/sessions", TRUST_SESSION},
};

static const struct {
    const char *path, *name;
    enum trust_kind kind;
} single_files[] = {
    {TRUST_CONFIG_PATH, "config", TRUST_CONFIG},
    {TRUST_MCP_PATH, "mcp", TRUST_MCP},
};

typedef int entry_fn(struct trust_scanner *sc, const char *rel, enum trust_kind kind);

static int add_entry(struct trust_scanner *sc, const char *rel, enum trust_kind kind)
{
    struct stat st;
    char *path = path_join(sc->root, rel);
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    struct str name = path_base(str_of(rel));
    free(path);
    if (!is_wanted(kind, name, is_dir)) {
        return 0;
    }
    const char *dot = is_dir ? NULL : memrchr(name.p, '.', name.n); // "logger" of "logger.lua"
    name.n = dot != NULL ? (size_t)(dot - name.p) : name.n;
    return add_item(sc, kind, arena_strdup(&sc->s->arena, name), rel);
}

/// Call `each` for the names in `rel`, a directory below the root; a missing one has none.
static int list_dir(struct trust_scanner *sc, const char *rel, entry_fn *each, enum trust_kind kind)
{
    char *path = path_join(sc->root, rel);
    struct folder f = {0};
    int rc = 0;
    if (check_inside(sc->root, path, NULL) == 0) {
        f = folder_open(path);
    }
    free(path);
    while (rc == 0 && folder_next(&f)) {
        if (f.name[0] != '.') {
            char *sub = path_join(rel, f.name);
            rc = each(sc, sub, kind);
            free(sub);
        }
    }
    folder_close(&f);
    return rc;
}

static int add_profile(struct trust_scanner *sc, const char *rel, enum trust_kind kind)
{
    char *plugins = path_join(rel, "plugins"), *sessions = path_join(rel, "sessions");
    int rc = list_dir(sc, plugins, add_entry, kind);
    rc = rc == 0 ? list_dir(sc, sessions, add_entry, TRUST_SESSION) : rc;
    free(plugins);
    free(sessions);
    return rc;
}

static int by_kind(const void *a, const void *b)
{
    const struct trust_item *x = a, *y = b;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

const char *trust_kind_name(enum trust_kind kind)
{
    static const char *const names[] = {
#define X(id, name) [TRUST_##id] = name,
        TRUST_KINDS(X)
#undef X
    };
    assert((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}

int trust_each_instruction(const char *root, const char *dir,
                           int (*each)(void *arg, const char *rel), void *arg)
{
    static const char *const names[] = {"AGENTS.md", "CLAUDE.md"};
    char *real = realpath(dir, NULL);
    size_t n = strlen(root);
    const char *rest =
        real != NULL && strncmp(real, root, n) == 0 && real[n] == '/' ? real + n + 1 : "";
    int rc = 0;
    for (const char *end = rest;
         rc == 0 && end != NULL;) { // `rest` up to `end` is the next directory
        for (size_t i = 0; rc == 0 && i < ARRAY_LEN(names); i++) {
            struct stat st;
            int len = (int)(end - rest);
            char *rel = xasprintf("%.*s%s%s", len, rest, len != 0 ? "/" : "", names[i]);
            char *path = path_join(root, rel);
            rc = lstat(path, &st) == 0 ? each(arg, rel) : 0;
            free(path);
            free(rel);
        }
        const char *slash = *end != '\0' ? strchr(end + (*end == '/'), '/') : NULL;
        end = *end == '\0' ? NULL : slash != NULL ? slash : end + strlen(end);
    }
    free(real);
    return rc;
}

static int add_instruction(void *arg, const char *rel)
{
    struct trust_scanner *sc = arg;
    const char *kept = arena_strdup(&sc->s->arena, str_of(rel));
    return add_item(sc, TRUST_AGENTS, kept, kept);
}

int trust_scan(struct trust_scan *s, const char *root, struct err *e)
{
    return trust_scan_in(s, root, root, e);
}

int trust_scan_in(struct trust_scan *s, const char *root, const char *dir, struct err *e)
{
    *s = (struct trust_scan){0};
    char *real = realpath(root, NULL);
    if (real == NULL) {
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no '%s'", root)
                               : err_sys(e, "cannot find '%s'", root);
    }
    struct trust_scanner sc = {s, real, e};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(single_files); i++) {
        struct stat st;
        char *path = path_join(real, single_files[i].path);
        if (lstat(path, &st) == 0) {
            rc = add_item(&sc, single_files[i].kind, single_files[i].name, single_files[i].path);
        }
        free(path);
    }
    rc = rc == 0 ? trust_each_instruction(real, dir, add_instruction, &sc) : rc;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(sources); i++) {
        rc = list_dir(&sc, sources[i].dir, add_entry, sources[i].kind);
    }
    rc = rc == 0 ? list_dir(&sc, ".afloat/profiles", add_profile, TRUST_PLUGIN) : rc;
    if (rc == 0) {
        struct trust_item it = {.kind = TRUST_ENV, .name = "env", .path = TRUST_ENV_PATH};
        struct err why;
        int read = trust_env_read(&it.tree, real, &why);
        rc = read == ERR_NOT_FOUND ? 0 : push(&sc, it, read, &why);
    }
    if (s->items.n != 0) {
        qsort(s->items.p, s->items.n, sizeof *s->items.p, by_kind);
    }
    free(real);
    return rc;
}

void trust_scan_fini(struct trust_scan *s)
{
    vec_foreach (it, &s->items) {
        tree_fini(&it->tree);
    }
    vec_fini(&s->items);
    arena_fini(&s->arena);
}
