// The files of one version of a plugin, and what they are.
//
// Read once, on a worker: from the place where the user keeps them, or from the kept versions; files that
// the watcher named as it read them. From then on nobody goes back to the disk for them, so that what runs is
// what was hashed. A stamp tells whether
// looking again can be spared: it is a number over the names, sizes and times of everything there, so
// that a tree that did not change costs some stats and no reading.
//
// A directory holds more than what loading depends on: caches, logs, notes. The *inputs* of a version are
// its code, its manifest, and the parts that the manifest names; two contents with the same inputs load
// alike. All of the tree is kept and trusted all the same, since code may look at any of it later.
//
// Invariant: counted on the loop only; a worker hands over what it made whole.

#include <assert.h>
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
    return c;
}

// ---- inputs -------------------------------------------------------------------------------------

/// Is `file` the part at `part`, or in it? `part` may be NULL.
static bool is_part(const char *file, const char *part)
{
    return part != NULL && path_below(part, file) != NULL;
}

/// Is `file` beside `part`, or below what is? That of `front/index.js` is all of `front/`.
static bool is_beside(const char *file, const char *part)
{
    struct str dir = part != NULL ? path_dir(str_of(part)) : STR(".");
    return !str_eqz(dir, ".") && strncmp(file, dir.p, dir.n) == 0 && file[dir.n] == '/';
}

static bool is_input(const struct plugin_shape *s, const char *file)
{
    return plugin_lang_of(str_of(file)) != LANG_NONE || strcmp(file, "plugin.json") == 0 ||
           strcmp(file, "package.json") == 0 || is_part(file, s->server) ||
           is_part(file, s->prompt) || is_part(file, s->skills) || is_part(file, s->ui) ||
           is_part(file, s->front) || is_beside(file, s->front);
}

/// What cannot be resolved may want any file that is not there yet: all of them are its inputs.
static void hash_inputs(struct content *c)
{
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    sha256_init(&sum);
    vec_foreach (f, &c->tree.files) {
        if (!c->sound || is_input(&c->shape, f->path)) {
            uint64_t n = f->bytes.n;
            sha256_add(&sum, f->path, strlen(f->path) + 1);
            sha256_add(&sum, &n, sizeof n);
            sha256_add(&sum, f->bytes.p, f->bytes.n);
        }
    }
    sha256_final(&sum, hash);
    sha256_hex(hash, c->inputs);
}

bool content_same(const struct content *a, const struct content *b)
{
    return a->built == b->built && (a->tree.foreign == NULL) == (b->tree.foreign == NULL) &&
           strcmp(a->inputs, b->inputs) == 0;
}

// ---- reading ------------------------------------------------------------------------------------

static void resolve(struct content *c, const char *path)
{
    int rc = manifest_resolve(&c->shape, &c->arena, &c->tree, path, c->built, &c->fault);
    c->sound = rc == 0;
    hash_inputs(c);
    if (c->sound && c->shape.front != NULL) {
        front_hash(&c->tree, c->shape.front, c->front_hash);
    }
}

static enum gen_code code_of(int rc)
{
    return rc == ERR_NOT_FOUND ? DIAG_ENTRY_MISSING
           : rc == ERR_DENIED  ? DIAG_PATH_ESCAPE
                               : DIAG_LOAD_FAILED;
}

/// The watcher alone knows when a file is whole: what it read counts, and a file that is being written again
/// already is read when it rests.
static bool put_dirty(struct tree *t, const char *path, const struct dirty_file *dirty, size_t n)
{
    bool older = false;
    size_t len = strlen(path);
    for (size_t i = 0; i < n; i++) {
        const struct dirty_file *d = &dirty[i];
        if (d->bytes != NULL && look__is_beneath(d->path, path)) {
            struct str rel = str_from(str_of(d->path), MIN(len + 1, strlen(d->path)));
            older = tree_put(t, rel, (struct str){d->bytes, d->n}) || older;
        }
    }
    return older;
}

struct content *content_read(const char *path, bool built, const struct dirty_file *dirty, size_t n,
                             bool *older, struct gen_diag *fault)
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
    *older = put_dirty(&c->tree, path, dirty, n);
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
    assert(c->refs != 0);
    c->refs++;
    return c;
}

void content_unref(struct content *c)
{
    assert(c == NULL || c->refs != 0);
    if (c != NULL && --c->refs == 0) {
        front_output_unref(c->front);
        gen_diag_fini(&c->front_fault);
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

/// A sum over what lies in `fd`, which is closed: the order in which names come does not matter. A link is
/// a file: what it leads to is stamped where it is, or is none of the plugin's. Beyond `*left` names a tree
/// cannot be read anyway.
static uint64_t stamp_dir(int fd, unsigned depth, size_t *left)
{
    static const char *const passed_over[] = {".",    "..",           ".git",       ".hg",
                                              ".svn", "node_modules", "__pycache__"};
    DIR *d = fdopendir(fd);
    uint64_t sum = 0;
    if (d == NULL) {
        close(fd);
        return 1;
    }
    for (const struct dirent *de; *left > 0 && (de = readdir(d)) != NULL;) {
        struct stat st;
        --*left;
        if (str_lookup(str_of(de->d_name), passed_over, ARRAY_LEN(passed_over)) >= 0 ||
            fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        sum += stamp_stat(&st, str_of(de->d_name));
        if (S_ISDIR(st.st_mode) && depth < TREE_DEPTH) {
            int sub = openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            sum += sub >= 0 ? mix(stamp_dir(sub, depth + 1, left), 7) : 3;
        }
    }
    closedir(d);
    return sum;
}

uint64_t content_stamp(const char *path)
{
    struct stat st;
    size_t left = (size_t)4 * TREE_FILES;
    if (stat(path, &st) < 0) {
        return 0;
    }
    uint64_t h = stamp_stat(&st, path_base(str_of(path)));
    if (S_ISDIR(st.st_mode)) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        h += fd >= 0 ? stamp_dir(fd, 0, &left) : 5;
    }
    return h != 0 ? h : 1;
}

char *plugin_namespace(const struct plugin_code *code)
{
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    if (code->project == NULL) {
        return xstrdup(code->name);
    }
    sha256_of(str_of(code->project), hash);
    return xasprintf("%s@%.12s", code->name, sha256_hex(hash, hex));
}
