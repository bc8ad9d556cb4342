// config.md of a bot.
//
//     +++                         TOML: one row of `keys` for each key
//     model = "..."
//     [worktree]                  a table, or `worktree = false`
//     setup = ["npm ci"]
//     +++
//     You look after ...          the instructions
//
// Reading goes over the whole file and notes every problem, so that a person mends all of them at once;
// a file with an error counts for nothing. Places are those of the file: the TOML begins in its second line.
//
// Invariant: what a flag may say is what the file may say; both go through the same checks.

#include "bot/config.h"

#include "base/front.h"
#include "base/toml.h"
#include "base/utf8.h"

enum { ITERATIONS_MAX = 1000000, SLEEP_MAX = 30 * 24 * 3600, NAME_MAX_BYTES = 64 };

static const char builtin[] =
    "You are a bot that works by itself in the project named below. Find out what needs to be done "
    "there, do one useful piece of it well, check that it works, and say plainly what you did.";

static const char *const merge_names[] = {
#define X(id, name) [BOT_MERGE_##id] = (name),
    BOT_MERGES(X)
#undef X
};

static bool is_sandbox(const char *name)
{
    static const char *const all[] = {"read-only", "workspace-write", "danger-full-access"};
    return name != NULL && str_lookup(str_of(name), all, ARRAY_LEN(all)) >= 0;
}

void bot_config_init(struct bot_config *c)
{
    *c = (struct bot_config){.description = "",
                             .instructions = builtin,
                             .max_iterations = BOT_UNSET,
                             .sleep_secs = 30,
                             .engine = "native",
                             .network = BOT_UNSET,
                             .worktree = true};
}

void bot_config_fini(struct bot_config *c)
{
    arena_fini(&c->arena);
    *c = (struct bot_config){0};
}

// ---- one value ----------------------------------------------------------------------------------

struct reader {
    struct bot_config *c;
    struct config_diags *d;
    const char *path;
};

static struct config_place place(const struct reader *r, uint32_t line, uint32_t col)
{
    return (struct config_place){r->path, line + 1, col};
}

/// Note that `v` is no value of `key`.
static bool refuse(struct reader *r, const struct toml *v, const char *key, const char *expected)
{
    config_diags_add(r->d, CONFIG_ERROR, place(r, v->line, v->col), NULL,
                     "expected %s for '%s', found %s", expected, key, toml_type_name(v));
    return false;
}

/// A key, and where its value goes in struct bot_config.
struct key {
    const char *name; // in its table
    const char *full; // as messages call it
    bool (*take)(struct reader *r, const struct toml *v, const struct key *k);
    size_t at;
    int64_t max;                        // of a number
    bool (*is_valid)(const char *text); // of take_checked(), with what it wants
    const char *expected;
};

static void *member_of(const struct reader *r, const struct key *k)
{
    return (char *)r->c + k->at;
}

static bool take_text(struct reader *r, const struct toml *v, const struct key *k)
{
    const char **out = member_of(r, k);
    if (v->type != TOML_STR || memchr(v->s.p, 0, v->s.n) != NULL) {
        return refuse(r, v, k->full, "a string");
    }
    *out = v->s.n != 0 ? arena_strdup(&r->c->arena, v->s) : NULL;
    return true;
}

static bool take_number(struct reader *r, const struct toml *v, const struct key *k)
{
    int64_t *out = member_of(r, k);
    if (v->type != TOML_INT || v->i < 0 || v->i > k->max) {
        char expected[64];
        snprintf(expected, sizeof expected, "a number from 0 to %lld", (long long)k->max);
        return refuse(r, v, k->full, expected);
    }
    *out = v->i;
    return true;
}

static bool take_bool(struct reader *r, const struct toml *v, const struct key *k)
{
    bool *out = member_of(r, k);
    if (v->type != TOML_BOOL) {
        return refuse(r, v, k->full, "true or false");
    }
    *out = v->b;
    return true;
}

/// A list of strings, or one string.
static bool take_names(struct reader *r, const struct toml *v, const struct key *k)
{
    struct bot_names *out = member_of(r, k);
    uint32_t n = v->type == TOML_ARR ? v->n : 1;
    const char **list = arena_calloc(&r->c->arena, n + 1, sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const struct toml *it = v->type == TOML_ARR ? &v->items[i] : v;
        if (it->type != TOML_STR || it->s.n == 0 || memchr(it->s.p, 0, it->s.n) != NULL) {
            return refuse(r, it, k->full, "a list of strings");
        }
        list[i] = arena_strdup(&r->c->arena, it->s);
    }
    *out = (struct bot_names){list, n};
    return true;
}

/// True for a path that stays below the root it is relative to.
static bool is_inside(const char *path)
{
    struct str rest = str_of(path);
    if (rest.n == 0 || rest.p[0] == '/') {
        return false;
    }
    while (rest.p != NULL) {
        if (str_eqz(str_cut(&rest, '/'), "..")) {
            return false;
        }
    }
    return true;
}

static bool take_paths(struct reader *r, const struct toml *v, const struct key *k)
{
    struct bot_names *out = member_of(r, k), before = *out;
    if (!take_names(r, v, k)) {
        return false;
    }
    for (size_t i = 0; i < out->n; i++) {
        if (!is_inside(out->p[i])) {
            *out = before;
            return refuse(r, v, k->full, "paths inside the project, relative to its root");
        }
    }
    return true;
}

// ---- keys that take only some values --------------------------------------------------------------

static bool take_description(struct reader *r, const struct toml *v, const struct key *k)
{
    bool taken = take_text(r, v, k);
    r->c->description = r->c->description != NULL ? r->c->description : "";
    return taken;
}

static bool take_checked(struct reader *r, const struct toml *v, const struct key *k)
{
    const char **out = member_of(r, k), *before = *out;
    if (take_text(r, v, k) && !k->is_valid(*out)) {
        *out = before;
        return refuse(r, v, k->full, k->expected);
    }
    return true;
}

static bool is_engine(const char *name)
{
    return name != NULL && bot_name_valid(str_of(name));
}

static bool is_remote(const char *name)
{
    return name == NULL || name[0] != '-'; // git would take it for an option
}

static bool take_network(struct reader *r, const struct toml *v, const struct key *k)
{
    if (v->type != TOML_BOOL) {
        return refuse(r, v, k->full, "true or false");
    }
    r->c->network = v->b;
    return true;
}

static bool take_merge(struct reader *r, const struct toml *v, const struct key *k)
{
    ptrdiff_t i = v->type == TOML_STR ? str_lookup(v->s, merge_names, ARRAY_LEN(merge_names)) : -1;
    if (i < 0) {
        return refuse(r, v, k->full,
                      v->type == TOML_STR ? "\"ask\", \"auto\" or \"never\"" : "a string");
    }
    r->c->merge = (enum bot_merge)i;
    return true;
}

static bool take_plugins(struct reader *r, const struct toml *v, const struct key *k)
{
    if (v->type == TOML_STR && str_eqz(v->s, "*")) {
        r->c->plugins = (struct bot_names){0};
        return true;
    }
    return v->type == TOML_ARR ? take_names(r, v, k)
                               : refuse(r, v, k->full, "a list of names or \"*\"");
}

// ---- the keys -----------------------------------------------------------------------------------

#define IN_TABLE(table, key, fn, member)                                                           \
    .name = (key), .full = table key, .take = (fn), .at = offsetof(struct bot_config, member)
#define IN_BOT(member, fn)           IN_TABLE("", #member, fn, member)
#define IN_WORKTREE(key, fn, member) IN_TABLE("worktree.", key, fn, member)

static const struct key of_worktree[] = {
    {IN_WORKTREE("enabled", take_bool, worktree)},
    {IN_WORKTREE("include", take_paths, include)},
    {IN_WORKTREE("link", take_paths, link)},
    {IN_WORKTREE("setup", take_names, setup)},
    {IN_WORKTREE("remote", take_checked, remote), .is_valid = is_remote,
     .expected = "the name or address of a git remote"},
};

static void take_table(struct reader *r, const struct toml *table, const struct key *keys,
                       size_t n);

static bool take_worktree(struct reader *r, const struct toml *v, const struct key *k)
{
    if (v->type == TOML_TABLE) {
        take_table(r, v, of_worktree, ARRAY_LEN(of_worktree));
    } else if (v->type == TOML_BOOL) {
        r->c->worktree = v->b;
    } else {
        return refuse(r, v, k->full, "true, false or a table");
    }
    return true;
}

static const struct key of_bot[] = {
    {IN_BOT(description, take_description)},
    {IN_BOT(max_iterations, take_number), .max = ITERATIONS_MAX},
    {IN_BOT(sleep_secs, take_number), .max = SLEEP_MAX},
    {IN_BOT(model, take_text)},
    {IN_BOT(provider, take_text)},
    {IN_BOT(engine, take_checked), .is_valid = is_engine,
     .expected = "\"native\", \"codex\", \"claude\" or a name of [engines]"},
    {IN_BOT(sandbox, take_checked), .is_valid = is_sandbox,
     .expected = "\"read-only\", \"workspace-write\" or \"danger-full-access\""},
    {IN_BOT(network, take_network)},
    {IN_BOT(skip_git_check, take_bool)},
    {IN_BOT(worktree, take_worktree)},
    {IN_BOT(merge, take_merge)},
    {IN_BOT(plugins, take_plugins)},
    {IN_BOT(stop_phrase, take_text)},
};

static void warn_unknown(struct reader *r, const struct toml_member *m, const struct key *keys,
                         size_t n)
{
    const char *names[ARRAY_LEN(of_bot)];
    if (config_diags_full(r->d)) {
        return; // a hostile file has many, and looking for the nearest is slow
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = keys[i].name;
    }
    const char *nearest = str_nearest(m->key, names, n);
    config_diags_add(r->d, CONFIG_WARNING, place(r, m->line, m->col), NULL,
                     "unknown key '%.*s'%s%s%s", (int)MIN(m->key.n, (size_t)60), m->key.p,
                     nearest != NULL ? ", did you mean '" : "", nearest != NULL ? nearest : "",
                     nearest != NULL ? "'?" : "");
}

static void take_table(struct reader *r, const struct toml *table, const struct key *keys, size_t n)
{
    toml_foreach (m, table) {
        const struct key *found = NULL;
        for (size_t i = 0; i < n && found == NULL; i++) {
            found = str_eqz(m->key, keys[i].name) ? &keys[i] : NULL;
        }
        if (found != NULL) {
            (void)found->take(r, &m->value, found); // a refusal is noted
        } else {
            warn_unknown(r, m, keys, n);
        }
    }
}

// ---- the file -----------------------------------------------------------------------------------

/// The parser's message without the place it was found at, which is that in the head alone.
static const char *bare_message(const struct err *e, uint32_t line, uint32_t col)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "line %u, column %u: ", (unsigned)line, (unsigned)col);
    size_t n = strlen(prefix);
    return strncmp(e->msg, prefix, n) == 0 ? e->msg + n : e->msg;
}

static void read_head(struct reader *r, struct str head)
{
    struct toml *doc;
    struct err why = {0};
    uint32_t line = 0, col = 0;
    if (toml_parse(&doc, &r->c->arena, head, &line, &col, &why) < 0) {
        config_diags_add(r->d, CONFIG_ERROR, place(r, line, col), NULL, "%s",
                         bare_message(&why, line, col));
        return;
    }
    take_table(r, doc, of_bot, ARRAY_LEN(of_bot));
}

static void read_body(struct reader *r, struct str body)
{
    body = str_trim(body);
    if (body.n != 0) {
        r->c->instructions = arena_strdup(&r->c->arena, body);
    }
}

static void read_text(struct reader *r, struct str text)
{
    struct front f = front_split(text);
    size_t valid = utf8_valid_prefix(text);
    if (valid != text.n || memchr(text.p != NULL ? text.p : "", 0, text.n) != NULL) {
        config_diags_add(r->d, CONFIG_ERROR, (struct config_place){r->path, 1, 1}, NULL,
                         "the file is not text in UTF-8");
    } else if (f.kind == FRONT_UNCLOSED && str_starts(f.body, "+++")) {
        config_diags_add(r->d, CONFIG_ERROR, (struct config_place){r->path, 1, 1}, NULL,
                         "'+++' opens the settings and no other line '+++' closes them");
    } else if (f.kind == FRONT_TOML) {
        read_head(r, f.head);
        read_body(r, f.body);
    } else {
        read_body(r, f.kind == FRONT_LINES ? text : f.body); // `---` is a rule of Markdown here
    }
}

int bot_config_parse(struct bot_config *c, struct str text, const char *path,
                     struct config_diags *d, struct err *e)
{
    struct reader r = {c, d, path};
    size_t before = d->n;
    read_text(&r, text);
    for (size_t i = before; i < d->n; i++) {
        const struct config_diag *it = &d->p[i];
        if (it->severity == CONFIG_ERROR) {
            bot_config_fini(c);
            bot_config_init(c);
            return err_set(e, ERR_PARSE, "%s:%u:%u: %s", path, (unsigned)it->line,
                           (unsigned)it->col, it->message);
        }
    }
    return 0;
}

// ---- flags --------------------------------------------------------------------------------------

static bool is_within(int64_t n, int64_t max)
{
    return n == BOT_UNSET || (n >= 0 && n <= max);
}

static int check_overrides(const struct bot_overrides *o, struct err *e)
{
    if (!is_within(o->max_iterations, ITERATIONS_MAX)) {
        return err_set(e, ERR_INVALID, "the number of iterations is from 0 (no limit) to %d",
                       ITERATIONS_MAX);
    }
    if (!is_within(o->sleep_secs, SLEEP_MAX)) {
        return err_set(e, ERR_INVALID, "the sleep is from 0 to %d seconds", SLEEP_MAX);
    }
    if (o->engine != NULL && !bot_name_valid(str_of(o->engine))) {
        return err_set(e, ERR_INVALID, "there is no engine '%.60s'", o->engine);
    }
    if (o->sandbox != NULL && !is_sandbox(o->sandbox)) {
        return err_set(e, ERR_INVALID,
                       "there is no sandbox '%.60s': use read-only, workspace-write or "
                       "danger-full-access",
                       o->sandbox);
    }
    return 0;
}

static void apply_text(struct bot_config *c, const char **place_of, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        *place_of = arena_strdup(&c->arena, str_of(value));
    }
}

int bot_config_apply(struct bot_config *c, const struct bot_overrides *o, struct err *e)
{
    int rc = check_overrides(o, e);
    if (rc < 0) {
        return rc;
    }
    if (o->max_iterations != BOT_UNSET) {
        c->max_iterations = o->max_iterations;
    } else if (c->max_iterations == BOT_UNSET) {
        c->max_iterations = o->has_prompt ? 1 : 10;
    }
    c->sleep_secs = o->sleep_secs != BOT_UNSET ? o->sleep_secs : c->sleep_secs;
    c->network = o->network != BOT_UNSET ? o->network : c->network;
    apply_text(c, &c->model, o->model);
    apply_text(c, &c->provider, o->provider);
    apply_text(c, &c->engine, o->engine);
    apply_text(c, &c->sandbox, o->sandbox);
    if (o->instructions != NULL && o->instructions[0] != '\0') {
        apply_text(c, &c->instructions, o->instructions);
    }
    c->merge = o->merge ? BOT_MERGE_AUTO : c->merge;
    c->skip_git_check = c->skip_git_check || o->skip_git_check;
    c->worktree = c->worktree && !o->no_worktree;
    return 0;
}

bool bot_name_valid(struct str name)
{
    bool ok = name.n != 0 && name.n <= NAME_MAX_BYTES && name.p[0] >= 'a' && name.p[0] <= 'z';
    for (size_t i = 1; ok && i < name.n; i++) {
        char c = name.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }
    return ok;
}

int bot_name_check(struct str name, struct err *e)
{
    return bot_name_valid(name)
               ? 0
               : err_set(e, ERR_INVALID,
                         "'%.*s' cannot be a bot's name: use a letter a-z, then a-z, 0-9, '_' and "
                         "'-', 64 at most",
                         (int)MIN(name.n, (size_t)80), name.p);
}

// ---- as JSON ------------------------------------------------------------------------------------

void bot_config_write(const struct bot_config *c, struct jw *w)
{
    jw_kstrz(w, "description", c->description);
    jw_kstrz(w, "instructions", c->instructions);
    jw_kint_or_null(w, "max_iterations", c->max_iterations != BOT_UNSET, c->max_iterations);
    jw_kint(w, "sleep_secs", c->sleep_secs);
    jw_kstrz(w, "model", c->model);
    jw_kstrz(w, "provider", c->provider);
    jw_kstrz(w, "engine", c->engine);
    jw_kstrz(w, "sandbox", c->sandbox);
    jw_key(w, "network");
    if (c->network == BOT_UNSET) {
        jw_null(w);
    } else {
        jw_bool(w, c->network != 0);
    }
    jw_kbool(w, "skip_git_check", c->skip_git_check);
    jw_kobj(w, "worktree");
    jw_kbool(w, "enabled", c->worktree);
    jw_kstrs(w, "include", c->include.p, c->include.n);
    jw_kstrs(w, "link", c->link.p, c->link.n);
    jw_kstrs(w, "setup", c->setup.p, c->setup.n);
    jw_kstrz(w, "remote", c->remote);
    jw_end_obj(w);
    jw_kstrz(w, "merge", merge_names[c->merge]);
    if (c->plugins.p == NULL) {
        jw_kstrz(w, "plugins", "*");
    } else {
        jw_kstrs(w, "plugins", c->plugins.p, c->plugins.n);
    }
    jw_kstrz(w, "stop_phrase", c->stop_phrase);
}
