// Web pages as Markdown.
//
// One pass, no tree: a tag only notes what must come before the next word (an empty line, a list's marker, a
// space), and that word writes it. So a tag that is never closed, or closed twice, costs nothing but a line break
// in the wrong place.
//
//     <p>  </p> <div> ...  `gap` = 2 line ends        <b> <i> <code> <a>  a mark in the text; empty ones go
//     <br> <tr>            `gap` = 1                  <ul> <ol> <blockquote>  the beginning of each line
//     <script> <style>     skipped to their end tag   <table>  cells between bars, a rule under the first row
//
// Invariants:
//   - nesting beyond the small arrays below is read as if it were not there.
//   - the output for one byte of the page is bounded, and OUT_MAX bounds the whole.

#include "base/html.h"

#include <assert.h>

#include "base/utf8.h"

enum { DEEP = 8, MARKS = 16, OUT_MAX = 16 << 20, TAG_NAME = 12, LONGEST_URL = 2000 };

/// Tags that put a sign in front of a text and after it.
static const struct sign {
    const char *tag, *sign;
} signs[] = {{"b", "**"},   {"strong", "**"}, {"i", "*"}, {"em", "*"},
             {"code", "`"}, {"kbd", "`"},     {"a", "["}};

/// An inline mark that is open.
struct mark {
    const struct sign *sign;
    size_t from, text; // in the output: where the sign begins, and where the marked text does
    struct str href;   // of a link
};

struct page {
    struct buf *out;
    size_t start; // of our part of `out`
    const struct url *url;
    unsigned gap; // line ends wanted before the next word
    bool space;   // and a space
    bool begun;   // something was written
    int pre;      // inside <pre>
    bool fresh;   // it has just begun
    unsigned n_lists, n_quotes;
    int64_t lists[DEEP]; // the next number; 0: no numbers
    bool item;           // a list's marker is wanted
    struct mark marks[MARKS];
    size_t n_marks;
    unsigned rows, cells; // of the table; cells of its row
};

struct tag {
    struct str name, attributes;
    bool closes;
};

// ---- words --------------------------------------------------------------------------------------

/// The beginning of a line: quotes, and the room of list items.
static void begin_line(struct page *p)
{
    for (unsigned i = 0; i < p->n_quotes; i++) {
        buf_addz(p->out, "> ");
    }
    for (unsigned i = 1; i < p->n_lists + !p->item; i++) {
        buf_addz(p->out, "  ");
    }
    if (p->item && p->n_lists != 0 && p->lists[p->n_lists - 1] != 0) {
        buf_addf(p->out, "%lld. ", (long long)p->lists[p->n_lists - 1]++);
    } else if (p->item && p->n_lists != 0) {
        buf_addz(p->out, "- ");
    }
    p->item = false;
}

/// Write what must come before the next word.
static void flush(struct page *p)
{
    if (p->gap != 0 || !p->begun) {
        for (unsigned i = 0; p->begun && i < p->gap; i++) {
            buf_addc(p->out, '\n');
        }
        begin_line(p);
    } else if (p->space) {
        buf_addc(p->out, ' ');
    }
    p->gap = 0;
    p->space = false;
    p->begun = true;
}

static void want_gap(struct page *p, unsigned n)
{
    p->gap = MAX(p->gap, n);
}

static void add_pre(struct page *p, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '\n') {
            flush(p);
            buf_addc(p->out, text.p[i]);
        } else if (!p->fresh) { // a line end right after <pre> does not count
            if (p->gap != 0) {
                flush(p);
            }
            p->gap = 1;
        }
        p->fresh = false;
    }
}

static void add_text(struct page *p, struct str text)
{
    if (p->pre > 0) {
        add_pre(p, text);
        return;
    }
    for (size_t i = 0; i < text.n; i++) {
        bool marked = p->n_marks != 0 && p->out->n == p->marks[p->n_marks - 1].text;
        if (text.p[i] == ' ' || text.p[i] == '\n') {
            p->space = p->space || (p->begun && p->gap == 0 && !marked);
        } else {
            flush(p);
            buf_addc(p->out, text.p[i]);
        }
    }
}

// ---- characters by name -------------------------------------------------------------------------

static const struct {
    const char *name;
    uint32_t cp;
} entities[] = {
    {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},     {"apos", '\''},
    {"nbsp", ' '},     {"ensp", ' '},     {"emsp", ' '},      {"thinsp", ' '},   {"shy", 0},
    {"zwnj", 0},       {"zwj", 0},        {"copy", 0xA9},     {"reg", 0xAE},     {"trade", 0x2122},
    {"mdash", 0x2014}, {"ndash", 0x2013}, {"hellip", 0x2026}, {"lsquo", 0x2018}, {"rsquo", 0x2019},
    {"ldquo", 0x201C}, {"rdquo", 0x201D}, {"laquo", 0xAB},    {"raquo", 0xBB},   {"bull", 0x2022},
    {"middot", 0xB7},  {"times", 0xD7},   {"divide", 0xF7},   {"plusmn", 0xB1},  {"deg", 0xB0},
    {"euro", 0x20AC},  {"pound", 0xA3},   {"yen", 0xA5},      {"cent", 0xA2},    {"sect", 0xA7},
    {"para", 0xB6},    {"larr", 0x2190},  {"rarr", 0x2192},   {"uarr", 0x2191},  {"darr", 0x2193},
    {"le", 0x2264},    {"ge", 0x2265},    {"ne", 0x2260},     {"asymp", 0x2248}, {"infin", 0x221E},
    {"micro", 0xB5},   {"frac12", 0xBD},  {"auml", 0xE4},     {"ouml", 0xF6},    {"uuml", 0xFC},
    {"Auml", 0xC4},    {"Ouml", 0xD6},    {"Uuml", 0xDC},     {"szlig", 0xDF},   {"eacute", 0xE9},
    {"egrave", 0xE8},  {"agrave", 0xE0},  {"aacute", 0xE1},   {"ccedil", 0xE7},  {"ntilde", 0xF1},
    {"oslash", 0xF8},  {"aring", 0xE5},   {"check", 0x2713},  {"star", 0x2606},  {"lsaquo", 0x2039},
};

static bool read_number(struct str digits, uint32_t *cp)
{
    bool hex = digits.n != 0 && (digits.p[0] == 'x' || digits.p[0] == 'X');
    uint32_t n = 0;
    size_t i = hex;
    for (; i < digits.n && n < 0x110000; i++) {
        char c = digits.p[i];
        int d = c >= '0' && c <= '9'          ? c - '0'
                : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10
                : hex && c >= 'A' && c <= 'F' ? c - 'A' + 10
                                              : -1;
        if (d < 0) {
            return false;
        }
        n = n * (hex ? 16 : 10) + (uint32_t)d;
    }
    n = n == '\t' || n == '\r' ? ' ' : n;
    bool text = n == '\n' || (n >= 0x20 && n < 0x7F) || n >= 0xA0;
    *cp = text && n < 0x110000 && (n < 0xD800 || n > 0xDFFF) ? n : 0xFFFD;
    return i > (size_t)hex;
}

/// Length of the named or numbered character at `&`; 0: there is none. `*cp` 0: it shows nothing.
static size_t read_entity(struct str s, uint32_t *cp)
{
    size_t n = 1;
    while (n < s.n && n < 12 && s.p[n] != ';' && s.p[n] != '&' && s.p[n] > ' ') {
        n++;
    }
    struct str name = {s.p + 1, n - 1};
    if (n >= s.n || s.p[n] != ';') {
        return 0;
    }
    if (name.n != 0 && name.p[0] == '#') {
        return read_number(str_from(name, 1), cp) ? n + 1 : 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        if (str_eqz(name, entities[i].name)) {
            *cp = entities[i].cp;
            return n + 1;
        }
    }
    return 0;
}

static void decode(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = 0;
        char bytes[4];
        size_t n = text.p[i] == '&' ? read_entity(str_from(text, i), &cp) : 0;
        if (n == 0) {
            buf_addc(out, text.p[i++]);
        } else {
            buf_add(out, bytes, cp != 0 ? utf8_encode(cp, bytes) : 0);
            i += n;
        }
    }
}

// ---- marks --------------------------------------------------------------------------------------

static const struct sign *find_sign(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        if (str_eqz(name, signs[i].tag)) {
            return &signs[i];
        }
    }
    return NULL;
}

/// The value of an attribute, as it stands; `p` NULL: there is none.
static struct str attribute(struct str rest, const char *name)
{
    while (rest.n != 0) {
        size_t n = 0, v;
        while (n < rest.n && strchr(" \t\r\n/=", rest.p[n]) == NULL) {
            n++;
        }
        struct str key = {rest.p, n}, value = STR("");
        for (v = n; v < rest.n && (unsigned char)rest.p[v] <= ' '; v++) {
        }
        if (v < rest.n && rest.p[v] == '=') {
            for (v++; v < rest.n && (unsigned char)rest.p[v] <= ' '; v++) {
            }
            char quote = v < rest.n && (rest.p[v] == '"' || rest.p[v] == '\'') ? rest.p[v] : '\0';
            size_t from = v + (quote != '\0'), end = from;
            while (end < rest.n &&
                   (quote != '\0' ? rest.p[end] != quote : (unsigned char)rest.p[end] > ' ')) {
                end++;
            }
            value = (struct str){rest.p + from, end - from};
            n = MIN(end + (quote != '\0'), rest.n);
        }
        if (key.n != 0 && str_caseeqz(key, name)) {
            return value;
        }
        rest = str_from(rest, MAX(n, (size_t)1));
    }
    return STR_NULL;
}

/// An address in parentheses; characters that would end them or the line are escaped or left out.
static void add_address(struct page *p, struct str href)
{
    struct buf clean = {.max = SIZE_MAX}, full = {.max = SIZE_MAX};
    decode(&clean, str_trim(href));
    if (p->url != NULL) {
        url_join(&full, p->url, buf_str(&clean));
    } else {
        buf_adds(&full, buf_str(&clean));
    }
    buf_addc(p->out, '(');
    for (size_t i = 0; i < full.n; i++) {
        unsigned char c = (unsigned char)full.p[i];
        if (c == ' ' || c == '(' || c == ')') {
            buf_addf(p->out, "%%%02X", c);
        } else if (c > ' ' && c != 0x7F) {
            buf_addc(p->out, (char)c);
        }
    }
    buf_addc(p->out, ')');
    buf_fini(&clean);
    buf_fini(&full);
}

static bool is_address(struct str href)
{
    struct str s = str_trim(href);
    return s.n != 0 && s.n <= LONGEST_URL && s.p[0] != '#' && !str_starts(s, "javascript:") &&
           !str_starts(s, "data:");
}

static void open_mark(struct page *p, const struct sign *sign, struct str attributes)
{
    bool link = sign->sign[0] == '[';
    struct str href = link ? attribute(attributes, "href") : STR_NULL;
    if (p->n_marks == MARKS || p->pre > 0 || (link && !is_address(href))) {
        return;
    }
    flush(p);
    struct mark *m = &p->marks[p->n_marks++];
    *m = (struct mark){.sign = sign, .from = p->out->n, .href = href};
    buf_addz(p->out, sign->sign);
    m->text = p->out->n;
}

/// Close the innermost mark; remove it if there is nothing in it.
static void close_last(struct page *p)
{
    const struct mark *m = &p->marks[--p->n_marks];
    if (p->out->n == m->text) {
        buf_cut(p->out, m->from);
    } else if (m->href.p != NULL) {
        buf_addc(p->out, ']');
        add_address(p, m->href);
    } else {
        buf_addz(p->out, m->sign->sign);
    }
}

/// Close the innermost mark of that kind, and those that were opened in it and never closed.
static void close_mark(struct page *p, const struct sign *sign)
{
    size_t i = p->n_marks;
    while (i != 0 && p->marks[i - 1].sign != sign) {
        i--;
    }
    while (i != 0 && p->n_marks >= i) {
        close_last(p);
    }
}

/// A block begins or ends: no mark reaches across it.
static void drop_marks(struct page *p)
{
    while (p->n_marks != 0) {
        close_last(p);
    }
}

// ---- tags ---------------------------------------------------------------------------------------

enum kind {
    BLOCK, // an empty line before and after
    LINE,  // a new line
    HEAD,
    LIST,
    ITEM,
    QUOTE,
    PRE,
    ROW,
    CELL,
    TABLE,
    RULE,
    IMAGE,
    SKIP, // with everything in it
    TITLE,
};

static const struct kind_row {
    const char *name;
    enum kind kind;
} kinds[] = {
    {"p", BLOCK},         {"div", BLOCK},        {"section", BLOCK},  {"article", BLOCK},
    {"main", BLOCK},      {"header", BLOCK},     {"footer", BLOCK},   {"nav", BLOCK},
    {"aside", BLOCK},     {"figure", BLOCK},     {"form", BLOCK},     {"address", BLOCK},
    {"dl", BLOCK},        {"details", BLOCK},    {"fieldset", BLOCK}, {"body", BLOCK},
    {"br", LINE},         {"dt", LINE},          {"dd", LINE},        {"summary", LINE},
    {"figcaption", LINE}, {"caption", LINE},     {"option", LINE},    {"h1", HEAD},
    {"h2", HEAD},         {"h3", HEAD},          {"h4", HEAD},        {"h5", HEAD},
    {"h6", HEAD},         {"ul", LIST},          {"ol", LIST},        {"menu", LIST},
    {"li", ITEM},         {"blockquote", QUOTE}, {"pre", PRE},        {"textarea", SKIP},
    {"tr", ROW},          {"td", CELL},          {"th", CELL},        {"table", TABLE},
    {"hr", RULE},         {"img", IMAGE},        {"script", SKIP},    {"style", SKIP},
    {"noscript", SKIP},   {"template", SKIP},    {"svg", SKIP},       {"iframe", SKIP},
    {"object", SKIP},     {"select", SKIP},      {"button", SKIP},    {"canvas", SKIP},
    {"video", SKIP},      {"audio", SKIP},       {"math", SKIP},      {"title", TITLE},
};

static void on_list(struct page *p, const struct tag *t)
{
    want_gap(p, p->n_lists == (t->closes ? 1U : 0U) ? 2 : 1);
    p->item = false;
    if (t->closes) {
        p->n_lists -= p->n_lists != 0;
    } else if (p->n_lists < DEEP) {
        p->lists[p->n_lists++] = str_eqz(t->name, "ol");
    }
}

/// A rule under the first row makes a table of it.
static void on_row(struct page *p)
{
    if (p->cells != 0) {
        buf_addz(p->out, " |");
        if (p->rows++ == 0) {
            p->gap = 1;
            flush(p);
            for (unsigned i = 0; i < p->cells; i++) {
                buf_addz(p->out, i == 0 ? "|---|" : "---|");
            }
        }
    }
    p->cells = 0;
    want_gap(p, 1);
}

static void on_image(struct page *p, const struct tag *t)
{
    struct str alt = str_trim(attribute(t->attributes, "alt")),
               src = attribute(t->attributes, "src");
    if (alt.n != 0 && is_address(src)) {
        struct buf text = {.max = SIZE_MAX};
        decode(&text, alt);
        flush(p);
        buf_addz(p->out, "![");
        add_text(p, buf_str(&text));
        buf_addc(p->out, ']');
        add_address(p, src);
        buf_fini(&text);
    }
}

static void on_pre(struct page *p, const struct tag *t)
{
    want_gap(p, 2);
    if (!t->closes) {
        flush(p);
        buf_addz(p->out, "```");
        want_gap(p, 1);
        p->pre++;
        p->fresh = true;
    } else if (p->pre > 0) {
        p->pre--;
        p->gap = 1;
        flush(p);
        buf_addz(p->out, "```");
        want_gap(p, 2);
    }
}

static void on_head(struct page *p, const struct tag *t)
{
    want_gap(p, 2);
    if (!t->closes) {
        flush(p);
        buf_add(p->out, "######", (size_t)(t->name.p[1] - '0'));
        p->space = true;
    }
}

static void on_block(struct page *p, const struct tag *t, enum kind kind)
{
    if (kind != CELL && kind != IMAGE) {
        drop_marks(p);
    }
    switch (kind) {
    case HEAD: on_head(p, t); break;
    case LIST: on_list(p, t); break;
    case ITEM:
        want_gap(p, 1);
        p->item = !t->closes && p->n_lists != 0;
        break;
    case QUOTE:
        want_gap(p, 2);
        if (t->closes) {
            p->n_quotes -= p->n_quotes != 0;
        } else {
            p->n_quotes += p->n_quotes < DEEP;
        }
        break;
    case PRE: on_pre(p, t); break;
    case TABLE:
        on_row(p);
        want_gap(p, 2);
        p->rows = 0;
        break;
    case ROW: on_row(p); break;
    case CELL:
        if (!t->closes) {
            drop_marks(p);
            p->gap = p->cells == 0 ? MAX(p->gap, 1U) : 0;
            p->space = p->cells != 0;
            flush(p);
            buf_addc(p->out, '|');
            p->space = true;
            p->cells++;
        }
        break;
    case RULE:
        want_gap(p, 2);
        flush(p);
        buf_addz(p->out, "---");
        want_gap(p, 2);
        break;
    case IMAGE: on_image(p, t); break;
    case LINE: want_gap(p, p->cells != 0 ? 0 : 1); break;
    default: want_gap(p, p->cells != 0 ? 0 : p->n_lists != 0 ? 1 : 2); break;
    }
    p->space = p->space || (kind != CELL && p->cells != 0);
}

/// Where the end tag of `name` begins in `s`; its length when there is none.
static size_t find_end(struct str s, struct str name)
{
    for (size_t i = 0; i + 2 + name.n <= s.n; i++) {
        const char *at = memchr(s.p + i, '<', s.n - i);
        if (at == NULL) {
            break;
        }
        i = (size_t)(at - s.p);
        if (i + 2 + name.n <= s.n && s.p[i + 1] == '/' &&
            strncasecmp(s.p + i + 2, name.p, name.n) == 0) {
            return i;
        }
    }
    return s.n;
}

/// Read the tag that begins at `<`. Returns its length; 0: it is text.
static size_t read_tag(struct str s, struct tag *t, char lower[TAG_NAME])
{
    size_t i = 1, n = 0;
    char quote = '\0';
    t->closes = s.n > 1 && s.p[1] == '/';
    i += t->closes;
    for (; i < s.n && ((s.p[i] | 32) >= 'a' && (s.p[i] | 32) <= 'z'); i++, n++) {
        lower[MIN(n, (size_t)TAG_NAME - 1)] = (char)(s.p[i] | 32);
    }
    if (n != 0 && i < s.n && s.p[i] >= '0' && s.p[i] <= '9') { // h1
        lower[MIN(n, (size_t)TAG_NAME - 1)] = s.p[i++];
        n++;
    }
    if (n == 0) {
        return 0;
    }
    size_t from = i;
    for (; i < s.n && (quote != '\0' || s.p[i] != '>'); i++) {
        quote = quote != '\0' ? (s.p[i] == quote ? '\0' : quote)
                : s.p[i - 1] == '=' && strchr("\"'", s.p[i]) != NULL ? s.p[i]
                                                                     : '\0';
    }
    t->name = (struct str){lower, MIN(n, (size_t)TAG_NAME)};
    t->attributes = (struct str){s.p + from, i - from};
    return MIN(i + 1, s.n);
}

/// Length of a comment, <!doctype> or <?xml?> at the start of `s`; 0: there is none.
static size_t skip_other(struct str s)
{
    if (str_starts(s, "<!--")) {
        const char *end = memmem(s.p + 4, s.n - 4, "-->", 3);
        return end != NULL ? (size_t)(end - s.p) + 3 : s.n;
    }
    if (s.n > 1 && (s.p[1] == '!' || s.p[1] == '?')) {
        const char *end = memchr(s.p, '>', s.n);
        return end != NULL ? (size_t)(end - s.p) + 1 : s.n;
    }
    return 0;
}

/// Act on a tag. Returns how much of `rest`, which follows it, belongs to it.
static size_t take_tag(struct page *p, const struct tag *t, struct str rest)
{
    const struct sign *sign = find_sign(t->name);
    if (sign != NULL && t->closes) {
        close_mark(p, sign);
        return 0;
    }
    if (sign != NULL) {
        open_mark(p, sign, t->attributes);
        return 0;
    }
    size_t i = 0;
    while (i < ARRAY_LEN(kinds) && !str_eqz(t->name, kinds[i].name)) {
        i++;
    }
    if (i == ARRAY_LEN(kinds)) {
        return 0;
    }
    enum kind kind = kinds[i].kind;
    if (kind != SKIP && kind != TITLE) {
        on_block(p, t, kind);
        return 0;
    }
    bool empty = t->attributes.n != 0 && t->attributes.p[t->attributes.n - 1] == '/';
    size_t n = t->closes || empty ? 0 : find_end(rest, t->name);
    if (kind == TITLE && n != 0 && !p->begun) {
        struct buf text = {.max = SIZE_MAX};
        decode(&text, (struct str){rest.p, n});
        add_text(p, STR("#"));
        p->space = true;
        add_text(p, buf_str(&text));
        want_gap(p, 2);
        buf_fini(&text);
    }
    return n;
}

/// A copy without control characters: line feeds stay, others become spaces.
static void clean(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool wide =
            c == 0xC2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xA0; // U+0080 to U+009F
        bool control = (c < ' ' && c != '\n') || c == 0x7F || wide;
        buf_addc(out, control ? ' ' : (char)c);
        i += wide;
    }
}

void html_to_markdown(struct buf *out, struct str text, const struct url *page)
{
    struct page p = {.out = out, .start = out->n, .url = page};
    struct buf copy = {.max = SIZE_MAX};
    clean(&copy, text);
    struct str html = buf_str(&copy);
    while (html.n != 0 && out->n - p.start < OUT_MAX) {
        const char *at = memchr(html.p, '<', html.n);
        size_t n = at != NULL ? (size_t)(at - html.p) : html.n, other;
        struct tag t = {0};
        char lower[TAG_NAME];
        if (n == 0 && (other = skip_other(html)) != 0) {
            n = other;
        } else if (n == 0 && (other = read_tag(html, &t, lower)) != 0) {
            n = other + take_tag(&p, &t, str_from(html, other));
        } else {
            struct buf words = {.max = SIZE_MAX};
            n = MAX(n, (size_t)1);
            decode(&words, (struct str){html.p, n});
            add_text(&p, buf_str(&words));
            buf_fini(&words);
        }
        html = str_from(html, n);
    }
    drop_marks(&p);
    if (p.pre > 0) {
        buf_addz(out, "\n```");
    }
    if (p.begun) {
        buf_addc(out, '\n');
    }
    buf_fini(&copy);
    assert(out->n >= p.start);
}
