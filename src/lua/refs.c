// References from C to Lua values, by owner.
//
// The values are in Lua's registry. A C array has a slot for each: its place there, its owner and its
// generation. A reference is slot and generation, so one that was dropped can never mean a value that
// the slot has later. An owner's slots form a list: dropping all is one walk.

#include "lua/refs.h"

#include <assert.h>

#include "base/list.h"
#include "lua/vm_int.h"

struct slot {
    uint32_t generation; // even: free; odd: in use
    uint32_t next, prev; // of the owner's list, or of the free one; 0 ends it
    int value;           // registry reference
    struct vm_owner *owner;
};

struct refs__table {
    vec(struct slot) slots; // [0] is never used
    uint32_t free;
    struct vm_owner *owners;
};

struct vm_owner {
    struct vm *vm;
    char *name, *content;
    uint32_t first; // slot
    struct vm_owner *prev, *next;
};

static struct refs__table *table_of(struct vm *vm)
{
    if (vm->refs == NULL) {
        vm->refs = xcalloc(1, sizeof *vm->refs);
        vec_push(&vm->refs->slots, ((struct slot){0}));
    }
    return vm->refs;
}

/// The slot of a live reference, or 0.
static uint32_t slot_of(struct vm *vm, vm_ref ref)
{
    uint32_t i = (uint32_t)ref;
    if (vm->refs == NULL || i == 0 || i >= vm->refs->slots.n) {
        return 0;
    }
    return vm->refs->slots.p[i].generation == (uint32_t)(ref >> 32) ? i : 0;
}

static void drop_slot(struct vm *vm, uint32_t i)
{
    struct refs__table *t = vm->refs;
    struct slot *s = &t->slots.p[i];
    *(s->prev != 0 ? &t->slots.p[s->prev].next : &s->owner->first) = s->next;
    if (s->next != 0) {
        t->slots.p[s->next].prev = s->prev;
    }
    s->generation++;
    s->next = t->free;
    t->free = i;
    vm->lenient++;
    luaL_unref(vm->L, LUA_REGISTRYINDEX, s->value);
    vm->lenient--;
}

struct vm_owner *vm_owner_open(struct vm *vm, const char *name)
{
    struct refs__table *t = table_of(vm);
    struct vm_owner *o = xcalloc(1, sizeof *o);
    o->vm = vm;
    o->name = xstrdup(name);
    o->content = xstrdup("");
    list_add(&t->owners, o);
    return o;
}

void vm_owner_close(struct vm_owner *o)
{
    while (o->first != 0) {
        drop_slot(o->vm, o->first);
    }
    list_remove(&o->vm->refs->owners, o);
    free(o->name);
    free(o->content);
    free(o);
}

const char *vm_owner_name(const struct vm_owner *o)
{
    return o->name;
}

void vm_owner_set_content(struct vm_owner *o, const char *hash)
{
    free(o->content);
    o->content = xstrdup(hash);
}

const char *vm_owner_content(const struct vm_owner *o)
{
    return o->content;
}

struct vm_owner *vm_owner_running(struct vm *vm)
{
    return vm->active != NULL ? vm->active->owner : NULL;
}

vm_ref refs_take(lua_State *L, struct vm_owner *o)
{
    assert(vm_of(L) == o->vm);
    struct refs__table *t = table_of(o->vm);
    uint32_t i = t->free;
    if (i == 0) {
        i = (uint32_t)t->slots.n;
        vec_push(&t->slots, ((struct slot){0}));
    }
    struct slot *s = &t->slots.p[i];
    t->free = t->free != 0 ? s->next : 0;
    assert(s->generation % 2 == 0);
    s->generation++;
    s->owner = o;
    s->prev = 0;
    s->next = o->first;
    if (o->first != 0) {
        t->slots.p[o->first].prev = i;
    }
    o->first = i;
    o->vm->lenient++; // an error here would leave half a reference
    int value = luaL_ref(L, LUA_REGISTRYINDEX);
    o->vm->lenient--;
    t->slots.p[i].value = value;
    return (uint64_t)t->slots.p[i].generation << 32 | i;
}

bool refs_push(lua_State *L, vm_ref ref)
{
    struct vm *vm = vm_of(L);
    uint32_t i = slot_of(vm, ref);
    if (i == 0) {
        lua_pushnil(L);
        return false;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, vm->refs->slots.p[i].value);
    return true;
}

void refs_push_field(lua_State *L, vm_ref ref, const char *name)
{
    if (refs_push(L, ref) && lua_istable(L, -1)) {
        lua_pushstring(L, name);
        lua_rawget(L, -2);
    } else {
        lua_pushnil(L);
    }
    lua_remove(L, -2);
}

void refs_drop(struct vm *vm, vm_ref ref)
{
    uint32_t i = slot_of(vm, ref);
    if (i != 0) {
        drop_slot(vm, i);
    }
}

struct vm_owner *refs_owner(struct vm *vm, vm_ref ref)
{
    uint32_t i = slot_of(vm, ref);
    return i != 0 ? vm->refs->slots.p[i].owner : NULL;
}

void refs__close(struct vm *vm)
{
    if (vm->refs == NULL) {
        return;
    }
    for (struct vm_owner *o; (o = vm->refs->owners) != NULL;) {
        assert(o->prev == NULL); // it is the first
        vm_owner_close(o);
    }
    vec_fini(&vm->refs->slots);
    free(vm->refs);
    vm->refs = NULL;
}
