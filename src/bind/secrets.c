// secrets: get(name), for code with the user's trust; a plugin may read the secrets that its manifest names. The log never
// shows a secret that was read.

#include "config/secrets.h"

#include <lauxlib.h>

#include "base/redact.h"
#include "bind/bind_int.h"
#include "bind/faces.h"
#include "bind/plugin_int.h"

struct reading {
    char *path, *name;
    char *value; // NULL: rc and e say why
    int rc;
    struct err e;
    bind__secret_cb *cb;
    void *arg;
};

static void on_work(void *arg)
{
    struct reading *r = arg;
    r->rc = secrets_get(r->path, r->name, &r->value, &r->e);
}

static void on_done(void *arg)
{
    struct reading *r = arg;
    if (r->rc < 0) {
        r->cb(r->arg, NULL, &r->e);
    } else {
        redact_add(str_of(r->name), str_of(r->value));
        r->cb(r->arg, r->value, NULL);
        explicit_bzero(r->value, strlen(r->value));
    }
    free(r->value);
    free(r->path);
    free(r->name);
    free(r);
}

void bind__read_secret(struct bind *b, const char *name, bind__secret_cb *cb, void *arg)
{
    struct reading *r = xcalloc(1, sizeof *r);
    r->path = xstrdup(b->o.hub->home->secrets);
    r->name = xstrdup(name);
    r->cb = cb;
    r->arg = arg;
    work_submit(b->files, work_mount_key(r->path), on_work, on_done, r);
}

char *bind__refuse_secret(const struct plugin_code *code, const char *name)
{
    json_foreach_item (it, code->shape->permissions) {
        struct str said = json_str(it, "");
        if (str_starts(said, "secret:") && str_eqz(str_from(said, strlen("secret:")), name)) {
            return NULL;
        }
    }
    return xasprintf("plugin '%s' may not read '%s': add \"secret:%s\" to the permissions in its "
                     "plugin.json",
                     code->name, name, name);
}

static void answer(void *arg, const char *value, const struct err *e)
{
    struct bind_op *op = arg;
    lua_State *L = bind__op_answer_begin(op);
    if (L != NULL && value == NULL) {
        bind__op_answer(op, args_fail(L, "%s", e->msg));
    } else if (L != NULL) {
        lua_pushstring(L, value);
        bind__op_answer(op, 1);
    }
    free(op);
}

static int l_get(lua_State *L)
{
    const char *name = args_z(L, 1, "secrets.get", "name");
    lua_settop(L, 2);
    bind__op_check(L, 2, "secrets.get");
    const struct plugin__version *v = bind_owner_running(L)->plugin;
    char *why = v != NULL && v->home != NULL ? bind__refuse_secret(v->head.code, name) : NULL;
    if (why != NULL) {
        char text[512];
        snprintf(text, sizeof text, "secrets.get: %s", why);
        free(why); // before anything can raise
        return args_fail(L, "%s", text);
    }
    struct bind_op *op = xcalloc(1, sizeof *op);
    bind__read_secret(bind_of(L), name, answer, op);
    return bind__op_begin(L, op, 2, NULL);
}

const luaL_Reg face_secrets[] = {{"get", l_get}, {NULL, NULL}};
