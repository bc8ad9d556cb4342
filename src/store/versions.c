// Plugin versions by content.
//
//     state/versions/
//       5f0c...e1/           the files as they were, with their executable bits
//       .new-<random>/       being written; renamed to its hash when all of it is on the disk
//
// The name is the hash, so a version needs no list, no lock and no description: a second writer finds
// it there, and a reader can check it. The hash also tells whether it was a directory or a single
// file, because it differs between the two.
//
// versions_prune() removes a `.new-...` that a power cut left, once it is so old that no writer can
// still be at work.

#include "store/versions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"
#include "base/random.h"
#include "store/tree_int.h"
#include "store/walk.h"

#define NEW_PREFIX ".new-"

enum { LEFT_BEHIND_S = 60 * 60 };

static bool is_hash(const char *s)
{
    return strspn(s, "0123456789abcdef") == SHA256_HEX - 1 && strlen(s) == SHA256_HEX - 1;
}

static int put_file(const char *dir, const struct tree_file *f, struct err *e)
{
    char *path = path_join(dir, f->path);
    char *parent = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(parent, 0700, e);
    if (rc == 0) {
        mode_t mode = f->executable ? 0700 : 0600;
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        rc = fd >= 0 ? path_write_fd(fd, f->bytes) : -errno;
        if (rc == 0 && fsync(fd) != 0) {
            rc = -errno;
        }
        if (fd >= 0) {
            close(fd);
        }
        if (rc < 0) {
            err_set(e, rc, "cannot write '%s': %s", path, err_text(rc));
        }
    }
    free(parent);
    free(path);
    return rc;
}

static int put_files(const char *dir, const struct tree *t, struct err *e)
{
    int rc = path_mkdirs(dir, 0700, e);
    vec_foreach (f, &t->files) {
        if (rc == 0) {
            rc = put_file(dir, f, e);
        }
    }
    vec_foreach (f, &t->files) { // each directory below at least once: files are sorted
        if (rc == 0 && strchr(f->path, '/') != NULL) {
            char *path = path_join(dir, f->path);
            char *parent = str_dup(path_dir(str_of(path)));
            rc = walk_sync_dir(parent, e);
            free(parent);
            free(path);
        }
    }
    return rc == 0 ? walk_sync_dir(dir, e) : rc;
}

int versions_put(const char *dir, const struct tree *t, struct err *e)
{
    struct stat st;
    char random[17];
    char *to = path_join(dir, t->hash);
    if (lstat(to, &st) == 0) {
        free(to);
        return 0;
    }
    random_hex(random, sizeof random);
    char *from = xasprintf("%s/" NEW_PREFIX "%s", dir, random);
    int rc = path_mkdirs(dir, 0700, e);
    if (rc == 0) {
        rc = put_files(from, t, e);
    }
    if (rc == 0 && rename(from, to) == 0) {
        rc = walk_sync_dir(dir, e);
    } else if (rc == 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
        rc = path_remove_tree(from, e); // another was quicker
    } else if (rc == 0) {
        rc = err_sys(e, "cannot keep '%s'", to);
    }
    if (rc < 0) {
        int ignored = path_remove_tree(from, NULL); // what is left goes with the next prune
        (void)ignored;
    }
    free(from);
    free(to);
    return rc;
}

int versions_get(struct tree *t, const char *dir, const char *hash, struct err *e)
{
    memset(t, 0, sizeof *t);
    if (!is_hash(hash)) {
        return err_set(e, ERR_NOT_FOUND, "'%.70s' is not a version", hash);
    }
    char *path = path_join(dir, hash);
    int rc = tree_read(t, path, e);
    if (rc == 0 && strcmp(t->hash, hash) != 0 && t->files.n == 1) {
        t->is_file = true;
        tree__hash(t);
    }
    if (rc == 0 && strcmp(t->hash, hash) != 0) {
        tree_fini(t);
        rc = err_set(e, ERR_CORRUPT, "version '%s' is damaged: its files were changed", hash);
    }
    free(path);
    return rc;
}

int versions_prune(const char *dir, bool (*keep)(const char *hash, void *arg), void *arg,
                   struct err *e)
{
    DIR *d = opendir(dir);
    int n = 0;
    if (d == NULL) {
        return errno == ENOENT ? 0 : err_sys(e, "cannot list '%s'", dir);
    }
    for (struct dirent *de; n >= 0 && (de = readdir(d)) != NULL;) {
        struct stat st;
        bool begun = str_starts(str_of(de->d_name), NEW_PREFIX); // its writer may be gone
        bool unwanted = is_hash(de->d_name)
                            ? !keep(de->d_name, arg)
                            : begun &&
                                  fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                                  time(NULL) - st.st_mtim.tv_sec > LEFT_BEHIND_S;
        if (unwanted) {
            char *path = path_join(dir, de->d_name);
            int rc = path_remove_tree(path, e);
            n = rc < 0 ? rc : n + is_hash(de->d_name);
            free(path);
        }
    }
    closedir(d);
    return n;
}
