#pragma once

#include "base/json.h"
#include "cli/cli_int.h"
#include "view/table.h"

// How an answer is shown: a layout is data, and there is one way to print it.
//
// Texts are templates. In braces stands a value of the row:
//
//     {name} {tokens.input}   a member; a list is its items, an object its JSON
//     {} {@}                  the row itself; its key, when the rows are members of an object
//     {$0} {$socket}          a word of the command line; the path of the hub's socket
//     {=value} {#items}       as JSON; how many items it has
//     {on?yes:no} {kind=lua?yes:no}   `yes` for a value that is there, not false and not 0
//     {-force?yes:no}         whether the flag was given
//     {hash:12}               its first 12 bytes
//
// "A||B" is A when every value in A has a text, else B.

typedef void cell_fn(struct buf *out, const struct json *row);

enum cell_kind {
    CELL_TEXT, // may be cut at its end
    CELL_DIM,
    CELL_ID,    // what commands take: never cut
    CELL_STATE, // in a colour, by the word
    CELL_TIME,  // "3 min ago" on a terminal, RFC 3339 elsewhere
    CELL_PATH,  // may be cut at its beginning; a terminal gets ~ for the home directory
    CELL_WORD,  // short, never cut
    CELL_LONG,  // the last column: continues in the next line
    CELL_SIZE,  // bytes
    CELL_SPAN,  // seconds
};

struct column {
    const char *head;  // NULL ends a list of columns
    const char *value; // a template; NULL: the member named like the head, in small letters
    enum cell_kind kind;
    cell_fn *make; // writes the cell instead, if set
};

#define COL(head, kind, value)                                                                     \
    {                                                                                              \
        head, value, CELL_##kind, NULL                                                             \
    }
#define COL_FN(head, kind, fn)                                                                     \
    {                                                                                              \
        head, NULL, CELL_##kind, fn                                                                \
    }
#define COLUMNS(...)                                                                               \
    (const struct column[])                                                                        \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            NULL, NULL, CELL_TEXT, NULL                                                            \
        }                                                                                          \
    }

/// With `rows`, the member of the answer that holds them, a table. Without, the answer is shown itself: a
/// line for each column that has a text, or for each member without columns; the head "*" stands for the
/// members of its value that the answer has not itself.
struct layout {
    const char *rows;
    const struct column *columns;
    const char *empty; // said when there are no rows; a template over the answer
};

/// Append `template`, filled from `row` (may be NULL). `key` is what {@} stands for.
void show_fill(const struct cli *c, struct buf *out, const char *template, const struct json *row,
               struct str key);
/// Say a template as a note; NULL says nothing.
void show_note(struct cli *c, const char *template, const struct json *v);

/// Print a line: `head` in its tint (NULL: none), then `rest`, both templates over `v`. `key` is what {@} stands for.
void show_line(struct cli *c, enum out_tint tint, const char *head, const char *rest,
               const struct json *v, struct str key);
/// Print the member `output` of an answer: a text as it is, anything else as indented JSON.
void show_output(struct cli *c, const struct json *v);

/// A table for the columns, and its rows: the items or members of `rows`. End it with table_fini().
void show_begin(struct table *t, const struct column *columns);
void show_add(struct cli *c, struct table *t, const struct column *columns,
              const struct json *rows);
void show_add_row(struct cli *c, struct table *t, const struct column *columns,
                  const struct json *row, struct str key);
/// Print an answer, or rows of one, by its layout.
void show_answer(struct cli *c, const struct layout *l, const struct json *v);
void show_rows(struct cli *c, const struct column *columns, const struct json *rows);
/// The same for an answer that the command made itself: its text, which must be JSON. With --json it is
/// printed as it is.
void show_local(struct cli *c, const struct layout *l, struct str json);
/// Say what is wrong with files, one note each: the member `diagnostics` of an answer.
void show_diagnostics(struct cli *c, const struct json *v);

/// The colour of a word for a state, one for the whole program.
enum out_tint show_tint(struct str state);
