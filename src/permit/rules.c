// What rules say about a call.
//
// Four kinds of tools have their kinds of patterns:
//
//     shell                  commands      "git status *"    match.c
//     write_file and its like  paths       "src/**.c"        below the working directory
//     web_fetch              hosts         "*.example.org"
//     any other tool         none: a rule covers every call
//
// Deny and ask rules are fences and match widely; allow rules are promises and match narrowly. A command
// line is allowed when each of its commands is allowed by some rule, so `git status && make` needs two.
// A line that hides what it runs ("$X a", or "git $X" with a fence for "git push") cannot be compared with a fence,
// so where there is one the user is asked.
//
// What an answer covers is said before it is given (rules_offers), and the rule made from it (rules_make)
// covers exactly that.

#include "permit/rules.h"

#include <assert.h>
#include <limits.h>

#include "base/path.h"
#include "base/url.h"
#include "base/vec.h"

enum permit_kind { KIND_COMMAND, KIND_PATH, KIND_URL, KIND_OTHER };

static const struct permit_tool {
    const char *name;
    enum permit_kind kind;
    const char *member; // of the input: what patterns are compared with
    const char *calls;  // in words: "every shell command"
} permit_tools[] = {
    {"shell", KIND_COMMAND, "cmd", "shell command"},
    {"write_file", KIND_PATH, "path", "file write"},
    {"edit_file", KIND_PATH, "path", "file edit"},
    {"read_file", KIND_PATH, "path", "file read"},
    {"list_files", KIND_PATH, "path", "listing"},
    {"search_files", KIND_PATH, "path", "search"},
    {"web_fetch", KIND_URL, "url", "web page"},
};

static const char *const reach_names[PERMIT__REACHES] = {"once", "exact", "prefix", "tool",
                                                         "project"};
static const char *const verdict_names[] = {"none", "allow", "ask", "deny"};

static const struct permit_tool *find_tool(struct str name)
{
    static const struct permit_tool other = {"", KIND_OTHER, "", "call"};
    for (size_t i = 0; i < ARRAY_LEN(permit_tools); i++) {
        if (str_eqz(name, permit_tools[i].name)) {
            return &permit_tools[i];
        }
    }
    return &other;
}

const char *permit_reach_name(enum permit_reach reach)
{
    assert(reach < PERMIT__REACHES);
    return reach_names[reach];
}

bool permit_reach_find(struct str name, enum permit_reach *out)
{
    ptrdiff_t i = str_lookup(name, reach_names, ARRAY_LEN(reach_names));
    *out = i >= 0 ? (enum permit_reach)i : PERMIT_ONCE;
    return i >= 0;
}

const char *permit_verdict_name(enum permit_verdict verdict)
{
    assert(verdict < ARRAY_LEN(verdict_names));
    return verdict_names[verdict];
}

bool permit_verdict_find(struct str name, enum permit_verdict *out)
{
    ptrdiff_t i = str_lookup(name, verdict_names, ARRAY_LEN(verdict_names));
    *out = i >= 0 ? (enum permit_verdict)i : PERMIT_NONE;
    return i > PERMIT_NONE;
}

// ---- lists --------------------------------------------------------------------------------------

void rules_init(struct rules *r)
{
    *r = (struct rules){0};
}

void rules_fini(struct rules *r)
{
    arena_fini(&r->arena);
    vec_fini(r);
}

static const char *keep(struct rules *r, const char *text)
{
    return text != NULL ? arena_strdup(&r->arena, str_of(text)) : NULL;
}

static char *lower(char *text)
{
    for (char *p = text; *p != '\0'; p++) {
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p | 32 : *p);
    }
    return text;
}

int rules_add(struct rules *r, const struct rule *rule, struct err *e)
{
    assert(rule->tool != NULL && rule->decision != PERMIT_NONE);
    enum permit_kind kind = find_tool(str_of(rule->tool))->kind;
    struct rule own = {.id = keep(r, rule->id),
                       .tool = keep(r, rule->tool),
                       .match = keep(r, rule->match),
                       .session = keep(r, rule->session),
                       .exact = rule->exact,
                       .decision = rule->decision,
                       .at_ms = rule->at_ms};
    int rc = 0;
    if (own.match != NULL && kind == KIND_URL && !own.exact) {
        own.match = lower(arena_strdup(&r->arena, str_of(own.match)));
    }
    if (own.match != NULL && kind == KIND_OTHER) {
        rc = err_set(e, ERR_INVALID, "calls of '%s' have no pattern; leave 'match' out", own.tool);
    } else if (own.match != NULL && kind == KIND_COMMAND && !own.exact) {
        rc = pattern_parse(&own.pattern, &r->arena, str_of(own.match), e);
    } else if (own.match != NULL && own.match[0] == '\0') {
        rc = err_set(e, ERR_INVALID, "the pattern is empty");
    }
    if (rc == 0) {
        vec_push(r, own);
    }
    return rc;
}

void rules_read(struct rules *r, const struct config *c, struct config_diags *d)
{
    size_t at = 0;
    const struct config_entry *entry;
    while ((entry = config_next(c, &at)) != NULL) {
        if (!str_starts(str_of(entry->key), "permission.")) {
            continue;
        }
        struct err e = {0};
        const struct json *match = json_get(entry->value, "match"); // its pattern is checked here
        struct rule rule = {.id = entry->key,
                            .tool = json_str(json_get(entry->value, "tool"), "").p,
                            .match = match != NULL ? json_str(match, "").p : NULL};
        bool known =
            permit_verdict_find(json_str(json_get(entry->value, "decision"), ""), &rule.decision);
        assert(known); // the configuration has checked the members
        (void)known;
        if (rules_add(r, &rule, &e) < 0) {
            config_diags_add(d, CONFIG_ERROR, (struct config_place){entry->path, entry->line, 1},
                             NULL, "'match' of [[permission]]: %s", e.msg);
            config_diag_refuse(vec_last(d));
        }
    }
}

// ---- paths --------------------------------------------------------------------------------------

/// Places in a glob that what was read so far leads to, one byte for each of its characters and its end. A star may stand
/// for nothing; that of "**/" only where a name begins.
static void skip_stars(const char *p, char *at, bool at_name)
{
    for (size_t i = 0; p[i] != '\0'; i++) {
        if (at[i] != 0 && p[i] == '*') {
            bool deep = p[i + 1] == '*', whole = deep && p[i + 2] == '/';
            at[i + 1 + deep + whole] |= !whole || at_name;
        }
    }
}

/// Match a path against a glob: `*` and `?` stay inside one directory, `**` crosses them, and "**" + "/" stands for any
/// directories, also none. All places in the glob are followed at once, so a path that a model makes up to be hard takes
/// no longer than another one. One that is too long for a file matches nothing.
static bool path_glob(const char *p, const char *s)
{
    size_t m = strlen(p) + 1;
    if (strlen(s) >= PATH_MAX) {
        return false;
    }
    char *at = xcalloc(2, m), *next = at + m, *both = at;
    at[0] = 1;
    skip_stars(p, at, true);
    for (; *s != '\0'; s++) {
        memset(next, 0, m);
        for (size_t i = 0; i + 1 < m; i++) {
            bool fits = p[i] == *s || (p[i] == '?' && *s != '/');
            if (at[i] != 0 && p[i] == '*') {
                next[i] |= p[i + 1] == '*' || *s != '/';
            } else if (at[i] != 0 && fits) {
                next[i + 1] = 1;
            }
        }
        skip_stars(p, next, *s == '/');
        char *was = at;
        at = next;
        next = was;
    }
    bool found = at[m - 1] != 0;
    free(both);
    return found;
}

const char *rules_file(const struct permit_call *c, struct arena *a)
{
    const struct permit_tool *tool = find_tool(c->tool);
    bool command = tool->kind == KIND_COMMAND;
    struct str asked = json_str(json_get(c->input, command ? "cwd" : tool->member), "");
    bool none = command ? asked.n == 0 : tool->kind != KIND_PATH;
    if (none || str_index(asked, '\0') >= 0) {
        return NULL;
    }
    char *said = asked.n != 0 ? str_dup(asked) : xstrdup(".");
    char *home = path_expand_home(said), *full = path_join(c->working_dir, home);
    const char *file = arena_strdup(a, str_of(full));
    free(full);
    free(home);
    free(said);
    return file;
}

const char *const *rules_writes(const struct permit_call *c, struct arena *a)
{
    const struct permit_tool *tool = find_tool(c->tool);
    const char *cwd = tool->kind == KIND_COMMAND ? rules_file(c, a) : NULL;
    struct cmdline line = {0};
    size_t n = 0;
    if (tool->kind == KIND_COMMAND) {
        cmdline_parse(&line, a, json_str(json_get(c->input, tool->member), ""));
    }
    const char **files = arena_calloc(a, line.n_writes + 1, sizeof *files);
    for (size_t i = 0; i < line.n_writes; i++) {
        struct str to = line.writes[i].text;
        if (!line.writes[i].dynamic && !str_eqz(to, "/dev/null") && str_index(to, '\0') < 0) {
            const char *said = arena_strdup(a, to);
            char *full = path_join(cwd != NULL ? cwd : c->working_dir, said);
            files[n++] = arena_strdup(a, str_of(full));
            free(full);
        }
    }
    return n != 0 ? files : NULL;
}

/// Do all redirections stay in `root`, links followed?
static bool writes_stay(const char *const *writes, struct str root)
{
    for (; writes != NULL && *writes != NULL; writes++) {
        if (!match_is_inside(str_of(*writes), root, root) && strcmp(*writes, "/dev/null") != 0) {
            return false;
        }
    }
    return true;
}

/// `file` relative to the working directory; NULL: it is outside.
static const char *below(const char *working_dir, const char *file)
{
    struct str dir = str_of(working_dir);
    if (!match_is_inside(str_of(file), dir, dir)) {
        return NULL;
    }
    const char *rest = file + dir.n;
    return rest[0] == '/' ? rest + 1 : rest;
}

// ---- judging ------------------------------------------------------------------------------------

/// A call, read once for all rules.
struct subject {
    const struct permit_call *c;
    const struct permit_tool *tool;
    struct arena *arena;
    struct str text;     // the command line, the path or the address, as asked for
    struct cmdline line; // of a command
    struct str cwd;      // where it runs
    bool inside;         // that is in the working directory
    bool plain;          // patterns may allow it
    const char *host; // of an address, in lower case, a port of its own with it; NULL: it has none
    const char *bare_host; // without the port
};

/// Find the hosts that rules know the address by; there are none when it is no plain address.
static void read_hosts(struct subject *s)
{
    struct url u;
    if (!url_parse(&u, s->text)) {
        return;
    }
    bool usual = u.port.n == 0 || str_eqz(u.port, str_caseeqz(u.scheme, "http") ? "80" : "443");
    struct str port = usual ? STR("") : u.port;
    s->bare_host = lower(arena_strdup(s->arena, u.host));
    s->host = arena_printf(s->arena, "%s%s" STR_FMT, s->bare_host, usual ? "" : ":", STR_ARG(port));
}

static void read_subject(struct subject *s, const struct permit_call *c, struct arena *a)
{
    *s = (struct subject){.c = c, .tool = find_tool(c->tool), .arena = a};
    struct str root = str_of(c->working_dir);
    s->text = json_str(json_get(c->input, s->tool->member), "");
    if (s->tool->kind == KIND_URL) {
        read_hosts(s);
    } else if (s->tool->kind == KIND_COMMAND) {
        s->cwd = c->file != NULL ? str_of(c->file) : root;
        cmdline_parse(&s->line, a, s->text);
        s->inside = match_is_inside(s->cwd, root, root);
        s->plain =
            s->inside && match_is_plain(&s->line, s->cwd, root) && writes_stay(c->writes, root);
    }
}

static bool concerns(const struct rule *r, const struct permit_call *c)
{
    return str_glob(str_of(r->tool), c->tool) &&
           (r->session == NULL || strcmp(r->session, c->session) == 0);
}

/// A fence: deny and ask.
static bool fence_matches(const struct rule *r, const struct subject *s)
{
    if (r->match == NULL) {
        return true;
    }
    if (s->tool->kind == KIND_PATH) {
        const char *rel = s->c->file != NULL ? below(s->c->working_dir, s->c->file) : NULL;
        char *asked = str_dup(s->text);
        bool hit = path_glob(r->match, asked) || (rel != NULL && path_glob(r->match, rel)) ||
                   (s->c->file != NULL && path_glob(r->match, s->c->file));
        free(asked);
        return hit;
    }
    if (s->tool->kind == KIND_URL) { // who knows where an address leads that cannot be read
        return s->host == NULL || (r->exact ? str_eqz(s->text, r->match)
                                            : str_glob(str_of(r->match), str_of(s->host)) ||
                                                  str_glob(str_of(r->match), str_of(s->bare_host)));
    }
    return r->exact ? str_eqz(s->text, r->match) : match_finds(&r->pattern, &s->line, s->arena);
}

/// A promise: does this rule alone cover the call (`simple` NULL), or one command of it?
static bool promise_covers(const struct rule *r, const struct subject *s,
                           const struct cmd_simple *simple)
{
    if (s->tool->kind == KIND_COMMAND) {
        if (!s->inside) {
            return false;
        }
        bool whole = r->match == NULL || (r->exact && str_eqz(s->text, r->match));
        return simple == NULL
                   ? whole
                   : r->match != NULL && !r->exact && s->plain && match_allows(&r->pattern, simple);
    }
    if (simple != NULL || r->match == NULL) {
        return simple == NULL;
    }
    if (s->tool->kind == KIND_URL) {
        return s->host != NULL && (r->exact ? str_eqz(s->text, r->match)
                                            : str_glob(str_of(r->match), str_of(s->host)));
    }
    const char *rel = s->c->file != NULL ? below(s->c->working_dir, s->c->file) : NULL;
    return rel != NULL && (r->exact ? strcmp(r->match, rel) == 0 : path_glob(r->match, rel));
}

/// Every rule of every list that concerns the call, one after the other.
struct walk {
    const struct rules *const *lists;
    size_t n, list, at;
};

static const struct rule *next_rule(struct walk *w, const struct permit_call *c,
                                    enum permit_verdict decision)
{
    for (; w->list < w->n; w->list++, w->at = 0) {
        while (w->at < w->lists[w->list]->n) {
            const struct rule *r = &w->lists[w->list]->p[w->at++];
            if (r->decision == decision && concerns(r, c)) {
                return r;
            }
        }
    }
    return NULL;
}

/// The first promise that covers the call, or one command of it.
static const struct rule *find_promise(struct walk w, const struct subject *s,
                                       const struct cmd_simple *simple)
{
    const struct rule *r;
    while ((r = next_rule(&w, s->c, PERMIT_ALLOW)) != NULL && !promise_covers(r, s, simple)) {
    }
    return r;
}

static bool is_allowed(struct walk w, const struct subject *s, const struct rule **by)
{
    *by = find_promise(w, s, NULL);
    bool all = *by == NULL && s->tool->kind == KIND_COMMAND && s->plain;
    for (size_t i = 0; all && i < s->line.n_simples; i++) {
        const struct rule *r = find_promise(w, s, &s->line.simples[i]);
        *by = s->line.n_simples == 1 ? r : NULL;
        all = r != NULL;
    }
    return *by != NULL || all;
}

/// May a command run that is behind a fence, although the text does not say so?
static bool may_pass_fence(struct walk start, const struct subject *s)
{
    bool may = match_is_opaque(&s->line, s->arena);
    for (enum permit_verdict d = PERMIT_DENY; !may && d >= PERMIT_ASK; d--) {
        struct walk w = start;
        const struct rule *r;
        while (!may && (r = next_rule(&w, s->c, d)) != NULL) {
            may = r->match != NULL && !r->exact && match_may_find(&r->pattern, &s->line, s->arena);
        }
    }
    return may;
}

enum permit_verdict rules_judge(const struct rules *const *lists, size_t n,
                                const struct permit_call *c, struct arena *a,
                                const struct rule **by)
{
    const struct walk start = {.lists = lists, .n = n};
    const struct rule *r = NULL;
    struct subject s;
    enum permit_verdict v = PERMIT_NONE;
    bool fenced = false;
    read_subject(&s, c, a);
    for (enum permit_verdict d = PERMIT_DENY; v == PERMIT_NONE && d >= PERMIT_ASK; d--) {
        struct walk w = start;
        while (v == PERMIT_NONE && (r = next_rule(&w, c, d)) != NULL) {
            fenced |= r->match != NULL;
            v = fence_matches(r, &s) ? d : PERMIT_NONE;
        }
    }
    if (v == PERMIT_NONE && fenced && s.tool->kind == KIND_COMMAND && may_pass_fence(start, &s)) {
        v = PERMIT_ASK;
    } else if (v == PERMIT_NONE && is_allowed(start, &s, &r)) {
        v = PERMIT_ALLOW;
    }
    if (by != NULL) {
        *by = r;
    }
    return v;
}

// ---- offers -------------------------------------------------------------------------------------

static bool is_subcommand(const struct cmd_word *w)
{
    bool ok = !w->dynamic && w->text.n != 0 && w->text.p[0] >= 'a' && w->text.p[0] <= 'z';
    for (size_t i = 0; ok && i < w->text.n; i++) {
        char c = w->text.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == ':' || c == '_';
    }
    return ok;
}

/// "git status *": the program and its subcommand. NULL: no prefix of this line says what it runs.
static const char *prefix_of(const struct subject *s)
{
    const struct cmd_simple *c = s->line.simples;
    if (s->tool->kind == KIND_URL) {
        return s->host;
    }
    if (s->tool->kind == KIND_PATH) {
        const char *rel = s->c->file != NULL ? below(s->c->working_dir, s->c->file) : NULL;
        struct str dir = rel != NULL ? path_dir(str_of(rel)) : STR(".");
        return str_eqz(dir, ".") ? NULL : arena_printf(s->arena, STR_FMT "/**", STR_ARG(dir));
    }
    if (s->tool->kind != KIND_COMMAND || !s->plain || s->line.n_simples != 1 || c->n_words == 0 ||
        c->n_assigns != 0 || c->words[0].dynamic || match_runs_others(cmd_name(c))) {
        return NULL;
    }
    struct buf text = {.max = SIZE_MAX};
    size_t words = 1;
    if (c->n_words > 1 && is_subcommand(&c->words[1])) {
        bool runs = str_eqz(c->words[1].text, "run") || str_eqz(c->words[1].text, "exec");
        words = runs && c->n_words > 2 && is_subcommand(&c->words[2]) ? 3 : 2;
    }
    for (size_t i = 0; i < words; i++) {
        pattern_quote(&text, c->words[i].text);
        buf_addc(&text, ' ');
    }
    buf_addc(&text, '*');
    const char *kept = arena_strdup(s->arena, buf_str(&text));
    buf_fini(&text);
    return kept;
}

/// What `match` is for a reach, and whether it is offered at all.
static bool match_for(const struct subject *s, enum permit_reach reach, const char **match)
{
    *match = NULL;
    if (reach == PERMIT_EXACT && s->tool->kind == KIND_URL) {
        *match = s->host != NULL ? arena_strdup(s->arena, s->text) : NULL;
        return *match != NULL;
    }
    if (reach == PERMIT_EXACT) {
        bool inside = s->tool->kind == KIND_COMMAND
                          ? s->inside
                          : s->c->file != NULL && below(s->c->working_dir, s->c->file) != NULL;
        *match = s->tool->kind == KIND_OTHER || !inside || s->text.n == 0 ? NULL
                 : s->tool->kind == KIND_COMMAND
                     ? arena_strdup(s->arena, s->text)
                     : arena_strdup(s->arena, str_of(below(s->c->working_dir, s->c->file)));
        return *match != NULL;
    }
    if (reach == PERMIT_PREFIX) {
        *match = prefix_of(s);
        return *match != NULL;
    }
    return true;
}

static const char *words_for(const struct subject *s, enum permit_reach reach, const char *match)
{
    const char *calls = s->tool->kind == KIND_OTHER
                            ? arena_printf(s->arena, "call of '" STR_FMT "'", STR_ARG(s->c->tool))
                            : s->tool->calls;
    static const char *const exact[] = {[KIND_COMMAND] = "exactly this command",
                                        [KIND_PATH] = "this file",
                                        [KIND_URL] = "this address"};
    static const char *const prefix[] = {[KIND_COMMAND] = "any single command of this form",
                                         [KIND_PATH] = "files of this form",
                                         [KIND_URL] = "every page of this host"};
    switch (reach) {
    case PERMIT_ONCE: return "this call only";
    case PERMIT_EXACT:
    case PERMIT_PREFIX:
        assert(s->tool->kind < KIND_OTHER);
        return arena_printf(s->arena, "%s in this project: %s",
                            (reach == PERMIT_EXACT ? exact : prefix)[s->tool->kind], match);
    case PERMIT_TOOL: return arena_printf(s->arena, "every %s in this session", calls);
    default: return arena_printf(s->arena, "every %s in this project, in all sessions", calls);
    }
}

size_t rules_offers(const struct permit_call *c, struct arena *a, struct permit_offer *out)
{
    struct subject s;
    size_t n = 0;
    read_subject(&s, c, a);
    for (enum permit_reach reach = PERMIT_ONCE; reach < PERMIT__REACHES; reach++) {
        const char *match;
        if (match_for(&s, reach, &match)) {
            out[n++] = (struct permit_offer){reach, words_for(&s, reach, match)};
        }
    }
    assert(n != 0 && n <= PERMIT__REACHES);
    return n;
}

bool rules_make(const struct permit_call *c, enum permit_reach reach, enum permit_verdict decision,
                struct arena *a, struct rule *out)
{
    struct subject s;
    read_subject(&s, c, a);
    *out =
        (struct rule){.tool = arena_strdup(a, c->tool),
                      .session = reach == PERMIT_TOOL ? arena_strdup(a, str_of(c->session)) : NULL,
                      .exact = reach == PERMIT_EXACT,
                      .decision = decision};
    assert(decision == PERMIT_ALLOW || decision == PERMIT_DENY);
    bool offered = reach != PERMIT_ONCE && match_for(&s, reach, &out->match);
    return offered;
}
