#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/// No value is more than this many keys and array elements below the root, whether the way down
/// is written with headers, dotted keys or brackets. So code that walks a document may recurse.
enum { TOML_DEPTH = 128 };

enum toml_type {
    TOML_STR,
    TOML_INT,
    TOML_DOUBLE,
    TOML_BOOL,
    TOML_DATETIME,       // with offset
    TOML_DATETIME_LOCAL, // without
    TOML_DATE_LOCAL,
    TOML_TIME_LOCAL,
    TOML_ARR,
    TOML_TABLE,
};

/// One value with the place it came from: line and column from 1, columns in characters (a tab is
/// one, and so is a letter of several bytes). A table's place is its header, its opening brace or
/// the first key that made it. Lives in the arena given to toml_parse().
struct toml {
    enum toml_type type;
    uint32_t line, col;
    uint32_t n; // elements or members
    union {
        struct str
            s; // NUL-terminated; a string may hold U+0000 besides. Of a date or time the text
               // in one spelling: "T" and "Z" upper case, 0, 3, 6 or 9 digits of fraction
        int64_t i;
        double d;
        bool b;
        struct toml *items;          // never NULL
        struct toml_member *members; // never NULL, in the order of the file
    };
};

struct toml_member {
    struct str key;     // NUL-terminated as well
    uint32_t line, col; // of the key
    struct toml value;
};

/// Parse a whole TOML 1.0 document; the root is a table. Strings never point into `text`.
/// On failure `*out` is NULL, the code is ERR_PARSE, `e` reads "line 3, column 7: ..." and
/// `line`/`col` (may be NULL) hold the place; a text of 4 GiB is ERR_TOO_LARGE and has no place.
/// Time is linear in `text.n`, whatever the text holds.
int toml_parse(struct toml **out, struct arena *a, struct str text, uint32_t *line, uint32_t *col,
               struct err *e) MUST_CHECK;

/// Getters take NULL and the wrong type, and then answer NULL. They look at the members one by
/// one: to read all of a large table use toml_foreach().
const struct toml *toml_get(const struct toml *table, const char *key);
const struct toml *toml_get_str(const struct toml *table, struct str key);

/// "string", "integer", "float", "boolean", "offset date-time", ... for messages; "absent" for NULL.
const char *toml_type_name(const struct toml *v);

#define toml_foreach(it, table)                                                                    \
    for (const struct toml_member *it = (table)->members; it < (table)->members + (table)->n; it++)

/// Append `s`, which is UTF-8, as a string with its quotes.
void toml_add_str(struct buf *out, struct str s);
