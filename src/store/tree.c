// Read a plugin's files once, whole.
//
// A program that hashes a path and then opens it again may trust one thing and run another. So the bytes
// are kept with their hash, and the reading itself must not be fooled:
//
//     walk: each name ── O_PATH beneath the root ── directory: go down
//                                                ── regular file: stamp, read, stamp
//     then: every stamp once more: did anything change since we passed it?
//
// The second look makes sure that all files are of one moment: when two files are saved while we read, we
// could otherwise get the old text of the first and the new text of the second, a tree that never existed.
//
// Invariants:
//   - every open goes through path_open_beneath(): no name and no link leads out of the root.
//   - the work is bounded: files, bytes, directories entered (links can make few into many) and depth.
//   - FIFOs, sockets and devices are looked at, never opened.
//
// What it does not see: a write within the same tick of the file system's clock as both looks. The
// watcher reports it, and the tree is read again.

#include "store/tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "store/tree_int.h"

enum { CHANGED = -EAGAIN }; // something moved while we read: worth another try

struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
};

/// What was passed on the way, to be looked at again in the end.
struct passed {
    const char *path; // relative to the root, "." for itself
    struct stamp stamp;
};

struct reader {
    struct tree *t;
    int root;
    size_t bytes;
    vec(struct passed) passed;
    vec(struct stamp) above; // the directories that we are in
    size_t dirs;             // entered so far
    struct err *e;
};

static struct stamp stamp_of(const struct stat *st)
{
    return (struct stamp){st->st_dev, st->st_ino, st->st_size, st->st_mtim, st->st_ctim};
}

static bool stamp_same(const struct stamp *a, const struct stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec &&
           a->ctime.tv_sec == b->ctime.tv_sec && a->ctime.tv_nsec == b->ctime.tv_nsec;
}

static bool is_passed_over(struct str name)
{
    static const char *const names[] = {".git",         ".hg",         ".svn",
                                        "node_modules", "__pycache__", "4913"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eqz(name, names[i])) {
            return true;
        }
    }
    return str_ends(name, "~") || str_starts(name, ".#") ||
           (str_starts(name, ".") && str_ends(name, ".swp"));
}

/// True for a directory that is one of those we are in: a link that leads up.
static bool is_above(const struct reader *r, const struct stat *st)
{
    vec_foreach (a, &r->above) {
        if (a->dev == st->st_dev && a->ino == st->st_ino) {
            return true;
        }
    }
    return false;
}

static void note_owner(struct tree *t, const struct stat *st, const char *path)
{
    if (t->foreign == NULL && tree_is_foreign(st)) {
        t->foreign = arena_strdup(&t->arena, str_of(path));
    }
}

static int too_large(struct reader *r, const char *what, int limit)
{
    return err_set(r->e, ERR_TOO_LARGE, "more than %d %s", limit, what);
}

/// Fill `out` with the whole of `fd`; CHANGED when it is no longer of its size.
static int read_exactly(int fd, struct str out)
{
    char *at = (char *)(uintptr_t)out.p;
    char spare;
    for (size_t left = out.n;;) {
        ssize_t n = read(fd, left != 0 ? at : &spare, left != 0 ? left : 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0 || left == 0) {
            return n == 0 && left == 0 ? 0 : CHANGED;
        }
        at += n;
        left -= (size_t)n;
    }
}

static int add_file(struct reader *r, int fd, const struct stat *st, const char *path)
{
    struct tree *t = r->t;
    size_t size = (size_t)st->st_size;
    if (size > TREE_FILE_BYTES) {
        return err_set(r->e, ERR_TOO_LARGE, "'%s' is larger than %d MiB", path,
                       TREE_FILE_BYTES >> 20);
    }
    r->bytes += size;
    if (r->bytes > TREE_BYTES) {
        return too_large(r, "MiB", TREE_BYTES >> 20);
    }
    if (t->files.n == TREE_FILES) {
        return too_large(r, "files", TREE_FILES);
    }
    struct str bytes = {arena_alloc(&t->arena, size + 1), size};
    int rc = read_exactly(fd, bytes);
    if (rc == 0) {
        struct tree_file f = {path, bytes, (st->st_mode & S_IXUSR) != 0};
        struct passed p = {path, stamp_of(st)};
        vec_push(&t->files, f);
        vec_push(&r->passed, p);
        note_owner(t, st, path);
    }
    return rc == 0 || rc == CHANGED ? rc
                                    : err_set(r->e, rc, "cannot read '%s': %s", path, err_text(rc));
}

/// Open for reading what was a regular file at the last look. A FIFO put there since does not hang us.
static int read_file(struct reader *r, const char *path)
{
    struct stat st;
    int fd = path_open_beneath(r->root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, r->e);
    if (fd == -ENOENT || fd == -ELOOP) {
        return CHANGED;
    }
    if (fd < 0) {
        return fd;
    }
    int rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? add_file(r, fd, &st, path) : CHANGED;
    close(fd);
    return rc;
}

static int read_dir(struct reader *r, const char *path, unsigned depth);

/// What cannot be opened may be a link that leads nowhere, which is passed over, or out, which is not.
static int explain(struct reader *r, int code, const char *path)
{
    struct stat st;
    bool is_link = fstatat(r->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (code == -EXDEV) {
        return err_set(r->e, ERR_DENIED, "symbolic link '%s' leads out of the plugin", path);
    }
    if (code == -ENOENT || code == -ELOOP || code == -ENOTDIR) {
        return is_link ? 0 : CHANGED;
    }
    return code;
}

static int read_entry(struct reader *r, const char *path, unsigned depth)
{
    struct stat st;
    int fd = path_open_beneath(r->root, path, O_PATH, 0, r->e);
    if (fd < 0) {
        return explain(r, fd, path);
    }
    int rc = fstat(fd, &st);
    close(fd);
    if (rc != 0) {
        return CHANGED;
    }
    if (S_ISREG(st.st_mode)) {
        return read_file(r, path);
    }
    return S_ISDIR(st.st_mode) && !is_above(r, &st) ? read_dir(r, path, depth + 1) : 0;
}

static int read_names(struct reader *r, DIR *d, const char *path, unsigned depth)
{
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        struct dirent *de = readdir(d);
        if (de == NULL) {
            return errno == 0 ? 0 : err_sys(r->e, "cannot list '%s'", path);
        }
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
            is_passed_over(str_of(de->d_name))) {
            continue;
        }
        const char *sub = strcmp(path, ".") == 0
                              ? arena_strdup(&r->t->arena, str_of(de->d_name))
                              : arena_printf(&r->t->arena, "%s/%s", path, de->d_name);
        if (de->d_type == DT_LNK) {
            r->t->link = sub;
        }
        rc = read_entry(r, sub, depth);
    }
    return rc;
}

static int read_dir(struct reader *r, const char *path, unsigned depth)
{
    struct stat st;
    if (depth >= TREE_DEPTH) {
        return too_large(r, "directories deep", TREE_DEPTH);
    }
    if (++r->dirs > TREE_FILES) {
        return too_large(r, "directories", TREE_FILES);
    }
    int fd = path_open_beneath(r->root, path, O_RDONLY | O_DIRECTORY, 0, r->e);
    if (fd < 0) {
        return fd == -ENOENT || fd == -ENOTDIR ? CHANGED : fd;
    }
    DIR *d = fdopendir(fd);
    if (d == NULL || fstat(fd, &st) != 0) {
        int rc = err_sys(r->e, "cannot list '%s'", path);
        d != NULL ? closedir(d) : close(fd);
        return rc;
    }
    struct passed p = {path, stamp_of(&st)};
    vec_push(&r->passed, p);
    vec_push(&r->above, p.stamp);
    note_owner(r->t, &st, path);
    int rc = read_names(r, d, path, depth);
    r->above.n--;
    closedir(d);
    return rc;
}

/// Is everything still as it was when we passed it?
static int look_again(struct reader *r)
{
    vec_foreach (p, &r->passed) {
        struct stat st;
        if (fstatat(r->root, p->path, &st, 0) != 0) {
            return CHANGED;
        }
        struct stamp now = stamp_of(&st);
        if (!stamp_same(&p->stamp, &now)) {
            return CHANGED;
        }
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct tree_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static void tree_init(struct tree *t)
{
    memset(t, 0, sizeof *t);
}

/// One try. `dir` is the root itself, or for a single file the directory that it is in.
static int read_once(struct tree *t, int dir, const char *name, struct err *e)
{
    struct reader r = {.t = t, .root = dir, .e = e};
    tree_init(t);
    t->is_file = name != NULL;
    int rc =
        t->is_file ? read_file(&r, arena_strdup(&t->arena, str_of(name))) : read_dir(&r, ".", 0);
    if (rc == 0) {
        rc = look_again(&r);
    }
    if (rc == 0) {
        if (t->files.n != 0) {
            qsort(t->files.p, t->files.n, sizeof *t->files.p, by_path);
        }
        tree__hash(t);
    } else {
        tree_fini(t);
    }
    vec_fini(&r.passed);
    vec_fini(&r.above);
    return rc;
}

static int read_twice(struct tree *t, int dir, const char *name, struct err *e)
{
    int rc = read_once(t, dir, name, e);
    if (rc == CHANGED) {
        rc = read_once(t, dir, name, e);
    }
    return rc == CHANGED ? err_set(e, ERR_CONFLICT, "files changed while they were read") : rc;
}

/// Read what is at the real path `real`, from the directory `root` around it, which no link may leave.
static int read_real(struct tree *t, const char *root, const char *real, bool is_file,
                     struct err *e)
{
    const char *below = path_below(root, real);
    assert(below != NULL);
    const char *rel = below[0] != '\0' ? below : ".";
    int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) {
        return err_sys(e, "cannot open '%s'", root);
    }
    int dir = is_file ? -1 : path_open_beneath(top, rel, O_RDONLY | O_DIRECTORY, 0, e);
    int rc = is_file ? read_twice(t, top, rel, e) : dir < 0 ? dir : read_twice(t, dir, NULL, e);
    if (dir >= 0) {
        close(dir);
    }
    close(top);
    return rc;
}

static void add_size(struct sha256 *s, uint64_t n)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu ", (unsigned long long)n);
    sha256_add(s, text, (size_t)len);
}

// Every part is preceded by its length: no two trees give the same bytes.
void tree__hash(struct tree *t)
{
    uint8_t digest[SHA256_SIZE];
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, t->is_file ? "file " : "tree ", 5);
    vec_foreach (f, &t->files) {
        add_size(&s, strlen(f->path));
        sha256_add(&s, f->path, strlen(f->path));
        sha256_add(&s, f->executable ? "x" : "-", 1);
        add_size(&s, f->bytes.n);
        sha256_add(&s, f->bytes.p, f->bytes.n);
    }
    sha256_final(&s, digest);
    sha256_hex(digest, t->hash);
}

bool tree_is_foreign(const struct stat *st)
{
    bool theirs = st->st_uid != geteuid() && st->st_uid != 0;
    // in a sticky directory each user can remove their own files only
    bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0;
    bool group = (st->st_mode & S_IWGRP) != 0 && st->st_gid != geteuid();
    return theirs || (!sticky && (group || (st->st_mode & S_IWOTH) != 0));
}

/// Read `path`, with `root` only where that is around it. A single file has the name that it has in `path`, whatever
/// link leads to it.
static int read_path(struct tree *t, const char *root, const char *path, struct err *e)
{
    struct stat st;
    struct err why;
    tree_init(t);
    bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    if (stat(path, &st) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? err_set(e, ERR_NOT_FOUND, "there is no '%s'", path)
                   : err_sys(e, "cannot read '%s'", path);
    }
    char *real = realpath(path, NULL);
    char *dir = real != NULL ? str_dup(path_dir(str_of(real))) : NULL;
    int rc;
    if (real == NULL) {
        rc = err_sys(&why, "cannot resolve it");
    } else if (root != NULL && path_below(root, real) == NULL) {
        rc = err_set(&why, ERR_DENIED, "it leads out of '%s'", root);
    } else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        rc = err_set(&why, ERR_UNSUPPORTED, "neither a file nor a directory");
    } else {
        rc = read_real(t, root != NULL ? root : dir, real, S_ISREG(st.st_mode), &why);
    }
    if (rc == 0 && t->is_file) {
        t->files.p[0].path = arena_strdup(&t->arena, path_base(str_of(path)));
        tree__hash(t);
    }
    if (rc == 0 && is_link) {
        t->link = arena_strdup(&t->arena, path_base(str_of(path)));
    }
    if (rc == 0 &&
        stat(dir, &st) == 0) { // who may write the directory that it is in may replace it
        note_owner(t, &st, dir);
    }
    free(dir);
    free(real);
    return rc < 0 ? err_set(e, rc, "cannot read '%s': %s", path, why.msg) : 0;
}

int tree_read(struct tree *t, const char *path, struct err *e)
{
    return read_path(t, NULL, path, e);
}

int tree_read_beneath(struct tree *t, const char *root, const char *path, struct err *e)
{
    return read_path(t, root, path, e);
}

void tree_of_file(struct tree *t, const char *name, struct str bytes)
{
    tree_init(t);
    struct tree_file f = {arena_strdup(&t->arena, str_of(name)), arena_str(&t->arena, bytes),
                          false};
    t->is_file = true;
    vec_push(&t->files, f);
    tree__hash(t);
}

void tree_fini(struct tree *t)
{
    vec_fini(&t->files);
    arena_fini(&t->arena);
    t->hash[0] = '\0';
}

const struct tree_file *tree_find(const struct tree *t, struct str path)
{
    size_t lo = 0, hi = t->files.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = str_cmp(str_of(t->files.p[mid].path), path);
        if (order == 0) {
            return &t->files.p[mid];
        }
        if (order < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return NULL;
}

bool tree_put(struct tree *t, struct str path, struct str bytes)
{
    const struct tree_file *found = t->is_file ? t->files.p : tree_find(t, path);
    if (found == NULL || str_eq(found->bytes, bytes)) {
        return false;
    }
    t->files.p[found - t->files.p].bytes = arena_str(&t->arena, bytes);
    tree__hash(t);
    return true;
}
