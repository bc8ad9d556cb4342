// A session's journal, read: as a list, and followed as server-sent events.
//
//     journal ──store_read──> lines ──> frames `id: seq` ──peek/next──> a connection
//
// A feed holds one page at a time and asks for the next only when that was taken, so a reader that
// stands still costs one page. It misses nothing, whatever it missed in the meantime: the journal has
// all of it. What is in the journal but not shown yet (it waits for a sync, or for an earlier event) is
// not read either, so that all views agree.

#include "agent/agent_int.h"

enum { PAGE = 256, PIECE = 64 * 1024 };

struct agent_feed {
    struct agent_feed *next;
    struct session *s; // NULL: it is gone
    uint64_t after;
    char turn[TURN_ID]; // "": no end
    struct buf frames;
    size_t sent; // bytes of them
    bool reading, more, ended, closed;
    struct loop_task *task; // tells the reader
    struct loop *loop;
    agent_wake *wake;
    void *arg;
};

static void read_more(struct agent_feed *f);

static void on_task(void *arg)
{
    struct agent_feed *f = arg;
    f->task = NULL;
    f->wake(f->arg);
}

static void tell(struct agent_feed *f)
{
    if (f->task == NULL && !f->closed) {
        f->task = loop_defer(f->loop, on_task, f);
    }
}

static bool ends_turn(const struct agent_feed *f, const struct json *ev)
{
    static const enum event_id ends[] = {EVENT_TURN_COMPLETED, EVENT_TURN_FAILED,
                                         EVENT_TURN_INTERRUPTED};
    struct str type = json_str(json_get(ev, "type"), "");
    if (f->turn[0] == '\0' || !str_eqz(json_str(json_get(ev, "turn"), ""), f->turn)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (str_eqz(type, event_infos[ends[i]].type)) {
            return true;
        }
    }
    return false;
}

/// Add the frame of a line; false, and nothing, for one that is not shown yet.
static bool add_frame(struct agent_feed *f, struct str line)
{
    struct arena a;
    struct json *ev;
    arena_init(&a);
    bool good = json_parse(&ev, &a, line, NULL, NULL) == 0;
    uint64_t seq = good ? (uint64_t)json_int(json_get(ev, "seq"), 0) : 0;
    bool shown = f->s == NULL || seq <= f->s->last_seq;
    if (good && shown) {
        struct str type = json_str(json_get(ev, "type"), "");
        buf_addf(&f->frames, "id: %llu\nevent: " STR_FMT "\ndata: ", (unsigned long long)seq,
                 STR_ARG(type));
        buf_adds(&f->frames, line);
        buf_addz(&f->frames, "\n\n");
        f->ended = f->ended || ends_turn(f, ev);
        f->after = seq;
    }
    arena_fini(&a);
    return shown;
}

static void feed_free(struct agent_feed *f)
{
    buf_fini(&f->frames);
    free(f);
}

static void on_page(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct agent_feed *f = arg;
    (void)e;
    f->reading = false;
    if (f->closed) {
        feed_free(f);
        return;
    }
    struct str lines = status == 0 ? p->lines : STR_NULL;
    while (lines.n != 0 && !f->ended && add_frame(f, str_cut(&lines, '\n'))) {
    }
    f->more = f->more || (f->s != NULL && f->after < f->s->last_seq);
    f->ended = f->ended || status < 0 || f->s == NULL;
    if (f->frames.n != 0 || f->ended) {
        tell(f);
    } else if (f->more) {
        read_more(f);
    }
}

static void read_more(struct agent_feed *f)
{
    if (f->reading || f->ended || f->s == NULL || f->frames.n != 0) {
        return;
    }
    f->reading = true;
    f->more = false;
    store_read(f->s->agent->o.store, str_of(f->s->id), f->after, PAGE, on_page, f);
}

void agent__session_wake_feeds(struct session *s)
{
    for (struct agent_feed *f = s->feeds; f != NULL; f = f->next) {
        f->more = true;
        read_more(f);
    }
}

void agent__session_end_feeds(struct session *s)
{
    while (s->feeds != NULL) {
        struct agent_feed *f = s->feeds;
        s->feeds = f->next;
        f->s = NULL;
        f->ended = f->ended || !f->reading;
        tell(f);
    }
}

void agent__session_fail_feeds(struct session *s, const char *type, struct str data)
{
    for (struct agent_feed *f = s->feeds; f != NULL; f = f->next) {
        buf_addf(&f->frames, "event: %s\ndata: " STR_FMT "\n\n", type, STR_ARG(data));
    }
    agent__session_end_feeds(s);
}

struct agent_feed *agent_feed_open(struct session *s, uint64_t after, const char *turn,
                                   agent_wake *wake, void *arg)
{
    struct agent_feed *f = xcalloc(1, sizeof *f);
    f->s = s;
    f->after = after;
    snprintf(f->turn, sizeof f->turn, "%s", turn != NULL ? turn : "");
    f->loop = s->agent->o.loop;
    f->wake = wake;
    f->arg = arg;
    buf_init(&f->frames, SIZE_MAX);
    f->next = s->feeds;
    s->feeds = f;
    read_more(f);
    return f;
}

static void unlist(struct agent_feed *f)
{
    for (struct agent_feed **at = f->s != NULL ? &f->s->feeds : NULL; at != NULL && *at != NULL;
         at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            return;
        }
    }
}

void agent_feed_close(struct agent_feed *f)
{
    if (f == NULL) {
        return;
    }
    unlist(f);
    f->s = NULL;
    f->closed = true;
    if (f->task != NULL) {
        loop_cancel(f->loop, f->task);
        f->task = NULL;
    }
    if (!f->reading) {
        feed_free(f);
    }
}

/// In pieces: whoever sends them keeps a copy of what the kernel does not take, and an event may be long.
struct str agent_feed_peek(struct agent_feed *f)
{
    struct str rest = str_from(buf_str(&f->frames), f->sent);
    return (struct str){rest.p, MIN(rest.n, (size_t)PIECE)};
}

void agent_feed_next(struct agent_feed *f)
{
    f->sent = MIN(f->sent + PIECE, f->frames.n);
    if (f->sent < f->frames.n) {
        return;
    }
    f->sent = 0;
    buf_fini(&f->frames);
    if (f->more) {
        read_more(f);
    }
}

bool agent_feed_ended(const struct agent_feed *f)
{
    return f->ended && f->frames.n == 0;
}

// ---- as a list ----------------------------------------------------------------------------------

struct listing {
    uint64_t shown; // the last event that is
    agent_text_cb *cb;
    void *arg;
};

static uint64_t seq_of(struct str line)
{
    struct arena a;
    struct json *ev;
    arena_init(&a);
    bool good = json_parse(&ev, &a, line, NULL, NULL) == 0;
    uint64_t seq = good ? (uint64_t)json_int(json_get(ev, "seq"), 0) : 0;
    arena_fini(&a);
    return seq;
}

static void on_list(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct listing l = *(struct listing *)arg;
    struct agent_no no;
    free(arg);
    if (status < 0) {
        agent__no_store(&no, e);
        l.cb(l.arg, STR_NULL, &no);
        return;
    }
    struct buf out;
    struct str lines = p->lines;
    uint64_t next = p->next - p->n, seq;
    buf_init(&out, SIZE_MAX);
    buf_addz(&out, "{\"events\":[");
    for (const char *comma = ""; lines.n != 0; comma = ",", next = seq) {
        struct str line = str_cut(&lines, '\n');
        seq = seq_of(line);
        if (seq > l.shown) {
            break;
        }
        buf_addz(&out, comma);
        buf_adds(&out, line);
    }
    buf_addf(&out, "],\"next\":%llu}", (unsigned long long)next);
    l.cb(l.arg, buf_str(&out), NULL);
    buf_fini(&out);
}

void agent_events(struct session *s, uint64_t after, size_t limit, agent_text_cb *cb, void *arg)
{
    struct listing *l = xmalloc(sizeof *l);
    *l = (struct listing){.shown = s->last_seq, .cb = cb, .arg = arg};
    store_read(s->agent->o.store, str_of(s->id), after, limit, on_list, l);
}
