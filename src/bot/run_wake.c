// A run sleeps between iterations, and is woken: by time, by what is said to it, by files that --wake-on names.
//
// A path is watched for the whole life of the run. In a worktree of its own a bot cannot have changed the
// user's files, so a change during a turn counts, too: the sleep after it is left out. Where the bot works in
// place only changes while it sleeps do, or it would wake itself for ever.

#include <assert.h>

#include "base/log.h"
#include "base/path.h"
#include "bot/run_int.h"
#include "proto/events.h"
#include "watch/watch.h"

static void on_time(void *arg)
{
    run__wake(arg);
}

void run__wake(struct run *r)
{
    timer_stop(&r->timer);
    r->resting = false;
    r->woken = false;
    run__go(r, RUN_GATHER);
}

void run__rest(struct run *r)
{
    assert(!r->in_turn && !r->resting && run__config(r) != NULL);
    int64_t seconds = run__config(r)->sleep_secs;
    struct buf fields;
    assert(seconds >= 0);
    r->session[0] = '\0';
    r->complete = false; // said in a turn that failed: the next one says it again
    r->wish = NULL;
    if (r->rec.arena.used > RUN_RENEW) { // a run may have any number of iterations
        record_renew(&r->rec);
    }
    run__save(r, NULL);
    if (seconds == 0 || r->woken || r->input.n != 0) {
        run__wake(r);
        return;
    }
    struct jw w = bots__begin_event(&r->rec, &fields);
    jw_kint(&w, "seconds", seconds);
    bots__emit(r->b, EVENT_BOT_RUN_SLEEPING, &w);
    r->resting = true;
    run__alarm(r, (uint64_t)seconds * 1000, on_time);
}

// ---- files --------------------------------------------------------------------------------------

static void on_change(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct run *r = arg;
    (void)w;
    if (batch->first) {
        return;
    }
    if (r->resting) {
        log_info(LOG_BOT, "run=%s woken=%s", r->rec.run_id, LOGQ(str_of(batch->changes[0].path)).z);
        run__wake(r);
    } else if (!r->rec.in_place) {
        r->woken = true;
    }
}

static void watch(struct run *r, const char *path, bool is_dir)
{
    struct err e = {0};
    struct watch *w = NULL;
    char *dir = str_dup(path_dir(str_of(path)));
    char *name = str_dup(path_base(str_of(path)));
    struct watch_opts o = {
        .path = is_dir ? path : dir, .pattern = is_dir ? NULL : name, .recursive = is_dir};
    if (r->over || r->rec.end_reason[0] != '\0') {
        // it ended meanwhile
    } else if (watch_open(&w, r->b->o.watcher, &o, on_change, r, &e) < 0) {
        run__note(r, "'%s' cannot be watched: %s", path, e.msg);
    } else {
        vec_push(&r->watches, w);
    }
    free(dir);
    free(name);
}

void run__watch(struct run *r)
{
    json_foreach_item (it, json_get(r->rec.options, "wake_on")) {
        struct str path = json_str(it, "");
        if (path.n == 0 || memchr(path.p, '\0', path.n) != NULL || r->b->o.watcher == NULL) {
            continue;
        }
        char *z = str_dup(path);
        char *joined = path_join(r->rec.working_dir, z);
        run__ask_path(r, path_clean(joined), path_is_dir, watch);
        free(joined);
        free(z);
    }
}

void run__unwatch(struct run *r)
{
    vec_foreach (w, &r->watches) {
        watch_close(*w);
    }
    r->watches.n = 0;
}
