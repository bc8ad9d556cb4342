// Paths with `*`, as `watch` and the `inputs` of tasks have them.

#include "env/pattern.h"

#include "base/path.h"

struct env_pattern env_pattern_of(struct arena *a, const char *path)
{
    struct str whole = str_of(path), name = path_base(whole), head = whole;
    ptrdiff_t star = str_index(whole, '*');
    head.n = star >= 0 ? (size_t)star + 1 : whole.n;
    struct env_pattern p = {.dir = arena_strdup(a, path_dir(head)), .name = arena_strdup(a, name)};
    p.deep = strlen(p.dir) + 1 + name.n < whole.n || strstr(p.name, "**") != NULL;
    return p;
}
