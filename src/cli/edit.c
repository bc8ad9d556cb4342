// A small line editor.
//
//     bytes typed ── feed ──> key or character ── table ──> text, cursor, history ── draw ──> bytes
//
// The text may have several lines (Alt-Enter, or a paste: with bracketed paste a line feed in it is
// not Enter). A line longer than the window is wrapped by the terminal itself, so that it can be
// copied whole and follows when the window changes; where it wraps we compute, by the same widths.
//
// Invariants:
//   - `at` is never inside a character, and the text is valid UTF-8 without control characters but
//     line feed and tab: nothing pasted can command the terminal.
//   - `row` is how far below the first row drawn the cursor stands: that many rows up begins a redraw.

#include "cli/edit.h"

#include "base/utf8.h"

enum { TEXT_MAX = 1 << 20, TAB_WIDTH = 4, HISTORY_MAX = 1000 };

// ---- moving --------------------------------------------------------------------------------

static size_t before(const struct edit *ed, size_t at)
{
    while (at > 0) {
        at--;
        if (((unsigned char)ed->text.p[at] & 0xC0) != 0x80) {
            break;
        }
    }
    return at;
}

static size_t behind(const struct edit *ed, size_t at)
{
    uint32_t cp;
    return at + utf8_decode(str_from(buf_str(&ed->text), at), &cp);
}

// Characters of no width belong to the one before them.
static bool is_mark(const struct edit *ed, size_t at)
{
    uint32_t cp;
    size_t n = utf8_decode(str_from(buf_str(&ed->text), at), &cp);
    return n != 0 && cp != '\n' && cp != '\t' && utf8_char_width(cp) == 0;
}

static size_t left_of(const struct edit *ed, size_t at)
{
    do {
        at = before(ed, at);
    } while (at > 0 && is_mark(ed, at));
    return at;
}

static size_t right_of(const struct edit *ed, size_t at)
{
    do {
        at = behind(ed, at);
    } while (is_mark(ed, at));
    return at;
}

static size_t line_start(const struct edit *ed, size_t at)
{
    while (at > 0 && ed->text.p[at - 1] != '\n') {
        at--;
    }
    return at;
}

static size_t line_end(const struct edit *ed, size_t at)
{
    while (at < ed->text.n && ed->text.p[at] != '\n') {
        at++;
    }
    return at;
}

static bool is_blank(const struct edit *ed, size_t at)
{
    return strchr(" \t\n", ed->text.p[at]) != NULL;
}

static size_t word_left(const struct edit *ed)
{
    size_t at = ed->at;
    while (at > 0 && is_blank(ed, at - 1)) {
        at--;
    }
    while (at > 0 && !is_blank(ed, at - 1)) {
        at--;
    }
    return at;
}

static size_t word_right(const struct edit *ed)
{
    size_t at = ed->at;
    while (at < ed->text.n && is_blank(ed, at)) {
        at++;
    }
    while (at < ed->text.n && !is_blank(ed, at)) {
        at++;
    }
    return at;
}

// ---- changing ------------------------------------------------------------------------------

static void insert(struct edit *ed, struct str s)
{
    if (s.n == 0 || buf_reserve(&ed->text, s.n) == NULL) {
        return;
    }
    char *to = ed->text.p + ed->at;
    memmove(to + s.n, to, ed->text.n - ed->at);
    memcpy(to, s.p, s.n);
    buf_grow(&ed->text, s.n);
    ed->at += s.n;
}

static void erase(struct edit *ed, size_t from, size_t to)
{
    if (from < to) {
        memmove(ed->text.p + from, ed->text.p + to, ed->text.n - to);
        buf_cut(&ed->text, ed->text.n - (to - from));
        ed->at = from;
    }
}

static void take_out(struct edit *ed, size_t from, size_t to)
{
    if (from < to) {
        buf_clear(&ed->killed);
        buf_add(&ed->killed, ed->text.p + from, to - from);
        erase(ed, from, to);
    }
}

static void show(struct edit *ed, struct str s)
{
    buf_clear(&ed->text);
    ed->at = 0;
    insert(ed, s);
}

static void show_history(struct edit *ed, size_t i)
{
    if (ed->shown == ed->history.n) {
        buf_clear(&ed->draft);
        buf_adds(&ed->draft, buf_str(&ed->text));
    }
    ed->shown = i;
    show(ed, i == ed->history.n ? buf_str(&ed->draft) : str_of(ed->history.p[i]));
}

// ---- keys ----------------------------------------------------------------------------------

typedef enum edit_result key_fn(struct edit *ed);

static enum edit_result key_left(struct edit *ed)
{
    ed->at = left_of(ed, ed->at);
    return EDIT_MORE;
}

static enum edit_result key_right(struct edit *ed)
{
    ed->at = right_of(ed, ed->at);
    return EDIT_MORE;
}

static enum edit_result key_home(struct edit *ed)
{
    ed->at = line_start(ed, ed->at);
    return EDIT_MORE;
}

static enum edit_result key_end(struct edit *ed)
{
    ed->at = line_end(ed, ed->at);
    return EDIT_MORE;
}

static enum edit_result key_word_left(struct edit *ed)
{
    ed->at = word_left(ed);
    return EDIT_MORE;
}

static enum edit_result key_word_right(struct edit *ed)
{
    ed->at = word_right(ed);
    return EDIT_MORE;
}

// From one line of the text to the next; from the first one into the history.
static enum edit_result key_up(struct edit *ed)
{
    size_t start = line_start(ed, ed->at), column = ed->at - start;
    if (start > 0) {
        size_t above = line_start(ed, start - 1);
        ed->at = above + utf8_cut(ed->text.p + above, start - 1 - above, column);
    } else if (ed->shown > 0) {
        show_history(ed, ed->shown - 1);
    }
    return EDIT_MORE;
}

static enum edit_result key_down(struct edit *ed)
{
    size_t column = ed->at - line_start(ed, ed->at), end = line_end(ed, ed->at);
    if (end < ed->text.n) {
        size_t below = end + 1;
        ed->at = below + utf8_cut(ed->text.p + below, line_end(ed, below) - below, column);
    } else if (ed->shown < ed->history.n) {
        show_history(ed, ed->shown + 1);
    }
    return EDIT_MORE;
}

static enum edit_result key_backspace(struct edit *ed)
{
    erase(ed, before(ed, ed->at), ed->at);
    return EDIT_MORE;
}

static enum edit_result key_delete(struct edit *ed)
{
    size_t at = ed->at;
    erase(ed, at, right_of(ed, at));
    return EDIT_MORE;
}

static enum edit_result key_delete_or_end(struct edit *ed)
{
    return ed->text.n == 0 ? EDIT_END : key_delete(ed);
}

static enum edit_result key_kill_back(struct edit *ed)
{
    take_out(ed, line_start(ed, ed->at), ed->at);
    return EDIT_MORE;
}

static enum edit_result key_kill(struct edit *ed)
{
    take_out(ed, ed->at, line_end(ed, ed->at));
    return EDIT_MORE;
}

static enum edit_result key_kill_word(struct edit *ed)
{
    take_out(ed, word_left(ed), ed->at);
    return EDIT_MORE;
}

static enum edit_result key_yank(struct edit *ed)
{
    insert(ed, buf_str(&ed->killed));
    return EDIT_MORE;
}

static enum edit_result key_new_line(struct edit *ed)
{
    insert(ed, STR("\n"));
    return EDIT_MORE;
}

static enum edit_result key_tab(struct edit *ed)
{
    insert(ed, STR("\t"));
    return EDIT_MORE;
}

static enum edit_result key_enter(struct edit *ed)
{
    ed->at = ed->text.n;
    return EDIT_DONE;
}

static enum edit_result key_interrupt(struct edit *ed)
{
    ed->at = ed->text.n;
    return EDIT_INTERRUPT;
}

static enum edit_result key_suspend(struct edit *ed)
{
    ed->at = ed->text.n;
    return EDIT_SUSPEND;
}

static enum edit_result key_clear(struct edit *ed)
{
    ed->row = 0;
    return EDIT_CLEAR;
}

static enum edit_result key_paste(struct edit *ed)
{
    ed->pasting = true;
    return EDIT_MORE;
}

// clang-format off
static const struct key {
    const char *bytes;
    key_fn *run;
} keys[] = {
    {"\r", key_enter},           {"\n", key_enter},            {"\x01", key_home},
    {"\x05", key_end},           {"\x02", key_left},           {"\x06", key_right},
    {"\x04", key_delete_or_end}, {"\x08", key_backspace},      {"\x7f", key_backspace},
    {"\x0b", key_kill},          {"\x15", key_kill_back},      {"\x17", key_kill_word},
    {"\x19", key_yank},          {"\x0c", key_clear},          {"\x10", key_up},
    {"\x0e", key_down},          {"\x03", key_interrupt},      {"\x1a", key_suspend},
    {"\t", key_tab},
    {"\x1b[A", key_up},          {"\x1b[B", key_down},         {"\x1b[C", key_right},
    {"\x1b[D", key_left},        {"\x1b[H", key_home},         {"\x1b[F", key_end},
    {"\x1bOA", key_up},          {"\x1bOB", key_down},         {"\x1bOC", key_right},
    {"\x1bOD", key_left},        {"\x1bOH", key_home},         {"\x1bOF", key_end},
    {"\x1b[1~", key_home},       {"\x1b[7~", key_home},        {"\x1b[4~", key_end},
    {"\x1b[8~", key_end},        {"\x1b[3~", key_delete},      {"\x1b[200~", key_paste},
    {"\x1b[1;5C", key_word_right}, {"\x1b[1;3C", key_word_right}, {"\x1b" "f", key_word_right},
    {"\x1b[1;5D", key_word_left},  {"\x1b[1;3D", key_word_left},  {"\x1b" "b", key_word_left},
    {"\x1b\x7f", key_kill_word}, {"\x1b\r", key_new_line},     {"\x1b\n", key_new_line},
};
// clang-format on

static const char paste_end[] = "\x1b[201~";

static enum edit_result press(struct edit *ed, struct str bytes)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (str_eqz(bytes, keys[i].bytes)) {
            return keys[i].run(ed);
        }
    }
    return EDIT_MORE; // a key we have no use for
}

// ---- bytes ---------------------------------------------------------------------------------

static size_t length_of(unsigned char lead)
{
    return lead < 0xC0 || lead >= 0xF8 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

static bool is_final(char c)
{
    return c >= 0x40 && c <= 0x7E;
}

// True when the bytes in hand are a whole key or character.
static bool is_whole(const char *p, size_t n)
{
    if (p[0] != '\x1b') {
        return n == length_of((unsigned char)p[0]);
    }
    if (n == 1) {
        return false;
    }
    if (p[1] == '[') {
        return n > 2 && is_final(p[n - 1]);
    }
    return p[1] == 'O' ? n == 3 : n == 1 + length_of((unsigned char)p[1]);
}

// A character that is not finished, and a byte that cannot be part of it.
static bool breaks_off(const struct edit *ed, char next)
{
    return ed->n_pending != 0 && (unsigned char)ed->pending[0] >= 0xC0 &&
           ((unsigned char)next & 0xC0) != 0x80;
}

static bool is_printable(struct str s)
{
    uint32_t cp;
    return utf8_valid(s) && utf8_decode(s, &cp) == s.n && cp >= 0x20 && (cp < 0x7F || cp >= 0xA0);
}

// In a paste, Enter and Tab are characters and every other control is dropped.
static void paste(struct edit *ed, struct str one)
{
    if (str_eqz(one, paste_end)) {
        ed->pasting = false;
    } else if (str_eqz(one, "\r") || str_eqz(one, "\n")) {
        insert(ed, STR("\n"));
    } else if (str_eqz(one, "\t") || is_printable(one)) {
        insert(ed, one);
    }
}

static enum edit_result take(struct edit *ed, struct str one)
{
    if (ed->pasting) {
        paste(ed, one);
        return EDIT_MORE;
    }
    if (is_printable(one)) {
        insert(ed, one);
        return EDIT_MORE;
    }
    return press(ed, one);
}

// ---- where things stand --------------------------------------------------------------------

struct place {
    size_t row, col;
};

// One character further; `*cp` is what it was. A tab is blanks, as many as the row has room for.
static size_t step(struct str s, struct place *p, size_t indent, size_t cols, uint32_t *cp)
{
    size_t n = utf8_decode(s, cp);
    if (*cp == '\n') {
        *p = (struct place){p->row + 1, indent};
        return n;
    }
    size_t width = *cp == '\t' ? 1 : (size_t)utf8_char_width(*cp);
    if (p->col + width > cols) {
        *p = (struct place){p->row + 1, 0};
    }
    p->col += *cp == '\t' ? MIN((size_t)TAB_WIDTH, cols - p->col) : width;
    return n;
}

static size_t indent_of(const struct edit *ed, size_t cols)
{
    return utf8_width(str_of(ed->prompt)) % cols;
}

// Where the cursor stands when it is at byte `at`: behind a full row it is on the next.
static struct place place_of(const struct edit *ed, size_t at, size_t cols)
{
    size_t indent = indent_of(ed, cols);
    struct place p = {0, indent};
    for (size_t i = 0; i < at;) {
        uint32_t cp;
        i += step(str_from(buf_str(&ed->text), i), &p, indent, cols, &cp);
    }
    return p.col >= cols ? (struct place){p.row + 1, 0} : p;
}

// ---- drawing -------------------------------------------------------------------------------

static void draw_one(struct buf *out, struct str one, uint32_t cp, size_t width, bool first_row)
{
    if (cp == '\n') {
        buf_addf(out, "%s%*s", first_row ? "" : "\r\n", (int)width, "");
    } else if (cp == '\t') {
        buf_addf(out, "%*s", (int)width, "");
    } else {
        buf_adds(out, one);
    }
}

// The rows from `top` to before `bottom`; returns the row on which the terminal's cursor then stands.
static size_t draw_text(const struct edit *ed, struct buf *out, size_t top, size_t bottom,
                        size_t cols)
{
    size_t indent = indent_of(ed, cols);
    struct place p = {0, indent};
    buf_addz(out, top == 0 ? ed->prompt : "");
    for (size_t i = 0; i < ed->text.n && p.row < bottom;) {
        struct str rest = str_from(buf_str(&ed->text), i);
        struct place was = p;
        uint32_t cp;
        size_t n = step(rest, &p, indent, cols, &cp);
        if (p.row >= top && p.row < bottom) {
            size_t width = cp == '\n' || p.row > was.row ? p.col : p.col - was.col;
            draw_one(out, (struct str){rest.p, n}, cp, width, was.row < top);
        }
        i += n;
    }
    if (p.row < bottom && p.col >= cols && p.row + 1 < bottom) {
        buf_addz(out, " \r"); // the cursor hangs at the edge: bring it over
        return p.row + 1;
    }
    return MIN(p.row, bottom - 1);
}

// ---- public --------------------------------------------------------------------------------

void edit_init(struct edit *ed, const char *prompt)
{
    *ed = (struct edit){.prompt = prompt};
    buf_init(&ed->text, TEXT_MAX);
    buf_init(&ed->killed, TEXT_MAX);
    buf_init(&ed->draft, TEXT_MAX);
}

void edit_fini(struct edit *ed)
{
    vec_foreach (line, &ed->history) {
        free(*line);
    }
    vec_fini(&ed->history);
    buf_fini(&ed->text);
    buf_fini(&ed->killed);
    buf_fini(&ed->draft);
}

void edit_start(struct edit *ed)
{
    buf_clear(&ed->text);
    ed->at = ed->row = ed->n_pending = 0;
    ed->pasting = false;
    ed->shown = ed->history.n;
}

void edit_remember(struct edit *ed, struct str line)
{
    if (line.n == 0 || (ed->history.n != 0 && str_eqz(line, *vec_last(&ed->history)))) {
        return;
    }
    if (ed->history.n == HISTORY_MAX) {
        free(ed->history.p[0]);
        vec_remove(&ed->history, 0);
    }
    vec_push(&ed->history, str_dup(line));
    ed->shown = ed->history.n;
}

enum edit_result edit_feed(struct edit *ed, struct str *bytes)
{
    enum edit_result r = EDIT_MORE;
    while (r == EDIT_MORE && bytes->n != 0) {
        if (breaks_off(ed, bytes->p[0])) {
            ed->n_pending = 0;
        }
        ed->pending[ed->n_pending++] = bytes->p[0];
        *bytes = str_from(*bytes, 1);
        if (is_whole(ed->pending, ed->n_pending)) {
            struct str one = {ed->pending, ed->n_pending};
            ed->n_pending = 0;
            r = take(ed, one);
        } else if (ed->n_pending == sizeof ed->pending) {
            ed->n_pending = 0; // no key is that long
        }
    }
    return r;
}

struct str edit_text(const struct edit *ed)
{
    return buf_str(&ed->text);
}

void edit_draw(struct edit *ed, struct buf *out, size_t rows, size_t cols)
{
    struct place cursor = place_of(ed, ed->at, cols);
    size_t top = cursor.row >= rows ? cursor.row - rows + 1 : 0; // a text that outgrows the window
    buf_addf(out, ed->row > 0 ? "\r\033[%zuA\033[J" : "\r\033[J", ed->row);
    size_t end = draw_text(ed, out, top, top + rows, cols);
    if (end > cursor.row) {
        buf_addf(out, "\033[%zuA", end - cursor.row);
    }
    buf_addz(out, "\r");
    if (cursor.col > 0) {
        buf_addf(out, "\033[%zuC", cursor.col);
    }
    ed->row = cursor.row - top;
}

void edit_resized(struct edit *ed, size_t cols)
{
    ed->row = place_of(ed, ed->at, cols).row;
}

void edit_leave(struct edit *ed, struct buf *out, size_t rows, size_t cols)
{
    ed->at = ed->text.n;
    edit_draw(ed, out, rows, cols);
    buf_addz(out, "\r\n");
    ed->row = 0;
}
