#pragma once

#include "base/str.h"

struct jw;

// The table of operations (ops.def) as data. Both the hub and its clients read it.

enum op_id {
#define OP(id, ...) OP_##id,
#include "proto/ops.def"
#undef OP
    OP__COUNT
};

enum op_method { OP_GET, OP_POST, OP_PUT, OP_PATCH, OP_DELETE };

enum op_flags {
    OP_MUTATES = 1,     // changes something: Origin is checked, Idempotency-Key is honoured
    OP_STREAMS = 2,     // may answer with server-sent events
    OP_OPEN = 4,        // needs no authentication
    OP_TEXT = 8,        // answers text/plain instead of JSON
    OP_SOCKET = 16,     // only over the Unix socket: never for browsers, models or the network
    OP_MAY_STREAM = 32, // answers JSON, or server-sent events to a client that asks for them
    OP_DESTROYS = 64,   // changes more than it adds: something may be lost
    // Who may call it, beside clients. Only clients decide on trust and permission, or reach secrets and tokens.
    OP_LUA = 128,    // Lua that runs in the hub (user trust), as hub.<noun>.<verb>
    OP_AGENT = 256,  // agent-written Lua in its sandbox, over the host protocol
    OP_WHOLE = 512,  // the body is its one parameter, whatever it holds
    OP_PAGES = 1024, // answers with a whole list, of which `limit` and `cursor` cut a page
    OP_WAITS = 2048, // answers when what it runs has ended: only the hub limits how long that takes
};

/// Who calls an operation. Plugins may not set the parameters of the user (`!` in ops.def).
enum op_caller { OP_BY_CLIENT, OP_BY_PLUGIN };

struct op {
    const char *name;
    enum op_method method;
    const char *path;
    unsigned flags;
    const char *params;
    const char *help;
};
extern const struct op ops[OP__COUNT];

/// One entry of `params`.
struct op_param {
    struct str name;
    char type; // s i n b a o j
    bool optional;
    bool in_path;   // else query or body, see op_takes_body()
    bool of_person; // never from a plugin
};

/// Walk the parameters: `struct str rest = str_of(op->params); while (op_next_param(op, &rest, &p))`
bool op_next_param(const struct op *op, struct str *rest, struct op_param *out);
bool op_takes_body(const struct op *op);      // POST, PUT, PATCH
const char *op_method_name(enum op_method m); // "GET"
/// What a parameter means (params.def); NULL when no row says it.
const char *op_param_help(const struct op *op, struct str name);
/// What a parameter type is called in JSON Schema: "string", "integer", ...; "" for any.
const char *op_type_name(char type);
/// The JSON schema of a value of that type. `help` may be NULL.
void op_write_type(struct jw *w, char type, const char *help);
const struct op *op_find(const char *name); // NULL when there is none
/// Whether `before` and `word` are the path of an operation: nothing of that name can be addressed there.
bool op_has_path(const char *before, struct str word);
