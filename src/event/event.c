// The hub's one stream: giving out ids and encoding events.
//
// Readers come back with the last id they saw, also to a hub that was killed meanwhile. If that id
// could have been given out twice they would miss events without knowing. So ids are reserved on
// disk before they are used, a block at a time:
//
//     state/hub.json  event_id_mark          131072
//     ids                        65537 ... 98304 ... 131072
//     this hub                     ^first    ^half: ask for the next block
//
// However the process ends, the next one begins at mark + 1. The unused rest of the block is
// never given out: for an older reader it is part of its stream.gap.
//
// Invariants:
//   - ring.next - 1 <= reserved, and `reserved` is on disk.
//   - at most one reservation is under way (`asked` != 0).
//
// What it does not do: keep events over a restart. What must be kept is in the sessions' journals.

#include "event/event.h"

#include <assert.h>

#include "base/log.h"
#include "base/redact.h"
#include "base/time.h"
#include "event/event_int.h"
#include "store/store.h"

enum { ID_BLOCK = 65536, RING_MIN = 16384, RETRY_MS = 1000, BACKLOG = 1000, TYPE_MAX = 256 };

#define DOC      STR("state/hub.json")
#define MARK_KEY "event_id_mark"

static void log_free(struct event_log *log)
{
    assert(log->n_readers == 0 && log->types.n == 0);
    while (log->due != NULL) { // without readers, and a round that would have freed it
        struct event__channel *ch = log->due;
        log->due = ch->next_due;
        if (ch != log->all) {
            free(ch);
        }
    }
    free(log->all);
    map_fini(&log->channels);
    map_fini(&log->types);
    ring_fini(&log->ring);
    buf_fini(&log->scratch);
    buf_fini(&log->span.frames);
    free(log);
}

// ---- ids ----------------------------------------------------------------------------------

static void tell_ready(struct event_log *log, int status, const struct err *e)
{
    event_ready *ready = log->ready;
    log->ready = NULL;
    log->open = status == 0;
    ready(log->arg, status, e);
}

static void on_reserved(void *arg, int status, const struct err *e)
{
    struct event_log *log = arg;
    if (status == 0) {
        log->reserved = log->asked;
    } else {
        log->retry_at = loop_now(log->loop) + RETRY_MS;
        log_error(LOG_EVENT, "reserve=%llu error=%s", (unsigned long long)log->asked,
                  LOGQ(str_of(e->msg)).z);
    }
    log->asked = 0;
    if (log->closed) {
        log_free(log);
    } else if (log->ready != NULL) {
        tell_ready(log, status, e);
    }
}

static void reserve(struct event_log *log)
{
    char text[24];
    assert(log->asked == 0);
    log->asked = log->reserved + ID_BLOCK;
    snprintf(text, sizeof text, "%llu", (unsigned long long)log->asked);
    store_doc_set(log->store, DOC, STR(MARK_KEY), str_of(text), on_reserved, log);
}

static void on_doc(void *arg, int status, struct str text, const struct err *e)
{
    struct event_log *log = arg;
    struct err why;
    struct arena a = {0};
    struct json *doc = NULL;

    log->asked = 0;
    if (log->closed) {
        log_free(log);
        return;
    }
    if (status == 0 && text.n != 0) {
        status = json_parse(&doc, &a, text, NULL, &why);
        e = &why;
    }
    const struct json *value = json_get(doc, MARK_KEY);
    int64_t mark = json_int(value, value == NULL ? 0 : -1);
    arena_fini(&a);
    if (status == 0 && (mark < 0 || mark > INT64_MAX / 2)) {
        e = &why;
        status = err_set(&why, ERR_CORRUPT, "'state/hub.json': '%s' is not a number of events",
                         MARK_KEY);
    }
    if (status < 0) {
        tell_ready(log, status, e);
        return;
    }
    log->reserved = (uint64_t)mark;
    log->ring.first = log->ring.next = log->reserved + 1;
    reserve(log);
}

// ---- frames -------------------------------------------------------------------------------

static void add_type(struct buf *b, struct str type)
{
    for (size_t i = 0; i < type.n; i++) {
        char c = type.p[i];
        if (c <= ' ' || c >= 127 || c == '"' || c == '\\') {
            c = '_';
        }
        buf_addc(b, c);
    }
}

// What follows the id is what the session's journal has, so its readers get it without another look.
struct ring_entry event__encode(struct buf *b, uint64_t number, const struct event_record *ev)
{
    struct ring_entry entry = {.seq = ev->seq, .cut = ev->left_out != 0};
    char ts[TIME_TEXT];
    size_t from = b->n;
    unsigned long long id = number;

    buf_addf(b, "id: %llu\nevent: ", id);
    entry.type_at = (uint16_t)(b->n - from);
    entry.type_n = (uint16_t)ev->type.n;
    add_type(b, ev->type);
    buf_addf(b, "\ndata: {\"id\":%llu,", id);
    entry.rest_at = (uint16_t)(b->n - from);
    if (ev->seq != 0) {
        buf_addf(b, "\"seq\":%llu,", (unsigned long long)ev->seq);
    }
    buf_addf(b, "\"ts\":\"%s\",\"type\":\"", time_format(ev->ts, ts));
    add_type(b, ev->type);
    buf_addc(b, '"');
    if (ev->session.n != 0) {
        buf_addz(b, ",\"session\":");
        struct jw w = {.out = b};
        jw_str(&w, ev->session);
        entry.session = event__session_hash(ev->session);
    }
    if (ev->left_out != 0) {
        buf_addf(b, ",\"truncated\":true,\"bytes\":%zu", ev->left_out);
    } else if (ev->fields.n != 0) {
        buf_addc(b, ',');
        buf_adds(b, ev->fields);
    }
    buf_addz(b, "}\n\n");
    return entry;
}

/// Put the event's frame into the ring, as its next id.
static uint64_t insert(struct event_log *log, struct event_record *ev, struct event__channel *ch,
                       bool foreign)
{
    uint64_t id = log->ring.next;
    assert(ev->type.n <= TYPE_MAX);
    buf_clear(&log->scratch);
    struct ring_entry entry = event__encode(&log->scratch, id, ev);
    if (!buf_ok(&log->scratch)) {
        ev->left_out = ev->fields.n;
        ev->session = ev->session.n <= STORE_ID_MAX ? ev->session : STR_NULL;
        buf_clear(&log->scratch);
        entry = event__encode(&log->scratch, id, ev);
    }
    entry.foreign = foreign;
    ring_put(&log->ring, buf_str(&log->scratch), entry);
    if (ch != NULL) {
        event__link(log, ch, id);
    }
    event__touch(log, log->all);
    return id;
}

/// The same when there is an id to give; 0 when there is none.
static uint64_t put(struct event_log *log, struct event_record *ev, struct event__channel *ch)
{
    uint64_t left = log->reserved + 1 - log->ring.next;
    if (log->open && left <= ID_BLOCK / 2 && log->asked == 0 &&
        loop_now(log->loop) >= log->retry_at) {
        reserve(log);
    }
    bool drop = !log->open || left == 0;
    if (drop && !log->dropping) {
        log_error(LOG_EVENT, "dropping=true reason=%s", log->open ? "no-ids-reserved" : "not-open");
    } else if (!drop && log->dropping) {
        log_info(LOG_EVENT, "dropping=false");
    }
    log->dropping = drop;
    return drop ? 0 : insert(log, ev, ch, false);
}

// ---- a stream that hubs share -----------------------------------------------------------------

struct event_record event__record(const struct store_stream_event *ev)
{
    // a row that no hub wrote may have any type
    struct event_record r = {.type = {ev->type.p, MIN(ev->type.n, TYPE_MAX)},
                             .session = ev->session,
                             .fields = ev->fields,
                             .seq = ev->seq,
                             .ts = ev->ts};
    // in a journal the session is the first member; the frame says it itself
    struct str rest = ev->fields, name = ev->session;
    if (name.n != 0 && str_starts(rest, "\"session\":\"") && rest.n >= name.n + 12 &&
        memcmp(rest.p + 11, name.p, name.n) == 0 && rest.p[11 + name.n] == '"') {
        rest = str_from(rest, name.n + 12);
        r.fields = rest.n != 0 && rest.p[0] == ',' ? str_from(rest, 1) : rest;
    }
    return r;
}

static void on_stream(void *arg, const struct store_stream_event *ev)
{
    struct event_log *log = arg;
    struct event_record r = event__record(ev);
    struct event__channel *ch = r.session.n != 0 ? map_get(&log->channels, r.session) : NULL;
    if (ev->id != log->ring.next) { // the first, or events between were removed
        ring_restart(&log->ring, ev->id);
    }
    insert(log, &r, ch, !ev->own);
    if (ch != NULL) {
        ch->shown = MAX(ch->shown, ev->seq);
    }
    event__touch(log, ch);
}

static void on_followed(void *arg, int status, const struct err *e)
{
    tell_ready(arg, status, e);
}

// ---- public -------------------------------------------------------------------------------

int event_open(struct event_log **out, struct loop *l, struct store *store, size_t ring_bytes,
               event_ready *ready, void *arg, struct err *e)
{
    *out = NULL;
    if (ring_bytes == 0) {
        ring_bytes = EVENT_RING;
    }
    if (ring_bytes < RING_MIN || ring_bytes > UINT32_MAX) {
        return err_set(e, ERR_INVALID, "size of the event ring must be %d bytes to 4 GiB",
                       RING_MIN);
    }
    struct event_log *log = xcalloc(1, sizeof *log);
    log->loop = l;
    log->shared = store_shared(store);
    log->store = store;
    log->ready = ready;
    log->arg = arg;
    log->all = event__channel_new(STR_NULL);
    log->batch.prev = log->batch.next = &log->batch;
    buf_init(&log->span.frames, SIZE_MAX);
    map_init(&log->channels);
    timer_init(&log->later, l, event__wake_now, log);
    map_init(&log->types);
    ring_init(&log->ring, ring_bytes, 1);
    buf_init(&log->scratch, ring_frame_max(&log->ring));
    if (log->shared) {
        store_follow(store, BACKLOG, on_stream, on_followed, log);
    } else {
        log->asked = 1; // the mark: freeing has to wait for the store's answer
        store_doc_get(store, DOC, on_doc, log);
    }
    *out = log;
    return 0;
}

void event_close(struct event_log *log)
{
    if (log == NULL) {
        return;
    }
    assert(log->n_readers == 0);
    timer_stop(&log->later);
    if (log->wake != NULL) {
        loop_cancel(log->loop, log->wake);
    }
    if (log->shared) {
        store_unfollow(log->store);
    }
    log->open = false;
    log->closed = true;
    log->ready = NULL;
    if (log->asked == 0) {
        log_free(log);
    }
}

uint64_t event_emit(struct event_log *log, struct str type, struct str session, struct str fields)
{
    return event_emit_ask(log, type, session, fields, NULL, NULL);
}

void event_emit_object(struct event_log *log, enum event_id id, struct buf *object)
{
    if (buf_ok(object)) {
        assert(object->n >= 2 && object->p[0] == '{');
        event_emit(log, str_of(event_infos[id].type), STR_NULL,
                   (struct str){object->p + 1, object->n - 2});
    }
    buf_fini(object);
}

uint64_t event_emit_ask(struct event_log *log, struct str type, struct str session,
                        struct str fields, event_emitted *cb, void *arg)
{
    struct buf clean = {.max = SIZE_MAX};
    struct event__channel *ch = session.n != 0 ? map_get(&log->channels, session) : NULL;
    if (redact_json_to(&clean, fields)) {
        fields = buf_str(&clean);
    }
    // raw line breaks can only be white space between JSON tokens, but they would end the data line
    if (fields.n != 0 && (memchr(fields.p, '\n', fields.n) || memchr(fields.p, '\r', fields.n))) {
        if (clean.n == 0) {
            buf_adds(&clean, fields);
        }
        for (size_t i = 0; i < clean.n; i++) {
            clean.p[i] = clean.p[i] == '\n' || clean.p[i] == '\r' ? ' ' : clean.p[i];
        }
        fields = buf_str(&clean);
    }
    uint64_t id = 0;
    if (!log->shared) {
        id =
            put(log,
                &(struct event_record){
                    .type = type, .session = session, .fields = fields, .ts = loop_wall(log->loop)},
                ch);
        event__touch(log, ch);
    } else if (log->open) {
        store_emit(log->store, type, session, fields, cb, arg);
        id = EVENT_ID_LATER;
    }
    buf_fini(&clean);
    return id;
}

uint64_t event_emit_record(struct event_log *log, const struct event_record *ev)
{
    struct event_record copy = *ev;
    struct event__channel *ch = map_get(&log->channels, ev->session);
    if (log->shared) { // the store has told of it; what it does not have ends its readers
        if (ch != NULL && ev->seq == 0) {
            ch->gone = true;
            event__touch(log, ch);
        }
        return EVENT_ID_LATER;
    }
    uint64_t id = put(log, &copy, ch);
    if (ch != NULL && ev->seq != 0) {
        ch->shown = MAX(ch->shown, ev->seq);
    } else if (ch != NULL) {
        ch->failed = id != 0 ? id : UINT64_MAX;
    }
    event__touch(log, ch);
    return id;
}

void event_session_gone(struct event_log *log, struct str session)
{
    struct event__channel *ch = map_get(&log->channels, session);
    if (ch != NULL) {
        ch->gone = true;
        event__touch(log, ch);
    }
}

uint64_t event_first_id(const struct event_log *log)
{
    return log->ring.first;
}

uint64_t event_last_id(const struct event_log *log)
{
    return log->ring.next - 1;
}
