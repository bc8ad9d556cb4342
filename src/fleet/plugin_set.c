// Sets of plugins. A set comes from the database and decides where files are written. So a place is accepted only
// when it is a plain name in one of the directories of plugins.

#include "fleet/plugin_set.h"

#include <assert.h>

enum { NAME_MAX_BYTES = 128 };

void plugin_set_fini(struct plugin_set *s)
{
    vec_fini(&s->items);
    arena_fini(&s->arena);
    *s = (struct plugin_set){0};
}

void plugin_set_add(struct plugin_set *s, const char *place, const char *project, const char *hash)
{
    struct set_item it = {.place = arena_strdup(&s->arena, str_of(place)),
                          .project =
                              project != NULL ? arena_strdup(&s->arena, str_of(project)) : NULL};
    assert(hash[0] == '\0' || strlen(hash) == SHA256_HEX - 1);
    memcpy(it.hash, hash, strlen(hash) + 1);
    vec_push(&s->items, it);
}

void plugin_set_copy(struct plugin_set *to, const struct plugin_set *from)
{
    assert(to->items.n == 0);
    vec_foreach (it, &from->items) {
        plugin_set_add(to, it->place, it->project, it->hash);
    }
}

const struct set_item *plugin_set_find(const struct plugin_set *s, const struct set_item *like)
{
    vec_foreach (it, &s->items) {
        bool same = it->project == NULL || like->project == NULL
                        ? it->project == like->project
                        : strcmp(it->project, like->project) == 0;
        if (same && strcmp(it->place, like->place) == 0) {
            return it;
        }
    }
    return NULL;
}

const char *plugin_set_hash(const struct plugin_set *s, const struct set_item *like)
{
    const struct set_item *it = plugin_set_find(s, like);
    return it != NULL ? it->hash : "";
}

void plugin_set_write(const struct plugin_set *s, struct jw *w)
{
    jw_arr(w);
    vec_foreach (it, &s->items) {
        jw_obj(w);
        jw_kstrz(w, "place", it->place);
        if (it->project != NULL) {
            jw_kstrz(w, "project", it->project);
        }
        jw_kstrz(w, "hash", it->hash);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

/// A name that a file may have: no path, not hidden, nothing that could not be typed.
static bool is_name(struct str s)
{
    bool ok = s.n != 0 && s.n <= NAME_MAX_BYTES && s.p[0] != '.';
    for (size_t i = 0; i < s.n; i++) {
        ok = ok && s.p[i] != '/' && (unsigned char)s.p[i] >= ' ';
    }
    return ok;
}

bool plugin_set_may_hold(struct str place, const char *project)
{
    struct str rest = place, first;
    if (project != NULL && (project[0] != '/' || !str_eqz(str_cut(&rest, '/'), ".afloat"))) {
        return false;
    }
    first = str_cut(&rest, '/');
    if (str_eqz(first, "profiles")) {
        if (!is_name(str_cut(&rest, '/'))) {
            return false;
        }
        first = str_cut(&rest, '/');
    } else if (str_eqz(first, "shared")) {
        first = str_cut(&rest, '/');
    }
    return str_eqz(first, "plugins") && is_name(rest);
}

static int read_item(struct plugin_set *s, const struct json *from, struct err *e)
{
    struct str place = json_str(json_get(from, "place"), "");
    struct str project = json_str(json_get(from, "project"), "");
    struct str hash = json_str(json_get(from, "hash"), "");
    char *at = str_dup(place), *root = project.n != 0 ? str_dup(project) : NULL,
         *sum = str_dup(hash);
    struct set_item like = {.place = at, .project = root};
    int rc = 0;
    if (!plugin_set_may_hold(place, root) || strlen(at) != place.n) {
        rc = err_set(e, ERR_DENIED, "'%.80s' is not a place for plugins", at);
    } else if (hash.n != 0 &&
               (hash.n != SHA256_HEX - 1 || strspn(sum, "0123456789abcdef") != hash.n)) {
        rc = err_set(e, ERR_CORRUPT, "invalid hash of '%.80s'", at);
    } else if (s->items.n == PLUGIN_SET_MAX) {
        rc = err_set(e, ERR_TOO_LARGE, "more than %d plugins", PLUGIN_SET_MAX);
    } else if (plugin_set_find(s, &like) != NULL) {
        rc = err_set(e, ERR_CORRUPT, "'%.80s' is listed twice", at);
    } else {
        plugin_set_add(s, at, root, sum);
    }
    free(at);
    free(root);
    free(sum);
    return rc;
}

int plugin_set_read(struct plugin_set *s, const struct json *from, struct err *e)
{
    int rc = from == NULL || from->type == JSON_ARR
                 ? 0
                 : err_set(e, ERR_CORRUPT, "a set of plugins is an array");
    assert(s->items.n == 0);
    json_foreach_item (it, from) {
        rc = rc == 0 ? read_item(s, it, e) : rc;
    }
    if (rc < 0) {
        plugin_set_fini(s);
    }
    return rc;
}
