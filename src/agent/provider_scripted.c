// A try played from a scenario: the bytes of a real provider come from a socket, these from a file (or, if
// none is set, from offline.c) and a timer.
//
//     start ──> lane: read the file ──> begin: fate, `when` ──> speak, speak, ... ──> end
//                                          └──> an answer with an error status
//
// The file is read again for each try, on a lane of its own: it may be on a slow file system. A try that is
// stopped while its file is being read leaves the reading behind (`owner` NULL).

#include <assert.h>

#include "agent/offline.h"
#include "agent/provider_int.h"
#include "agent/scripted.h"
#include "base/path.h"
#include "loop/work.h"

enum {
    SCENARIO_MAX = 256 * 1024 * 1024,
    BURST = 16 * 1024, // bytes said at once when no time is to pass between words
    EXCERPT = 100,     // of the last message, in a complaint
};

// What a call keeps for all its tries.
struct played {
    uint64_t n;
    unsigned tries;
    struct buf last; // text of the last message to the model
    struct arena arena;
    struct json *offline; // the scene of the offline model; NULL: a file has it
};

struct reading {
    char *path;
    struct buf text;
    int rc;
    struct err e;
    struct play *owner; // NULL: the try was stopped
};

struct play {
    struct provider_call *call;
    struct reading *reading; // under way
    struct buf scenario;
    struct scripted_scene scene;
    bool has_scene;
    struct loop_task *task; // at most one of task and timer runs, and none while paused
    struct timer timer;
    void (*step)(struct play *p); // what they call
};

static void run_step(void *arg)
{
    struct play *p = arg;
    p->task = NULL;
    p->step(p);
}

static void schedule(struct play *p, uint64_t ms)
{
    struct loop *l = p->call->service->loop;
    if (p->call->paused) {
        return;
    }
    if (ms != 0) {
        timer_start(&p->timer, ms);
    } else {
        p->task = loop_defer(l, run_step, p);
    }
}

static void unschedule(struct play *p)
{
    timer_stop(&p->timer);
    if (p->task != NULL) {
        loop_cancel(p->call->service->loop, p->task);
        p->task = NULL;
    }
}

// ---- answering ------------------------------------------------------------------------------

static void say_head(struct play *p, int status, uint64_t retry_after_ms)
{
    char ms[24];
    struct http_header headers[2] = {
        {STR("content-type"), status == 200 ? STR("text/event-stream") : STR("application/json")}};
    struct http_reply reply = {.status = status, .headers = headers, .n_headers = 1};
    if (retry_after_ms != 0) {
        snprintf(ms, sizeof ms, "%llu", (unsigned long long)retry_after_ms);
        headers[reply.n_headers++] = (struct http_header){STR("retry-after-ms"), str_of(ms)};
    }
    provider__head(p->call, &reply);
}

static void say_failure(struct play *p, const struct scripted_failure *f)
{
    struct buf body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kobj(&w, "error");
    jw_kstr(&w, "code", f->code);
    jw_kstr(&w, "message", f->message);
    jw_end_obj(&w);
    jw_end_obj(&w);
    say_head(p, f->status, f->retry_after_ms);
    provider__bytes(p->call, buf_str(&body));
    provider__end(p->call, 0, &(struct err){0});
    buf_fini(&body);
}

static void complain(struct play *p, const char *message)
{
    say_failure(p, &(struct scripted_failure){
                       .status = 400, .code = STR("scenario_failed"), .message = str_of(message)});
}

// Say the next words. The next step is scheduled first, because provider__bytes() may free `p`.
static void speak(struct play *p)
{
    struct provider_call *call = p->call;
    uint64_t input_tokens = call->body.n / 4;
    struct buf out = {.max = SIZE_MAX};
    while (out.n < BURST && scripted_next(&p->scene, input_tokens, &out)) {
        if (p->scene.delta_ms != 0) {
            break;
        }
    }
    if (out.n == 0) {
        struct err e;
        err_set(&e, UV_ECONNRESET, "the scenario says so");
        provider__end(call, e.code, &e);
    } else {
        schedule(p, p->scene.delta_ms);
        provider__bytes(call, buf_str(&out));
    }
    buf_fini(&out);
}

static void speak_first(struct play *p)
{
    p->step = speak;
    say_head(p, 200, 0);
    speak(p);
}

// ---- beginning ------------------------------------------------------------------------------

static void complain_of_last(struct play *p, struct str when)
{
    const struct played *played = p->call->played;
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text,
             "line %llu of the scenario expects '" STR_FMT "' in the last message, which is '",
             (unsigned long long)p->scene.number, STR_ARG(when));
    struct str last = buf_str(&played->last);
    buf_adds(&text, (struct str){last.p, MIN(last.n, (size_t)EXCERPT)});
    buf_addz(&text, last.n > EXCERPT ? "...'" : "'");
    complain(p, buf_z(&text));
    buf_fini(&text);
}

// A delayed failure fails late.
static void fail_now(struct play *p)
{
    const struct played *played = p->call->played;
    struct scripted_failure f = {0};
    scripted_fate(&p->scene, played->tries, &f);
    say_failure(p, &f);
}

static void begin(struct play *p)
{
    const struct played *played = p->call->played;
    struct scripted_failure f;
    struct err e = {0};
    p->has_scene = true;
    if (played->offline != NULL) {
        scripted_init_line(&p->scene, played->offline, played->n);
    } else if (scripted_init(&p->scene, buf_str(&p->scenario), played->n, &e) != 0) {
        complain(p, e.msg);
        return;
    }
    struct str when = scripted_when(&p->scene), last = buf_str(&played->last);
    if (when.n != 0 && (last.n == 0 || memmem(last.p, last.n, when.p, when.n) == NULL)) {
        complain_of_last(p, when);
        return;
    }
    enum scripted_fate fate = scripted_fate(&p->scene, played->tries, &f);
    p->scene.cut = fate == SCRIPTED_IS_CUT;
    p->step = fate == SCRIPTED_FAILS ? fail_now : speak_first;
    schedule(p, p->scene.delay_ms);
}

static void read_work(void *arg)
{
    struct reading *r = arg;
    r->rc = path_read(r->path, &r->text, &r->e);
}

static void read_done(void *arg)
{
    struct reading *r = arg;
    struct play *p = r->owner;
    struct err e = r->e;
    int rc = r->rc;
    if (p != NULL) {
        p->reading = NULL;
        p->scenario = r->text;
        buf_init(&r->text, 0);
    }
    buf_fini(&r->text);
    free(r->path);
    free(r);
    if (p == NULL) {
        return;
    }
    if (rc != 0) {
        complain(p, e.msg);
    } else {
        begin(p);
    }
}

static void read_file(struct play *p)
{
    struct providers *s = p->call->service;
    struct reading *r = xcalloc(1, sizeof *r);
    r->path = xstrdup(p->call->choice->scenario);
    r->owner = p;
    buf_init(&r->text, SCENARIO_MAX);
    if (s->lane == NULL) {
        s->lane = lane_open(s->loop, "scenario", 1);
    }
    p->reading = r;
    work_submit(s->lane, work_mount_key(r->path), read_work, read_done, r);
}

// ---- the transport --------------------------------------------------------------------------

static void scripted_open(struct provider_call *call, const struct provider_ask *ask)
{
    struct played *played = xcalloc(1, sizeof *played);
    const struct json *last = NULL;
    json_foreach_item (m, json_get(ask->request, "messages")) {
        last = wire_is_role(m, "user") || wire_is_role(m, "tool") ? m : last;
    }
    played->n = ask->n;
    buf_init(&played->last, SIZE_MAX);
    wire_foreach_item(item, json_get(last, "content"))
    {
        const struct json *output = json_get(item, "output");
        if (wire_item_type(item) == WIRE_TEXT) {
            buf_adds(&played->last, wire_item_text(item));
        } else if (output != NULL && output->type == JSON_STR) {
            buf_adds(&played->last, output->s);
        } else if (output != NULL) {
            json_write(&played->last, output, 0);
        }
        buf_addc(&played->last, '\n');
    }
    if (call->choice->scenario == NULL) {
        played->offline = offline_scene(&played->arena, ask->request);
    }
    call->played = played;
}

static void scripted_close(struct provider_call *call)
{
    struct played *played = call->played;
    buf_fini(&played->last);
    arena_fini(&played->arena);
    free(played);
}

static int scripted_start(struct provider_call *call, struct err *e)
{
    struct play *p = xcalloc(1, sizeof *p);
    struct played *played = call->played;
    (void)e;
    assert(call->transport == NULL && played != NULL);
    played->tries++;
    p->call = call;
    p->step = begin;
    buf_init(&p->scenario, SCENARIO_MAX);
    timer_init(&p->timer, call->service->loop, run_step, p);
    call->transport = p;
    if (played->offline == NULL) {
        read_file(p);
    } else {
        schedule(p, 0);
    }
    return 0;
}

static void scripted_stop(struct provider_call *call, bool clean)
{
    struct play *p = call->transport;
    assert(p != NULL && p->call == call);
    (void)clean;
    call->transport = NULL;
    unschedule(p);
    if (p->reading != NULL) {
        p->reading->owner = NULL;
    }
    if (p->has_scene) {
        scripted_fini(&p->scene);
    }
    buf_fini(&p->scenario);
    free(p);
}

static void scripted_pause(struct provider_call *call, bool paused)
{
    struct play *p = call->transport;
    unschedule(p);
    if (!paused && p->reading == NULL) {
        schedule(p, 0);
    }
}

const struct provider_transport provider_transport_scripted = {
    .open = scripted_open,
    .close = scripted_close,
    .start = scripted_start,
    .stop = scripted_stop,
    .pause = scripted_pause,
};
