// store: durable JSON values by key, a namespace for each module and plugin.
//
// A namespace is one document, state/lua/<name>.json: an object with all keys. Bytes of the name that do not belong in a
// file name are written as =XX, so that no two namespaces share a document.

#include "store/store.h"

#include <assert.h>

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "bind/plugin_int.h"

enum { KEY_MAX = 256, VALUE_MAX = 1 << 20 };

struct ask {
    struct bind_op op;
    char *key;      // NULL: all keys
    char *fallback; // JSON, for a key that has no value; NULL: nil
    bool writes;
};

void bind__store_doc(struct buf *out, const char *space)
{
    buf_addz(out, "state/lua/");
    for (const char *p = space; *p != '\0'; p++) {
        char c = *p;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '_' || c == '-' || (c == '.' && p != space)) {
            buf_addc(out, c);
        } else {
            buf_addf(out, "=%02x", (unsigned char)c);
        }
    }
    buf_addz(out, ".json");
}

// ---- answers ----------------------------------------------------------------------------------

/// The value of the key, else what was given as its default.
static int push_value(lua_State *L, const struct ask *a, const struct json *doc,
                      struct arena *arena)
{
    const struct json *v = json_get(doc, a->key);
    struct json *fallback = NULL;
    if (v == NULL && a->fallback != NULL) {
        int rc = json_parse(&fallback, arena, str_of(a->fallback), NULL, NULL);
        assert(rc == 0); // we wrote it, and it was not cut
        v = fallback;
    }
    value_push(L, v);
    return 1;
}

static int push_text(lua_State *L, const struct ask *a, struct str text)
{
    struct arena arena = {0};
    struct json *doc = NULL;
    struct err e = {0};
    int n = 1;
    if (text.n != 0 && json_parse(&doc, &arena, text, NULL, &e) < 0) {
        n = args_fail(L, "%s", e.msg);
    } else if (a->key == NULL) {
        lua_Integer i = 0;
        lua_newtable(L);
        json_foreach_member (m, doc) {
            lua_pushlstring(L, m->key.p, m->key.n);
            lua_rawseti(L, -2, ++i);
        }
        value_mark_array(L);
    } else {
        n = push_value(L, a, doc, &arena);
    }
    arena_fini(&arena);
    return n;
}

static void answer(struct ask *a, int status, struct str text, const struct err *e)
{
    lua_State *L = bind__op_answer_begin(&a->op);
    if (L != NULL && status < 0) {
        bind__op_answer(&a->op, args_fail(L, "%s", e->msg));
    } else if (L != NULL && a->writes) {
        lua_pushboolean(L, 1);
        bind__op_answer(&a->op, 1);
    } else if (L != NULL) {
        bind__op_answer(&a->op, push_text(L, a, text));
    }
    free(a->key);
    free(a->fallback);
    free(a);
}

static void on_text(void *arg, int status, struct str text, const struct err *e)
{
    answer(arg, status, text, e);
}

static void on_set(void *arg, int status, const struct err *e)
{
    answer(arg, status, STR_NULL, e);
}

// ---- the face ---------------------------------------------------------------------------------

static const char *check_key(lua_State *L, const char *fn)
{
    const char *key = args_z(L, 1, fn, "key");
    if (key[0] == '\0' || strlen(key) > KEY_MAX) {
        luaL_error(L, "%s: a key has 1 to %d bytes", fn, KEY_MAX);
    }
    return key;
}

/// Read the document (`fallback` stands for a key that has no value, STR_NULL: nil), or (`value` not NULL) set `key`
/// in it. The store answers in any case: that frees the request.
static int ask(lua_State *L, const char *who, const char *key, struct str fallback,
               const struct str *value, int callback)
{
    struct store *store = bind_of(L)->o.hub->store;
    struct buf name = {.max = SIZE_MAX};
    struct ask *a = xcalloc(1, sizeof *a);
    int refused =
        bind__op_charge(L, &a->op, sizeof *a + fallback.n + (value != NULL ? value->n : 0), who);
    if (refused != 0) {
        free(a);
        return refused;
    }
    a->key = key != NULL ? xstrdup(key) : NULL;
    a->fallback = fallback.p != NULL ? str_dup(fallback) : NULL;
    a->writes = value != NULL;
    // a module's document is named after its unit, a plugin's after its namespace
    const struct bind_owner *o = bind_owner_running(L);
    char *space = o->plugin != NULL ? plugin_namespace(o->plugin->head.code) : NULL;
    bind__store_doc(&name, space != NULL ? space : o->unit->name);
    free(space);
    if (value != NULL) {
        store_doc_set(store, buf_str(&name), str_of(key), *value, on_set, a);
    } else {
        store_doc_get(store, buf_str(&name), on_text, a);
    }
    buf_fini(&name);
    return bind__op_begin(L, &a->op, callback, NULL);
}

/// Write the value at `idx` as JSON to the scratch buffer. True, or nil and a message are pushed.
static bool write_value(lua_State *L, struct args_scratch *s, int idx, const char *fn)
{
    struct err e = {0};
    struct json *v;
    if (value_read(&v, &s->arena, L, idx, &e) < 0) {
        (void)args_fail(L, "%s: %s", fn, e.msg);
        return false;
    }
    json_write(&s->buf, v, 0);
    return true;
}

/// store.get(key [, default] [, fn])
static int l_get(lua_State *L)
{
    const char *key = check_key(L, "store.get");
    struct str fallback = STR_NULL;
    lua_settop(L, 3);
    int callback = lua_isfunction(L, 2) ? 2 : 3;
    bind__op_check(L, callback, "store.get");
    if (callback == 3 && !lua_isnil(L, 2)) {
        struct args_scratch *s = args_scratch(L);
        if (!write_value(L, s, 2, "store.get")) {
            return 2;
        }
        if (!buf_ok(&s->buf)) { // escapes made it larger than the value
            return args_fail(L, "store.get: the default is larger than 16 MiB");
        }
        fallback = buf_str(&s->buf);
    }
    return ask(L, "store.get", key, fallback, NULL, callback);
}

static int l_keys(lua_State *L)
{
    lua_settop(L, 1);
    bind__op_check(L, 1, "store.keys");
    return ask(L, "store.keys", NULL, STR_NULL, NULL, 1);
}

static int l_set(lua_State *L)
{
    const char *key = check_key(L, "store.set");
    lua_settop(L, 3);
    if (lua_isnil(L, 2)) {
        return luaL_error(L, "store.set: no value; use store.remove(key) to delete a key");
    }
    bind__op_check(L, 3, "store.set");
    struct args_scratch *s = args_scratch(L);
    if (!write_value(L, s, 2, "store.set")) {
        return 2;
    }
    if (s->buf.n > VALUE_MAX) {
        return args_fail(L, "store.set: '%s' is larger than 1 MiB", key);
    }
    struct str value = buf_str(&s->buf);
    return ask(L, "store.set", key, STR_NULL, &value, 3);
}

static int l_remove(lua_State *L)
{
    const char *key = check_key(L, "store.remove");
    lua_settop(L, 2);
    bind__op_check(L, 2, "store.remove");
    return ask(L, "store.remove", key, STR_NULL, &STR_NULL, 2);
}

const luaL_Reg face_store[] = {
    {"get", l_get}, {"set", l_set}, {"remove", l_remove}, {"keys", l_keys}, {NULL, NULL}};
