// Has anything that a task depends on changed?
//
// The hash covers the command and, for every file that `inputs` names, its path and its bytes; a file
// that is missing counts as missing. It is kept in the project's state directory after a success, one
// small file a task, so that the next shell does not run what is done.

#include "base/folder.h"
#include "base/path.h"
#include "env/task.h"

enum { INPUT_MAX = 64 << 20, MATCHES_MAX = 4096 };

static void add_file(struct sha256 *h, const char *path)
{
    struct buf bytes = {.max = INPUT_MAX};
    uint8_t hash[SHA256_SIZE] = {0};
    if (path_read(path, &bytes, NULL) == 0) {
        sha256_of(buf_str(&bytes), hash);
    }
    sha256_add(h, path, strlen(path) + 1);
    sha256_add(h, hash, sizeof hash);
    buf_fini(&bytes);
}

// `*` in the last part of a path matches names in that directory.
static void add_matches(struct sha256 *h, const char *pattern)
{
    char *dir = str_dup(path_dir(str_of(pattern)));
    struct str base = path_base(str_of(pattern));
    vec(const char *) names = {0};
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        if (f.name[0] != '.' && str_glob(base, str_of(f.name)) && names.n < MATCHES_MAX) {
            vec_push(&names, path_join(dir, f.name));
        }
    }
    str_sort(names.p, names.n);
    vec_foreach (name, &names) {
        add_file(h, *name);
        free((char *)(uintptr_t)*name);
    }
    vec_fini(&names);
    free(dir);
}

void env_task_print(const struct env_task *t, char out[SHA256_HEX])
{
    struct sha256 h;
    uint8_t hash[SHA256_SIZE];
    out[0] = '\0';
    if (t->inputs[0] == NULL) {
        return;
    }
    sha256_init(&h);
    sha256_add(&h, t->run, strlen(t->run) + 1);
    for (const char **in = t->inputs; *in != NULL; in++) {
        if (strchr(*in, '*') != NULL) {
            add_matches(&h, *in);
        } else {
            add_file(&h, *in);
        }
    }
    sha256_final(&h, hash);
    sha256_hex(hash, out);
}
