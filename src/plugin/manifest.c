// What a plugin is made of, found in its files.
//
//     plugin.json ─ or ─ package.json#afloat ─ or ─ no manifest        a single file
//          │                    │                       │                   │
//          └── declared ────────┴── silent: conventions ┘                   │
//                 v                        v                                v
//             must be there       name, api, server, front, ui, prompt, skills
//
// The rules, each said once and here:
//   - Of two manifests plugin.json counts; package.json is not even read then. A package.json without
//     an `afloat` member is no manifest.
//   - `false` for a part says that there is none, whatever is there. Anything else that is declared
//     and is not there is an error; a convention never steps in for it.
//   - By convention: init.lua, else init.py, init.mjs, init.ts, init.c; front/index.tsx, else .ts, .jsx, .js,
//     dist/front/index.js; ui/; skills/; prompt.md.
//   - Built: server, front and ui are looked for in dist/ first, under their own name (.ts, .tsx and
//     .jsx as .js), declared or not.
//   - A path in a manifest is relative to it. `./` and slashes at the end are passed over; `..`, an
//     absolute path, a backslash and NUL are PATH_ESCAPE, even where they would lead back in.
//   - The name is the manifest's, else (package.json) the package's without its @scope/, else that of
//     the directory or file. Version and description of a package count where `afloat` has none.
//   - An unknown member is a warning, so that a manifest may be newer than the program.
//
// A fault has its own code, and the path and line of who said so: base/json keeps no positions, so
// the line of a key is found by a walk over the text, which is known to be JSON by then.
//
// Nothing is run, and nothing outside of the tree is looked at.

#include "plugin/manifest.h"

#include <assert.h>
#include <stdarg.h>

#include "base/path.h"
#include "base/schema.h"
#include "base/utf8.h"

enum { SHOWN_MAX = 80, VERSION_MAX = 64, WARNINGS_MAX = 32 };

struct resolve {
    struct plugin_shape *out;
    struct arena *a;
    const struct tree *t;
    const char *path; // of the tree
    bool built;
    struct gen_diag *fault;
    // the manifest; `json` NULL: there is none
    const struct json *json, *package; // `package`: all of package.json, NULL with plugin.json
    struct str text;
    const char *file; // path of the manifest
};

// ---- the line of a key ----------------------------------------------------------------------

/// A string of JSON text that begins at `*at`, without its quotes, as written; `*at` goes after it.
static struct str take_string(struct str text, size_t *at)
{
    size_t start = ++*at;
    while (*at < text.n && text.p[*at] != '"') {
        *at += text.p[*at] == '\\' ? 2 : 1;
    }
    size_t end = MIN(*at, text.n);
    *at = end + 1;
    return (struct str){text.p + start, end - start};
}

static bool is_key(struct str text, size_t at)
{
    while (at < text.n && strchr(" \t\r\n", text.p[at]) != NULL && text.p[at] != '\0') {
        at++;
    }
    return at < text.n && text.p[at] == ':';
}

/// The line of the member `key` of a text that is an object, or of its member `inside` if that is
/// not NULL; 0 when it is written with escapes.
static int key_line(struct str text, const char *inside, const char *key)
{
    int depth = 0, line = 1, wanted = inside != NULL ? 2 : 1;
    bool entered = inside == NULL;
    for (size_t i = 0; i < text.n;) {
        char c = text.p[i];
        if (c == '"') {
            struct str s = take_string(text, &i);
            if (depth == wanted && entered && str_eqz(s, key) && is_key(text, i)) {
                return line;
            }
            if (depth == 1 && inside != NULL && is_key(text, i)) {
                entered = str_eqz(s, inside);
            }
            continue;
        }
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        line += c == '\n';
        i++;
    }
    return 0;
}

// ---- faults ---------------------------------------------------------------------------------

static const struct {
    int rc;
    const char *hint;
} kinds[DIAG__COUNT] = {
    [DIAG_ENTRY_MISSING] = {ERR_NOT_FOUND, NULL},
    [DIAG_MANIFEST_INVALID] = {ERR_INVALID, NULL},
    [DIAG_NAME_INVALID] = {ERR_INVALID, "a name is a-z, then a-z, 0-9, _ and -, 64 at most"},
    [DIAG_PATH_ESCAPE] = {ERR_DENIED, "paths are relative to the plugin and stay inside it"},
    [DIAG_API_INCOMPATIBLE] = {ERR_UNSUPPORTED, NULL},
};

/// What a fault is said of: the plugin as a whole, or a member of its manifest.
struct about {
    const char *file;
    int line;
    const char *source;
};

static struct about about_all(const struct resolve *r)
{
    return (struct about){.file = r->file != NULL ? r->file : r->path};
}

static struct about about_key(const struct resolve *r, const char *key)
{
    const char *inside = r->package != NULL ? "afloat" : NULL;
    return (struct about){.file = r->file, .line = key_line(r->text, inside, key)};
}

static PRINTF_LIKE(4, 5) int fail(struct resolve *r, enum gen_code code, struct about at,
                                  const char *fmt, ...)
{
    char msg[400];
    va_list ap;
    assert(kinds[code].rc != 0);
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    *r->fault = (struct gen_diag){
        .code = code,
        .source = at.source,
        .origin = r->out->origin,
        .path = arena_strdup(r->a, str_of(at.file)),
        .line = at.line,
        .message = arena_strdup(r->a, str_of(msg)),
        .hint = kinds[code].hint,
    };
    return kinds[code].rc;
}

/// As much of `s` as a message shows: STR_ARG(shown(s)).
static struct str shown(struct str s)
{
    return (struct str){s.p, utf8_cut(s.p, s.n, SHOWN_MAX)};
}

static int fail_type(struct resolve *r, const char *key, const char *wanted, const struct json *v)
{
    return fail(r, DIAG_MANIFEST_INVALID, about_key(r, key), "%s: must be %s, is %s", key, wanted,
                json_type_name(v));
}

// ---- the name of the place ---------------------------------------------------------------------

/// The last part of its path, without the ending of a single file.
static struct str stem(const struct resolve *r)
{
    struct str name = path_base(str_of(r->path));
    if (r->t->is_file && plugin_lang_of(name) != LANG_NONE) {
        name.n = (size_t)((const char *)memrchr(name.p, '.', name.n) - name.p);
    }
    return name;
}

static int take_stem(struct resolve *r)
{
    struct str name = stem(r);
    r->out->name = arena_strdup(r->a, name);
    if (plugin_name_valid(name)) {
        return 0;
    }
    return fail(r, DIAG_NAME_INVALID, (struct about){.file = r->path},
                "'" STR_FMT "' cannot be the name of a plugin", STR_ARG(shown(name)));
}

// ---- reading the manifest -------------------------------------------------------------------

static int parse(struct resolve *r, const char *name, const struct json **out)
{
    const struct tree_file *f = tree_find(r->t, str_of(name));
    struct json *json;
    struct err e = {0};
    *out = NULL;
    if (f == NULL) {
        return 0;
    }
    r->text = f->bytes;
    r->file = arena_printf(r->a, "%s/%s", r->path, name);
    if (json_parse(&json, r->a, f->bytes, NULL, &e) < 0) {
        bool placed = str_starts(str_of(e.msg), "line "); // "line 3, column 7: ..."
        int line = placed ? (int)strtol(e.msg + strlen("line "), NULL, 10) : 0;
        struct about at = {.file = r->file, .line = line};
        return fail(r, DIAG_MANIFEST_INVALID, at, "%s", e.msg);
    }
    if (json->type != JSON_OBJ) {
        struct about at = {.file = r->file, .line = 1};
        return fail(r, DIAG_MANIFEST_INVALID, at, "must be an object, is %s", json_type_name(json));
    }
    *out = json;
    return 0;
}

static int read_manifest(struct resolve *r)
{
    const struct json *package;
    int rc = parse(r, "plugin.json", &r->json);
    if (rc < 0 || r->json != NULL) {
        return rc;
    }
    rc = parse(r, "package.json", &package);
    const struct json *ours = json_get(package, "afloat");
    if (rc < 0 || ours == NULL) {
        r->file = rc < 0 ? r->file : NULL;
        return rc;
    }
    if (ours->type != JSON_OBJ) {
        return fail_type(r, "afloat", "an object", ours);
    }
    r->package = package;
    r->json = ours;
    return 0;
}

// ---- members that are text ------------------------------------------------------------------

/// The member of the manifest, else of the package around it; `at` says where.
static const struct json *find_text(struct resolve *r, const char *key, struct about *at)
{
    const struct json *v = json_get(r->json, key);
    if (v != NULL || r->package == NULL) {
        *at = v != NULL ? about_key(r, key) : about_all(r);
        return v;
    }
    *at = (struct about){.file = r->file, .line = key_line(r->text, NULL, key)};
    return json_get(r->package, key);
}

static int take_text(struct resolve *r, const char *key, const char **out)
{
    struct about at;
    const struct json *v = find_text(r, key, &at);
    if (v == NULL) {
        return 0;
    }
    if (v->type != JSON_STR || str_index(v->s, '\0') >= 0) {
        return fail(r, DIAG_MANIFEST_INVALID, at, "%s: must be a text, is %s", key,
                    v->type == JSON_STR ? "one with NUL" : json_type_name(v));
    }
    *out = arena_strdup(r->a, v->s);
    return 0;
}

/// A name that cannot be one stays out of `out`: it would be shown and used as one.
static int take_name(struct resolve *r)
{
    struct about at;
    const struct json *v = find_text(r, "name", &at);
    const char *said = NULL;
    int rc = take_text(r, "name", &said);
    if (rc < 0 || v == NULL) {
        return rc < 0 ? rc : take_stem(r);
    }
    struct str name = str_of(said);
    if (json_get(r->json, "name") == NULL && str_starts(name, "@") && str_index(name, '/') > 0) {
        str_cut(&name, '/');
    }
    if (!plugin_name_valid(name)) {
        return fail(r, DIAG_NAME_INVALID, at, "name: '" STR_FMT "' cannot be the name of a plugin",
                    STR_ARG(shown(name)));
    }
    r->out->name = arena_strdup(r->a, name);
    return 0;
}

static int take_version(struct resolve *r)
{
    struct about at;
    const struct json *v = find_text(r, "version", &at);
    int rc = take_text(r, "version", &r->out->version);
    const char *z = r->out->version;
    if (rc < 0 || v == NULL ||
        (z[0] >= '0' && z[0] <= '9' && strlen(z) <= VERSION_MAX &&
         z[strspn(z, "0123456789.-+abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] ==
             '\0')) {
        return rc;
    }
    r->out->version = NULL;
    return fail(r, DIAG_MANIFEST_INVALID, at,
                "version: '" STR_FMT "' is not a version, write it like 1.2.0",
                STR_ARG(shown(v->s)));
}

static int take_api(struct resolve *r)
{
    const struct json *v = json_get(r->json, "api");
    struct err e = {0};
    if (v == NULL) {
        return 0;
    }
    if (v->type != JSON_STR) {
        return fail_type(r, "api", "a string like \"" MANIFEST_API "\"", v);
    }
    if (plugin_api_check(v->s, &e) < 0) {
        return fail(r, DIAG_API_INCOMPATIBLE, about_key(r, "api"), "%s", e.msg);
    }
    r->out->api = arena_strdup(r->a, v->s);
    return 0;
}

// ---- parts ----------------------------------------------------------------------------------

enum { CONVENTIONS = 5 };

static const struct part {
    const char *key, *source;
    size_t field; // of the shape, a const char *
    bool is_dir, is_built;
    const char *found[CONVENTIONS]; // by convention, the first that is there
} parts[] = {
    {"server",
     "server",
     offsetof(struct plugin_shape, server),
     false,
     true,
     {"init.lua", "init.py", "init.mjs", "init.ts", "init.c"}},
    {"front",
     "front",
     offsetof(struct plugin_shape, front),
     false,
     true,
     {"front/index.tsx", "front/index.ts", "front/index.jsx", "front/index.js",
      "dist/front/index.js"}},
    {"ui", "ui", offsetof(struct plugin_shape, ui), true, true, {"ui"}},
    {"prompt", "server", offsetof(struct plugin_shape, prompt), false, false, {"prompt.md"}},
    {"skills", "server", offsetof(struct plugin_shape, skills), true, false, {"skills"}},
};

static bool has_dir(const struct tree *t, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < t->files.n; i++) {
        const char *file = t->files.p[i].path;
        if (strncmp(file, path, n) == 0 && file[n] == '/') {
            return true;
        }
    }
    return false;
}

static bool is_there(const struct resolve *r, const struct part *p, const char *path)
{
    return p->is_dir ? has_dir(r->t, path) : tree_find(r->t, str_of(path)) != NULL;
}

/// The first of `paths` (ends with NULL, or is full) that is there, built ones first; NULL: none is.
static const char *find_first(struct resolve *r, const struct part *p, const char *const *paths,
                              size_t n)
{
    static const char *const sources[] = {".tsx", ".jsx", ".ts"}; // a build makes .js of them
    for (size_t i = 0; i < n && paths[i] != NULL && r->built && p->is_built; i++) {
        const char *built = arena_printf(r->a, "dist/%s", paths[i]);
        for (size_t k = 0; k < ARRAY_LEN(sources); k++) {
            struct str base = str_of(paths[i]);
            if (str_ends(base, sources[k])) {
                base.n -= strlen(sources[k]);
                built = arena_printf(r->a, "dist/" STR_FMT ".js", STR_ARG(base));
            }
        }
        if (is_there(r, p, built)) {
            return built;
        }
    }
    for (size_t i = 0; i < n && paths[i] != NULL; i++) {
        if (is_there(r, p, paths[i])) {
            return paths[i];
        }
    }
    return NULL;
}

/// `said` without `.` and empty parts, in `a`; NULL when it leads, or might lead, out of the tree.
static const char *clean(struct arena *a, struct str said)
{
    char *out = arena_alloc(a, said.n + 1);
    size_t n = 0;
    if (str_starts(said, "/") || str_index(said, '\\') >= 0 || str_index(said, '\0') >= 0) {
        return NULL;
    }
    while (said.n != 0) {
        struct str part = str_cut(&said, '/');
        if (str_eqz(part, "..")) {
            return NULL;
        }
        if (part.n == 0 || str_eqz(part, ".")) {
            continue;
        }
        if (n != 0) {
            out[n++] = '/';
        }
        memcpy(out + n, part.p, part.n);
        n += part.n;
    }
    out[n] = '\0';
    return out;
}

static int take_part(struct resolve *r, const struct part *p, const char **out)
{
    const struct json *v = json_get(r->json, p->key);
    *out = v == NULL ? find_first(r, p, p->found, CONVENTIONS) : NULL;
    if (v == NULL || (v->type == JSON_BOOL && !v->b)) {
        return 0;
    }
    if (v->type != JSON_STR || v->s.n == 0) {
        return fail_type(r, p->key, "a path or false", v);
    }
    struct about at = about_key(r, p->key);
    at.source = p->source;
    const char *path = clean(r->a, v->s);
    if (path == NULL) {
        return fail(r, DIAG_PATH_ESCAPE, at, "%s: '" STR_FMT "' leads out of the plugin", p->key,
                    STR_ARG(shown(v->s)));
    }
    *out = find_first(r, p, &path, 1);
    if (*out == NULL) {
        const char *why = !p->is_dir && has_dir(r->t, path) ? "is a directory" : "is not there";
        return fail(r, DIAG_ENTRY_MISSING, at, "%s: '" STR_FMT "' %s", p->key, STR_ARG(shown(v->s)),
                    why);
    }
    return 0;
}

/// What is named as the server side must be of a language.
static int take_parts(struct resolve *r)
{
    int rc = 0;
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(parts) && rc == 0; i++) {
        const char *found;
        rc = take_part(r, &parts[i], &found);
        memcpy((char *)r->out + parts[i].field, &found, sizeof found);
        any |= found != NULL;
    }
    const char *server = r->out->server;
    r->out->lang = server != NULL ? plugin_lang_of(str_of(server)) : LANG_NONE;
    if (rc == 0 && !any) {
        rc = fail(r, DIAG_ENTRY_MISSING, about_all(r), "there is nothing to load");
        r->fault->hint = "add init.lua, or name what there is in plugin.json";
    } else if (rc == 0 && server != NULL && r->out->lang == LANG_NONE) {
        rc = fail(r, DIAG_MANIFEST_INVALID, about_key(r, "server"),
                  "server: '" STR_FMT "' is of no known language (.lua .py .mjs .js .ts .c)",
                  STR_ARG(shown(str_of(server))));
    }
    return rc;
}

// ---- the rest of the manifest ---------------------------------------------------------------

static int take_options(struct resolve *r)
{
    struct err e = {0};
    r->out->options = json_get(r->json, "options");
    if (schema_check(r->out->options, &e) < 0) {
        r->out->options = NULL;
        return fail(r, DIAG_MANIFEST_INVALID, about_key(r, "options"), "options: %s", e.msg);
    }
    return 0;
}

static int take_permissions(struct resolve *r)
{
    const struct json *v = json_get(r->json, "permissions");
    bool ok = v == NULL || v->type == JSON_ARR;
    json_foreach_item (it, v) {
        ok &= it->type == JSON_STR;
    }
    r->out->permissions = ok ? v : NULL;
    return ok ? 0 : fail_type(r, "permissions", "an array of strings", v);
}

/// The last four are for people and other programs.
static const char *const members[] = {
    "name",   "version", "description", "api",     "server", "front",   "ui",       "prompt",
    "skills", "options", "permissions", "$schema", "author", "license", "homepage",
};

static void take_warnings(struct resolve *r)
{
    struct plugin_shape *out = r->out;
    json_foreach_member (m, r->json) {
        if (str_lookup(m->key, members, ARRAY_LEN(members)) >= 0 ||
            out->n_warnings == WARNINGS_MAX) {
            continue;
        }
        if (out->warnings == NULL) {
            out->warnings = arena_calloc(r->a, WARNINGS_MAX, sizeof *out->warnings);
        }
        const char *nearest = str_nearest(m->key, members, ARRAY_LEN(members));
        out->warnings[out->n_warnings++] = (struct manifest_warning){
            .path = r->file,
            .line = about_key(r, arena_strdup(r->a, m->key)).line,
            .message =
                arena_printf(r->a, "unknown member '" STR_FMT "'%s%s%s", STR_ARG(shown(m->key)),
                             nearest != NULL ? ", did you mean '" : "",
                             nearest != NULL ? nearest : "", nearest != NULL ? "'?" : ""),
        };
    }
}

// ---- public ---------------------------------------------------------------------------------

int manifest_resolve(struct plugin_shape *out, struct arena *a, const struct tree *t,
                     const char *path, bool built, struct gen_diag *fault)
{
    static int (*const steps[])(struct resolve * r) = {
        read_manifest, take_name,    take_api,         take_version,
        take_parts,    take_options, take_permissions,
    };
    struct resolve r = {.out = out, .a = a, .t = t, .path = path, .built = built, .fault = fault};
    *out = (struct plugin_shape){.api = MANIFEST_API, .origin = t->is_file ? "file" : "directory"};
    out->name = arena_strdup(a, stem(&r)); // until the manifest says another
    int rc = t->is_file ? take_stem(&r) : 0;
    if (t->is_file && rc == 0) {
        out->server = t->files.n != 0 ? t->files.p[0].path : NULL;
        out->lang = plugin_lang_of(str_of(out->server));
        if (out->lang == LANG_NONE) {
            out->server = NULL;
            rc = fail(&r, DIAG_ENTRY_MISSING, about_all(&r),
                      "a single file must be of a known language (.lua .py .mjs .js .ts .c)");
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(steps) && !t->is_file && rc == 0; i++) {
        rc = steps[i](&r);
    }
    rc = t->is_file || rc < 0 ? rc : take_text(&r, "description", &out->description);
    if (rc < 0) {
        return rc;
    }
    take_warnings(&r); // a single file has no manifest
    const struct {
        const char *key, *value;
    } rows[] = {{"api", out->api},
                {"name", out->name},
                {"version", out->version},
                {"description", out->description}};
    struct json *m = arena_calloc(a, 1, sizeof *m);
    m->type = JSON_OBJ;
    m->members = arena_calloc(a, ARRAY_LEN(rows), sizeof *m->members);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].value != NULL) {
            m->members[m->n++] = (struct json_member){
                str_of(rows[i].key), {.type = JSON_STR, .s = str_of(rows[i].value)}};
        }
    }
    out->metadata = m;
    return 0;
}

int manifest_options(const struct plugin_shape *s, const struct json *given, struct arena *a,
                     const struct json **out, struct gen_diag *fault)
{
    static const struct json none = {.type = JSON_OBJ};
    struct err e = {0};
    *out = schema_defaults(s->options, given != NULL ? given : &none, a);
    if (schema_fit(s->options, *out, "options", &e) == 0) {
        return 0;
    }
    *out = NULL;
    *fault = (struct gen_diag){.code = DIAG_MANIFEST_INVALID,
                               .source = "config",
                               .origin = s->origin,
                               .message = arena_strdup(a, str_of(e.msg))};
    return ERR_INVALID;
}
