// Answers as tables and notes; see the header for the language of templates.
//
// Every text that is shown passes visible_add(), in table_add(), out_text() or out_note(): answers
// hold words of models, plugins and files.

#include "cli/show.h"

#include <assert.h>
#include <stdlib.h>

#include "base/path.h"
#include "base/time.h"
#include "view/view.h"

// ---- templates -----------------------------------------------------------------------------

static void add_value(struct buf *out, const struct json *v)
{
    if (v == NULL || v->type == JSON_NULL) {
        return;
    }
    if (v->type == JSON_STR) {
        buf_adds(out, v->s);
    } else if (v->type == JSON_ARR) {
        const char *between = "";
        json_foreach_item (item, v) {
            const struct json *name = json_get(item, "name");
            buf_addz(out, between);
            add_value(out, name != NULL ? name : item);
            between = ", ";
        }
    } else {
        json_write(out, v, 0);
    }
}

static const struct json *find_value(const struct json *row, struct str path)
{
    while (path.n != 0 && row != NULL) {
        row = json_get_str(row, str_cut(&path, '.'));
    }
    return row;
}

/// Append the value of `path`, the first part of what stands between braces.
static void add_path(const struct cli *c, struct buf *out, struct str path, const struct json *row,
                     struct str key)
{
    int64_t n;
    if (str_eqz(path, "@")) {
        buf_adds(out, key);
    } else if (str_eqz(path, "$socket")) {
        buf_addz(out, c->home.socket);
    } else if (str_starts(path, "$")) {
        const char *word =
            str_to_i64(str_from(path, 1), &n) ? args_word(&c->args, (size_t)n) : NULL;
        buf_addz(out, word != NULL ? word : "");
    } else if (str_starts(path, "#")) {
        const struct json *v = find_value(row, str_from(path, 1));
        buf_addf(out, "%u", v != NULL ? v->n : 0);
    } else if (str_starts(path, "=")) {
        json_write(out, find_value(row, str_from(path, 1)), 0);
    } else if (str_starts(path, "-")) {
        bool given = false;
        vec_foreach (g, &c->args.flags) {
            given = given || str_eqz(str_from(path, 1), flags[g->id].name);
        }
        buf_addz(out, given ? "true" : "");
    } else {
        add_value(out, find_value(row, path));
    }
}

/// Append what `spec`, the text between braces, stands for; it may be empty.
static void add_spec(const struct cli *c, struct buf *out, struct str spec, const struct json *row,
                     struct str key)
{
    ptrdiff_t question = str_index(spec, '?');
    size_t start = out->n;
    if (question < 0) {
        int64_t most;
        struct str limit = spec, path = str_cut(&limit, ':');
        add_path(c, out, path, row, key);
        if (str_to_i64(limit, &most) && out->n - start > (size_t)most) {
            buf_cut(out, start + (size_t)most);
        }
        return;
    }
    struct str no = str_from(spec, (size_t)question + 1), yes = str_cut(&no, ':');
    struct str word = {spec.p, (size_t)question}, path = str_cut(&word, '=');
    add_path(c, out, path, row, key);
    struct str text = str_from(buf_str(out), start);
    bool holds = word.p != NULL ? str_eq(text, word)
                                : text.n != 0 && !str_eqz(text, "0") && !str_eqz(text, "false");
    buf_cut(out, start);
    buf_adds(out, holds ? yes : no);
}

/// Append one alternative. False when a value in it had no text.
static bool add_alternative(const struct cli *c, struct buf *out, struct str text,
                            const struct json *row, struct str key)
{
    bool whole = true;
    while (text.n != 0) {
        buf_adds(out, str_cut(&text, '{'));
        if (text.n != 0) {
            size_t start = out->n;
            add_spec(c, out, str_cut(&text, '}'), row, key);
            whole = whole && out->n > start;
        }
    }
    return whole;
}

void show_fill(const struct cli *c, struct buf *out, const char *template, const struct json *row,
               struct str key)
{
    assert(template != NULL);
    size_t start = out->n;
    for (const char *end; (end = strstr(template, "||")) != NULL; template = end + 2) {
        if (add_alternative(c, out, (struct str){template, (size_t)(end - template)}, row, key)) {
            return;
        }
        buf_cut(out, start);
    }
    add_alternative(c, out, str_of(template), row, key);
}

void show_note(struct cli *c, const char *template, const struct json *v)
{
    if (template != NULL) {
        struct buf text = {.max = SIZE_MAX};
        show_fill(c, &text, template, v, STR_NULL);
        out_note(&c->out, "%s", buf_z(&text));
        buf_fini(&text);
    }
}

void show_line(struct cli *c, enum out_tint tint, const char *head, const char *rest,
               const struct json *v, struct str key)
{
    struct buf text = {.max = SIZE_MAX};
    show_fill(c, &text, head != NULL ? head : "", v, key);
    out_tinted(&c->out, tint, buf_str(&text));
    buf_clear(&text);
    show_fill(c, &text, rest, v, key);
    out_text(&c->out, buf_str(&text));
    out_add(&c->out, STR("\n"));
    buf_fini(&text);
}

void show_output(struct cli *c, const struct json *v)
{
    const struct json *output = json_get(v, "output");
    if (output != NULL && output->type == JSON_STR) {
        view_text(&c->out, output->s);
    } else if (output != NULL && output->type != JSON_NULL) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, output, 2);
        view_text(&c->out, buf_str(&text));
        buf_fini(&text);
    }
}

// ---- cells ---------------------------------------------------------------------------------

enum out_tint show_tint(struct str state)
{
    static const struct {
        enum out_tint tint;
        const char *states;
    } tints[] = {
        {OUT_GREEN,
         "running loaded live ok complete trusted followed allow added on repaired committed"},
        {OUT_YELLOW,
         "waiting interrupted warn warning new changed ask untrusted pending stale skipped"},
        {OUT_RED, "failed fail crashed error unreadable deny rolled_back lost"},
        {OUT_DIM, "off disabled ended left"},
    };
    struct str first = str_cut(&state, ' ');
    for (size_t i = 0; i < ARRAY_LEN(tints); i++) {
        for (struct str rest = str_of(tints[i].states); rest.n != 0;) {
            if (str_eq(str_cut(&rest, ' '), first)) {
                return tints[i].tint;
            }
        }
    }
    return OUT_PLAIN;
}

/// "3 min": the largest unit that fits.
static void add_span(struct buf *out, double seconds)
{
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (i < ARRAY_LEN(units) - 1 && seconds < units[i].seconds) {
        i++;
    }
    buf_addf(out, "%lld %s", (long long)(seconds / units[i].seconds), units[i].unit);
}

/// A time as people say it, when it is one and not long ago.
static void add_time(struct buf *out, struct str text)
{
    enum { RECENT_S = 14 * 86400 };
    int64_t at, now = time_wall_ms();
    if (!time_parse(text, &at)) {
        buf_adds(out, text);
    } else if (at > now || now - at > (int64_t)RECENT_S * 1000) {
        buf_adds(out, (struct str){text.p, MIN(text.n, strlen("2026-11-15"))});
    } else {
        add_span(out, (double)(now - at) / 1000);
        buf_addz(out, " ago");
    }
}

static void add_size(struct buf *out, double n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (n >= 1024 && unit < ARRAY_LEN(units) - 1) {
        n /= 1024;
        unit++;
    }
    buf_addf(out, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
}

/// The head of a column as the name of a member.
static void add_own_name(struct buf *out, const char *head)
{
    buf_addc(out, '{');
    for (; *head != '\0'; head++) {
        buf_addc(out, *head >= 'A' && *head <= 'Z' ? (char)(*head + 32)
                      : *head == ' '               ? '_'
                                                   : *head);
    }
    buf_addc(out, '}');
}

/// The text of a cell; empty when the row has nothing for it.
static void make_cell(struct cli *c, struct buf *out, const struct column *col,
                      const struct json *row, struct str key)
{
    assert(col->head != NULL);
    struct buf text = {.max = SIZE_MAX};
    if (col->make != NULL) {
        col->make(out, row);
        return;
    }
    if (col->value == NULL) {
        struct buf own = {.max = SIZE_MAX};
        add_own_name(&own, col->head);
        show_fill(c, &text, buf_z(&own), row, key);
        buf_fini(&own);
    } else {
        show_fill(c, &text, col->value, row, key);
    }
    if (col->kind == CELL_TIME && c->out.terminal) {
        add_time(out, buf_str(&text));
    } else if (col->kind == CELL_PATH && c->out.terminal) {
        char *folded = path_fold_home(buf_z(&text), getenv("HOME"));
        buf_addz(out, folded);
        free(folded);
    } else if ((col->kind == CELL_SIZE || col->kind == CELL_SPAN) && text.n != 0) {
        (col->kind == CELL_SIZE ? add_size : add_span)(out, strtod(buf_z(&text), NULL));
    } else {
        buf_adds(out, buf_str(&text));
    }
    buf_fini(&text);
}

static enum out_tint tint_of(const struct column *col, struct str text)
{
    return col->kind == CELL_STATE                           ? show_tint(text)
           : col->kind == CELL_ID                            ? OUT_BOLD
           : col->kind == CELL_DIM || col->kind == CELL_TIME ? OUT_DIM
                                                             : OUT_PLAIN;
}

/// On a terminal a cell is one line: line ends become spaces.
static void fold_lines(struct buf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++) {
        bool space = text->p[i] == '\n' || text->p[i] == '\t' || text->p[i] == ' ';
        if (!space || (n > 0 && text->p[n - 1] != ' ')) {
            text->p[n++] = space ? ' ' : text->p[i];
        }
    }
    text->n = n;
}

void show_add_row(struct cli *c, struct table *t, const struct column *columns,
                  const struct json *row, struct str key)
{
    assert(t->cells.n % t->columns == 0); // rows are whole
    for (const struct column *col = columns; col->head != NULL; col++) {
        struct buf text = {.max = SIZE_MAX};
        make_cell(c, &text, col, row, key);
        if (c->out.terminal && (col->kind == CELL_TEXT || col->kind == CELL_DIM)) {
            fold_lines(&text);
        }
        table_add(t, tint_of(col, buf_str(&text)), buf_str(&text));
        buf_fini(&text);
    }
}

// ---- layouts -------------------------------------------------------------------------------

void show_begin(struct table *t, const struct column *columns)
{
    static const enum table_fit fits[] = {[CELL_TEXT] = TABLE_CUT,
                                          [CELL_DIM] = TABLE_CUT,
                                          [CELL_PATH] = TABLE_CUT_HEAD,
                                          [CELL_LONG] = TABLE_WRAP,
                                          [CELL_SPAN] = TABLE_KEEP};
    size_t n = 0;
    while (columns[n].head != NULL) {
        n++;
    }
    assert(n > 0 && n <= TABLE_COLUMNS);
    table_init(t, n);
    for (size_t i = 0; i < n; i++) {
        table_set_column(t, i, columns[i].head, fits[columns[i].kind]);
    }
}

void show_add(struct cli *c, struct table *t, const struct column *columns, const struct json *rows)
{
    json_foreach_item (row, rows) {
        show_add_row(c, t, columns, row, STR_NULL);
    }
    json_foreach_member (m, rows) {
        show_add_row(c, t, columns, &m->value, m->key);
    }
}

void show_rows(struct cli *c, const struct column *columns, const struct json *rows)
{
    struct table t;
    show_begin(&t, columns);
    show_add(c, &t, columns, rows);
    table_print(&t, &c->out);
    table_fini(&t);
}

static void add_line(struct cli *c, struct table *t, const struct column *col, const struct json *v,
                     struct str key)
{
    struct buf text = {.max = SIZE_MAX};
    make_cell(c, &text, col, v, key);
    if (text.n != 0) {
        table_add(t, OUT_BOLD, col->head[0] != '@' ? str_of(col->head) : key);
        table_add(t, tint_of(col, buf_str(&text)), buf_str(&text));
    }
    buf_fini(&text);
}

/// An object within a record: its members with their names, but those that are null.
static void add_object(struct buf *out, const struct json *v)
{
    json_foreach_member (m, v) {
        struct buf text = {.max = SIZE_MAX};
        add_value(&text, &m->value);
        if (text.n != 0) {
            buf_addf(out, "%s" STR_FMT " ", out->n != 0 ? ", " : "", STR_ARG(m->key));
            buf_adds(out, buf_str(&text));
        }
        buf_fini(&text);
    }
    buf_addz(out, out->n == 0 ? "unknown" : "");
}

static void add_members(struct cli *c, struct table *t, const struct json *v,
                        const struct json *without)
{
    json_foreach_member (m, v) {
        struct column own = COL("@", TEXT, "{}");
        own.kind = str_ends(m->key, "_at") ? CELL_TIME : CELL_TEXT;
        own.make = m->value.type == JSON_OBJ && m->value.n != 0 ? add_object : NULL;
        if (json_get_str(without, m->key) == NULL) {
            add_line(c, t, &own, &m->value, m->key);
        }
    }
}

/// An object, a line for each of its members or for each column.
static void show_record(struct cli *c, const struct column *columns, const struct json *v)
{
    struct table t;
    table_init(&t, 2);
    for (const struct column *col = columns; col != NULL && col->head != NULL; col++) {
        if (col->head[0] == '*') {
            add_members(c, &t, find_value(v, str_of(col->value)), v);
        } else {
            add_line(c, &t, col, v, STR_NULL);
        }
    }
    if (columns == NULL) {
        add_members(c, &t, v, NULL);
    }
    table_print(&t, &c->out);
    table_fini(&t);
}

void show_answer(struct cli *c, const struct layout *l, const struct json *v)
{
    assert(l->rows == NULL || l->columns != NULL);
    if (l->rows == NULL) {
        show_record(c, l->columns, v);
        return;
    }
    const struct json *rows = json_get(v, l->rows);
    show_rows(c, l->columns, rows);
    if (rows == NULL || rows->n == 0) {
        show_note(c, l->empty, v);
    }
}

void show_local(struct cli *c, const struct layout *l, struct str json)
{
    struct arena arena = {0};
    struct json *v = NULL;
    if (c->json) {
        out_body(&c->out, json);
    } else {
        int rc = json_parse(&v, &arena, json, NULL, NULL);
        assert(rc == 0); // our own writing
        (void)rc;
        show_answer(c, l, v);
    }
    arena_fini(&arena);
}

void show_diagnostics(struct cli *c, const struct json *v)
{
    json_foreach_item (d, json_get(v, "diagnostics")) {
        if (d->type == JSON_STR) {
            show_note(c, "{}", d);
        } else {
            show_note(c, "{path}:{line}: {message}||{path}: {message}||{message}", d);
        }
    }
}
