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
//   - `at` only grows, and every loop consumes at least one byte or ends. What must be read twice (text that turns
//     out to be no arithmetic, a here-document for a shell) is paid for, so any text takes linear time.
//   - levels are bounded: cmdline_word.c breaks a line that nests deeper.
//   - a word whose value depends on anything but the text itself is `dynamic`.

#include "permit/cmdline.h"

#include "base/path.h"
#include "permit/cmdline_int.h"

// TWICE: how often as much as the line may be read again.
enum { LINE_BYTES = 64 * 1024, TWICE = 16 };

// ---- commands -----------------------------------------------------------------------------------

static const struct cmd_word *keep_words(struct reader *r, const struct cmd_word *p, size_t n)
{
    struct cmd_word *kept = arena_calloc(r->found->arena, n + 1, sizeof *kept);
    memcpy(kept, p, n * sizeof *kept);
    return kept;
}

/// May this command, or one that it runs, read commands from its input?
static bool may_be_shell(const struct cmd_simple *c)
{
    bool shell = c->n_words != 0 && c->words[0].dynamic;
    for (size_t i = 0; i < c->n_words; i++) {
        shell |= cmd_is_shell(path_base(c->words[i].text));
    }
    return shell;
}

/// An operator came: what was read is one simple command.
static void end_simple(struct reader *r)
{
    if (r->assigns.n + r->words.n != 0) {
        struct cmd_simple c = {
            .n_assigns = r->assigns.n, .n_words = r->words.n, .fed = r->fed, .pattern = r->pattern};
        c.assigns = r->assigns.n != 0 ? keep_words(r, r->assigns.p, r->assigns.n) : NULL;
        c.words = r->words.n != 0 ? keep_words(r, r->words.p, r->words.n) : NULL;
        r->found->shell |= may_be_shell(&c);
        vec_push(&r->found->simples, c);
        r->assigns.n = r->words.n = 0;
    }
    r->redirected = r->coproc = r->in_case = r->fed = false;
}

static bool is_reserved(struct str w)
{
    static const char *const reserved[] = {"if",    "then", "elif",   "else",    "fi", "while",
                                           "until", "do",   "done",   "esac",    "{",  "}",
                                           "!",     "time", "coproc", "function"};
    return str_lookup(w, reserved, ARRAY_LEN(reserved)) >= 0;
}

static bool is_head(struct str w) // of a compound; words follow, up to an operator
{
    return str_eqz(w, "for") || str_eqz(w, "case") || str_eqz(w, "select");
}

/// `w` is a bare word after others. Is it a reserved one all the same? So in `coproc NAME {` and `for NAME do`.
static bool begins_list(const struct reader *r, struct str w)
{
    if (r->coproc) {
        return r->words.n == 1 && (is_reserved(w) || is_head(w) || str_eqz(w, "[["));
    }
    return r->words.n == 2 && str_eqz(w, "do") &&
           (str_eqz(r->words.p[0].text, "for") || str_eqz(r->words.p[0].text, "select"));
}

/// One operator of [[ ]]: `(`, `&&` and their like. Any other means that this is no test, or a pattern in it has its own
/// rules.
static void take_test_operator(struct reader *r, unsigned *open)
{
    char c = cmdline__peek(r, 0);
    bool twice = (c == '&' || c == '|') && cmdline__peek(r, 1) == c;
    if (c == '#' || c == ';' || c == '\0' || (c == ')' && *open == 0) ||
        ((c == '&' || (c == '|' && *open == 0)) && !twice) || (c == '\n' && r->heredocs.n != 0)) {
        cmdline__break(r);
    }
    *open += c == '(';
    *open -= c == ')' && *open != 0;
    cmdline__step(r);
    if (twice) {
        cmdline__step(r);
    }
}

/// [[ ... ]]: `<`, `(` and `|` are parts of its expressions and patterns.
static void read_test(struct reader *r)
{
    unsigned open = 0;
    bool end = false;
    vec_push(&r->words, ((struct cmd_word){.text = STR("[[")}));
    r->test = true;
    for (cmdline__skip_blanks(r); !end && cmdline__more(r); cmdline__skip_blanks(r)) {
        char c = cmdline__peek(r, 0);
        if (c == '#' || (cmdline__ends_word(c) && !cmdline__at_process(r))) {
            take_test_operator(r, &open);
        } else {
            struct cmdline__word got = cmdline__read_word(r);
            vec_push(&r->words, got.w);
            end = !got.quoted && str_eqz(got.w.text, "]]");
        }
    }
    r->test = false;
    if (!end || open != 0) {
        cmdline__break(r);
    }
}

/// A reserved word is no command; what follows it is one. True: `w` was one and is used up.
static bool take_reserved(struct reader *r, struct str w)
{
    bool first = r->assigns.n == 0 && !r->redirected, test = first && str_eqz(w, "[[");
    r->in_case = first && str_eqz(w, "case");
    if (test) {
        read_test(r);
        end_simple(r); // `if [[ x ]] then`
    }
    r->found->flags |= test || is_reserved(w) || is_head(w) ? (unsigned)CMD_COMPOUND : 0;
    if (test || !is_reserved(w)) {
        return test;
    }
    cmdline__skip_blanks(r);
    if (str_eqz(w, "function")) {
        cmdline__read_word(r); // its name
    }
    while (str_eqz(w, "time") && cmdline__peek(r, 0) == '-') { // -p, --
        cmdline__read_word(r);
        cmdline__skip_blanks(r);
    }
    r->coproc = str_eqz(w, "coproc");
    return true;
}

static void take_word(struct reader *r)
{
    struct cmdline__word got = cmdline__read_word(r);
    bool bare = !got.quoted && (!got.w.dynamic || str_eqz(got.w.text, "[["));
    bool in_case = bare && r->close != '\0' && str_eqz(got.w.text, "case");
    if (in_case || (r->words.n == 0 && got.unclosed)) { // a ) of its patterns closes nothing
        cmdline__break(r);
    }
    r->pattern = r->pattern && !(bare && r->words.n == 0 && str_eqz(got.w.text, "esac"));
    if (r->pattern) {
        vec_push(&r->words, got.w);
        return;
    }
    if (bare && begins_list(r, got.w.text)) {
        end_simple(r);
    }
    if (r->words.n == 0 && bare && take_reserved(r, got.w.text)) {
        return;
    }
    if (r->words.n == 0 && got.assigns) {
        vec_push(&r->assigns, got.w);
    } else {
        vec_push(&r->words, got.w);
    }
    r->pattern = r->in_case && bare && r->words.n == 3 && str_eqz(got.w.text, "in");
}

// ---- redirections -------------------------------------------------------------------------------

/// `at` is after `<<`.
static void take_heredoc(struct reader *r)
{
    struct heredoc h = {0};
    bool here_string = cmdline__peek(r, 0) == '<';
    r->found->flags |= CMD_HEREDOC;
    h.tabs = cmdline__peek(r, 0) == '-';
    if (h.tabs || here_string) {
        cmdline__step(r);
    }
    cmdline__skip_blanks(r);
    struct cmdline__word word = cmdline__read_word(r);
    h.literal = word.quoted;
    h.dynamic = word.w.dynamic;
    *(here_string ? &h.text : &h.end) = word.w.text;
    if (!here_string && (h.dynamic || str_index(h.end, '\t') >= 0)) {
        cmdline__break(r); // bash expands no delimiter, and unquotes this one in its own way
    }
    vec_push(&r->heredocs, h);
}

/// `at` is on `<` or `>`, or on the `&` of `&>`. `numbered`: a descriptor stands before it.
static void take_redirection(struct reader *r, bool numbered)
{
    char first = cmdline__peek(r, 0);
    bool writes = first != '<' || cmdline__peek(r, 1) == '>';
    cmdline__step(r);
    if (first == '&') {
        cmdline__step(r);
    }
    if (r->pattern) {
        cmdline__break(r);
    }
    r->redirected = true;
    r->fed &= first != '<';
    if (first == '<' && cmdline__peek(r, 0) == '<') {
        r->fed = !numbered;
        cmdline__step(r);
        take_heredoc(r);
        return;
    }
    bool duplicates = first != '&' && cmdline__peek(r, 0) == '&';
    for (char c; (c = cmdline__peek(r, 0)) == '>' || c == '|' || c == '&';) {
        cmdline__step(r);
    }
    cmdline__skip_blanks(r);
    struct cmd_word target = cmdline__read_word(r).w;
    bool number = target.text.n != 0 && !target.dynamic;
    for (size_t i = 0; i < target.text.n; i++) {
        number = number && strchr("0123456789-", target.text.p[i]) != NULL;
    }
    if (writes && !(duplicates && number)) {
        vec_push(&r->found->writes, target);
    }
}

/// `{fd}` or `{fd[1]}`: moves after it. False: it is something else.
static bool skip_variable(struct reader *r)
{
    cmdline__step(r);
    while (cmdline__is_name(cmdline__peek(r, 0), false)) {
        cmdline__step(r);
    }
    bool element = cmdline__peek(r, 0) == '[';
    while (element && cmdline__peek(r, 0) != '}' && !cmdline__ends_word(cmdline__peek(r, 0))) {
        cmdline__step(r);
    }
    bool is = cmdline__peek(r, 0) == '}';
    cmdline__step(r);
    return is;
}

/// The number of `2>file`, or the variable of `{fd}>file`, is no word of the command. True: there was one.
static bool skip_descriptor(struct reader *r)
{
    enum { DIGITS = 9 }; // more are a word for bash
    struct reader ahead = *r;
    bool is = false;
    if (cmdline__peek(r, 0) == '{' && cmdline__is_name(cmdline__peek(r, 1), true)) {
        is = skip_variable(&ahead);
    } else {
        unsigned digits = 0;
        for (char c; (c = cmdline__peek(&ahead, 0)) >= '0' && c <= '9'; digits++) {
            cmdline__step(&ahead);
        }
        is = digits != 0 && digits <= DIGITS;
    }
    char c = cmdline__peek(&ahead, 0);
    is = is && (c == '<' || c == '>') && !cmdline__at_process(&ahead);
    r->at = is ? ahead.at : r->at;
    return is;
}

// ---- here-documents -----------------------------------------------------------------------------

/// The next line; where expansions are made, backslash and newline join it to the one after.
static void read_line(struct reader *r, bool joins, struct buf *line)
{
    buf_clear(line);
    for (; r->at < r->s.n && r->s.p[r->at] != '\n'; r->at++) {
        char next = r->at + 1 < r->s.n ? r->s.p[r->at + 1] : '\0';
        if (joins && r->s.p[r->at] == '\\' && next != '\0') {
            r->at++;
            if (next == '\n') {
                continue;
            }
            buf_addc(line, '\\');
        }
        buf_addc(line, r->s.p[r->at]);
    }
    r->at = MIN(r->at + 1, r->s.n);
}

/// The text up to the line that ends it; all of the rest when there is none.
static struct str heredoc_body(struct reader *r, const struct heredoc *h)
{
    struct buf line = {.max = SIZE_MAX};
    size_t start = r->at, begin = start;
    bool found = false;
    while (!found && r->at < r->s.n) {
        begin = r->at;
        read_line(r, !h->literal, &line);
        struct str text = buf_str(&line);
        while (h->tabs && text.n != 0 && text.p[0] == '\t') {
            text = str_from(text, 1);
        }
        found = str_eq(text, h->end);
        bool begins = text.n > h->end.n && memcmp(text.p, h->end.p, h->end.n) == 0;
        if (begins && r->close != '\0' && str_index(text, r->close) >= 0) {
            cmdline__break(r); // versions of bash differ on whether `E)` ends it
        }
    }
    buf_fini(&line);
    if (!found) {
        cmdline__break(r);
        begin = r->at;
    }
    return (struct str){r->s.p + start, begin - start};
}

/// A shell reads `body` as commands, after backslashes were removed where expansions are made.
static void run_document(struct reader *r, struct str body, bool expands)
{
    struct buf text = {.max = SIZE_MAX};
    for (size_t i = 0; i < body.n; i++) {
        char next = i + 1 < body.n ? body.p[i + 1] : '\0';
        if (expands && body.p[i] == '\\' && next != '\0' && strchr("$`\\\n", next) != NULL) {
            i++;
            if (next == '\n') {
                continue;
            }
        }
        buf_addc(&text, body.p[i]);
    }
    if (cmdline__afford(r, body.n)) {
        struct str own = arena_str(r->found->arena, buf_str(&text));
        cmdline__read_text(r->found, own, r->depth + 1);
    }
    buf_fini(&text);
}

/// A shell runs its text as commands, and any text can hold substitutions, unless its delimiter was quoted. Those of a
/// here-string were read with its word.
static void take_document(struct reader *r, const struct heredoc *h, struct str body)
{
    bool expands = !h->literal && h->text.p == NULL;
    bool shell = r->found->shell, runs = shell || (r->found->flags & CMD_BROKEN) != 0;
    bool dynamic = h->dynamic;
    if (expands) {
        dynamic |= cmdline__read_document(r->found, body, r->depth + 1);
    }
    if (runs) {
        run_document(r, body, expands);
    }
    if (shell && dynamic) { // a value can hold commands of its own
        cmdline__break(r);
    }
}

/// A line ended, or (`last`) its level: the texts that it announced follow.
static void take_heredocs(struct reader *r, bool last)
{
    end_simple(r);
    for (size_t i = 0; i < r->heredocs.n; i++) {
        const struct heredoc *h = &r->heredocs.p[i];
        bool missing = last && h->text.p == NULL;
        if (missing) {
            cmdline__break(r);
        } else {
            take_document(r, h, h->text.p != NULL ? h->text : heredoc_body(r, h));
        }
    }
    r->heredocs.n = 0;
}

// ---- a level ------------------------------------------------------------------------------------

/// An operator where patterns of `case` are expected.
static void take_pattern_operator(struct reader *r, char c)
{
    if (c == '\0' || strchr("(|)\n", c) == NULL) {
        cmdline__break(r);
    }
    r->pattern = c != ')';
}

static void take_operator(struct reader *r)
{
    char c = cmdline__peek(r, 0), next = cmdline__peek(r, 1);
    bool clause = c == ';' && (next == ';' || next == '&'); // only `case` has these
    end_simple(r);
    cmdline__step(r);
    r->found->flags |= c == '(' || c == ')' ? (unsigned)CMD_COMPOUND : 0;
    if (clause) {
        cmdline__step(r);
        if (cmdline__peek(r, 0) == '&') {
            cmdline__step(r);
        }
        r->pattern = true;
    } else if (r->pattern) {
        take_pattern_operator(r, c);
    } else if (c == '(' && next == '(' && cmdline__read_arithmetic(r)) { // ((...))
        return;
    } else {
        r->parens += c == '(';
        r->parens -= c == ')' && r->parens != 0;
    }
    if (c == '\n') {
        take_heredocs(r, false);
    }
}

static void take_next(struct reader *r)
{
    bool numbered = skip_descriptor(r);
    char c = cmdline__peek(r, 0);
    if (c == '#') {
        while (r->at < r->s.n && r->s.p[r->at] != '\n') { // a backslash joins nothing here
            r->at++;
        }
    } else if (cmdline__at_process(r)) {
        take_word(r);
    } else if (c == '<' || c == '>' || (c == '&' && cmdline__peek(r, 1) == '>')) {
        take_redirection(r, numbered);
    } else if (cmdline__ends_word(c)) {
        take_operator(r);
    } else {
        take_word(r);
    }
}

void cmdline__read_level(struct reader *r)
{
    cmdline__skip_blanks(r);
    while (cmdline__more(r) &&
           (r->close == '\0' || r->parens != 0 || r->pattern || cmdline__peek(r, 0) != r->close)) {
        take_next(r);
        cmdline__skip_blanks(r);
    }
    take_heredocs(r, true);
    vec_fini(&r->assigns);
    vec_fini(&r->words);
    vec_fini(&r->heredocs);
}

void cmdline__read_text(struct found *f, struct str s, unsigned depth)
{
    struct reader r = {.found = f, .s = s, .depth = depth};
    if (depth > CMDLINE__DEPTH_MAX || s.n > LINE_BYTES) {
        cmdline__break(&r);
    } else {
        cmdline__read_level(&r);
    }
}

void cmdline_parse(struct cmdline *out, struct arena *a, struct str line)
{
    struct found f = {.arena = a, .spare = TWICE * line.n};
    cmdline__read_text(&f, line, 0);
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
    static const char *const shells[] = {"sh",  "bash", "dash", "ash",  "ksh",  "mksh",
                                         "zsh", "fish", "csh",  "tcsh", "yash", "rbash"};
    return str_lookup(name, shells, ARRAY_LEN(shells)) >= 0;
}
