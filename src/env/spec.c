// Read env.toml and all it names.
//
//     env.toml ── include ──> common.toml ── include ──> ...      units, deepest first
//         │ dotenv                │ dotenv
//         v                       v
//       .env                    .env.common                       texts kept, not evaluated
//
// Every path that is looked at becomes an input with the hash of the bytes that were read, or as missing,
// before anything can fail: a failed build still knows what to watch, and a file that appears later is a
// change. The target of a symbolic link is an input as well as the link. So are files that scripts source and
// .nix files import, as far as their text shows (trust/sources.h).
//
// Not done here: running anything (script and delegates are only named), evaluating (spec_eval.c).

#include "env/spec.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "env/dotenv.h"
#include "env/spec_int.h"
#include "sandbox/box.h"
#include "trust/sources.h"

enum { SOURCES_MAX = 256 }; // with so many inputs, texts are not searched for more

static const char *const unit_keys[] = {"include", "dotenv", "script", "provider", "watch",
                                        "env",     "path",   "unset",  "task",     NULL};

// In the order in which `auto` looks for them.
static const struct {
    const char *provider, *file, *program;
} delegates[] = {
    {"devenv", "devenv.nix", "devenv"},
    {"nix", "flake.nix", "nix"},
    {"direnv", ".envrc", "direnv"},
    {"mise", "mise.toml", "mise"},
};

struct spec_reading {
    struct env_spec *s;
    const struct env_vars *base;
    const char *provider;                   // as configured last
    const char *open_files[ENV_SPEC_FILES]; // the chain of includes that is being read
    size_t n_open;
    size_t n_files, n_watch;
    struct err *e;
};

// ---- inputs ----------------------------------------------------------------------------------

static struct env_input *find_input(const struct env_spec *s, const char *path)
{
    vec_foreach (in, &s->inputs) {
        if (strcmp(in->path, path) == 0) {
            return in;
        }
    }
    return NULL;
}

static struct env_input *input_of(struct env_spec *s, const char *path)
{
    struct env_input *old = find_input(s, path);
    if (old != NULL) {
        return old;
    }
    struct env_input in = {.path = arena_strdup(&s->arena, str_of(path)), .kind = ENV_MISSING};
    vec_push(&s->inputs, in);
    return vec_last(&s->inputs);
}

static void note_target(struct env_spec *s, const char *path, const struct env_input *like)
{
    char real[PATH_MAX];
    if (realpath(path, real) != NULL && strcmp(real, path) != 0) {
        struct env_input *target = input_of(s, real), copy = *like;
        copy.path = target->path;
        *target = target->hashed ? *target : copy;
    }
}

// Read a file that is an input. 0, -ENOENT, or another error; `*text` lives in the arena.
static int read_input(struct env_spec *s, const char *path, struct str *text, struct err *e)
{
    struct buf b = {.max = ENV_SPEC_FILE_MAX};
    struct env_input found = {.path = input_of(s, path)->path, .kind = ENV_FILE};
    int rc = path_read(path, &b, e);
    if (rc == 0) {
        found.hashed = true;
        sha256_of(buf_str(&b), found.hash);
        *text = arena_str(&s->arena, buf_str(&b));
    }
    if (rc == -ENOENT || rc == -ENOTDIR) {
        found.kind = ENV_MISSING;
        rc = -ENOENT;
    }
    *input_of(s, path) = found;
    note_target(s, path, &found);
    buf_fini(&b);
    return rc;
}

/// The path relative to the project root if it is below it.
static const char *shown(const struct env_spec *s, const char *path)
{
    const char *rel = path_below(s->root, path);
    return rel != NULL && rel[0] != '\0' ? rel : path;
}

static void note_source(const char *rel, void *arg);

/// Note a file of code as an input, and all that its text names. 0, or why it cannot be read.
static int note_code(struct env_spec *s, const char *path, struct err *e)
{
    struct str text;
    int rc = read_input(s, path, &text, e);
    if (rc == 0) {
        trust_sources(shown(s, path), text, note_source, s);
    }
    return rc;
}

static void note_source(const char *rel, void *arg)
{
    struct env_spec *s = arg;
    const char *path = env__path(&s->arena, s->root, rel);
    if (find_input(s, path) == NULL && s->inputs.n < SOURCES_MAX && !path_is_dir(path)) {
        (void)note_code(s, path, NULL);
    }
}

// ---- one file --------------------------------------------------------------------------------

static int read_dotenv(struct spec_reading *r, struct env_unit *u)
{
    const char **names;
    size_t n;
    int rc = env__strings(&r->s->arena, u, u->toml, "dotenv", r->base, &names, &n, r->e);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct env_dotenv d = {.path = names[i]};
        if (++r->n_files > ENV_SPEC_FILES) {
            return err_set(r->e, ERR_TOO_LARGE, "more than %d files in one environment",
                           ENV_SPEC_FILES);
        }
        rc = read_input(r->s, env__path(&r->s->arena, r->s->root, names[i]), &d.text, r->e);
        if (rc == 0) {
            vec_push(&u->dotenv, d);
        }
        rc = rc == -ENOENT ? 0 : rc;
    }
    return rc;
}

static int read_watch(struct spec_reading *r, const struct env_unit *u)
{
    const char **names;
    size_t n;
    int rc = env__strings(&r->s->arena, u, u->toml, "watch", r->base, &names, &n, r->e);
    r->n_watch += n;
    if (rc == 0 && r->n_watch > ENV_SPEC_WATCH) {
        return err_set(r->e, ERR_TOO_LARGE,
                       "more than %d entries of 'watch': name a directory or a pattern instead",
                       ENV_SPEC_WATCH);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *path = env__path(&r->s->arena, r->s->root, names[i]);
        if (strchr(names[i], '*') != NULL) {
            input_of(r->s, path)->kind = ENV_DIR;
        } else {
            env_spec_add_input(r->s, path);
        }
    }
    return rc;
}

static int read_word(struct spec_reading *r, const struct env_unit *u, const char *key,
                     const char **out)
{
    const struct toml *v = toml_get(u->toml, key);
    if (v == NULL) {
        return 0;
    }
    if (v->type != TOML_STR || v->s.n == 0 || strlen(v->s.p) != v->s.n) {
        return env__bad(u, v, r->e, "'%s' must be a string, and not empty", key);
    }
    *out = v->s.p;
    return 0;
}

static int read_script(struct spec_reading *r, const struct env_unit *u)
{
    const char *script = NULL;
    int rc = read_word(r, u, "script", &script);
    if (rc != 0 || script == NULL) {
        return rc;
    }
    r->s->script = env__path(&r->s->arena, r->s->root, script);
    rc = note_code(r->s, r->s->script, r->e);
    return rc == 0 ? 0 : err_set(r->e, rc, "cannot read script '%s': %s", script, err_text(rc));
}

static int read_unit(struct spec_reading *r, const char *path, const char *by);

static int read_includes(struct spec_reading *r, const struct env_unit *u, const char *path)
{
    const char **names;
    size_t n;
    char *dir = str_dup(path_dir(str_of(path)));
    int rc = env__strings(&r->s->arena, u, u->toml, "include", r->base, &names, &n, r->e);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_unit(r, env__path(&r->s->arena, dir, names[i]), u->path);
    }
    free(dir);
    return rc;
}

static int read_unit_text(struct spec_reading *r, const char *path, struct str text)
{
    struct env_unit u = {.path = shown(r->s, path)};
    struct toml *root;
    struct err why = {0};
    int rc = toml_parse(&root, &r->s->arena, text, NULL, NULL, &why);
    if (rc != 0) {
        return err_set(r->e, rc, "%s: %s", u.path, why.msg);
    }
    u.toml = root;
    rc = env__known(&u, root, "key", unit_keys, r->e);
    rc = rc == 0 ? read_includes(r, &u, path) : rc;
    rc = rc == 0 ? read_dotenv(r, &u) : rc;
    rc = rc == 0 ? read_watch(r, &u) : rc;
    rc = rc == 0 ? read_script(r, &u) : rc;
    rc = rc == 0 ? read_word(r, &u, "provider", &r->provider) : rc;
    if (rc != 0) {
        vec_fini(&u.dotenv);
        return rc;
    }
    vec_push(&r->s->units, u);
    return 0;
}

// `by` is who includes it; NULL for env.toml, which need not exist.
static int read_unit(struct spec_reading *r, const char *path, const char *by)
{
    struct str text;
    for (size_t i = 0; i < r->n_open; i++) {
        if (strcmp(r->open_files[i], path) == 0) {
            return err_set(r->e, ERR_INVALID, "'%s' includes itself", shown(r->s, path));
        }
    }
    if (++r->n_files > ENV_SPEC_FILES) {
        return err_set(r->e, ERR_TOO_LARGE, "more than %d files in one environment",
                       ENV_SPEC_FILES);
    }
    int rc = read_input(r->s, path, &text, r->e);
    if (rc == -ENOENT && by == NULL) {
        return 0;
    }
    if (rc != 0) {
        return by == NULL ? rc
                          : err_set(r->e, rc, "cannot read '%s', included by '%s': %s",
                                    shown(r->s, path), by, err_text(rc));
    }
    r->s->described = true;
    assert(r->n_open < ARRAY_LEN(r->open_files));
    r->open_files[r->n_open++] = path;
    rc = read_unit_text(r, path, text);
    r->n_open--;
    return rc;
}

// ---- the delegate ----------------------------------------------------------------------------

// direnv takes the .envrc of the nearest directory upwards, and without one answers that nothing changes: other
// programs fail without their file.
static bool has_envrc(const char *root)
{
    char *dir = env__nearest(root, (const char *const[]){".envrc"}, 1);
    bool found = dir != NULL;
    free(dir);
    return found;
}

static int choose_delegate(struct spec_reading *r)
{
    struct env_spec *s = r->s;
    bool automatic = r->provider == NULL || strcmp(r->provider, "auto") == 0;
    if (!automatic && strcmp(r->provider, "script") == 0 && s->script == NULL) {
        return err_set(r->e, ERR_INVALID, "provider \"script\" needs the key 'script'");
    }
    bool known =
        automatic || strcmp(r->provider, "toml") == 0 || strcmp(r->provider, "script") == 0;
    for (size_t i = 0; i < ARRAY_LEN(delegates) && s->delegate == NULL; i++) {
        bool named = !automatic && strcmp(r->provider, delegates[i].provider) == 0;
        const char *file = env__path(&s->arena, s->root, delegates[i].file);
        char *program = NULL;
        known = known || named;
        if (!named && !automatic) {
            continue;
        }
        env_spec_add_input(s, file);
        if (!named && access(file, R_OK) == 0) {
            struct str dirs = str_of(env_vars_get(r->base, STR("PATH")));
            program = path_find_program(dirs, delegates[i].program);
        }
        if (named || program != NULL) {
            s->delegate = delegates[i].provider;
            s->delegate_file = file;
            s->delegate_found = automatic;
            (void)note_code(s, file, NULL);
        }
        free(program);
    }
    if (!automatic && strcmp(r->provider, "direnv") == 0 && !has_envrc(s->root)) {
        return err_set(
            r->e, ERR_INVALID,
            "provider \"direnv\" needs a file '.envrc' in '%s' or above it: write one, then run "
            "'direnv allow'",
            s->root);
    }
    if (!automatic && strcmp(r->provider, "nix") == 0 && access(s->delegate_file, F_OK) != 0) {
        // nix would look for one further up, which is not trusted
        return err_set(r->e, ERR_INVALID, "provider \"nix\" needs a file 'flake.nix' in '%s'",
                       s->root);
    }
    if (s->delegate != NULL && strcmp(s->delegate, "devenv") == 0) {
        (void)note_code(s, env__path(&s->arena, s->root, "devenv.yaml"), NULL);
    }
    return known ? 0
                 : err_set(r->e, ERR_INVALID,
                           "unknown provider '%s': auto, toml, script, direnv, devenv, nix or mise",
                           r->provider);
}

// ---- shared with the evaluator ---------------------------------------------------------------

int env__bad(const struct env_unit *u, const struct toml *at, struct err *e, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_INVALID, "%s: line %u: %s", u->path, at->line, text);
}

int env__strings(struct arena *a, const struct env_unit *u, const struct toml *table,
                 const char *key, const struct env_vars *vars, const char ***out, size_t *n,
                 struct err *e)
{
    const struct toml *list = toml_get(table, key);
    *n = 0;
    *out = arena_calloc(a, (list != NULL ? list->n : 0) + 1, sizeof **out);
    if (list != NULL && list->type != TOML_ARR) {
        return env__bad(u, list, e, "'%s' is not a list of strings", key);
    }
    for (size_t i = 0; list != NULL && i < list->n; i++) {
        const struct toml *item = &list->items[i];
        struct buf text = {.max = ENV_VALUE_MAX};
        struct err why = {0};
        if (item->type != TOML_STR || item->s.n == 0 || strlen(item->s.p) != item->s.n) {
            return env__bad(u, item, e, "'%s' is not a list of strings", key);
        }
        int rc = env_expand(&text, item->s, vars, &why);
        (*out)[(*n)++] = arena_strdup(a, buf_str(&text));
        buf_fini(&text);
        if (rc != 0) {
            return env__bad(u, item, e, "%s", why.msg);
        }
    }
    return 0;
}

const char *env__path(struct arena *a, const char *dir, const char *path)
{
    char *home = path_expand_home(path), *joined = path_join(dir, home),
         *clean = path_clean(joined);
    const char *out = arena_strdup(a, str_of(clean));
    free(home);
    free(joined);
    free(clean);
    return out;
}

int env__known(const struct env_unit *u, const struct toml *table, const char *what,
               const char *const *keys, struct err *e)
{
    size_t n = str_count(keys);
    if (table == NULL) {
        return 0;
    }
    toml_foreach (m, table) {
        if (str_lookup(m->key, keys, n) < 0) {
            const char *near = str_nearest(m->key, keys, n);
            return env__bad(u, &m->value, e, "unknown %s '" STR_FMT "'%s%s%s", what,
                            STR_ARG(m->key), near != NULL ? ", did you mean '" : "",
                            near != NULL ? near : "", near != NULL ? "'?" : "");
        }
    }
    return 0;
}

// ---- public ----------------------------------------------------------------------------------

int env_spec_read(struct env_spec *s, const char *root, const struct env_vars *base, struct err *e)
{
    struct spec_reading r = {.s = s, .base = base, .e = e};
    *s = (struct env_spec){0};
    s->root = arena_strdup(&s->arena, str_of(root));
    int rc = read_unit(&r, env__path(&s->arena, root, ".afloat/env.toml"), NULL);
    rc = rc == 0 ? choose_delegate(&r) : rc;
    return rc == 0 ? env__tasks_read(s, base, e) : rc;
}

void env_spec_fini(struct env_spec *s)
{
    vec_foreach (u, &s->units) {
        vec_fini(&u->dotenv);
    }
    vec_fini(&s->units);
    vec_fini(&s->inputs);
    vec_fini(&s->tasks);
    vec_fini(&s->allowed);
    box_free(s->box);
    arena_fini(&s->arena);
}

void env_spec_add_input(struct env_spec *s, const char *path)
{
    struct stat st;
    struct env_input *in = input_of(s, path);
    if (in->hashed) {
        return;
    }
    in->kind = stat(path, &st) != 0 ? ENV_MISSING : S_ISDIR(st.st_mode) ? ENV_DIR : ENV_FILE;
    struct env_input like = *in;
    if (like.kind != ENV_MISSING) {
        note_target(s, path, &like);
    }
}

bool env_spec_has_read(const struct env_spec *s, const char *path)
{
    const struct env_input *in = find_input(s, path);
    return in != NULL && in->hashed;
}
