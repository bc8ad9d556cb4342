// Whose element is whose in PATH and its like.
//
// A builder returns a whole PATH, but the user may have added to that of the shell. Copying the builder's value
// over it would lose those additions (the oldest complaint about such tools), so only the difference is used: which elements were put in front, which at the end. It is the smallest front F for which
//
//     now  =  F  +  (base without F)  +  B
//
// A builder that omits or reorders elements of `base` does not fit; then all new elements count, those
// before the first old one as front, the others as back, and the old ones stay.

#include "env/paths.h"

#include <assert.h>

enum { ITEMS_MAX = 1024 }; // a longer list is taken as a plain value: the comparison is cubic

static bool among(const char *const *items, size_t n, const char *item)
{
    return str_lookup(str_of(item), items, n) >= 0;
}

static void add_once(const char **items, size_t *n, const char *item)
{
    if (item[0] != '\0' && !among(items, *n, item)) {
        items[(*n)++] = item;
    }
}

// True when now[k..] begins with base without now[0..k); `*tail` is where it ends.
static bool fits(const char *const *now, size_t n_now, const char *const *base, size_t n_base,
                 size_t k, size_t *tail)
{
    size_t at = k;
    for (size_t i = 0; i < n_base; i++) {
        if (among(now, k, base[i])) {
            continue;
        }
        if (at == n_now || strcmp(now[at], base[i]) != 0) {
            return false;
        }
        at++;
    }
    *tail = at;
    return true;
}

const char **env_paths_split(struct arena *a, const char *value, size_t *n)
{
    struct str rest = str_of(value);
    size_t max = 1;
    for (size_t i = 0; i < rest.n; i++) {
        max += rest.p[i] == ':';
    }
    const char **items = arena_calloc(a, max + 1, sizeof *items);
    *n = 0;
    while (rest.p != NULL && (rest.n != 0 || *n != 0)) {
        items[(*n)++] = arena_strdup(a, str_cut(&rest, ':'));
    }
    assert(*n <= max);
    return items;
}

char *env_paths_join(struct arena *a, const char *const *items, size_t n)
{
    struct buf b = {.max = SIZE_MAX};
    for (size_t i = 0; i < n; i++) {
        buf_addf(&b, "%s%s", i == 0 ? "" : ":", items[i]);
    }
    char *joined = arena_strdup(a, buf_str(&b));
    buf_fini(&b);
    return joined;
}

char *env_paths_put(struct arena *a, const char *value, const struct env_list *front,
                    const struct env_list *back)
{
    size_t n_old, n = 0;
    const char **old = env_paths_split(a, value, &n_old);
    size_t n_front = front != NULL ? front->n : 0, n_back = back != NULL ? back->n : 0;
    const char **items = arena_calloc(a, n_front + n_old + n_back + 1, sizeof *items);
    for (size_t i = 0; i < n_front; i++) {
        add_once(items, &n, front->items[i]);
    }
    for (size_t i = 0; i < n_old; i++) {
        bool ours = (n_front != 0 && among(front->items, n_front, old[i])) ||
                    (n_back != 0 && among(back->items, n_back, old[i]));
        if (!ours) {
            items[n++] = old[i];
        }
    }
    for (size_t i = 0; i < n_back; i++) {
        add_once(items, &n, back->items[i]);
    }
    assert(n <= n_front + n_old + n_back);
    return env_paths_join(a, items, n);
}

bool env_paths_diff(struct arena *a, const char *base, const char *now, struct env_list *front,
                    struct env_list *back)
{
    size_t n_base, n_now, tail = 0;
    const char **old = env_paths_split(a, base, &n_base);
    const char **items = env_paths_split(a, now, &n_now);
    if (n_now > ITEMS_MAX || n_base > ITEMS_MAX ||
        (among(items, n_now, "") && !among(old, n_base, ""))) {
        return false;
    }
    front->items = arena_calloc(a, n_now + 1, sizeof *front->items);
    back->items = arena_calloc(a, n_now + 1, sizeof *back->items);
    front->n = back->n = 0;
    for (size_t k = n_base == 0 ? n_now : 0; k <= n_now; k++) {
        if (fits(items, n_now, old, n_base, k, &tail)) {
            for (size_t i = 0; i < k; i++) {
                add_once(front->items, &front->n, items[i]);
            }
            for (size_t i = tail; i < n_now; i++) {
                add_once(back->items, &back->n, items[i]);
            }
            return true;
        }
    }
    bool seen_base = false;
    for (size_t i = 0; i < n_now; i++) {
        struct env_list *to = seen_base ? back : front;
        if (among(old, n_base, items[i])) {
            seen_base = true;
        } else {
            add_once(to->items, &to->n, items[i]);
        }
    }
    return true;
}
