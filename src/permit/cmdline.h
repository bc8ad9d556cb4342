#pragma once

#include "base/arena.h"

// A shell command line, read without running it: which commands would it run, and what else does it do?
// The reader follows bash, which the tool `shell` uses.

/// One word after quotes are removed.
struct cmd_word {
    struct str text;
    bool dynamic; // the shell decides its value: an expansion, a glob, a brace list or a tilde
};

/// One simple command: `A=1 git status`.
struct cmd_simple {
    const struct cmd_word *assigns; // "A=1"
    const struct cmd_word *words;   // "git", "status"
    size_t n_assigns, n_words;
    bool fed;     // its input is a here-document or here-string of its own
    bool pattern; // no command: the patterns before a clause of `case`
};

enum {
    CMD_BROKEN = 1,      // cannot be read to its end: an open quote, or nested too deep
    CMD_SUBSTITUTES = 2, // $(...), `...`, <(...), ${A:-...} and their like
    CMD_COMPOUND = 4,    // a subshell, a group, a loop, a condition, a function
    CMD_HEREDOC = 8,     // << or <<<
};

/// What a line holds. Everything is in the arena.
struct cmdline {
    const struct cmd_simple
        *simples; // also those inside substitutions, groups and here-documents for a shell
    const struct cmd_word *writes; // targets of redirections that write a file
    size_t n_simples, n_writes;
    unsigned flags;
};

/// Read `line`. Every text gives an answer; `flags` says what the reader could not follow.
void cmdline_parse(struct cmdline *out, struct arena *a, struct str line);

/// The name a command is known by: the word without its directory ("/bin/rm" is "rm").
struct str cmd_name(const struct cmd_simple *c);
/// Is this the name of a shell, which takes commands as text?
bool cmd_is_shell(struct str name);
