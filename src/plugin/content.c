// The files of one version of a plugin, and what they are.
//
// They are read once, on a worker: from the user's directory (with the bytes that the watcher read, where it did) or
// from the kept versions. They are not read from the disk again, so what runs is what was hashed. A stamp, a number
// over the names, sizes and times of everything there, spares reading a tree that did not change.
//
// A directory holds more than what loading depends on: caches, logs, notes. The *inputs* of a version are
// its code, its manifest, and the parts that the manifest names; two contents with the same inputs load
// alike. The whole tree is kept and trusted, since code may read any of it later.
//
// Invariant: references are counted on the loop only; a worker hands over what it made whole.

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

// ---- inputs -------------------------------------------------------------------------------------

/// Does loading depend on `file`: code, the manifest, a part that the manifest names, or the directory of the web side
/// (all of `front/` for `front/index.js`)?
static bool is_input(const struct plugin_shape *s, const char *file)
{
    const char *const parts[] = {"plugin.json", "package.json", s->server, s->prompt,
                                 s->skills,     s->ui,          s->front};
    struct str dir = s->front != NULL ? path_dir(str_of(s->front)) : STR(".");
    bool input = plugin_lang_of(str_of(file)) != LANG_NONE ||
                 (!str_eqz(dir, ".") && strncmp(file, dir.p, dir.n) == 0 && file[dir.n] == '/');
    for (size_t i = 0; i < ARRAY_LEN(parts) && !input; i++) {
        input = parts[i] != NULL && path_below(parts[i], file) != NULL;
    }
    return input;
}

bool content_same(const struct content *a, const struct content *b)
{
    return a->built == b->built && (a->tree.foreign == NULL) == (b->tree.foreign == NULL) &&
           strcmp(a->inputs, b->inputs) == 0;
}

// ---- reading ------------------------------------------------------------------------------------

/// A content that is not sound may need any file that is not there yet: all of its files are inputs.
static void resolve(struct content *c, const char *path)
{
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    c->sound = manifest_resolve(&c->shape, &c->arena, &c->tree, path, c->built, &c->fault) == 0;
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
    if (c->sound && c->shape.front != NULL) {
        front_hash(&c->tree, c->shape.front, c->front_hash);
    }
}

struct content *content_read(const char *path, bool built, const struct dirty_file *dirty, size_t n,
                             bool *older, struct gen_diag *fault)
{
    struct content *c = content_new(built);
    struct err e = {0};
    int rc = tree_read(&c->tree, path, &e);
    if (rc < 0) {
        enum gen_code code = rc == ERR_NOT_FOUND ? DIAG_ENTRY_MISSING
                             : rc == ERR_DENIED  ? DIAG_PATH_ESCAPE
                                                 : DIAG_LOAD_FAILED;
        *fault = gen_diag_copy(&(struct gen_diag){.code = code, .path = path, .message = e.msg});
        content_unref(c);
        return NULL;
    }
    // Only the watcher knows when a file is whole: what it read counts. A file that is being written again
    // is read when it rests.
    for (size_t i = 0; i < n; i++) {
        const struct dirty_file *d = &dirty[i];
        if (d->bytes != NULL && look__is_beneath(d->path, path)) {
            struct str rel = str_from(str_of(d->path), strlen(path) + 1);
            *older = tree_put(&c->tree, rel, (struct str){d->bytes, d->n}) || *older;
        }
    }
    resolve(c, path);
    return c;
}

struct content *content_fetch(const char *versions, const char *hash, const char *path, bool built)
{
    struct content *c = content_new(built);
    if (versions_get(&c->tree, versions, hash, NULL) < 0) {
        content_unref(c);
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

/// A sum over what is in `fd`, which is closed: the order in which names come does not matter. A link is
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
