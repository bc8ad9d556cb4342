#pragma once

#include "lua/vm.h"

// References from C to Lua values, by owner.
//
// C keeps Lua values (a hook's function, a timer's callback, a module's table) as a `vm_ref`. A reference belongs to an owner:
// one version of one module or plugin. When that version is freed, all its references are dropped at once; one that C still
// holds is stale from then on and gives nil, never another value.

/// 0 is no reference.
typedef uint64_t vm_ref;

struct vm_owner;

/// Make an owner in `vm`; `name` is copied. It lives until it is closed or the state is.
struct vm_owner *vm_owner_open(struct vm *vm, const char *name);
/// Drop all its references and forget it. It must not be the owner of an open entry.
void vm_owner_close(struct vm_owner *o);
const char *vm_owner_name(const struct vm_owner *o);
/// Set a hash of its code, which is copied; "" until then.
void vm_owner_set_content(struct vm_owner *o, const char *hash);
const char *vm_owner_content(const struct vm_owner *o);
/// The owner of the running entry; NULL when none runs, or it has no owner.
struct vm_owner *vm_owner_running(struct vm *vm);

/// Take the value on top of `L` off and keep it for `o`. Raises nothing.
vm_ref refs_take(lua_State *L, struct vm_owner *o);
/// Push what `ref` stands for; nil and false when it is stale or 0.
bool refs_push(lua_State *L, vm_ref ref);
/// Push the field `name` of the table that `ref` stands for; nil when that is no table or has no such field. Runs no
/// Lua code.
void refs_push_field(lua_State *L, vm_ref ref, const char *name);
/// Drop one reference; stale ones and 0 are allowed.
void refs_drop(struct vm *vm, vm_ref ref);
struct vm_owner *refs_owner(struct vm *vm, vm_ref ref); // NULL when stale
