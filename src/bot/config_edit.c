// Edit config.md in place.
//
// A file that the user wrote is not written anew from its parsed values: comments, order and spelling would be lost. So one key at a time is changed as a run of lines, and the text is parsed again
// after each, which keeps the places right:
//
//     head ── toml_parse ──> line of the key ── grow until the lines parse by themselves ──> the run
//                └─ not there: the comment `# key = ...`, else the first line of its table
//
// What it does not do: inline tables (`worktree = {...}`) are a person's to change.

#include "bot/config_edit.h"

#include "base/front.h"
#include "base/toml.h"

enum { RUN_MAX = 500 }; // lines that one value may span

struct edit {
    struct arena *arena;
    struct str head; // as it is now
    struct toml *doc;
    struct err *e;
};

// ---- values -------------------------------------------------------------------------------------

static void write_string(struct buf *out, struct str s)
{
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\') {
            buf_addf(out, "\\%c", c);
        } else if (c == '\n') {
            buf_addz(out, "\\n");
        } else if (c < ' ' || c == 0x7F) {
            buf_addf(out, "\\u%04x", c);
        } else {
            buf_addc(out, (char)c);
        }
    }
    buf_addc(out, '"');
}

static bool write_value(struct buf *out, const struct json *v)
{
    switch (v->type) {
    case JSON_BOOL: buf_addz(out, v->b ? "true" : "false"); return true;
    case JSON_INT: buf_addf(out, "%lld", (long long)v->i); return true;
    case JSON_STR: write_string(out, v->s); return true;
    case JSON_ARR: break;
    default: return false;
    }
    const char *comma = "";
    buf_addc(out, '[');
    json_foreach_item (it, v) {
        buf_addz(out, comma);
        comma = ", ";
        if (it->type != JSON_STR) {
            return false;
        }
        write_string(out, it->s);
    }
    buf_addc(out, ']');
    return true;
}

// ---- lines --------------------------------------------------------------------------------------

/// Where line `n`, from 1, begins; the end of the text for one after the last.
static size_t line_start(struct str text, uint32_t n)
{
    size_t at = 0;
    while (n > 1 && at < text.n) {
        ptrdiff_t end = str_index(str_from(text, at), '\n');
        at = end < 0 ? text.n : at + (size_t)end + 1;
        n--;
    }
    return at;
}

static struct str part(struct str text, size_t from, size_t to)
{
    return (struct str){text.p + from, to - from};
}

/// Put `line` (empty: nothing) in place of the bytes [from, to) and parse the result.
static int splice(struct edit *ed, size_t from, size_t to, struct str line)
{
    struct buf b = {.max = SIZE_MAX};
    buf_adds(&b, part(ed->head, 0, from));
    if (line.n != 0 && b.n != 0 && b.p[b.n - 1] != '\n') {
        buf_addc(&b, '\n');
    }
    buf_adds(&b, line);
    buf_adds(&b, part(ed->head, to, ed->head.n));
    ed->head = arena_str(ed->arena, buf_str(&b));
    buf_fini(&b);
    return toml_parse(&ed->doc, ed->arena, ed->head, NULL, NULL, ed->e);
}

/// The end of the statement that begins in `line`: the fewest lines that are TOML by themselves.
static int statement_end(const struct edit *ed, uint32_t line, size_t *end)
{
    size_t from = line_start(ed->head, line);
    for (uint32_t n = 1; n <= RUN_MAX; n++) {
        struct arena a = {0};
        struct toml *doc;
        *end = line_start(ed->head, line + n);
        int rc = toml_parse(&doc, &a, part(ed->head, from, *end), NULL, NULL, NULL);
        arena_fini(&a);
        if (rc == 0) {
            return 0;
        }
    }
    return err_set(ed->e, ERR_UNSUPPORTED, "a value is too long to change here: edit config.md");
}

/// The comment `# key = ...` that a template has for `key`, between the lines of `from`.
static bool find_comment(struct str text, size_t from, const char *key, size_t *at, size_t *end)
{
    while (from < text.n) {
        struct str rest = str_from(text, from);
        struct str line = str_trim(front_line(&rest)), name = str_from(line, 1);
        *at = from;
        *end = rest.p != NULL ? (size_t)(rest.p - text.p) : text.n;
        from = *end;
        if (str_starts(line, "[")) {
            return false; // another table begins
        }
        if (str_starts(line, "#") && str_index(name, '=') > 0 &&
            str_eqz(str_trim(str_cut(&name, '=')), key)) {
            return true;
        }
    }
    return false;
}

// ---- keys ---------------------------------------------------------------------------------------

/// Set (or with an empty `line` take out) a key of `table`, whose first line begins at `from`.
static int set_key(struct edit *ed, const struct toml *table, size_t from, const char *key,
                   struct str line)
{
    const struct toml_member *m = NULL;
    toml_foreach (it, table) {
        m = str_eqz(it->key, key) ? it : m;
    }
    size_t at = from, end = from;
    if (m != NULL) {
        at = line_start(ed->head, m->line);
        int rc = statement_end(ed, m->line, &end);
        return rc < 0 ? rc : splice(ed, at, end, line);
    }
    if (line.n == 0) {
        return 0;
    }
    if (!find_comment(ed->head, from, key, &at, &end)) {
        at = end = from;
    }
    return splice(ed, at, end, line);
}

static int line_of(struct edit *ed, const char *key, const struct json *v, struct str *line)
{
    struct buf b = {.max = SIZE_MAX};
    int rc = 0;
    if (v->type != JSON_NULL) {
        buf_addf(&b, "%s = ", key);
        if (!write_value(&b, v)) {
            rc = err_set(ed->e, ERR_INVALID,
                         "'%s' takes a string, a number, true, false or a list of strings", key);
        }
        buf_addc(&b, '\n');
    }
    *line = arena_str(ed->arena, buf_str(&b));
    buf_fini(&b);
    return rc;
}

static int set_top(struct edit *ed, const char *key, const struct json *v)
{
    struct str line;
    const struct toml *there = toml_get(ed->doc, key);
    if (there != NULL && there->type == TOML_TABLE) {
        return err_set(ed->e, ERR_UNSUPPORTED, "'%s' is a table in config.md: change its keys",
                       key);
    }
    int rc = line_of(ed, key, v, &line);
    return rc < 0 ? rc : set_key(ed, ed->doc, 0, key, line);
}

/// Make `[worktree]` when there is none.
static int need_worktree(struct edit *ed)
{
    const struct toml *t = toml_get(ed->doc, "worktree");
    int rc = 0;
    if (t != NULL && t->type != TOML_TABLE) {
        rc = set_key(ed, ed->doc, 0, "worktree", STR_NULL);
        t = NULL;
    }
    if (rc < 0 || t == NULL) {
        return rc < 0 ? rc : splice(ed, ed->head.n, ed->head.n, STR("\n[worktree]\n"));
    }
    struct str rest = str_from(ed->head, line_start(ed->head, t->line));
    return str_starts(str_trim(front_line(&rest)), "[")
               ? 0
               : err_set(
                     ed->e, ERR_UNSUPPORTED,
                     "write [worktree] in config.md as a table of its own, then change its keys");
}

static int set_in_worktree(struct edit *ed, const char *key, const struct json *v)
{
    struct str line;
    int rc = line_of(ed, key, v, &line);
    rc = rc == 0 ? need_worktree(ed) : rc;
    if (rc < 0) {
        return rc;
    }
    const struct toml *t = toml_get(ed->doc, "worktree");
    return set_key(ed, t, line_start(ed->head, t->line + 1), key, line);
}

static int set_worktree(struct edit *ed, const struct json *v)
{
    const struct toml *there = toml_get(ed->doc, "worktree");
    int rc = 0;
    if (v->type != JSON_OBJ) {
        bool table = there != NULL && there->type == TOML_TABLE;
        return table ? set_in_worktree(ed, "enabled", v) : set_top(ed, "worktree", v);
    }
    json_foreach_member (m, v) {
        char *key = arena_strdup(ed->arena, m->key);
        rc = rc == 0 ? set_in_worktree(ed, key, &m->value) : rc;
    }
    return rc;
}

/// Keys of TOML that need no quotes; config.md has no others.
static bool is_bare(struct str key)
{
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        if (!((c >= 'a' && c <= 'z') || c == '_')) {
            return false;
        }
    }
    return key.n != 0;
}

static int set_member(struct edit *ed, const struct json_member *m)
{
    bool bare = is_bare(m->key);
    if (m->value.type == JSON_OBJ) {
        json_foreach_member (sub, &m->value) {
            bare = bare && is_bare(sub->key);
        }
    }
    if (!bare) {
        return err_set(ed->e, ERR_INVALID, "config.md has no key '%.*s'",
                       (int)MIN(m->key.n, (size_t)60), m->key.p);
    }
    if (str_eqz(m->key, "worktree")) {
        return set_worktree(ed, &m->value);
    }
    return set_top(ed, arena_strdup(ed->arena, m->key), &m->value);
}

/// Instructions that begin like a fence need one in front of them.
static void write_file(struct buf *out, bool fenced, struct str head, struct str body)
{
    if (fenced || head.n != 0 || str_starts(body, "+++")) {
        buf_addz(out, "+++\n");
        buf_adds(out, head);
        buf_addz(out, head.n == 0 || head.p[head.n - 1] == '\n' ? "+++\n" : "\n+++\n");
    }
    buf_adds(out, body);
}

int bot_config_edit(struct buf *out, struct str text, const struct json *keys,
                    struct str instructions, struct err *e)
{
    struct arena a = {0};
    struct front f = front_split(text);
    if (f.kind == FRONT_UNCLOSED && str_starts(f.body, "+++")) {
        return err_set(e, ERR_PARSE, "config.md has no line '+++' that closes its settings");
    }
    bool settings = f.kind == FRONT_TOML;
    struct edit ed = {.arena = &a, .head = settings ? f.head : STR(""), .e = e};
    int rc = toml_parse(&ed.doc, &a, ed.head, NULL, NULL, e);
    json_foreach_member (m, keys) {
        rc = rc == 0 ? set_member(&ed, m) : rc;
    }
    if (rc == 0) {
        struct str body = f.kind == FRONT_LINES ? text : f.body;
        if (instructions.p != NULL) {
            body = str_of(arena_printf(&a, STR_FMT "\n", STR_ARG(str_trim(instructions))));
        }
        write_file(out, settings, ed.head, body);
    }
    arena_fini(&a);
    return rc;
}
