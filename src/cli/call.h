#pragma once

#include "cli/ask.h"
#include "cli/show.h"

// Commands that are data: a row of commands.def names an operation and a form, and call_run() does
// the rest.
//
// The parameters of the operation find their values by themselves, in this order:
//
//     a flag of the same name ('-' for '_'); `--no-X` gives X = false
//     the words of the command line: first those in the path, then by their names in ARGUMENTS
//     working_dir: the current directory; umask: ours; limit and cursor: page by page
//
// In ARGUMENTS, FILE is a file or stdin whose text is the value, DIR and PATH are made absolute (PATH|NAME where it exists),
// `|-` reads stdin, and `[NAME...]` is a list.

struct form {
    // parameters of the words, in order, when their names are others: "name body"
    const char *words;
    const char *fixed, *fixed_value; // a parameter with a value of its own
    const char *here;                // one that is the current directory
    bool anywhere;                   // `working_dir` is not sent
    bool session;                    // the first word is the start of a session's id
    struct layout layout;            // of the answer; without rows and columns nothing is shown
    const char *text;                // printed after it, a template over the answer
    const char *said;                // a note after success, a template over the answer
    /// Print what a layout cannot; called after it.
    void (*print)(struct cli *c, const struct json *v);
    /// The exit code of a command whose operation succeeded.
    int (*judge)(struct cli *c, const struct json *v);
};

/// Run the command `c->cmd` by its operation and its form.
int call_run(struct cli *c);
/// The same with another operation or form.
int call_with(struct cli *c, enum op_id op, const struct form *f);

/// A text from FILE, or from stdin for "-" and, unless that is a terminal, for NULL. Valid UTF-8
/// without zero bytes; the maximum of `out` bounds it. The exit code.
int call_read_text(struct cli *c, const char *file, struct buf *out);

// the forms, in the cmd_*.c of their nouns
#define CODE(fn)
#define CALL(name)        extern const struct form form_##name;
#define COMMAND(how, ...) how
#include "cli/commands.def"
#undef CODE
#undef CALL
#undef COMMAND
