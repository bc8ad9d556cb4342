// Life of a Lua state.
//
// A state is made with the libraries that its trust allows (libs.c), an allocator that counts
// (alloc.c) and marks that tell coroutines apart (vm_int.h). It is closed when no entry runs.
//
// Invariant: Lua code runs only inside entry_run(), entry_wake() and entry_end(); an error raised
// anywhere else is a bug of ours and ends the process.

#include "lua/vm.h"

#include "base/random.h"
#include "lua/lib.h"
#include "lua/value.h"
#include "lua/vm_int.h"

static int on_panic(lua_State *L)
{
    const char *text = lua_tostring(L, -1);
    fprintf(stderr, "lua: error outside of an entry: %s\n", text != NULL ? text : "?");
    abort();
}

static const struct {
    const char *name;
    const luaL_Reg *functions;
} libs[] = {{"log", lib_log},
            {"config", lib_config}, // this and the others need a backend
            {"events", lib_events},
            {"hooks", lib_hooks},
            {"timer", lib_timer}};

struct vm *vm_open(const struct vm_opts *opts)
{
    struct vm *vm = xcalloc(1, sizeof *vm);
    vm->trust = opts->trust;
    vm->log = opts->log;
    vm->arg = opts->arg;
    vm->backend = opts->backend;
    assert(vm->backend == NULL || (vm->backend->fs != NULL && vm->backend->hooks != NULL));
    vm_set_memory(vm, opts->memory_max != 0 ? opts->memory_max : VM_MEMORY);
    for (int i = 0; i < MARK__COUNT; i++) {
        vm->marks[i] = (struct vm__mark){vm, (enum vm__mark_kind)i};
    }
    random_bytes(vm->secret, sizeof vm->secret);
    vm->L = lua_newstate(alloc__lua, vm);
    assert(vm->L != NULL); // the allocator refuses nothing here
    lua_atpanic(vm->L, on_panic);
    vm__mark(vm->L, vm, MARK_PLAIN);
    libs__open(vm);
    value__open(vm);
    vm_add_lib(vm, "json", lib_json_open);
    for (size_t i = 0; i < (vm->backend != NULL ? ARRAY_LEN(libs) : 1); i++) {
        vm_add_functions(vm, libs[i].name, libs[i].functions);
    }
    if (vm->backend != NULL) {
        vm_add_lib(vm, "fs", lib_fs_open);
    }
    return vm;
}

void vm_close(struct vm *vm)
{
    if (vm == NULL) {
        return;
    }
    vm_kill(vm);
    refs__close(vm);
    record__close(vm);
    lua_close(vm->L);
    alloc__close(vm);
    free(vm);
}

void vm_on_death(struct vm *vm, vm_died_fn *died, void *arg)
{
    vm->died = died;
    vm->died_arg = arg;
}

void vm_kill(struct vm *vm)
{
    assert(vm->active == NULL);
    vm->dead = true;
    entry__close_all(vm);
}

struct vm *vm_of(lua_State *L)
{
    return vm__mark_of(L)->vm;
}

lua_State *vm_main(struct vm *vm)
{
    return vm->L;
}

void *vm_arg(const struct vm *vm)
{
    return vm->arg;
}

void vm__publish(lua_State *L, const char *name)
{
    assert(!lua_isnil(L, -1));
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushvalue(L, -2);
    value_set(L, name);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -3);
    value_set(L, name);
    lua_pop(L, 3);
}

void vm_add_lib(struct vm *vm, const char *name, lua_CFunction open)
{
    lua_pushcfunction(vm->L, open);
    lua_call(vm->L, 0, 1);
    vm__publish(vm->L, name);
}

void vm_add_functions(struct vm *vm, const char *name, const struct luaL_Reg *fns)
{
    lua_newtable(vm->L);
    luaL_setfuncs(vm->L, fns, 0);
    vm__publish(vm->L, name);
}

void vm_replace(struct vm *vm, const char *lib, const char *name, lua_CFunction fn)
{
    lua_State *L = vm->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushstring(L, lib);
    lua_rawget(L, -2);
    assert(lua_istable(L, -1));
    lua_pushcfunction(L, fn);
    value_set(L, name);
    lua_pop(L, 2);
}

struct vm_stats vm_get_stats(const struct vm *vm)
{
    return (struct vm_stats){.memory = vm->used, .ticks = vm->ticks, .dead = vm->dead};
}
