// Slow down plugins that change their own inputs while they load or start: they would be reloaded for ever.
//
//     commit ── code wrote files since the last commit? ──┬── no: the change came from outside, count anew
//                                                         └── yes: counted
//     more than 10 counted within 2 s ──> a commit a second, and WATCH_DEGRADED with the new version
//
// The hub cannot tell who wrote a file, but a runner knows whether the code that it runs wrote anything. If it did
// not, the change came from outside. So the hub follows a script that saves a file fifty times a second, and slows
// down a plugin that saves itself.
//
// Only runs of the watcher wait: a user who asks for a reload gets one.

#include <assert.h>
#include <stdio.h>

#include "plugin/plugins_int.h"

enum { WINDOW_MS = 2000, PAUSE_MS = 1000, FORGET_MS = 10000 };

static void on_time(void *arg)
{
    struct plugins *ps = arg;
    vec_foreach (p, &ps->plugins) {
        (*p)->looked = (*p)->looked || (*p)->brake.until != 0;
    }
    plugins__ask(ps, "watch");
}

void brake__committed(struct plugin *p)
{
    struct brake *b = &p->brake;
    assert(p->serving != NULL);
    const struct plugin_version *run = p->serving->run;
    bool known = run != NULL && run->runner->writes != NULL;
    uint64_t now = loop_now(p->owner->opts.hub->loop);
    uint64_t writes = known ? run->runner->writes(run->runner->arg) : 0;
    if (writes == b->writes || (b->until != 0 && now > b->until + FORGET_MS)) {
        *b = (struct brake){0};
    }
    b->writes = writes;
    uint64_t *oldest = &b->at[b->n % BRAKE_COMMITS];
    bool fast = b->n >= BRAKE_COMMITS && now - *oldest < WINDOW_MS;
    *oldest = now;
    b->n++;
    if (!fast && b->until == 0) {
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

bool brake__holds(struct plugin *p)
{
    struct plugins *ps = p->owner;
    uint64_t now = loop_now(ps->opts.hub->loop);
    if (p->brake.until <= now || !ps->watch_run) {
        return false;
    }
    if (!timer_running(&ps->braked)) {
        timer_init(&ps->braked, ps->opts.hub->loop, on_time, ps);
        timer_start(&ps->braked, p->brake.until - now);
    }
    return true;
}
