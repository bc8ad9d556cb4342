// Which files does a file of an environment read in its turn?
//
//     env.sh, .envrc     source lib.sh   . ./lib.sh   source "${BASH_SOURCE%/*}/lib.sh"
//     flake.nix, *.nix   import ./shell.nix, ./modules (its default.nix), self + "/shell.nix"
//     devenv.yaml        imports: - ./backend (its devenv.nix)
//
// Trust in the first file would be worthless if the others could change. They are found in the text, without
// running or evaluating anything: a path that is put together at run time is hidden, and has to be checked then
// (runtime/env/provider.bash does that for scripts, env/build.c for what nix evaluates).
//
// This is no parser. It may take a word in a comment or in a text for a name; then one more file counts, which
// does no harm.

#include "trust/sources.h"

#include <assert.h>
#include <ctype.h>

#include "base/buf.h"
#include "base/path.h"

struct source_scan {
    const char *name;
    struct str text;
    size_t at;
    trust_source_cb *cb;
    void *arg;
};

/// Tell one path below `dir`, relative to the root; empty: below the root.
static void tell(const struct source_scan *s, struct str dir, struct str path)
{
    char *d = str_dup(dir), *p = str_dup(path);
    char *joined = path_join(dir.n != 0 ? d : ".", p), *clean = path_clean(joined);
    s->cb(clean, s->arg);
    free(clean);
    free(joined);
    free(p);
    free(d);
}

static struct str own_dir(const struct source_scan *s)
{
    return path_dir(str_of(s->name));
}

// ---- shell scripts ---------------------------------------------------------------------------

/// The word at `s->at`, without its quotes.
static void take_word(struct source_scan *s, struct buf *word)
{
    char quote = '\0';
    unsigned depth = 0; // of $( ... )
    assert(s->at <= s->text.n);
    buf_clear(word);
    for (; s->at < s->text.n; s->at++) {
        char c = s->text.p[s->at];
        bool ends = isspace((unsigned char)c) || (c != '\0' && strchr(";&|()", c) != NULL);
        if (c == '\n' || (quote == '\0' && depth == 0 && ends)) {
            break;
        }
        depth += c == '(' && word->n != 0;
        depth -= c == ')' && depth != 0;
        if (c == quote && depth == 0) {
            quote = '\0';
        } else if (quote == '\0' && depth == 0 && (c == '"' || c == '\'')) {
            quote = c;
        } else {
            buf_addc(word, c);
        }
    }
}

static bool drop_prefix(struct str *path, const char *prefix)
{
    bool has = str_starts(*path, prefix);
    *path = has ? str_from(*path, strlen(prefix)) : *path;
    return has;
}

/// A word after `source`. One that begins with a variable that we know is a path too.
static void tell_script(const struct source_scan *s, struct str path)
{
    static const char *const roots[] = {"$PWD/", "${PWD}/", "$AFLOAT_PROJECT/",
                                        "${AFLOAT_PROJECT}/"};
    static const char *const here[] = {"${BASH_SOURCE%/*}/",
                                       "${BASH_SOURCE[0]%/*}/",
                                       "$(dirname $BASH_SOURCE)/",
                                       "$(dirname \"$BASH_SOURCE\")/",
                                       "$(dirname ${BASH_SOURCE[0]})/",
                                       "$(dirname \"${BASH_SOURCE[0]}\")/"};
    struct str dir = STR_NULL;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        (void)drop_prefix(&path, roots[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(here); i++) {
        dir = drop_prefix(&path, here[i]) ? own_dir(s) : dir;
    }
    bool known = path.n != 0 && path.p[0] != '-' && path.p[0] != '~' && path.p[0] != '<';
    for (size_t i = 0; i < path.n; i++) {
        known &= strchr("$`*?", path.p[i]) == NULL;
    }
    if (known) {
        tell(s, dir, path);
    }
}

static void scan_script(struct source_scan *s)
{
    struct buf word = {.max = SIZE_MAX};
    bool sourcing = false;
    while (s->at < s->text.n) {
        size_t before = s->at;
        take_word(s, &word);
        if (s->at == before) { // a blank or an operator
            sourcing &= s->text.p[s->at] == ' ' || s->text.p[s->at] == '\t';
            s->at++;
            continue;
        }
        if (sourcing) {
            tell_script(s, buf_str(&word));
        }
        sourcing = strcmp(buf_z(&word), "source") == 0 || strcmp(buf_z(&word), ".") == 0;
    }
    buf_fini(&word);
}

// ---- nix and devenv.yaml -----------------------------------------------------------------------

static bool is_path_char(char c)
{
    return isalnum((unsigned char)c) || strchr("._-+/", c) != NULL;
}

/// Does a path begin at `s->at`? `*dir` is where from: ./ and ../ from the file itself, as `./. + "/x.nix"` does;
/// `self + "/x.nix"` and `"${self}/x.nix"` from the root.
static bool begins_path(const struct source_scan *s, struct str *dir)
{
    static const char *const self[] = {"self + \"", "self.outPath + \"", "self}", "self.outPath}"};
    static const char *const here[] = {"./. + \"", "./.}"};
    struct str rest = str_from(s->text, s->at), before = {s->text.p, s->at};
    *dir = own_dir(s);
    if (before.n != 0 && is_path_char(before.p[before.n - 1])) {
        return false;
    }
    bool begins = str_starts(rest, "./") || str_starts(rest, "../");
    for (size_t i = 0; rest.p[0] == '/' && i < ARRAY_LEN(here); i++) {
        begins |= str_ends(before, here[i]);
    }
    for (size_t i = 0; rest.p[0] == '/' && i < ARRAY_LEN(self); i++) {
        bool found = str_ends(before, self[i]);
        *dir = found ? STR_NULL : *dir;
        begins |= found;
    }
    return begins;
}

static bool next_path(struct source_scan *s, struct str *dir, struct str *out)
{
    while (s->at < s->text.n && !begins_path(s, dir)) {
        s->at++;
    }
    size_t begin = s->at;
    while (s->at < s->text.n && is_path_char(s->text.p[s->at])) {
        s->at++;
    }
    *out = (struct str){s->text.p + begin, s->at - begin};
    while (out->n != 0 && out->p[0] == '/') {
        *out = str_from(*out, 1);
    }
    return begin < s->text.n;
}

/// A path without an ending may be a file, or a directory in which `file` is meant.
static void scan_paths(struct source_scan *s, const char *file)
{
    struct str path, dir;
    while (next_path(s, &dir, &path)) {
        struct str base = path_base(path);
        if (base.n == 0 || str_eqz(base, ".") || str_eqz(base, "..")) {
            continue; // the project itself: `src = ./.`
        }
        tell(s, dir, path);
        if (str_index(base, '.') < 0) {
            char *inside = xasprintf(STR_FMT "/%s", STR_ARG(path), file);
            tell(s, dir, str_of(inside));
            free(inside);
        }
    }
}

void trust_sources(const char *name, struct str text, trust_source_cb *cb, void *arg)
{
    struct source_scan s = {.name = name, .text = text, .cb = cb, .arg = arg};
    struct str n = str_of(name);
    if (str_ends(n, ".nix")) {
        scan_paths(&s, "default.nix");
    } else if (str_ends(n, ".yaml")) {
        scan_paths(&s, "devenv.nix");
    } else if (!str_ends(n, ".toml")) {
        scan_script(&s);
    }
}
