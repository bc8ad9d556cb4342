#pragma once

#include "cli/ask.h"

// What the commands about bots share. Results are exit codes; what went wrong has been said.

enum { BOTS_TEXT_MAX = 1 << 20 };

/// Call the command's operation: with `params` (a row that is there wins over what follows), `bot` of
/// --bot, and the workspace of --project or of the current directory. As ask_value().
int bots__ask(struct cli *c, const struct ask_param *params, size_t n, struct arena *arena,
              const struct json **out);

/// The same, page by page: `row` for each item of the member `list`. With --json one page is printed as
/// it came. What was asked is in `params`; `cursor` is ours.
typedef void bots_row_fn(const struct json *row, void *arg);
int bots__each(struct cli *c, const struct ask_param *params, size_t n, const char *list,
               bots_row_fn *row, void *arg);

/// Say what is wrong with files, one note each: `diagnostics` of an answer.
void bots__note_diagnostics(struct cli *c, const struct json *answer);

/// A text from FILE, or from stdin for "-" and, unless that is a terminal, for NULL. Valid UTF-8 without
/// zero bytes; the maximum of `out` bounds it.
int bots__read_text(struct cli *c, const char *file, struct buf *out);

/// Two columns, a name and its value; objects are printed as JSON, null and what is empty not at all.
void bots__add_row(struct table *t, const char *name, const struct json *value);
