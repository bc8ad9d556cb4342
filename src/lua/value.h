#pragma once

#include "base/json.h"
#include "lua/vm.h"

// JSON values to Lua and back.
//
//     JSON        Lua
//     null        json.null inside a container and at the top (a light userdata, true as a condition)
//     array       a table that is marked as an array, so that an empty one stays one
//     object      a plain table
//     integer     integer (64 bits), number: float
//
// A table made in Lua is an array when it is a non-empty sequence and nothing else, or when it
// was made by json.array; otherwise it is an object. Integer keys of an object become text, except where
// value_read_exact() reads them.

enum { VALUE_DEPTH = 64, VALUE_COUNT = 256 * 1024, VALUE_BYTES = 16 * 1024 * 1024 };

/// Push `v`, NULL as nil. Inside a C function that Lua called this may raise (a limit was passed): the
/// function keeps memory that must not be lost in a userdata. Elsewhere it cannot fail.
void value_push(lua_State *L, const struct json *v);

/// Read the value at `idx` into `a`; strings are copied, bad UTF-8 becomes U+FFFD, nil is null.
/// Returns 0, or a negative code with `*out` NULL and `e` naming the place: "value.a[3]: a function
/// cannot be sent". Refused are functions, coroutines, userdata, numbers that are not finite,
/// tables that hold themselves, other keys than texts and integers, what is deeper, more or longer
/// than the bounds above, and what takes longer to walk than the running entry, or else VM_BUDGET_MS,
/// allows. Runs no Lua code and raises nothing.
int value_read(struct json **out, struct arena *a, lua_State *L, int idx, struct err *e) MUST_CHECK;

/// The same for values that go back to Lua and nowhere else: the value itself is an object, whatever its
/// keys are, and value_push() gives integer keys (at most VALUE_INTEGERS) back as integers. In the JSON
/// value they are marked by JSON_INTEGER_KEY.
int value_read_exact(struct json **out, struct arena *a, lua_State *L, int idx,
                     struct err *e) MUST_CHECK;
enum { VALUE_INTEGERS = 4096 }; // numbers can be chosen to collide: see collide.c

/// t[name] = the value on top, which is taken off; `t` is the table below it. No metamethods: they would be Lua code.
void value_set(lua_State *L, const char *name);
/// The same with a value that is not on the stack yet: the table is on top.
void value_set_str(lua_State *L, const char *name, const char *text);
void value_set_int(lua_State *L, const char *name, lua_Integer n);
void value_set_bool(lua_State *L, const char *name, bool b);

/// Set every field of the table at `from` in the table at `to` as well; take every field out of the table at `idx`. No
/// metamethods.
void value_copy_fields(lua_State *L, int from, int to);
void value_clear_fields(lua_State *L, int idx);

/// json.null
void value_push_null(lua_State *L);
bool value_is_null(lua_State *L, int idx);
/// Mark the table on top as an array.
void value_mark_array(lua_State *L);
bool value_is_array(lua_State *L, int idx); // is it marked?
