// What the hub and a host say to each other.
//
//     LOADING ── register... ── loaded ──> SERVING ── hook, tool, event, call ...
//        │ failed: told to the owner, who closes
//        └──┬── crash, hang, flood, limit, nonsense ──> ENDED ── callers told ── on_end
//
// The other side is hostile. It may die, hang, flood us, answer without a question, or not answer:
//   - every id that we ask has a time by which its caller is told; the id stays open until it
//     is answered, and one that is overdue for another second means that the host hangs;
//   - unsolicited messages are counted, and above a rate the host is ended;
//   - a line that is not JSON is its end, as is not reading what we send.
// Loading is an id like the others, but one that no answer can name.
//
// Invariants:
//   - callers and owner are told from the queue, a timer or a line, never from inside their own calls.
//   - `call` of an open id is NULL once its caller was told or gave up.
//   - once `closed`, the owner is not called.

#include "plugin/host_talk.h"

#include <assert.h>
#include <stdarg.h>

#include "plugin/host_proc.h"

enum { WINDOW_MS = 1000, MESSAGE_MAX = 1024 };
enum { ID_LOAD = 0, ID_GONE = -1 }; // ids that no answer can name: loading; the end of its output

static struct host_talk *talk_of(struct host *h)
{
    return container_of(h, struct host_talk, host);
}

// ---- the end -------------------------------------------------------------------------------

static void tell_caller(struct host_call *c, int status, const struct json *value,
                        const struct host_fault *f)
{
    assert(c->done != NULL && c->id != 0);
    c->id = 0;
    c->done(c, status, value, f);
}

/// Runs from the queue, so no caller is inside a call of ours.
static void on_ended(void *arg)
{
    struct host_talk *t = arg;
    const struct host_fault f = {.code = t->why, .message = t->message};
    assert(t->state == HOST_ENDED);
    t->task = NULL;
    while (t->open.n != 0) {
        struct host_call *c = vec_pop(&t->open).call;
        if (c != NULL) {
            tell_caller(c, UV_EPIPE, NULL, &f);
        }
    }
    if (!t->closed && !t->end_told) {
        t->end_told = true;
        t->owner.on_end(t->arg, &f);
    }
    t->way->idle(t);
}

// ---- open ids ------------------------------------------------------------------------------

static void arm(struct host_talk *t)
{
    uint64_t first = UINT64_MAX, now = loop_now(t->loop);
    vec_foreach (o, &t->open) {
        first = MIN(first, o->due);
    }
    if (first == UINT64_MAX) {
        timer_stop(&t->timer);
    } else if (!timer_running(&t->timer) || t->timer.due > first) {
        timer_start(&t->timer, first > now ? first - now : 0);
    }
}

static void add_open(struct host_talk *t, int64_t id, struct host_call *c, uint32_t ms)
{
    const struct host_open_id o = {.id = id, .call = c, .due = loop_now(t->loop) + ms};
    vec_push(&t->open, o);
    arm(t);
}

static struct host_open_id *find_open(struct host_talk *t, int64_t id)
{
    vec_foreach (o, &t->open) {
        if (o->id == id) {
            return o;
        }
    }
    return NULL;
}

// ---- sending -------------------------------------------------------------------------------

/// Send one line; UV_ENOBUFS when more than `max_unread` bytes wait. A host that left is told by its end.
/// In JSON a newline can only be space between tokens; as such it may come from outside.
static int send_line(struct host_talk *t, struct buf *line, size_t max_unread)
{
    char *newline = line->p;
    assert(t->state != HOST_ENDED && !t->closed);
    while ((newline = memchr(newline, '\n', line->n - (size_t)(newline - line->p))) != NULL) {
        *newline = ' ';
    }
    buf_addc(line, '\n');
    return t->way->send(t, buf_str(line), max_unread);
}

static void doom_deaf(struct host_talk *t)
{
    host_talk_doom(t, DIAG_HOST_CRASHED, "the host of '%s' does not read what it is sent", t->name);
}

/// `{"type":TYPE,"id":ID,FIELDS}`; no id when it is 0.
static void send_message(struct host_talk *t, const char *type, int64_t id, struct str fields)
{
    struct buf line = {.max = SIZE_MAX};
    if (t->state == HOST_ENDED || t->closed) {
        return;
    }
    buf_addf(&line, "{\"type\":\"%s\"", type);
    if (id != 0) {
        buf_addf(&line, ",\"id\":%lld", (long long)id);
    }
    if (fields.n != 0) {
        buf_addc(&line, ',');
        buf_adds(&line, fields);
    }
    buf_addc(&line, '}');
    if (send_line(t, &line, HOST_UNREAD_MAX) == UV_ENOBUFS) {
        doom_deaf(t);
    }
    buf_fini(&line);
}

static void send_error(struct host_talk *t, int64_t id, struct str message)
{
    struct buf fields = {.max = SIZE_MAX};
    buf_addz(&fields, "\"message\":");
    struct jw w = {.out = &fields};
    jw_str(&w, message);
    send_message(t, "error", id, buf_str(&fields));
    buf_fini(&fields);
}

/// Tell each caller whose time is over. The host then has one more second to answer, else it hangs.
static void on_due(void *arg)
{
    struct host_talk *t = arg;
    for (size_t i = 0; i < t->open.n && t->state != HOST_ENDED && !t->closed; i++) {
        struct host_open_id *o = &t->open.p[i];
        struct host_call *c = o->call;
        if (o->due > loop_now(t->loop)) {
            continue;
        }
        if (c != NULL) {
            o->call = NULL;
            o->due = loop_now(t->loop) + HOST_HANG_MS;
            send_message(t, "cancel", o->id, STR_NULL);
            const struct host_fault f = {.code = DIAG_HOOK_TIMEOUT, .message = "no answer in time"};
            tell_caller(c, ERR_TIMEOUT, NULL, &f);
            i = SIZE_MAX; // it may have asked for more, or given others up: from the beginning
        } else if (o->id == ID_LOAD) {
            host_talk_doom(t, DIAG_LOAD_TIMEOUT, "'%s' did not load in time", t->name);
        } else if (o->id == ID_GONE) {
            host_talk_doom(t, DIAG_HOST_CRASHED, "the host of '%s' closed its socket", t->name);
        } else {
            host_talk_doom(t, DIAG_HOST_CRASHED,
                           "the host of '%s' hangs: it did not answer in time", t->name);
        }
    }
    if (t->state != HOST_ENDED && !t->closed) {
        arm(t);
    }
}

// ---- what it says --------------------------------------------------------------------------

void host_talk_unasked(struct host_talk *t, size_t bytes)
{
    uint64_t now = loop_now(t->loop);
    if (now - t->window >= WINDOW_MS) {
        t->window = now;
        t->n_unasked = t->unasked_bytes = 0;
    }
    t->n_unasked++;
    t->unasked_bytes += bytes;
    if (t->n_unasked > HOST_FLOOD_N || t->unasked_bytes > HOST_FLOOD_BYTES) {
        host_talk_doom(t, DIAG_HOST_CRASHED,
                       "the host of '%s' flooded the hub: %zu messages in a second", t->name,
                       t->n_unasked);
    }
}

/// The fault of a `failed` or `error`; strings live in `a`. Which faults a host may report by name is a short list:
/// all others are `fallback`.
static struct host_fault fault_of(struct arena *a, const struct json *m, enum gen_code fallback)
{
    static const enum gen_code known[] = {DIAG_LOAD_FAILED, DIAG_LOAD_TIMEOUT, DIAG_HOOK_FAILED,
                                          DIAG_HOOK_TIMEOUT, DIAG_MEMORY_LIMIT};
    const struct json *path = json_get(m, "path"), *hook = json_get(m, "hook");
    enum gen_code code;
    bool named = gen_code_parse(json_get_text(m, "code"), &code), usable = false;
    for (size_t i = 0; i < ARRAY_LEN(known) && named; i++) {
        usable = usable || known[i] == code;
    }
    return (struct host_fault){
        .code = usable ? code : fallback,
        .message = arena_strdup(a, json_str(json_get(m, "message"), "no reason given")),
        .path = path != NULL ? arena_strdup(a, json_str(path, "")) : NULL,
        .line = host_line(m),
        .hook = hook != NULL ? arena_strdup(a, json_str(hook, "")) : NULL,
    };
}

struct message {
    const struct json *m;
    size_t bytes; // of the line
    struct arena *arena;
};

static void on_register(struct host_talk *t, const struct message *m)
{
    struct err e = {0};
    bool late = t->state != HOST_LOADING;
    if (late && t->owner.on_add == NULL) {
        send_error(t, 0, STR("register comes before loaded"));
    } else if (t->owner.on_register == NULL) {
        send_error(t, 0, STR("nothing can be registered here"));
    } else if ((late ? t->owner.on_add : t->owner.on_register)(t->arg, m->m, &e) < 0) {
        send_error(t, 0, str_of(e.msg));
    }
}

/// `loaded` and `failed` answer the load; a second one is unsolicited.
static bool take_load(struct host_talk *t, const struct message *m)
{
    struct host_open_id *load = find_open(t, ID_LOAD);
    if (t->state != HOST_LOADING || load == NULL) {
        host_talk_unasked(t, m->bytes);
        return false;
    }
    vec_remove(&t->open, load - t->open.p);
    arm(t);
    return true;
}

static void on_unregister(struct host_talk *t, const struct message *m)
{
    struct err e = {0};
    if (t->owner.on_unregister == NULL) {
        send_error(t, 0, STR("nothing can be taken back here"));
    } else if (t->owner.on_unregister(t->arg, json_int(json_get(m->m, "ref"), 0), &e) < 0) {
        send_error(t, 0, str_of(e.msg));
    }
}

static void on_loaded(struct host_talk *t, const struct message *m)
{
    if (take_load(t, m)) {
        t->state = HOST_SERVING;
        t->owner.on_loaded(t->arg, json_get(m->m, "metadata"));
    }
}

static void on_failed(struct host_talk *t, const struct message *m)
{
    const struct host_fault f = fault_of(m->arena, m->m, DIAG_LOAD_FAILED);
    if (take_load(t, m)) {
        t->owner.on_failed(t->arg, &f);
    }
}

/// The open id that a message names; NULL if there is none.
static struct host_open_id *find_named(struct host_talk *t, const struct message *m)
{
    int64_t id = json_int(json_get(m->m, "id"), 0);
    return id > 0 ? find_open(t, id) : NULL;
}

/// Take the open id that the message answers; false if there is none. `*caller` is NULL if its caller gave up.
static bool take_answered(struct host_talk *t, const struct message *m, struct host_call **caller)
{
    struct host_open_id *o = find_named(t, m);
    if (o == NULL) {
        host_talk_unasked(t, m->bytes);
        return false;
    }
    *caller = o->call;
    vec_remove(&t->open, o - t->open.p);
    return true;
}

static void on_result(struct host_talk *t, const struct message *m)
{
    struct host_call *c;
    if (take_answered(t, m, &c) && c != NULL) {
        c->answer = m->m;
        tell_caller(c, 0, json_get(m->m, "value"), NULL);
    }
}

static void on_error(struct host_talk *t, const struct message *m)
{
    struct host_call *c = NULL;
    const struct host_fault f = fault_of(m->arena, m->m, DIAG_HOOK_FAILED);
    bool answered = take_answered(t, m, &c);
    if (c != NULL) {
        tell_caller(c, ERR_INVALID, NULL, &f);
    } else if (!answered && !t->closed && t->owner.on_fault != NULL) {
        t->owner.on_fault(t->arg, &f);
    } else if (!answered && !t->closed && t->owner.on_log != NULL) {
        t->owner.on_log(t->arg, LOG_ERROR, str_of(f.message));
    }
    if (t->end_on_limit && (f.code == DIAG_HOOK_TIMEOUT || f.code == DIAG_LOAD_TIMEOUT ||
                            f.code == DIAG_MEMORY_LIMIT)) {
        host_talk_doom(t, f.code, "%s", f.message);
    }
}

static void on_log(struct host_talk *t, const struct message *m)
{
    enum log_level level;
    if (!log_level_parse(json_get_text(m->m, "level"), &level)) {
        level = LOG_INFO;
    }
    if (t->owner.on_log != NULL) {
        t->owner.on_log(t->arg, level, json_get_text(m->m, "text"));
    }
}

static void on_call(struct host_talk *t, const struct message *m)
{
    int64_t id = json_int(json_get(m->m, "id"), 0);
    if (t->owner.on_call == NULL) {
        send_error(t, id, STR("no operation can be called here"));
    } else {
        t->owner.on_call(t->arg, id, json_get_text(m->m, "op"), json_get(m->m, "params"));
    }
}

static void on_state(struct host_talk *t, const struct message *m)
{
    if (t->owner.on_state == NULL) {
        send_error(t, 0, STR("no state is kept here"));
    } else {
        t->owner.on_state(t->arg, json_get_text(m->m, "key"), json_get(m->m, "value"));
    }
}

static void on_progress(struct host_talk *t, const struct message *m)
{
    struct host_open_id *o = find_named(t, m);
    if (o != NULL && o->call != NULL && o->call->progress != NULL) {
        o->call->progress(o->call, json_get_text(m->m, "text"));
    }
}

/// Pieces of an answer under way. They do not count as a flood: the reader refuses what is too much.
static void on_emit(struct host_talk *t, const struct message *m)
{
    static const struct json nothing = {.type = JSON_NULL};
    struct host_open_id *o = find_named(t, m);
    const struct json *event = json_get(m->m, "event");
    struct host_call *c = o != NULL ? o->call : NULL;
    struct err e = {0};
    if (c == NULL || c->emit == NULL) {
        host_talk_unasked(t, m->bytes); // perhaps of a stream that was given up
    } else if (c->emit(c, event != NULL ? event : &nothing, &e) < 0) {
        struct host_fault fault = {.code = DIAG_HOOK_FAILED, .message = e.msg};
        host_cancel(&t->host, c);
        c->done(c, e.code, NULL, &fault);
    }
}

static const struct {
    const char *type;
    void (*fn)(struct host_talk *t, const struct message *m);
    bool unasked; // it answers nothing that we asked
} handlers[] = {
    {"result", on_result, false},
    {"log", on_log, true},
    {"error", on_error, false},
    {"register", on_register, true},
    {"loaded", on_loaded, false},
    {"failed", on_failed, false},
    {"call", on_call, true},
    {"state", on_state, true},
    {"progress", on_progress, true},
    {"emit", on_emit, false},
    {"unregister", on_unregister, true},
};

// ---- the face ------------------------------------------------------------------------------

static void op_call(struct host *host, struct host_call *c, const char *type, struct str fields)
{
    struct host_talk *t = talk_of(host);
    assert(!t->closed);
    c->id = ++t->last_id;
    add_open(t, c->id, c, t->state == HOST_ENDED ? 0 : c->timeout_ms);
    if (t->state == HOST_ENDED && t->task == NULL) { // told already; tell this one too
        t->task = loop_defer(t->loop, on_ended, t);
    }
    send_message(t, type, c->id, fields);
}

static void op_cancel(struct host *host, struct host_call *c)
{
    struct host_talk *t = talk_of(host);
    struct host_open_id *o = c->id != 0 ? find_open(t, c->id) : NULL;
    if (o == NULL) {
        return;
    }
    send_message(t, "cancel", c->id, STR_NULL);
    c->id = 0;
    o->call = NULL;
    o->due = loop_now(t->loop) + HOST_HANG_MS;
    if (t->state != HOST_ENDED) {
        arm(t);
    }
}

static void op_answer(struct host *host, int64_t id, int status, struct str text)
{
    struct host_talk *t = talk_of(host);
    if (status < 0) {
        send_error(t, id, text);
        return;
    }
    struct buf fields = {.max = SIZE_MAX};
    buf_addz(&fields, "\"value\":");
    buf_adds(&fields, text.n != 0 ? text : STR("null"));
    send_message(t, "result", id, buf_str(&fields));
    buf_fini(&fields);
}

/// Events must not pile up: a host that has not read the earlier ones does not get this one, and a host that reads
/// nothing for HOST_DEAF_MS is ended.
static void op_tell(struct host *host, const char *type, struct str fields)
{
    struct host_talk *t = talk_of(host);
    struct buf line = {.max = SIZE_MAX};
    uint64_t now = loop_now(t->loop);
    if (t->state == HOST_ENDED || t->closed) {
        return;
    }
    buf_addf(&line, "{\"type\":\"%s\"," STR_FMT "}", type, STR_ARG(fields));
    bool dropped = send_line(t, &line, HOST_EVENTS_MAX) == UV_ENOBUFS;
    buf_fini(&line);
    t->n_dropped = dropped ? t->n_dropped + 1 : 0;
    if (t->n_dropped == 1) {
        t->deaf_since = now;
    } else if (dropped && now - t->deaf_since > HOST_DEAF_MS) {
        doom_deaf(t);
    }
    if (dropped && (t->deaf_logged == 0 || now - t->deaf_logged > HOST_DEAF_MS)) {
        t->deaf_logged = now; // not each time, if it reads now and then
        log_warn(LOG_HUB, "host=%s events=lost reason=\"it does not read them\"",
                 LOGQ(str_of(t->name)).z);
    }
}

void host_event(struct host *h, struct str name, struct str data)
{
    struct buf fields = {.max = SIZE_MAX};
    buf_addz(&fields, "\"name\":");
    struct jw w = {.out = &fields};
    jw_str(&w, name);
    buf_addz(&fields, ",\"data\":");
    buf_adds(&fields, data.n != 0 ? data : STR("null"));
    host_tell(h, "event", buf_str(&fields));
    buf_fini(&fields);
}

static bool op_alive(struct host *host)
{
    return talk_of(host)->state != HOST_ENDED;
}

static void op_close(struct host *host)
{
    struct host_talk *t = talk_of(host);
    assert(!t->closed);
    t->closed = true;
    t->open.n = 0;
    timer_stop(&t->timer);
    t->way->close(t);
    t->way->idle(t);
}

static const struct host_ops talk_ops = {
    .call = op_call,
    .cancel = op_cancel,
    .answer = op_answer,
    .tell = op_tell,
    .alive = op_alive,
    .close = op_close,
};

// ---- for ways ------------------------------------------------------------------------------

void host_talk_init(struct host_talk *t, struct loop *l, const struct host_talk_way *way,
                    const char *name, const struct host_owner *owner, void *arg)
{
    *t = (struct host_talk){
        .host.ops = &talk_ops,
        .loop = l,
        .way = way,
        .name = xstrdup(name),
        .owner = *owner,
        .arg = arg,
    };
    timer_init(&t->timer, l, on_due, t);
}

void host_talk_fini(struct host_talk *t)
{
    assert(t->task == NULL);
    timer_stop(&t->timer);
    vec_fini(&t->open);
    free(t->message);
    free(t->name);
}

void host_talk_load(struct host_talk *t, struct str fields, uint32_t ms)
{
    assert(t->state == HOST_LOADING);
    add_open(t, ID_LOAD, NULL, ms);
    send_message(t, "load", 0, fields);
}

void host_talk_line(struct host_talk *t, struct str line)
{
    struct arena a = {0};
    struct json *m;
    struct err e = {0};
    size_t i = 0;
    if (t->state == HOST_ENDED || t->closed) {
        return;
    }
    if (json_parse(&m, &a, line, NULL, &e) < 0 || m->type != JSON_OBJ) {
        host_talk_doom(t, DIAG_HOST_CRASHED, "the host of '%s' does not speak the protocol: %s",
                       t->name, e.msg[0] != '\0' ? e.msg : "a line is not an object");
        arena_fini(&a);
        return;
    }
    struct str type = json_get_text(m, "type");
    while (i < ARRAY_LEN(handlers) && !str_eqz(type, handlers[i].type)) {
        i++;
    }
    if (i == ARRAY_LEN(handlers) || handlers[i].unasked) {
        host_talk_unasked(t, line.n);
    }
    if (i < ARRAY_LEN(handlers) && t->state != HOST_ENDED) {
        handlers[i].fn(t, &(struct message){m, line.n, &a});
    } else {
        send_error(t, json_int(json_get(m, "id"), 0), STR("unknown message"));
    }
    arena_fini(&a);
}

void host_talk_gone(struct host_talk *t)
{
    if (t->state != HOST_ENDED && !t->closed && find_open(t, ID_GONE) == NULL) {
        add_open(t, ID_GONE, NULL, HOST_HANG_MS);
    }
}

void host_talk_doom(struct host_talk *t, enum gen_code why, const char *fmt, ...)
{
    if (t->state == HOST_ENDED || t->closed) {
        return;
    }
    va_list ap;
    char text[MESSAGE_MAX];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->state = HOST_ENDED;
    t->why = why;
    t->message = xstrdup(text);
    timer_stop(&t->timer);
    assert(t->task == NULL);
    t->way->stop(t);
    t->task = loop_defer(t->loop, on_ended, t);
}
