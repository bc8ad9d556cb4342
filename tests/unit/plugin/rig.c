#include "unit/plugin/rig.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "loop/proc.h"
#include "plugin/host_proc.h"
#include "plugin/improvements_int.h"

enum { BEAT_MS = 5 };

static char last_fault[512];

// ---- what improvements ask of the hub --------------------------------------------------------

static void on_config(void *arg, struct buf *out)
{
    (void)arg;
    buf_addz(out, "{\"model\":{\"name\":\"m1\"}}");
}

static int on_call(void *arg, const struct improvement_call *c, struct buf *answer)
{
    struct rig *r = arg;
    if (str_eqz(c->op, "worktree.list")) {
        buf_addz(answer, "[]");
        return 0;
    }
    struct buf data;
    buf_adds(&r->emitted, json_str(json_get(c->params, "name"), ""));
    buf_addc(&r->emitted, '\n');
    buf_init(&data, SIZE_MAX);
    json_write(&data, json_get(c->params, "data"), 0);
    free(r->emitted_last);
    r->emitted_last = buf_take(&data, NULL);
    improvements_event(r->imp, json_str(json_get(c->params, "name"), ""), str_of(r->emitted_last));
    return 0;
}

static void on_log(void *arg, const char *name, enum log_level level, struct str text)
{
    struct rig *r = arg;
    (void)level;
    if (r->log.n < 1 << 20) {
        buf_addf(&r->log, "%s: ", name);
        buf_adds(&r->log, text);
        buf_addc(&r->log, '\n');
    }
}

// ---- life ------------------------------------------------------------------------------------

static void on_beat(void *arg)
{
    struct rig *r = arg;
    uint64_t now = test_own_ns();
    r->longest_ns = MAX(r->longest_ns, now - r->last_beat_ns);
    r->last_beat_ns = now;
    timer_start(&r->beat, BEAT_MS);
}

void rig_home(struct rig *r)
{
    struct err e = {0};
    char path[400];
    memset(r, 0, sizeof *r);
    snprintf(r->home, sizeof r->home, "%s/home", test_dir());
    snprintf(r->dir, sizeof r->dir, "%s/lua/improvements", r->home);
    CHECK_INT(path_mkdirs(r->dir, 0700, &e), 0);
    snprintf(path, sizeof path, "%s/token", r->home);
    CHECK_INT(path_write_atomic(path, STR("t0ken"), 0600, &e), 0);
}

static void quiet(void *arg, enum log_level level, enum log_component component, struct str line)
{
    (void)arg;
    (void)level;
    (void)component;
    (void)line;
}

void rig_open(struct rig *r)
{
    struct err e = {0};
    char scopes[400];
    log_open(LOG_INFO, quiet, NULL);
    CHECK_INT(proc_setup_at(PLUGIN_LAUNCHER, &e), 0);
    CHECK_INT(loop_init(&r->loop, NULL, &e), 0);
    buf_init(&r->log, SIZE_MAX);
    buf_init(&r->emitted, SIZE_MAX);
    r->engine = gen_open(&r->loop, NULL, NULL);
    r->watcher = watcher_open(&r->loop, NULL, NULL);
    snprintf(scopes, sizeof scopes, "%s/scopes.json", r->home);
    const struct improvements_opts opts = {
        .dir = r->dir,
        .program = PLUGIN_HOST,
        .scopes = scopes,
        .data_dir = r->home,
        .config = on_config,
        .call = on_call,
        .log = on_log,
        .arg = r,
    };
    CHECK_INT(improvements_open(&r->imp, &r->loop, r->engine, r->watcher, &opts, &e), 0);
    timer_init(&r->beat, &r->loop, on_beat, r);
    r->last_beat_ns = test_own_ns();
    timer_start(&r->beat, BEAT_MS);
}

void rig_begin(struct rig *r)
{
    rig_home(r);
    rig_open(r);
}

static void on_engine_closed(void *arg)
{
    struct rig *r = arg;
    r->closed = true;
}

void rig_end(struct rig *r)
{
    improvements_stop(r->imp);
    gen_close(r->engine, on_engine_closed, r);
    RIG_WAIT(r, r->closed);
    improvements_free(r->imp);
    watcher_close(r->watcher);
    timer_stop(&r->beat);
    TEST_LOOP_END(&r->loop);
    buf_fini(&r->log);
    buf_fini(&r->emitted);
    free(r->emitted_last);
    proc_teardown();
}

// ---- files -----------------------------------------------------------------------------------

void rig_save(struct rig *r, const char *name, struct str text)
{
    struct err e = {0};
    char path[500];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    CHECK_INT(path_write_atomic(path, text, 0600, &e), 0);
}

void rig_remove(struct rig *r, const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    CHECK_INT(unlink(path), 0);
}

// ---- the set ---------------------------------------------------------------------------------

static struct str unit_name(const char *name)
{
    static char text[200];
    snprintf(text, sizeof text, "improvements/%s", name);
    return str_of(text);
}

struct gen_unit *rig_unit(struct rig *r, const char *name)
{
    return gen_unit_find(gen_current(r->engine), unit_name(name));
}

static enum gen_state state_of(struct rig *r, const char *name)
{
    return gen_state_of(r->engine, unit_name(name));
}

enum gen_state rig_settle(struct rig *r, const char *name)
{
    RIG_WAIT(r, state_of(r, name) != GEN_REMOVED && !gen_is_running(r->engine));
    return state_of(r, name);
}

void rig_wait_revision(struct rig *r, const char *name, uint64_t revision)
{
    RIG_WAIT(r, rig_unit(r, name) != NULL && rig_unit(r, name)->revision == revision &&
                    !gen_is_running(r->engine));
}

void rig_wait_gone(struct rig *r, const char *name)
{
    RIG_WAIT(r, rig_unit(r, name) == NULL && state_of(r, name) == GEN_REMOVED &&
                    !gen_is_running(r->engine));
}

const struct gen_diag *rig_diag(struct rig *r, const char *name)
{
    const struct gen_report *report = gen_last_report(r->engine);
    for (size_t i = 0; report != NULL && i < report->n_diags; i++) {
        if (report->diags[i].plugin != NULL && str_eqz(unit_name(name), report->diags[i].plugin)) {
            return &report->diags[i];
        }
    }
    return NULL;
}

static void on_report(const struct gen_report *report, void *arg)
{
    *(const struct gen_report **)arg = report;
}

const struct gen_report *rig_reload(struct rig *r, bool force, bool dry_run)
{
    const struct gen_report *report = NULL;
    const struct gen_request req = {
        .trigger = "test", .force = force, .dry_run = dry_run, .wait_all = true};
    gen_request(r->engine, &req, on_report, &report);
    RIG_WAIT(r, report != NULL);
    return report;
}

// ---- calling ---------------------------------------------------------------------------------

static void on_run_done(struct hook_run *run, void *arg)
{
    (void)run;
    *(bool *)arg = true;
}

struct dispatch {
    struct hook_args args;
    int changed;
};

static void on_changed(struct hook_args *a, const struct hook_run *run)
{
    (void)run;
    container_of(a, struct dispatch, args)->changed++;
}

enum hook_answer rig_hook(struct rig *r, const char *point, struct rig_args *args)
{
    const struct hook_point *p = hook_point_find(str_of(point));
    const struct hook_list *list =
        hook_set_get(gen_hooks(gen_current(r->engine)), str_of(point), p->kind);
    struct hook_run run;
    bool done = false;
    last_fault[0] = '\0';
    if (list == NULL) {
        return HOOK_KEEP;
    }
    struct arena a = {0};
    struct json *value = NULL;
    if (args->value != NULL) {
        CHECK_INT(json_parse(&value, &a, str_of(args->value), NULL, NULL), 0);
    }
    struct hook_ctx ctx = {.session_id = str_of(args->session), .arena = &a};
    struct dispatch d = {.args = {.point = (enum hook_point_id)(p - hook_points),
                                  .ctx = &ctx,
                                  .values = {value},
                                  .n = value != NULL,
                                  .arena = &a,
                                  .changed = on_changed}};
    const struct hook_run_opts opts = {.list = list,
                                       .loop = &r->loop,
                                       .args = &d.args,
                                       .may_wait = true,
                                       .done = on_run_done,
                                       .arg = &done};
    if (!hook_run_start(&run, &opts)) {
        RIG_WAIT(r, done);
    }
    if (d.changed != 0) {
        struct buf text = {.max = SIZE_MAX};
        json_write(&text, d.args.values[0], 0);
        free(args->value);
        args->value = buf_take(&text, NULL);
    }
    args->asked += (int)run.ran;
    args->changed += d.changed;
    arena_fini(&a);
    snprintf(last_fault, sizeof last_fault, "%s", run.fault.msg);
    return run.failed != 0 ? HOOK_FAILED : run.result;
}

const char *rig_hook_fault(void)
{
    return last_fault;
}

struct tool_wait {
    bool done;
    int status;
    char *text;
};

/// The text is the result's output, as JSON.
static void on_tool_done(struct gen_call *call, int status, const struct json *result,
                         const struct err *e)
{
    struct tool_wait *t = call->arg;
    struct buf text;
    t->done = true;
    t->status = status;
    buf_init(&text, SIZE_MAX);
    if (status < 0) {
        buf_addz(&text, e->msg);
    } else {
        json_write(&text, json_get(result, "output"), 0);
    }
    t->text = buf_take(&text, NULL);
}

int rig_tool(struct rig *r, const char *name, const char *input, uint32_t timeout_ms, char **text)
{
    struct tool_wait t = {0};
    struct gen *g = gen_pin(gen_current(r->engine));
    struct gen_item *it = gen_item_find(g, GEN_TOOL, str_of(name));
    CHECK(it != NULL);
    struct arena a = {0};
    struct json *value;
    CHECK_INT(json_parse(&value, &a, str_of(input), NULL, NULL), 0);
    struct gen_call call = {
        .input = value, .timeout_ms = timeout_ms, .done = on_tool_done, .arg = &t};
    const struct gen_target *target = gen_item_face(it);
    target->call(gen_item_data(it), &call);
    RIG_WAIT(r, t.done);
    arena_fini(&a);
    gen_unpin(g);
    if (text != NULL) {
        *text = t.text;
    } else {
        free(t.text);
    }
    return t.status;
}

int rig_child(int pid, int other)
{
    char path[64];
    int child, found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && found == 0 && fscanf(f, "%d", &child) == 1) { // NOLINT(cert-err34-c)
        found = child != other ? child : 0;
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

struct host *rig_host(struct rig *r, const char *name)
{
    const struct file *f = improvements__find(r->imp, str_of(name));
    return f != NULL && f->serving != NULL ? f->serving->host : NULL;
}

int rig_pid(struct rig *r, const char *name)
{
    struct host *h = rig_host(r, name);
    int supervisor = h != NULL ? host_proc_pid(h) : 0;
    return supervisor != 0 ? rig_child(supervisor, 0) : 0;
}
