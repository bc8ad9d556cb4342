// Where session types are:
//
//     $AFLOAT_HOME/sessions, shared/sessions          the user's        .afloat/sessions, shared/sessions      a project's
//     $AFLOAT_HOME/profiles/P/sessions                of a profile      .afloat/profiles/P/sessions
//
// A type of a project says which program runs with the user's rights: it counts like a plugin, only when its very
// bytes were trusted. It is read at each use, so a save is live with the next agent.
//
// $AFLOAT_HOME/sessions also holds the sessions themselves: a type has a name of a plugin and an init.lua.

#include "api/types.h"

#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "plugin/manifest.h"

enum { TYPES_MAX = 1000 };

static void add(struct session_types *t, const char *dir, const char *name, const char *layer,
                const char *root)
{
    struct session_type it = {.layer = layer};
    struct stat st;
    char *own = path_join(dir, name), *file = path_join(own, "init.lua");
    if (lstat(own, &st) == 0 && S_ISDIR(st.st_mode) && lstat(file, &st) == 0 &&
        S_ISREG(st.st_mode)) {
        it.name = arena_strdup(&t->arena, str_of(name));
        it.path = arena_strdup(&t->arena, str_of(file));
        it.rel = root != NULL ? arena_strdup(&t->arena, str_of(own + strlen(root) + 1)) : NULL;
        it.status = tree_read(&it.tree, own, &it.e);
        vec_push(&t->list, it);
    }
    free(own);
    free(file);
}

static void read_dir(struct session_types *t, char *dir, const char *layer, const char *root)
{
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        if (plugin_name_valid(str_of(f.name)) && t->list.n < TYPES_MAX) {
            add(t, dir, f.name, layer, root);
        }
    }
    free(dir);
}

/// The three directories of one side: the user's home, or a project's .afloat.
static void read_side(struct session_types *t, const char *base, const char *profile,
                      const char *const layers[2], const char *root)
{
    read_dir(t, path_join(base, "sessions"), layers[0], root);
    read_dir(t, path_join(base, "shared/sessions"), layers[0], root);
    read_dir(t, xasprintf("%s/profiles/%s/sessions", base, profile), layers[1], root);
}

void types_read(struct session_types *t, const char *home, const char *profile, const char *dir)
{
    static const char *const user[] = {"user", "user-profile"}, *const repo[] = {"repo",
                                                                                 "repo-profile"};
    *t = (struct session_types){0};
    read_side(t, home, profile, user, NULL);
    if (dir != NULL && trust_place_of(&t->place, home, dir, NULL) == 0) {
        char *base = path_join(t->place.root, ".afloat");
        read_side(t, base, profile, repo, t->place.root);
        free(base);
    }
}

void types_judge(struct session_types *t, const struct trust *trust)
{
    vec_foreach (it, &t->list) {
        it->trusted =
            it->rel == NULL ||
            (it->status == 0 && trust_allows(trust, &t->place, TRUST_SESSION, it->rel, &it->tree));
    }
}

bool types_is_shadowed(const struct session_types *t, const struct session_type *it)
{
    for (const struct session_type *other = it + 1; other < t->list.p + t->list.n; other++) {
        if (other->trusted && strcmp(other->name, it->name) == 0) {
            return true;
        }
    }
    return false;
}

const struct session_type *types_find(const struct session_types *t, struct str name, struct err *e)
{
    const struct session_type *found = NULL;
    vec_foreach (it, &t->list) {
        bool better = found == NULL || it->trusted; // one that is not trusted takes no name
        found = better && str_eqz(name, it->name) ? it : found;
    }
    if (found == NULL) {
        const char **names = xcalloc(t->list.n + 1, sizeof *names);
        for (size_t i = 0; i < t->list.n; i++) {
            names[i] = t->list.p[i].name;
        }
        const char *nearest = str_nearest(name, names, t->list.n);
        err_set(e, ERR_NOT_FOUND, "there is no session type '%.*s'%s%s%s",
                (int)MIN(name.n, (size_t)64), name.p, nearest != NULL ? ", did you mean '" : "",
                nearest != NULL ? nearest : "; it would be sessions/TYPE/init.lua",
                nearest != NULL ? "'?" : "");
        free(names);
    } else if (found->status < 0) {
        *e = found->e;
    } else if (!found->trusted) {
        err_set(e, ERR_DENIED,
                "the project's session type '%s' is not trusted; look at '%s', then: afloat trust",
                found->name, found->rel);
    } else {
        return found;
    }
    return NULL;
}

struct str types_source(const struct session_type *it)
{
    const struct tree_file *f = it->status == 0 ? tree_find(&it->tree, STR("init.lua")) : NULL;
    return f != NULL ? f->bytes : STR_NULL;
}

void types_fini(struct session_types *t)
{
    vec_foreach (it, &t->list) {
        if (it->status == 0) {
            tree_fini(&it->tree);
        }
    }
    vec_fini(&t->list);
    trust_place_fini(&t->place);
    arena_fini(&t->arena);
}
