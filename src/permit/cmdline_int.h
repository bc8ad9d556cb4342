#pragma once

#include "base/buf.h"
#include "base/vec.h"
#include "permit/cmdline.h"

// What the two halves of the reader share: cmdline_word.c reads words and what is expanded in them, cmdline.c
// the commands that they make up.

enum { CMDLINE__DEPTH_MAX = 16 }; // levels within levels

struct heredoc {
    struct str end;  // the line that ends it
    struct str text; // of a here-string; p is NULL for others
    bool tabs;       // <<-: leading tabs are removed
    bool literal;    // a quoted delimiter: nothing inside is expanded
    bool dynamic;    // a here-string with expansions
};

/// What all levels share.
struct found {
    struct arena *arena;
    vec(struct cmd_simple) simples;
    vec(struct cmd_word) writes;
    unsigned flags;
    bool shell;   // some command so far may read commands from its input
    size_t spare; // bytes that may still be read a second time
};

/// One level: the line itself, or one substitution in it.
struct reader {
    struct found *found;
    struct str s;
    size_t at;
    unsigned depth;
    unsigned parens;                       // open subshells of this level
    char close;                            // what ends the level; NUL: the end of `s`
    bool test;                             // inside [[ ]]
    bool pattern;                          // before a clause of `case`: words are no commands
    bool redirected, coproc, in_case, fed; // of the simple command being read
    vec(struct cmd_word) assigns, words;   // the same
    vec(struct heredoc) heredocs;          // announced on this line
};

/// A word, and what its spelling says besides its value.
struct cmdline__word {
    struct cmd_word w;
    bool quoted;   // some of it was
    bool assigns;  // NAME=, NAME+= or NAME[...]=, as bash knows an assignment
    bool unclosed; // NAME[ without its bracket: bash reads on beyond blanks
};

/// The byte `ahead` bytes further; NUL at the end. A backslash and newline are no bytes here, as in bash, which
/// removes them outside of '...' before it looks at the text.
char cmdline__peek(const struct reader *r, unsigned ahead);
bool cmdline__more(const struct reader *r);
/// Move past one byte.
void cmdline__step(struct reader *r);
void cmdline__skip_blanks(struct reader *r);
bool cmdline__is_name(char c, bool first);
bool cmdline__ends_word(char c);
/// Is `at` on `<(` or `>(`?
bool cmdline__at_process(const struct reader *r);
/// The line cannot be followed.
void cmdline__break(struct reader *r);
/// Pay for reading `n` bytes a second time. False: too much was, and the line is broken.
bool cmdline__afford(struct reader *r, size_t n);

struct cmdline__word cmdline__read_word(struct reader *r);
/// `at` is on the second bracket of "((". False: this is no arithmetic, and `at` did not move.
bool cmdline__read_arithmetic(struct reader *r);
/// Read all expansions in the text of a here-document. True: there are some.
bool cmdline__read_document(struct found *f, struct str body, unsigned depth);

/// Read commands up to the end of the level.
void cmdline__read_level(struct reader *r);
/// The same for a text of its own.
void cmdline__read_text(struct found *f, struct str s, unsigned depth);
