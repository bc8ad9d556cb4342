#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "permit/cmdline.h"

// Does a rule's pattern cover a command line? Two questions, answered on opposite sides of caution: an
// allow rule must cover no more than it shows, a deny or ask rule must not be walked around.

/// A pattern, split into words: `git status *`. A word may hold `*` for any run of bytes; a last word `*`
/// stands for any further arguments, also none. Quotes make `*` an ordinary character.
struct pattern {
    const struct cmd_word *words; // `dynamic`: holds an unquoted `*`
    size_t n;
};

/// Read a pattern. ERR_INVALID: it is empty, or holds operators or expansions.
int pattern_parse(struct pattern *out, struct arena *a, struct str text, struct err *e) MUST_CHECK;
/// `text` as one word of a pattern that matches nothing but `text`.
void pattern_quote(struct buf *out, struct str text);

/// Is this line of the kind that patterns can allow at all? `cwd` (absolute) is where it runs, inside
/// `root`: redirections must stay in `root` or go to /dev/null.
bool match_is_plain(const struct cmdline *l, struct str cwd, struct str root);
/// Does the pattern cover this one command, narrowly: word by word, as written?
bool match_allows(const struct pattern *p, const struct cmd_simple *c);
/// Would the line run a command of this pattern, widely: also inside substitutions and through wrappers
/// (`env`, `timeout`, `sh -c`, ...), by any path and past options?
bool match_finds(const struct pattern *p, const struct cmdline *l, struct arena *a);
/// Could it run one, by words that only the shell knows ("X=push; git $X")? Options of the pattern must be there as text.
bool match_may_find(const struct pattern *p, const struct cmdline *l, struct arena *a);
/// Does the line run commands that cannot be read from its text?
bool match_is_opaque(const struct cmdline *l, struct arena *a);

/// A program that runs other programs, or code given as an argument: a prefix of it says nothing.
bool match_runs_others(struct str name);
/// Is `path` (absolute, or relative to `cwd`) inside `root`, by its text alone? `..` is followed.
bool match_is_inside(struct str path, struct str cwd, struct str root);
