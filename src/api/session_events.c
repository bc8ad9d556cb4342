// The journal of a session: as a list, or followed.

#include "api/handlers.h"
#include "api/session_feed.h"
#include "api/session_int.h"

enum { DEFAULT_LIST = 1000, LONGEST_LIST = 10000 };

// ---- followed -----------------------------------------------------------------------------------

struct feed {
    struct op_source source;
    struct agent_feed *feed;
    void (*wake)(void *arg); // NULL: not started
    void *arg;
};

static void on_wake(void *arg)
{
    struct feed *f = arg;
    if (f->wake != NULL) {
        f->wake(f->arg);
    }
}

static void feed_start(struct op_source *s, void (*wake)(void *arg), void *arg)
{
    struct feed *f = container_of(s, struct feed, source);
    f->wake = wake;
    f->arg = arg;
}

static struct str feed_peek(struct op_source *s)
{
    return agent_feed_peek(container_of(s, struct feed, source)->feed);
}

static void feed_next(struct op_source *s)
{
    agent_feed_next(container_of(s, struct feed, source)->feed);
}

static bool feed_ended(const struct op_source *s)
{
    const struct feed *f = (const struct feed *)s;
    return agent_feed_ended(f->feed);
}

static void feed_close(struct op_source *s)
{
    struct feed *f = container_of(s, struct feed, source);
    agent_feed_close(f->feed);
    free(f);
}

static const struct op_source_ops feed_ops = {.start = feed_start,
                                              .peek = feed_peek,
                                              .next = feed_next,
                                              .ended = feed_ended,
                                              .close = feed_close};

struct op_source *session_feed_new(struct session *s, uint64_t after, const char *turn)
{
    struct feed *f = xcalloc(1, sizeof *f);
    f->source.ops = &feed_ops;
    f->feed = agent_feed_open(s, after, turn, on_wake, f);
    return &f->source;
}

// ---- handler ------------------------------------------------------------------------------------

/// ?after= counts before Last-Event-ID, as with the hub's own stream.
static uint64_t read_after(const struct op_call *c)
{
    const struct json *given = json_get(c->params, "after");
    if (given != NULL) {
        return given->i > 0 ? (uint64_t)given->i : 0;
    }
    return c->last_event_id != UINT64_MAX ? c->last_event_id : 0;
}

static void events(struct session_op *o, struct session *s)
{
    int64_t limit = json_int(json_get(o->call->params, "limit"), DEFAULT_LIST);
    if (limit < 1 || limit > LONGEST_LIST) {
        op_fail(o->call, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_LIST);
        free(o);
    } else if (o->call->wants_stream) {
        op_answer_source(o->call, session_feed_new(s, read_after(o->call), NULL));
        free(o);
    } else {
        agent_events(s, read_after(o->call), (size_t)limit, api__session_text, o);
    }
}

void op_SESSION_EVENTS(struct api *api, struct op_call *c)
{
    api__with_session(api, c, events);
}
