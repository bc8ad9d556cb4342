// What runs outside of the box must not be written inside it.
//
// The hub loads plugins, the user's shell sources the scripts of a followed project. Such a file may be in the
// working directory of a session, and a command that can change it runs programs as the user. So each of them
// is a separate read-only mount, and so is everything through which its path leads:
//
//     proj/conf ──link──> shared/env        the link, and what it leads to
//     shared/env/env.sh                     the file; `shared/env` and `shared` are pinned (box_rules.c)
//     .env, which is not there              must not appear, see launch_keep.c
//
// Only what a command could write needs a rule. The list of such files is the caller's; trust/guard.c
// makes it for the tools of a session.

#include "base/path.h"
#include "sandbox/box_int.h"
#include "sandbox/walk_int.h"

static void add(struct box *b, char kind, const char *path)
{
    if (box__find(b, path)->kind == 'w') {
        box__add(b, kind, path);
        vec_last(&b->rules)->guard = true;
    }
}

static int guard_link(void *arg, const char *link, const struct stat *st, struct err *e)
{
    (void)st;
    (void)e;
    add(arg, 'r', link);
    return 0;
}

/// One that a power cut left behind is made again, so that it goes with this command.
static bool is_left_behind(const char *path, bool *dir)
{
    struct stat st;
    bool there = lstat(path, &st) == 0 && (st.st_mode & S_ISVTX) != 0;
    *dir = there && S_ISDIR(st.st_mode);
    return there && (*dir || (S_ISREG(st.st_mode) && st.st_size == 0));
}

void box__guard(struct box *b, const char *path)
{
    struct path_walk w;
    char *expanded = path_expand_home(path);
    int rc = walk__path(&w, expanded, guard_link, b, NULL);
    bool dir;
    if (rc == 0) {
        add(b, !is_left_behind(w.real, &dir) ? 'r' : dir ? 'k' : 'f', w.real);
    } else if (rc == ERR_NOT_FOUND && w.missing != NULL) {
        char *name = path_join(w.real, w.missing);
        add(b, w.rest[0] != '\0' ? 'k' : 'f', name);
        free(name);
    }
    walk__fini(&w);
    free(expanded);
}
