#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "view/out.h"

// Rows of cells, printed as columns that fit the terminal.

/// What becomes of a column when the terminal is too narrow for all of them.
enum table_fit {
    TABLE_KEEP,     // nothing: ids, names, numbers
    TABLE_CUT,      // the end is cut off
    TABLE_CUT_HEAD, // the beginning is cut off: the end of a path says more
    TABLE_WRAP,     // continues in the next line; only for the last column
};

enum { TABLE_COLUMNS = 12 };

struct table {
    struct arena arena;
    size_t columns;
    struct {
        const char *head; // NULL: none
        enum table_fit fit;
    } column[TABLE_COLUMNS];
    vec(struct cell) cells;
};
struct cell {
    struct str text; // escaped, in the arena of the table
    enum out_tint tint;
};

/// A table without heads whose last column wraps; table_set_column() changes that.
void table_init(struct table *t, size_t columns);
void table_fini(struct table *t);
/// `head` is borrowed.
void table_set_column(struct table *t, size_t i, const char *head, enum table_fit fit);
/// Add the next cell, row by row. The text is copied.
void table_add(struct table *t, enum out_tint tint, struct str text);
void table_addf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/// Print it. A terminal gets heads, columns that fit its width, and no column that is empty; a pipe
/// gets every cell whole and no heads.
void table_print(const struct table *t, struct out *o);

/// Print `text` as a line of its own that begins at column `indent`, where the cursor is. On a terminal it is broken
/// at spaces, and later rows begin there too.
void table_print_text(struct out *o, struct str text, size_t indent);
