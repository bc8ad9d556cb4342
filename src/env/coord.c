// Keep the environment of one project built.
//
//                     an input is other than the last build saw it
//     idle ─ reload ─> building ──> ready ──┐
//                       ^  │        failed ─┤
//                       │  └ newer change ──┘ (the running build is killed first)
//                       └───────────────────┘
//
// Each input carries two fingerprints: `built`, what the last finished build used, and `now`, what the
// watcher saw last. All rules follow from comparing them:
//
//   - a change is an input whose two differ; a touch, or a save that was taken back, is none.
//   - an input that changed after the build read it, but before it was watched, differs at once: the
//     builder reports the hash of what it read. Where only another program knows (direnv's list), a
//     file that changed after the build began, or is gone by now, counts as changed.
//   - while paused `now` goes on being noted; resuming compares.
//   - a failed build leaves `built` of what it saw, so it is not repeated until something changes; its
//     inputs are added to those of the last good build, never taken away.
//
// A build that writes its own inputs must not run for ever, though its writes look like a person's.
// The difference is that they only happen while it runs. So a file that changed while a program of the
// build ran starts another build like any change, but the third and fourth such build in a row begin
// after a while in which nothing runs. A change in that time was somebody else's, and all is as at the
// start. If there is none, and the input changes once more during the build, it is the build's own
// doing: what it wrote is taken as seen.
//
// Callbacks are always made from a deferred task or from the builder's end, never inside a call.

#include <errno.h>

#include "base/path.h"
#include "base/time.h"
#include "env/build.h"
#include "env/env.h"
#include "env/look.h"
#include "env/result.h"
#include "loop/timer.h"
#include "watch/watch.h"

enum {
    TIMEOUT_MS = 600000,
    CLOCK_SLACK_NS = 10000000, // the kernel stamps files with a clock that ticks
    INPUTS_MAX = 4096,
};

// How long nothing runs before the next build, by how many in a row were disturbed from inside.
static const uint64_t quiet_ms[] = {0, 0, 250, 1000};

struct print {
    bool known;
    bool there;
    uint8_t hash[SHA256_SIZE];
};

struct input {
    struct env_coord *coord;
    struct env_input in; // its path is that of `seen`
    struct watch *watch; // NULL: not watched
    struct print built, start, now;
    uint64_t build;   // the last that named it
    bool fresh;       // reported without a hash in a build that the first batch is compared with
    int64_t since_ns; // wall time at which that build began
    unsigned dirt;    // of a directory: counts changes in it
    struct env_looked seen; // by the last look; its path is ours
    struct print asked;     // `now` when that began
};

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
    unsigned strikes;           // builds in a row that were disturbed from inside
    struct timer quiet;
    struct loop_task *task; // begins a build
    struct env_look *look;  // somebody asked whether anything changed
    struct env_result *result;
    char *error;
    vec(struct input *) inputs;
    vec(struct env_input) listed; // for env_coord_get_inputs()
    vec(char *) changed;          // of the running or last build, as shown
};

static const char *const state_names[] = {"idle", "building", "ready", "failed"};

static void begin_soon(struct env_coord *c);

// ---- fingerprints ----------------------------------------------------------------------------

static bool print_eq(const struct print *a, const struct print *b)
{
    return a->known == b->known && a->there == b->there &&
           memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

static bool is_changed(const struct input *in)
{
    return in->now.known && in->built.known && !print_eq(&in->now, &in->built);
}

static const char *shown(const struct env_coord *c, const char *path)
{
    size_t n = strlen(c->root);
    return strncmp(path, c->root, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

static void clear_names(struct env_coord *c)
{
    vec_foreach (name, &c->changed) {
        free(*name);
    }
    c->changed.n = 0;
}

// Note which inputs are others than the last build saw.
static void note_changed(struct env_coord *c)
{
    clear_names(c);
    vec_foreach (in, &c->inputs) {
        if (is_changed(*in)) {
            vec_push(&c->changed, xstrdup(shown(c, (*in)->in.path)));
        }
    }
}

static bool any_changed(const struct env_coord *c)
{
    vec_foreach (in, &c->inputs) {
        if (is_changed(*in)) {
            return true;
        }
    }
    return false;
}

// ---- watching --------------------------------------------------------------------------------

static void free_input(struct input *in)
{
    watch_close(in->watch);
    free(in->seen.path);
    free(in);
}

// What the build wrote itself is taken as seen.
static void accept_own(struct env_coord *c, struct input *in)
{
    char text[300];
    in->built = in->start = in->now;
    snprintf(text, sizeof text, "afloat: the build itself writes '%s': that is no change",
             shown(c, in->in.path));
    if (c->o.cb.log != NULL) {
        c->o.cb.log(str_of(text), c->o.arg);
    }
}

static int64_t wall_ns(void)
{
    return time_wall_ms() * 1000000;
}

// Did it become what it is while a program of the last build ran? `at_ns` 0: nobody knows.
static bool is_from_inside(const struct env_coord *c, int64_t at_ns)
{
    bool ran = c->build != NULL ? c->o.builder->runs_programs(c->build) : c->ran;
    int64_t end = c->build != NULL ? INT64_MAX : c->ended_ns + CLOCK_SLACK_NS;
    at_ns = at_ns != 0 ? at_ns : wall_ns() - CLOCK_SLACK_NS;
    return ran && at_ns >= c->began_ns - CLOCK_SLACK_NS && at_ns <= end;
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

static void begin_quietly(struct env_coord *c)
{
    if (quiet_ms[c->strikes] == 0) {
        begin_soon(c);
    } else {
        timer_start(&c->quiet, quiet_ms[c->strikes]);
    }
}

// An input is other than the running build, or the last one, found it.
static void on_input_changed(struct env_coord *c, struct input *in, int64_t at_ns)
{
    bool running = c->build != NULL;
    if (c->closed || c->paused || !is_changed(in) || (running && print_eq(&in->now, &in->start))) {
        return;
    }
    if (!is_from_inside(c, at_ns)) {
        c->strikes = 0;
        timer_stop(&c->quiet);
    } else if (c->strikes + 1 < ARRAY_LEN(quiet_ms)) {
        c->strikes++;
    } else {
        accept_own(c, in);
        return;
    }
    end_build(c);
    begin_quietly(c);
}

static void take_change(struct input *in, const struct watch_change *ch)
{
    in->now.known = true;
    in->now.there = ch->kind != WATCH_DELETED;
    memcpy(in->now.hash, ch->hash, sizeof in->now.hash);
    if (in->in.kind != ENV_DIR) {
        in->in.kind = in->now.there ? ENV_FILE : ENV_MISSING;
    }
}

// The first look at a file. Is it still what the build read?
static void take_first(struct input *in, const struct watch_change *ch)
{
    bool was_there = in->in.kind == ENV_FILE && !in->in.guess;
    in->now = (struct print){.known = true};
    in->in.kind = ENV_MISSING;
    if (ch != NULL) {
        take_change(in, ch);
    }
    if (in->fresh) {
        bool later = ch != NULL ? ch->ctime_ns > in->since_ns - CLOCK_SLACK_NS : was_there;
        in->built = in->now;
        in->built.there = later ? !in->now.there : in->now.there;
        in->fresh = false;
    }
    if (!in->start.known) {
        in->start = in->built;
    }
}

static void on_watch_file(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct input *in = arg;
    const struct watch_change *mine = NULL;
    const char *name = strrchr(in->in.path, '/');
    (void)w;
    for (size_t i = 0; i < batch->n; i++) {
        const char *at = strrchr(batch->changes[i].path, '/');
        mine = at != NULL && strcmp(at, name) == 0 ? &batch->changes[i] : mine;
    }
    if (batch->first) {
        take_first(in, mine);
    } else if (mine != NULL) {
        take_change(in, mine);
    }
    on_input_changed(in->coord, in, mine != NULL ? mine->ctime_ns : 0);
}

// Of a directory only that something in it changed counts; the fingerprint is a number.
static void on_watch_dir(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct input *in = arg;
    (void)w;
    in->dirt += !batch->first && batch->n != 0;
    in->now = (struct print){.known = true, .there = true};
    memcpy(in->now.hash, &in->dirt, sizeof in->dirt);
    if (batch->first) {
        in->fresh = false;
        in->built = in->now;
        in->start = in->start.known ? in->start : in->now;
    }
    on_input_changed(in->coord, in, batch->n != 0 ? batch->changes[0].ctime_ns : 0);
}

// Never changes, or is written by us.
static bool is_passed_over(const struct env_coord *c, const char *path)
{
    const char *rel = shown(c, path);
    return strncmp(path, "/nix/store/", 11) == 0 || strncmp(rel, ".afloat/state/", 14) == 0 ||
           strncmp(rel, ".devenv/", 8) == 0;
}

static void watch_input(struct env_coord *c, struct input *in)
{
    static const char *const none[] = {NULL};
    struct err e = {0};
    char *dir =
        in->in.kind == ENV_DIR ? xstrdup(in->in.path) : str_dup(path_dir(str_of(in->in.path)));
    struct str name = path_base(str_of(in->in.path));
    char *pattern = str_dup(name);
    struct watch_opts o = {.path = dir,
                           .pattern = in->in.kind == ENV_DIR ? NULL : pattern,
                           .recursive = in->in.kind == ENV_DIR,
                           .ignore = in->in.kind == ENV_DIR ? NULL : none};
    watch_cb *cb = in->in.kind == ENV_DIR ? on_watch_dir : on_watch_file;
    if (c->o.watcher != NULL && watch_open(&in->watch, c->o.watcher, &o, cb, in, &e) != 0 &&
        c->o.cb.log != NULL) {
        c->o.cb.log(str_of(e.msg), c->o.arg);
    }
    free(dir);
    free(pattern);
}

static struct input *find_input(struct env_coord *c, const char *path)
{
    vec_foreach (in, &c->inputs) {
        if (strcmp((*in)->in.path, path) == 0) {
            return *in;
        }
    }
    return NULL;
}

// ---- builds ----------------------------------------------------------------------------------

// The builder says what it read.
static void take_read(struct input *in, const struct env_input *found)
{
    in->start = (struct print){.known = true, .there = found->kind != ENV_MISSING};
    memcpy(in->start.hash, found->hash, sizeof in->start.hash);
}

static void on_input(const struct env_input *found, void *arg)
{
    struct env_coord *c = arg;
    struct input *in = find_input(c, found->path);
    bool is_new = in == NULL;
    if (is_passed_over(c, found->path) || (is_new && c->inputs.n == INPUTS_MAX)) {
        return;
    }
    if (is_new) {
        in = xcalloc(1, sizeof *in);
        in->coord = c;
        in->in = *found;
        in->seen.path = xstrdup(found->path);
        in->in.path = in->seen.path;
        vec_push(&c->inputs, in);
    }
    in->build = c->generation;
    if (found->kind == ENV_DIR && in->in.kind != ENV_DIR) { // it was a file, or missing
        watch_close(in->watch);
        in->watch = NULL;
        in->in.kind = ENV_DIR;
        in->built = in->start = in->now = (struct print){0};
        watch_input(c, in);
    }
    if (found->hashed || found->kind == ENV_MISSING) {
        take_read(in, found);
    } else if (is_new) {
        in->fresh = true;
        in->since_ns = c->began_ns;
    }
    if (is_new) {
        in->built = in->start;
        watch_input(c, in);
    }
}

static void on_log(struct str line, void *arg)
{
    struct env_coord *c = arg;
    if (c->o.cb.log != NULL) {
        c->o.cb.log(line, c->o.arg);
    }
}

// The build is over: what it used is what was there when it began, or what it read itself.
static void settle(struct env_coord *c, bool ok)
{
    for (size_t i = 0; i < c->inputs.n; i++) {
        struct input *in = c->inputs.p[i];
        if (ok && in->build != c->generation) {
            free_input(in);
            vec_remove(&c->inputs, i);
            i--;
            continue;
        }
        in->built = in->start;
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

static void say_ready(struct env_coord *c)
{
    struct env_ready m = {.result = c->result,
                          .changed = (const char *const *)c->changed.p,
                          .n_changed = c->changed.n};
    c->state = ENV_READY;
    c->o.cb.ready(&m, c->o.arg);
}

static void on_done(struct env_result *r, int code, const char *text, void *arg)
{
    struct env_coord *c = arg;
    c->ran = c->o.builder->runs_programs(c->build);
    c->ended_ns = wall_ns();
    c->build = NULL;
    settle(c, r != NULL);
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
    say_ready(c);
}

static void say_building(struct env_coord *c)
{
    struct env_building m = {.generation = c->generation,
                             .changed = (const char *const *)c->changed.p,
                             .n_changed = c->changed.n};
    c->o.cb.building(&m, c->o.arg);
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
    c->task = NULL;
    end_build(c);
    note_changed(c);
    vec_foreach (in, &c->inputs) {
        (*in)->start = (*in)->now.known ? (*in)->now : (*in)->start;
    }
    bool first = c->generation++ == 0;
    c->began_ms = loop_now(c->o.loop);
    c->began_ns = wall_ns();
    c->ended_ns = 0;
    c->state = ENV_BUILDING;
    c->build = first ? c->o.builder->build(&o) : c->o.builder->rebuild(&o);
    say_building(c); // last: it may close us
}

static void begin_soon(struct env_coord *c)
{
    if (c->task == NULL && !c->closed) {
        c->task = loop_defer(c->o.loop, begin, c);
    }
}

static void on_quiet(void *arg)
{
    begin_soon(arg);
}

static bool is_busy(const struct env_coord *c)
{
    return c->task != NULL || c->build != NULL || timer_running(&c->quiet);
}

static void begin_by_hand(struct env_coord *c)
{
    c->strikes = 0;
    timer_stop(&c->quiet);
    begin_soon(c);
}

// ---- looking ---------------------------------------------------------------------------------

// What the watcher said since the look began is newer.
static void take_look(struct input *in, const struct env_looked *f)
{
    char *path = in->seen.path;
    in->seen = *f;
    in->seen.path = path;
    if (!print_eq(&in->now, &in->asked)) {
        return;
    }
    in->now = (struct print){.known = true, .there = f->there};
    memcpy(in->now.hash, f->hash, sizeof in->now.hash);
    in->in.kind = f->there ? ENV_FILE : ENV_MISSING;
}

static void on_looked(const struct env_looked *all, size_t n, void *arg)
{
    struct env_coord *c = arg;
    c->look = NULL;
    for (size_t i = 0; i < n; i++) {
        struct input *in = find_input(c, all[i].path);
        if (in != NULL && in->in.kind != ENV_DIR) {
            take_look(in, &all[i]);
        }
    }
    if (any_changed(c) && c->build == NULL) {
        begin_by_hand(c);
    } else if (!is_busy(c) && c->o.cb.unchanged != NULL) {
        c->o.cb.unchanged(c->o.arg);
    }
}

static void start_look(struct env_coord *c)
{
    vec(struct env_looked) files = {0};
    vec_foreach (in, &c->inputs) {
        if ((*in)->in.kind != ENV_DIR) {
            (*in)->asked = (*in)->now;
            vec_push(&files, (*in)->seen);
        }
    }
    c->look = env_look_start(c->o.lane, files.p, files.n, on_looked, c);
    vec_fini(&files);
}

static void say_interrupted(void *arg)
{
    struct env_coord *c = arg;
    c->task = NULL;
    settle(c, false);
    free(c->error);
    c->error = xstrdup("interrupted\n");
    say_failed(c, -ECANCELED);
}

static void free_coord(void *arg)
{
    struct env_coord *c = arg;
    clear_names(c);
    vec_fini(&c->changed);
    vec_fini(&c->inputs);
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

struct env_coord *env_coord_open(const struct env_coord_opts *o)
{
    struct env_coord *c = xcalloc(1, sizeof *c);
    c->o = *o;
    c->o.builder = o->builder != NULL ? o->builder : &env_builder;
    c->o.timeout_ms = o->timeout_ms != 0 ? o->timeout_ms : TIMEOUT_MS;
    c->root = xstrdup(o->root);
    c->base = env_result_environ(NULL, o->base);
    c->own_lane = o->lane == NULL;
    if (c->own_lane) {
        c->o.lane = lane_open(o->loop, "env", 2);
    }
    timer_init(&c->quiet, o->loop, on_quiet, c);
    return c;
}

bool env_coord_reload(struct env_coord *c, bool force)
{
    if (force || c->generation == 0 || (c->build == NULL && any_changed(c))) {
        begin_by_hand(c);
    } else if (!is_busy(c) && c->look == NULL) {
        start_look(c);
    }
    return is_busy(c);
}

void env_coord_pause(struct env_coord *c)
{
    c->paused = true;
}

void env_coord_resume(struct env_coord *c)
{
    c->paused = false;
    if (any_changed(c)) {
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
    timer_stop(&c->quiet);
    env_look_drop(c->look);
    if (c->task != NULL) {
        loop_cancel(c->o.loop, c->task);
    }
    if (c->build != NULL) {
        c->o.builder->cancel(c->build);
    }
    vec_foreach (in, &c->inputs) {
        free_input(*in);
    }
    c->inputs.n = 0;
    loop_defer(c->o.loop, free_coord, c); // its callback may be running
}

enum env_state env_coord_get_state(const struct env_coord *c)
{
    return c->state;
}

const char *env_state_name(enum env_state s)
{
    return state_names[s];
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
    vec_foreach (in, &c->inputs) {
        vec_push(&c->listed, (*in)->in);
    }
    *n = c->listed.n;
    return c->listed.p;
}
