#pragma once

#include "base/json.h"
#include "lua/vm.h"

// Records: objects of C that Lua code sees as tables.
//
// A handler gets a light table. A field that it reads is fetched from C then, once; a field that it
// writes is kept in the table. The object in C does not change: when the handler has ended, the caller
// asks what is different (record_read) and decides.
//
//     static const struct record_field fields[] = {
//         {.name = "tool_name", .get = get_tool_name},
//         {.name = "input", .get = get_input},
//     };
//     static const struct record_type call_type = {"call", fields, ARRAY_LEN(fields)};
//
//     record_id id = record_push(L, &call_type, call);      // an argument of an entry
//     entry_run(...);
//     if (record_is(en.L, 1, id) && record_read(vm, id, &arena, values, &changed, &e) == 0) ...
//     record_drop(vm, id);

enum { RECORD_FIELDS = 64 };

struct record_field {
    const char *name;
    /// Give the value as it is now; false for none (nil). `out` may point into `obj`. NULL, and no `push`: `obj`
    /// is a JSON object, and this is its member of that name.
    bool (*get)(const void *obj, struct json *out);
    /// Instead of `get`: push a value that is no JSON, such as a function. Never read back.
    void (*push)(lua_State *L, void *obj);
    bool exact; // read with value_read_exact()
};

struct record_type {
    const char *name; // for messages
    const struct record_field *fields;
    unsigned n; // at most RECORD_FIELDS
};

typedef uint64_t record_id; // 0 is none

/// Push a table for `obj` (borrowed until record_drop()). Outside of an entry's Lua code only.
record_id record_push(lua_State *L, const struct record_type *type, void *obj);

/// Is the value at `idx` the table of this record?
bool record_is(lua_State *L, int idx, record_id id);

/// Was any field read or written? False for almost every handler, and then nothing changed.
bool record_touched(const struct vm *vm, record_id id);

/// What differs from the object: bit i of `*changed` stands for field i, whose new value is then
/// values[i] (NULL: it was removed). `values` has as many elements as the type has fields. Returns
/// 0 or the negative code of value_read(), with the record's and the field's name in `e`.
int record_read(struct vm *vm, record_id id, struct arena *a, const struct json **values,
                uint64_t *changed, struct err *e) MUST_CHECK;

/// The object is about to be freed: code that kept the table gets an error when it reads a field that was not read before.
/// 0 and records that are dropped already are allowed.
void record_drop(struct vm *vm, record_id id);
