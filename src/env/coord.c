// Keep the environment of one project built.
//
//                     an input is other than the last build saw it
//     idle ─ reload ─> building ──> ready ──┐
//                       ^  │        failed ─┤
//                       │  └ newer change ──┘ (the running build is killed first)
//                       └───────────────────┘
//
// inputs.c says whether an input changed. From that all rules follow:
//
//   - a touch, or a save that was undone, is not a change.
//   - while paused, changes are still noted; resuming compares.
//   - a failed build is not repeated until something changes; its inputs are added to those of the last
//     good build, never removed.
//
// We cannot know who wrote a file, so no change is taken for the build's own write: an input that differs
// from what the last build found always causes another build. The pace keeps this from looping fast: the
// first builds in a row begin at once, later ones after 250 ms, 500 ms, 1 s, ...
//
//   - strikes: builds in a row under which an input changed while one of their programs ran. A build that
//     writes its own input does that each time, and waits longer each time. A change while nothing runs
//     comes from elsewhere and resets this to 0, so a user who saves waits about as long as the time
//     between saves.
//   - pace: builds in a row without a calm moment, as in a storm of saves. These waits have a limit, and
//     end early when the storm does.
//
// A newer change kills a running build, except when the waits have become long: then the build may end, so
// that there is a result now and then.
//
// Callbacks are always made from a deferred task or from the builder's end, never inside a call.

#include <assert.h>
#include <errno.h>

#include "base/json.h"
#include "base/time.h"
#include "env/build.h"
#include "env/env.h"
#include "env/inputs.h"
#include "env/result.h"
#include "loop/timer.h"
#include "loop/work.h"

enum {
    CALM_MS = 250, // without a change: a storm is over
    PATIENT = 4,   // from here on a running build is not killed
    PACE_MAX = 4,  // of a storm
    CHANGED_BYTES = 16 << 10,
};

// How long nothing runs before the next build, by how many in a row were no answer yet.
static const uint64_t waits_ms[] = {0, 0, 250, 500, 1000, 4000, 16000, 60000, 300000, 3600000};

struct env_coord {
    struct env_coord_opts o;
    char *root;
    char **base;
    bool own_lane;
    enum env_state state;
    bool paused, closed;
    uint64_t generation;
    uint64_t began_ms;
    int64_t began_ns, ended_ns; // wall time of the last build; ended: 0 while it runs
    bool ran;                   // the last build, when it is over, ran programs
    struct env_build *build;    // running
    bool disturbed;             // an input changed under the running build
    unsigned strikes;           // builds in a row that were disturbed while a program ran
    unsigned pace;              // builds in a row without a calm moment
    uint64_t struck;            // generation that has its strike
    uint64_t seen_ms;           // when a change was seen last
    uint64_t due_ms;            // when the next build begins at the latest, while it waits
    struct timer wait;          // before the next build
    struct loop_task *task;     // begins a build
    struct env_result *result;
    char *error;
    struct env_inputs inputs;
    vec(struct env_input) listed; // for env_coord_get_inputs()
    vec(char *) changed;          // of the running or last build, as shown
};

static void begin_soon(void *arg);

static int64_t wall_ns(void)
{
    return time_wall_ms() * 1000000;
}

// Did it change while a program of the last build ran? `at_ns` 0: the time is unknown.
static bool is_from_inside(const struct env_coord *c, int64_t at_ns)
{
    bool ran = c->build != NULL ? c->o.builder->runs_programs(c->build) : c->ran;
    int64_t end = c->build != NULL ? INT64_MAX : c->ended_ns + ENV_CLOCK_SLACK_NS;
    at_ns = at_ns != 0 ? at_ns : wall_ns() - ENV_CLOCK_SLACK_NS;
    return ran && at_ns >= c->began_ns - ENV_CLOCK_SLACK_NS && at_ns <= end;
}

static void end_build(struct env_coord *c)
{
    if (c->build != NULL) {
        c->ran = c->o.builder->runs_programs(c->build);
        c->ended_ns = wall_ns();
        c->o.builder->cancel(c->build);
        c->build = NULL;
    }
}

/// How many builds in a row gave no answer yet, by either count.
static size_t in_a_row(const struct env_coord *c)
{
    return MAX(c->strikes, MIN(c->pace, PACE_MAX));
}

/// Begin the next build when its time has come. After a change from outside that is at the latest when
/// these changes have stopped.
static void plan(struct env_coord *c, bool outside)
{
    uint64_t now = loop_now(c->o.loop), wait = waits_ms[MIN(in_a_row(c), ARRAY_LEN(waits_ms) - 1)];
    assert(c->build == NULL);
    c->due_ms = timer_running(&c->wait) ? MIN(c->due_ms, now + wait) : now + wait;
    wait = c->due_ms > now ? c->due_ms - now : 0;
    wait = outside ? MIN(wait, CALM_MS) : wait;
    if (wait == 0) {
        timer_stop(&c->wait);
        begin_soon(c);
    } else {
        timer_start(&c->wait, wait);
    }
}

/// Count a change; true when it came while no program of ours ran.
static bool count_change(struct env_coord *c, const struct env_tracked *in, int64_t at_ns)
{
    uint64_t now = loop_now(c->o.loop);
    bool outside = !is_from_inside(c, at_ns);
    c->pace = now - c->seen_ms >= CALM_MS ? 0 : c->pace;
    c->seen_ms = now;
    if (outside) {
        c->strikes = 0;
    } else if (c->struck != c->generation) {
        c->struck = c->generation;
        if (++c->strikes == PATIENT && c->o.cb.log != NULL) {
            char *text =
                xasprintf("afloat: it seems that the build itself writes '%s'; it is built "
                          "again, each time later. Let it write to $AFLOAT_STATE instead",
                          env_tracked_shown(in));
            c->o.cb.log(str_of(text), c->o.arg);
            free(text);
        }
    }
    return outside;
}

/// Is it other than the running build, or else the last one, found it?
static bool is_news(const struct env_coord *c, const struct env_tracked *in)
{
    return env_tracked_is_changed(in) && (c->build == NULL || !env_tracked_is_known(in));
}

static void on_seen(struct env_tracked *in, int64_t at_ns, void *arg)
{
    struct env_coord *c = arg;
    if (c->closed || c->paused || !is_news(c, in)) {
        return;
    }
    bool outside = count_change(c, in, at_ns);
    if (c->build != NULL && in_a_row(c) >= PATIENT) {
        c->disturbed = true;
        return;
    }
    end_build(c);
    plan(c, outside);
}

// ---- builds ----------------------------------------------------------------------------------

static void on_input(const struct env_input *found, void *arg)
{
    struct env_coord *c = arg;
    env_inputs_add(&c->inputs, found, c->generation, c->began_ns);
}

static void on_log(struct str line, void *arg)
{
    struct env_coord *c = arg;
    if (c->o.cb.log != NULL) {
        c->o.cb.log(line, c->o.arg);
    }
}

static void say_failed(struct env_coord *c, int code)
{
    struct env_failed m = {.generation = c->generation,
                           .duration_ms = loop_now(c->o.loop) - c->began_ms,
                           .code = code,
                           .text = c->error,
                           .changed = (const char *const *)c->changed.p,
                           .n_changed = c->changed.n};
    c->state = ENV_FAILED;
    c->o.cb.failed(&m, c->o.arg);
}

static void on_done(struct env_result *r, int code, const char *text, void *arg)
{
    struct env_coord *c = arg;
    assert(c->build != NULL);
    c->ran = c->o.builder->runs_programs(c->build);
    c->ended_ns = wall_ns();
    c->build = NULL;
    env_inputs_settle(&c->inputs, c->generation, r != NULL);
    if (c->disturbed && !c->paused) {
        plan(c, false);
    }
    free(c->error);
    c->error = r == NULL ? xstrdup(text) : NULL;
    if (r == NULL) {
        say_failed(c, code);
        return;
    }
    env_result_unref(c->result);
    c->result = env_result_ref(r);
    r->generation = c->generation;
    r->duration_ms = loop_now(c->o.loop) - c->began_ms;
    struct env_ready m = {
        .result = r, .changed = (const char *const *)c->changed.p, .n_changed = c->changed.n};
    c->state = ENV_READY;
    c->o.cb.ready(&m, c->o.arg);
}

static void begin(void *arg)
{
    struct env_coord *c = arg;
    struct env_build_opts o = {.loop = c->o.loop,
                               .lane = c->o.lane,
                               .root = c->root,
                               .base = (const char *const *)c->base,
                               .gate = c->o.gate,
                               .timeout_ms = c->o.timeout_ms,
                               .on_input = on_input,
                               .on_log = on_log,
                               .on_done = on_done,
                               .arg = c};
    assert(!c->closed);
    c->task = NULL;
    timer_stop(&c->wait);
    end_build(c);
    vec_fini_each(&c->changed, free);
    vec_foreach (in, &c->inputs.all) {
        if (env_tracked_is_changed(*in)) {
            vec_push(&c->changed, xstrdup(env_tracked_shown(*in)));
        }
    }
    c->disturbed = false;
    c->pace++;
    env_inputs_begin(&c->inputs);
    c->generation++;
    c->began_ms = loop_now(c->o.loop);
    c->began_ns = wall_ns();
    c->ended_ns = 0;
    c->state = ENV_BUILDING;
    c->build = c->o.builder->build(&o);
    struct env_building m = {.generation = c->generation,
                             .changed = (const char *const *)c->changed.p,
                             .n_changed = c->changed.n};
    c->o.cb.building(&m, c->o.arg); // last: it may close us
}

static void begin_soon(void *arg)
{
    struct env_coord *c = arg;
    if (c->task == NULL && !c->closed) {
        c->task = loop_defer(c->o.loop, begin, c);
    }
}

static bool is_busy(const struct env_coord *c)
{
    return c->task != NULL || c->build != NULL || timer_running(&c->wait);
}

static void begin_by_hand(struct env_coord *c)
{
    c->strikes = c->pace = 0;
    begin_soon(c);
}

// ---- looking ---------------------------------------------------------------------------------

static void on_looked(void *arg)
{
    struct env_coord *c = arg;
    if (env_inputs_changed(&c->inputs) && c->build == NULL) {
        begin_by_hand(c);
    } else if (!is_busy(c) && c->o.cb.unchanged != NULL) {
        c->o.cb.unchanged(c->o.arg);
    }
}

static void say_interrupted(void *arg)
{
    struct env_coord *c = arg;
    c->task = NULL;
    env_inputs_settle(&c->inputs, c->generation, false);
    free(c->error);
    c->error = xstrdup("interrupted\n");
    say_failed(c, -ECANCELED);
}

static void free_coord(void *arg)
{
    struct env_coord *c = arg;
    assert(c->closed);
    vec_fini_each(&c->changed, free);
    vec_fini(&c->listed);
    env_result_unref(c->result);
    if (c->own_lane) {
        lane_close(c->o.lane);
    }
    free(c->error);
    free(c->base);
    free(c->root);
    free(c);
}

// ---- public ----------------------------------------------------------------------------------

void env_write_changed(struct jw *w, const char *const *files, size_t n)
{
    jw_karr(w, "changed_files");
    for (size_t i = 0, begin = w->out->n; i < n && w->out->n - begin < CHANGED_BYTES; i++) {
        jw_strz(w, files[i]);
    }
    jw_end_arr(w);
}

struct env_coord *env_coord_open(const struct env_coord_opts *o)
{
    struct env_coord *c = xcalloc(1, sizeof *c);
    c->o = *o;
    c->o.builder = o->builder != NULL ? o->builder : &env_builder;
    c->o.timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : ENV_TIMEOUT_MS;
    c->root = xstrdup(o->root);
    c->base = env_result_environ(NULL, o->base);
    c->own_lane = o->lane == NULL;
    if (c->own_lane) {
        c->o.lane = lane_open(o->loop, "env", 2);
    }
    c->inputs = (struct env_inputs){.watcher = o->watcher,
                                    .lane = c->o.lane,
                                    .root = c->root,
                                    .on_seen = on_seen,
                                    .on_looked = on_looked,
                                    .on_log = on_log,
                                    .arg = c};
    timer_init(&c->wait, o->loop, begin_soon, c);
    return c;
}

bool env_coord_reload(struct env_coord *c, bool force)
{
    bool due = timer_running(&c->wait) || env_inputs_changed(&c->inputs);
    if (force || c->generation == 0 || (c->build == NULL && due)) {
        begin_by_hand(c);
    } else if (!is_busy(c)) {
        env_inputs_look(&c->inputs);
    }
    return is_busy(c);
}

void env_coord_pause(struct env_coord *c)
{
    c->paused = true;
    timer_stop(&c->wait); // resuming finds that change again
}

void env_coord_resume(struct env_coord *c)
{
    bool news = false;
    c->paused = false;
    vec_foreach (in, &c->inputs.all) {
        news = news || is_news(c, *in);
    }
    if (news) {
        begin_soon(c);
    }
}

bool env_coord_is_paused(const struct env_coord *c)
{
    return c->paused;
}

void env_coord_interrupt(struct env_coord *c)
{
    if (c->build == NULL) {
        return;
    }
    end_build(c);
    if (c->task == NULL) {
        c->task = loop_defer(c->o.loop, say_interrupted, c);
    }
}

void env_coord_close(struct env_coord *c)
{
    if (c == NULL || c->closed) {
        return;
    }
    c->closed = true;
    timer_stop(&c->wait);
    if (c->task != NULL) {
        loop_cancel(c->o.loop, c->task);
    }
    if (c->build != NULL) {
        c->o.builder->cancel(c->build);
    }
    env_inputs_fini(&c->inputs);
    loop_defer(c->o.loop, free_coord, c); // its callback may be running
}

enum env_state env_coord_get_state(const struct env_coord *c)
{
    return c->state;
}

struct env_result *env_coord_get_result(struct env_coord *c)
{
    return c->result;
}

const char *env_coord_get_error(const struct env_coord *c)
{
    return c->error;
}

const struct env_input *env_coord_get_inputs(struct env_coord *c, size_t *n)
{
    c->listed.n = 0;
    vec_foreach (in, &c->inputs.all) {
        vec_push(&c->listed, (*in)->in);
    }
    *n = c->listed.n;
    return c->listed.p;
}
