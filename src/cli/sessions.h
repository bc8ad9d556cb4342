#pragma once

#include "cli/ask.h"

// Sessions, asked for by commands. Results are exit codes; what went wrong has been said.

enum { SESSION_ID_MAX = 64 }; // bytes of an id, with its NUL

/// ask_value(), but with --json nothing is printed and the answer is given all the same.
int sessions__ask(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
                  struct arena *arena, const struct json **out);

/// The id that `given` is the start of, which must be unique. NUL-terminated into `out`.
int sessions__resolve(struct cli *c, const char *given, char *out, size_t size);
/// A row of the list, newest first; false ends the walk.
typedef bool sessions_row_fn(const struct json *row, void *arg);
int sessions__each(struct cli *c, sessions_row_fn *fn, void *arg);
/// A page of its events with a number greater than `after`: `{events, next}`.
int sessions__events(struct cli *c, const char *id, uint64_t after, struct arena *arena,
                     const struct json **out);

/// Say what was chosen for a session that begins and nobody asked for.
void sessions__note(struct cli *c, const struct json *row);
/// Print what a rewind did, or on trial would do, a line for each file.
void sessions__print_rewound(struct cli *c, const struct json *v);

/// The answer `{models: [...]}` of a provider; with `keys` it is asked with those of our environment. With --json
/// it has been printed.
int models__of(struct cli *c, const char *name, bool keys, struct arena *arena,
               const struct json **out);
