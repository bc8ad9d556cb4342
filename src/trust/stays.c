// Counts of the sessions in each directory.
//
//     dirs    /p/a   2, /p          roots   /p    2 directories
//             /p/b   1, /p                  /q    1
//             /q     1, /q
//             /tmp   3, none
//
// A directory may belong to another project by the time a session leaves it: a project further in was made, or
// trusted, meanwhile. So leaving must not look for the project again, or the wrong one is left. It is noted
// here with the directory; the next session that enters notes it again, for all sessions there.

#include "trust/stays.h"

#include <assert.h>

struct stay {
    unsigned n;
    char *root; // NULL: no project
};

static void add(struct map *roots, const char *root, intptr_t by)
{
    struct str key = str_of(root);
    intptr_t n = (intptr_t)map_get(roots, key) + by;
    assert(n >= 0);
    if (n != 0) {
        map_set(roots, key, (void *)n);
    } else {
        map_remove(roots, key);
    }
}

static void settle(struct stays *s, struct stay *st, const char *root)
{
    if (root != NULL) { // before the old one goes: it may be the same
        add(&s->roots, root, 1);
    }
    if (st->root != NULL) {
        add(&s->roots, st->root, -1);
    }
    free(st->root);
    st->root = root != NULL ? xstrdup(root) : NULL;
}

void stays_init(struct stays *s)
{
    *s = (struct stays){0};
}

void stays_fini(struct stays *s)
{
    struct str dir;
    void *value;
    for (size_t at = 0; map_next(&s->dirs, &at, &dir, &value);) {
        struct stay *st = value;
        free(st->root);
        free(st);
    }
    map_fini(&s->dirs);
    map_fini(&s->roots);
}

void stays_enter(struct stays *s, const char *dir, const char *root)
{
    struct stay *st = map_get(&s->dirs, str_of(dir));
    if (st == NULL) {
        st = xcalloc(1, sizeof *st);
        map_set(&s->dirs, str_of(dir), st);
    }
    st->n++;
    settle(s, st, root);
}

void stays_leave(struct stays *s, const char *dir)
{
    struct stay *st = map_get(&s->dirs, str_of(dir));
    assert(st == NULL || st->n != 0);
    if (st != NULL && --st->n == 0) {
        settle(s, st, NULL);
        map_remove(&s->dirs, str_of(dir));
        free(st);
    }
}

struct str stays_next(const struct stays *s, size_t *at)
{
    struct str dir;
    void *value;
    return map_next(&s->dirs, at, &dir, &value) ? dir : STR_NULL;
}

bool stays_has(const struct stays *s, const char *root)
{
    return map_get(&s->roots, str_of(root)) != NULL;
}
