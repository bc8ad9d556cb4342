// What a project brings that does something once it is trusted.
//
// The items come from a table of directories and files; each is read as a tree (store/tree.h), the
// environment by env.c. Nothing is run and nothing is decided here: an item that cannot be read is in
// the list with its error, so that a person sees it, and can never be trusted.
//
// The list itself is hostile: `.afloat` may be huge, or a link to anywhere. A directory of the table,
// and every item, must lie below the root by its real path.

#include "trust/scan.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/utf8.h"
#include "trust/trust_int.h"

struct scanner {
    struct trust_scan *s;
    const char *root; // real
    struct err *e;
};

/// Does a name in such a directory make an item?
typedef bool wanted_fn(struct str name, bool is_dir);

static bool is_plugin(struct str name, bool is_dir)
{
    static const char *const endings[] = {".lua", ".py", ".mjs", ".c"};
    if (is_dir) {
        return !str_eqz(name, "node_modules") && !str_eqz(name, "__pycache__");
    }
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        if (str_ends(name, endings[i])) {
            return true;
        }
    }
    return false;
}

static bool is_skill(struct str name, bool is_dir)
{
    return is_dir || str_ends(name, ".md");
}

static bool is_bot(struct str name, bool is_dir)
{
    (void)name;
    return is_dir;
}

/// "logger" of ".afloat/plugins/logger.lua".
static const char *name_of(struct arena *a, const char *path, bool is_dir)
{
    struct str base = path_base(str_of(path));
    const char *dot = is_dir ? NULL : memrchr(base.p, '.', base.n);
    return arena_strdup(a, dot != NULL ? (struct str){base.p, (size_t)(dot - base.p)} : base);
}

/// Returns 0 when the real path of `path` lies below the root.
static int check_inside(const char *root, const char *path, struct err *e)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return err_sys(e, "cannot find it");
    }
    size_t n = strlen(root);
    bool inside = strncmp(real, root, n) == 0 && (real[n] == '/' || root[n - 1] == '/');
    free(real);
    return inside ? 0 : err_set(e, ERR_DENIED, "it leads out of the project");
}

/// Put an item into the list; with a negative `rc` as one that cannot be read, because of `why`.
static int push(struct scanner *sc, struct trust_item it, int rc, const struct err *why)
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

int trust__read_item(struct tree *t, const char *root, const char *rel, struct err *e)
{
    char *path = path_join(root, rel);
    int rc = utf8_valid(str_of(rel)) ? check_inside(root, path, e)
                                     : err_set(e, ERR_INVALID, "its name is not UTF-8");
    if (rc == 0) {
        rc = tree_read(t, path, e);
    }
    free(path);
    return rc;
}

static int add_item(struct scanner *sc, enum trust_kind kind, const char *name, const char *rel)
{
    struct trust_item it = {.kind = kind, .name = name, .path = rel};
    struct err why;
    int rc = trust__read_item(&it.tree, sc->root, rel, &why);
    return push(sc, it, rc, &why);
}

static int add_entry(struct scanner *sc, enum trust_kind kind, wanted_fn *wanted, const char *rel)
{
    struct stat st;
    char *path = path_join(sc->root, rel);
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return wanted(path_base(str_of(rel)), is_dir)
               ? add_item(sc, kind, name_of(&sc->s->arena, rel, is_dir), rel)
               : 0;
}

typedef int entry_fn(struct scanner *sc, const char *rel, const void *arg);

/// Call `each` for the names in `rel`, a directory below the root; one that is not there has none.
static int list_dir(struct scanner *sc, const char *rel, entry_fn *each, const void *arg)
{
    char *path = path_join(sc->root, rel);
    DIR *d = check_inside(sc->root, path, NULL) == 0 ? opendir(path) : NULL;
    int rc = 0;
    free(path);
    if (d == NULL) {
        return 0;
    }
    for (struct dirent *de; rc == 0 && (de = readdir(d)) != NULL;) {
        if (de->d_name[0] != '.') {
            char *sub = path_join(rel, de->d_name);
            rc = each(sc, sub, arg);
            free(sub);
        }
    }
    closedir(d);
    return rc;
}

static const struct source {
    const char *dir;
    enum trust_kind kind;
    wanted_fn *wanted;
} sources[] = {
    {".afloat/plugins", TRUST_PLUGIN, is_plugin},
    {".afloat/shared/plugins", TRUST_PLUGIN, is_plugin},
    {".afloat/skills", TRUST_SKILL, is_skill},
    {".afloat/bots", TRUST_BOT, is_bot},
};

static const struct {
    const char *path, *name;
    enum trust_kind kind;
} single_files[] = {
    {TRUST_CONFIG_PATH, "config", TRUST_CONFIG},
    {"AGENTS.md", "AGENTS.md", TRUST_AGENTS},
};

static int add_source_entry(struct scanner *sc, const char *rel, const void *arg)
{
    const struct source *src = arg;
    return add_entry(sc, src->kind, src->wanted, rel);
}

static int add_profile_plugin(struct scanner *sc, const char *rel, const void *arg)
{
    (void)arg;
    return add_entry(sc, TRUST_PLUGIN, is_plugin, rel);
}

static int add_profile(struct scanner *sc, const char *rel, const void *arg)
{
    char *plugins = path_join(rel, "plugins");
    int rc = list_dir(sc, plugins, add_profile_plugin, arg);
    free(plugins);
    return rc;
}

static int add_single_files(struct scanner *sc)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(single_files); i++) {
        struct stat st;
        char *path = path_join(sc->root, single_files[i].path);
        if (lstat(path, &st) == 0) {
            rc = add_item(sc, single_files[i].kind, single_files[i].name, single_files[i].path);
        }
        free(path);
    }
    return rc;
}

static int add_env(struct scanner *sc)
{
    struct trust_item it = {.kind = TRUST_ENV, .name = "env", .path = TRUST_ENV_PATH};
    struct err why;
    int rc = trust_env_read(&it.tree, sc->root, &why);
    return rc == ERR_NOT_FOUND ? 0 : push(sc, it, rc, &why);
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
    return names[kind];
}

int trust_scan(struct trust_scan *s, const char *root, struct err *e)
{
    memset(s, 0, sizeof *s);
    arena_init(&s->arena);
    char *real = realpath(root, NULL);
    if (real == NULL) {
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no '%s'", root)
                               : err_sys(e, "cannot find '%s'", root);
    }
    struct scanner sc = {s, real, e};
    int rc = add_single_files(&sc);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(sources); i++) {
        rc = list_dir(&sc, sources[i].dir, add_source_entry, &sources[i]);
    }
    if (rc == 0) {
        rc = list_dir(&sc, ".afloat/profiles", add_profile, NULL);
    }
    if (rc == 0) {
        rc = add_env(&sc);
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
