#pragma once

// What the files of lua/ share.

#include <stdatomic.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/vec.h"
#include "lua/entry.h"
#include "lua/refs.h"
#include "lua/vm.h"

enum {
    VM__TICK = 1000,         // instructions between two looks at the clock
    VM__TICK_BIG = 25,       // the same while one instruction may cost much
    VM__BIG = 256 * 1024,    // bytes: a block from here on makes instructions cost much
    VM__WORK = 16 * 1024,    // steps inside C between two looks at the clock
    VM__TEXT_MAX = 8 * 1024, // bytes of a log line or of a fault's message
    VM__KEPT = 8,            // idle coroutines kept
};

enum vm__trip {
    TRIP_NONE,
    TRIP_TIME,
    TRIP_MEMORY,
    TRIP_KEYS, // a table's keys collide: growing it would take too much time
};

/// Why the allocator refused a block.
enum vm__refusal {
    REFUSED_FULL,
    REFUSED_DEEP, // many calls were open: a recursion without end
    REFUSED_KEYS, // moving a table's keys would take too long: see collide.c
};

struct vm__block {
    const void *p;
    size_t bytes;
};

/// What a coroutine is. Each has a pointer to one of its state's marks in its extra space; Lua
/// copies the main thread's, so a new coroutine is MARK_PLAIN.
enum vm__mark_kind {
    MARK_PLAIN,
    MARK_ENTRY,    // runs entries: Lua code may not resume, close or leave it
    MARK_WAITING,  // made by Lua code, suspended by entry_wait()
    MARK_POISONED, // ended by a limit: its hook may be off for good, so it never runs again
    MARK__COUNT
};
struct vm__mark {
    struct vm *vm;
    enum vm__mark_kind kind;
};

/// A coroutine that resumed another one; lives on the C stack.
struct vm__level {
    lua_State *L; // the one that resumed
    struct vm__level *up;
};

struct vm__thread {
    lua_State *L;
    int ref;
};

struct vm {
    lua_State *L;
    enum vm_trust trust;
    vm_log_fn *log;
    void *arg;
    const struct lib_backend *backend; // of the libraries; NULL: json and log only
    struct vm__mark marks[MARK__COUNT];
    uint64_t secret[2];       // what addresses are hidden with
    lua_CFunction own_format; // Lua's string.format
    // memory: alloc.c
    struct alloc__cell *slabs; // all, by their first cell
    struct alloc__cell *cells; // the free ones
    size_t used, memory_max, block_max;
    size_t lean;              // the least `used` since the last collection that was to make room
    size_t n_big;             // blocks of VM__BIG and more
    enum vm__refusal refusal; // the last one's reason
    vec(struct vm__block) hashes; // large hash parts of tables
    bool dead;
    vm_died_fn *died; // may be NULL
    void *died_arg;
    // time: limit.c
    struct entry *active;    // the entry whose Lua code runs, NULL outside
    lua_State *running;      // the coroutine that runs
    struct vm__level *level; // the coroutines that resumed it, up to the entry's own
    unsigned lenient;        // above 0 while C code of ours works on the state
    bool pressed;            // look at the clock at the next chance
    uint32_t work;           // steps done in C since the last look
    uint64_t ticks;
    // entry.c
    struct vm__thread kept[VM__KEPT];
    unsigned n_kept;
    struct entry *entries;
    // value.c
    const void *array_meta; // address of the metatable that marks arrays
    int array_ref;
    // refs.c and record.c
    struct refs__table *refs;
    struct record__table *records;
};

// ---- marks ----------------------------------------------------------------------------------

static inline struct vm__mark *vm__mark_of(lua_State *L)
{
    return *(struct vm__mark **)lua_getextraspace(L);
}

static inline void vm__mark(lua_State *L, struct vm *vm, enum vm__mark_kind kind)
{
    *(struct vm__mark **)lua_getextraspace(L) = &vm->marks[kind];
}

// ---- vm.c -----------------------------------------------------------------------------------

/// Take the value on top off; it is the global `name` from now on, and what require() gives for it.
void vm__publish(lua_State *L, const char *name);

// ---- alloc.c --------------------------------------------------------------------------------

void *alloc__lua(void *ud, void *p, size_t old, size_t want);

/// Collect everything and decide whether the state is dead. After the memory limit was passed, in an
/// entry of `owner`.
void alloc__recover(struct vm *vm, struct vm_owner *owner);

/// Give the memory back, after lua_close().
void alloc__close(struct vm *vm);

// ---- collide.c ------------------------------------------------------------------------------

/// Can a block of this size be the hash part of a large table?
bool collide__is_hash(size_t bytes);
/// Would a table that gets a hash part of this size now spend seconds moving its keys?
bool collide__check(const struct vm *vm, size_t bytes);
/// Such a block was taken or is about to be given back.
void collide__add(struct vm *vm, const void *p, size_t bytes);
void collide__remove(struct vm *vm, const void *p);

// ---- limit.c --------------------------------------------------------------------------------

/// Set the hook of the coroutine that is about to run.
void limit__arm(struct vm *vm, lua_State *L);
/// Make the running coroutine look at the clock at its next instruction. Allowed in the allocator.
void limit__press(struct vm *vm);
/// Raise if the running entry has passed a limit; looks at the clock.
void limit__check(lua_State *L);
/// True when the running entry has passed its limit. Raises nothing.
bool limit__expired(struct vm *vm);
/// An error with `status` was caught on `L`, its value on top: raise it again if it is no
/// business of the code that caught it.
void limit__caught(lua_State *L, int status);
/// Which limit an entry of `vm` has passed that ended with LUA_ERRMEM.
enum vm__trip limit__refused(const struct vm *vm);
/// What a tripped entry reports.
void limit__report(struct entry *en);

/// `steps` more steps were done in C, a few nanoseconds each; now and then looks at the clock.
static inline void limit__tick(lua_State *L, struct vm *vm, size_t steps)
{
    vm->work += (uint32_t)MIN(steps, VM__WORK);
    if (vm->work >= VM__WORK || vm->pressed) {
        limit__check(L);
    }
}

/// C code is about to do something linear in `bytes`.
static inline void limit__charge(lua_State *L, size_t bytes)
{
    limit__tick(L, vm_of(L), bytes / 8 + 1);
}

// ---- compile.c ------------------------------------------------------------------------------

/// Compile `text` as luaL_loadbufferx() does, but only for as long as the running entry may run.
/// `line` (may be NULL) is set to where the compiler stopped reading.
int compile__text(lua_State *L, struct str text, const char *chunk, int *line);

// ---- watchdog.c -----------------------------------------------------------------------------

/// What Lua code the loop thread runs now; only that thread writes it.
extern struct watchdog__now {
    struct entry *_Atomic entry; // NULL: none
    _Atomic uint64_t deadline;   // monotonic ns, of the last one that began
    _Atomic uint32_t budget_ms;
    atomic_bool asleep; // the watchdog is, and wants to be woken
} watchdog__now;

void watchdog__wake(void);

/// `en` runs from now on; NULL: nothing does.
static inline void watchdog__see(struct entry *en)
{
    if (en != NULL) {
        atomic_store_explicit(&watchdog__now.deadline, en->deadline, memory_order_relaxed);
        atomic_store_explicit(&watchdog__now.budget_ms, en->budget_ms, memory_order_relaxed);
    }
    atomic_store_explicit(&watchdog__now.entry, en, memory_order_relaxed);
    if (atomic_load_explicit(&watchdog__now.asleep, memory_order_relaxed)) {
        watchdog__wake();
    }
}

// ---- fault.c --------------------------------------------------------------------------------

/// Where `L` is or died; message and code as given. `message` may begin with a place, which
/// then counts and is cut off.
struct fault *fault__of_stack(enum fault_code code, lua_State *L, struct str message);
/// A text without a stack: `path` (may be NULL) is where the code came from.
struct fault *fault__of_text(enum fault_code code, const char *path, struct str message);
/// Push a traceback of `of` on `L`.
void fault__push_traceback(lua_State *L, lua_State *of, int level);

// ---- libs.c ---------------------------------------------------------------------------------

void libs__open(struct vm *vm);
/// Push the text of any value: of its __tostring (Lua code!), or its type and a number that is
/// the value's own but not its address.
struct str libs__push_text(lua_State *L, int idx);
/// Push that number alone, as %p prints it.
void libs__push_id(lua_State *L, int idx);

// ---- value.c, record.c, refs.c --------------------------------------------------------------

void value__open(struct vm *vm);
/// Fetch the fields that are missing, if the table at `idx` is a live record.
void record__fill(lua_State *L, int idx);
void record__close(struct vm *vm);
void refs__close(struct vm *vm);
/// End all that waits in a state.
void entry__close_all(struct vm *vm);
