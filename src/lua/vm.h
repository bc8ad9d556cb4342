#pragma once

#include <lua.h>

#include "base/log.h"

// One Lua state with its limits. Everything here belongs to one thread. Lua code runs only through
// an entry (lua/entry.h); what these functions do with the state runs no Lua code.

struct vm;
struct vm_owner;    // lua/refs.h
struct lib_backend; // lua/lib.h

/// Whose code a state runs; src/lua/libs.def says what each of them gets to see.
///   VM_USER     the user's own files and trusted projects: the whole standard library
///   VM_SANDBOX  agent-written files: no io, debug, package, require; of os the clock only
enum vm_trust { VM_USER, VM_SANDBOX };

enum {
    VM_BUDGET_MS = 200,          // time inside Lua without a pause
    VM_LOAD_BUDGET_MS = 500,     // the same while a file loads
    VM_COMPILE_MS = 200,         // of that, to compile it
    VM_MEMORY = 64 * 1024 * 1024 // bytes a state
};
enum { VM_CHUNK_MAX = 1024 * 1024, VM_LOAD_MAX = 256 * 1024 }; // bytes of a file; of load()

/// A line that Lua code wrote with log.* or print(). `owner` is that of the running entry, or NULL. `text` is borrowed, may
/// hold any bytes and is at most 8 KiB.
typedef void vm_log_fn(void *arg, const struct vm_owner *owner, enum log_level level,
                       struct str text);

struct vm_opts {
    enum vm_trust trust;
    size_t memory_max; // bytes, 0 for VM_MEMORY; a single block may have a quarter of it
    vm_log_fn *log;    // NULL: lines are dropped
    void *arg;         // for `log`, `backend` and vm_arg(), borrowed
    const struct lib_backend *backend; // of libraries, borrowed; NULL: json and log only
};

/// Make a state with the libraries of its trust. Never fails.
struct vm *vm_open(const struct vm_opts *opts);

/// vm_kill(), then free the state. NULL is allowed.
void vm_close(struct vm *vm);

/// A state was found dead: still full after everything was collected. Called once, from inside
/// entry_end(): note it and return. `owner` is that entry's, or NULL.
typedef void vm_died_fn(void *arg, struct vm_owner *owner);

/// Call `died` when the state dies. `arg` is borrowed until the state is closed.
void vm_on_death(struct vm *vm, vm_died_fn *died, void *arg);

/// Run no more code in it: every entry that waits ends with STALE_HANDLE now, and so does each one
/// that begins later. No entry of it may be running.
void vm_kill(struct vm *vm);

/// The state that a coroutine belongs to.
struct vm *vm_of(lua_State *L);
/// Its main thread, for building values from C; never call functions on it.
lua_State *vm_main(struct vm *vm);
/// What it was opened with.
void *vm_arg(const struct vm *vm);

/// Call `open` (a function of ours that leaves one value) and keep that value as the global `name`
/// and, with user trust, as what `require(name)` gives.
void vm_add_lib(struct vm *vm, const char *name, lua_CFunction open);
/// The same for a table of functions; `fns` ends with {NULL, NULL}.
struct luaL_Reg;
void vm_add_functions(struct vm *vm, const char *name, const struct luaL_Reg *fns);

/// Put `fn` in the place of a library's function: vm_replace(vm, "os", "execute", fn). `lib` "_G"
/// means the globals. The library must exist.
void vm_replace(struct vm *vm, const char *lib, const char *name, lua_CFunction fn);

// ---- memory in C that belongs to a state ----------------------------------------------------

/// Collect garbage if `bytes` more would not fit. False: they do not fit even then.
bool vm_make_room(struct vm *vm, size_t bytes);
/// Count `bytes` that C keeps for the state's code as used by it. False: there is no room, and nothing
/// is counted.
bool vm_charge(struct vm *vm, size_t bytes) MUST_CHECK;
/// They were freed.
void vm_discharge(struct vm *vm, size_t bytes);
/// Change the limit. A state that uses more than that now trips at its next block.
void vm_set_memory(struct vm *vm, size_t memory_max);

struct vm_stats {
    size_t memory;  // bytes
    uint64_t ticks; // times the deadline was looked at
    bool dead;      // so full that nothing can run: close it and rebuild from the last good version
};
/// The figures of now.
struct vm_stats vm_get_stats(const struct vm *vm);
