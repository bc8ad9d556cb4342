// What threads do for a watch: read directories, find links' targets, look at files.
//
// A look is the only place where a file is opened, and it answers one question: is this a whole file
// with other bytes than before?
//
//     stat ─> known stamp? ──> same        nothing happened
//       └──> a program is still writing, or may be? ──> held
//              └──> read and hash ─> stat again: moved meanwhile? ──> held
//                                      └──> read
//
// Whether it rests: the kernel grants a read lease only when no process has the file open for writing, so we
// ask for one and return it at once. With a writer the file must be still for OPEN_REST_MS; where leases are
// not available (another user's file, network mounts) REST_MS since the last change must do.
//
// The order matters: a directory is first watched and then read, a link's way is first watched and then
// followed. So anything that happens after the reading is an event.
//
// It never touches the tree. It reads the errand and the watch's options, which do not change, and fills the
// errand.

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "watch/watch_int.h"

enum { LINKS_MAX = 40, CHUNK = 64 * 1024 };

// file systems that other machines can change without this kernel noticing
static const uint32_t remote_magic[] = {
    0x00006969, // nfs
    0x0000517b, // smb
    0xff534d42, // cifs
    0xfe534d42, // smb2
    0x65735546, // fuse
    0x01021997, // 9p
    0x00c36400, // ceph
    0x5346414f, // afs
    0x73757245, // coda
    0x0bd00bd0, // lustre
    0x01161970, // gfs2
    0x7461636f, // ocfs2
    0x786f4256, // vboxsf
};

static int64_t to_ns(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct watch_stamp stamp_of(const struct stat *st)
{
    return (struct watch_stamp){.dev = st->st_dev,
                                .ino = st->st_ino,
                                .size = (uint64_t)st->st_size,
                                .mtime = to_ns(st->st_mtim),
                                .ctime = to_ns(st->st_ctim)};
}

static bool stamp_eq(const struct watch_stamp *a, const struct watch_stamp *b)
{
    return memcmp(a, b, sizeof *a) == 0; // no padding: five words
}

static int add_watch(const struct watch_job *job, const char *path, uint32_t mask)
{
    if (job->fd < 0) {
        return -ENOSYS;
    }
    int wd = inotify_add_watch(job->fd, path, mask);
    return wd >= 0 ? wd : -errno;
}

static bool is_remote(const struct statfs *fs)
{
    bool remote = false;
    for (size_t i = 0; i < ARRAY_LEN(remote_magic); i++) {
        remote |= (uint32_t)fs->f_type == remote_magic[i];
    }
    return remote;
}

// ---- the way to a target ---------------------------------------------------------------------

/// A walk over the parts of a path, links followed one by one. `at` is a real directory.
struct errand_way {
    struct watch_job *job;
    struct errand *errand;
    char *at;
    char *rest; // parts still to go
    unsigned links;
};

static void way_go(struct errand_way *v, char *at)
{
    free(v->at);
    v->at = at;
}

static bool way_follow(struct errand_way *v, const char *link, const char *rest)
{
    char target[PATH_MAX];
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n <= 0 || ++v->links > LINKS_MAX) {
        return false;
    }
    target[n] = '\0';
    char *whole = xasprintf("%s/%s", target, rest);
    free(v->rest);
    v->rest = whole;
    if (target[0] == '/') {
        way_go(v, xstrdup("/"));
    }
    return true;
}

/// Watch `here` itself: a directory tells by itself when it goes, and what happens beside it would
/// wake us for nothing. False when it is no directory, or no longer.
static bool watch_self(struct errand_way *v, const char *here, struct hop *hop, struct stat *st)
{
    if (lstat(here, st) < 0 || !S_ISDIR(st->st_mode)) {
        return false;
    }
    *hop = (struct hop){.wd = add_watch(v->job, here, NOTIFY_SELF), .name = ""};
    if (hop->wd < 0) {
        return false;
    }
    vec_push(&v->errand->hops, *hop);
    return lstat(here, st) == 0 && S_ISDIR(st->st_mode);
}

/// Watch the directory that contains `name`, then look what it is.
static bool watch_place(struct errand_way *v, const char *here, const char *name, struct hop *hop,
                        struct stat *st)
{
    *hop = (struct hop){.wd = add_watch(v->job, v->at, NOTIFY_PLACE),
                        .name = arena_strdup(&v->job->arena, str_of(name))};
    vec_push(&v->errand->hops, *hop);
    return lstat(here, st) == 0;
}

/// One part further, watched. False at the end of the way.
static bool way_step(struct errand_way *v, const char *name, const char *rest)
{
    struct stat st;
    struct statfs fs;
    struct hop hop;
    char *here = path_join(v->at, name);
    bool more = watch_self(v, here, &hop, &st) || watch_place(v, here, name, &hop, &st);
    bool unsure = !more && errno != ENOENT && errno != ENOTDIR && errno != EACCES;
    // a directory that we may pass but not read gives no events; that matters only at the end
    bool blind = unsure || (hop.wd < 0 && (hop.wd != -EACCES || !more));
    blind = blind || (statfs(v->at, &fs) == 0 && is_remote(&fs));
    if (more && S_ISREG(st.st_mode)) { // its writes matter too
        blind = blind || add_watch(v->job, v->at, NOTIFY_ALL) < 0;
    }
    v->errand->blind = v->errand->blind || blind;
    if (more && S_ISLNK(st.st_mode)) {
        more = way_follow(v, here, rest);
        free(here);
        return more;
    }
    char *left = xstrdup(rest);
    free(v->rest);
    v->rest = left;
    way_go(v, here);
    return more && S_ISDIR(st.st_mode);
}

/// Walk `rest` from the real directory `at` on; both are owned by the walk.
static void way_walk(struct watch_job *job, struct errand *t, char *at, char *rest)
{
    struct errand_way v = {.job = job, .errand = t, .at = at, .rest = rest};
    bool more = true;
    while (more) {
        struct str left = str_of(v.rest + strspn(v.rest, "/"));
        if (left.n == 0) {
            break;
        }
        char *name = str_dup(str_cut(&left, '/'));
        char *after = str_dup(left);
        if (strcmp(name, "..") == 0) {
            way_go(&v, str_dup(path_dir(str_of(v.at))));
        }
        if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0) {
            free(v.rest);
            v.rest = xstrdup(after);
        } else {
            more = way_step(&v, name, after);
        }
        free(name);
        free(after);
    }
    free(v.at);
    free(v.rest);
}

/// Find and watch the way to the target of the link at `path`.
static void follow_link(struct watch_job *job, struct errand *t)
{
    char target[PATH_MAX];
    ssize_t n = readlink(t->path, target, sizeof target - 1);
    if (n <= 0) {
        return;
    }
    target[n] = '\0';
    char *dir = str_dup(path_dir(str_of(t->path)));
    char *real = target[0] == '/' ? xstrdup("/") : realpath(dir, NULL);
    if (real != NULL) {
        way_walk(job, t, real, xstrdup(target));
    } else {
        t->blind = true;
    }
    free(dir);
}

// ---- scans -----------------------------------------------------------------------------------

/// Find out what `name` is, and fill `en`. False when it is nothing for us; sets t->rc when we
/// could not find out.
static bool classify(const struct watch *w, struct errand *t, int fd, const struct dirent *de,
                     struct watch_entry *en)
{
    struct stat st;
    bool link = de->d_type == DT_LNK;
    if (de->d_type == DT_DIR) {
        en->kind = ENTRY_DIR;
        return w->opts.recursive;
    }
    if ((de->d_type == DT_REG || (link && !w->opts.recursive)) && !errand__matches(w, en->name)) {
        return false;
    }
    if (fstatat(fd, en->name, &st, link ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
        en->kind = ENTRY_DANGLING;
        en->ino = 0;
        t->rc = errno == ENOENT || errno == ELOOP || errno == EACCES ? t->rc : -errno;
        return link;
    }
    if (S_ISLNK(st.st_mode)) { // a file system that does not tell types
        return classify(w, t, fd, &(struct dirent){.d_type = DT_LNK}, en);
    }
    en->kind = S_ISDIR(st.st_mode) ? link ? ENTRY_LINKED_DIR : ENTRY_DIR : ENTRY_FILE;
    en->ino = st.st_ino;
    en->stamp = stamp_of(&st);
    return S_ISDIR(st.st_mode) ? w->opts.recursive
                               : S_ISREG(st.st_mode) && errand__matches(w, en->name);
}

static void add_entry(struct watch_job *job, struct errand *t, int fd, const struct dirent *de)
{
    struct watch_entry en = {.name = de->d_name, .ino = de->d_ino};
    if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0 ||
        !classify(job->watch, t, fd, de, &en)) {
        return;
    }
    char *path = path_join(t->path, de->d_name);
    bool is_dir = en.kind == ENTRY_DIR || en.kind == ENTRY_LINKED_DIR;
    if (errand__wanted(job->watch, path, is_dir)) {
        en.name = arena_strdup(&job->arena, str_of(de->d_name));
        vec_push(&t->entries, en);
    }
    free(path);
}

/// All names of the directory. A watch of one file asks for that name alone: a thousand of them in one
/// directory would read it a thousand times.
static void read_names(struct watch_job *job, struct errand *t, DIR *dir)
{
    const struct watch_opts *o = &job->watch->opts;
    if (!o->recursive && o->pattern != NULL && strchr(o->pattern, '*') == NULL) {
        struct dirent de = {.d_type = DT_UNKNOWN};
        size_t n = strlen(o->pattern);
        if (n < sizeof de.d_name) { // a longer name cannot exist
            memcpy(de.d_name, o->pattern, n);
            add_entry(job, t, dirfd(dir), &de);
        }
        return;
    }
    for (const struct dirent *de; t->rc == 0 && (errno = 0, de = readdir(dir)) != NULL;) {
        add_entry(job, t, dirfd(dir), de);
    }
    if (t->rc == 0 && errno != 0) { // not read to its end: counts as not read
        t->rc = -errno;
    }
}

static void scan(struct watch_job *job, struct errand *t)
{
    struct stat st;
    struct statfs fs;
    if (t->is_root) {
        way_walk(job, t, xstrdup("/"), xstrdup(t->path));
    } else if (t->linked) {
        follow_link(job, t);
        // a link that leads to the root or above it shows what is there already
        char *target = realpath(t->path, NULL), *root = realpath(job->watch->opts.path, NULL);
        bool loops = target != NULL && root != NULL && path_below(target, root) != NULL;
        free(target);
        free(root);
        if (loops) {
            t->rc = -ELOOP;
            return;
        }
    }
    t->wd = add_watch(job, t->path, NOTIFY_ALL);
    DIR *dir = opendir(t->path);
    if (dir == NULL) {
        t->rc = -errno;
        return;
    }
    if (fstat(dirfd(dir), &st) < 0) {
        t->rc = -errno;
    } else {
        t->found = stamp_of(&st);
        t->blind = t->blind || t->wd < 0 || (fstatfs(dirfd(dir), &fs) == 0 && is_remote(&fs));
    }
    if (t->rc == 0) {
        read_names(job, t, dir);
    }
    closedir(dir);
}

// ---- looks -----------------------------------------------------------------------------------

enum writers { WRITERS_NONE, WRITERS_SOME, WRITERS_UNKNOWN };

static enum writers ask_writers(int fd)
{
    // the signal of a broken lease: its usual one would end us, this one is ignored unless asked for
    if (fcntl(fd, F_SETSIG, SIGURG) < 0) {
        return WRITERS_UNKNOWN;
    }
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) {
        return errno == EAGAIN ? WRITERS_SOME : WRITERS_UNKNOWN;
    }
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return WRITERS_NONE;
}

static bool is_at_rest(const struct watch *w, const struct errand *t, int fd)
{
    uint64_t rest = MAX(w->opts.pace.debounce_ms, (unsigned)REST_MS);
    uint64_t still = stamp_eq(&t->found, &t->seen) ? t->rested_ms : 0;
    int64_t age = time_wall_ms() - t->found.ctime / 1000000;
    bool emptied = t->found.size == 0 && t->known && t->stamp.size != 0; // the rest often follows
    if (!t->check && emptied) {
        return false;
    }
    switch (ask_writers(fd)) {
    case WRITERS_NONE: return true;
    case WRITERS_SOME: return still >= MAX(rest, (uint64_t)OPEN_REST_MS);
    case WRITERS_UNKNOWN: break;
    }
    return !t->check || still >= rest || age >= (int64_t)rest;
}

/// Read `fd` to its end into the hash, and into `keep` as far as it takes it.
static int read_all(const struct watch_job *job, int fd, struct sha256 *hash, struct buf *keep)
{
    char chunk[CHUNK];
    uint64_t total = 0;
    while (!atomic_load(&job->given_up)) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? 0 : -errno;
        }
        sha256_add(hash, chunk, (size_t)n);
        buf_add(keep, chunk, (size_t)n);
        total += (uint64_t)n;
        if (total > WATCH_HASH_MAX) {
            return -EFBIG; // it grew while we read
        }
    }
    return -ECANCELED;
}

static enum verdict read_file(const struct watch_job *job, struct errand *t, int fd)
{
    const struct watch *w = job->watch;
    struct sha256 hash;
    struct buf keep = {.max = w->opts.want_bytes ? w->opts.bytes_max : 0};
    struct stat st;
    if (t->found.size > WATCH_HASH_MAX) {
        return LOOK_READ;
    }
    sha256_init(&hash);
    t->rc = read_all(job, fd, &hash, &keep);
    if (t->rc == 0 && fstat(fd, &st) < 0) {
        t->rc = -errno;
    }
    enum verdict v = LOOK_FAILED;
    if (t->rc == 0) {
        struct watch_stamp after = stamp_of(&st);
        v = stamp_eq(&after, &t->found) ? LOOK_READ : LOOK_HELD;
    }
    if (v == LOOK_READ) {
        sha256_final(&hash, t->hash);
        if (w->opts.want_bytes && buf_ok(&keep)) {
            t->bytes = buf_take(&keep, NULL);
        }
    }
    buf_fini(&keep);
    return v;
}

static enum verdict look_at(const struct watch_job *job, struct errand *t, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        t->rc = -errno;
        return LOOK_FAILED;
    }
    if (S_ISDIR(st.st_mode)) {
        return LOOK_DIR;
    }
    if (!S_ISREG(st.st_mode)) {
        t->rc = -ENOENT; // a socket, a device: no file for us
        return LOOK_FAILED;
    }
    t->found = stamp_of(&st);
    if (t->known && stamp_eq(&t->found, &t->stamp)) {
        return LOOK_SAME;
    }
    return is_at_rest(job->watch, t, fd) ? read_file(job, t, fd) : LOOK_HELD;
}

static void look(struct watch_job *job, struct errand *t)
{
    struct stat st;
    t->verdict = LOOK_FAILED;
    if (lstat(t->path, &st) < 0) {
        t->rc = -errno;
        return;
    }
    t->is_link = S_ISLNK(st.st_mode);
    if (t->is_link && !t->probe) {
        follow_link(job, t);
    }
    if (t->is_link && stat(t->path, &st) < 0) {
        t->rc = -errno;
        t->verdict = t->probe && errno == ENOENT ? LOOK_DIR : LOOK_FAILED; // leads nowhere yet
        return;
    }
    bool ours = S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !t->probe);
    if (!ours) { // opening a device may do things
        t->rc = -ENOENT;
        return;
    }
    int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        t->rc = -errno;
        return;
    }
    t->verdict = look_at(job, t, fd);
    close(fd);
}

void errand__run(void *arg)
{
    struct watch_job *job = arg;
    assert(job->watch != NULL);
    vec_foreach (t, &job->errands) {
        t->wd = -1;
        if (atomic_load(&job->given_up)) {
            t->rc = -ECANCELED;
            t->verdict = LOOK_FAILED;
        } else if (t->file != NULL) {
            look(job, t);
        } else {
            scan(job, t);
        }
    }
}

bool errand__wanted(const struct watch *w, const char *path, bool is_dir)
{
    size_t n = strlen(w->opts.path);
    struct str rel = str_from(str_of(path), n > 1 ? n + 1 : 1);
    return !ignore_match(w->opts.ignore, rel, is_dir);
}

bool errand__matches(const struct watch *w, const char *name)
{
    return w->opts.pattern == NULL || str_glob(str_of(w->opts.pattern), str_of(name));
}
