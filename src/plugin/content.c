// The files of one version of a plugin, and what they are.
//
// Read once, on a worker: from the place where the user keeps them, or from the kept versions. From then
// on nobody goes back to the disk for them, so that what runs is what was hashed. A stamp tells whether
// looking again can be spared: it is a number over the names, sizes and times of everything there, so
// that a tree that did not change costs some stats and no reading.
//
// Invariant: counted on the loop only; a worker hands over what it made whole.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "plugin/plugins_int.h"
#include "store/versions.h"

static struct content *content_new(bool built)
{
    struct content *c = xcalloc(1, sizeof *c);
    c->refs = 1;
    c->built = built;
    arena_init(&c->arena);
    return c;
}

static void resolve(struct content *c, const char *path)
{
    int rc = manifest_resolve(&c->shape, &c->arena, &c->tree, path, c->built, &c->fault);
    c->sound = rc == 0;
}

static enum gen_code code_of(int rc)
{
    return rc == ERR_NOT_FOUND ? DIAG_ENTRY_MISSING
           : rc == ERR_DENIED  ? DIAG_PATH_ESCAPE
                               : DIAG_LOAD_FAILED;
}

struct content *content_read(const char *path, bool built, struct gen_diag *fault)
{
    struct content *c = content_new(built);
    struct err e = {0};
    int rc = tree_read(&c->tree, path, &e);
    if (rc < 0) {
        *fault =
            gen_diag_copy(&(struct gen_diag){.code = code_of(rc), .path = path, .message = e.msg});
        arena_fini(&c->arena);
        free(c);
        return NULL;
    }
    resolve(c, path);
    return c;
}

struct content *content_fetch(const char *versions, const char *hash, const char *path, bool built)
{
    struct content *c = content_new(built);
    if (versions_get(&c->tree, versions, hash, NULL) < 0) {
        arena_fini(&c->arena);
        free(c);
        return NULL;
    }
    resolve(c, path);
    return c;
}

struct content *content_ref(struct content *c)
{
    c->refs++;
    return c;
}

void content_unref(struct content *c)
{
    if (c != NULL && --c->refs == 0) {
        tree_fini(&c->tree);
        arena_fini(&c->arena);
        free(c);
    }
}

// ---- stamps -----------------------------------------------------------------------------------

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 31);
}

static uint64_t stamp_stat(const struct stat *st, struct str name)
{
    static const uint64_t seed[2] = {1, 2};
    uint64_t h = map_hash_seeded(seed, name);
    h = mix(h, (uint64_t)st->st_dev);
    h = mix(h, (uint64_t)st->st_ino);
    h = mix(h, (uint64_t)st->st_mode);
    if (!S_ISDIR(st->st_mode)) { // a directory's own times change with editors' leavings
        h = mix(h, (uint64_t)st->st_size);
        h = mix(h, (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
        h = mix(h, (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec);
    }
    return h;
}

static bool is_passed_over(const char *name)
{
    static const char *const names[] = {".",    "..",           ".git",       ".hg",
                                        ".svn", "node_modules", "__pycache__"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/// A sum over what lies in `fd`, which is closed: the order in which names come does not matter.
static uint64_t stamp_dir(int fd, unsigned depth)
{
    DIR *d = fdopendir(fd);
    uint64_t sum = 0;
    if (d == NULL) {
        close(fd);
        return 1;
    }
    for (const struct dirent *de; (de = readdir(d)) != NULL;) {
        struct stat st;
        if (is_passed_over(de->d_name) || fstatat(dirfd(d), de->d_name, &st, 0) < 0) {
            continue;
        }
        sum += stamp_stat(&st, str_of(de->d_name));
        if (S_ISDIR(st.st_mode) && depth < TREE_DEPTH) {
            int sub = openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            sum += sub >= 0 ? mix(stamp_dir(sub, depth + 1), 7) : 3;
        }
    }
    closedir(d);
    return sum;
}

uint64_t content_stamp(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        return 0;
    }
    uint64_t h = stamp_stat(&st, path_base(str_of(path)));
    if (S_ISDIR(st.st_mode)) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        h += fd >= 0 ? stamp_dir(fd, 0) : 5;
    }
    return h != 0 ? h : 1;
}
