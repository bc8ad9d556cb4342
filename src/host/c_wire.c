// What a plugin in C and the hub say to each other: lines both ways, and questions that wait for their answers.
//
// A function that asks the hub something waits: in the main thread by reading (other messages are kept for later), in
// other threads until the main thread has read the answer.

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/path.h"
#include "host/c_far.h"
#include "proto/host.h"

enum { READ_SIZE = 64 * 1024 };

struct c_far far;

// ---- sending --------------------------------------------------------------------------------

void c_begin(struct jw *w, struct buf *line, const char *type, int64_t id)
{
    buf_init(line, SIZE_MAX);
    jw_init(w, line);
    jw_obj(w);
    jw_kstrz(w, "type", type);
    if (id != 0) {
        jw_kint(w, "id", id);
    }
}

void c_send_later(struct jw *w, struct buf *line)
{
    jw_end_obj(w);
    pthread_mutex_lock(&far.lock);
    buf_adds(&far.held, buf_str(line));
    buf_addc(&far.held, '\n');
    pthread_mutex_unlock(&far.lock);
    buf_fini(line);
}

static void flush(void)
{
    pthread_mutex_lock(&far.lock);
    if (far.held.n != 0 && !far.validating) {
        int rc = path_write_fd(HOST_FD, buf_str(&far.held));
        (void)rc; // a hub that is gone is seen when reading
    }
    buf_clear(&far.held);
    pthread_mutex_unlock(&far.lock);
}

void c_send(struct jw *w, struct buf *line)
{
    c_send_later(w, line);
    flush();
}

void c_send_error(int64_t id, const char *message)
{
    struct buf line;
    struct jw w;
    c_begin(&w, &line, "error", id);
    jw_kstrz(&w, "message", message);
    c_send(&w, &line);
}

void c_log(const char *level, const char *format, ...)
{
    struct buf line;
    struct jw w;
    va_list ap;
    va_start(ap, format);
    char *text = xvasprintf(format, ap);
    va_end(ap);
    c_begin(&w, &line, "log", 0);
    jw_kstrz(&w, "level", level);
    jw_kstrz(&w, "text", text);
    c_send(&w, &line);
    free(text);
}

void c_progress(struct afloat_call *c, const char *text)
{
    struct buf line;
    struct jw w;
    c_begin(&w, &line, "progress", c->id);
    jw_kstrz(&w, "text", text);
    c_send(&w, &line);
}

// ---- streams --------------------------------------------------------------------------------

void c_running(int64_t id)
{
    assert(id > 0);
    pthread_mutex_lock(&far.lock);
    vec_push(&far.running, id);
    pthread_mutex_unlock(&far.lock);
}

void c_over(int64_t id)
{
    pthread_mutex_lock(&far.lock);
    vec_drop(&far.running, id);
    pthread_mutex_unlock(&far.lock);
}

static bool emit(struct afloat_call *c, const struct json *event)
{
    struct buf line;
    struct jw w;
    bool running = false;
    pthread_mutex_lock(&far.lock);
    vec_foreach (it, &far.running) {
        running = running || *it == c->id;
    }
    pthread_mutex_unlock(&far.lock);
    if (far.validating || !running) {
        return far.validating;
    }
    c_begin(&w, &line, "emit", c->id);
    jw_kvalue(&w, "event", event);
    c_send(&w, &line);
    return true;
}

bool c_emit_text(struct afloat_call *c, const char *text)
{
    return emit(c, &(struct json){.type = JSON_STR, .s = str_of(text)});
}

bool c_emit(struct afloat_call *c, const char *json)
{
    struct arena a = {0};
    struct json *event = NULL;
    struct err e = {0};
    int rc = json_parse(&event, &a, str_of(json), NULL, &e);
    if (rc < 0) {
        c_call_fail(c, "afloat_emit: this is no JSON: %s", e.msg);
    }
    bool read = rc == 0 && emit(c, event);
    arena_fini(&a);
    return read;
}

// ---- reading --------------------------------------------------------------------------------

bool c_take_answer(const struct json *m)
{
    struct str type = json_str(json_get(m, "type"), "");
    int64_t id = json_int(json_get(m, "id"), 0);
    if (!str_eqz(type, "result") && !str_eqz(type, "error")) {
        return false;
    }
    pthread_mutex_lock(&far.lock);
    struct ask *a = far.asks;
    while (a != NULL && a->id != id) {
        a = a->next;
    }
    if (a != NULL && str_eqz(type, "result")) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, json_get(m, "value"), 0);
        a->value = buf_take(&text, NULL);
    }
    if (a != NULL) {
        a->done = true;
        pthread_cond_broadcast(&far.answered);
    }
    pthread_mutex_unlock(&far.lock);
    if (str_eqz(type, "error")) {
        c_log("error", STR_FMT, STR_ARG(json_str(json_get(m, "message"), "")));
    }
    return true;
}

void c_wake(void)
{
    flush();
    if (far.wake != 0) {
        eventfd_write(far.wake, 1);
    }
}

bool c_wait_line(int ms)
{
    struct pollfd p[] = {{.fd = HOST_FD, .events = POLLIN}, {.fd = far.wake, .events = POLLIN}};
    eventfd_t n;
    if (far.backlog.n != 0 || (far.in.n != 0 && memchr(far.in.p, '\n', far.in.n) != NULL)) {
        return true;
    }
    flush();
    int rc = poll(p, far.wake != 0 ? 2 : 1, ms);
    if (rc > 0 && far.wake != 0 && p[1].revents != 0) {
        eventfd_read(far.wake, &n);
    }
    return rc > 0 && p[0].revents != 0;
}

char *c_read_line(void)
{
    char *newline;
    while ((newline = far.in.n != 0 ? memchr(far.in.p, '\n', far.in.n) : NULL) == NULL) {
        char *room = buf_reserve(&far.in, READ_SIZE);
        flush();
        ssize_t n = room != NULL ? read(HOST_FD, room, READ_SIZE) : 0;
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            _exit(0);
        }
        buf_grow(&far.in, (size_t)n);
    }
    size_t n = (size_t)(newline - far.in.p);
    char *line = str_dup((struct str){far.in.p, n});
    buf_drop(&far.in, n + 1);
    return line;
}

static void wait_in_main(const struct ask *a)
{
    while (!a->done) {
        char *line = c_read_line();
        struct arena arena = {0};
        struct json *m = NULL;
        if (json_parse(&m, &arena, str_of(line), NULL, NULL) == 0 && c_take_answer(m)) {
            free(line);
        } else {
            vec_push(&far.backlog, line);
        }
        arena_fini(&arena);
    }
}

// ---- asking ---------------------------------------------------------------------------------

static void wait_for(struct ask *a)
{
    assert(a->id > 0 && far.asks != NULL);
    if (pthread_equal(pthread_self(), far.main)) {
        wait_in_main(a);
    }
    pthread_mutex_lock(&far.lock);
    while (!a->done) {
        pthread_cond_wait(&far.answered, &far.lock);
    }
    struct ask **at = &far.asks;
    while (*at != a) {
        at = &(*at)->next;
    }
    *at = a->next;
    pthread_mutex_unlock(&far.lock);
}

/// Values that survive a reload are kept here and sent as they change.
static const char *ask_state(struct afloat_call *c, bool sets, const struct json *params)
{
    struct str key = json_str(json_get(params, "key"), "");
    struct buf text = {.max = SIZE_MAX};
    pthread_mutex_lock(&far.lock);
    if (sets) { // to memory of its own: that of the value before is given back
        struct arena fresh = {0};
        const struct json *now = json_with(&fresh, far.state, key, json_get(params, "value"));
        far.state = json_clone(&fresh, now);
        arena_fini(&far.arena);
        far.arena = fresh;
    }
    json_write(&text, json_get_str(far.state, key), 0);
    pthread_mutex_unlock(&far.lock);
    const char *out = arena_strdup(&c->arena, buf_str(&text));
    if (sets) {
        struct buf line;
        struct jw w;
        c_begin(&w, &line, "state", 0);
        jw_kstr(&w, "key", key);
        jw_key(&w, "value");
        jw_raw(&w, buf_str(&text));
        c_send(&w, &line);
    }
    buf_fini(&text);
    return out;
}

const char *c_ask(struct afloat_call *c, const char *op, const char *params)
{
    struct json *given = NULL;
    struct str text = arena_str(&c->arena, str_of(params != NULL ? params : "{}"));
    if (json_parse(&given, &c->arena, text, NULL, NULL) < 0 || given->type != JSON_OBJ) {
        c_log("error", "%s: the parameters are no JSON object", op);
        return NULL;
    }
    bool sets = strcmp(op, "state.set") == 0;
    if (sets && json_get(given, "value") == NULL) {
        c_log("error", "state.set: there is no 'value'");
        return NULL;
    }
    if (sets || strcmp(op, "state.get") == 0) {
        return ask_state(c, sets, given);
    }
    if (far.validating || !far.loaded) {
        return NULL;
    }
    struct ask a = {0};
    struct buf line;
    struct jw w;
    pthread_mutex_lock(&far.lock);
    a.id = ++far.last_ask;
    a.next = far.asks;
    far.asks = &a;
    pthread_mutex_unlock(&far.lock);
    c_begin(&w, &line, "call", a.id);
    jw_kstrz(&w, "op", op);
    jw_kvalue(&w, "params", given);
    c_send(&w, &line);
    wait_for(&a);
    const char *out = a.value != NULL ? arena_strdup(&c->arena, str_of(a.value)) : NULL;
    free(a.value);
    return out;
}
