// events: on, off, emit.
//
// Two kinds of names. Those of the hub's stream (proto/events.def, and `user.*`, which anyone may
// emit) are read from the stream itself, each subscriber with a cursor of its own: one that is slow
// loses nothing until the ring has gone round. All other names are the modules' own and go
// from emit() to the subscribers, as copies. A pattern (`turn.*`) is looked for in both.
//
//     emit("user.x") ──> event_emit ──> ring ── reader ──┐
//     hub: event_emit ─────────────────────────────────┴──> handler(data, name)
//     emit("mine") ──> JSON text ── post to each subscriber ──┘
//
// `data` is what was emitted; for the hub's events it is the event: {id, ts, type, ...}.

#include "proto/events.h"

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "event/event.h"

enum { NAME_MAX_BYTES = 64, DATA_MAX = 64 * 1024 };

struct bind__sub {
    struct bind_reg reg;
    char *pattern;
    struct event_reader *reader; // while live, and the stream may have it
    struct bind__sub *prev, *next;
};

static struct bind__sub *sub_of(struct bind_reg *r)
{
    return container_of(r, struct bind__sub, reg);
}

static bool is_hub_event(struct str name)
{
    for (size_t i = 0; i < EVENT__COUNT; i++) {
        if (str_eqz(name, event_infos[i].type)) {
            return true;
        }
    }
    return false;
}

static bool is_on_stream(struct str name)
{
    return is_hub_event(name) || event_type_is_user(name) || str_index(name, '*') >= 0;
}

// ---- reading the stream -----------------------------------------------------------------------

/// The value of a line of a frame: "event", "data".
static struct str frame_get(struct str frame, const char *field)
{
    while (frame.n != 0) {
        struct str line = str_cut(&frame, '\n');
        struct str name = str_cut(&line, ':');
        if (str_eqz(name, field)) {
            return str_trim(line);
        }
    }
    return STR_NULL;
}

static void post_user(struct bind_reg *r, struct str data, const char *name)
{
    struct arena a;
    struct buf text;
    struct json *event = NULL;
    arena_init(&a);
    buf_init(&text, SIZE_MAX);
    if (json_parse(&event, &a, data, NULL, NULL) == 0) {
        json_write(&text, json_get(event, "data"), 0);
        bind__reg_post(r, buf_str(&text), name);
    }
    buf_fini(&text);
    arena_fini(&a);
}

static void post_frame(struct bind_reg *r, struct str frame)
{
    struct str type = frame_get(frame, "event");
    char *name = str_dup(type);
    if (str_eqz(type, "stream.gap")) {
        log_warn(LOG_HUB, "unit=%s events=lost reason=\"its handler is too slow\"",
                 LOGQ(str_of(r->o->unit->name)).z);
    } else if (event_type_is_user(type)) {
        post_user(r, frame_get(frame, "data"), name);
    } else {
        bind__reg_post(r, frame_get(frame, "data"), name);
    }
    free(name);
}

static bool refill(struct bind_reg *r)
{
    struct bind__sub *s = sub_of(r);
    while (s->reader != NULL && r->queue.n == 0) {
        struct str frame = event_reader_peek(s->reader, 1);
        if (frame.n == 0) {
            break;
        }
        post_frame(r, frame);
        event_reader_next(s->reader);
    }
    return r->queue.n != 0;
}

static void on_wake(void *arg)
{
    bind__reg_poke(arg);
}

// ---- life -------------------------------------------------------------------------------------

static void start(struct bind_reg *r)
{
    struct bind__sub *s = sub_of(r);
    struct bind *b = r->o->bind;
    struct event_filter f = {.types = str_of(s->pattern)};
    if (is_on_stream(f.types)) {
        s->reader = event_reader_open(b->events, UINT64_MAX, &f, on_wake, r);
    }
    s->prev = NULL;
    s->next = b->subs;
    if (s->next != NULL) {
        s->next->prev = s;
    }
    b->subs = s;
}

static void stop(struct bind_reg *r)
{
    struct bind__sub *s = sub_of(r);
    event_reader_close(s->reader);
    s->reader = NULL;
    *(s->prev != NULL ? &s->prev->next : &r->o->bind->subs) = s->next;
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
}

static void sub_free(struct bind_reg *r)
{
    free(sub_of(r)->pattern);
    free(sub_of(r));
}

static const struct bind_reg_ops sub_ops = {
    .what = "event",
    .quota = QUOTA_EVENT,
    .kind = GEN_SUBSCRIPTION,
    .start = start,
    .stop = stop,
    .refill = refill,
    .free = sub_free,
};

int bind__events_on(lua_State *L, struct str name, int idx)
{
    struct bind__sub *s = xcalloc(1, sizeof *s);
    s->pattern = str_dup(name);
    return bind__reg_add(L, &s->reg, &sub_ops, name, idx);
}

void bind_emit(struct bind *b, const char *name, struct str data)
{
    for (struct bind__sub *sub = b->subs; sub != NULL; sub = sub->next) {
        if (str_glob(str_of(sub->pattern), str_of(name))) {
            bind__reg_post(&sub->reg, data, name);
        }
    }
}

void bind_on_emit(struct bind *b, bind_emit_fn *fn, void *arg)
{
    b->emitted = fn;
    b->emitted_arg = arg;
}

// ---- the face ---------------------------------------------------------------------------------

static struct str check_name(lua_State *L, const char *fn)
{
    struct str name = bind__check_str(L, 1, fn, "the name");
    if (name.n == 0 || name.n > NAME_MAX_BYTES || strlen(name.p) != name.n ||
        str_index(name, ',') >= 0) {
        luaL_error(L, "%s: a name has 1 to %d bytes and no comma", fn, NAME_MAX_BYTES);
    }
    return name;
}

static int l_on(lua_State *L)
{
    struct str name = check_name(L, "events.on");
    bind__check_fn(L, 2, "events.on");
    bind__owner(L);
    return bind__events_on(L, name, 2);
}

static int l_off(lua_State *L)
{
    struct bind_reg *r = bind__reg_find(L, 1, "event");
    lua_pushboolean(L, r != NULL && bind__reg_off(r));
    return 1;
}

static int emit_user(lua_State *L, struct bind__scratch *s, struct str name, const struct json *v)
{
    buf_addz(&s->buf, "\"data\":");
    json_write(&s->buf, v, 0);
    if (s->buf.n > DATA_MAX) {
        return bind__fail(L, "events.emit: '%s' carries more than 64 KiB", name.p);
    }
    if (event_emit(bind_of(L)->events, name, STR_NULL, buf_str(&s->buf)) == 0) {
        return bind__fail(L, "events.emit: the stream takes no events now");
    }
    lua_pushboolean(L, 1);
    return 1;
}

static int l_emit(lua_State *L)
{
    struct err e = {0};
    struct json *v;
    struct str name = check_name(L, "events.emit");
    lua_settop(L, 2);
    struct bind__scratch *s = bind__scratch(L);
    if (is_hub_event(name) || str_index(name, '*') >= 0) {
        return bind__fail(L, "events.emit: '%s' is not yours to emit", name.p);
    }
    if (str_starts(name, "user.") && !event_type_is_user(name)) {
        return bind__fail(L, "events.emit: '%s': after 'user.' come a-z, 0-9, '.', '_', '-'",
                          name.p);
    }
    if (value_read(&v, &s->arena, L, 2, &e) < 0) {
        return bind__fail(L, "events.emit: %s", e.msg);
    }
    if (event_type_is_user(name)) {
        return emit_user(L, s, name, v);
    }
    json_write(&s->buf, v, 0);
    struct bind *b = bind_of(L);
    bind_emit(b, name.p, buf_str(&s->buf));
    if (b->emitted != NULL) {
        b->emitted(b->emitted_arg, name.p, buf_str(&s->buf));
    }
    lua_pushboolean(L, 1);
    return 1;
}

int face_events(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"on", l_on}, {"off", l_off}, {"emit", l_emit}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
