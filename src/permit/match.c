// Compare rules with commands.
//
// An allow rule is a promise to the user: "this, and nothing more". So it matches a command word by word,
// exactly as written, and a line that does anything else besides (substitutes, groups, reads a
// here-document, writes outside) is out of its reach.
//
// A deny or ask rule is a fence: it must hold however the command is dressed. So it is tried on every
// command of the line, and on what each one would run in turn:
//
//     sudo -u bob env A=1 /bin/rm -r -f x      "rm -rf *"
//       └─ wrapper ─┘ └┘     └ by its name; options in any order
//
// A wrapper's own options may take a value ("-u bob"), and we do not know which. Each option may therefore
// swallow one word: `nice -n 10 rm` is tried as `10 rm` and as `rm`. That can only find too much. Wrappers within
// wrappers multiply the tries, so a search has a budget. A line on which it runs out is opaque: the user is asked.

#include "base/path.h"
#include "base/vec.h"
#include "permit/match_int.h"

// BUDGET is in words compared and bytes parsed: about ten times the longest line that cmdline_parse() reads.
enum { UNWRAP_MAX = 8, BUDGET = 1 << 20 };

// ---- patterns -----------------------------------------------------------------------------------

/// The next word of `*rest`; false at the end.
static int read_pattern_word(struct str *rest, struct arena *a, struct cmd_word *w, struct err *e)
{
    struct buf text = {.max = SIZE_MAX};
    bool star = false; // a quoted one
    size_t i = 0;
    char quote = '\0';
    for (; i < rest->n && (quote != '\0' || (rest->p[i] != ' ' && rest->p[i] != '\t')); i++) {
        char c = rest->p[i];
        if (quote == '\0' ? c == '\'' || c == '"' : c == quote) {
            quote = quote == '\0' ? c : '\0';
            continue;
        }
        if (quote == '\0' && c != '\0' && strchr(";&|<>()$`\n", c) != NULL) {
            buf_fini(&text);
            return err_set(e, ERR_INVALID,
                           "a pattern is one plain command; '%c' cannot be part of it", c);
        }
        star |= quote != '\0' && c == '*';
        w->dynamic |= quote == '\0' && c == '*';
        buf_addc(&text, c);
    }
    *rest = str_from(*rest, i);
    w->text = arena_str(a, buf_str(&text));
    buf_fini(&text);
    if (quote != '\0' || (star && w->dynamic)) {
        return err_set(e, ERR_INVALID,
                       quote != '\0' ? "a quote is not closed"
                                     : "one word has a quoted and an unquoted '*'");
    }
    return 0;
}

int pattern_parse(struct pattern *out, struct arena *a, struct str text, struct err *e)
{
    vec(struct cmd_word) words = {0};
    struct str rest = str_trim(text);
    int rc = rest.n == 0 ? err_set(e, ERR_INVALID, "the pattern is empty") : 0;
    while (rc == 0 && rest.n != 0) {
        struct cmd_word w = {0};
        rc = read_pattern_word(&rest, a, &w, e);
        vec_push(&words, w);
        rest = str_trim(rest);
    }
    struct cmd_word *kept = arena_calloc(a, words.n + 1, sizeof *kept);
    memcpy(kept, words.n != 0 ? words.p : kept, words.n * sizeof *kept);
    *out = (struct pattern){.words = kept, .n = words.n};
    vec_fini(&words);
    return rc;
}

void pattern_quote(struct buf *out, struct str text)
{
    bool plain = text.n != 0;
    for (size_t i = 0; i < text.n; i++) {
        plain = plain && text.p[i] != '\0' && strchr("*'\" \t;&|<>()$`\n", text.p[i]) == NULL;
    }
    const char quote = str_index(text, '\'') < 0 ? '\'' : '"';
    if (plain) {
        buf_adds(out, text);
    } else {
        buf_addc(out, quote);
        buf_adds(out, text);
        buf_addc(out, quote);
    }
}

/// Is this the `*` that stands for all further arguments?
static bool is_rest(const struct pattern *p, size_t i)
{
    return i + 1 == p->n && p->words[i].dynamic && str_eqz(p->words[i].text, "*");
}

static bool word_fits(const struct cmd_word *pattern, struct str text)
{
    return pattern->dynamic ? str_glob(pattern->text, text) : str_eq(pattern->text, text);
}

// ---- narrowly -----------------------------------------------------------------------------------

/// Variables that change how a program prints, not what it does.
static bool is_harmless(struct str assignment)
{
    static const char *const names[] = {"LANG",     "LC_*",        "LANGUAGE", "TZ",
                                        "NO_COLOR", "CI",          "TERM",     "COLUMNS",
                                        "LINES",    "FORCE_COLOR", "CLICOLOR*"};
    struct str name = str_cut(&assignment, '=');
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_glob(str_of(names[i]), name)) {
            return true;
        }
    }
    return false;
}

bool match_allows(const struct pattern *p, const struct cmd_simple *c)
{
    for (size_t i = 0; i < c->n_assigns; i++) {
        if (c->assigns[i].dynamic || !is_harmless(c->assigns[i].text)) {
            return false;
        }
    }
    if (c->n_words == 0 || c->words[0].dynamic) {
        return false;
    }
    for (size_t i = 0; i < p->n; i++) {
        if (is_rest(p, i)) {
            return true;
        }
        if (i >= c->n_words || c->words[i].dynamic || !word_fits(&p->words[i], c->words[i].text)) {
            return false;
        }
    }
    return p->n == c->n_words;
}

bool match_is_inside(struct str path, struct str cwd, struct str root)
{
    char *joined = path.n != 0 && path.p[0] == '/' ? str_dup(path) : NULL;
    if (joined == NULL) {
        struct buf b = {.max = SIZE_MAX};
        buf_addf(&b, STR_FMT "/" STR_FMT, STR_ARG(cwd), STR_ARG(path));
        joined = buf_take(&b, NULL);
    }
    char *clean = path_clean(joined), *base = str_dup(root);
    bool inside =
        path.n != 0 && memchr(path.p, '\0', path.n) == NULL && path_below(base, clean) != NULL;
    free(joined);
    free(clean);
    free(base);
    return inside;
}

static bool changes_directory(const struct cmdline *l)
{
    for (size_t i = 0; i < l->n_simples; i++) {
        struct str name = cmd_name(&l->simples[i]);
        if (str_eqz(name, "cd") || str_eqz(name, "pushd") || str_eqz(name, "popd")) {
            return true;
        }
    }
    return false;
}

bool match_is_plain(const struct cmdline *l, struct str cwd, struct str root)
{
    if (l->flags != 0 || l->n_simples == 0) {
        return false;
    }
    for (size_t i = 0; i < l->n_writes; i++) {
        struct str to = l->writes[i].text;
        bool relative = to.n != 0 && to.p[0] != '/';
        if (str_eqz(to, "/dev/null")) {
            continue;
        }
        if (l->writes[i].dynamic || !match_is_inside(to, cwd, root) ||
            (relative && changes_directory(l))) {
            return false;
        }
    }
    return true;
}

// ---- widely -------------------------------------------------------------------------------------

/// How a program runs others.
enum wrapper_kind {
    RUNS,   // the words after its options are a command
    EITHER, // the same, or one word is text for a shell
    READS,  // all words together are text for a shell: eval
    TRAPS,  // its first word is
    SHELL,  // the word after -c is
    SEARCH, // find: what follows -exec
};

static const struct wrapper {
    const char *name;
    enum wrapper_kind kind;
    unsigned operands; // of its own, before the command
} wrappers[] = {
    {"env", RUNS, 0},        {"nohup", RUNS, 0},       {"timeout", RUNS, 1}, {"nice", RUNS, 0},
    {"xargs", RUNS, 0},      {"sudo", EITHER, 0},      {"doas", EITHER, 0},  {"command", RUNS, 0},
    {"builtin", RUNS, 0},    {"exec", RUNS, 0},        {"setsid", RUNS, 0},  {"stdbuf", RUNS, 0},
    {"ionice", RUNS, 0},     {"chrt", RUNS, 1},        {"taskset", RUNS, 1}, {"busybox", RUNS, 0},
    {"time", RUNS, 0},       {"watch", EITHER, 0},     {"unshare", RUNS, 0}, {"chroot", RUNS, 1},
    {"parallel", EITHER, 0}, {"flock", EITHER, 1},     {"strace", RUNS, 0},  {"script", EITHER, 0},
    {"toybox", RUNS, 0},     {"fakeroot", RUNS, 0},    {"pkexec", RUNS, 0},  {"setpriv", RUNS, 0},
    {"nsenter", RUNS, 0},    {"systemd-run", RUNS, 0}, {"prlimit", RUNS, 0}, {"runuser", EITHER, 0},
    {"eval", READS, 0},      {"trap", TRAPS, 0},       {"find", SEARCH, 0},  {"fd", SEARCH, 0},
    {"su", SHELL, 0},
};

static const struct wrapper *find_wrapper(struct str name)
{
    static const struct wrapper shell = {"sh", SHELL, 0};
    for (size_t i = 0; i < ARRAY_LEN(wrappers); i++) {
        if (str_eqz(name, wrappers[i].name)) {
            return &wrappers[i];
        }
    }
    return cmd_is_shell(name) ? &shell : NULL;
}

bool match_runs_others(struct str name)
{
    static const char *const more[] = {"python*", "perl", "ruby",   "node",   "deno",    "bun",
                                       "lua*",    "php",  "awk",    "gawk",   "mawk",    "ssh",
                                       "make",    "npx",  "docker", "podman", "kubectl", "source",
                                       ".",       "tmux", "screen", "at",     "batch"};
    bool runs = find_wrapper(name) != NULL;
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        runs |= str_glob(str_of(more[i]), name);
    }
    return runs;
}

/// A search through all that a line would run.
struct search {
    struct arena *arena;
    match__visit_fn *visit;
    const void *arg;
    unsigned depth;
    size_t spent;
    bool piped;   // inside xargs or parallel, which add words from their input
    bool gave_up; // some command was not looked into
};

static bool search_simple(struct search *s, const struct cmd_simple *c);

/// Pay for the next part of the search. False: it is not searched.
static bool afford(struct search *s, size_t cost)
{
    s->spent += cost;
    s->gave_up |= s->spent > BUDGET || s->depth == UNWRAP_MAX;
    return s->spent <= BUDGET && s->depth < UNWRAP_MAX;
}

static bool search_text(struct search *s, struct str text)
{
    struct cmdline l = {0};
    bool found = false;
    if (afford(s, text.n)) {
        cmdline_parse(&l, s->arena, text);
    }
    s->gave_up |= (l.flags & CMD_BROKEN) != 0;
    for (size_t i = 0; !found && i < l.n_simples; i++) {
        s->gave_up |= s->piped && str_eqz(cmd_name(&l.simples[i]), "{}");
        found = search_simple(s, &l.simples[i]);
    }
    return found;
}

/// A word that a shell reads as commands. The value of an expansion can hold some that are not in the text.
static bool search_word(struct search *s, const struct cmd_word *w)
{
    s->gave_up |= w->dynamic;
    return search_text(s, w->text);
}

static bool search_from(struct search *s, const struct cmd_simple *c, size_t at)
{
    struct cmd_simple rest = {.words = c->words + at, .n_words = c->n_words - at, .fed = c->fed};
    return search_simple(s, &rest);
}

bool match__is_option(struct str w)
{
    return w.n > 1 && w.p[0] == '-';
}

/// env -S 'rm x', -S'rm x', --split-string='rm x': the words of a text, then the words after it.
static bool search_split(struct search *s, const struct cmd_simple *c, size_t at)
{
    struct str w = c->words[at].text, text = w;
    ptrdiff_t letter = w.p[1] != '-' ? str_index(w, 'S') : -1;
    if (letter > 0) {
        text = str_from(w, (size_t)letter + 1);
    } else if (!str_starts(w, "--split-string")) {
        return false;
    } else {
        str_cut(&text, '=');
    }
    at++;
    if (text.n == 0 && at < c->n_words) {
        text = c->words[at++].text;
    }
    struct cmdline l = {0};
    size_t rest = c->n_words - at;
    if (afford(s, text.n + rest)) {
        cmdline_parse(&l, s->arena, text);
    }
    s->gave_up |= (l.flags & CMD_BROKEN) != 0;
    if (l.n_simples == 0) {
        return false;
    }
    const struct cmd_simple *first = &l.simples[0];
    size_t n = first->n_words + rest;
    struct cmd_word *words = arena_calloc(s->arena, n + 1, sizeof *words);
    memcpy(words, first->words != NULL ? first->words : words, first->n_words * sizeof *words);
    memcpy(words + first->n_words, c->words + at, rest * sizeof *words);
    struct cmd_simple all = {.words = words, .n_words = n, .fed = c->fed};
    return search_simple(s, &all);
}

/// The text in an option that gives it to a shell: --command='rm x', -c'rm x'. Empty: there is none.
static struct str text_of_option(struct str w)
{
    ptrdiff_t letter = str_index(w, 'c');
    if (w.p[1] != '-') {
        return letter > 0 ? str_from(w, (size_t)letter + 1) : STR("");
    }
    return str_starts(w, "--command=") ? str_from(w, strlen("--command=")) : STR("");
}

/// An option of a wrapper may hold the command. `w` is one.
static bool search_option(struct search *s, const struct cmd_simple *c, size_t at,
                          enum wrapper_kind kind)
{
    struct str text = kind == EITHER ? text_of_option(c->words[at].text) : STR("");
    return search_split(s, c, at) || (text.n != 0 && search_text(s, text));
}

/// Each option may take the next word as its value, so every word up to there may be the command. Some wrappers
/// (watch, script -c, flock -c) give one word to a shell.
static bool search_wrapped(struct search *s, const struct cmd_simple *c, const struct wrapper *by)
{
    unsigned values = by->operands;
    bool any = false;
    for (size_t i = 1; i < c->n_words; i++) {
        struct str w = c->words[i].text;
        if (str_eqz(w, "-")) { // env -: with an empty environment
            continue;
        }
        if (match__is_option(w)) {
            if (search_option(s, c, i, by->kind)) {
                return true;
            }
            values += str_index(w, '=') < 0;
        } else if (str_index(w, '=') <= 0) {
            any = true;
            if (search_from(s, c, i) ||
                (by->kind == EITHER && str_index(w, ' ') > 0 && search_word(s, &c->words[i]))) {
                return true;
            }
            if (values-- == 0) {
                return false;
            }
        }
    }
    s->gave_up |= !any && s->piped; // its command comes from the input
    return false;
}

static bool search_shell(struct search *s, const struct cmd_simple *c)
{
    bool text = false, any = false;
    for (size_t i = 1; i < c->n_words; i++) {
        const struct cmd_word *w = &c->words[i];
        if (match__is_option(w->text)) {
            struct str within = text_of_option(w->text);
            text |= str_eqz(w->text, "--command") ||
                    (w->text.p[1] != '-' && str_index(w->text, 'c') > 0);
            if (within.n != 0 && search_text(s, within)) { // fish and su
                return true;
            }
        } else if (text) {
            any = true;
            if (search_word(s, w)) {
                return true;
            }
        }
    }
    s->gave_up |= text && !any && s->piped;
    return false;
}

static bool search_reads(struct search *s, const struct cmd_simple *c, bool all_words)
{
    struct buf all = {.max = SIZE_MAX};
    size_t first = 1;
    while (first < c->n_words && match__is_option(c->words[first].text)) {
        first++;
    }
    size_t end = all_words ? c->n_words : MIN(first + 1, c->n_words);
    for (size_t i = first; i < end; i++) {
        s->gave_up |= c->words[i].dynamic;
        buf_adds(&all, c->words[i].text);
        buf_addc(&all, ' ');
    }
    s->gave_up |= first == end && s->piped;
    bool found = search_text(s, arena_str(s->arena, buf_str(&all)));
    buf_fini(&all);
    return found;
}

static bool search_exec(struct search *s, const struct cmd_simple *c)
{
    static const char *const flags[] = {"-exec", "-execdir", "-ok",    "-okdir",
                                        "-x",    "-X",       "--exec", "--exec-batch"};
    for (size_t i = 1; i + 1 < c->n_words; i++) {
        for (size_t k = 0; k < ARRAY_LEN(flags); k++) {
            if (str_eqz(c->words[i].text, flags[k]) && search_from(s, c, i + 1)) {
                return true;
            }
        }
    }
    return false;
}

/// xargs and parallel add words that they read.
static bool search_piped(struct search *s, const struct cmd_simple *c, const struct wrapper *w)
{
    bool lists = strcmp(w->name, "parallel") == 0; // without a command it reads whole ones
    s->piped |= lists;
    if (strcmp(w->name, "xargs") == 0) {
        s->piped = c->n_words > 1;
    }
    return search_wrapped(s, c, w);
}

static bool search_simple(struct search *s, const struct cmd_simple *c)
{
    if (!afford(s, c->n_words)) {
        return false;
    }
    if (s->visit(c, s->arg)) {
        return true;
    }
    if (c->n_words == 0) {
        return false;
    }
    const struct wrapper *w = find_wrapper(cmd_name(c));
    bool found = false, was_piped = s->piped;
    s->depth++;
    if (w != NULL) {
        found = w->kind == SHELL    ? search_shell(s, c)
                : w->kind == SEARCH ? search_exec(s, c)
                : w->kind == READS  ? search_reads(s, c, true)
                : w->kind == TRAPS  ? search_reads(s, c, false)
                                    : search_piped(s, c, w);
    }
    s->depth--;
    s->piped = was_piped;
    return found;
}

bool match__search(const struct cmdline *l, struct arena *a, match__visit_fn *visit,
                   const void *arg, bool *gave_up)
{
    struct search s = {.arena = a, .visit = visit, .arg = arg};
    bool found = false;
    for (size_t i = 0; !found && i < l->n_simples; i++) {
        found = search_simple(&s, &l->simples[i]);
    }
    if (gave_up != NULL) {
        *gave_up = s.gave_up;
    }
    return found;
}

/// Is this option given anywhere: "--force", or all letters of "-rf"?
static bool has_option(const struct cmd_simple *c, struct str option)
{
    bool is_long = option.p[1] == '-';
    size_t left = is_long ? 1 : option.n - 1;
    for (size_t k = 1; k < option.n && left != 0; k += is_long ? option.n : 1) {
        bool given = false;
        for (size_t i = 1; i < c->n_words; i++) {
            struct str w = c->words[i].text, name = w;
            given |= match__is_option(w) &&
                     (is_long ? str_eq(w, option) || str_eq(str_cut(&name, '='), option)
                              : w.p[1] != '-' && str_index(w, option.p[k]) > 0);
        }
        left -= given;
    }
    return left == 0;
}

/// A pattern of a fence.
struct fence {
    const struct pattern *p;
    bool guess; // a word that the shell decides may be the pattern's
};

/// The pattern's words in order, with options (and one value for each) between them.
static bool fits_widely(const struct cmd_simple *c, const void *arg)
{
    const struct fence *f = arg;
    const struct pattern *p = f->p;
    size_t at = 1, values = 0, i = 1;
    struct str first = p->words[0].text;
    bool by_name = str_index(first, '/') < 0, value_unknown = false;
    if (c->n_words == 0 || is_rest(p, 0)) {
        return c->n_words != 0;
    }
    if (!word_fits(&p->words[0], by_name ? cmd_name(c) : c->words[0].text)) {
        return false;
    }
    while (i < p->n && !is_rest(p, i)) {
        if (match__is_option(p->words[i].text) && !p->words[i].dynamic) {
            if (!has_option(c, p->words[i].text)) {
                return false;
            }
            i++;
        } else if (at == c->n_words) {
            return value_unknown;
        } else if (word_fits(&p->words[i], c->words[at].text)) {
            i++;
            at++;
        } else if (match__is_option(c->words[at].text)) {
            values++;
            at++;
        } else if (values != 0) {
            value_unknown |= f->guess && c->words[at].dynamic;
            values--;
            at++;
        } else {
            return f->guess && c->words[at].dynamic; // it may stand for several words
        }
    }
    while (i == p->n && at < c->n_words && match__is_option(c->words[at].text)) {
        at++;
    }
    return i < p->n || at == c->n_words;
}

bool match_finds(const struct pattern *p, const struct cmdline *l, struct arena *a)
{
    struct fence f = {.p = p};
    return match__search(l, a, fits_widely, &f, NULL);
}

bool match_may_find(const struct pattern *p, const struct cmdline *l, struct arena *a)
{
    struct fence f = {.p = p, .guess = true};
    return match__search(l, a, fits_widely, &f, NULL);
}
