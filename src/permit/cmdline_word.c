// Read words: quotes, expansions, and the substitutions in them.
//
// A substitution $(...) has the grammar of a whole line: its end is where the grammar ends it, not at the first
// bracket, which may stand in a comment or a here-document. So it is read in place, by a reader of its own
// that stops at its bracket. ${...} and arithmetic hold commands in their expansions only (read_part).
//
// bash itself reads some parts in one way to find their end and in another to expand them, such as '...' in
// "${A:-'...'}". Where the two could differ the line is broken.

#include "permit/cmdline_int.h"

static size_t skip_joins(struct str s, size_t at)
{
    while (at + 1 < s.n && s.p[at] == '\\' && s.p[at + 1] == '\n') {
        at += 2;
    }
    return at;
}

static void settle(struct reader *r)
{
    r->at = skip_joins(r->s, r->at);
}

/// A byte as it is in the text, for quotes, where nothing is removed.
static char raw(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->s.n ? r->s.p[r->at + ahead] : '\0';
}

char cmdline__peek(const struct reader *r, unsigned ahead)
{
    size_t at = skip_joins(r->s, r->at);
    for (; ahead != 0 && at < r->s.n; ahead--) {
        at = skip_joins(r->s, at + 1);
    }
    return at < r->s.n ? r->s.p[at] : '\0';
}

bool cmdline__more(const struct reader *r)
{
    return skip_joins(r->s, r->at) < r->s.n;
}

void cmdline__step(struct reader *r)
{
    r->at = MIN(skip_joins(r->s, r->at) + 1, r->s.n);
}

void cmdline__skip_blanks(struct reader *r)
{
    while (cmdline__peek(r, 0) == ' ' || cmdline__peek(r, 0) == '\t') {
        cmdline__step(r);
    }
    settle(r);
}

bool cmdline__is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

bool cmdline__ends_word(char c)
{
    return c == '\0' || strchr(" \t\n;&|<>()", c) != NULL;
}

bool cmdline__at_process(const struct reader *r)
{
    char c = cmdline__peek(r, 0);
    return (c == '<' || c == '>') && cmdline__peek(r, 1) == '(';
}

void cmdline__break(struct reader *r)
{
    r->found->flags |= CMD_BROKEN;
}

bool cmdline__afford(struct reader *r, size_t n)
{
    struct found *f = r->found;
    bool can = n <= f->spare;
    f->spare = can ? f->spare - n : 0;
    f->flags |= can ? 0 : (unsigned)CMD_BROKEN;
    return can;
}

// ---- parts --------------------------------------------------------------------------------------

static void read_dollar(struct reader *r, struct cmd_word *w, struct buf *text, bool quoted);
static void read_double_quoted(struct reader *r, struct cmd_word *w, struct buf *text);

/// `at` is on what closes a part, or at the end, where the part is not closed.
static void close_part(struct reader *r)
{
    if (!cmdline__more(r)) {
        cmdline__break(r);
    }
    cmdline__step(r);
}

/// A part inside a part begins. One that is too deep is not read, nor is what follows it.
static void enter(struct reader *r)
{
    if (++r->depth > CMDLINE__DEPTH_MAX) {
        cmdline__break(r);
        r->at = r->s.n;
    }
}

static void read_single_quoted(struct reader *r, struct buf *text)
{
    settle(r);
    struct str rest = str_from(r->s, r->at + 1);
    ptrdiff_t end = str_index(rest, '\'');
    if (end < 0) {
        cmdline__break(r);
    }
    size_t n = end < 0 ? rest.n : (size_t)end;
    buf_add(text, rest.p, n);
    r->at = MIN(r->at + n + 2, r->s.n);
}

/// A ' inside "${...}" or arithmetic, where it quotes for some operators only.
static void read_doubtful_quote(struct reader *r)
{
    settle(r);
    size_t end = r->at + 1;
    while (end < r->s.n && r->s.p[end] != '\0' && strchr("'\"\\`${}()[]", r->s.p[end]) == NULL) {
        end++;
    }
    if (end < r->s.n && r->s.p[end] == '\'') {
        r->at = end + 1; // the same in both ways
    } else {
        cmdline__break(r);
        r->at++;
    }
}

/// `at` is after the opening bracket of a command.
static void read_command(struct reader *r)
{
    struct reader inner = {
        .found = r->found, .s = r->s, .at = r->at, .depth = r->depth, .close = ')'};
    r->found->flags |= CMD_SUBSTITUTES;
    enter(&inner);
    cmdline__read_level(&inner);
    r->at = inner.at;
    close_part(r);
}

/// `...`: backslashes before some bytes are removed before the shell reads it. `sure` is false where it depends
/// on more than that whether `\"` is one of them.
static void read_backticks(struct reader *r, struct cmd_word *w, struct buf *text, bool quoted,
                           bool sure)
{
    struct buf inner = {.max = SIZE_MAX};
    settle(r);
    size_t start = r->at++;
    for (char c; cmdline__more(r) && (c = cmdline__peek(r, 0)) != '`';) {
        settle(r);
        char next = raw(r, 1);
        bool escape = c == '\\' && next != '\0';
        bool removed = escape && (strchr("$`\\", next) != NULL || (next == '"' && quoted));
        if (escape && next == '"' && !sure) {
            cmdline__break(r);
        }
        if (!removed) {
            buf_addc(&inner, c);
        }
        if (escape) {
            buf_addc(&inner, next);
        }
        r->at += escape ? 2 : 1;
    }
    close_part(r);
    w->dynamic = true;
    buf_add(text, r->s.p + start, r->at - start);
    r->found->flags |= CMD_SUBSTITUTES;
    cmdline__read_text(r->found, arena_str(r->found->arena, buf_str(&inner)), r->depth + 1);
    buf_fini(&inner);
}

/// <(...) or >(...): stands for the name of a file.
static void read_process(struct reader *r, struct cmd_word *w, struct buf *text)
{
    cmdline__step(r);
    cmdline__step(r);
    read_command(r);
    w->dynamic = true;
    buf_addz(text, "/dev/fd");
}

/// Text that holds commands in its expansions only, up to `close` (NUL: to the end), which stays. `quoted`: it is
/// expanded as if in double quotes. True: there are expansions.
static bool read_part(struct reader *r, char open, char close, bool quoted)
{
    struct cmd_word w = {0};
    struct buf text = {.max = SIZE_MAX}; // nobody asks for it
    unsigned nested = 0;
    while (cmdline__more(r)) {
        char c = cmdline__peek(r, 0);
        if (close != '\0' && c == close && nested-- == 0) {
            break;
        } else if (c == '\\') {
            settle(r);
            r->at = MIN(r->at + 2, r->s.n);
        } else if (c == '$') {
            read_dollar(r, &w, &text, quoted);
        } else if (c == '`') {
            read_backticks(r, &w, &text, quoted, !quoted);
        } else if (c == '"' && close != '\0') {
            read_double_quoted(r, &w, &text);
        } else if (c == '\'' && close != '\0') {
            quoted ? read_doubtful_quote(r) : read_single_quoted(r, &text);
        } else if (!quoted && cmdline__at_process(r)) {
            read_process(r, &w, &text);
        } else {
            nested += open != '\0' && c == open;
            cmdline__step(r);
        }
    }
    buf_fini(&text);
    return w.dynamic;
}

bool cmdline__read_document(struct found *f, struct str body, unsigned depth)
{
    struct reader r = {.found = f, .s = body, .depth = depth};
    return cmdline__afford(&r, body.n) && read_part(&r, '\0', '\0', true);
}

/// ${...}: a plain name is only an expansion; anything more may hold substitutions of its own.
static void read_braces(struct reader *r, bool quoted)
{
    char first = cmdline__peek(r, 0);
    size_t start = r->at;
    enter(r);
    read_part(r, '\0', '}', quoted); // bash takes the first one
    r->depth--;
    struct str inner = {r->s.p + start, r->at - start};
    bool plain = inner.n != 0;
    for (size_t i = 0; i < inner.n; i++) {
        plain = plain && cmdline__is_name(inner.p[i], i == 0);
    }
    r->found->flags |= plain ? 0 : (unsigned)CMD_SUBSTITUTES;
    if (str_ends(inner, "@P") || first == '\0' || strchr(" \t\n|", first) != NULL) {
        cmdline__break(r); // expands the value once more; ${ x; } runs x in newer versions of bash
    }
    close_part(r);
}

bool cmdline__read_arithmetic(struct reader *r)
{
    size_t start = r->at;
    if (r->found->spare == 0) {
        cmdline__break(r);
        return false;
    }
    enter(r);
    cmdline__step(r);
    read_part(r, '(', ')', true); // `<<` is a shift there
    r->depth--;
    r->found->flags |= CMD_SUBSTITUTES;
    if (cmdline__peek(r, 0) == ')' && cmdline__peek(r, 1) == ')') {
        cmdline__step(r);
        cmdline__step(r);
        return true;
    }
    cmdline__afford(r, r->at - start);
    r->at = start;
    return false;
}

/// $'...': bytes written as escapes.
static void read_escapes(struct reader *r, struct buf *text)
{
    static const char from[] = "abefnrtv\\'\"?", to[] = "\a\b\033\f\n\r\t\v\\'\"?";
    static const char digits[] = "0123456789abcdef";
    r->at++;
    while (r->at < r->s.n && raw(r, 0) != '\'') {
        char c = raw(r, 0);
        r->at++;
        if (c != '\\' || r->at == r->s.n) {
            buf_addc(text, c);
            continue;
        }
        c = raw(r, 0);
        const char *known = c != '\0' ? strchr(from, c) : NULL;
        unsigned base = c == 'x' || c == 'u' || c == 'U' ? 16 : 8, value = 0;
        size_t most = base == 16 ? (c == 'x' ? 2 : c == 'u' ? 4 : 8) : 3, n = 0;
        if (known != NULL) {
            buf_addc(text, to[known - from]);
            r->at++;
            continue;
        }
        r->at += base == 16;
        for (const char *d; n < most && r->at < r->s.n; n++, r->at++) {
            char low = (char)(raw(r, 0) | 0x20);
            d = memchr(digits, raw(r, 0) <= '9' ? raw(r, 0) : low, base);
            if (d == NULL) {
                break;
            }
            value = value * base + (unsigned)(d - digits);
        }
        buf_addc(text, n != 0 ? (char)value : c);
        r->at += n == 0 && base == 8;
    }
    r->found->flags |= r->at < r->s.n ? 0 : (unsigned)CMD_BROKEN;
    r->at = MIN(r->at + 1, r->s.n);
}

/// $( or $((: what is no arithmetic at a second look bash reads by other rules than a line.
static void read_dollar_paren(struct reader *r)
{
    if (cmdline__peek(r, 0) == '(') {
        if (cmdline__read_arithmetic(r)) {
            return;
        }
        cmdline__break(r);
    }
    read_command(r);
}

/// A `$` and what it expands. The text keeps the source, so that an error can show it.
static void read_dollar(struct reader *r, struct cmd_word *w, struct buf *text, bool quoted)
{
    settle(r);
    size_t start = r->at++;
    char c = cmdline__peek(r, 0);
    if (c == '\'' && !quoted) {
        w->dynamic = true;
        settle(r);
        read_escapes(r, text);
        return;
    }
    if (c == '(') {
        cmdline__step(r);
        read_dollar_paren(r);
    } else if (c == '{') {
        cmdline__step(r);
        read_braces(r, quoted);
    } else if (c == '[') { // the old form of $((...))
        cmdline__step(r);
        enter(r);
        read_part(r, '[', ']', true);
        r->depth--;
        r->found->flags |= CMD_SUBSTITUTES;
        close_part(r);
    } else if (cmdline__is_name(c, true)) {
        while (cmdline__is_name(cmdline__peek(r, 0), false)) {
            cmdline__step(r);
        }
    } else if (c != '\0' && strchr("@*#?-$!0123456789", c) != NULL) {
        cmdline__step(r);
    } else if (c != '"' || quoted) {
        buf_addc(text, '$');
        return;
    }
    w->dynamic = true;
    buf_add(text, r->s.p + start, r->at - start);
}

// ---- words --------------------------------------------------------------------------------------

static void read_double_quoted(struct reader *r, struct cmd_word *w, struct buf *text)
{
    cmdline__step(r);
    for (char c; cmdline__more(r) && (c = cmdline__peek(r, 0)) != '"';) {
        settle(r);
        char next = raw(r, 1);
        if (c == '$') {
            read_dollar(r, w, text, true);
        } else if (c == '`') {
            read_backticks(r, w, text, true, true);
        } else if (c == '\\' && next != '\0' && strchr("$`\"\\", next) != NULL) {
            buf_addc(text, next);
            r->at += 2;
        } else {
            buf_addc(text, c);
            r->at++;
        }
    }
    close_part(r);
}

/// How far a word has the form of an assignment.
enum form { START, NAME, INDEX, INDEXED, PLUS, ASSIGNS, OTHER };

/// One word being read.
struct word {
    struct cmd_word w;
    struct buf text;
    enum form form;
    unsigned nested; // brackets in the index
    char last;       // the byte before, when it was not quoted
    bool quoted, brace;
    bool element; // of A=(...): may begin with its index
};

/// What the next unquoted byte makes of the form.
static enum form next_form(struct word *w, char c)
{
    switch (w->form) {
    case START:
    case NAME:
        if (cmdline__is_name(c, w->form == START)) {
            return NAME;
        }
        if (c == '[' && (w->form == NAME || w->element)) {
            return INDEX;
        }
        break;
    case INDEX: w->nested += c == '['; return c == ']' && w->nested-- == 0 ? INDEXED : INDEX;
    case INDEXED: break;
    case PLUS: return c == '=' ? ASSIGNS : OTHER;
    case ASSIGNS:
    case OTHER: return w->form;
    }
    return w->form == START ? OTHER : c == '=' ? ASSIGNS : c == '+' ? PLUS : OTHER;
}

static void read_plain(struct reader *r, struct word *w, char c)
{
    bool list = c == ',' || (c == '.' && cmdline__peek(r, 1) == '.');
    bool home = c == '~' && w->text.n == 0 && !w->quoted;
    w->w.dynamic |= strchr("*?[", c) != NULL || home || (w->brace && list);
    w->brace |= c == '{';
    w->form = next_form(w, c);
    w->last = c;
    buf_addc(&w->text, c);
    cmdline__step(r);
}

static void read_quoted(struct reader *r, struct word *w, char c)
{
    settle(r);
    w->form = w->form == INDEX || w->form == ASSIGNS ? w->form : OTHER;
    w->last = '\0';
    w->quoted |= c == '\'' || c == '"' || c == '\\' || (c == '$' && cmdline__peek(r, 1) == '\'');
    if (c == '"') {
        read_double_quoted(r, &w->w, &w->text);
    } else if (c == '\'') {
        read_single_quoted(r, &w->text);
    } else if (c == '$') {
        read_dollar(r, &w->w, &w->text, false);
    } else if (c == '`') {
        read_backticks(r, &w->w, &w->text, false, true);
    } else if (c == '\\') {
        buf_add(&w->text, r->s.p + r->at + 1, r->at + 1 < r->s.n);
        r->at = MIN(r->at + 2, r->s.n);
    } else {
        read_process(r, &w->w, &w->text);
    }
}

static struct cmdline__word read_one(struct reader *r, bool element);

/// The words of A=(...). Their quotes and comments are those of a line, but an index may hold anything.
static void read_array(struct reader *r)
{
    enter(r);
    cmdline__step(r);
    for (char c; cmdline__more(r) && (c = cmdline__peek(r, 0)) != ')';) {
        bool blank = c == ' ' || c == '\t' || (c == '\n' && r->heredocs.n == 0);
        if (c == '#') {
            while (r->at < r->s.n && raw(r, 0) != '\n') {
                r->at++;
            }
        } else if (!cmdline__ends_word(c) || cmdline__at_process(r)) {
            if (read_one(r, true).unclosed) {
                cmdline__break(r);
            }
        } else {
            r->found->flags |= blank ? 0 : (unsigned)CMD_BROKEN;
            cmdline__step(r);
        }
    }
    r->depth--;
    r->found->flags |= CMD_COMPOUND;
    close_part(r);
}

static struct cmdline__word read_one(struct reader *r, bool element)
{
    struct word w = {.text = {.max = SIZE_MAX}, .element = element};
    while (cmdline__more(r)) {
        char c = cmdline__peek(r, 0);
        size_t start = r->at;
        if (c == '(' && w.form == ASSIGNS && w.last == '=') {
            read_array(r);
            w.w.dynamic = true;
            w.last = '\0';
            buf_add(&w.text, r->s.p + start, r->at - start);
        } else if ((c != '\0' && strchr("'\"$`\\", c) != NULL) || cmdline__at_process(r)) {
            read_quoted(r, &w, c);
        } else if (cmdline__ends_word(c)) {
            break;
        } else {
            read_plain(r, &w, c);
        }
    }
    bool pattern = w.last != '\0' && strchr("?*+@!", w.last) != NULL;
    if (pattern && !r->test && cmdline__peek(r, 0) == '(') { // x@(...), with rules of its own
        cmdline__break(r);
    }
    struct str text = buf_str(&w.text);
    bool lone = text.n == 1 && w.last == '['; // a command, and no glob
    struct cmdline__word out = {
        .w = {.text = arena_str(r->found->arena, text), .dynamic = w.w.dynamic && !lone},
        .quoted = w.quoted,
        .assigns = w.form == ASSIGNS,
        .unclosed = w.form == INDEX};
    buf_fini(&w.text);
    return out;
}

struct cmdline__word cmdline__read_word(struct reader *r)
{
    return read_one(r, false);
}
