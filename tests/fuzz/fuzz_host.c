// The host protocol, both directions. The first byte says who listens: the hub to a hostile host, or
// the far end to whatever calls itself the hub. The rest are lines.

#include <assert.h>

#include "host/host_int.h"
#include "plugin/host_talk.h"
#include "plugin/host_unit.h"

enum { CALLS = 4 };

// ---- the hub listens ---------------------------------------------------------------------------

static struct {
    int ends;
} seen;

static const struct host_rules rules = {.whole = false};

static int way_send(struct host_talk *t, struct str bytes, size_t max_unread)
{
    (void)max_unread;
    (void)t;
    assert(bytes.p[bytes.n - 1] == '\n' && memchr(bytes.p, '\n', bytes.n - 1) == NULL);
    return 0;
}

static void way_nothing(struct host_talk *t)
{
    (void)t;
}

static const struct host_talk_way way = {
    .send = way_send, .stop = way_nothing, .close = way_nothing, .idle = way_nothing};

static int on_register(void *arg, const struct json *what, struct err *e)
{
    return host_unit_register(arg, what, e);
}

static void on_loaded(void *arg, const struct json *metadata)
{
    (void)arg;
    (void)metadata;
}

static void on_failed(void *arg, const struct host_fault *f)
{
    (void)arg;
    assert(f->message != NULL && f->line >= 0);
}

static void on_end(void *arg, const struct host_fault *f)
{
    (void)arg;
    assert(f->message != NULL);
    seen.ends++;
}

static const struct host_owner owner = {
    .on_register = on_register, .on_loaded = on_loaded, .on_failed = on_failed, .on_end = on_end};

struct asked {
    struct host_call call;
    int told;
};

static void on_done(struct host_call *c, int status, const struct json *value,
                    const struct host_fault *f)
{
    (void)value;
    assert((status < 0) == (f != NULL));
    container_of(c, struct asked, call)->told++;
}

static void feed(struct str lines, void (*take)(void *to, struct str line), void *to)
{
    while (lines.n != 0) {
        take(to, str_cut(&lines, '\n'));
    }
}

static void take_talk(void *to, struct str line)
{
    host_talk_line(to, line);
}

static void fuzz_hub(struct loop *l, struct str lines)
{
    struct host_talk t;
    struct asked calls[CALLS];
    struct host_unit *u = host_unit_new(&rules);
    memset(&seen, 0, sizeof seen);
    host_talk_init(&t, l, &way, "x", &owner, u);
    t.end_on_limit = true;
    host_talk_load(&t, STR("\"path\":\"/p\""), 60000);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct asked){.call = {.timeout_ms = 60000, .done = on_done}};
        host_call(&t.host, &calls[i].call, "hook", STR("\"point\":\"on_final\""));
    }
    host_cancel(&t.host, &calls[CALLS - 1].call);
    feed(lines, take_talk, &t);
    while (t.task != NULL) {
        loop_run_once(l, false);
    }
    for (int i = 0; i < CALLS; i++) {
        assert(calls[i].told <= (i < CALLS - 1));
    }
    assert(seen.ends <= 1);
    host_close(&t.host);
    host_talk_fini(&t);
    host_unit_unref(u);
}

// ---- the far end listens -----------------------------------------------------------------------

static const char PROGRAM[] =
    "{\"type\":\"load\",\"config\":{\"a\":1},\"source\":\""
    "hooks.intercept('on_final', 'a', function(ctx, text) return {ctx, text} end)\\n"
    "tool{name='t', run=function(ctx, input) return input end}\\n"
    "tool{name='w', run=function() return hub.get_worktrees() end}\\n"
    "tool{name='s', run=function() timer.sleep(100) end}\\n"
    "events.on('improvement.*', function(d) events.emit('improvement.x', d) end)\"}";

static void take_far(void *to, struct str line)
{
    far__line(to, line);
}

static void check_message(struct str line)
{
    struct arena a = {0};
    struct json *m;
    int rc = json_parse(&m, &a, line, NULL, NULL);
    assert(rc == 0 && json_get(m, "type") != NULL);
    (void)rc;
    arena_fini(&a);
}

static void take_said(void *to, struct str line)
{
    (void)to;
    check_message(line);
}

static void fuzz_far(struct str lines, bool loaded)
{
    struct far f;
    far__init(&f, "/nowhere/x.lua", -1, -1); // no files, and what it says stays in its buffer
    f.over = true;                           // nobody to write to
    if (loaded) {
        far__line(&f, str_of(PROGRAM));
    }
    feed(lines, take_far, &f);
    far__fire_due(&f);
    feed(buf_str(&f.out), take_said, NULL);
    far__fini(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct loop l;
    static bool open;
    if (!open) {
        int rc = loop_init(&l, NULL, NULL);
        assert(rc == 0);
        (void)rc;
        open = true;
    }
    if (n == 0) {
        return 0;
    }
    struct str lines = {(const char *)data + 1, n - 1};
    if (data[0] == 'h') {
        fuzz_hub(&l, lines);
    } else {
        fuzz_far(lines, data[0] != 'e');
    }
    return 0;
}
