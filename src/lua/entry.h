#pragma once

#include "lua/fault.h"
#include "lua/vm.h"

// Entries: the one way into a Lua state.
//
//     struct entry en = {.budget_ms = 50, .owner = owner};
//     lua_State *L = entry_begin(&en, vm);
//     refs_push(L, handler);             // the function, then its arguments
//     lua_pushinteger(L, 7);
//     if (entry_run(&en, 1) == ENTRY_DONE) { ... results at 1 .. en.n_results of en.L ... }
//     entry_end(&en);
//
// An entry runs on a kept coroutine under a budget of time inside Lua, the state's memory limit
// and an owner to whom registrations made meanwhile belong. A C function that Lua called may
// suspend it (entry_wait); the loop continues it later (entry_wake).
//
// Between entry_begin() and entry_end() C code may build and read values on en.L freely: memory is
// refused only while Lua code runs. It must use raw access (lua_rawget, lua_next, value_*): nothing
// but entry_run() and entry_wake() may run Lua code.

struct entry;
struct entry_wait;

enum entry_kind { ENTRY_CALL, ENTRY_LOAD }; // decides the default budget and the codes of faults

enum entry_status {
    ENTRY_DONE,    // `n_results` values are on L
    ENTRY_WAITING, // suspended: `done` is called when it ends
    ENTRY_FAILED,  // `fault` says why
};

/// A suspended entry came to its end. It must be given to entry_end(), here or later.
typedef void entry_done_cb(struct entry *en, enum entry_status status);

/// In the caller's storage, zeroed but for the first part; it must stay until entry_end().
struct entry {
    // set by the caller before entry_begin()
    enum entry_kind kind;
    uint32_t budget_ms;     // 0: VM_BUDGET_MS or VM_LOAD_BUDGET_MS; starts anew after each wait
    struct vm_owner *owner; // borrowed, may be NULL
    entry_done_cb *done;    // NULL: this entry may not wait
    uint64_t now;           // monotonic ns if the caller has just looked, else 0; of the first run
    void *arg;              // the caller's
    // for the caller to read
    lua_State *L;
    int n_results;
    struct fault *fault; // freed by entry_end()
    // private to lua/
    struct vm *vm;
    int ref;                   // keeps L
    struct entry *up;          // the entry of this state that was running when this one ran
    struct entry *prev, *next; // all entries of the state
    struct entry_wait *wait;   // what it waits for
    uint64_t deadline;         // monotonic ns
    uint64_t looked_ns;        // when this run was looked at first; 0: not yet
    uint64_t looked_cpu_ns;    // the thread's own time then
    uint64_t forgiven_ns;      // how far the deadline was moved since
    unsigned char trip;        // which limit was passed
    unsigned char phase;
    bool compiling;
};

/// Begin an entry; returns en->L, empty. Push the function and its arguments there.
lua_State *entry_begin(struct entry *en, struct vm *vm);

/// Compile `text` (source, never bytecode, at most VM_CHUNK_MAX) and push it as a function of no
/// arguments. `chunk` is "@" and the path. Its globals are the state's; for others set its first
/// upvalue. Compiling may take VM_COMPILE_MS. Returns 0, or -1 with en->fault set; only entry_end()
/// is allowed then.
int entry_push_chunk(struct entry *en, struct str text, const char *chunk) MUST_CHECK;

/// Call the function that is below `nargs` arguments on the stack. Whatever the code does, this returns
/// within the budget and a few milliseconds.
enum entry_status entry_run(struct entry *en, int nargs);

/// Give the coroutine back. An entry that waits is cancelled: its to-be-closed variables are closed
/// under the same limits, the `cancel` of its wait is called, `done` is not. An entry that never began
/// stays as it is.
void entry_end(struct entry *en);

// ---- waiting: for C functions that Lua calls -------------------------------------------------

/// Called when an entry is cancelled while it waits: stop the work, do not wake.
typedef void entry_cancel_cb(struct entry_wait *w);

/// In the storage of the code that does the work meanwhile.
struct entry_wait {
    struct entry *en;        // NULL unless waiting
    entry_cancel_cb *cancel; // may be NULL
};

/// Raise "cannot wait here: ..." unless the running code may suspend. For use before the work
/// begins.
void entry_check_wait(lua_State *L);

/// Suspend the running entry: `return entry_wait(L, w)`, as the last thing a C function does. The
/// function returns to Lua what entry_wake() brings. entry_check_wait() has passed, before the work
/// began: nothing is checked again and nothing raises, since the work would continue without a waiter.
int entry_wait(lua_State *L, struct entry_wait *w);

/// Continue a suspended entry: push the values on the state that entry_wake_begin() returns, then call
/// entry_wake(). `w` may be used again before any Lua code runs. Never from inside entry_wait().
lua_State *entry_wake_begin(struct entry_wait *w);
void entry_wake(struct entry_wait *w, int n_values);

/// The running code, if any, waited `ns` for another process to read what it wrote: don't count that time.
void entry_excuse(struct vm *vm, uint64_t ns);

/// The entry that runs in this state now, NULL for none.
struct entry *entry_running(struct vm *vm);
