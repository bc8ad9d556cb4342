// secrets: get(name), for code with the user's trust; a plugin reads those that its manifest names. What
// was read is never shown in a log.

#include "config/secrets.h"

#include <lauxlib.h>

#include "base/redact.h"
#include "bind/bind_int.h"
#include "bind/faces.h"
#include "bind/plugin_int.h"

struct ask {
    struct bind_op op;
    char *path, *name;
    char *value; // NULL: rc and e say why
    int rc;
    struct err e;
};

static void on_work(void *arg)
{
    struct ask *a = arg;
    a->rc = secrets_get(a->path, a->name, &a->value, &a->e);
}

static void on_done(void *arg)
{
    struct ask *a = arg;
    lua_State *L = bind__op_answer_begin(&a->op);
    if (L != NULL && a->rc < 0) {
        bind__op_answer(&a->op, args_fail(L, "%s", a->e.msg));
    } else if (L != NULL) {
        redact_add(str_of(a->name), str_of(a->value));
        lua_pushstring(L, a->value);
        bind__op_answer(&a->op, 1);
    }
    if (a->value != NULL) {
        explicit_bzero(a->value, strlen(a->value));
    }
    free(a->value);
    free(a->path);
    free(a->name);
    free(a);
}

bool bind__may_read_secret(const struct plugin_code *code, const char *name)
{
    json_foreach_item (it, code->shape->permissions) {
        struct str said = json_str(it, "");
        if (str_starts(said, "secret:") && str_eqz(str_from(said, strlen("secret:")), name)) {
            return true;
        }
    }
    return false;
}

static int l_get(lua_State *L)
{
    const char *name = args_z(L, 1, "secrets.get", "name");
    lua_settop(L, 2);
    bind__op_check(L, 2, "secrets.get");
    const struct plugin__version *v = bind_owner_running(L)->plugin;
    if (v != NULL && v->home != NULL && !bind__may_read_secret(v->head.code, name)) {
        return args_fail(L,
                         "secrets.get: plugin '%s' may not read '%s': add \"secret:%s\" to the "
                         "permissions in its plugin.json",
                         v->head.code->name, name, name);
    }
    struct bind *b = bind_of(L);
    struct ask *a = xcalloc(1, sizeof *a);
    a->path = xstrdup(b->home->secrets);
    a->name = xstrdup(name);
    work_submit(b->files, work_mount_key(a->path), on_work, on_done, a);
    return bind__op_begin(L, &a->op, 2, NULL);
}

int face_secrets(lua_State *L)
{
    static const luaL_Reg functions[] = {{"get", l_get}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
