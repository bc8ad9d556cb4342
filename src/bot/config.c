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

static const char *const sandboxes[] = {"read-only", "workspace-write", "danger-full-access"};

const char *bot_merge_name(enum bot_merge m)
{
    return merge_names[m];
}

void bot_config_init(struct bot_config *c)
{
    *c = (struct bot_config){.description = "",
                             .instructions = builtin,
                             .default_instructions = true,
                             .max_iterations = BOT_UNSET,
                             .sleep_secs = 30,
                             .engine = "native",
                             .network = BOT_UNSET,
                             .worktree = true};
    arena_init(&c->arena);
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

static bool take_text(struct reader *r, const struct toml *v, const char *key, const char **out)
{
    if (v->type != TOML_STR || memchr(v->s.p, 0, v->s.n) != NULL) {
        return refuse(r, v, key, "a string");
    }
    *out = v->s.n != 0 ? arena_strdup(&r->c->arena, v->s) : NULL;
    return true;
}

static bool take_number(struct reader *r, const struct toml *v, const char *key, int64_t max,
                        int64_t *out)
{
    if (v->type != TOML_INT || v->i < 0 || v->i > max) {
        char expected[64];
        snprintf(expected, sizeof expected, "a number from 0 to %lld", (long long)max);
        return refuse(r, v, key, expected);
    }
    *out = v->i;
    return true;
}

static bool take_bool(struct reader *r, const struct toml *v, const char *key, bool *out)
{
    if (v->type != TOML_BOOL) {
        return refuse(r, v, key, "true or false");
    }
    *out = v->b;
    return true;
}

/// A list of strings, or one string.
static bool take_names(struct reader *r, const struct toml *v, const char *key,
                       struct bot_names *out)
{
    uint32_t n = v->type == TOML_ARR ? v->n : 1;
    const char **list = arena_calloc(&r->c->arena, n + 1, sizeof *list);
    for (uint32_t i = 0; i < n; i++) {
        const struct toml *it = v->type == TOML_ARR ? &v->items[i] : v;
        if (it->type != TOML_STR || it->s.n == 0 || memchr(it->s.p, 0, it->s.n) != NULL) {
            return refuse(r, it, key, "a list of strings");
        }
        list[i] = arena_strdup(&r->c->arena, it->s);
    }
    *out = (struct bot_names){list, n};
    return true;
}

/// Position of `value` in a list of words, or -1.
static int word_index(const char *const *words, size_t n, const char *value)
{
    for (size_t i = 0; value != NULL && i < n; i++) {
        if (strcmp(words[i], value) == 0) {
            return (int)i;
        }
    }
    return -1;
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

static void take_paths(struct reader *r, const struct toml *v, const char *key,
                       struct bot_names *out)
{
    struct bot_names names;
    if (!take_names(r, v, key, &names)) {
        return;
    }
    for (size_t i = 0; i < names.n; i++) {
        if (!is_inside(names.p[i])) {
            refuse(r, v, key, "paths inside the project, relative to its root");
            return;
        }
    }
    *out = names;
}

// ---- the keys -----------------------------------------------------------------------------------

static void take_description(struct reader *r, const struct toml *v)
{
    const char *text = NULL;
    if (take_text(r, v, "description", &text) && text != NULL) {
        r->c->description = text;
    }
}

static void take_max_iterations(struct reader *r, const struct toml *v)
{
    (void)take_number(r, v, "max_iterations", ITERATIONS_MAX, &r->c->max_iterations);
}

static void take_sleep_secs(struct reader *r, const struct toml *v)
{
    (void)take_number(r, v, "sleep_secs", SLEEP_MAX, &r->c->sleep_secs);
}

static void take_model(struct reader *r, const struct toml *v)
{
    (void)take_text(r, v, "model", &r->c->model);
}

static void take_provider(struct reader *r, const struct toml *v)
{
    (void)take_text(r, v, "provider", &r->c->provider);
}

static void take_engine(struct reader *r, const struct toml *v)
{
    const char *text = NULL;
    if (!take_text(r, v, "engine", &text)) {
        return;
    }
    if (text == NULL || !bot_name_valid(str_of(text))) {
        refuse(r, v, "engine", "\"native\", \"codex\", \"claude\" or a name of [engines]");
    } else {
        r->c->engine = text;
    }
}

static void take_sandbox(struct reader *r, const struct toml *v)
{
    const char *text = NULL;
    if (!take_text(r, v, "sandbox", &text)) {
        return;
    }
    if (word_index(sandboxes, ARRAY_LEN(sandboxes), text) < 0) {
        refuse(r, v, "sandbox", "\"read-only\", \"workspace-write\" or \"danger-full-access\"");
        return;
    }
    r->c->sandbox = text;
}

static void take_network(struct reader *r, const struct toml *v)
{
    bool on;
    if (take_bool(r, v, "network", &on)) {
        r->c->network = on;
    }
}

static void take_skip_git_check(struct reader *r, const struct toml *v)
{
    (void)take_bool(r, v, "skip_git_check", &r->c->skip_git_check);
}

static void take_merge(struct reader *r, const struct toml *v)
{
    const char *text = NULL;
    if (!take_text(r, v, "merge", &text)) {
        return;
    }
    int i = word_index(merge_names, ARRAY_LEN(merge_names), text);
    if (i < 0) {
        refuse(r, v, "merge", "\"ask\", \"auto\" or \"never\"");
        return;
    }
    r->c->merge = (enum bot_merge)i;
}

static void take_plugins(struct reader *r, const struct toml *v)
{
    if (v->type == TOML_STR && str_eqz(v->s, "*")) {
        r->c->plugins = (struct bot_names){0};
    } else if (v->type != TOML_ARR) {
        refuse(r, v, "plugins", "a list of names or \"*\"");
    } else {
        (void)take_names(r, v, "plugins", &r->c->plugins);
    }
}

static void take_stop_phrase(struct reader *r, const struct toml *v)
{
    (void)take_text(r, v, "stop_phrase", &r->c->stop_phrase);
}

static void take_enabled(struct reader *r, const struct toml *v)
{
    (void)take_bool(r, v, "worktree.enabled", &r->c->worktree);
}

static void take_include(struct reader *r, const struct toml *v)
{
    take_paths(r, v, "worktree.include", &r->c->include);
}

static void take_link(struct reader *r, const struct toml *v)
{
    take_paths(r, v, "worktree.link", &r->c->link);
}

static void take_setup(struct reader *r, const struct toml *v)
{
    (void)take_names(r, v, "worktree.setup", &r->c->setup);
}

static void take_remote(struct reader *r, const struct toml *v)
{
    if (take_text(r, v, "worktree.remote", &r->c->remote) && r->c->remote != NULL &&
        r->c->remote[0] == '-') {
        refuse(r, v, "worktree.remote", "the name or address of a git remote");
    }
}

struct key {
    const char *name;
    void (*take)(struct reader *r, const struct toml *v);
};

static const struct key of_worktree[] = {{"enabled", take_enabled},
                                         {"include", take_include},
                                         {"link", take_link},
                                         {"setup", take_setup},
                                         {"remote", take_remote}};

static void take_table(struct reader *r, const struct toml *table, const struct key *keys,
                       size_t n);

static void take_worktree(struct reader *r, const struct toml *v)
{
    if (v->type == TOML_TABLE) {
        take_table(r, v, of_worktree, ARRAY_LEN(of_worktree));
    } else if (v->type == TOML_BOOL) {
        r->c->worktree = v->b;
    } else {
        refuse(r, v, "worktree", "true, false or a table");
    }
}

static const struct key of_bot[] = {{"description", take_description},
                                    {"max_iterations", take_max_iterations},
                                    {"sleep_secs", take_sleep_secs},
                                    {"model", take_model},
                                    {"provider", take_provider},
                                    {"engine", take_engine},
                                    {"sandbox", take_sandbox},
                                    {"network", take_network},
                                    {"skip_git_check", take_skip_git_check},
                                    {"worktree", take_worktree},
                                    {"merge", take_merge},
                                    {"plugins", take_plugins},
                                    {"stop_phrase", take_stop_phrase}};

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
            found->take(r, &m->value);
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
        r->c->default_instructions = false;
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

static int check_overrides(const struct bot_overrides *o, struct err *e)
{
    if (o->max_iterations < BOT_UNSET || o->max_iterations > ITERATIONS_MAX) {
        return err_set(e, ERR_INVALID, "the number of iterations is from 0 (no limit) to %d",
                       ITERATIONS_MAX);
    }
    if (o->sleep_secs < BOT_UNSET || o->sleep_secs > SLEEP_MAX) {
        return err_set(e, ERR_INVALID, "the sleep is from 0 to %d seconds", SLEEP_MAX);
    }
    if (o->engine != NULL && !bot_name_valid(str_of(o->engine))) {
        return err_set(e, ERR_INVALID, "there is no engine '%.60s'", o->engine);
    }
    if (o->sandbox != NULL && word_index(sandboxes, ARRAY_LEN(sandboxes), o->sandbox) < 0) {
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

static void apply_numbers(struct bot_config *c, const struct bot_overrides *o)
{
    if (o->max_iterations != BOT_UNSET) {
        c->max_iterations = o->max_iterations;
    } else if (c->max_iterations == BOT_UNSET) {
        c->max_iterations = o->has_prompt ? 1 : 10;
    }
    c->sleep_secs = o->sleep_secs != BOT_UNSET ? o->sleep_secs : c->sleep_secs;
    c->network = o->network != BOT_UNSET ? o->network : c->network;
}

int bot_config_apply(struct bot_config *c, const struct bot_overrides *o, struct err *e)
{
    int rc = check_overrides(o, e);
    if (rc < 0) {
        return rc;
    }
    apply_numbers(c, o);
    apply_text(c, &c->model, o->model);
    apply_text(c, &c->provider, o->provider);
    apply_text(c, &c->engine, o->engine);
    apply_text(c, &c->sandbox, o->sandbox);
    if (o->instructions != NULL && o->instructions[0] != '\0') {
        apply_text(c, &c->instructions, o->instructions);
        c->default_instructions = false;
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

static void write_names(struct jw *w, const char *key, const struct bot_names *names)
{
    jw_key(w, key);
    jw_arr(w);
    for (size_t i = 0; i < names->n; i++) {
        jw_strz(w, names->p[i]);
    }
    jw_end_arr(w);
}

static void write_worktree(struct jw *w, const struct bot_config *c)
{
    jw_key(w, "worktree");
    jw_obj(w);
    jw_kbool(w, "enabled", c->worktree);
    write_names(w, "include", &c->include);
    write_names(w, "link", &c->link);
    write_names(w, "setup", &c->setup);
    jw_kstrz(w, "remote", c->remote);
    jw_end_obj(w);
}

void bot_config_write(const struct bot_config *c, struct jw *w)
{
    jw_kstrz(w, "description", c->description);
    jw_kstrz(w, "instructions", c->instructions);
    jw_key(w, "max_iterations");
    if (c->max_iterations == BOT_UNSET) {
        jw_null(w);
    } else {
        jw_int(w, c->max_iterations);
    }
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
    write_worktree(w, c);
    jw_kstrz(w, "merge", bot_merge_name(c->merge));
    if (c->plugins.p == NULL) {
        jw_kstrz(w, "plugins", "*");
    } else {
        write_names(w, "plugins", &c->plugins);
    }
    jw_kstrz(w, "stop_phrase", c->stop_phrase);
}
