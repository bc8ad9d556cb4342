// A plugin that changes its own inputs as it loads or starts would be loaded again for ever.
//
//     commit ── code wrote files since the last commit? ──┬── no: somebody else changed it, count anew
//                                                         └── yes: counted
//     more than 10 counted within 2 s ──> a commit a second, and WATCH_DEGRADED with the new version
//
// Who wrote a file is not known. But a runner knows whether code that it runs wrote anything: when it did
// not, the change came from outside, however fast. So a script that saves a file fifty times a second is
// followed, and a plugin that saves itself is not.
//
// Only runs of the watcher wait: a person who asks for a reload gets one.

#include <assert.h>
#include <stdio.h>

#include "plugin/plugins_int.h"

enum { WINDOW_MS = 2000, PAUSE_MS = 1000, FORGET_MS = 10000 };

static void on_time(void *arg)
{
    struct plugins *ps = arg;
    vec_foreach (p, &ps->plugs) {
        (*p)->looked = (*p)->looked || (*p)->brake.until != 0;
    }
    plugins__ask(ps, "watch");
}

void brake__init(struct plugins *ps)
{
    timer_init(&ps->braked, ps->opts.hub->loop, on_time, ps);
}

static uint64_t writes_of(const struct plug *p)
{
    const struct plugin_version *run = p->serving->run;
    return run != NULL && run->runner->writes != NULL ? run->runner->writes(run->runner->arg) : 0;
}

/// Add a commit at `now`; true when there were more than BRAKE_COMMITS within the window.
static bool count(struct brake *b, uint64_t now)
{
    uint64_t *at = &b->at[b->n % BRAKE_COMMITS];
    bool fast = b->n >= BRAKE_COMMITS && now - *at < WINDOW_MS;
    *at = now;
    b->n++;
    return fast;
}

void brake__committed(struct plug *p)
{
    struct brake *b = &p->brake;
    assert(p->serving != NULL);
    uint64_t now = loop_now(p->owner->opts.hub->loop), writes = writes_of(p);
    bool own = writes != b->writes, slow = b->until != 0 && now > b->until + FORGET_MS;
    if (!own || slow) {
        *b = (struct brake){0};
    }
    b->writes = writes;
    if (!count(b, now) && b->until == 0) {
        return;
    }
    b->until = now + PAUSE_MS;
    gen_unit_note(p->serving->unit,
                  &(struct gen_diag){
                      .code = DIAG_WATCH_DEGRADED,
                      .path = p->serving->code.path,
                      .message = "it is loaded again and again, since files that it depends on are "
                                 "written as it loads or starts: once a second at most from now on",
                      .hint = "write to config.data_dir() instead"});
}

bool brake__holds(struct plug *p)
{
    uint64_t now = loop_now(p->owner->opts.hub->loop);
    if (p->brake.until <= now || !p->owner->watch_run) {
        return false;
    }
    if (!timer_running(&p->owner->braked)) {
        timer_start(&p->owner->braked, p->brake.until - now);
    }
    return true;
}
