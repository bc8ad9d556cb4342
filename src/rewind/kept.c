// States of paths and their contents.
//
// A content is a file named by its hash, so the same bytes are stored once, however often they occur.
// It is written beside and renamed, without a sync. After a power cut its hash shows whether it is damaged,
// and a thousand files are stored in the time that ten syncs would take.
//
// Paths are always opened beneath a directory that the caller has open, never by name from the root: a
// command may have put a link there meanwhile.

#include "rewind/kept.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"

static const char *const kinds[] = {"absent", "file", "link", "not_kept"};

bool kept_same(const struct kept_state *a, const struct kept_state *b)
{
    return a->kind == b->kind && a->mode == b->mode && strcmp(a->hash, b->hash) == 0;
}

void kept_write(struct jw *w, const char *key, const struct kept_state *s)
{
    jw_kobj(w, key);
    jw_kstrz(w, "kind", kinds[s->kind]);
    if (s->kind == KEPT_FILE) {
        jw_kint(w, "mode", s->mode);
    }
    if (s->hash[0] != '\0') {
        jw_kstrz(w, "hash", s->hash);
    }
    jw_end_obj(w);
}

struct kept_state kept_read(const struct json *v)
{
    struct kept_state s = {.kind = KEPT_NOT};
    struct str kind = json_get_text(v, "kind"), hash = json_get_text(v, "hash");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        s.kind = str_eqz(kind, kinds[i]) ? (enum kept_kind)i : s.kind;
    }
    bool hashed = hash.n == SHA256_HEX - 1;
    if (hashed) {
        memcpy(s.hash, hash.p, hash.n);
    } else if (s.kind != KEPT_ABSENT) {
        s.kind = KEPT_NOT;
    }
    s.mode = s.kind == KEPT_FILE ? (uint32_t)json_int(json_get(v, "mode"), 0600) & 07777 : 0;
    return s;
}

// ---- contents -----------------------------------------------------------------------------------

static char *content_path(const struct kept_store *store, const char *hash)
{
    return path_join(store->dir, hash);
}

static int keep_content(const struct kept_store *store, struct str bytes, const char *hash,
                        struct err *e)
{
    char *path = content_path(store, hash), *fresh = path_join(store->dir, "new");
    int rc = 0, fd = -1;
    if (access(path, F_OK) != 0) {
        rc = path_mkdirs(store->dir, 0700, e);
        fd =
            rc == 0 ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
        if (rc == 0 && (fd < 0 || path_write_fd(fd, bytes) < 0 || rename(fresh, path) < 0)) {
            rc = err_sys(e, "cannot keep a file in '%s'", store->dir);
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    free(path);
    free(fresh);
    return rc;
}

/// Read a kept content and check that it is what its name says.
static int read_content(const struct kept_store *store, const char *hash, struct buf *out,
                        struct err *e)
{
    uint8_t sum[SHA256_SIZE];
    char hex[SHA256_HEX];
    char *path = content_path(store, hash);
    int rc = path_read(path, out, NULL);
    free(path);
    if (rc == 0) {
        sha256_of(buf_str(out), sum);
        rc = strcmp(sha256_hex(sum, hex), hash) == 0 ? 0 : ERR_CORRUPT;
    }
    return rc == 0 ? 0 : err_set(e, ERR_CORRUPT, "its stored content is missing or damaged");
}

uint64_t kept_bytes(const struct kept_store *store)
{
    uint64_t bytes = 0;
    struct folder f = folder_open(store->dir);
    while (folder_next(&f)) {
        struct stat st;
        if (fstatat(dirfd(f.stream), f.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode)) {
            bytes += (uint64_t)st.st_size;
        }
    }
    return bytes;
}

void kept_sweep(const struct kept_store *store, bool (*wanted)(void *arg, const char *hash),
                void *arg)
{
    struct folder f = folder_open(store->dir);
    while (folder_next(&f)) {
        if (f.name[0] != '.' && !wanted(arg, f.name)) {
            unlinkat(dirfd(f.stream), f.name, 0);
        }
    }
}

// ---- looking ------------------------------------------------------------------------------------

/// Open the directory that holds `rel`, through no link; `*name` is the last part of `rel`. -ENOENT,
/// -ENOTDIR and -ELOOP mean that there is no such path.
static int open_parent(int dirfd, const char *rel, const char **name, struct err *e)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; fd >= 0 && (slash = strchr(rel, '/')) != NULL; rel = slash + 1) {
        char *part = str_dup((struct str){rel, (size_t)(slash - rel)});
        assert(strcmp(part, "..") != 0);
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int why = errno;
        close(fd);
        free(part);
        errno = why;
        fd = next;
    }
    *name = rel;
    return fd >= 0 ? fd : err_sys(e, "cannot open the directory of '%s'", rel);
}

/// What stands for the content of a large file: it changes when the file does.
static void print_stamp(const struct stat *st, char out[SHA256_HEX])
{
    uint8_t sum[SHA256_SIZE];
    char text[160];
    snprintf(text, sizeof text, "%llu %llu %lld.%09ld %lld.%09ld", (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
             (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
    sha256_of(str_of(text), sum);
    sha256_hex(sum, out);
}

/// Read a regular file or a link into `bytes`. False: it is neither, too large, or cannot be read.
static bool read_entry(int parent, const char *name, const struct stat *st, struct buf *bytes)
{
    if (S_ISLNK(st->st_mode)) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(parent, name, target, sizeof target);
        buf_add(bytes, target, n > 0 ? (size_t)n : 0);
        return n > 0;
    }
    if (!S_ISREG(st->st_mode) || st->st_size > KEPT_FILE_MAX) {
        return false;
    }
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? 1 : -1;
    while (n > 0 && bytes->n <= KEPT_FILE_MAX) {
        n = read(fd, buf_reserve(bytes, 64 * 1024), 64 * 1024);
        buf_grow(bytes, n > 0 ? (size_t)n : 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    return n == 0;
}

/// The files of a repository inside belong to that repository.
static bool is_repository(int parent, const char *name)
{
    char *path = path_join(name, ".git");
    bool there = faccessat(parent, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    free(path);
    return there;
}

int kept_look(const struct kept_store *store, int dirfd, const char *rel, struct kept_state *out,
              struct err *e)
{
    struct stat st;
    struct buf bytes = {.max = SIZE_MAX};
    uint8_t sum[SHA256_SIZE];
    const char *name;
    int rc = 0, parent = open_parent(dirfd, rel, &name, NULL);
    *out = (struct kept_state){.kind = KEPT_ABSENT};
    if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        out->kind = errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? KEPT_ABSENT : KEPT_NOT;
        if (parent >= 0) {
            close(parent);
        }
        return 0;
    }
    if (read_entry(parent, name, &st, &bytes)) {
        out->kind = S_ISLNK(st.st_mode) ? KEPT_LINK : KEPT_FILE;
        out->mode = out->kind == KEPT_FILE ? st.st_mode & 07777 : 0;
        sha256_of(buf_str(&bytes), sum);
        sha256_hex(sum, out->hash);
        rc = store != NULL ? keep_content(store, buf_str(&bytes), out->hash, e) : 0;
    } else if (!S_ISDIR(st.st_mode) || is_repository(parent, name)) {
        out->kind = KEPT_NOT;
        print_stamp(&st, out->hash);
    }
    buf_fini(&bytes);
    close(parent);
    return rc;
}

// ---- putting back -------------------------------------------------------------------------------

/// Make the directory `name` in `parent` with the same mode: its own was not kept, and the hub's umask is for its home.
static bool make_dir(int parent, const char *name)
{
    struct stat st;
    if (mkdirat(parent, name, 0700) < 0) {
        return errno == EEXIST;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool made = fd >= 0 && fstat(parent, &st) == 0 && fchmod(fd, st.st_mode & 0777) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return made;
}

static int make_parents(int dirfd, const char *rel, struct err *e)
{
    for (const char *slash = strchr(rel, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        char *dir = str_dup((struct str){rel, (size_t)(slash - rel)});
        const char *name;
        int parent = open_parent(dirfd, dir, &name, e);
        bool made = parent >= 0 && make_dir(parent, name);
        int rc = parent < 0 ? parent : made ? 0 : err_sys(e, "cannot make '%s'", dir);
        if (parent >= 0) {
            close(parent);
        }
        free(dir);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/// Remove `rel`, and the directories above it that are empty then.
static int put_absent(int dirfd, const char *rel, struct err *e)
{
    const char *name;
    int rc = 0, parent = open_parent(dirfd, rel, &name, NULL);
    if (parent >= 0 && unlinkat(parent, name, 0) < 0 && errno != ENOENT) {
        rc = err_sys(e, "cannot remove '%s'", rel);
    }
    if (parent >= 0) {
        close(parent);
    }
    char *dir = xstrdup(rel);
    for (char *slash; rc == 0 && (slash = strrchr(dir, '/')) != NULL;) {
        *slash = '\0';
        parent = open_parent(dirfd, dir, &name, NULL);
        bool gone = parent >= 0 && unlinkat(parent, name, AT_REMOVEDIR) == 0;
        if (parent >= 0) {
            close(parent);
        }
        if (!gone) {
            break;
        }
    }
    free(dir);
    return rc;
}

/// Rename, also to where an empty directory is.
static int take_place(int parent, const char *fresh, const char *name)
{
    int rc = renameat(parent, fresh, parent, name);
    if (rc < 0 && errno == EISDIR && unlinkat(parent, name, AT_REMOVEDIR) == 0) {
        rc = renameat(parent, fresh, parent, name);
    }
    return rc;
}

/// Make the file or link under a name of our own in the same directory.
static int make_fresh(int parent, const char *fresh, const struct kept_state *state,
                      const struct buf *bytes)
{
    if (state->kind == KEPT_LINK) {
        return symlinkat(buf_z(bytes), parent, fresh);
    }
    int fd = openat(parent, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc =
        fd >= 0 && path_write_fd(fd, buf_str(bytes)) == 0 && fchmod(fd, state->mode) == 0 ? 0 : -1;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

int kept_put(const struct kept_store *store, int dirfd, const char *rel,
             const struct kept_state *state, struct err *e)
{
    static const char fresh[] = ".afloat-rewind";
    struct buf bytes = {.max = SIZE_MAX};
    const char *name;
    assert(state->kind != KEPT_NOT);
    if (state->kind == KEPT_ABSENT) {
        return put_absent(dirfd, rel, e);
    }
    int rc = read_content(store, state->hash, &bytes, e);
    int parent = rc == 0 ? open_parent(dirfd, rel, &name, NULL) : rc;
    if (rc == 0 && parent < 0) { // most directories are there
        rc = make_parents(dirfd, rel, e);
        parent = rc == 0 ? open_parent(dirfd, rel, &name, e) : rc;
    }
    if (parent >= 0) {
        int made = make_fresh(parent, fresh, state, &bytes);
        if (made < 0 && errno == EEXIST) { // of a rewind that was killed
            unlinkat(parent, fresh, 0);
            made = make_fresh(parent, fresh, state, &bytes);
        }
        if (made < 0 || take_place(parent, fresh, name) < 0) {
            int why = errno;
            unlinkat(parent, fresh, 0);
            errno = why;
            rc = why == ENOTEMPTY
                     ? err_set(e, ERR_CONFLICT, "'%s' is a directory that is not empty", rel)
                     : err_sys(e, "cannot write '%s'", rel);
        }
        close(parent);
    }
    buf_fini(&bytes);
    return parent < 0 ? parent : rc;
}
