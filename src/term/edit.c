// The editor of texts.
//
//     key ── table ──> text, cursor, history, undo          edit_lines() ──> rows, see edit_rows.c
//
// The text may have several lines: Alt-Enter, Shift-Enter or a '\' before Enter begins one, and in a
// paste a line feed is not Enter.
//
// Undo keeps the text as it was before each run of changes of one kind, bounded in bytes. Ctrl-R shows
// the newest entry of the history that holds what is typed; any other key takes it over.
//
// Invariants:
//   - `at` is never inside a cluster, and the text is valid UTF-8 without control characters but line
//     feed and tab: nothing pasted, remembered or completed can command the terminal.
//   - while `searching`, `draft` holds the text from before.

#include "term/edit.h"

#include <assert.h>

#include "base/utf8.h"
#include "term/text.h"

enum { TEXT_MAX = 8 << 20, HISTORY_MAX = 1000, PAST_MAX = 16 << 20 };

enum change { CHANGE_NONE, CHANGE_TYPE, CHANGE_ERASE, CHANGE_PASTE, CHANGE_OTHER };

// ---- moving --------------------------------------------------------------------------------

static size_t right_of(const struct edit *ed, size_t at)
{
    size_t width;
    return at + text_cluster(str_from(buf_str(&ed->text), at), &width);
}

static size_t line_start(const struct edit *ed, size_t at)
{
    assert(at <= ed->text.n);
    const char *before = at > 0 ? memrchr(ed->text.p, '\n', at) : NULL;
    return before != NULL ? (size_t)(before - ed->text.p) + 1 : 0;
}

static size_t line_end(const struct edit *ed, size_t at)
{
    assert(at <= ed->text.n);
    struct str rest = str_from(buf_str(&ed->text), at);
    ptrdiff_t n = str_index(rest, '\n');
    return at + (n < 0 ? rest.n : (size_t)n);
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

// The place in the line [from, to) that is as far to the right as the cursor is in its own.
static size_t same_column(const struct edit *ed, size_t from, size_t to)
{
    size_t start = line_start(ed, ed->at);
    struct str left = {ed->text.p + start, ed->at - start}, line = {ed->text.p + from, to - from};
    return from + text_fit(line, text_width(left), NULL);
}

// ---- changing ------------------------------------------------------------------------------

// Before a change: keep the text, unless the change continues the last one.
static void keep(struct edit *ed, enum change change)
{
    if (change != ed->change || change == CHANGE_OTHER) {
        struct edit_past p = {str_dup(edit_text(ed)), ed->text.n, ed->at};
        vec_push(&ed->past, p);
        ed->past_bytes += p.n;
        while (ed->past.n > 1 && (ed->past_bytes > PAST_MAX || ed->past.n > HISTORY_MAX)) {
            ed->past_bytes -= ed->past.p[0].n;
            free(ed->past.p[0].text);
            vec_remove(&ed->past, 0);
        }
    }
    ed->change = change;
}

static bool is_printable(uint32_t cp)
{
    return cp >= 0x20 && (cp < 0x7F || cp >= 0xA0);
}

// Line ends and tabs are characters; every other control is dropped, and so is what is no UTF-8.
static void add_clean(struct buf *out, struct str text)
{
    while (text.n != 0) {
        uint32_t cp;
        size_t n = utf8_decode(text, &cp);
        if (cp == '\r' || cp == '\n') {
            buf_addc(out, '\n');
        } else if (cp == '\t' || (is_printable(cp) && (cp != 0xFFFD || n == 3))) {
            buf_add(out, text.p, n);
        }
        text = str_from(text, n);
    }
}

// All text comes in here: typed, pasted, completed, or out of the history, which others may have said.
static void insert(struct edit *ed, struct str s)
{
    struct buf clean = {.max = SIZE_MAX};
    add_clean(&clean, s);
    if (clean.n != 0 && buf_reserve(&ed->text, clean.n) != NULL) {
        char *to = ed->text.p + ed->at;
        memmove(to + clean.n, to, ed->text.n - ed->at);
        memcpy(to, clean.p, clean.n);
        buf_grow(&ed->text, clean.n);
        ed->at += clean.n;
    }
    assert(ed->at <= ed->text.n);
    buf_fini(&clean);
}

static void erase(struct edit *ed, size_t from, size_t to)
{
    assert(from <= to && to <= ed->text.n);
    if (from < to) {
        memmove(ed->text.p + from, ed->text.p + to, ed->text.n - to);
        buf_cut(&ed->text, ed->text.n - (to - from));
        ed->text.over = false; // a paste that was too long has ended: there is room again
        ed->at = from;
    }
}

static void take_out(struct edit *ed, size_t from, size_t to)
{
    if (from < to) {
        keep(ed, CHANGE_OTHER);
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

// ---- history -------------------------------------------------------------------------------

static void keep_draft(struct edit *ed)
{
    buf_clear(&ed->draft);
    buf_adds(&ed->draft, edit_text(ed));
}

static void show_history(struct edit *ed, size_t i)
{
    assert(i <= ed->history.n);
    if (ed->shown == ed->history.n) {
        keep_draft(ed);
    }
    ed->shown = i;
    ed->change = CHANGE_NONE;
    show(ed, i == ed->history.n ? buf_str(&ed->draft) : str_of(ed->history.p[i]));
}

// The newest entry before `end` that holds the query; what is shown stays when there is none.
static void search(struct edit *ed, size_t end)
{
    ed->found = ed->history.n;
    for (size_t i = end; i-- > 0 && ed->found == ed->history.n;) {
        if (strstr(ed->history.p[i], buf_z(&ed->query)) != NULL) {
            ed->found = i;
            show(ed, str_of(ed->history.p[i]));
        }
    }
}

static enum edit_result key_search(struct edit *ed)
{
    keep(ed, CHANGE_OTHER);
    keep_draft(ed);
    buf_clear(&ed->query);
    ed->searching = true;
    ed->found = ed->history.n;
    return EDIT_MORE;
}

// True when the key belonged to the search; any other key ends it and has its usual effect.
static bool search_key(struct edit *ed, const struct key *k)
{
    char bytes[4];
    bool ctrl = k->code == KEY_CHAR && k->mods == KEY_CTRL;
    if (k->code == KEY_CHAR && (k->mods & ~(unsigned)KEY_SHIFT) == 0) {
        buf_add(&ed->query, bytes, utf8_encode(k->cp, bytes));
        search(ed, ed->history.n);
    } else if (k->code == KEY_BACKSPACE) {
        buf_cut(&ed->query, text_before(buf_str(&ed->query), ed->query.n));
        search(ed, ed->history.n);
    } else if (ctrl && k->cp == 'r') {
        search(ed, ed->found);
    } else if (k->code == KEY_ESC || (ctrl && k->cp == 'g')) {
        ed->searching = false;
        show(ed, buf_str(&ed->draft));
    } else if (k->code < KEY_PASTE) {
        ed->searching = false;
        return false;
    }
    return true;
}

// ---- keys ----------------------------------------------------------------------------------

typedef enum edit_result key_fn(struct edit *ed);

static enum edit_result move_to(struct edit *ed, size_t at)
{
    assert(at <= ed->text.n);
    ed->at = at;
    ed->change = CHANGE_NONE;
    return EDIT_MORE;
}

static enum edit_result key_left(struct edit *ed)
{
    return move_to(ed, text_before(edit_text(ed), ed->at));
}

static enum edit_result key_right(struct edit *ed)
{
    return move_to(ed, right_of(ed, ed->at));
}

static enum edit_result key_home(struct edit *ed)
{
    return move_to(ed, line_start(ed, ed->at));
}

static enum edit_result key_end(struct edit *ed)
{
    return move_to(ed, line_end(ed, ed->at));
}

static enum edit_result key_first(struct edit *ed)
{
    return move_to(ed, 0);
}

static enum edit_result key_last(struct edit *ed)
{
    return move_to(ed, ed->text.n);
}

static enum edit_result key_word_left(struct edit *ed)
{
    return move_to(ed, word_left(ed));
}

static enum edit_result key_word_right(struct edit *ed)
{
    return move_to(ed, word_right(ed));
}

// From one line of the text to the next; from the first one into the history.
static enum edit_result key_up(struct edit *ed)
{
    size_t start = line_start(ed, ed->at);
    if (start > 0) {
        return move_to(ed, same_column(ed, line_start(ed, start - 1), start - 1));
    }
    if (ed->shown > 0) {
        show_history(ed, ed->shown - 1);
    }
    return EDIT_MORE;
}

static enum edit_result key_down(struct edit *ed)
{
    size_t end = line_end(ed, ed->at);
    if (end < ed->text.n) {
        return move_to(ed, same_column(ed, end + 1, line_end(ed, end + 1)));
    }
    if (ed->shown < ed->history.n) {
        show_history(ed, ed->shown + 1);
    }
    return EDIT_MORE;
}

static enum edit_result key_backspace(struct edit *ed)
{
    keep(ed, CHANGE_ERASE);
    erase(ed, text_before(edit_text(ed), ed->at), ed->at);
    return EDIT_MORE;
}

static enum edit_result key_delete(struct edit *ed)
{
    size_t at = ed->at;
    keep(ed, CHANGE_ERASE);
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

static enum edit_result key_kill_next_word(struct edit *ed)
{
    take_out(ed, ed->at, word_right(ed));
    return EDIT_MORE;
}

static enum edit_result key_yank(struct edit *ed)
{
    keep(ed, CHANGE_OTHER);
    insert(ed, buf_str(&ed->killed));
    return EDIT_MORE;
}

static enum edit_result key_undo(struct edit *ed)
{
    if (ed->past.n != 0) {
        struct edit_past p = vec_pop(&ed->past);
        show(ed, (struct str){p.text, p.n});
        ed->at = p.at;
        ed->past_bytes -= p.n;
        free(p.text);
    }
    ed->change = CHANGE_NONE;
    return EDIT_MORE;
}

static enum edit_result key_new_line(struct edit *ed)
{
    keep(ed, CHANGE_OTHER);
    insert(ed, STR("\n"));
    return EDIT_MORE;
}

static enum edit_result key_enter(struct edit *ed)
{
    if (ed->at > 0 && ed->text.p[ed->at - 1] == '\\') {
        keep(ed, CHANGE_OTHER);
        erase(ed, ed->at - 1, ed->at);
        insert(ed, STR("\n"));
        return EDIT_MORE;
    }
    ed->at = ed->text.n;
    return EDIT_DONE;
}

static enum edit_result key_complete(struct edit *ed)
{
    (void)ed;
    return EDIT_COMPLETE;
}

static enum edit_result key_interrupt(struct edit *ed)
{
    (void)ed;
    return EDIT_INTERRUPT;
}

static enum edit_result key_suspend(struct edit *ed)
{
    (void)ed;
    return EDIT_SUSPEND;
}

static enum edit_result key_clear(struct edit *ed)
{
    (void)ed;
    return EDIT_CLEAR;
}

// clang-format off
static const struct {
    enum key_code code;
    unsigned mods;
    uint32_t cp; // of KEY_CHAR
    key_fn *run;
} keys[] = {
    {KEY_ENTER, 0, 0, key_enter},          {KEY_ENTER, KEY_ALT, 0, key_new_line},
    {KEY_ENTER, KEY_SHIFT, 0, key_new_line}, {KEY_TAB, 0, 0, key_complete},
    {KEY_LEFT, 0, 0, key_left},            {KEY_RIGHT, 0, 0, key_right},
    {KEY_UP, 0, 0, key_up},                {KEY_DOWN, 0, 0, key_down},
    {KEY_HOME, 0, 0, key_home},            {KEY_END, 0, 0, key_end},
    {KEY_HOME, KEY_CTRL, 0, key_first},    {KEY_END, KEY_CTRL, 0, key_last},
    {KEY_LEFT, KEY_CTRL, 0, key_word_left},  {KEY_RIGHT, KEY_CTRL, 0, key_word_right},
    {KEY_LEFT, KEY_ALT, 0, key_word_left},   {KEY_RIGHT, KEY_ALT, 0, key_word_right},
    {KEY_BACKSPACE, 0, 0, key_backspace},  {KEY_BACKSPACE, KEY_ALT, 0, key_kill_word},
    {KEY_BACKSPACE, KEY_CTRL, 0, key_kill_word}, {KEY_DELETE, 0, 0, key_delete},
    {KEY_DELETE, KEY_CTRL, 0, key_kill_next_word},
    {KEY_CHAR, KEY_ALT, 'b', key_word_left}, {KEY_CHAR, KEY_ALT, 'f', key_word_right},
    {KEY_CHAR, KEY_ALT, 'd', key_kill_next_word},
    {KEY_CHAR, KEY_ALT, '<', key_first},   {KEY_CHAR, KEY_ALT, '>', key_last},
    {KEY_CHAR, KEY_CTRL, 'a', key_home},   {KEY_CHAR, KEY_CTRL, 'e', key_end},
    {KEY_CHAR, KEY_CTRL, 'b', key_left},   {KEY_CHAR, KEY_CTRL, 'f', key_right},
    {KEY_CHAR, KEY_CTRL, 'p', key_up},     {KEY_CHAR, KEY_CTRL, 'n', key_down},
    {KEY_CHAR, KEY_CTRL, 'd', key_delete_or_end}, {KEY_CHAR, KEY_CTRL, 'h', key_backspace},
    {KEY_CHAR, KEY_CTRL, 'k', key_kill},   {KEY_CHAR, KEY_CTRL, 'u', key_kill_back},
    {KEY_CHAR, KEY_CTRL, 'w', key_kill_word}, {KEY_CHAR, KEY_CTRL, 'y', key_yank},
    {KEY_CHAR, KEY_CTRL, '_', key_undo},   {KEY_CHAR, KEY_CTRL, '/', key_undo},
    {KEY_CHAR, KEY_CTRL, 'r', key_search}, {KEY_CHAR, KEY_CTRL, 'l', key_clear},
    {KEY_CHAR, KEY_CTRL, 'c', key_interrupt}, {KEY_CHAR, KEY_CTRL, 'z', key_suspend},
};
// clang-format on

// ---- public --------------------------------------------------------------------------------

void edit_init(struct edit *ed)
{
    *ed = (struct edit){0};
    buf_init(&ed->text, TEXT_MAX);
    buf_init(&ed->killed, TEXT_MAX);
    buf_init(&ed->draft, TEXT_MAX);
    buf_init(&ed->query, TEXT_MAX);
}

void edit_fini(struct edit *ed)
{
    edit_start(ed);
    vec_foreach (line, &ed->history) {
        free(*line);
    }
    vec_fini(&ed->history);
    vec_fini(&ed->past);
    buf_fini(&ed->text);
    buf_fini(&ed->killed);
    buf_fini(&ed->draft);
    buf_fini(&ed->query);
}

void edit_start(struct edit *ed)
{
    while (ed->past.n != 0) {
        free(vec_pop(&ed->past).text);
    }
    buf_clear(&ed->text);
    ed->at = ed->past_bytes = 0;
    ed->change = CHANGE_NONE;
    ed->searching = false;
    ed->shown = ed->history.n;
}

bool edit_remember(struct edit *ed, struct str text)
{
    if (text.n == 0 || (ed->history.n != 0 && str_eqz(text, *vec_last(&ed->history)))) {
        return false;
    }
    if (ed->history.n == HISTORY_MAX) {
        free(ed->history.p[0]);
        vec_remove(&ed->history, 0);
    }
    vec_push(&ed->history, str_dup(text));
    ed->shown = ed->history.n;
    return true;
}

enum edit_result edit_key(struct edit *ed, const struct key *k)
{
    if (ed->searching && search_key(ed, k)) {
        return EDIT_MORE;
    }
    if (k->code == KEY_PASTE) {
        keep(ed, CHANGE_PASTE);
        insert(ed, k->text);
        return EDIT_MORE;
    }
    if (k->code == KEY_CHAR && (k->mods & ~(unsigned)KEY_SHIFT) == 0) {
        char bytes[4];
        keep(ed, CHANGE_TYPE);
        insert(ed, (struct str){bytes, utf8_encode(k->cp, bytes)});
        return EDIT_MORE;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (keys[i].code == k->code && keys[i].mods == k->mods &&
            (k->code != KEY_CHAR || keys[i].cp == k->cp)) {
            return keys[i].run(ed);
        }
    }
    return EDIT_UNUSED;
}

struct str edit_text(const struct edit *ed)
{
    return buf_str(&ed->text);
}

void edit_replace(struct edit *ed, size_t from, struct str s)
{
    keep(ed, CHANGE_OTHER);
    erase(ed, from, ed->at);
    insert(ed, s);
}
