// Answers of other environment managers.
//
//     direnv   {"NAME": "value" | null}      null unsets; DIRENV_* is its own bookkeeping
//     mise     {"NAME": "value"}
//     nix      {"variables": {"NAME": {"type": "exported", "value": "..."}}}; devenv the same
//
// nix also prints `evaluating file '...'`, since a path that is put together at run time is an input too. It does so
// only while it evaluates, and not when it answers from its cache: the cache is switched off.
//
// Of nix only exported variables count, except those that stdenv sets for its builders. The PATH of a nix
// shell is complete; here it goes in front of the user's, as with every other provider.

#include "env/delegate.h"

#include "base/json.h"
#include "env/paths.h"
#include "env/render.h"

// Of stdenv: a builder's value would be wrong in the user's shell, which has its own.
static const char nix_users[] =
    "HOME TMP TMPDIR TEMP TEMPDIR TERM TZ SSL_CERT_FILE NIX_SSL_CERT_FILE NIX_LOG_FD NIX_REMOTE "
    "USER LOGNAME";

// Of stdenv: needed in a sandboxed build only, useless in the user's shell.
static const char nix_noise[] =
    "NIX_BUILD_TOP NIX_BUILD_CORES out outputs builder system name shellHook stdenv phases "
    "buildPhase buildInputs nativeBuildInputs propagatedBuildInputs propagatedNativeBuildInputs "
    "depsBuildBuild depsBuildBuildPropagated depsBuildTarget depsBuildTargetPropagated "
    "depsHostHost depsHostHostPropagated depsTargetTarget depsTargetTargetPropagated cmakeFlags "
    "configureFlags mesonFlags doCheck doInstallCheck patches strictDeps dontAddDisableDepTrack "
    "NIX_ENFORCE_PURITY NIX_STORE SOURCE_DATE_EPOCH HOST_PATH __structuredAttrs preferLocalBuild "
    "allowSubstitutes GZIP_NO_TIMESTAMPS";

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
    struct arena a = {0};
    struct json *doc;
    if (str_trim(text).n == 0) {
        return 0; // nothing to change
    }
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

static int read_nix(struct env_vars *vars, const char *who, struct str text, struct err *e)
{
    struct arena a = {0};
    struct json *doc;
    int rc = parse(&doc, &a, who, text, e);
    const struct json *all = rc == 0 ? json_get(doc, "variables") : NULL;
    if (rc == 0 && (all == NULL || all->type != JSON_OBJ)) {
        rc = err_set(e, ERR_PARSE, "'%s' answered without variables", who);
    }
    json_foreach_member (m, all) {
        const struct json *value = json_get(&m->value, "value");
        bool exported = str_eqz(json_get_text(&m->value, "type"), "exported");
        if (!exported || value == NULL || value->type != JSON_STR ||
            env_name_in(m->key, nix_noise) || env_name_in(m->key, nix_users)) {
            continue;
        }
        struct str text_of = value->s;
        if (env_name_is_list(m->key)) { // a list of theirs goes in front
            struct env_list front = {.name = ""};
            const char *old = env_vars_get(vars, m->key);
            front.items =
                env_paths_split(vars->arena, arena_strdup(vars->arena, text_of), &front.n);
            text_of = str_of(env_paths_put(vars->arena, old, &front, NULL));
        }
        env_vars_set(vars, m->key, text_of);
    }
    arena_fini(&a);
    return rc;
}

static const char *const direnv_inputs[] = {".envrc", NULL};
static const char *const devenv_inputs[] = {"devenv.nix", "devenv.yaml", "devenv.lock", ".env",
                                            NULL};
static const char *const nix_inputs[] = {"flake.nix", "flake.lock", NULL};
static const char *const mise_inputs[] = {"mise.toml",      ".mise.toml",        "mise.local.toml",
                                          ".tool-versions", ".config/mise.toml", NULL};

static const struct env_delegate delegates[] = {
    {.name = "direnv",
     .argv = {"direnv", "export", "json"},
     .inputs = direnv_inputs,
     .read = read_flat},
    {.name = "devenv",
     .argv = {"devenv", "print-dev-env", "--json"},
     .inputs = devenv_inputs,
     .read = read_nix,
     .evaluates = true},
    {.name = "nix",
     .argv = {"nix", "print-dev-env", "--json", "-v", "--option", "eval-cache", "false"},
     .inputs = nix_inputs,
     .read = read_nix,
     .evaluates = true,
     .traces = true},
    {.name = "mise", .argv = {"mise", "env", "--json"}, .inputs = mise_inputs, .read = read_flat},
};

static bool is_function_name(struct str name)
{
    bool ok = name.n != 0;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        ok &= (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
              (i != 0 && c == '-') || c == '_';
    }
    return ok;
}

struct str env_nix_hook(struct arena *a, struct str answer)
{
    struct json *doc;
    struct buf out = {.max = SIZE_MAX};
    if (json_parse(&doc, a, answer, NULL, NULL) != 0) {
        return STR_NULL;
    }
    const struct json *variables = json_get(doc, "variables");
    const struct json *functions = json_get(doc, "bashFunctions");
    struct str hook = json_get_text(json_get(variables, "shellHook"), "value");
    if (str_trim(hook).n == 0 && (functions == NULL || functions->n == 0)) {
        return STR_NULL;
    }
    json_foreach_member (m, variables) { // what a builder has and the user's shell has not
        const struct json *value = json_get(&m->value, "value");
        if (value != NULL && value->type == JSON_STR && env_name_in(m->key, nix_noise) &&
            !str_eqz(m->key, "shellHook")) {
            buf_addf(&out, STR_FMT "=", STR_ARG(m->key));
            env_quote(&out, ENV_BASH, arena_strdup(a, value->s));
            buf_addc(&out, '\n');
        }
    }
    json_foreach_member (m, functions) {
        if (is_function_name(m->key)) {
            buf_addf(&out, STR_FMT " ()\n{\n" STR_FMT "\n}\n", STR_ARG(m->key),
                     STR_ARG(json_str(&m->value, ":")));
        }
    }
    buf_adds(&out, hook);
    buf_addc(&out, '\n');
    struct str text = arena_str(a, buf_str(&out));
    buf_fini(&out);
    return text;
}

struct str env_nix_evaluated(struct str line)
{
    static const char begin[] = "evaluating file '";
    bool is = str_starts(line, begin) && str_ends(line, "'") && line.n >= sizeof begin;
    return is ? (struct str){line.p + sizeof begin - 1, line.n - sizeof begin} : STR_NULL;
}

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
    struct arena a = {0};
    struct json *doc;
    int rc = parse(&doc, &a, "direnv show_dump", text, e);
    json_foreach_item (it, rc == 0 ? doc : NULL) {
        struct str path = json_get_text(it, "Path");
        bool there = json_bool(json_get(it, "Exists"), true);
        if (path.n != 0 && path.p[0] == '/' && memchr(path.p, '\0', path.n) == NULL) {
            cb(arena_strdup(&a, path), there ? ENV_FILE : ENV_MISSING, arg);
        }
    }
    arena_fini(&a);
    return rc;
}
