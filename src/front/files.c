// Which files a web side is made of, and which of them an import means.
//
// One table says for each ending how the compiler reads it and as what a browser gets it; a file with another ending
// (Lua, a database, a key) is neither compiled nor served. An import is resolved inside the tree alone, so that what
// runs in the page is what was hashed and trusted: nothing is looked up on the disk, a path that leads out of the
// tree is refused, and a package is one of those that the page itself brings.

#include "base/path.h"
#include "front/front_int.h"

static const struct file_kind {
    const char *ending, *loader, *type;
} kinds[] = {
    {".module.css", "local-css", "text/css; charset=utf-8"},
    {".css", "css", "text/css; charset=utf-8"},
    {".tsx", "tsx", NULL},
    {".ts", "ts", NULL},
    {".jsx", "jsx", NULL},
    {".js", "js", "text/javascript; charset=utf-8"},
    {".mjs", "js", "text/javascript; charset=utf-8"},
    {".json", "json", "application/json"},
    {".map", "json", "application/json"},
    {".txt", "text", "text/plain; charset=utf-8"},
    {".md", "text", "text/plain; charset=utf-8"},
    {".svg", "dataurl", "image/svg+xml"},
    {".png", "dataurl", "image/png"},
    {".jpg", "dataurl", "image/jpeg"},
    {".jpeg", "dataurl", "image/jpeg"},
    {".gif", "dataurl", "image/gif"},
    {".webp", "dataurl", "image/webp"},
    {".woff2", "dataurl", "font/woff2"},
    {".wasm", "binary", "application/wasm"},
};

/// The row of the file's ending; NULL: it is neither compiled nor served.
static const struct file_kind *kind_of(struct str path)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (str_ends(path, kinds[i].ending)) {
            return &kinds[i];
        }
    }
    return NULL;
}

const char *front__loader(struct str path)
{
    const struct file_kind *k = kind_of(path);
    return k != NULL ? k->loader : NULL;
}

const char *front_type(struct str path)
{
    const struct file_kind *k = kind_of(path);
    return k != NULL ? k->type : NULL;
}

bool front_needs_build(const char *entry)
{
    struct str s = str_of(entry);
    return str_ends(s, ".tsx") || str_ends(s, ".ts") || str_ends(s, ".jsx");
}

void front_hash(const struct tree *t, const char *entry, char out[SHA256_HEX])
{
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    sha256_init(&sum);
    sha256_add(&sum, entry, strlen(entry) + 1);
    vec_foreach (f, &t->files) {
        if (front__loader(str_of(f->path)) != NULL) {
            uint64_t n = f->bytes.n;
            sha256_add(&sum, f->path, strlen(f->path) + 1);
            sha256_add(&sum, &n, sizeof n);
            sha256_add(&sum, f->bytes.p, f->bytes.n);
        }
    }
    sha256_final(&sum, hash);
    sha256_hex(hash, out);
}

// ---- imports ----------------------------------------------------------------------------------

/// Modules that the page brings; the import map of the page names the same. React comes through `afloat`, which keeps
/// components and contexts the same over a swap.
static const char *const pages_own[] = {"react-dom", "react-dom/client", "afloat", "afloat/react",
                                        "afloat/jsx-runtime"};

/// `dir` and the relative `path` in one, without `.` and `..`; NULL: it leads out of the tree.
static char *join(struct arena *a, struct str dir, struct str path)
{
    char *joined = xasprintf("./" STR_FMT "/" STR_FMT, STR_ARG(dir), STR_ARG(path));
    char *clean = path_clean(joined);
    char *out = path_below("..", clean) == NULL ? arena_strdup(a, str_of(clean)) : NULL;
    free(clean);
    free(joined);
    return out;
}

/// The file, with the ending that an import may leave out, or that TypeScript writes as `.js`.
static const struct tree_file *find(const struct tree *t, const char *path, struct arena *a)
{
    static const char *const more[] = {"",           ".tsx",      ".ts",        ".jsx",
                                       ".js",        ".mjs",      ".css",       ".json",
                                       "/index.tsx", "/index.ts", "/index.jsx", "/index.js"};
    const struct tree_file *f = NULL;
    for (size_t i = 0; i < ARRAY_LEN(more) && f == NULL; i++) {
        f = tree_find(t, str_of(arena_printf(a, "%s%s", path, more[i])));
    }
    struct str s = str_of(path);
    if (f == NULL && str_ends(s, ".js")) {
        return find(t, arena_strdup(a, (struct str){s.p, s.n - 3}), a);
    }
    return f;
}

enum front_found front__resolve(const struct tree *t, struct str importer, struct str path,
                                struct arena *a, const char **out)
{
    bool relative = str_starts(path, "./") || str_starts(path, "../") || str_eqz(path, ".");
    bool from_css = str_ends(importer, ".css"); // there `url(x.png)` is relative too
    *out = arena_strdup(a, path);
    if (str_eqz(path, "react") || str_eqz(path, "react/jsx-runtime")) {
        *out = path.n == 5 ? "afloat/react" : "afloat/jsx-runtime";
        return FOUND_EXTERNAL;
    }
    if (str_lookup(path, pages_own, ARRAY_LEN(pages_own)) >= 0 || str_starts(path, "data:") ||
        str_starts(path, "https:") || str_starts(path, "#")) {
        return FOUND_EXTERNAL;
    }
    if (importer.n != 0 && !relative && !from_css) {
        *out = arena_printf(a,
                            "there is no package '" STR_FMT "' here: a front plugin may import "
                            "react, react-dom, afloat and its own files",
                            STR_ARG(path));
        return FOUND_NOT;
    }
    struct str dir = importer.n != 0 ? path_dir(importer) : STR_NULL;
    char *at = path.n != 0 && path.p[0] != '/' ? join(a, dir, path) : NULL;
    const struct tree_file *f = at != NULL ? find(t, at, a) : NULL;
    if (at == NULL || f == NULL || front__loader(str_of(f->path)) == NULL) {
        *out = arena_printf(a,
                            at == NULL  ? "'" STR_FMT "' leads out of the plugin"
                            : f == NULL ? "there is no file '" STR_FMT "' in the plugin"
                                        : "a page cannot import '" STR_FMT "'",
                            STR_ARG(path));
        return FOUND_NOT;
    }
    *out = f->path;
    return FOUND_FILE;
}
