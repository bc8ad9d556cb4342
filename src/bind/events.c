// Events for Lua code in the hub: the backend of the library `events` (lua/lib_events.c).
//
// There are two kinds of names. Events of the hub's stream (proto/events.def, and `user.*`, which any code may emit) are
// read from the stream itself, each subscriber with its own cursor: a slow one loses nothing until the ring has wrapped.
// All other names belong to modules and plugins; emit() posts copies to the subscribers. A pattern (`turn.*`) matches both.
//
//     emit("user.x") ──> event_emit ──> ring ── reader ──┐
//     hub: event_emit ─────────────────────────────────┴──> handler(data, name)
//     emit("mine") ──> JSON text ── post to each subscriber ──┘
//
// `data` is what was emitted; for the hub's events it is the event: {id, ts, type, ...}.

#include "proto/events.h"

#include "bind/bind_int.h"
#include "event/event.h"

enum { DATA_MAX = 64 * 1024 };

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

bool bind__is_hub_event(struct str name)
{
    for (size_t i = 0; i < EVENT__COUNT; i++) {
        if (str_eqz(name, event_infos[i].type)) {
            return true;
        }
    }
    return false;
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

static void post_frame(struct bind_reg *r, struct str frame)
{
    struct str type = frame_get(frame, "event"), data = frame_get(frame, "data");
    char *name = str_dup(type);
    struct arena a = {0};
    struct buf text = {.max = SIZE_MAX};
    struct json *event = NULL;
    if (str_eqz(type, "stream.gap")) {
        log_warn(LOG_HUB, "unit=%s events=lost reason=\"its handler is too slow\"",
                 LOGQ(str_of(r->o->unit->name)).z);
    } else if (!event_type_is_user(type)) {
        bind__reg_post(r, data, name);
    } else if (json_parse(&event, &a, data, NULL, NULL) == 0) { // only what the code emitted
        json_write(&text, json_get(event, "data"), 0);
        bind__reg_post(r, buf_str(&text), name);
    }
    buf_fini(&text);
    arena_fini(&a);
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
    assert(s->reader == NULL);
    struct bind *b = r->o->bind;
    struct event_filter f = {.types = str_of(s->pattern), .own = true}; // each hub runs its plugins
    if (bind__is_hub_event(f.types) || event_type_is_user(f.types) ||
        str_index(f.types, '*') >= 0) {
        s->reader = event_reader_open(b->o.hub->events, UINT64_MAX, &f, on_wake, r);
    }
    list_add(&b->subs, s);
}

static void stop(struct bind_reg *r)
{
    struct bind__sub *s = sub_of(r);
    event_reader_close(s->reader);
    s->reader = NULL;
    list_remove(&r->o->bind->subs, s);
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

int bind__events_on(lua_State *L, struct str name, int idx, bind__reg_adder *add)
{
    struct bind__sub *s = xcalloc(1, sizeof *s);
    s->pattern = str_dup(name);
    return add(L, &s->reg, &sub_ops, name, idx);
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

// ---- for the library -------------------------------------------------------------------------

static int lib_on(lua_State *L, const char *who, struct str name)
{
    (void)who;
    bind__owner(L);
    return bind__events_on(L, name, 2, bind__reg_add);
}

static bool lib_off(lua_State *L, uint64_t id)
{
    struct bind_reg *r = bind__reg_find(L, id, "event");
    return r != NULL && bind__reg_off(r);
}

int bind__emit(struct bind *b, const char *name, const struct json *data, struct err *e)
{
    bool user = event_type_is_user(str_of(name));
    struct buf text = {.max = SIZE_MAX};
    int rc = 0;
    if (bind__is_hub_event(str_of(name)) || strchr(name, '*') != NULL) {
        return err_set(e, ERR_DENIED,
                       "'%s' is an event of the hub and cannot be emitted by plugins", name);
    }
    if (str_starts(str_of(name), "user.") && !user) {
        return err_set(e, ERR_INVALID, "'%s': after 'user.' come a-z, 0-9, '.', '_', '-'", name);
    }
    buf_addz(&text, user ? "\"data\":" : "");
    json_write(&text, data, 0);
    if (!user) {
        bind_emit(b, name, buf_str(&text));
        if (b->emitted != NULL) {
            b->emitted(b->emitted_arg, name, buf_str(&text));
        }
    } else if (text.n > DATA_MAX) {
        rc = err_set(e, ERR_TOO_LARGE, "'%s' carries more than 64 KiB", name);
    } else if (event_emit(b->o.hub->events, str_of(name), STR_NULL, buf_str(&text)) == 0) {
        rc = err_set(e, ERR_CONFLICT, "the stream takes no events now");
    }
    buf_fini(&text);
    return rc;
}

static int lib_emit(lua_State *L, const char *who, struct str name, const struct json *data)
{
    struct err e = {0};
    if (bind__emit(bind_of(L), name.p, data, &e) < 0) {
        return args_fail(L, "%s: %s", who, e.msg);
    }
    return args_bool(L, true);
}

const struct lib_events bind__events = {.on = lib_on, .off = lib_off, .emit = lib_emit};
