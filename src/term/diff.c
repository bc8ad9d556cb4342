// From a unified diff to lines on a terminal.
//
//     lines ──> a run of '-' and of '+' ──> pairs, word by word ──> rows, one or two columns
//
// The first removed line of a run is compared with the first added one, and so on. Both are taken apart
// into words; what is not in their longest common sequence is marked. Lines that have little in common
// are marked as a whole: marks on every other word would not help.
//
// The user may be about to allow this change, so every line is shown whole: a hunk is shown in two columns only where its
// lines fit there, and in one column long lines continue in the next row.

#include "term/diff.h"

#include "base/vec.h"
#include "base/visible.h"
#include "term/text.h"

enum { WORDS_MAX = 256, NUMBER = 5, NUMBER_END = 100000, INDENT = 2 };

struct word {
    struct str text;
    bool changed;
};
typedef vec(struct word) words;

struct line {
    char sign;
    char *text; // visible, without its sign
    words words;
};
typedef vec(struct line) lines;

struct render {
    struct buf *out;
    const struct diff_look *look;
    lines removed, added;   // the run in hand
    unsigned long old, new; // numbers of the next lines
    bool wide;              // this hunk has two columns
    size_t rows, missing;
};

// ---- words ---------------------------------------------------------------------------------

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static void split(struct line *l)
{
    for (struct str rest = str_of(l->text); rest.n != 0;) {
        size_t n = 1;
        bool word = is_word(rest.p[0]), blank = rest.p[0] == ' ';
        while (n < rest.n && ((word && is_word(rest.p[n])) || (blank && rest.p[n] == ' '))) {
            n++;
        }
        struct word w = {{rest.p, n}, true};
        vec_push(&l->words, w);
        rest = str_from(rest, n);
    }
}

// Unmark the words of the longest common sequence; returns how many bytes they have.
static size_t match(words *a, words *b)
{
    size_t width = b->n + 1, same = 0;
    uint16_t *longest = xcalloc((a->n + 1) * width, sizeof *longest); // of what follows i and j
    for (size_t i = a->n; i-- > 0;) {
        for (size_t j = b->n; j-- > 0;) {
            uint16_t *at = &longest[i * width + j];
            *at = str_eq(a->p[i].text, b->p[j].text) ? (uint16_t)(at[width + 1] + 1)
                                                     : MAX(at[1], at[width]);
        }
    }
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        const uint16_t *at = &longest[i * width + j];
        if (str_eq(a->p[i].text, b->p[j].text)) {
            same += a->p[i].text.n;
            a->p[i++].changed = b->p[j++].changed = false;
        } else if (at[1] >= at[width]) {
            j++;
        } else {
            i++;
        }
    }
    free(longest);
    return same;
}

static void unmark(words *w)
{
    vec_foreach (it, w) {
        it->changed = false;
    }
}

static void compare(struct line *a, struct line *b)
{
    size_t n = MAX(strlen(a->text), strlen(b->text));
    bool few = a->words.n <= WORDS_MAX && b->words.n <= WORDS_MAX;
    if (!few || match(&a->words, &b->words) * 3 < n) {
        unmark(&a->words);
        unmark(&b->words);
    }
}

// ---- rows ----------------------------------------------------------------------------------

// One more row, unless there are enough of them.
static bool begin_row(struct render *r)
{
    if (r->rows == r->look->rows) {
        r->missing++;
        return false;
    }
    r->rows++;
    return true;
}

static void add_plain(struct render *r, enum color_role role, struct str text)
{
    if (begin_row(r)) {
        buf_addf(r->out, "%*s%s", INDENT, "",
                 role != COLOR__ROLES ? color_on(r->look->color, role) : "");
        text_add_cut(r->out, text, r->look->cols - MIN(r->look->cols, INDENT));
        buf_addf(r->out, "%s\n", role != COLOR__ROLES ? color_off(r->look->color) : "");
    }
}

static const char *base_color(const struct render *r, const struct line *l)
{
    return l->sign == ' ' ? ""
                          : color_on(r->look->color, l->sign == '-' ? COLOR_REMOVED : COLOR_ADDED);
}

static void paint_line(struct buf *text, const struct render *r, const struct line *l)
{
    enum color_depth depth = r->look->color;
    bool plain = l->sign == ' ';
    const char *base = base_color(r, l);
    const char *mark = color_on(depth, l->sign == '-' ? COLOR_REMOVED_WORD : COLOR_ADDED_WORD);
    buf_addf(text, "%s%c", base, l->sign);
    vec_foreach (w, &l->words) {
        bool marked = w->changed && !plain;
        buf_addf(text, "%s" STR_FMT "%s%s", marked ? mark : "", STR_ARG(w->text),
                 marked ? color_off(depth) : "", marked ? base : "");
    }
    buf_addz(text, plain ? "" : color_off(depth));
}

// A line in `cols` columns; returns how many it took. NULL: no line.
static size_t add_line(struct render *r, const struct line *l, size_t cols)
{
    struct buf text = {.max = SIZE_MAX};
    if (l == NULL) {
        return 0;
    }
    paint_line(&text, r, l);
    size_t width = MIN(text_width(buf_str(&text)), cols);
    text_add_cut(r->out, buf_str(&text), cols);
    buf_fini(&text);
    return width;
}

/// The number of the line; blank where there is no line, and for one that does not fit.
static void add_number(struct render *r, const struct line *l, unsigned long *next)
{
    if (l != NULL && *next < NUMBER_END) {
        buf_addf(r->out, "%s%*lu%s ", color_on(r->look->color, COLOR_DIM), NUMBER, *next,
                 color_off(r->look->color));
    } else {
        buf_addf(r->out, "%*s ", NUMBER, "");
    }
    *next += l != NULL;
}

// The columns of one of two lines side by side.
static size_t half_of(const struct diff_look *look)
{
    return (look->cols - INDENT - 2 * (NUMBER + 1) - 3) / 2;
}

static void add_pair(struct render *r, const struct line *old, const struct line *new)
{
    size_t half = half_of(r->look);
    if (begin_row(r)) {
        buf_addf(r->out, "%*s", INDENT, "");
        add_number(r, old, &r->old);
        size_t used = add_line(r, old, half);
        buf_addf(r->out, "%*s │ ", (int)(half - used), "");
        add_number(r, new, &r->new);
        add_line(r, new, half);
        buf_addc(r->out, '\n');
    }
}

static void add_single(struct render *r, const struct line *l)
{
    size_t cols = MAX(r->look->cols, INDENT + 2) - INDENT;
    struct buf text = {.max = SIZE_MAX};
    paint_line(&text, r, l);
    struct str rest = buf_str(&text);
    for (bool first = true; rest.n != 0 && begin_row(r); first = false) {
        struct str piece = {rest.p, text_fit(rest, cols, NULL)};
        rest = str_from(rest, piece.n);
        buf_addf(r->out, "%*s%s" STR_FMT "%s\n", INDENT, "", first ? "" : base_color(r, l),
                 STR_ARG(piece), rest.n != 0 && l->sign != ' ' ? color_off(r->look->color) : "");
    }
    buf_fini(&text);
}

// ---- runs ----------------------------------------------------------------------------------

// Append a line of the diff as it is shown: tabs as blanks, and nothing that a terminal would obey.
static void add_shown(struct buf *out, struct str raw)
{
    while (raw.n != 0) {
        bool tab = str_index(raw, '\t') >= 0;
        visible_add(out, str_cut(&raw, '\t'), false);
        buf_addz(out, tab ? "    " : "");
    }
}

// Do the lines of the hunk at the start of `rest` fit side by side, and is there something on both sides?
static bool is_wide(struct str rest, const struct diff_look *look)
{
    bool removed = false, added = false;
    while (rest.n != 0 && look->cols >= DIFF_WIDE) {
        struct str raw = str_cut(&rest, '\n');
        char sign = raw.n != 0 ? raw.p[0] : ' ';
        if (strchr("+- \\", sign) == NULL) {
            break;
        }
        struct buf shown = {.max = SIZE_MAX};
        add_shown(&shown, raw);
        size_t width = text_width(buf_str(&shown));
        buf_fini(&shown);
        if (width > half_of(look)) {
            return false;
        }
        removed = removed || sign == '-';
        added = added || sign == '+';
    }
    return look->cols >= DIFF_WIDE && removed == added;
}

static struct line make_line(struct str raw)
{
    struct line l = {.sign = raw.p[0]};
    struct buf shown = {.max = SIZE_MAX};
    add_shown(&shown, str_from(raw, 1));
    l.text = buf_take(&shown, NULL);
    split(&l);
    return l;
}

static void free_line(struct line *l)
{
    free(l->text);
    vec_fini(&l->words);
}

// In one column all removed lines come before the added ones.
static void end_run(struct render *r, lines *run)
{
    vec_foreach (l, run) {
        if (!r->wide) {
            add_single(r, l);
        }
        free_line(l);
    }
    run->n = 0;
}

static void flush(struct render *r)
{
    size_t both = MIN(r->removed.n, r->added.n), all = MAX(r->removed.n, r->added.n);
    for (size_t i = 0; i < all; i++) {
        if (i < both) {
            compare(&r->removed.p[i], &r->added.p[i]);
        } else {
            unmark(i < r->removed.n ? &r->removed.p[i].words : &r->added.p[i].words);
        }
    }
    for (size_t i = 0; i < all && r->wide; i++) {
        add_pair(r, i < r->removed.n ? &r->removed.p[i] : NULL,
                 i < r->added.n ? &r->added.p[i] : NULL);
    }
    end_run(r, &r->removed);
    end_run(r, &r->added);
}

static void add_context(struct render *r, struct str raw)
{
    struct line l = make_line(raw);
    unmark(&l.words);
    if (r->wide) {
        add_pair(r, &l, &l);
    } else {
        add_single(r, &l);
    }
    free_line(&l);
}

static unsigned long number_after(struct str raw, char sign)
{
    unsigned long n = 0;
    str_cut(&raw, sign);
    for (size_t i = 0; i < raw.n && raw.p[i] >= '0' && raw.p[i] <= '9'; i++) {
        n = n % 100000000 * 10 + (unsigned long)(raw.p[i] - '0');
    }
    return n;
}

static void add_header(struct render *r, struct str raw)
{
    bool hunk = str_starts(raw, "@@");
    struct buf shown = {.max = SIZE_MAX};
    if (hunk) {
        r->old = number_after(raw, '-');
        r->new = number_after(raw, '+');
    }
    visible_add(&shown, raw, false);
    add_plain(r, hunk ? COLOR_DIM : COLOR_BOLD, buf_str(&shown));
    buf_fini(&shown);
}

void diff_render(struct buf *out, struct str diff, const struct diff_look *look)
{
    struct render r = {.out = out, .look = look};
    bool body = false; // below a "@@": a line "--- x" removes "-- x" there
    for (struct str rest = diff; rest.n != 0;) {
        struct str raw = str_cut(&rest, '\n');
        char sign = raw.n != 0 ? raw.p[0] : ' ';
        if (body && (sign == '-' || sign == '+')) {
            struct line l = make_line(raw);
            if (sign == '-' && r.added.n != 0) {
                flush(&r);
            }
            if (sign == '-') {
                vec_push(&r.removed, l);
            } else {
                vec_push(&r.added, l);
            }
            continue;
        }
        if (body && sign == '\\') { // "no newline at end of file": of the line before it
            continue;
        }
        flush(&r);
        if (body && sign == ' ') {
            add_context(&r, raw.n != 0 ? raw : STR(" "));
        } else {
            add_header(&r, raw);
            body = str_starts(raw, "@@");
            r.wide = body && is_wide(rest, look);
        }
    }
    flush(&r);
    if (r.missing != 0) {
        buf_addf(out, "%*s… %zu more line%s\n", INDENT, "", r.missing, r.missing == 1 ? "" : "s");
    }
    vec_fini(&r.removed);
    vec_fini(&r.added);
}
