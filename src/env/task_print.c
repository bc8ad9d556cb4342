// Has anything that a task depends on changed?
//
// The hash covers the command, its directory and variables and, for every file that `inputs` names, its path
// and its bytes; a file that is missing counts as missing. It is kept in the project's state directory after a
// success, one small file a task, so that the next shell does not run what is done.

#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "env/pattern.h"
#include "env/task.h"
#include "watch/ignore.h"

enum { INPUT_MAX = 64 << 20, MATCHES_MAX = 4096 };

struct matches {
    struct arena arena;
    vec(const char *) paths;
};

static void add_text(struct sha256 *h, const char *text)
{
    sha256_add(h, text, strlen(text) + 1);
}

static void add_file(struct sha256 *h, const char *path)
{
    struct buf bytes = {.max = INPUT_MAX};
    uint8_t hash[SHA256_SIZE] = {0};
    struct stat st;
    int rc = path_read(path, &bytes, NULL);
    if (rc == 0) {
        sha256_of(buf_str(&bytes), hash);
    } else if (rc == ERR_TOO_LARGE && stat(path, &st) == 0) { // size and time tell it apart
        memcpy(hash, &st.st_size, sizeof st.st_size);
        memcpy(hash + sizeof st.st_size, &st.st_mtim, sizeof st.st_mtim);
    }
    add_text(h, path);
    sha256_add(h, hash, sizeof hash);
    buf_fini(&bytes);
}

static void find_matches(struct matches *m, const char *dir, const struct env_pattern *p)
{
    struct folder f = folder_open(dir);
    while (m->paths.n < MATCHES_MAX && folder_next(&f)) {
        const char *path = arena_printf(&m->arena, "%s/%s", dir, f.name);
        struct stat st;
        bool below = p->deep && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
        if (f.name[0] == '.' || ignore_match(watch_ignore_default, str_of(f.name), below)) {
            continue;
        }
        if (below) {
            find_matches(m, path, p);
        } else if (str_glob(str_of(p->name), str_of(f.name))) {
            vec_push(&m->paths, path);
        }
    }
    folder_close(&f);
}

static void add_matches(struct sha256 *h, const char *pattern)
{
    struct matches m = {0};
    struct env_pattern p = env_pattern_of(&m.arena, pattern);
    find_matches(&m, p.dir, &p);
    str_sort(m.paths.p, m.paths.n);
    vec_foreach (path, &m.paths) {
        add_file(h, *path);
    }
    vec_fini(&m.paths);
    arena_fini(&m.arena);
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
    add_text(&h, t->run);
    add_text(&h, t->cwd);
    for (size_t i = 0; i < t->n_env; i++) {
        add_text(&h, t->env[i].name);
        add_text(&h, t->env[i].value);
    }
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
