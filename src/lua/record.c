// Records: objects of C that Lua code sees as tables.
//
//     table {} ──metatable of the slot──> __index     fetch the field, keep it in the table
//                                         __newindex  keep the value, note that it was written
//                                         __pairs     fetch all
//
// The table holds nothing but fields. It leads to the object through its metatable, which belongs to a
// slot and is used again for the next record of that type. A slot knows the address of the table it
// serves now. A table that outlived its record keeps its address, so no later one can have the same,
// and it finds nothing rather than freed memory. A slot also knows which fields its table holds: a
// field that is nil in the table but noted as held was removed, and is not fetched again. Only
// a record that was touched is kept alive by a reference: one that was never read costs an empty
// table and nothing else.

#include "lua/record.h"

#include "lua/args.h"
#include "lua/value.h"
#include "lua/vm_int.h"

struct slot {
    const struct record_type *type;
    void *obj;
    uint64_t held;       // fields that are in the table
    const void *table;   // its address
    uint32_t generation; // odd while in use
    uint32_t next_free;  // of the same type; 0 ends the list
    int meta;            // registry references: the metatable,
    int ref;             // and the table once `held` is not 0
};

struct kind {
    const struct record_type *type;
    uint32_t free;
    int names; // registry reference of a table: name -> index + 1
};

struct record__table {
    vec(struct slot) slots; // [0] is never used
    vec(struct kind) kinds;
};

static const char key; // its address is where a metatable keeps the number of its slot

enum { UP_NAMES = 1, UP_SLOT }; // upvalues of the methods

static struct slot *slot_of(const struct vm *vm, record_id id)
{
    uint32_t i = (uint32_t)id;
    if (vm->records == NULL || i == 0 || i >= vm->records->slots.n) {
        return NULL;
    }
    struct slot *s = &vm->records->slots.p[i];
    return s->generation == (uint32_t)(id >> 32) ? s : NULL;
}

/// The live record whose table is at `idx`, by the number of its slot; 0 when it has ended.
static record_id id_in_slot(lua_State *L, int idx, uint32_t i)
{
    const struct slot *s = &vm_of(L)->records->slots.p[i];
    bool live = s->generation % 2 == 1 && s->table == lua_topointer(L, idx);
    return live ? (uint64_t)s->generation << 32 | i : 0;
}

// ---- what Lua calls -------------------------------------------------------------------------

/// Note that the table at `table` holds field `i`.
static void hold(lua_State *L, struct slot *s, int table, unsigned i)
{
    if (s->held == 0) {
        struct vm *vm = vm_of(L);
        vm->lenient++; // between the two nothing may fail
        lua_pushvalue(L, table);
        s->ref = luaL_ref(L, LUA_REGISTRYINDEX);
        vm->lenient--;
    }
    s->held |= UINT64_C(1) << i;
}

static bool get_field(const struct record_field *f, const void *obj, struct json *out)
{
    if (f->get != NULL) {
        return f->get(obj, out);
    }
    const struct json *m = json_get(obj, f->name);
    if (m == NULL || m->type == JSON_NULL) {
        return false;
    }
    *out = *m;
    return true;
}

/// Push field `i` of a live record and keep it in the table.
static void fetch(lua_State *L, record_id id, int table, unsigned i)
{
    const struct slot *s = slot_of(vm_of(L), id);
    const struct record_field *f = &s->type->fields[i];
    struct json v;
    if (f->push != NULL) {
        f->push(L, s->obj);
    } else if (get_field(f, s->obj, &v)) {
        value_push(L, &v);
    } else {
        lua_pushnil(L);
    }
    hold(L, slot_of(vm_of(L), id), table, i); // asked again: a push may make records
    lua_pushstring(L, f->name);
    lua_pushvalue(L, -2);
    lua_rawset(L, table);
}

/// The index of the field that the key at 2 names, or -1.
static int field_at(lua_State *L)
{
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(UP_NAMES));
    int i = (int)lua_tointeger(L, -1) - 1;
    lua_pop(L, 1);
    return i;
}

static uint32_t own_slot(lua_State *L)
{
    return (uint32_t)lua_tointeger(L, lua_upvalueindex(UP_SLOT));
}

static const struct record_type *own_type(lua_State *L)
{
    return vm_of(L)->records->slots.p[own_slot(L)].type;
}

static int on_index(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int i = field_at(L);
    if (i < 0) {
        return 0;
    }
    record_id id = id_in_slot(L, 1, own_slot(L));
    if (id == 0) {
        return luaL_error(L, "this '%s' belongs to a call that has ended", own_type(L)->name);
    }
    if (slot_of(vm_of(L), id)->held >> i & 1) {
        return 0; // it was removed
    }
    fetch(L, id, 1, (unsigned)i);
    return 1;
}

static int on_newindex(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int i = field_at(L);
    if (i < 0) {
        const struct record_type *type = own_type(L);
        const char *names[RECORD_FIELDS];
        for (unsigned f = 0; f < type->n; f++) {
            names[f] = type->fields[f].name;
        }
        struct str name = libs__push_text(L, 2);
        return luaL_error(L, "'%s' has no field '%s'%s", type->name, name.p,
                          args_near(L, str_nearest(name, names, type->n)));
    }
    record_id id = id_in_slot(L, 1, own_slot(L));
    if (id != 0) {
        hold(L, slot_of(vm_of(L), id), 1, (unsigned)i);
    }
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 0;
}

static int next_field(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    if (lua_next(L, 1)) {
        return 2;
    }
    lua_pushnil(L);
    return 1;
}

static int on_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    record__fill(L, 1);
    lua_pushcfunction(L, next_field);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

// ---- slots and their metatables -------------------------------------------------------------

/// metatable.NAME = fn; the metatable is on top.
static void set_method(lua_State *L, const char *name, lua_CFunction fn, int names, uint32_t slot)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, names);
    lua_pushinteger(L, slot);
    lua_pushcclosure(L, fn, 2);
    lua_setfield(L, -2, name);
}

static int make_meta(lua_State *L, const struct kind *k, uint32_t slot)
{
    lua_createtable(L, 0, 8);
    set_method(L, "__index", on_index, k->names, slot);
    set_method(L, "__newindex", on_newindex, k->names, slot);
    set_method(L, "__pairs", on_pairs, k->names, slot);
    lua_pushstring(L, k->type->name);
    lua_setfield(L, -2, "__name");
    lua_pushstring(L, k->type->name);
    lua_setfield(L, -2, "__metatable");
    lua_pushinteger(L, slot);
    lua_rawsetp(L, -2, &key);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static struct kind *kind_of(struct vm *vm, const struct record_type *type)
{
    if (vm->records == NULL) {
        vm->records = xcalloc(1, sizeof *vm->records);
        vec_push(&vm->records->slots, ((struct slot){0}));
    }
    vec_foreach (k, &vm->records->kinds) {
        if (k->type == type) {
            return k;
        }
    }
    assert(type->n <= RECORD_FIELDS);
    lua_createtable(vm->L, 0, (int)type->n);
    for (unsigned i = 0; i < type->n; i++) {
        lua_pushinteger(vm->L, (lua_Integer)i + 1);
        lua_setfield(vm->L, -2, type->fields[i].name);
    }
    vec_push(&vm->records->kinds, ((struct kind){type, 0, luaL_ref(vm->L, LUA_REGISTRYINDEX)}));
    return vec_last(&vm->records->kinds);
}

// ---- public ---------------------------------------------------------------------------------

record_id record_push(lua_State *L, const struct record_type *type, void *obj)
{
    struct vm *vm = vm_of(L);
    assert(obj != NULL);
    vm->lenient++; // an error here would leave half a record
    struct kind *k = kind_of(vm, type);
    uint32_t i = k->free;
    if (i == 0) {
        i = (uint32_t)vm->records->slots.n;
        vec_push(&vm->records->slots,
                 ((struct slot){.type = type, .meta = make_meta(vm->L, k, i)}));
    }
    struct slot *s = &vm->records->slots.p[i];
    k->free = k->free != 0 ? s->next_free : 0;
    assert(s->type == type && s->generation % 2 == 0);
    lua_createtable(L, 0, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->meta);
    lua_setmetatable(L, -2);
    vm->lenient--;
    s->generation++;
    s->obj = obj;
    s->held = 0;
    s->table = lua_topointer(L, -1);
    return (uint64_t)s->generation << 32 | i;
}

/// The number of the slot whose metatable the value at `idx` has, 0 for none.
static uint32_t slot_at(lua_State *L, int idx)
{
    if (!lua_istable(L, idx) || !lua_getmetatable(L, idx)) {
        return 0;
    }
    lua_rawgetp(L, -1, &key);
    uint32_t i = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 2);
    return i;
}

bool record_is(lua_State *L, int idx, record_id id)
{
    uint32_t i = slot_at(L, idx);
    return i != 0 && id != 0 && id_in_slot(L, idx, i) == id;
}

bool record_touched(const struct vm *vm, record_id id)
{
    const struct slot *s = slot_of(vm, id);
    return s != NULL && s->held != 0;
}

/// Compare one field of the table on top with the object.
static int read_field(struct vm *vm, const struct slot *s, unsigned i, struct arena *a,
                      const struct json **value, bool *changed, struct err *e)
{
    lua_State *L = vm->L;
    const struct record_field *f = &s->type->fields[i];
    struct json was, *now = NULL;
    bool had = get_field(f, s->obj, &was);
    lua_pushstring(L, f->name);
    lua_rawget(L, -2);
    bool has = !lua_isnil(L, -1);
    int rc = !has       ? 0
             : f->exact ? value_read_exact(&now, a, L, -1, e)
                        : value_read(&now, a, L, -1, e);
    lua_pop(L, 1);
    *value = now;
    *changed = had != has || (has && rc == 0 && !json_equal(&was, now));
    return rc;
}

int record_read(struct vm *vm, record_id id, struct arena *a, const struct json **values,
                uint64_t *changed, struct err *e)
{
    const struct slot *s = slot_of(vm, id);
    int rc = 0;
    *changed = 0;
    if (s == NULL || s->held == 0) {
        return 0;
    }
    vm->lenient++;
    lua_rawgeti(vm->L, LUA_REGISTRYINDEX, s->ref);
    for (unsigned i = 0; i < s->type->n && rc == 0; i++) {
        bool differs = false;
        if ((s->held >> i & 1) && s->type->fields[i].push == NULL) {
            rc = read_field(vm, s, i, a, &values[i], &differs, e);
        }
        *changed |= (uint64_t)differs << i;
        if (rc < 0 && e != NULL) {
            err_prefix(e, "%s.%s", s->type->name, s->type->fields[i].name);
        }
    }
    lua_pop(vm->L, 1);
    vm->lenient--;
    return rc;
}

void record_drop(struct vm *vm, record_id id)
{
    struct slot *s = slot_of(vm, id);
    if (s == NULL) {
        return;
    }
    if (s->held != 0) {
        luaL_unref(vm->L, LUA_REGISTRYINDEX, s->ref);
    }
    struct kind *k = kind_of(vm, s->type);
    s->generation++;
    s->obj = NULL;
    s->next_free = k->free;
    k->free = (uint32_t)id;
}

void record__fill(lua_State *L, int idx)
{
    uint32_t i = slot_at(L, idx);
    record_id id = i != 0 ? id_in_slot(L, idx, i) : 0;
    const struct slot *s = slot_of(vm_of(L), id);
    for (unsigned f = 0; s != NULL && f < s->type->n; f++) {
        if ((s->held >> f & 1) == 0) {
            fetch(L, id, idx, f);
            lua_pop(L, 1);
            s = slot_of(vm_of(L), id);
        }
    }
}

void record__close(struct vm *vm)
{
    if (vm->records != NULL) {
        vec_fini(&vm->records->slots);
        vec_fini(&vm->records->kinds);
        free(vm->records);
        vm->records = NULL;
    }
}
