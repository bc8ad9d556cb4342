// action_cable: connect, subscribe, unsubscribe, perform, close. Channels of a Rails server over one WebSocket.
//
//     connect{url, headers, on_open, on_close, on_error} -> conn
//     subscribe(conn, channel, params, fn(message, ch)) -> ch          perform(ch, action, data)
//
//     server: welcome ──> subscribe each channel ──> confirm ──> {identifier, message} ──> fn
//
// Connection and channels are registrations. A connection that breaks is made again, after 1, 2, 4 ... 30 seconds, with all
// its channels; one that the server closes for good (`reconnect: false`), or the plugin, is not.
//
// Invariant: a channel has a cable exactly while both are there; `next` of the cable's list are its channels.

#include <lauxlib.h>

#include "bind/faces.h"
#include "bind/websocket.h"
#include "loop/timer.h"

enum { FIRST_MS = 1000, LAST_MS = 30 * 1000 };

struct cable {
    struct bind_reg reg;
    struct bind__link link;
    struct timer again;
    uint64_t wait_ms;
    struct channel *channels;
    bool welcome; // channels may be subscribed to
    bool closed;  // for good
};

struct channel {
    struct bind_reg reg;
    struct cable *cable; // NULL: gone
    struct channel *prev, *next;
    char *identifier; // JSON text, as the protocol has it
};

static struct cable *cable_of(struct bind_reg *r)
{
    return container_of(r, struct cable, reg);
}

static struct channel *channel_of(struct bind_reg *r)
{
    return container_of(r, struct channel, reg);
}

// ---- saying -------------------------------------------------------------------------------------

/// Send {command, identifier, data?}.
static int command(const struct channel *ch, const char *name, const char *data)
{
    struct buf text = {.max = SIZE_MAX};
    const struct cable *c = ch->cable;
    if (c == NULL || !c->welcome || c->link.ws == NULL) {
        return UV_ENOTCONN;
    }
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstrz(&w, "command", name);
    jw_kstrz(&w, "identifier", ch->identifier);
    if (data != NULL) {
        jw_kstrz(&w, "data", data);
    }
    jw_end_obj(&w);
    int rc = ws_client_send(c->link.ws, buf_str(&text), false);
    buf_fini(&text);
    return rc;
}

// ---- hearing ------------------------------------------------------------------------------------

static void on_channel(struct cable *c, const struct json *v, bool rejected)
{
    struct str identifier = json_str(json_get(v, "identifier"), "");
    for (struct channel *ch = c->channels; ch != NULL; ch = ch->next) {
        if (!str_eqz(identifier, ch->identifier)) {
            continue;
        }
        char id[24];
        struct buf text = {.max = SIZE_MAX};
        snprintf(id, sizeof id, "%llu", (unsigned long long)ch->reg.id);
        json_write(&text, json_get(v, "message"), 0);
        if (rejected) {
            bind__note(ch->reg.o, DIAG_HOOK_FAILED, NULL, 0,
                       "action_cable: the server rejected a subscription");
        } else {
            bind__reg_post(&ch->reg, buf_str(&text), id);
        }
        buf_fini(&text);
    }
}

static void on_message(void *arg, struct str bytes, bool binary)
{
    struct cable *c = cable_of(arg);
    struct arena a = {0};
    struct json *v = NULL;
    if (!binary && json_parse(&v, &a, bytes, NULL, NULL) == 0) {
        struct str type = json_str(json_get(v, "type"), "");
        if (str_eqz(type, "welcome")) {
            c->welcome = true;
            c->wait_ms = FIRST_MS;
            bind__post_event(&c->reg, "open", 0, STR(""), false);
            for (const struct channel *ch = c->channels; ch != NULL; ch = ch->next) {
                (void)command(ch, "subscribe", NULL); // a connection that breaks is made again
            }
        } else if (str_eqz(type, "disconnect")) {
            c->closed = c->closed || !json_bool(json_get(v, "reconnect"), true);
        } else if (str_eqz(type, "reject_subscription")) {
            on_channel(c, v, true);
        } else if (json_get(v, "message") != NULL && type.n == 0) {
            on_channel(c, v, false);
        }
    }
    arena_fini(&a);
}

static void on_open(void *arg)
{
    (void)arg; // the server's welcome counts
}

static void on_end(void *arg, int code, struct str reason, const char *message)
{
    struct cable *c = cable_of(arg);
    bind__post_end(&c->reg, &c->link, code, reason, message, c->welcome || c->closed);
    c->welcome = false;
    if (!c->closed) {
        timer_start(&c->again, c->wait_ms);
        c->wait_ms = MIN(c->wait_ms * 2, (uint64_t)LAST_MS);
    }
}

static void connect_now(void *arg)
{
    static const struct ws_client_cb cb = {on_open, on_message, on_end};
    struct cable *c = arg;
    struct err e = {0};
    if (bind__link_open(&c->link, &c->reg, &cb, &e) < 0) {
        c->closed = true; // another try would fail the same way
        on_end(&c->reg, 1006, STR(""), e.msg);
    }
}

// ---- registrations --------------------------------------------------------------------------------

static void cable_start(struct bind_reg *r)
{
    struct cable *c = cable_of(r);
    timer_init(&c->again, r->o->bind->o.hub->loop, connect_now, c);
    connect_now(c);
}

static void cable_stop(struct bind_reg *r)
{
    struct cable *c = cable_of(r);
    timer_stop(&c->again);
    c->welcome = false;
    bind__link_drop(&c->link);
}

static void cable_idle(struct bind_reg *r)
{
    if (cable_of(r)->closed && cable_of(r)->link.ws == NULL && r->at >= r->queue.n) {
        bind__reg_off(r);
    }
}

static void cable_free(struct bind_reg *r)
{
    struct cable *c = cable_of(r);
    while (c->channels != NULL) {
        c->channels->cable = NULL;
        c->channels = c->channels->next;
    }
    bind__link_free(&c->link);
    free(c);
}

static const struct bind_reg_ops cable_ops = {
    .what = "action_cable",
    .quota = QUOTA_SOCKET,
    .kind = GEN__KINDS,
    .start = cable_start,
    .stop = cable_stop,
    .idle = cable_idle,
    .free = cable_free,
};

static void channel_start(struct bind_reg *r)
{
    (void)command(channel_of(r), "subscribe", NULL); // else the welcome does it
}

static void channel_stop(struct bind_reg *r)
{
    struct channel *ch = channel_of(r);
    if (ch->cable != NULL) {
        (void)command(ch, "unsubscribe", NULL);
        list_remove(&ch->cable->channels, ch);
        ch->cable = NULL;
    }
}

static void channel_free(struct bind_reg *r)
{
    struct channel *ch = channel_of(r);
    if (ch->cable != NULL) { // it was never started
        list_remove(&ch->cable->channels, ch);
    }
    free(ch->identifier);
    free(ch);
}

static const struct bind_reg_ops channel_ops = {
    .what = "action_cable channel",
    .quota = QUOTA_EVENT,
    .kind = GEN__KINDS,
    .start = channel_start,
    .stop = channel_stop,
    .free = channel_free,
};

// ---- what Lua calls ---------------------------------------------------------------------------------

static int l_connect(lua_State *L)
{
    static const char who[] = "action_cable.connect";
    static const char *const keys[] = {"url", "headers", "on_open", "on_close", "on_error", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_checkstack(L, 24, who);
    bind__check_handlers(L, 1, who, keys);
    lua_settop(L, 1);
    args_field(L, 1, "url");
    struct str url = bind__check_url(L, 2, who);
    if (url.p == NULL) {
        return 2;
    }
    bind__owner(L);
    bind__push_dispatch(L, 1);
    struct cable *c = xcalloc(1, sizeof *c);
    bind__link_read(L, 1, url, &c->link);
    c->wait_ms = FIRST_MS;
    return bind__reg_add(L, &c->reg, &cable_ops, url, 3);
}

/// {KEY: NAME, ...the table at 3} as a text in the scratch; `what` is that table's name in messages. Raises.
static const char *make_object(lua_State *L, const char *who, const char *key, struct str name,
                               const char *what)
{
    struct args_scratch *s = args_scratch(L);
    struct json *more = NULL;
    struct err e = {0};
    if (!lua_isnil(L, 3) && value_read(&more, &s->arena, L, 3, &e) < 0) {
        luaL_error(L, "%s: %s: %s", who, what, e.msg);
    }
    struct jw w = {.out = &s->buf};
    jw_obj(&w);
    jw_kstr(&w, key, name);
    json_foreach_member (m, more) {
        jw_key_str(&w, m->key);
        jw_value(&w, &m->value);
    }
    jw_end_obj(&w);
    (void)args_json(L, s, who, what);
    return buf_z(&s->buf);
}

static int l_subscribe(lua_State *L)
{
    static const char who[] = "action_cable.subscribe";
    struct bind_reg *r = bind__reg_find(L, (uint64_t)lua_tointeger(L, 1), cable_ops.what);
    struct str name = args_str(L, 2, who, "the channel");
    if (lua_isfunction(L, 3)) {
        lua_pushnil(L);
        lua_insert(L, 3);
    }
    args_fn(L, 4, who);
    lua_settop(L, 4);
    if (r == NULL) {
        return args_fail(L, "%s: there is no such connection", who);
    }
    const char *identifier = make_object(L, who, "channel", name, "params");
    struct channel *ch = xcalloc(1, sizeof *ch);
    ch->identifier = xstrdup(identifier);
    ch->cable = cable_of(r);
    list_add(&ch->cable->channels, ch);
    return bind__reg_add(L, &ch->reg, &channel_ops, name, 4);
}

static struct channel *check_channel(lua_State *L)
{
    struct bind_reg *r = bind__reg_find(L, (uint64_t)lua_tointeger(L, 1), channel_ops.what);
    return r != NULL ? channel_of(r) : NULL;
}

static int l_unsubscribe(lua_State *L)
{
    struct channel *ch = check_channel(L);
    return args_bool(L, ch != NULL && bind__reg_off(&ch->reg));
}

static int l_perform(lua_State *L)
{
    static const char who[] = "action_cable.perform";
    const struct channel *ch = check_channel(L);
    struct str action = args_str(L, 2, who, "the action");
    lua_settop(L, 3);
    const char *data = make_object(L, who, "action", action, "data");
    if (ch == NULL || command(ch, "message", data) < 0) {
        return args_fail(L, "%s: the channel is not connected", who);
    }
    return args_bool(L, true);
}

static int l_close(lua_State *L)
{
    struct bind_reg *r = bind__reg_find(L, (uint64_t)lua_tointeger(L, 1), cable_ops.what);
    if (r != NULL) {
        struct cable *c = cable_of(r);
        c->closed = true;
        timer_stop(&c->again);
        if (c->link.ws != NULL) {
            ws_client_close(c->link.ws, 1000, STR(""));
        } else {
            bind__reg_off(r);
        }
    }
    return args_bool(L, r != NULL);
}

const luaL_Reg face_action_cable[] = {
    {"connect", l_connect}, {"subscribe", l_subscribe}, {"unsubscribe", l_unsubscribe},
    {"perform", l_perform}, {"close", l_close},         {NULL, NULL}};
