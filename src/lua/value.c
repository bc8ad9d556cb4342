// JSON values to Lua and back.
//
// Reading works on raw tables only: no metamethod runs, so nothing a plugin wrote can act or loop
// while its values are read. What it can do is build something hostile: a table that holds itself,
// or one that holds another twice, and that one another twice, and so on; hence bounds on depth,
// on the number of values and on bytes, and a list of the tables that are open above. A table that was
// large and is empty takes a walk over all its slots, each time that it is found: hence a bound on time.
//
// Arrays are marked by a metatable of the state's own; its address is compared, never its content.

#include "lua/value.h"

#include <assert.h>
#include <math.h>

#include "base/time.h"
#include "base/utf8.h"
#include "lua/vm_int.h"

// ---- JSON to Lua ----------------------------------------------------------------------------

static void push(lua_State *L, struct vm *vm, const struct json *v)
{
    limit__tick(L, vm, 16);
    luaL_checkstack(L, 4, "value too deep");
    switch (v->type) {
    case JSON_NULL: value_push_null(L); break;
    case JSON_BOOL: lua_pushboolean(L, v->b); break;
    case JSON_INT: lua_pushinteger(L, v->i); break;
    case JSON_DOUBLE: lua_pushnumber(L, v->d); break;
    case JSON_STR: lua_pushlstring(L, v->s.n > 0 ? v->s.p : "", v->s.n); break;
    case JSON_ARR:
        lua_createtable(L, (int)MIN(v->n, INT32_MAX), 0);
        for (uint32_t i = 0; i < v->n; i++) {
            push(L, vm, &v->items[i]);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        value_mark_array(L);
        break;
    case JSON_OBJ:
        lua_createtable(L, 0, (int)MIN(v->n, INT32_MAX));
        json_foreach_member (m, v) {
            int64_t integer;
            if (m->key.n > 0 && m->key.p[0] == JSON_INTEGER_KEY &&
                str_to_i64(str_from(m->key, 1), &integer)) {
                lua_pushinteger(L, integer);
            } else {
                lua_pushlstring(L, m->key.n > 0 ? m->key.p : "", m->key.n);
            }
            push(L, vm, &m->value);
            lua_rawset(L, -3);
        }
        break;
    }
}

// ---- Lua to JSON ----------------------------------------------------------------------------

struct reader {
    lua_State *L;
    struct vm *vm;
    struct arena *a;
    struct err *e;
    size_t count, bytes;
    bool exact;                        // keep integer keys
    size_t integers;                   // of them, so far
    uint64_t looked_ns, looked_cpu_ns; // at the first look at the clock; 0: not yet
    int depth;
    struct open {
        const void *table;
        struct str key; // how we got from here to what is open below; NULL: by index
        lua_Integer index;
    } open[VALUE_DEPTH];
};

static int read_value(struct reader *r, int idx, struct json *out);

/// Has reading taken too long? What a handler returned is read after its entry has run: that may take as long as an
/// entry, counted in time of the thread as in limit.c.
static bool is_late(struct reader *r)
{
    const uint64_t budget = VM_BUDGET_MS * UINT64_C(1000000);
    if (r->vm->active != NULL) {
        return limit__expired(r->vm);
    }
    uint64_t now = time_mono_ns();
    if (r->looked_ns == 0) {
        r->looked_ns = now;
        r->looked_cpu_ns = time_thread_ns();
    }
    return now - r->looked_ns > budget && time_thread_ns() - r->looked_cpu_ns > budget;
}

/// Fail; the path of the value that is read begins the message.
static int refuse(struct reader *r, int code, const char *what)
{
    struct buf path = {.max = 120};
    buf_addz(&path, "value");
    for (int i = 0; i < r->depth; i++) {
        const struct open *o = &r->open[i];
        if (o->key.p != NULL) {
            buf_addf(&path, "." STR_FMT, STR_ARG(o->key));
        } else if (o->index != 0) {
            buf_addf(&path, "[%lld]", (long long)o->index);
        }
    }
    int rc = err_set(r->e, code, "%s%s: %s", buf_z(&path), buf_ok(&path) ? "" : "...", what);
    buf_fini(&path);
    return rc;
}

static int read_text(struct reader *r, int idx, struct str *out)
{
    struct str s;
    s.p = lua_tolstring(r->L, idx, &s.n);
    r->bytes += s.n;
    if (r->bytes > VALUE_BYTES) {
        return refuse(r, ERR_TOO_LARGE, "more than 16 MiB of text cannot be sent");
    }
    if (utf8_valid(s)) {
        *out = arena_str(r->a, s);
        return 0;
    }
    char *to = arena_alloc(r->a, s.n * 3);
    size_t n = 0;
    while (s.n > 0) {
        size_t good = utf8_valid_prefix(s);
        memcpy(to + n, s.p, good);
        n += good;
        if (good < s.n) {
            n += utf8_encode(0xFFFD, to + n);
            good++;
        }
        s = str_from(s, good);
    }
    *out = (struct str){to, n};
    return 0;
}

/// The key at `idx` as text. An integer beside the same key as text is refused.
static int read_key(struct reader *r, int table, int idx, struct str *out)
{
    if (lua_type(r->L, idx) == LUA_TSTRING) {
        return read_text(r, idx, out);
    }
    if (!lua_isinteger(r->L, idx)) {
        return refuse(r, ERR_INVALID, "a key that is neither text nor integer cannot be sent");
    }
    if (r->exact) {
        if (++r->integers > VALUE_INTEGERS) {
            return refuse(r, ERR_TOO_LARGE, "more than 4096 integer keys cannot be sent");
        }
        *out = str_of(
            arena_printf(r->a, "%c%lld", JSON_INTEGER_KEY, (long long)lua_tointeger(r->L, idx)));
        return 0;
    }
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(r->L, idx));
    lua_pushlstring(r->L, text, (size_t)n);
    bool twice = lua_rawget(r->L, table) != LUA_TNIL;
    lua_pop(r->L, 1);
    if (twice) {
        return refuse(r, ERR_INVALID, "an integer key beside the same key as text cannot be sent");
    }
    *out = arena_str(r->a, (struct str){text, (size_t)n});
    return 0;
}

/// How many entries the table has, and whether they are 1 to n.
static size_t survey(struct reader *r, int table, bool *sequence)
{
    size_t n = 0, max = VALUE_COUNT + 1;
    lua_Integer top = 0;
    *sequence = true;
    for (lua_pushnil(r->L); lua_next(r->L, table); lua_pop(r->L, 1)) {
        if (lua_isinteger(r->L, -2) && lua_tointeger(r->L, -2) > 0) {
            top = MAX(top, lua_tointeger(r->L, -2));
        } else {
            *sequence = false;
        }
        if (++n == max) {
            lua_pop(r->L, 2);
            break;
        }
    }
    *sequence = *sequence && n > 0 && (lua_Unsigned)top == n;
    return n;
}

static int read_array(struct reader *r, int table, size_t n, struct json *out)
{
    struct open *here = &r->open[r->depth - 1];
    out->type = JSON_ARR;
    out->n = (uint32_t)n;
    out->items = arena_calloc(r->a, n, sizeof *out->items);
    for (size_t i = 0; i < n; i++) {
        here->index = (lua_Integer)i + 1;
        lua_rawgeti(r->L, table, here->index);
        int rc = read_value(r, lua_gettop(r->L), &out->items[i]);
        lua_pop(r->L, 1);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int read_object(struct reader *r, int table, size_t n, struct json *out)
{
    struct open *here = &r->open[r->depth - 1];
    int top = lua_gettop(r->L), rc = 0;
    bool mended = false; // a key was not UTF-8, and is longer now
    out->type = JSON_OBJ;
    out->members = arena_calloc(r->a, n, sizeof *out->members);
    for (lua_pushnil(r->L); rc == 0 && lua_next(r->L, table); lua_pop(r->L, 1)) {
        struct json_member *m = &out->members[out->n++];
        here->key = STR_NULL;
        rc = read_key(r, table, lua_gettop(r->L) - 1, &m->key);
        if (rc == 0) {
            mended |= lua_type(r->L, -2) == LUA_TSTRING && lua_rawlen(r->L, -2) != m->key.n;
            here->key = m->key;
            rc = read_value(r, lua_gettop(r->L), &m->value);
        }
    }
    lua_settop(r->L, top);
    here->key = STR_NULL;
    if (rc == 0 && mended && json_fold(out)) {
        return refuse(r, ERR_INVALID,
                      "keys that differ only in bytes that are not UTF-8 cannot be sent");
    }
    return rc;
}

static int read_table(struct reader *r, int table, struct json *out)
{
    const void *self = lua_topointer(r->L, table);
    for (int i = 0; i < r->depth; i++) {
        if (r->open[i].table == self) {
            return refuse(r, ERR_INVALID, "a table that holds itself cannot be sent");
        }
    }
    if (r->depth == VALUE_DEPTH) {
        return refuse(r, ERR_TOO_LARGE, "more than 64 levels cannot be sent");
    }
    record__fill(r->L, table);
    bool sequence, marked = value_is_array(r->L, table);
    size_t n = survey(r, table, &sequence);
    if (r->exact && n > 0 && !sequence) {
        marked = false; // with other keys it is not an array any more
    } else if (marked && n > 0 && !sequence) {
        n = lua_rawlen(r->L, table); // up to its first gap; other keys are no part of an array
    }
    if (r->count + n > VALUE_COUNT) {
        return refuse(r, ERR_TOO_LARGE, "more than 262144 values cannot be sent");
    }
    bool array = (marked || sequence) && !(r->exact && r->depth == 0);
    r->open[r->depth++] = (struct open){.table = self};
    int rc = array ? read_array(r, table, n, out) : read_object(r, table, n, out);
    r->depth--;
    return rc;
}

static int read_value(struct reader *r, int idx, struct json *out)
{
    static const char *const refusals[] = {
        [LUA_TLIGHTUSERDATA] = "a userdata cannot be sent",
        [LUA_TUSERDATA] = "a userdata cannot be sent",
        [LUA_TFUNCTION] = "a function cannot be sent",
        [LUA_TTHREAD] = "a coroutine cannot be sent",
    };
    int type = lua_type(r->L, idx);
    *out = (struct json){.type = JSON_NULL};
    if (++r->count > VALUE_COUNT) {
        return refuse(r, ERR_TOO_LARGE, "more than 262144 values cannot be sent");
    }
    bool large = type == LUA_TTABLE && r->vm->n_big > 0; // it may be
    if ((large || r->count % 1024 == 0) && is_late(r)) {
        return refuse(r, ERR_TIMEOUT, "out of time");
    }
    if (type == LUA_TNIL || value_is_null(r->L, idx)) {
        return 0;
    }
    switch (type) {
    case LUA_TBOOLEAN:
        *out = (struct json){.type = JSON_BOOL, .b = lua_toboolean(r->L, idx)};
        return 0;
    case LUA_TNUMBER:
        *out = lua_isinteger(r->L, idx)
                   ? (struct json){.type = JSON_INT, .i = lua_tointeger(r->L, idx)}
                   : (struct json){.type = JSON_DOUBLE, .d = lua_tonumber(r->L, idx)};
        return out->type == JSON_INT || isfinite(out->d)
                   ? 0
                   : refuse(r, ERR_INVALID, "a number that is not finite cannot be sent");
    case LUA_TSTRING: out->type = JSON_STR; return read_text(r, idx, &out->s);
    case LUA_TTABLE: return read_table(r, idx, out);
    default: return refuse(r, ERR_INVALID, refusals[type]);
    }
}

// ---- public ---------------------------------------------------------------------------------

void value_push(lua_State *L, const struct json *v)
{
    if (v == NULL) {
        lua_pushnil(L);
        return;
    }
    push(L, vm_of(L), v);
}

static int read_all(struct json **out, struct arena *a, lua_State *L, int idx, bool exact,
                    struct err *e)
{
    struct vm *vm = vm_of(L);
    struct reader *r = xmalloc(sizeof *r); // some kilobytes; the stack may be a coroutine's
    *r = (struct reader){.L = L, .vm = vm, .a = a, .e = e, .exact = exact};
    struct json *v = arena_calloc(a, 1, sizeof *v);
    int top = lua_gettop(L);
    *out = NULL;
    vm->lenient++; // nothing below may raise
    idx = lua_absindex(L, idx);
    int rc = lua_checkstack(L, VALUE_DEPTH * 4) ? read_value(r, idx, v)
                                                : err_set(e, ERR_TOO_LARGE, "value: stack is full");
    lua_settop(L, top);
    vm->lenient--;
    free(r);
    if (rc == 0) {
        *out = v;
    }
    return rc;
}

int value_read(struct json **out, struct arena *a, lua_State *L, int idx, struct err *e)
{
    return read_all(out, a, L, idx, false, e);
}

int value_read_exact(struct json **out, struct arena *a, lua_State *L, int idx, struct err *e)
{
    return read_all(out, a, L, idx, true, e);
}

void value_set(lua_State *L, const char *name)
{
    lua_pushstring(L, name);
    lua_insert(L, -2);
    assert(lua_istable(L, -3));
    lua_rawset(L, -3);
}

void value_set_str(lua_State *L, const char *name, const char *text)
{
    lua_pushstring(L, text);
    value_set(L, name);
}

void value_set_int(lua_State *L, const char *name, lua_Integer n)
{
    lua_pushinteger(L, n);
    value_set(L, name);
}

void value_set_bool(lua_State *L, const char *name, bool b)
{
    lua_pushboolean(L, b);
    value_set(L, name);
}

void value_copy_fields(lua_State *L, int from, int to)
{
    from = lua_absindex(L, from);
    to = lua_absindex(L, to);
    lua_pushnil(L);
    while (lua_next(L, from) != 0) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
    }
}

void value_clear_fields(lua_State *L, int idx)
{
    idx = lua_absindex(L, idx);
    lua_pushnil(L);
    while (lua_next(L, idx) != 0) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, idx); // allowed during the walk: the field exists
    }
}

void value_push_null(lua_State *L)
{
    lua_pushlightuserdata(L, NULL);
}

bool value_is_null(lua_State *L, int idx)
{
    return lua_islightuserdata(L, idx) && lua_touserdata(L, idx) == NULL;
}

void value_mark_array(lua_State *L)
{
    assert(lua_istable(L, -1));
    lua_rawgeti(L, LUA_REGISTRYINDEX, vm_of(L)->array_ref);
    lua_setmetatable(L, -2);
}

bool value_is_array(lua_State *L, int idx)
{
    if (!lua_istable(L, idx) || !lua_getmetatable(L, idx)) {
        return false;
    }
    bool is = lua_topointer(L, -1) == vm_of(L)->array_meta;
    lua_pop(L, 1);
    return is;
}

void value__open(struct vm *vm)
{
    lua_State *L = vm->L;
    lua_createtable(L, 0, 2);
    lua_pushliteral(L, "array");
    lua_setfield(L, -2, "__metatable");
    lua_pushliteral(L, "array");
    lua_setfield(L, -2, "__name");
    vm->array_meta = lua_topointer(L, -1);
    vm->array_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}
