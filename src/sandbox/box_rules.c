// The list of rules: adding, sorting, asking, and its text for the launcher.
//
// A path's answer is that of the innermost rule around it, as with the launcher's mounts: of two mounts the
// inner one counts.
//
// A writable directory inside another writable one gets no rule. It would be a second mount of what can be
// written anyway, and renaming across the border would fail.
//
// A directory between a writable one and something protected inside it gets one, a *pin*: a mount point cannot
// be renamed. Without it a command could move `conf`, and with it the mount on `conf/secrets`, and the next
// command would find nothing to protect at that path.

#include <assert.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "sandbox/box_int.h"

void box__add(struct box *b, char kind, const char *path)
{
    assert(path[0] == '/');
    const struct box_rule r = {.kind = kind, .path = xstrdup(path)};
    vec_push(&b->rules, r);
}

void box__add_grant(struct box *b, char kind, const struct grant *g)
{
    const struct box_rule r = {
        .kind = kind, .path = xstrdup(g->path), .granted = true, .dev = g->dev, .ino = g->ino};
    vec_push(&b->rules, r);
}

bool box__beneath(const char *path, const char *dir)
{
    return path_below(dir, path) != NULL;
}

// ---- order ---------------------------------------------------------------------------------

/// Shorter first, so outer paths come before inner ones. Of two rules for one path the later one counts: it is
/// the one that takes away.
static int compare(const void *a, const void *b)
{
    static const char order[] = "twrkfh";
    const struct box_rule *x = a, *y = b;
    size_t nx = strlen(x->path), ny = strlen(y->path);
    if (nx != ny) {
        return nx < ny ? -1 : 1;
    }
    int rc = strcmp(x->path, y->path);
    return rc != 0 ? rc : (int)(strchr(order, x->kind) - strchr(order, y->kind));
}

/// Sort, and keep only the rule that counts of each path.
static void sort(struct box *b)
{
    size_t n = 0;
    if (b->rules.n != 0) {
        qsort(b->rules.p, b->rules.n, sizeof *b->rules.p, compare);
    }
    for (size_t i = 0; i < b->rules.n; i++) {
        if (n > 0 && strcmp(b->rules.p[n - 1].path, b->rules.p[i].path) == 0) {
            free(b->rules.p[--n].path);
        }
        b->rules.p[n++] = b->rules.p[i];
    }
    assert(n <= b->rules.n);
    b->rules.n = n;
}

/// The innermost of the first `n` rules around `path`; NULL when none is.
static const struct box_rule *find_among(const struct box *b, size_t n, const char *path)
{
    for (size_t i = n; i-- > 0;) {
        if (box__beneath(path, b->rules.p[i].path)) {
            return &b->rules.p[i];
        }
    }
    return NULL;
}

void box__settle(struct box *b)
{
    size_t n = 0;
    sort(b);
    for (size_t i = 0; i < b->rules.n; i++) { // drop writables inside of writables
        struct box_rule r = b->rules.p[i];
        const struct box_rule *outer = find_among(b, n, r.path);
        if (r.kind == 'w' && !r.pin && outer != NULL && outer->kind == 'w') {
            free(r.path);
        } else {
            b->rules.p[n++] = r;
        }
    }
    b->rules.n = n;
}

/// Add the directories on the way from `outer` to `path`.
static void pin_between(struct box *b, const char *outer, const char *path)
{
    struct str dir = path_dir(str_of(path));
    for (size_t n = strlen(outer); dir.n > n; dir = path_dir(dir)) {
        const struct box_rule r = {.kind = 'w', .path = str_dup(dir), .pin = true};
        vec_push(&b->rules, r);
    }
}

void box__pin(struct box *b)
{
    for (size_t i = b->rules.n; i-- > 0;) { // those that are added come after
        const struct box_rule *r = &b->rules.p[i], *outer = find_among(b, i, r->path);
        // a missing `.git` is kept away from this directory, not from where it may be moved
        bool worth = r->guard || r->kind == 'r' || r->kind == 'h';
        if (worth && outer != NULL && outer->kind == 'w') {
            char *path = xstrdup(r->path), *around = xstrdup(outer->path);
            pin_between(b, around, path);
            free(around);
            free(path);
        }
    }
    sort(b);
}

// ---- asking ----------------------------------------------------------------------------------

const struct box_rule *box__find(const struct box *b, const char *path)
{
    static const struct box_rule none = {.kind = '\0', .path = NULL};
    const struct box_rule *r = find_among(b, b->rules.n, path);
    return r != NULL ? r : &none;
}

// ---- text ------------------------------------------------------------------------------------

void box__write(struct box *b)
{
    assert(b->texts.n == 0);
    vec_foreach (r, &b->rules) {
        vec_push(&b->texts, r->granted
                                ? xasprintf("%c%llx:%llx%s", r->kind, (unsigned long long)r->dev,
                                            (unsigned long long)r->ino, r->path)
                                : xasprintf("%c%s", r->kind, r->path));
    }
    vec_push(&b->texts, NULL);
}

void box__rules_fini(struct box *b)
{
    vec_foreach (r, &b->rules) {
        free(r->path);
    }
    vec_foreach (t, &b->texts) {
        free((char *)(uintptr_t)*t);
    }
    vec_fini(&b->rules);
    vec_fini(&b->texts);
}
