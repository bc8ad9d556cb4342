// One server, as it is written down.
//
// Both places have the same members, so both are read by one function; a project's file gets less: always the
// sandbox, no secrets of the user's. A server that cannot be used is kept with its `error`: the list shows it.

#include "mcp/spec.h"

#include <assert.h>

#include "base/path.h"
#include "base/redact.h"
#include "config/secrets.h"
#include "mcp/mcp.h"

enum { FILE_SERVERS_MAX = 100, NAME_MAX_LEN = 64, HASH_PART = 6 };

#define SECRET_OPEN "${secret:"

// ---- reading members -----------------------------------------------------------------------

static void fault(struct mcp_spec *s, const char *text)
{
    s->error = s->error != NULL ? s->error : text; // the first one is said
}

/// A text without NUL; NULL when it is absent.
static const char *text_of(struct mcp_spec *s, const struct json *v, const char *key)
{
    const struct json *m = json_get(v, key);
    if (m == NULL || m->type == JSON_NULL) {
        return NULL;
    }
    if (m->type != JSON_STR || m->s.n == 0 || memchr(m->s.p, '\0', m->s.n) != NULL) {
        fault(s, arena_printf(&s->arena, "'%s' must be a text", key));
        return NULL;
    }
    return arena_strdup(&s->arena, m->s);
}

static const char *const *texts_of(struct mcp_spec *s, const struct json *v, const char *key)
{
    const struct json *m = json_get(v, key);
    const char **list = arena_calloc(&s->arena, m != NULL ? m->n + 1 : 1, sizeof *list);
    size_t n = 0;
    if (m != NULL && m->type != JSON_ARR) {
        fault(s, arena_printf(&s->arena, "'%s' must be a list of texts", key));
    }
    json_foreach_item (it, m) {
        if (it->type != JSON_STR || memchr(it->s.n != 0 ? it->s.p : "", '\0', it->s.n) != NULL) {
            fault(s, arena_printf(&s->arena, "'%s' must be a list of texts", key));
            continue;
        }
        list[n++] = arena_strdup(&s->arena, it->s);
    }
    return list;
}

/// A line break would begin another header, a NUL or `=` another variable.
static bool is_pair(const struct json_member *m)
{
    bool ok = m->key.n != 0 && m->value.type == JSON_STR;
    for (size_t i = 0; ok && i < m->key.n; i++) {
        ok = (unsigned char)m->key.p[i] > ' ' && m->key.p[i] != '=' && m->key.p[i] != ':' &&
             m->key.p[i] != 0x7F;
    }
    for (size_t i = 0; ok && i < m->value.s.n; i++) {
        ok = m->value.s.p[i] != '\0' && m->value.s.p[i] != '\n' && m->value.s.p[i] != '\r';
    }
    return ok;
}

static struct mcp_pair *pairs_of(struct mcp_spec *s, const struct json *v, const char *key,
                                 size_t *n)
{
    const struct json *m = json_get(v, key);
    struct mcp_pair *list = arena_calloc(&s->arena, m != NULL ? m->n + 1 : 1, sizeof *list);
    *n = 0;
    if (m != NULL && m->type != JSON_OBJ) {
        fault(s, arena_printf(&s->arena, "'%s' must be a table of texts", key));
    }
    json_foreach_member (it, m) {
        if (!is_pair(it)) {
            fault(s,
                  arena_printf(&s->arena, "'%s' must be a table of texts, each of one line", key));
            continue;
        }
        struct mcp_pair *p = &list[(*n)++];
        *p = (struct mcp_pair){arena_strdup(&s->arena, it->key),
                               arena_strdup(&s->arena, it->value.s)};
        bool own = s->project == NULL && s->session == NULL;
        if (!own && strstr(p->value, SECRET_OPEN) != NULL) {
            fault(s,
                  "a server of a project or an editor gets none of your secrets; configure it in "
                  "config.toml");
        }
    }
    return list;
}

static bool flag_of(struct mcp_spec *s, const struct json *v, const char *key, bool fallback)
{
    const struct json *m = json_get(v, key);
    if (m != NULL && m->type != JSON_BOOL) {
        fault(s, arena_printf(&s->arena, "'%s' must be true or false", key));
    }
    return json_bool(m, fallback);
}

// ---- checks ---------------------------------------------------------------------------------

static bool is_url(const char *url)
{
    struct str rest = str_of(url);
    bool ok = str_starts(rest, "https://") || str_starts(rest, "http://");
    for (size_t i = 0; ok && i < rest.n; i++) {
        ok = (unsigned char)rest.p[i] > ' ' && rest.p[i] != 0x7F;
    }
    size_t scheme = str_starts(rest, "https://") ? 8 : 7;
    struct str authority = {url + scheme, ok ? strcspn(url + scheme, "/?#") : 0};
    return authority.n != 0 && str_index(authority, '@') < 0; // a path may have one
}

static const char *absolute(struct mcp_spec *s, const char *path)
{
    char *home = path_expand_home(path);
    char *full = home[0] != '/' && s->project != NULL ? path_join(s->project, home) : xstrdup(home);
    const char *kept = arena_strdup(&s->arena, str_of(full));
    free(home);
    free(full);
    return kept;
}

static void check(struct mcp_spec *s)
{
    if (s->command == NULL && s->url == NULL) {
        fault(s, "it has neither 'command' nor 'url'");
    } else if (s->command != NULL && s->url != NULL) {
        fault(s, "it has both 'command' and 'url'");
    } else if (s->url != NULL && !is_url(s->url)) {
        fault(s, "'url' must begin with https:// or http:// and hold no user name");
    } else if (s->cwd != NULL && s->cwd[0] != '/') {
        fault(s, "'cwd' must be an absolute path");
    }
}

// ---- public ---------------------------------------------------------------------------------

static const char *copy(struct mcp_spec *s, const char *text)
{
    return text != NULL ? arena_strdup(&s->arena, str_of(text)) : NULL;
}

struct mcp_spec *mcp_spec_new(const char *name, const struct mcp_place *place, const struct json *v,
                              struct str more)
{
    static const struct mcp_place users = {0};
    struct mcp_spec *s = xcalloc(1, sizeof *s);
    const struct mcp_place *at = place != NULL ? place : &users;
    const struct json *tools = json_get(v, "tools");
    int64_t seconds = json_int(json_get(v, "timeout_s"), MCP_TIMEOUT_S);
    s->name = copy(s, name);
    s->project = copy(s, at->project);
    s->session = copy(s, at->session);
    if (v->type != JSON_OBJ) {
        fault(s, "it must be a table");
    }
    s->command = text_of(s, v, "command");
    s->command = s->command != NULL && s->command[0] == '~' ? absolute(s, s->command) : s->command;
    s->args = texts_of(s, v, "args");
    s->env = pairs_of(s, v, "env", &s->n_env);
    s->cwd = text_of(s, v, "cwd");
    s->cwd =
        s->cwd != NULL ? absolute(s, s->cwd) : copy(s, at->dir != NULL ? at->dir : at->project);
    s->url = text_of(s, v, "url");
    s->headers = pairs_of(s, v, "headers", &s->n_headers);
    s->sandbox = flag_of(s, v, "sandbox", true) || place != NULL;
    s->enabled = flag_of(s, v, "enabled", true);
    s->tools = tools != NULL && !str_eqz(json_str(tools, ""), "*") ? texts_of(s, v, "tools") : NULL;
    if (seconds < 1 || seconds > 86400) {
        fault(s, "'timeout_s' must be a number from 1 to 86400");
        seconds = MCP_TIMEOUT_S;
    }
    s->timeout_ms = (uint64_t)seconds * 1000;
    check(s);
    uint8_t digest[SHA256_SIZE];
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text, "%s\n%s\n%s\n", s->name, s->project != NULL ? s->project : "",
             s->session != NULL ? s->session : "");
    json_write(&text, v, 0);
    buf_adds(&text, more);
    sha256_of(buf_str(&text), digest);
    sha256_hex(digest, s->hash);
    explicit_bzero(text.p, text.n);
    buf_fini(&text);
    return s;
}

void mcp_spec_free(struct mcp_spec *s)
{
    if (s != NULL) {
        arena_fini(&s->arena);
        free(s);
    }
}

void mcp_add_sandbox(struct buf *out, const struct config *c)
{
    static const char *const keys[] = {"sandbox.mode", "sandbox.network", "sandbox.writable",
                                       "sandbox.hide"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct config_entry *e = config_find(c, keys[i]);
        json_write(out, e != NULL ? e->value : NULL, 0);
    }
}

// The members of [mcp.NAME].
static const char *const keys[] = {"command", "args",    "env",       "cwd",   "url",
                                   "headers", "sandbox", "timeout_s", "tools", "enabled"};

static const struct config_entry *find_key(const struct config *c, const char *name,
                                           const char *key)
{
    char pattern[32];
    snprintf(pattern, sizeof pattern, "mcp.*.%s", key);
    return config_find_named(c, pattern, name);
}

struct mcp_spec *mcp_spec_of_config(const struct config *c, const char *name)
{
    struct json_member members[ARRAY_LEN(keys)];
    struct json v = {.type = JSON_OBJ, .members = members};
    struct buf more = {.max = SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct config_entry *e = find_key(c, name, keys[i]);
        if (e != NULL) {
            members[v.n++] = (struct json_member){str_of(keys[i]), *e->value};
        }
    }
    if (json_get(&v, "url") == NULL && json_bool(json_get(&v, "sandbox"), true)) {
        mcp_add_sandbox(&more, c);
    }
    struct mcp_spec *s = mcp_spec_new(name, NULL, &v, buf_str(&more));
    buf_fini(&more);
    return s;
}

void mcp_check_settings(const struct config *c, struct config_diags *d)
{
    const char *name;
    for (size_t at = 0; (name = config_next_name(c, "mcp", &at)) != NULL;) {
        struct mcp_spec *s = mcp_spec_of_config(c, name);
        const struct config_entry *e = NULL;
        for (size_t i = 0; e == NULL && i < ARRAY_LEN(keys); i++) {
            e = find_key(c, name, keys[i]);
        }
        if (s->error != NULL && e != NULL) {
            config_diags_add(d, CONFIG_ERROR, (struct config_place){e->path, e->line, 1}, NULL,
                             "MCP server '%s' cannot be used: %s", name, s->error);
        }
        mcp_spec_free(s);
    }
}

int mcp_specs_of_file(mcp_specs *out, const struct config *c, const char *project, struct str text,
                      struct err *e)
{
    struct arena a = {0};
    struct json *v;
    struct buf more = {.max = SIZE_MAX};
    mcp_add_sandbox(&more, c);
    int rc = json_parse(&v, &a, text, NULL, e);
    const struct json *servers = rc == 0 ? json_get(v, "mcpServers") : NULL;
    if (rc == 0 &&
        (servers == NULL || servers->type != JSON_OBJ || servers->n > FILE_SERVERS_MAX)) {
        rc = err_set(e, ERR_INVALID, "it must hold an object 'mcpServers' of at most %d servers",
                     FILE_SERVERS_MAX);
        servers = NULL;
    }
    json_foreach_member (m, servers) {
        const char *name = arena_strdup(&a, m->key);
        if (name[0] != '\0' && strlen(name) == m->key.n) {
            const struct mcp_place place = {.project = project};
            vec_push(out, mcp_spec_new(name, &place, &m->value, buf_str(&more)));
        }
    }
    buf_fini(&more);
    arena_fini(&a);
    return rc;
}

int mcp_fill_secrets(const char *secrets, const char *text, char **out, struct err *e)
{
    struct buf filled = {.max = SIZE_MAX};
    int rc = 0;
    for (const char *open; rc == 0 && (open = strstr(text, SECRET_OPEN)) != NULL;) {
        const char *name = open + strlen(SECRET_OPEN), *end = strchr(name, '}');
        if (end == NULL) {
            break;
        }
        char *key = xasprintf("%.*s", (int)(end - name), name), *value = NULL;
        rc = secrets_get(secrets, key, &value, e);
        if (rc == ERR_NOT_FOUND) {
            rc = err_set(e, rc, "there is no secret '%.80s'; run 'afloat secret set %.80s'", key,
                         key);
        }
        buf_add(&filled, text, (size_t)(open - text));
        if (rc == 0) {
            redact_add(str_of(key), str_of(value)); // it may be younger than the hub
            buf_addz(&filled, value);
            explicit_bzero(value, strlen(value));
        }
        free(value);
        free(key);
        text = end + 1;
    }
    buf_addz(&filled, text);
    *out = rc == 0 ? buf_take(&filled, NULL) : NULL;
    buf_fini(&filled);
    return rc;
}

struct str mcp_name(struct arena *a, const char *server, struct str tool)
{
    uint8_t digest[SHA256_SIZE];
    char hex[SHA256_HEX];
    char *name = arena_printf(a, "%s__" STR_FMT, server, STR_ARG(tool));
    size_t n = strlen(name);
    sha256_of((struct str){name, n}, digest);
    sha256_hex(digest, hex);
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
        name[i] = ok ? c : '_';
    }
    if (n > NAME_MAX_LEN) {
        n = NAME_MAX_LEN;
        name[n - HASH_PART - 1] = '_';
        memcpy(name + n - HASH_PART, hex, HASH_PART);
        name[n] = '\0';
    }
    assert(n <= NAME_MAX_LEN);
    return (struct str){name, n};
}
