// Find the project of a directory.

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/path.h"
#include "env/spec_int.h"

static const char *const marks[] = {".afloat/env.toml", "devenv.nix", "flake.nix", ".envrc",
                                    "mise.toml"};

char *env__nearest(const char *dir, const char *const *names, size_t n)
{
    char *at = xstrdup(dir);
    for (;;) {
        for (size_t i = 0; i < n; i++) {
            char *path = path_join(at, names[i]);
            bool there = access(path, F_OK) == 0;
            free(path);
            if (there) {
                return at;
            }
        }
        char *slash = strrchr(at, '/');
        if (slash == NULL || at[1] == '\0') {
            free(at);
            return NULL;
        }
        slash[slash == at ? 1 : 0] = '\0';
    }
}

int env_project_find(struct env_project *p, const char *dir, struct err *e)
{
    char real[PATH_MAX];
    *p = (struct env_project){0};
    if (realpath(dir, real) == NULL) {
        return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : -errno, "cannot enter '%s': %s", dir,
                       strerror(errno));
    }
    p->root = env__nearest(real, marks, ARRAY_LEN(marks));
    p->found = p->root != NULL;
    if (p->root == NULL) {
        p->root = env__nearest(real, (const char *const[]){".git"}, 1);
    }
    if (p->root == NULL) {
        p->root = xstrdup(real);
    }
    p->name = str_dup(path_base(str_of(p->root)));
    return 0;
}

void env_project_fini(struct env_project *p)
{
    free(p->root);
    free(p->name);
    *p = (struct env_project){0};
}
