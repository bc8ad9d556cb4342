// The event stream: follow it, list it, add to it.

#include "event/event.h"

#include "api/api_int.h"
#include "api/handlers.h"
#include "proto/events.h"

enum { DEFAULT_LIST = 100, LONGEST_LIST = 1000, LONGEST_DATA = 64 * 1024 };

// ?after= counts before Last-Event-ID: it was typed, the header is a browser's habit.
bool api__read_after(struct op_call *c, uint64_t fallback, uint64_t *after)
{
    const struct json *given = json_get(c->params, "after");
    *after = c->last_event_id != UINT64_MAX ? c->last_event_id : fallback;
    if (given != NULL && given->i < 0) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'after' must be 0 or more");
        return false;
    }
    if (given != NULL) {
        *after = (uint64_t)given->i;
    }
    return true;
}

void op_EVENTS(struct api *api, struct op_call *c)
{
    struct event_filter f = {.types = json_get_text(c->params, "types"),
                             .session = json_get_text(c->params, "session")};
    int64_t limit = json_int(json_get(c->params, "limit"), DEFAULT_LIST);
    uint64_t after;
    if (!api__read_after(c, c->wants_stream ? UINT64_MAX : 0, &after)) {
        return;
    }
    if (limit < 1 || limit > LONGEST_LIST) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_LIST);
    } else if (c->wants_stream) {
        op_answer_stream(c, &f, after);
    } else {
        struct jw *w = op_begin_obj(c);
        jw_karr(w, "events");
        uint64_t next = event_list(api->o.hub->events, after, &f, (size_t)limit, w);
        jw_end_arr(w);
        jw_key(w, "next");
        jw_uint(w, next);
        op_end_obj(c, 200);
    }
}

static void answer_emitted(struct op_call *c, uint64_t id)
{
    unsigned long long n = id;
    c->location = arena_printf(c->arena, "%s?after=%llu&limit=1", ops[OP_EVENTS].path, n - 1);
    op_answer(c, 201, str_of(arena_printf(c->arena, "{\"id\":%llu}", n)));
}

static void on_emitted(void *arg, uint64_t id, const struct err *e)
{
    if (e != NULL) {
        op_fail(arg, PROBLEM_STORE_FAILED, "see `afloat doctor`", "%s", e->msg);
    } else {
        answer_emitted(arg, id);
    }
}

void op_EVENT_EMIT(struct api *api, struct op_call *c)
{
    struct str type = json_get_text(c->params, "type");
    if (!event_type_is_user(type)) {
        op_fail(c, PROBLEM_INVALID_NAME, "for example user.deploy",
                "an event of your own is called 'user.' and then a-z, 0-9, '.', '_' or '-'");
        return;
    }
    struct buf fields = {.max = LONGEST_DATA};
    struct jw w;
    const struct json *data = json_get(c->params, "data");
    if (data != NULL) {
        buf_addz(&fields, "\"data\":");
        jw_init(&w, &fields);
        jw_value(&w, data);
    }
    uint64_t id = 0;
    if (!buf_ok(&fields)) {
        op_fail(c, PROBLEM_TOO_LARGE, NULL, "'data' is larger than %d bytes", LONGEST_DATA);
    } else if ((id = event_emit_ask(api->o.hub->events, type, STR_NULL, buf_str(&fields),
                                    on_emitted, c)) == 0) {
        op_fail(c, PROBLEM_STORE_FAILED, "see `afloat doctor`",
                "no event id could be reserved on disk");
    } else if (id != EVENT_ID_LATER) {
        answer_emitted(c, id);
    }
    buf_fini(&fields);
}
