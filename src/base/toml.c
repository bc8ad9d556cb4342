// TOML 1.0: the grammar, and the rules about who may add to which table.
//
// A document is read into a tree of nodes first and copied into the caller's arena at the end:
//
//     text ──toml_lex.c──> keys, strings, tokens ──> nodes (linked, may grow) ──freeze()──> struct toml
//                              └─toml_scalar.c                                     (arrays, final)
//
// While reading, any table may get another member at any time (`[a]`, `[b]`, `[a.c]`), so nodes are
// linked lists that never move; what the caller gets are plain arrays. To find a member, one hash
// map serves the whole document, keyed by the table's number and the name: no table is ever
// searched, however many keys or `[[x]]` a hostile file has.
//
// Who may add to a table depends on how it came to be (`enum origin`):
//
//                                        [x] names it   [x.y] passes   x.y = passes
//     FROM_PATH    by [x.y]              once           yes            no
//     FROM_HEADER  by [x] or [[x]]       [[x]] only     yes            no
//     FROM_DOTTED  by x.y =              no             yes            yes
//     FROM_VALUE   by x = {} or x = []   no             no             no
//
// Invariants:
//   - a node's depth is at most TOML_DEPTH, so the recursion through values and freeze() is bounded.
//   - the key's node exists before its value is read: `reading` names it when the value is bad.
//
// Not done here: TOML 1.1 (line ends in inline tables, \e and \x, times without seconds), writing.

#include "base/toml.h"

#include <assert.h>

#include "base/map.h"
#include "base/toml_int.h"
#include "base/utf8.h"

enum { PATH_TEXT = 100 }; // room for a key in a message

enum origin { FROM_PATH, FROM_HEADER, FROM_DOTTED, FROM_VALUE };

struct toml_node {
    struct toml v; // items and members unset until freeze()
    enum origin origin;
    uint32_t id; // in the index
    uint32_t depth;
    struct str key; // STR_NULL for the root and for elements of arrays
    struct toml__place key_at;
    struct toml_node *parent;
    struct toml_node *first, *last, *next; // children; sibling
};

/// One part of a key, as written in the text.
struct toml_part {
    struct str name; // borrowed until the next key or string is read
    struct toml__place at;
};

struct toml_parser {
    struct toml__src src;
    struct arena *out;  // the caller's: strings, and the final tree
    struct arena nodes; // gone when the parse ends
    struct map index;   // table number and key -> node
    struct buf probe;   // a key of `index` being put together
    struct toml_node *root;
    struct toml_node *section; // what the last header named
    struct toml_node *reading; // whose value is being read, or NULL
    uint32_t ids;
};

typedef struct toml_node *step_fn(struct toml_parser *p, struct toml_node *from,
                                  const struct toml_part *part);

// ---- nodes --------------------------------------------------------------------------------

static struct str index_key(struct toml_parser *p, const struct toml_node *table, struct str name)
{
    buf_clear(&p->probe);
    buf_add(&p->probe, &table->id, sizeof table->id);
    buf_adds(&p->probe, name);
    return buf_str(&p->probe);
}

static struct toml_node *find(struct toml_parser *p, const struct toml_node *table, struct str name)
{
    return map_get(&p->index, index_key(p, table, name));
}

static struct toml_node *node_new(struct toml_parser *p, enum toml_type type, enum origin origin,
                                  struct toml__place at)
{
    struct toml_node *n = arena_calloc(&p->nodes, 1, sizeof *n);
    n->v.type = type;
    n->v.line = at.line;
    n->v.col = at.col;
    n->origin = origin;
    n->id = p->ids++;
    return n;
}

/// Put a new node after the last child of `parent`; NULL when that is too deep.
static struct toml_node *add_child(struct toml_parser *p, struct toml_node *parent,
                                   enum toml_type type, enum origin origin, struct toml__place at)
{
    if (parent->depth == TOML_DEPTH) {
        toml__fail(&p->src, at, "nested more than %d deep", TOML_DEPTH);
        return NULL;
    }
    struct toml_node *n = node_new(p, type, origin, at);
    n->parent = parent;
    n->depth = parent->depth + 1;
    *(parent->last != NULL ? &parent->last->next : &parent->first) = n;
    parent->last = n;
    parent->v.n++;
    return n;
}

/// The same for a table's member, which must not be there yet.
static struct toml_node *add_member(struct toml_parser *p, struct toml_node *table,
                                    const struct toml_part *part, enum toml_type type,
                                    enum origin origin)
{
    struct toml_node *n = add_child(p, table, type, origin, part->at);
    if (n != NULL) {
        n->key = arena_str(p->out, part->name);
        n->key_at = part->at;
        map_set(&p->index, index_key(p, table, n->key), n);
    }
    return n;
}

// ---- keys in messages ---------------------------------------------------------------------

/// As it would be written in a file, on one line and without control characters.
static void add_key(struct buf *b, struct str key)
{
    uint32_t c;
    bool plain = key.n != 0;
    for (size_t i = 0; i < key.n && plain; i++) {
        plain = toml__is_bare(key.p[i]);
    }
    if (plain) {
        buf_add(b, key.p, MIN(key.n, PATH_TEXT));
        return;
    }
    buf_addc(b, '"');
    for (size_t i = 0, n; !b->over && i < key.n; i += n) {
        n = utf8_decode(str_from(key, i), &c);
        if (c < ' ' || (c >= 0x7F && c < 0xA0)) {
            buf_addf(b, "\\u%04X", (unsigned)c);
        } else {
            buf_addz(b, c == '"' || c == '\\' ? "\\" : "");
            buf_add(b, key.p + i, n);
        }
    }
    buf_addc(b, '"');
}

static void add_path(struct buf *b, const struct toml_node *n)
{
    if (n->parent != NULL) {
        add_path(b, n->parent);
    }
    if (n->key.p != NULL && !b->over) {
        buf_addz(b, b->n != 0 ? "." : "");
        add_key(b, n->key);
    }
}

/// The dotted path to `n`, cut where it gets long.
static const char *path_of(const struct toml_node *n, char out[PATH_TEXT])
{
    struct buf b = {.max = 4 * PATH_TEXT};
    add_path(&b, n);
    bool cut = b.over || b.n >= PATH_TEXT;
    size_t keep = cut ? utf8_cut(buf_z(&b), b.n, PATH_TEXT - 4) : b.n;
    snprintf(out, PATH_TEXT, "%.*s%s", (int)keep, buf_z(&b), cut ? "..." : "");
    buf_fini(&b);
    return out;
}

static int fail_taken(struct toml_parser *p, const struct toml_node *first, struct toml__place at)
{
    char path[PATH_TEXT];
    return toml__fail(&p->src, at, "'%s' is already defined on line %u", path_of(first, path),
                      first->v.line);
}

static struct toml_node *fail_closed(struct toml_parser *p, const struct toml_node *n,
                                     struct toml__place at)
{
    char path[PATH_TEXT];
    bool in_line = n->v.type == TOML_TABLE && n->origin == FROM_VALUE;
    toml__fail(&p->src, at, "cannot add to '%s', defined as %s%s on line %u", path_of(n, path),
               in_line ? "inline " : "", toml_type_name(&n->v), n->v.line);
    return NULL;
}

// ---- keys ---------------------------------------------------------------------------------

static struct toml_node *step_header(struct toml_parser *p, struct toml_node *from,
                                     const struct toml_part *part)
{
    struct toml_node *n = find(p, from, part->name);
    if (n == NULL) {
        return add_member(p, from, part, TOML_TABLE, FROM_PATH);
    }
    if (n->v.type == TOML_ARR && n->origin == FROM_HEADER) {
        return n->last;
    }
    bool open = n->v.type == TOML_TABLE && n->origin != FROM_VALUE;
    return open ? n : fail_closed(p, n, part->at);
}

static struct toml_node *step_dotted(struct toml_parser *p, struct toml_node *from,
                                     const struct toml_part *part)
{
    struct toml_node *n = find(p, from, part->name);
    if (n == NULL) {
        return add_member(p, from, part, TOML_TABLE, FROM_DOTTED);
    }
    return n->origin == FROM_DOTTED ? n : fail_closed(p, n, part->at);
}

/// Read `a.b.c` and step from `*table` through a and b, each with `step`. The caller handles c, which is in
/// `last`. Blanks after the key are skipped.
static int read_key(struct toml_parser *p, struct toml_node **table, step_fn *step,
                    struct toml_part *last)
{
    for (;;) {
        toml__skip_blank(&p->src);
        last->at = toml__here(&p->src);
        int rc = toml__key(&p->src, &last->name);
        if (rc < 0) {
            return rc;
        }
        toml__skip_blank(&p->src);
        if (!toml__eat(&p->src, '.')) {
            return 0;
        }
        *table = step(p, *table, last);
        if (*table == NULL) {
            return ERR_PARSE;
        }
    }
}

// ---- values -------------------------------------------------------------------------------

static int read_value(struct toml_parser *p, struct toml_node *n);

static int read_pair(struct toml_parser *p, struct toml_node *table)
{
    struct toml_part part;
    int rc = read_key(p, &table, step_dotted, &part);
    if (rc < 0) {
        return rc;
    }
    struct toml_node *n = find(p, table, part.name);
    if (n != NULL) {
        return fail_taken(p, n, part.at);
    }
    n = add_member(p, table, &part, TOML_STR, FROM_VALUE);
    if (n == NULL) {
        return ERR_PARSE;
    }
    struct toml_node *outer = p->reading;
    p->reading = n;
    if (!toml__eat(&p->src, '=')) {
        return toml__unexpected(&p->src, "'=' or '.' after the key");
    }
    toml__skip_blank(&p->src);
    rc = read_value(p, n);
    if (rc == 0) {
        p->reading = outer;
    }
    return rc;
}

static int read_array(struct toml_parser *p, struct toml_node *n)
{
    struct toml__src *s = &p->src;
    n->v.type = TOML_ARR;
    s->at++;
    for (;;) {
        toml__skip_lines(s);
        if (toml__eat(s, ']')) {
            return 0;
        }
        struct toml_node *item = add_child(p, n, TOML_STR, FROM_VALUE, toml__here(s));
        int rc = item != NULL ? read_value(p, item) : ERR_PARSE;
        if (rc < 0) {
            return rc;
        }
        toml__skip_lines(s);
        if (!toml__eat(s, ',') && toml__peek(s) != ']') {
            return toml__unexpected(s, "',' or ']'");
        }
    }
}

static int read_inline_table(struct toml_parser *p, struct toml_node *n)
{
    struct toml__src *s = &p->src;
    n->v.type = TOML_TABLE;
    s->at++;
    toml__skip_blank(s);
    if (toml__eat(s, '}')) {
        return 0;
    }
    for (;;) {
        int rc = read_pair(p, n);
        if (rc < 0) {
            return rc;
        }
        toml__skip_blank(s);
        if (toml__eat(s, '}')) {
            return 0;
        }
        if (!toml__eat(s, ',')) {
            return toml__unexpected(s, "',' or '}'");
        }
    }
}

static int read_scalar(struct toml_parser *p, struct toml_node *n)
{
    struct toml__place at = toml__here(&p->src);
    struct str token = toml__token(&p->src);
    if (token.n == 0) {
        return toml__unexpected(&p->src, "a value");
    }
    const char *bad = toml__scalar(&n->v, p->out, token);
    if (bad != NULL) {
        return toml__fail(&p->src, at, "'%.*s%s' %s", (int)MIN(token.n, 40), token.p,
                          token.n > 40 ? "..." : "", bad);
    }
    return 0;
}

static int read_value(struct toml_parser *p, struct toml_node *n)
{
    struct toml__place at = toml__here(&p->src);
    assert(n->depth <= TOML_DEPTH);
    n->v.line = at.line;
    n->v.col = at.col;
    switch (toml__peek(&p->src)) {
    case '"':
    case '\'': {
        struct str s;
        int rc = toml__string(&p->src, &s);
        n->v.type = TOML_STR;
        n->v.s = rc == 0 ? arena_str(p->out, s) : STR_NULL;
        return rc;
    }
    case '[': return read_array(p, n);
    case '{': return read_inline_table(p, n);
    default: return read_scalar(p, n);
    }
}

// ---- headers ------------------------------------------------------------------------------

/// `[a.b]`: the table must be new, or known only from the way to another.
static struct toml_node *open_table(struct toml_parser *p, struct toml_node *parent,
                                    const struct toml_part *part)
{
    struct toml_node *n = find(p, parent, part->name);
    if (n == NULL) {
        return add_member(p, parent, part, TOML_TABLE, FROM_HEADER);
    }
    if (n->origin != FROM_PATH) {
        fail_taken(p, n, part->at);
        return NULL;
    }
    n->origin = FROM_HEADER;
    return n;
}

/// `[[a.b]]`: one more element; the array must be new, or made in this way too.
static struct toml_node *open_element(struct toml_parser *p, struct toml_node *parent,
                                      const struct toml_part *part)
{
    struct toml_node *n = find(p, parent, part->name);
    if (n == NULL) {
        n = add_member(p, parent, part, TOML_ARR, FROM_HEADER);
    } else if (n->v.type != TOML_ARR || n->origin != FROM_HEADER) {
        fail_taken(p, n, part->at);
        return NULL;
    }
    return n != NULL ? add_child(p, n, TOML_TABLE, FROM_HEADER, part->at) : NULL;
}

static int read_header(struct toml_parser *p)
{
    struct toml__src *s = &p->src;
    struct toml__place at = toml__here(s);
    struct toml_node *parent = p->root;
    struct toml_part part;

    s->at++;
    bool element = toml__eat(s, '[');
    int rc = read_key(p, &parent, step_header, &part);
    if (rc < 0) {
        return rc;
    }
    if (!toml__eat(s, ']') || (element && !toml__eat(s, ']'))) {
        return toml__unexpected(s, element ? "']]' after the name of the table"
                                           : "']' after the name of the table");
    }
    struct toml_node *n = element ? open_element(p, parent, &part) : open_table(p, parent, &part);
    if (n == NULL) {
        return ERR_PARSE;
    }
    n->v.line = at.line;
    n->v.col = at.col;
    p->section = n;
    return 0;
}

// ---- the final tree -----------------------------------------------------------------------

static struct toml freeze(struct arena *a, const struct toml_node *n)
{
    struct toml v = n->v;
    size_t i = 0;
    if (v.type == TOML_ARR) {
        v.items = arena_calloc(a, v.n, sizeof *v.items);
        for (const struct toml_node *c = n->first; c != NULL; c = c->next) {
            v.items[i++] = freeze(a, c);
        }
    } else if (v.type == TOML_TABLE) {
        v.members = arena_calloc(a, v.n, sizeof *v.members);
        for (const struct toml_node *c = n->first; c != NULL; c = c->next) {
            v.members[i++] =
                (struct toml_member){c->key, c->key_at.line, c->key_at.col, freeze(a, c)};
        }
    }
    return v;
}

int toml_parse(struct toml **out, struct arena *a, struct str text, uint32_t *line, uint32_t *col,
               struct err *e)
{
    *out = NULL;
    if (text.n >= UINT32_MAX) {
        return err_set(e, ERR_TOO_LARGE, "a TOML document cannot have 4 GiB");
    }
    struct toml_parser p = {.out = a, .probe = {.max = sizeof p.root->id + text.n}};
    struct toml__src *s = &p.src;
    p.root = p.section = node_new(&p, TOML_TABLE, FROM_HEADER, (struct toml__place){1, 1});
    int rc = toml__open(s, text);
    while (rc == 0) {
        toml__skip_lines(s);
        if (s->at == s->end) {
            break;
        }
        rc = toml__peek(s) == '[' ? read_header(&p) : read_pair(&p, p.section);
        rc = rc == 0 ? toml__end_line(s) : rc;
    }
    if (rc == 0) {
        *out = arena_alloc(a, sizeof **out);
        **out = freeze(a, p.root);
    } else {
        char path[PATH_TEXT];
        bool known = p.reading != NULL; // whose value was read
        if (line != NULL) {
            *line = s->bad.line;
        }
        if (col != NULL) {
            *col = s->bad.col;
        }
        rc = err_set(e, ERR_PARSE, "line %u, column %u: %s%s%s%s", s->bad.line, s->bad.col,
                     known ? "in '" : "", known ? path_of(p.reading, path) : "", known ? "': " : "",
                     s->why);
    }
    toml__close(s);
    buf_fini(&p.probe);
    map_fini(&p.index);
    arena_fini(&p.nodes);
    return rc;
}

// ---- reading the result -------------------------------------------------------------------

const struct toml *toml_get(const struct toml *table, const char *key)
{
    return toml_get_str(table, str_of(key));
}

const struct toml *toml_get_str(const struct toml *table, struct str key)
{
    if (table == NULL || table->type != TOML_TABLE) {
        return NULL;
    }
    toml_foreach (m, table) {
        if (str_eq(m->key, key)) {
            return &m->value;
        }
    }
    return NULL;
}

const char *toml_type_name(const struct toml *v)
{
    static const char *const names[] = {
        [TOML_STR] = "string",
        [TOML_INT] = "integer",
        [TOML_DOUBLE] = "float",
        [TOML_BOOL] = "boolean",
        [TOML_DATETIME] = "offset date-time",
        [TOML_DATETIME_LOCAL] = "local date-time",
        [TOML_DATE_LOCAL] = "local date",
        [TOML_TIME_LOCAL] = "local time",
        [TOML_ARR] = "array",
        [TOML_TABLE] = "table",
    };
    return v != NULL ? names[v->type] : "absent";
}

// ---- writing ------------------------------------------------------------------------------

void toml_add_str(struct buf *out, struct str s)
{
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < ' ' || c == 0x7F || c == '"' || c == '\\') { // unlike JSON, TOML wants DEL escaped
            buf_addf(out, "\\u%04x", c);
        } else {
            buf_addc(out, s.p[i]);
        }
    }
    buf_addc(out, '"');
}
