// Read a shell command line without running it.
//
// A permission rule names commands ("git status *"), and a model writes lines. To compare the two we must
// know every command that a line would run, wherever it hides: behind `;`, `&&` and `|`, inside "$(...)",
// in a loop's body, in the text of a here-document that a shell reads.
//
//     line ──> words and operators ──> simple commands, targets of redirections, flags
//                  └─ $(...) `...` <(...) : the same reader, one level deeper
//
// The reader errs on one side only. It may report a command that bash would not run (a word of a `case`
// pattern), which makes a deny rule match too often. It must not miss one, and whatever it cannot follow
// sets a flag, and a flagged line is never allowed by a pattern (match.c).
//
// Invariants:
//   - `at` only grows, and every loop consumes at least one byte or ends: any text takes linear time per
//     level, and levels are bounded by DEPTH_MAX.
//   - a word whose value depends on anything but the text itself is `dynamic`.

#include "permit/cmdline.h"

#include "base/buf.h"
#include "base/path.h"
#include "base/vec.h"

// TRIES_MAX bounds what is looked at more than once: arithmetic that turns out to be none, here-documents.
enum { DEPTH_MAX = 16, LINE_BYTES = 64 * 1024, TRIES_MAX = 64 };

struct heredoc {
    struct str end;  // the line that ends it
    struct str text; // of a here-string; p is NULL for others
    bool tabs;       // <<-: leading tabs are removed
    bool literal;    // a quoted delimiter: nothing inside is expanded
};

/// What all levels share.
struct found {
    struct arena *arena;
    vec(struct cmd_simple) simples;
    vec(struct cmd_word) writes;
    unsigned flags;
};

/// One level: the line itself, or the text of one substitution.
struct reader {
    struct found *found;
    struct str s;
    size_t at;
    unsigned depth, tries;
    vec(struct cmd_word) assigns, words; // of the simple command being read
    vec(struct heredoc) heredocs;        // announced on this line
};

static void read_level(struct found *f, struct str s, unsigned depth);

static char peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->s.n ? r->s.p[r->at + ahead] : '\0';
}

static bool more(const struct reader *r)
{
    return r->at < r->s.n;
}

static void skip_blanks(struct reader *r)
{
    while (peek(r, 0) == ' ' || peek(r, 0) == '\t' || (peek(r, 0) == '\\' && peek(r, 1) == '\n')) {
        r->at += peek(r, 0) == '\\' ? 2 : 1;
    }
}

static bool is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

// ---- substitutions ------------------------------------------------------------------------------

/// Skip a quoted part that begins at `at`; a backslash hides the next byte except in '...'.
static size_t skip_quoted(struct str s, size_t at)
{
    char quote = s.p[at++];
    while (at < s.n && s.p[at] != quote) {
        at += s.p[at] == '\\' && quote != '\'' ? 2 : 1;
    }
    return MIN(at + 1, s.n);
}

/// The end of a bracketed part: `at` is after its opening bracket; the answer is the index of the closing
/// one, or s.n. Quotes and escapes inside count; brackets nest.
static size_t find_close(struct str s, size_t at, char open, char close)
{
    unsigned nested = 0;
    while (at < s.n) {
        char c = s.p[at];
        if (c == '\'' || c == '"' || c == '`') {
            at = skip_quoted(s, at);
            continue;
        }
        if (c == close && nested-- == 0) {
            return at;
        }
        nested += c == open;
        at += c == '\\' ? 2 : 1;
    }
    return s.n;
}

/// Commands inside a substitution that begins after the bracket at `at`; moves after it.
static void read_inner(struct reader *r, char open, char close)
{
    size_t start = r->at, end = find_close(r->s, start, open, close);
    r->found->flags |= CMD_SUBSTITUTES | (end == r->s.n ? (unsigned)CMD_BROKEN : 0);
    read_level(r->found, (struct str){r->s.p + start, end - start}, r->depth + 1);
    r->at = MIN(end + 1, r->s.n);
}

/// `...`: one level of backslashes is removed before the shell reads it.
static void read_backticks(struct reader *r)
{
    struct buf text = {.max = SIZE_MAX};
    r->at++;
    while (more(r) && peek(r, 0) != '`') {
        r->at += peek(r, 0) == '\\' && r->at + 1 < r->s.n ? 1 : 0;
        buf_addc(&text, peek(r, 0));
        r->at++;
    }
    r->found->flags |= CMD_SUBSTITUTES | (more(r) ? 0 : (unsigned)CMD_BROKEN);
    r->at = MIN(r->at + 1, r->s.n);
    read_level(r->found, arena_str(r->found->arena, buf_str(&text)), r->depth + 1);
    buf_fini(&text);
}

/// ${...}: a plain name is only an expansion; anything more may hold substitutions of its own.
static void read_braces(struct reader *r)
{
    size_t start = r->at, end = find_close(r->s, start, '{', '}');
    bool plain = end > start && end < r->s.n;
    for (size_t i = start; i < end; i++) {
        plain = plain && is_name(r->s.p[i], i == start);
    }
    if (!plain) {
        read_inner(r, '{', '}');
    } else {
        r->at = end + 1;
    }
}

/// $((...)) is arithmetic if its two closing brackets stand together; `<<` is a shift there.
static bool read_arithmetic(struct reader *r)
{
    if (++r->tries > TRIES_MAX) {
        r->found->flags |= CMD_BROKEN;
        return false;
    }
    size_t end = find_close(r->s, r->at + 1, '(', ')');
    if (peek(r, 0) != '(' || end + 1 >= r->s.n || r->s.p[end + 1] != ')') {
        return false;
    }
    struct str inner = {r->s.p + r->at + 1, end - r->at - 1};
    for (size_t i = 0; i < inner.n; i++) { // the expansions in it, and nothing else
        if (inner.p[i] == '$' || inner.p[i] == '`') {
            read_level(r->found, str_from(inner, i), r->depth + 1);
            break;
        }
    }
    r->found->flags |= CMD_SUBSTITUTES;
    r->at = end + 2;
    return true;
}

/// $'...': bytes written as escapes.
static void read_escapes(struct reader *r, struct buf *text)
{
    static const char from[] = "abefnrtv\\'\"?", to[] = "\a\b\033\f\n\r\t\v\\'\"?";
    static const char digits[] = "0123456789abcdef";
    r->at++;
    while (more(r) && peek(r, 0) != '\'') {
        char c = peek(r, 0);
        r->at++;
        if (c != '\\' || !more(r)) {
            buf_addc(text, c);
            continue;
        }
        c = peek(r, 0);
        const char *known = strchr(from, c);
        unsigned base = c == 'x' || c == 'u' || c == 'U' ? 16 : 8, value = 0;
        size_t most = base == 16 ? (c == 'x' ? 2 : c == 'u' ? 4 : 8) : 3, n = 0;
        if (known != NULL) {
            buf_addc(text, to[known - from]);
            r->at++;
            continue;
        }
        r->at += base == 16;
        for (const char *d; n < most && more(r); n++, r->at++) {
            char low = (char)(peek(r, 0) | 0x20);
            d = memchr(digits, peek(r, 0) <= '9' ? peek(r, 0) : low, base);
            if (d == NULL) {
                break;
            }
            value = value * base + (unsigned)(d - digits);
        }
        buf_addc(text, n != 0 ? (char)value : c);
        r->at += n == 0 && base == 8;
    }
    r->found->flags |= more(r) ? 0 : (unsigned)CMD_BROKEN;
    r->at = MIN(r->at + 1, r->s.n);
}

/// A `$` and what it expands. The text keeps the source, so that an error can show it.
static void read_dollar(struct reader *r, struct cmd_word *w, struct buf *text, bool in_quotes)
{
    size_t start = r->at++;
    char c = peek(r, 0);
    if (c == '\'' && !in_quotes) {
        w->dynamic = true;
        read_escapes(r, text);
        return;
    }
    if (c == '(') {
        r->at++;
        if (!read_arithmetic(r)) {
            read_inner(r, '(', ')');
        }
    } else if (c == '{') {
        r->at++;
        read_braces(r);
    } else if (c == '[') { // the old form of $((...))
        r->at++;
        read_inner(r, '[', ']');
    } else if (is_name(c, true)) {
        while (is_name(peek(r, 0), false)) {
            r->at++;
        }
    } else if (c != '\0' && strchr("@*#?-$!0123456789", c) != NULL) {
        r->at++;
    } else if (c != '"' || in_quotes) {
        buf_addc(text, '$');
        return;
    }
    w->dynamic = true;
    buf_add(text, r->s.p + start, r->at - start);
}

// ---- words --------------------------------------------------------------------------------------

static void read_double_quoted(struct reader *r, struct cmd_word *w, struct buf *text)
{
    r->at++;
    while (more(r) && peek(r, 0) != '"') {
        char c = peek(r, 0), next = peek(r, 1);
        if (c == '$') {
            read_dollar(r, w, text, true);
        } else if (c == '`') {
            w->dynamic = true;
            read_backticks(r);
        } else if (c == '\\' && next != '\0' && strchr("$`\"\\\n", next) != NULL) {
            if (next != '\n') {
                buf_addc(text, next);
            }
            r->at += 2;
        } else {
            buf_addc(text, c);
            r->at++;
        }
    }
    r->found->flags |= more(r) ? 0 : (unsigned)CMD_BROKEN;
    r->at = MIN(r->at + 1, r->s.n);
}

static void read_single_quoted(struct reader *r, struct buf *text)
{
    size_t start = ++r->at;
    while (more(r) && peek(r, 0) != '\'') {
        r->at++;
    }
    buf_add(text, r->s.p + start, r->at - start);
    r->found->flags |= more(r) ? 0 : (unsigned)CMD_BROKEN;
    r->at = MIN(r->at + 1, r->s.n);
}

static bool ends_word(char c)
{
    return c == '\0' || strchr(" \t\n;&|<>()", c) != NULL;
}

/// Read one word. `quoted` (may be NULL) says whether any part of it was.
static struct cmd_word read_word(struct reader *r, bool *quoted)
{
    struct cmd_word w = {0};
    struct buf text = {.max = SIZE_MAX};
    bool was_quoted = false, brace = false;
    size_t start = r->at;
    while (more(r) && !ends_word(peek(r, 0))) {
        char c = peek(r, 0);
        if (c == '\'' || c == '"') {
            was_quoted = true;
            c == '"' ? read_double_quoted(r, &w, &text) : read_single_quoted(r, &text);
        } else if (c == '$') {
            read_dollar(r, &w, &text, false);
        } else if (c == '`') {
            w.dynamic = true;
            read_backticks(r);
        } else if (c == '\\') {
            was_quoted = true;
            if (peek(r, 1) != '\n' && r->at + 1 < r->s.n) {
                buf_addc(&text, peek(r, 1));
            }
            r->at = MIN(r->at + 2, r->s.n);
        } else {
            bool list = c == ',' || (c == '.' && peek(r, 1) == '.');
            w.dynamic |=
                strchr("*?[", c) != NULL || (c == '~' && r->at == start) || (brace && list);
            brace |= c == '{';
            buf_addc(&text, c);
            r->at++;
        }
    }
    w.text = arena_str(r->found->arena, buf_str(&text));
    buf_fini(&text);
    if (quoted != NULL) {
        *quoted = was_quoted;
    }
    return w;
}

// ---- commands -----------------------------------------------------------------------------------

static const struct cmd_word *keep_words(struct reader *r, const struct cmd_word *p, size_t n)
{
    struct cmd_word *kept = arena_calloc(r->found->arena, n + 1, sizeof *kept);
    memcpy(kept, p, n * sizeof *kept);
    return kept;
}

/// An operator came: what was read is one simple command.
static void end_simple(struct reader *r)
{
    if (r->assigns.n + r->words.n != 0) {
        struct cmd_simple c = {.n_assigns = r->assigns.n, .n_words = r->words.n};
        c.assigns = r->assigns.n != 0 ? keep_words(r, r->assigns.p, r->assigns.n) : NULL;
        c.words = r->words.n != 0 ? keep_words(r, r->words.p, r->words.n) : NULL;
        vec_push(&r->found->simples, c);
        r->assigns.n = r->words.n = 0;
    }
}

static bool is_reserved(struct str w)
{
    static const char *const reserved[] = {"if",    "then", "elif",   "else",    "fi", "while",
                                           "until", "do",   "done",   "esac",    "{",  "}",
                                           "!",     "time", "coproc", "function"};
    return str_lookup(w, reserved, ARRAY_LEN(reserved)) >= 0;
}

/// `coproc NAME {`: a name stands before a compound command only; before any other word it is the command.
static void skip_coproc_name(struct reader *r)
{
    struct reader ahead = *r;
    read_word(&ahead, NULL);
    skip_blanks(&ahead);
    size_t body = ahead.at;
    if (is_reserved(read_word(&ahead, NULL).text)) {
        r->at = body;
    }
}

/// A reserved word is no command; what follows it is one. True: `w` was one and is used up.
static bool take_reserved(struct reader *r, struct str w)
{
    if (!is_reserved(w)) { // the words after these are no commands, up to the next operator
        bool is =
            str_eqz(w, "for") || str_eqz(w, "case") || str_eqz(w, "select") || str_eqz(w, "[[");
        r->found->flags |= is ? (unsigned)CMD_COMPOUND : 0;
        return false;
    }
    r->found->flags |= CMD_COMPOUND;
    skip_blanks(r);
    if (str_eqz(w, "function") || (str_eqz(w, "time") && peek(r, 0) == '-')) {
        read_word(r, NULL); // its name; -p
    } else if (str_eqz(w, "coproc")) {
        skip_coproc_name(r);
    }
    return true;
}

static bool is_assignment(struct str w)
{
    size_t i = 0;
    while (i < w.n && is_name(w.p[i], i == 0)) {
        i++;
    }
    if (i != 0 && i < w.n && w.p[i] == '[') {
        i = find_close(w, i + 1, '[', ']') + 1;
    }
    i += i != 0 && i < w.n && w.p[i] == '+';
    return i != 0 && i < w.n && w.p[i] == '=';
}

static void take_word(struct reader *r)
{
    bool quoted = false;
    struct cmd_word w = read_word(r, &quoted);
    if (r->words.n == 0 && !quoted && !w.dynamic && take_reserved(r, w.text)) {
        return;
    }
    if (r->words.n == 0 && is_assignment(w.text)) {
        vec_push(&r->assigns, w);
    } else {
        vec_push(&r->words, w);
    }
}

// ---- redirections -------------------------------------------------------------------------------

static void take_heredoc(struct reader *r)
{
    struct heredoc h = {0};
    bool here_string = peek(r, 0) == '<';
    r->found->flags |= CMD_HEREDOC;
    h.tabs = peek(r, 0) == '-';
    r->at += h.tabs || here_string;
    skip_blanks(r);
    struct str word = read_word(r, &h.literal).text;
    *(here_string ? &h.text : &h.end) = word;
    if (r->heredocs.n == TRIES_MAX) {
        r->found->flags |= CMD_BROKEN;
    } else {
        vec_push(&r->heredocs, h);
    }
}

/// `at` is on `<` or `>`, or on the `&` of `&>`.
static void take_redirection(struct reader *r)
{
    bool writes = peek(r, 0) != '<' || peek(r, 1) == '>';
    char first = peek(r, 0);
    r->at += first == '&' ? 2 : 1;
    if (first == '<' && peek(r, 0) == '<') {
        r->at++;
        take_heredoc(r);
        return;
    }
    if (first != '&' && peek(r, 0) == '(') { // a process substitution stands for a file's name
        struct cmd_word w = {.text = STR("/dev/fd"), .dynamic = true};
        r->at++;
        read_inner(r, '(', ')');
        vec_push(&r->words, w);
        return;
    }
    bool duplicates = first != '&' && peek(r, 0) == '&';
    while (peek(r, 0) == '>' || peek(r, 0) == '|' || peek(r, 0) == '&') {
        r->at++;
    }
    skip_blanks(r);
    struct cmd_word target = read_word(r, NULL);
    bool number = target.text.n != 0 && !target.dynamic;
    for (size_t i = 0; i < target.text.n; i++) {
        number = number && strchr("0123456789-", target.text.p[i]) != NULL;
    }
    if (writes && !(duplicates && number)) {
        vec_push(&r->found->writes, target);
    }
}

/// The number of `2>file` is no word of the command.
static bool is_descriptor(const struct reader *r)
{
    size_t i = r->at;
    while (i < r->s.n && r->s.p[i] >= '0' && r->s.p[i] <= '9') {
        i++;
    }
    return i != r->at && i < r->s.n && (r->s.p[i] == '<' || r->s.p[i] == '>');
}

// ---- here-documents -----------------------------------------------------------------------------

/// Does any command so far read commands from its input?
static bool has_shell(const struct found *f)
{
    vec_foreach (c, &f->simples) {
        for (size_t i = 0; i < c->n_words; i++) {
            struct cmd_simple from = {.words = c->words + i, .n_words = 1};
            if (c->words[i].dynamic || cmd_is_shell(cmd_name(&from))) {
                return true;
            }
        }
    }
    return false;
}

/// The text up to the line that ends it; all of the rest when there is none.
static struct str heredoc_body(struct reader *r, const struct heredoc *h)
{
    size_t start = r->at;
    if (h->text.p != NULL) {
        return h->text;
    }
    while (more(r)) {
        size_t line = r->at;
        struct str rest = str_from(r->s, line), text = str_cut(&rest, '\n');
        r->at = MIN(line + text.n + 1, r->s.n);
        while (h->tabs && text.n != 0 && text.p[0] == '\t') {
            text = str_from(text, 1);
        }
        if (str_eq(text, h->end)) {
            return (struct str){r->s.p + start, line - start};
        }
    }
    r->found->flags |= CMD_BROKEN;
    return str_from(r->s, start);
}

/// A line ended: the texts that it announced follow. A shell runs its text as commands; any other text
/// can hold substitutions, unless its delimiter was quoted. Those of a here-string were read with its word.
static void take_heredocs(struct reader *r)
{
    end_simple(r);
    for (size_t i = 0; i < r->heredocs.n; i++) {
        struct str body = heredoc_body(r, &r->heredocs.p[i]);
        bool runs = has_shell(r->found) || (r->found->flags & CMD_BROKEN) != 0;
        if (runs) {
            read_level(r->found, body, r->depth + 1);
        }
        bool expands = !r->heredocs.p[i].literal && r->heredocs.p[i].text.p == NULL;
        for (size_t k = 0; expands && !runs && k < body.n; k++) {
            if (body.p[k] == '`' || (body.p[k] == '$' && k + 1 < body.n && body.p[k + 1] != ' ')) {
                struct reader inner = {
                    .found = r->found, .s = body, .at = k, .depth = r->depth + 1};
                struct cmd_word w = {0};
                struct buf text = {.max = SIZE_MAX};
                body.p[k] == '`' ? read_backticks(&inner) : read_dollar(&inner, &w, &text, true);
                buf_fini(&text);
                k = MAX(inner.at, k + 1) - 1;
            }
        }
    }
    r->heredocs.n = 0;
}

// ---- a level ------------------------------------------------------------------------------------

static void take_operator(struct reader *r)
{
    char c = peek(r, 0);
    end_simple(r);
    if (c == '(' && peek(r, 1) == '(') { // ((...)): arithmetic
        r->at++;
        r->found->flags |= CMD_COMPOUND;
        if (read_arithmetic(r)) {
            return;
        }
        r->at--;
    }
    r->found->flags |= c == '(' || c == ')' ? (unsigned)CMD_COMPOUND : 0;
    r->at++;
    if (c == '\n') {
        take_heredocs(r);
    }
}

static void take_next(struct reader *r)
{
    char c = peek(r, 0);
    if (c == '#') {
        while (more(r) && peek(r, 0) != '\n') {
            r->at++;
        }
    } else if (c == '<' || c == '>' || (c == '&' && peek(r, 1) == '>')) {
        take_redirection(r);
    } else if (c == '\0' || (ends_word(c) && c != ' ' && c != '\t')) {
        take_operator(r);
    } else if (is_descriptor(r)) {
        while (peek(r, 0) != '<' && peek(r, 0) != '>') {
            r->at++;
        }
    } else {
        take_word(r);
    }
}

static void read_level(struct found *f, struct str s, unsigned depth)
{
    struct reader r = {.found = f, .s = s, .depth = depth};
    if (depth > DEPTH_MAX || s.n > LINE_BYTES) {
        f->flags |= CMD_BROKEN;
        return;
    }
    for (skip_blanks(&r); more(&r); skip_blanks(&r)) {
        take_next(&r);
    }
    take_heredocs(&r); // one whose text does not follow is broken
    vec_fini(&r.assigns);
    vec_fini(&r.words);
    vec_fini(&r.heredocs);
}

void cmdline_parse(struct cmdline *out, struct arena *a, struct str line)
{
    struct found f = {.arena = a};
    read_level(&f, line, 0);
    struct cmd_simple *simples = arena_calloc(a, f.simples.n + 1, sizeof *simples);
    struct cmd_word *writes = arena_calloc(a, f.writes.n + 1, sizeof *writes);
    memcpy(simples, f.simples.p != NULL ? f.simples.p : simples, f.simples.n * sizeof *simples);
    memcpy(writes, f.writes.p != NULL ? f.writes.p : writes, f.writes.n * sizeof *writes);
    *out = (struct cmdline){.simples = simples,
                            .writes = writes,
                            .n_simples = f.simples.n,
                            .n_writes = f.writes.n,
                            .flags = f.flags};
    vec_fini(&f.simples);
    vec_fini(&f.writes);
}

struct str cmd_name(const struct cmd_simple *c)
{
    return c->n_words != 0 ? path_base(c->words[0].text) : STR("");
}

bool cmd_is_shell(struct str name)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish"};
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (str_eqz(name, shells[i])) {
            return true;
        }
    }
    return false;
}
