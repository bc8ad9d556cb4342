// Which files run without the user looking at them again.
//
//     followed place ── its repository, there or not
//                       itself and its linked worktrees ──> .afloat/
//                                                           links in it: plugins kept elsewhere
//                                                           the environment's files, there or not
//     home of Afloat ── links in it: plugins, Lua, settings kept elsewhere (dotfiles)
//
// What was trusted by its content is not among them: a change to it waits for the user anyway.
//
// Worktrees in the home of Afloat are never followed (trust.c), so they have nothing to guard.

#include "trust/guard.h"

#include <assert.h>
#include <dirent.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "trust/trust_int.h"

enum { MOST_NAMES = 4096, DEPTH = 4, POINTER_MAX = 8192 };

/// Folders of the home whose files run in the hub, or in the name of the user.
static const char *const folders[] = {"plugins", "shared", "profiles", "lua", "skills", "bots"};

static void add(void *arg, const char *path)
{
    struct trust_guards *g = arg;
    vec_push(&g->paths, arena_strdup(&g->arena, str_of(path)));
}

/// Add the links in `dir` and the directories in it. A tree of plugins that is deeper has none that lead
/// out: tree_read() refuses them.
static void add_links(struct trust_guards *g, const char *dir, unsigned depth, size_t *left)
{
    struct folder f = folder_open(dir);
    while (*left > 0 && folder_next(&f)) {
        char *path = path_join(dir, f.name);
        struct stat st;
        bool told = f.type != DT_UNKNOWN || lstat(path, &st) != 0;
        --*left;
        if (told ? f.type == DT_LNK : S_ISLNK(st.st_mode)) {
            add(g, path);
        } else if ((told ? f.type == DT_DIR : S_ISDIR(st.st_mode)) && depth < DEPTH) {
            add_links(g, path, depth + 1, left);
        }
        free(path);
    }
    folder_close(&f);
}

// ---- a followed project ------------------------------------------------------------------------

static void add_root(struct trust_guards *g, const char *root)
{
    size_t left = MOST_NAMES;
    char *own = path_join(root, ".afloat"), *servers = path_join(root, TRUST_MCP_PATH);
    add(g, own);
    add(g, servers);
    add_links(g, own, 1, &left);
    trust__env_names(root, add, g);
    free(own);
    free(servers);
}

/// The worktree that an entry of a repository stands for: the directory of the `.git` that its `gitdir`
/// names. Caller frees; NULL for none.
static char *worktree_of(const char *entry)
{
    struct buf text = {.max = POINTER_MAX};
    char *file = path_join(entry, "gitdir"), *dir = NULL;
    if (path_read(file, &text, NULL) == 0) {
        struct str link = str_trim(buf_str(&text));
        dir = link.n != 0 && link.p[0] == '/' && memchr(link.p, '\0', link.n) == NULL
                  ? str_dup(path_dir(link))
                  : NULL;
    }
    buf_fini(&text);
    free(file);
    return dir;
}

/// Add `below` (the place as seen from the top of its repository) in each linked worktree.
static void add_worktrees(struct trust_guards *g, const char *git, const char *below)
{
    size_t left = MOST_NAMES;
    char *entries = path_join(git, "worktrees");
    struct folder f = folder_open(entries);
    while (left-- > 0 && folder_next(&f)) {
        char *entry = path_join(entries, f.name);
        char *dir = f.name[0] != '.' ? worktree_of(entry) : NULL;
        if (dir != NULL) {
            char *root = xasprintf("%s%s", dir, below);
            add_root(g, root);
            free(root);
        }
        free(dir);
        free(entry);
    }
    folder_close(&f);
    free(entries);
}

/// The repository of a place says which directories are its worktrees (place.c), so nobody may write there, or make
/// one where there is none.
static void add_place(struct trust_guards *g, const char *place)
{
    struct stat st;
    char *top = xstrdup(place), *slash;
    add_root(g, place);
    add_worktrees(g, place, ""); // a bare repository is a place, too
    while ((slash = strrchr(top, '/')) != NULL && slash != top) {
        char *git = path_join(top, ".git"), *entries = path_join(git, "worktrees");
        bool found = lstat(git, &st) == 0;
        if (found) {
            add_worktrees(g, git, place + strlen(top));
        }
        add(g, found ? git : entries);
        free(entries);
        free(git);
        if (found) {
            break;
        }
        *slash = '\0';
    }
    free(top);
}

// ---- what the hub runs ---------------------------------------------------------------------------

struct listing {
    const char *home;
    struct arena *arena;
    vec(const char *) plugins;
};

/// No box opens the home itself, so plugins in it need no guard; trust_guards_read() finds links in it that lead
/// elsewhere.
static void list_plugin(void *arg, const char *path)
{
    struct listing *l = arg;
    if (path_below(l->home, path) == NULL) {
        vec_push(&l->plugins, arena_strdup(l->arena, str_of(path)));
    }
}

// ---- public --------------------------------------------------------------------------------------

void trust_guards_read(struct trust_guards *g, const char *home, const char *const *places)
{
    size_t left = MOST_NAMES;
    assert(home != NULL);
    *g = (struct trust_guards){0};
    add_links(g, home, DEPTH, &left); // config.toml, choices.json
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char *dir = path_join(home, folders[i]);
        add_links(g, dir, 1, &left);
        free(dir);
    }
    for (size_t i = 0; places != NULL && places[i] != NULL; i++) {
        add_place(g, places[i]);
    }
    vec_push(&g->paths, NULL);
}

void trust_guards_fini(struct trust_guards *g)
{
    vec_fini(&g->paths);
    arena_fini(&g->arena);
}

struct trust_outside trust_list_outside(const struct trust *t, const char *home,
                                        trust_plugins *loaded, void *plugins, struct arena *a)
{
    struct listing l = {.home = home, .arena = a};
    vec(const char *) followed = {0};
    loaded(plugins, list_plugin, &l);
    for (const char *place; (place = trust_followed(t, followed.n)) != NULL;) {
        vec_push(&followed, arena_strdup(a, str_of(place)));
    }
    struct trust_outside out = {.plugins = arena_list(a, l.plugins.p, l.plugins.n),
                                .followed = arena_list(a, followed.p, followed.n)};
    vec_fini(&l.plugins);
    vec_fini(&followed);
    return out;
}

struct trust_outside trust_copy_outside(struct arena *a, const struct trust_outside *from)
{
    return (struct trust_outside){.plugins = arena_copy_list(a, from->plugins),
                                  .followed = arena_copy_list(a, from->followed)};
}

int trust_make_box(struct box **out, struct box_policy *policy, const struct trust_outside *outside,
                   struct err *e)
{
    struct trust_guards g = {0};
    assert(policy->guard == NULL);
    if (policy->mode == BOX_WORKSPACE_WRITE) { // else nothing can be written, or everything
        trust_guards_read(&g, policy->home, outside->followed);
        (void)vec_pop(&g.paths); // the NULL
        for (const char *const *it = outside->plugins; *it != NULL; it++) {
            vec_push(&g.paths, *it);
        }
        vec_push(&g.paths, NULL);
        policy->guard = g.paths.p;
    }
    int rc = box_new(out, policy, e);
    policy->guard = NULL;
    trust_guards_fini(&g);
    return rc;
}
