// What other environment managers answer.
//
//     direnv   {"NAME": "value" | null}      null unsets; DIRENV_* is its own bookkeeping
//     mise     {"NAME": "value"}
//     nix      {"variables": {"NAME": {"type": "exported", "value": "..."}}}; devenv the same
//
// Of nix only exported variables count, less those that stdenv sets for its builders. PATH of a nix
// shell is complete by itself; here it goes in front of the user's, as with every other provider.

#include "env/delegate.h"

#include "base/json.h"
#include "env/paths.h"

// Of stdenv: meant for a build in a sandbox, wrong or noise in a person's shell.
static const char *const nix_noise[] = {
    "HOME",
    "TMP",
    "TMPDIR",
    "TEMP",
    "TEMPDIR",
    "TERM",
    "TZ",
    "SSL_CERT_FILE",
    "NIX_SSL_CERT_FILE",
    "NIX_LOG_FD",
    "NIX_REMOTE",
    "USER",
    "LOGNAME",
    "NIX_BUILD_TOP",
    "NIX_BUILD_CORES",
    "out",
    "outputs",
    "builder",
    "system",
    "name",
    "shellHook",
    "stdenv",
    "phases",
    "buildPhase",
    "buildInputs",
    "nativeBuildInputs",
    "propagatedBuildInputs",
    "propagatedNativeBuildInputs",
    "depsBuildBuild",
    "depsBuildBuildPropagated",
    "depsBuildTarget",
    "depsBuildTargetPropagated",
    "depsHostHost",
    "depsHostHostPropagated",
    "depsTargetTarget",
    "depsTargetTargetPropagated",
    "cmakeFlags",
    "configureFlags",
    "mesonFlags",
    "doCheck",
    "doInstallCheck",
    "patches",
    "strictDeps",
    "dontAddDisableDepTrack",
    "NIX_ENFORCE_PURITY",
    "NIX_STORE",
    "SOURCE_DATE_EPOCH",
    "HOST_PATH",
    "__structuredAttrs",
    "preferLocalBuild",
    "allowSubstitutes",
    "GZIP_NO_TIMESTAMPS",
};

static bool is_noise(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(nix_noise); i++) {
        if (str_eqz(name, nix_noise[i])) {
            return true;
        }
    }
    return false;
}

static int parse(struct json **out, struct arena *a, const char *who, struct str text,
                 struct err *e)
{
    struct err why = {0};
    int rc = json_parse(out, a, text, NULL, &why);
    if (rc == 0 && (*out)->type != JSON_OBJ && (*out)->type != JSON_ARR) {
        rc = err_set(&why, ERR_PARSE, "it is %s", json_type_name(*out));
    }
    return rc == 0 ? 0 : err_set(e, ERR_PARSE, "'%s' did not answer in JSON: %s", who, why.msg);
}

static int read_flat(struct env_vars *vars, const char *who, struct str text, struct err *e)
{
    struct arena a;
    struct json *doc;
    if (str_trim(text).n == 0) {
        return 0; // nothing to change
    }
    arena_init(&a);
    int rc = parse(&doc, &a, who, text, e);
    if (rc == 0 && doc->type != JSON_OBJ) {
        rc = err_set(e, ERR_PARSE, "'%s' did not answer with an object", who);
    }
    json_foreach_member (m, rc == 0 ? doc : NULL) {
        if (m->value.type == JSON_NULL && env_name_is_free(m->key)) {
            env_vars_unset(vars, m->key);
        } else if (m->value.type == JSON_STR) {
            env_vars_set(vars, m->key, m->value.s);
        }
    }
    arena_fini(&a);
    return rc;
}

static int read_direnv(struct env_vars *vars, struct str text, struct err *e)
{
    return read_flat(vars, "direnv", text, e);
}

static int read_mise(struct env_vars *vars, struct str text, struct err *e)
{
    return read_flat(vars, "mise", text, e);
}

// A list of theirs goes in front of what is there.
static void take_nix(struct env_vars *vars, struct str name, struct str value)
{
    if (is_noise(name)) {
        return;
    }
    if (env_name_is_list(name)) {
        struct env_list front = {.name = ""};
        const char *text = arena_strdup(vars->arena, value), *old = env_vars_get(vars, name);
        front.items = env_paths_split(vars->arena, text, &front.n);
        value = str_of(env_paths_put(vars->arena, old, &front, NULL));
    }
    env_vars_set(vars, name, value);
}

static int read_nix_like(struct env_vars *vars, const char *who, struct str text, struct err *e)
{
    struct arena a;
    struct json *doc;
    arena_init(&a);
    int rc = parse(&doc, &a, who, text, e);
    const struct json *all = rc == 0 ? json_get(doc, "variables") : NULL;
    if (rc == 0 && (all == NULL || all->type != JSON_OBJ)) {
        rc = err_set(e, ERR_PARSE, "'%s' answered without variables", who);
    }
    json_foreach_member (m, all) {
        const struct json *value = json_get(&m->value, "value");
        bool exported = str_eqz(json_str(json_get(&m->value, "type"), ""), "exported");
        if (exported && value != NULL && value->type == JSON_STR) {
            take_nix(vars, m->key, value->s);
        }
    }
    arena_fini(&a);
    return rc;
}

static int read_nix(struct env_vars *vars, struct str text, struct err *e)
{
    return read_nix_like(vars, "nix", text, e);
}

static int read_devenv(struct env_vars *vars, struct str text, struct err *e)
{
    return read_nix_like(vars, "devenv", text, e);
}

static const char *const direnv_inputs[] = {".envrc", NULL};
static const char *const devenv_inputs[] = {"devenv.nix", "devenv.yaml", "devenv.lock", ".env",
                                            NULL};
static const char *const nix_inputs[] = {"flake.nix", "flake.lock", NULL};
static const char *const mise_inputs[] = {"mise.toml",      ".mise.toml",        "mise.local.toml",
                                          ".tool-versions", ".config/mise.toml", NULL};

static const struct env_delegate delegates[] = {
    {"direnv", {"direnv", "export", "json", NULL}, direnv_inputs, read_direnv, false},
    {"devenv", {"devenv", "print-dev-env", "--json", NULL}, devenv_inputs, read_devenv, true},
    {"nix", {"nix", "print-dev-env", "--json", NULL}, nix_inputs, read_nix, true},
    {"mise", {"mise", "env", "--json", NULL}, mise_inputs, read_mise, false},
};

const struct env_delegate *env_delegate_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(delegates); i++) {
        if (strcmp(delegates[i].name, name) == 0) {
            return &delegates[i];
        }
    }
    return NULL;
}

const char *env_direnv_watches(struct arena *a, struct str text)
{
    struct json *doc;
    if (json_parse(&doc, a, text, NULL, NULL) != 0) {
        return NULL;
    }
    const struct json *packed = json_get(doc, "DIRENV_WATCHES");
    bool usable = packed != NULL && packed->type == JSON_STR && packed->s.n != 0 &&
                  packed->s.n < 100000 && memchr(packed->s.p, '\0', packed->s.n) == NULL;
    return usable ? arena_strdup(a, packed->s) : NULL;
}

int env_direnv_read_dump(struct str text,
                         void (*cb)(const char *path, enum env_kind kind, void *arg), void *arg,
                         struct err *e)
{
    struct arena a;
    struct json *doc;
    arena_init(&a);
    int rc = parse(&doc, &a, "direnv show_dump", text, e);
    json_foreach_item (it, rc == 0 ? doc : NULL) {
        struct str path = json_str(json_get(it, "Path"), "");
        bool there = json_bool(json_get(it, "Exists"), true);
        if (path.n != 0 && path.p[0] == '/' && memchr(path.p, '\0', path.n) == NULL) {
            cb(arena_strdup(&a, path), there ? ENV_FILE : ENV_MISSING, arg);
        }
    }
    arena_fini(&a);
    return rc;
}
