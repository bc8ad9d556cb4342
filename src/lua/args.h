#pragma once

#include <lua.h>

#include "base/arena.h"
#include "base/buf.h"

// Arguments of library functions. The checks raise "fs.read: path must be a string, not table", where
// `fn` is "fs.read" and `what` is "path". For C functions that Lua called.

/// The string at `idx`, borrowed from the Lua stack.
struct str args_str(lua_State *L, int idx, const char *fn, const char *what);
/// The same for a string without NUL bytes.
const char *args_z(lua_State *L, int idx, const char *fn, const char *what);
/// Check that `idx` is a function.
void args_fn(lua_State *L, int idx, const char *fn);
/// A number of seconds in milliseconds: at least 1, at most ten years.
uint64_t args_ms(lua_State *L, int idx, const char *fn, const char *what);
/// Check that the table at `idx` has no other keys than `keys`, which ends with NULL.
void args_keys(lua_State *L, int idx, const char *fn, const char *const *keys);
/// Push the field `key` of the table at `idx`; false (and nil) when it has none.
bool args_field(lua_State *L, int idx, const char *key);

/// " (did you mean 'NEAR'?)" for the end of a message; "" when `near` is NULL. On the Lua stack.
const char *args_near(lua_State *L, const char *near);
/// Push a boolean; returns 1.
int args_bool(lua_State *L, bool b);
/// Push nil and a message; returns 2. The message is cut at 511 bytes.
int args_fail(lua_State *L, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// Memory that Lua does not count, for a C function that may raise.
struct args_scratch {
    struct arena arena;
    struct buf buf; // at most VALUE_BYTES
};

/// Push a userdata that owns an empty scratch; the collector frees it.
struct args_scratch *args_scratch(lua_State *L);
/// The JSON text that was written to the scratch. Raises when it did not fit: "http.post: body is larger than ...".
struct str args_json(lua_State *L, struct args_scratch *s, const char *fn, const char *what);
