// From Markdown to lines on a terminal.
//
//     md4c ── blocks, spans, text ──> glyphs of the block in hand ── wrap ──> lines
//
// md4c calls us as it reads. The text of one block (a paragraph, a heading, a list item, a cell of a
// table) is gathered as glyphs, a character and its style each, because only a whole block can be
// wrapped. Containers (quotes, lists) are a stack of prefixes that stand in front of every line.
//
// Text comes through add_text() alone, which writes control characters as escapes; the escape
// sequences of the output are all made in emit(). Raw HTML is text like any other.
//
// While an answer streams, markdown_settled() says how much of it later text cannot change any more: it
// ends, outside of a fence, before a line that is not indented and either follows a blank line or opens a fence.

#include "term/markdown.h"

#include <assert.h>
#include <md4c.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "base/visible.h"
#include "term/text.h"

enum { LEVELS = 8, PREFIX_MAX = 24 };

enum style { BOLD = 1, DIM = 2, ITALIC = 4, UNDERLINE = 8, STRIKE = 16, CODE = 32 };

struct glyph {
    uint32_t cp;
    uint8_t style;
    uint8_t width; // columns of its cluster; 0 for the characters after its first
};

/// A quote or a list item: what stands in front of its first line, and of the others.
struct level {
    char first[PREFIX_MAX], rest[PREFIX_MAX];
    bool begun;
};

struct list {
    bool ordered, tight;
    unsigned next; // number of the next item
};

struct cell_span {
    size_t from, n; // glyphs
};

struct render {
    struct buf *out;
    const struct markdown_look *look;
    vec(struct glyph) glyphs; // of the block in hand
    vec(struct level) levels;
    vec(struct list) lists;
    vec(struct cell_span) cells; // of the table in hand, row by row
    size_t columns;              // of the table in hand, 0 outside
    unsigned styles[6];          // how many open spans ask for each style bit
    bool gap;                    // a blank line is due before the next block
};

// ---- glyphs --------------------------------------------------------------------------------

static uint8_t style_now(const struct render *r)
{
    uint8_t style = 0;
    for (size_t i = 0; i < ARRAY_LEN(r->styles); i++) {
        style = (uint8_t)(style | (r->styles[i] != 0) << i);
    }
    return style;
}

static void style_add(struct render *r, unsigned style, int by)
{
    for (size_t i = 0; i < ARRAY_LEN(r->styles); i++) {
        if ((style >> i & 1) != 0) {
            r->styles[i] += (unsigned)by;
        }
    }
}

static void add_glyph(struct render *r, uint32_t cp, size_t width)
{
    struct glyph g = {cp, style_now(r), (uint8_t)width};
    vec_push(&r->glyphs, g);
}

// The one way in for text. Line feeds and tabs are glyphs.
static void add_text(struct render *r, struct str text)
{
    struct buf safe = {.max = SIZE_MAX};
    visible_add(&safe, text, true);
    for (struct str s = buf_str(&safe); s.n != 0;) {
        uint32_t cp;
        size_t width, n = text_cluster(s, &width);
        for (size_t i = 0; i < n; width = 0) {
            i += utf8_decode(str_from(s, i), &cp);
            add_glyph(r, cp, cp == '\t' ? 4 : width);
        }
        s = str_from(s, n);
    }
    buf_fini(&safe);
}

static size_t glyphs_width(const struct glyph *g, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n; i++) {
        width += g[i].width;
    }
    return width;
}

// ---- lines ---------------------------------------------------------------------------------

static void emit_style(struct render *r, uint8_t style)
{
    static const char *const codes[] = {";1", ";2", ";3", ";4", ";9", ";36"};
    buf_addz(r->out, "\033[0");
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        buf_addz(r->out, (style >> i & 1) != 0 ? codes[i] : "");
    }
    buf_addc(r->out, 'm');
}

static void emit(struct render *r, const struct glyph *g, size_t n)
{
    uint8_t style = 0;
    for (size_t i = 0; i < n; i++) {
        char bytes[4];
        if (r->look->color != COLOR_NONE && g[i].style != style) {
            style = g[i].style;
            emit_style(r, style);
        }
        if (g[i].cp == '\t') {
            buf_addz(r->out, "    ");
        } else {
            buf_add(r->out, bytes, utf8_encode(g[i].cp, bytes));
        }
    }
    if (style != 0) {
        emit_style(r, 0);
    }
}

static size_t emit_prefix(struct render *r)
{
    size_t width = 0;
    for (size_t i = 0; i < r->levels.n; i++) {
        struct level *l = &r->levels.p[i];
        const char *text = i >= LEVELS ? "" : l->begun ? l->rest : l->first;
        l->begun = true;
        buf_addz(r->out, text);
        width += text_width(str_of(text));
    }
    return width;
}

static void end_line(struct render *r)
{
    while (r->out->n != 0 && r->out->p[r->out->n - 1] == ' ') {
        buf_cut(r->out, r->out->n - 1);
    }
    buf_addc(r->out, '\n');
}

// How many glyphs the next line has: up to a line feed or the last blank that fits, else what fits.
static size_t line_length(const struct glyph *g, size_t n, size_t room)
{
    size_t width = 0, blank = 0;
    for (size_t i = 0; i < n; i++) {
        if (g[i].cp == '\n') {
            return i;
        }
        width += g[i].width;
        if (width > room && g[i].cp != ' ') {
            return blank != 0 ? blank : MAX(i, 1);
        }
        blank = g[i].cp == ' ' ? i : blank;
    }
    return n;
}

static void open_block(struct render *r)
{
    if (r->gap) {
        emit_prefix(r);
        end_line(r);
    }
    r->gap = false;
}

// Write what was gathered, wrapped.
static void flush(struct render *r)
{
    const struct glyph *g = r->glyphs.p;
    size_t n = r->glyphs.n;
    while (n != 0) {
        size_t prefix = emit_prefix(r);
        size_t room = r->look->cols > prefix + 8 ? r->look->cols - prefix : 8;
        size_t used = line_length(g, n, room);
        emit(r, g, used);
        end_line(r);
        used += used < n && (g[used].cp == ' ' || g[used].cp == '\n');
        g += used;
        n -= used;
    }
    r->glyphs.n = 0;
}

static void flush_code(struct render *r)
{
    const struct glyph *g = r->glyphs.p;
    size_t left = r->glyphs.n;
    while (left != 0) {
        size_t n = 0;
        while (n < left && g[n].cp != '\n') {
            n++;
        }
        emit_prefix(r);
        buf_addz(r->out, "  ");
        emit(r, g, n);
        end_line(r);
        n += n < left;
        g += n;
        left -= n;
    }
    r->glyphs.n = 0;
}

static void draw_rule(struct render *r)
{
    size_t width = MIN(MAX(r->look->cols, 1), 40);
    emit_prefix(r);
    for (size_t i = 0; i < width; i++) {
        buf_addz(r->out, "─");
    }
    end_line(r);
}

// ---- tables --------------------------------------------------------------------------------

static void draw_row(struct render *r, size_t first, const size_t *widths)
{
    emit_prefix(r);
    for (size_t i = 0; i < r->columns && first + i < r->cells.n; i++) {
        struct cell_span c = r->cells.p[first + i];
        const struct glyph *g = r->glyphs.p != NULL ? r->glyphs.p + c.from : NULL;
        size_t width = glyphs_width(g, c.n);
        emit(r, g, c.n);
        if (i + 1 < r->columns) {
            buf_addf(r->out, "%*s │ ", (int)(widths[i] - width), "");
        }
    }
    end_line(r);
}

static void draw_table(struct render *r)
{
    assert(r->columns != 0);
    size_t *widths = xcalloc(r->columns, sizeof *widths);
    for (size_t i = 0; i < r->cells.n; i++) {
        struct cell_span c = r->cells.p[i];
        const struct glyph *g = r->glyphs.p != NULL ? r->glyphs.p + c.from : NULL;
        size_t *w = &widths[i % r->columns];
        *w = MAX(*w, glyphs_width(g, c.n));
    }
    for (size_t i = 0; i < r->cells.n; i += r->columns) {
        draw_row(r, i, widths);
    }
    free(widths);
    r->cells.n = r->glyphs.n = 0;
}

// ---- blocks --------------------------------------------------------------------------------

static void push_level(struct render *r, const char *first, const char *rest)
{
    struct level l = {0};
    snprintf(l.first, sizeof l.first, "%s", first);
    snprintf(l.rest, sizeof l.rest, "%s", rest);
    vec_push(&r->levels, l);
}

static void enter_item(struct render *r, const MD_BLOCK_LI_DETAIL *d)
{
    assert(r->lists.n != 0);
    struct list *list = vec_last(&r->lists);
    const char *task = !d->is_task ? "" : d->task_mark == ' ' ? "[ ] " : "[x] ";
    char first[PREFIX_MAX], rest[PREFIX_MAX];
    if (list->ordered) {
        snprintf(first, sizeof first, "%u. %s", list->next++, task);
    } else {
        snprintf(first, sizeof first, "• %s", task);
    }
    snprintf(rest, sizeof rest, "%*s", (int)utf8_width(str_of(first)), "");
    push_level(r, first, rest);
}

static void leave_item(struct render *r)
{
    assert(r->levels.n != 0 && r->lists.n != 0);
    struct level *l = vec_last(&r->levels);
    flush(r);
    if (!l->begun) { // an item without anything in it still has its mark
        emit_prefix(r);
        end_line(r);
    }
    vec_pop(&r->levels);
    r->gap = !vec_last(&r->lists)->tight;
}

static void enter_list(struct render *r, bool ordered, unsigned start, bool tight)
{
    struct list l = {.ordered = ordered, .tight = tight, .next = start};
    if (r->glyphs.n != 0) { // the text of the item that this list is part of
        flush(r);
    }
    vec_push(&r->lists, l);
}

static void leave_list(struct render *r)
{
    assert(r->lists.n != 0);
    vec_pop(&r->lists);
    r->gap = r->lists.n == 0 || !vec_last(&r->lists)->tight;
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    switch (type) {
    case MD_BLOCK_QUOTE:
        flush(r);
        open_block(r); // the blank line before it is outside of it
        push_level(r, "│ ", "│ ");
        break;
    case MD_BLOCK_UL: {
        const MD_BLOCK_UL_DETAIL *d = detail;
        enter_list(r, false, 0, d->is_tight != 0);
        break;
    }
    case MD_BLOCK_OL: {
        const MD_BLOCK_OL_DETAIL *d = detail;
        enter_list(r, true, d->start, d->is_tight != 0);
        break;
    }
    case MD_BLOCK_LI:
        open_block(r);
        enter_item(r, detail);
        break;
    case MD_BLOCK_H:
        open_block(r);
        style_add(r, BOLD, 1);
        break;
    case MD_BLOCK_TH: style_add(r, BOLD, 1); break;
    case MD_BLOCK_CODE:
        flush(r);
        open_block(r);
        style_add(r, CODE, 1);
        break;
    case MD_BLOCK_TABLE: {
        const MD_BLOCK_TABLE_DETAIL *d = detail;
        flush(r);
        open_block(r);
        r->columns = MAX(d->col_count, 1);
        break;
    }
    case MD_BLOCK_P:
    case MD_BLOCK_HR: open_block(r); break;
    default: break;
    }
    return 0;
}

static void leave_cell(struct render *r)
{
    size_t from = r->cells.n != 0 ? vec_last(&r->cells)->from + vec_last(&r->cells)->n : 0;
    struct cell_span c = {.from = from, .n = r->glyphs.n - from};
    vec_push(&r->cells, c);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    (void)detail;
    switch (type) {
    case MD_BLOCK_QUOTE:
        flush(r);
        vec_pop(&r->levels);
        r->gap = true;
        break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL: leave_list(r); break;
    case MD_BLOCK_LI: leave_item(r); break;
    case MD_BLOCK_H:
        flush(r);
        style_add(r, BOLD, -1);
        r->gap = true;
        break;
    case MD_BLOCK_TH:
        style_add(r, BOLD, -1);
        leave_cell(r);
        break;
    case MD_BLOCK_TD: leave_cell(r); break;
    case MD_BLOCK_TABLE:
        draw_table(r);
        r->columns = 0;
        r->gap = true;
        break;
    case MD_BLOCK_CODE:
        flush_code(r);
        style_add(r, CODE, -1);
        r->gap = true;
        break;
    case MD_BLOCK_HR:
        draw_rule(r);
        r->gap = true;
        break;
    case MD_BLOCK_P:
        flush(r);
        r->gap = true;
        break;
    default: break;
    }
    return 0;
}

// ---- spans and text ------------------------------------------------------------------------

static unsigned style_of(MD_SPANTYPE type)
{
    switch (type) {
    case MD_SPAN_EM: return ITALIC;
    case MD_SPAN_STRONG: return BOLD;
    case MD_SPAN_A:
    case MD_SPAN_IMG: return UNDERLINE;
    case MD_SPAN_CODE: return CODE;
    case MD_SPAN_DEL: return STRIKE;
    default: return 0;
    }
}

static int enter_span(MD_SPANTYPE type, void *detail, void *arg)
{
    (void)detail;
    style_add(arg, style_of(type), 1);
    return 0;
}

static bool ends_with(const struct render *r, struct str text)
{
    size_t n = r->glyphs.n;
    while (text.n != 0 && n != 0 && (unsigned char)text.p[text.n - 1] == r->glyphs.p[n - 1].cp) {
        text.n--;
        n--;
    }
    return text.n == 0;
}

// Where a link leads is shown: a text that names another place must not hide it.
static void add_target(struct render *r, const MD_ATTRIBUTE *href)
{
    struct str target = {href->text, href->size};
    if (target.n != 0 && !ends_with(r, target)) {
        style_add(r, DIM, 1);
        add_text(r, STR(" ("));
        add_text(r, target);
        add_text(r, STR(")"));
        style_add(r, DIM, -1);
    }
}

static int leave_span(MD_SPANTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    style_add(r, style_of(type), -1);
    if (type == MD_SPAN_A) {
        add_target(r, &((MD_SPAN_A_DETAIL *)detail)->href);
    } else if (type == MD_SPAN_IMG) {
        add_target(r, &((MD_SPAN_IMG_DETAIL *)detail)->src);
    }
    return 0;
}

// `&#27;` is as good as the byte it stands for, so it goes the way of all text.
static void add_entity(struct render *r, struct str entity)
{
    static const struct {
        const char *name, *text;
    } known[] = {{"&amp;", "&"},   {"&lt;", "<"},   {"&gt;", ">"},
                 {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", " "}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_eqz(entity, known[i].name)) {
            add_text(r, str_of(known[i].text));
            return;
        }
    }
    bool number = entity.n > 3 && entity.p[1] == '#';
    bool hex = number && (entity.p[2] == 'x' || entity.p[2] == 'X');
    char digits[16] = "", bytes[4];
    struct str rest = str_from(entity, hex ? 3 : 2);
    memcpy(digits, rest.p, MIN(rest.n, sizeof digits - 1));
    unsigned long cp = number ? strtoul(digits, NULL, hex ? 16 : 10) : 0;
    if (!number) {
        add_text(r, entity);
    } else if (cp == 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) {
        add_glyph(r, 0xFFFD, 1);
    } else {
        add_text(r, (struct str){bytes, utf8_encode((uint32_t)cp, bytes)});
    }
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *text, MD_SIZE size, void *arg)
{
    struct render *r = arg;
    struct str s = {text, size};
    switch (type) {
    case MD_TEXT_BR: add_glyph(r, '\n', 0); break;
    case MD_TEXT_SOFTBR: add_glyph(r, ' ', 1); break;
    case MD_TEXT_NULLCHAR: add_glyph(r, 0xFFFD, 1); break;
    case MD_TEXT_ENTITY: add_entity(r, s); break;
    default: add_text(r, s); break;
    }
    return 0;
}

// ---- settling ------------------------------------------------------------------------------

// The fence that opens or closes a block of code on this line: its length, and its character. A line such as
// "```x``` y" has none: that is code in a paragraph.
static size_t fence_of(struct str line, char *mark)
{
    struct str s = str_trim(line);
    size_t n = 0;
    *mark = s.n != 0 ? s.p[0] : '\0';
    while ((*mark == '`' || *mark == '~') && n < s.n && s.p[n] == *mark) {
        n++;
    }
    bool inline_code = *mark == '`' && str_index(str_from(s, n), '`') >= 0;
    return n >= 3 && !inline_code ? n : 0;
}

struct fence {
    char mark;
    size_t n; // 0: not in a block of code
};

static void see_fence(struct fence *f, struct str line)
{
    char mark;
    size_t n = fence_of(line, &mark);
    if (f->n == 0) {
        *f = (struct fence){mark, n};
    } else if (mark == f->mark && n >= f->n && str_trim(line).n == n) {
        f->n = 0;
    }
}

// ---- public --------------------------------------------------------------------------------

void markdown_render(struct buf *out, struct str text, const struct markdown_look *look)
{
    static const MD_PARSER parser = {
        .flags = MD_FLAG_NOHTML | MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS |
                 MD_FLAG_PERMISSIVEURLAUTOLINKS | MD_FLAG_NOINDENTEDCODEBLOCKS,
        .enter_block = enter_block,
        .leave_block = leave_block,
        .enter_span = enter_span,
        .leave_span = leave_span,
        .text = on_text,
    };
    struct render r = {.out = out, .look = look};
    char *copy = str_dup(text); // md4c 0.4.8 looks at the byte after an unfinished link at the end
    if (md_parse(copy, (MD_SIZE)text.n, &parser, &r) != 0) {
        r.glyphs.n = 0; // md4c found no memory: the text as it is
        add_text(&r, text);
        flush(&r);
    }
    free(copy);
    vec_fini(&r.glyphs);
    vec_fini(&r.levels);
    vec_fini(&r.lists);
    vec_fini(&r.cells);
}

size_t markdown_settled(struct str text)
{
    struct fence fence = {0};
    struct str rest = text;
    size_t settled = 0;
    bool blank = false;
    while (rest.n != 0 && str_index(rest, '\n') >= 0) {
        size_t at = text.n - rest.n;
        struct str line = str_cut(&rest, '\n');
        bool empty = str_trim(line).n == 0, outside = fence.n == 0;
        see_fence(&fence, line);
        bool begins = outside && (blank || fence.n != 0);
        if (begins && !empty && line.p[0] != ' ' && line.p[0] != '\t') {
            settled = at;
        }
        blank = empty;
    }
    bool flush_left = rest.n != 0 && strchr(" \t\r\n", rest.p[0]) == NULL;
    return blank && flush_left && fence.n == 0 ? text.n - rest.n : settled;
}

bool markdown_is_open(struct str text)
{
    struct fence fence = {0};
    while (text.n != 0 && str_index(text, '\n') >= 0) {
        see_fence(&fence, str_cut(&text, '\n'));
    }
    return fence.n != 0;
}
