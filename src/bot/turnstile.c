// One at a time for each repository.

#include "bot/turnstile.h"

#include <assert.h>

/// The first guest of `repo`; NULL when there is none.
static struct turnstile_guest *first_of(struct turnstile *t, const char *repo)
{
    vec_foreach (g, &t->guests) {
        if (strcmp(g->repo, repo) == 0) {
            return g;
        }
    }
    return NULL;
}

void turnstile_enter(struct turnstile *t, const char *repo, turnstile_fn *enter, void *arg)
{
    assert(repo != NULL && repo[0] != '\0' && enter != NULL);
    struct turnstile_guest g = {.repo = xstrdup(repo), .enter = enter, .arg = arg};
    bool empty = first_of(t, repo) == NULL;
    vec_push(&t->guests, g);
    if (empty) {
        enter(arg);
    }
}

void turnstile_leave(struct turnstile *t, const void *arg)
{
    for (size_t i = 0; i < t->guests.n; i++) {
        if (t->guests.p[i].arg == arg) {
            char *repo = t->guests.p[i].repo;
            bool inside = first_of(t, repo) == &t->guests.p[i];
            vec_remove(&t->guests, i);
            const struct turnstile_guest *next = inside ? first_of(t, repo) : NULL;
            free(repo);
            if (next != NULL) {
                next->enter(next->arg);
            }
            return;
        }
    }
}

void turnstile_fini(struct turnstile *t)
{
    vec_foreach (g, &t->guests) {
        free(g->repo);
    }
    vec_fini(&t->guests);
}
