// The environment's files as one item.
//
// env.toml alone decides little: what runs and what is set also depends on the files that it includes, its script
// and its dotenv files. Trusting the first and not the others would be worthless.
//
//     .afloat/env.toml ── include ──> common.toml ── include ──> ...
//                      ── script, dotenv ──> files below the root or elsewhere
//                      ── provider ──> .envrc, devenv.nix, flake.nix, mise.toml
//     scripts and .nix files ── source, import (sources.c) ──> more of them
//
// The hash covers names and bytes of this closure, a missing file counted as missing: a file that appears
// later is a change. `provider = "auto"`, or no provider, takes every provider's file that exists: which of
// them wins depends on what is installed, trust must not.
//
// Lock files (devenv.lock, flake.lock) are left out: the providers write them while they build, and each
// build would revoke its own trust.
//
// Invariants:
//   - a name is read once, and followed once, so includes in a circle end; names and bytes are bounded.
//   - a file that does not parse is hashed as well; the code that reads it reports the error.

#include <assert.h>
#include <errno.h>

#include "base/path.h"
#include "base/toml.h"
#include "trust/sources.h"
#include "trust/trust_int.h"

enum { MOST_FILES = 256, COMPUTED_MAX = 1 << 20 };

struct env_member {
    const char *name; // clean, relative to the root
    bool missing;
    bool followed; // read as TOML, and what it names was added
    bool code;     // may read others: a script, or a provider's file
    struct str bytes;
};

struct closure {
    struct tree *t;
    const char *root;
    vec(struct env_member) members; // in the order they were found
    size_t bytes;
    bool chosen; // env.toml itself names its provider
    struct err *e;
};

/// Files of a provider; the first makes it a candidate for `auto`.
static const struct {
    const char *provider, *file;
} provider_files[] = {
    {"devenv", "devenv.nix"}, {"devenv", "devenv.yaml"}, {"nix", "flake.nix"},
    {"direnv", ".envrc"},     {"mise", "mise.toml"},
};

static int load(struct closure *c, struct env_member *m)
{
    struct buf text = {.max = TREE_FILE_BYTES};
    char *path = path_join(c->root, m->name), *dir = str_dup(path_dir(str_of(path)));
    const char *const owned[] = {path, dir}; // the file itself, and its directory
    int rc = path_read(path, &text, c->e);
    m->missing = rc == -ENOENT || rc == -ENOTDIR;
    for (size_t i = 0; i < ARRAY_LEN(owned) && c->t->foreign == NULL; i++) {
        struct stat st;
        if (stat(owned[i], &st) == 0 && tree_is_foreign(&st)) {
            c->t->foreign = arena_strdup(&c->t->arena, str_of(owned[i]));
        }
    }
    c->bytes += text.n;
    if (rc == 0 && c->bytes > TREE_BYTES) {
        rc =
            err_set(c->e, ERR_TOO_LARGE, "more than %d MiB of environment files", TREE_BYTES >> 20);
    }
    if (rc == 0) {
        m->bytes = arena_str(&c->t->arena, buf_str(&text));
    }
    buf_fini(&text);
    free(dir);
    free(path);
    return m->missing ? 0 : rc;
}

static int add_clean(struct closure *c, const char *name, size_t *at)
{
    for (*at = 0; *at < c->members.n; ++*at) {
        if (strcmp(c->members.p[*at].name, name) == 0) {
            return 0;
        }
    }
    if (c->members.n == MOST_FILES) {
        return err_set(c->e, ERR_TOO_LARGE, "more than %d environment files", MOST_FILES);
    }
    struct env_member m = {.name = arena_strdup(&c->t->arena, str_of(name))};
    int rc = load(c, &m);
    if (rc == 0) {
        vec_push(&c->members, m);
    }
    return rc;
}

/// Take a file into the closure, when it is not there already; `*at` is its index.
static int add(struct closure *c, const char *dir, struct str name, size_t *at)
{
    if (name.n == 0 || memchr(name.p, '\0', name.n) != NULL) {
        return err_set(c->e, ERR_INVALID, "the environment names a file without a name");
    }
    char *z = str_dup(name);
    char *joined = path_join(dir, z);
    char *clean = path_clean(joined);
    int rc = add_clean(c, clean, at);
    free(clean);
    free(joined);
    free(z);
    return rc;
}

static int add_code(struct closure *c, const char *name)
{
    size_t at;
    int rc = add(c, ".", str_of(name), &at);
    if (rc == 0) {
        c->members.p[at].code = true;
    }
    return rc;
}

static int follow(struct closure *c, size_t at, unsigned depth);

enum content { TOML_FILE, CODE_FILE, DATA_FILE };

/// Add what `v`, a string or an array of them, names. Values of other types are the reader's business.
static int add_named(struct closure *c, const char *dir, const struct toml *v, enum content what,
                     unsigned depth)
{
    int rc = 0;
    size_t n = v == NULL ? 0 : v->type == TOML_ARR ? v->n : v->type == TOML_STR;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct toml *it = v->type == TOML_ARR ? &v->items[i] : v;
        size_t at;
        if (it->type == TOML_STR) {
            rc = add(c, dir, it->s, &at);
            rc = rc == 0 && what == TOML_FILE ? follow(c, at, depth + 1) : rc;
        }
        if (rc == 0 && it->type == TOML_STR && what == CODE_FILE) {
            c->members.p[at].code = true;
        }
    }
    return rc;
}

/// Read a member as TOML, once, and add what it names.
static int follow(struct closure *c, size_t at, unsigned depth)
{
    assert(at < c->members.n);
    struct env_member *m = &c->members.p[at];
    struct arena a = {0};
    struct toml *root = NULL;
    int rc = 0;
    if (m->missing || m->followed) {
        return 0;
    }
    m->followed = true;
    char *dir = str_dup(path_dir(str_of(m->name)));
    if (toml_parse(&root, &a, m->bytes, NULL, NULL, NULL) == 0) { // `m` may move from here on
        const struct toml *provider = toml_get(root, "provider");
        rc = add_named(c, dir, toml_get(root, "include"), TOML_FILE, depth);
        rc = rc == 0 ? add_named(c, ".", toml_get(root, "script"), CODE_FILE, depth) : rc;
        rc = rc == 0 ? add_named(c, ".", toml_get(root, "dotenv"), DATA_FILE, depth) : rc;
        if (rc == 0 && provider != NULL && provider->type == TOML_STR) {
            // these two, or one with files, are fixed whatever is installed
            bool known = str_eqz(provider->s, "toml") || str_eqz(provider->s, "script");
            for (size_t i = 0; rc == 0 && i < ARRAY_LEN(provider_files); i++) {
                if (str_eqz(provider->s, provider_files[i].provider)) {
                    known = true;
                    rc = add_code(c, provider_files[i].file);
                }
            }
            c->chosen |= depth == 0 && known;
        }
    }
    free(dir);
    arena_fini(&a);
    return rc;
}

struct sourced {
    struct closure *c;
    int rc;
};

/// A file that another reads. What cannot be read, such as a directory, was not the name of a file.
static void add_source(const char *path, void *arg)
{
    struct sourced *s = arg;
    size_t at = 0;
    if (s->rc != 0) {
        return;
    }
    int rc = add_clean(s->c, path, &at);
    if (rc == 0) {
        s->c->members.p[at].code = true;
    }
    s->rc = rc == ERR_TOO_LARGE ? rc : 0;
}

static int by_name(const void *a, const void *b)
{
    const struct env_member *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void add_part(struct sha256 *s, struct str part)
{
    char size[24];
    int n = snprintf(size, sizeof size, "%zu ", part.n);
    sha256_add(s, size, (size_t)n);
    if (part.n != 0) {
        sha256_add(s, part.p, part.n);
    }
}

static int collect(struct closure *c)
{
    size_t at;
    int rc = add(c, ".", STR(TRUST_ENV_PATH), &at);
    if (rc < 0) {
        return rc;
    }
    if (c->members.p[at].missing) {
        c->members.n = 0; // no file named it
    } else {
        rc = follow(c, at, 0);
    }
    for (size_t i = 0; rc == 0 && !c->chosen && i < ARRAY_LEN(provider_files); i++) {
        size_t before = c->members.n; // every provider's files that exist
        rc = add_code(c, provider_files[i].file);
        if (rc == 0 && c->members.n > before && c->members.p[before].missing) {
            c->members.n = before;
        }
    }
    struct sourced s = {.c = c, .rc = rc};
    for (size_t i = 0; s.rc == 0 && i < c->members.n; i++) { // the list grows meanwhile
        struct env_member m = c->members.p[i];
        if (!m.missing && m.code) {
            trust_sources(m.name, m.bytes, add_source, &s);
        }
    }
    return s.rc == 0 && c->members.n == 0
               ? err_set(c->e, ERR_NOT_FOUND, "'%s' has no environment", c->root)
               : s.rc;
}

void trust_env_token(const char *provider, char out[SHA256_HEX])
{
    uint8_t digest[SHA256_SIZE];
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, "provider ", 9);
    sha256_add(&s, provider, strlen(provider));
    sha256_final(&s, digest);
    sha256_hex(digest, out);
}

void trust__env_tokens(const struct tree *t, void (*each)(void *arg, const char *token), void *arg)
{
    for (size_t i = 0; i < ARRAY_LEN(provider_files); i++) {
        char token[SHA256_HEX];
        if (tree_find(t, str_of(provider_files[i].file)) != NULL) {
            trust_env_token(provider_files[i].provider, token);
            each(arg, token);
        }
    }
}

/// What the last build ran and no text names, one path a line: files that its script sourced
/// (runtime/env/provider.bash), or that nix evaluated (env/build.c).
static void each_computed(const char *root, const char *list,
                          void (*each)(void *arg, const char *path), void *arg)
{
    struct buf text = {.max = COMPUTED_MAX};
    char *file = path_join(root, list);
    struct str rest = path_read(file, &text, NULL) == 0 ? buf_str(&text) : STR_NULL;
    for (size_t i = 0; i < MOST_FILES && rest.n != 0; i++) {
        struct str line = str_cut(&rest, '\n');
        char *path = str_dup(line);
        if (path[0] == '/' && strlen(path) == line.n) {
            each(arg, path);
        }
        free(path);
    }
    buf_fini(&text);
    free(file);
}

void trust__env_names(const char *root, void (*each)(void *arg, const char *path), void *arg)
{
    struct tree t = {0};
    struct closure c = {.t = &t, .root = root};
    (void)!collect(&c); // if one is too large or cannot be read, what was found until then
    vec_foreach (m, &c.members) {
        char *path = path_join(root, m->name);
        each(arg, path);
        free(path);
    }
    vec_fini(&c.members);
    tree_fini(&t);
    each_computed(root, ".afloat/state/sourced", each, arg);
    each_computed(root, ".afloat/state/evaluated", each, arg);
}

int trust_env_read(struct tree *t, const char *root, struct err *e)
{
    struct closure c = {.t = t, .root = root, .e = e};
    memset(t, 0, sizeof *t);
    int rc = collect(&c);
    if (rc == 0) {
        // each part has its length before it, as in a tree's hash; the first word keeps the two apart
        uint8_t digest[SHA256_SIZE];
        struct sha256 s;
        sha256_init(&s);
        sha256_add(&s, "env ", 4);
        qsort(c.members.p, c.members.n, sizeof *c.members.p, by_name);
        vec_foreach (m, &c.members) {
            add_part(&s, str_of(m->name));
            sha256_add(&s, m->missing ? "-" : "+", 1);
            add_part(&s, m->bytes);
            if (!m->missing) {
                struct tree_file f = {m->name, m->bytes, false};
                vec_push(&c.t->files, f);
            }
        }
        sha256_final(&s, digest);
        sha256_hex(digest, c.t->hash);
    } else {
        tree_fini(t);
    }
    vec_fini(&c.members);
    return rc;
}
