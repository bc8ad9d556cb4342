// The plugins that come with the program, made into files.
//
// They travel inside the binary, so that a copied or moved program has them. A plugin is always files
// (read, hashed and kept like any other), so they are written below the home, once for each build. They
// are not synced, since every first start would wait for it; after a power cut a file may be short, so
// the sizes are looked at before the directory is believed.

#include "plugin/shipped.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"

static bool is_whole(const char *dir)
{
    bool whole = true;
    for (const struct shipped *s = shipped_plugins; whole && s->rel != NULL; s++) {
        struct stat st;
        char *path = path_join(dir, s->rel);
        whole = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == s->n;
        free(path);
    }
    return whole;
}

/// Write them anew: what is there may be anything, a FIFO or a link to a file of the user.
static int write_all(const char *dir, struct err *e)
{
    struct stat st;
    int rc = lstat(dir, &st) == 0 ? path_remove_tree(dir, e) : 0;
    for (const struct shipped *s = shipped_plugins; rc == 0 && s->rel != NULL; s++) {
        char *path = path_join(dir, s->rel), *parent = str_dup(path_dir(str_of(path)));
        rc = path_mkdirs(parent, 0700, e);
        int fd = rc == 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
        if (rc == 0 && (fd < 0 || write(fd, s->text, s->n) != (ssize_t)s->n)) {
            rc = err_sys(e, "cannot write '%s'", path);
        }
        if (fd >= 0) {
            close(fd);
        }
        free(parent);
        free(path);
    }
    return rc;
}

char *shipped_unpack(const char *state, const char *build, struct err *e)
{
    char *root = path_join(state, "shipped"), *dir = path_join(root, build);
    int rc = is_whole(dir) ? 0 : write_all(dir, e);
    for (struct folder f = folder_open(root); folder_next(&f);) {
        if (strcmp(f.name, build) != 0) {
            // of another build; if it cannot be removed, the next start tries again
            char *path = path_join(root, f.name);
            (void)!path_remove_tree(path, NULL);
            free(path);
        }
    }
    if (rc < 0) {
        free(dir);
        dir = NULL;
    }
    free(root);
    return dir;
}

void shipped_add_names(struct buf *out)
{
    struct str last = STR_NULL;
    for (const struct shipped *f = shipped_plugins; f->rel != NULL; f++) {
        struct str rest = str_of(f->rel), plugin = str_cut(&rest, '/');
        if (!str_eq(plugin, last)) {
            buf_addf(out, "%s" STR_FMT, last.n != 0 ? ", " : "", STR_ARG(plugin));
            last = plugin;
        }
    }
}

bool shipped_has(struct str name)
{
    bool found = false;
    for (const struct shipped *f = shipped_plugins; f->rel != NULL && !found; f++) {
        struct str rest = str_of(f->rel);
        found = str_eq(str_cut(&rest, '/'), name);
    }
    return found;
}
