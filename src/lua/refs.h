#pragma once

#include "lua/vm.h"

// References from C to Lua values, by owner.
//
// Whatever C keeps of Lua (a hook's function, a timer's callback, a module's table) it keeps as a
// `vm_ref`. A reference belongs to an owner: one version of one module or plugin. When that version
// goes, its references go with it, all at once; a reference that is still held somewhere in C
// is stale from then on and gives nil, never another value.

/// 0 is no reference.
typedef uint64_t vm_ref;

struct vm_owner;

/// Make an owner in `vm`: `name` (copied) and which version of it. It lives until it is
/// closed or the state is.
struct vm_owner *vm_owner_open(struct vm *vm, const char *name, uint32_t generation);
/// Drop all its references and forget it. It must not be the owner of an open entry.
void vm_owner_close(struct vm_owner *o);
const char *vm_owner_name(const struct vm_owner *o);
/// Which code it is, as a hash of it; copied. For whoever asks later; "" until it is set.
void vm_owner_set_content(struct vm_owner *o, const char *hash);
const char *vm_owner_content(const struct vm_owner *o);
uint32_t vm_owner_generation(const struct vm_owner *o);
size_t vm_owner_refs(const struct vm_owner *o); // how many references it has
/// Who runs now: the owner of the running entry; NULL outside, or if that has none.
struct vm_owner *vm_owner_running(struct vm *vm);

/// Take the value on top of `L` off and keep it for `o`. Raises nothing.
vm_ref refs_take(lua_State *L, struct vm_owner *o);
/// Push what `ref` stands for; nil and false when it is stale or 0.
bool refs_push(lua_State *L, vm_ref ref);
/// Drop one reference; stale ones and 0 are allowed.
void refs_drop(struct vm *vm, vm_ref ref);
struct vm_owner *refs_owner(struct vm *vm, vm_ref ref); // NULL when stale
