// Jobs: a table of steps, each of them one git command or one piece of work on a thread.
//
//     job__new ── deferred ──> begin ──> command or work ──> end ──> next step ... ──> report
//                                 └── a failure or a cancel ──> the undo table ──────────┘
//
// Git gets an environment that we make, never an inherited one, and settings on its command line for what a
// repository could otherwise make it run: hooks, file monitors, signatures, background maintenance, prompts.
//
// Invariants:
//   - of a command, a piece of work and a deferred advance() exactly one is under way until report.
//   - report is called once; after it the job is gone.
//   - a job that waits for its turn has none of the three; the job that releases the turn, or a cancel,
//     starts it again.
//   - the undo table runs at most once, and nothing can cancel it.
//   - work on the lane touches the job; the loop thread does not until it is done.

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "git/git_int.h"
#include "loop/launch.h"

enum {
    OUT_MAX = 64 << 20,
    GRUMBLE_MAX = 4096,
    TIMEOUT_MS = 300000,
    GRACE_MS = 2000,
    LANE_THREADS = 4,
};

static void advance(void *arg);

// ---- the end ---------------------------------------------------------------------------------

static void command_clear(struct git_command *c)
{
    vec_fini(&c->argv);
    vec_fini(&c->env);
    buf_fini(&c->out);
    buf_fini(&c->grumble);
    *c = (struct git_command){0};
}

static void git_free(struct git *g)
{
    lane_close(g->lane);
    arena_fini(&g->arena);
    free(g);
}

static void job_free(struct git_job *j)
{
    struct git *g = j->git;
    assert(j->proc == NULL && !j->waiting);
    job__release(j);
    *j->link = j->next;
    if (j->next != NULL) {
        j->next->link = j->link;
    }
    command_clear(&j->cmd);
    box_free(j->place.box);
    if (j->import.fd > 0) {
        close(j->import.fd);
    }
    vec_fini(&j->notes);
    free(j->tmp);
    arena_fini(&j->arena);
    free(j);
    if (g->closing && g->jobs == NULL) {
        git_free(g);
    }
}

static void finish(void *arg)
{
    struct git_job *j = arg;
    j->report(j, j->status, j->status < 0 ? &j->err : NULL);
    job_free(j);
}

static void remove_tmp(void *arg)
{
    struct git_job *j = arg;
    struct err e = {0};
    if (path_remove_tree(j->tmp, &e) < 0) {
        log_warn(LOG_GIT, "temporary=%s error=%s", LOGQ(str_of(j->tmp)).z, LOGQ(str_of(e.msg)).z);
    }
}

// ---- from step to step -----------------------------------------------------------------------

static void fail(struct git_job *j, int status, const struct err *e)
{
    if (j->undoing) {
        log_warn(LOG_GIT, "undo=%s error=%s", j->steps[j->at].name, LOGQ(str_of(e->msg)).z);
        j->at++;
        return;
    }
    static const struct git_step nothing[] = {STEPS_END};
    j->err = *e;
    if (j->cancelled) {
        err_set(&j->err, UV_ECANCELED, "cancelled");
        status = UV_ECANCELED;
    }
    j->status = status;
    j->undoing = true;
    job__become(j, j->undo != NULL ? j->undo : nothing);
}

/// The command or work of the step is over, `step_status` says how.
static void end_step(struct git_job *j)
{
    const struct git_step *s = &j->steps[j->at];
    const struct git_command *c = &j->cmd;
    j->moved = false;
    if (j->step_status == 0 && c->gone != NULL && c->code != 0) {
        j->step_status = err_set(&j->step_err, ERR_NOT_FOUND, "%s is gone", c->gone);
    } else if (j->step_status == 0 && c->id != NULL && c->code == 0) {
        j->step_status = job__id(j, c->id, &j->step_err);
    }
    if (j->step_status == 0 && s->end != NULL) {
        j->step_status = s->end(j, &j->step_err);
    }
    if (j->step_status < 0) {
        fail(j, j->step_status, &j->step_err);
    } else if (!j->moved && !j->waiting) {
        j->at++;
    }
}

static void on_work(void *arg)
{
    struct git_job *j = arg;
    j->step_status = j->steps[j->at].work(j, &j->step_err);
}

static void on_worked(void *arg)
{
    end_step(arg);
    advance(arg);
}

// ---- the command -----------------------------------------------------------------------------

/// Settings that keep git from running or waiting for what a repository names, and fix what must not vary.
static const char *const settings[] = {
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "advice.addEmbeddedRepo=false",
    "submodule.recurse=false",
    "checkout.workers=0",
    "checkout.thresholdForParallelism=200",
};

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct git_job *j = arg;
    struct git_command *c = &j->cmd;
    struct buf *to = which == 1 ? &c->out : &c->grumble;
    size_t room = to->max - to->n;
    buf_add(to, bytes.p, MIN(bytes.n, room));
    if (which == 1 && bytes.n > room && !c->cut) {
        c->cut = true;
        proc_kill(p, SIGKILL); // it only prints: commands that write are never that talkative
    }
}

static uint64_t limit_of(const struct git_job *j)
{
    return j->cmd.far ? MIN(j->git->far_ms, j->patience_ms) : j->git->timeout_ms;
}

static void on_limit(void *arg)
{
    struct git_job *j = arg;
    j->step_status = err_set(&j->step_err, ERR_TIMEOUT,
                             j->cmd.far ? "the remote did not answer within %llu s"
                                        : "git took longer than %llu s",
                             (unsigned long long)(limit_of(j) / 1000));
    proc_end(j->proc, GRACE_MS);
}

static int judge(struct git_job *j, const struct proc_exit *x)
{
    struct git_command *c = &j->cmd;
    struct err *e = &j->step_err;
    c->code = x->code;
    if (j->step_status < 0) {
        return j->step_status; // by us, and reported already
    }
    if (!x->launched && x->no_box != 0) {
        return box_explain(x->no_box, -x->code, BOX_INSTEAD, e);
    }
    if (!x->launched && x->code == UV_ENOENT) {
        return err_set(e, ERR_UNSUPPORTED, "cannot run '%s': %s; is git installed?",
                       j->git->program, x->why);
    }
    if (!x->launched) {
        return err_set(e, x->code < 0 ? x->code : UV_EIO, "cannot run git: %s", x->why);
    }
    if (c->cut) {
        return c->cut_ok ? 0 : err_set(e, ERR_TOO_LARGE, "git printed more than %zu bytes", c->max);
    }
    if (x->signal == SIGXFSZ) {
        return err_set(e, ERR_TOO_LARGE, "git wrote more than %llu MiB",
                       (unsigned long long)(c->max_file >> 20));
    }
    if (x->signal != 0) {
        return err_set(e, UV_EIO, "git was ended by signal %d", x->signal);
    }
    return x->code == 0 || c->may_fail ? 0 : job__grumble(j, UV_EIO, "git", e);
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct git_job *j = arg;
    (void)p;
    timer_stop(&j->limit);
    j->proc = NULL;
    j->step_status = judge(j, x);
    end_step(j);
    loop_defer(j->git->loop, advance, j);
}

static int spawn(struct git_job *j)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_cb};
    struct git_command *c = &j->cmd;
    assert(c->wanted && j->proc == NULL);
    vec_push(&c->argv, NULL);
    vec_push(&c->env, NULL);
    c->out.max = c->max;
    c->grumble.max = GRUMBLE_MAX;
    struct proc_opts opts = {
        .argv = c->argv.p,
        .env = c->env.p,
        .cwd = j->place.dir,
        .in = c->in.n != 0    ? PROC_PIPE
              : c->in_fd != 0 ? PROC_FD
                              : PROC_NULL,
        .out = c->out_fd != 0 ? PROC_FD : PROC_PIPE,
        .err = PROC_PIPE,
        .in_fd = c->in_fd,
        .out_fd = c->out_fd,
        .umask = &j->umask,
        .file_size_limit = c->max_file,
        .supervise = !c->outlives_us,
        .box = j->place.box != NULL ? box_rules(j->place.box) : NULL,
    };
    int rc = proc_spawn(&j->proc, j->git->loop, &opts, &cb, j, &j->step_err);
    if (rc < 0) {
        return rc;
    }
    timer_start(&j->limit, limit_of(j));
    if (c->in.n != 0) {
        rc = proc_write(j->proc, c->in);
        proc_close_stdin(j->proc);
    }
    if (rc < 0) { // its end will tell
        j->step_status = err_set(&j->step_err, ERR_TOO_LARGE, "too many names for git at once");
        proc_end(j->proc, GRACE_MS);
    }
    return 0;
}

// ---- advancing -------------------------------------------------------------------------------

/// Steps that need neither a command nor a thread are done at once, up to the first that does.
static void advance(void *arg)
{
    struct git_job *j = arg;
    for (;;) {
        if (j->cancelled && !j->undoing && !j->settled) {
            fail(j, UV_ECANCELED, &j->step_err);
        }
        const struct git_step *s = &j->steps[j->at];
        if (s->name == NULL) {
            break;
        }
        command_clear(&j->cmd);
        j->step_err = (struct err){0};
        j->step_status = 0;
        if (s->work != NULL) {
            uint64_t key = j->place.dir != NULL ? work_mount_key(j->place.dir) : 0;
            work_submit(j->git->lane, key, on_work, on_worked, j);
            return;
        }
        if (s->begin == NULL) {
            end_step(j);
            if (j->waiting) {
                return;
            }
            continue;
        }
        s->begin(j);
        int rc = j->cmd.wanted ? spawn(j) : 0;
        if (rc < 0) {
            fail(j, rc, &j->step_err);
        } else if (j->proc != NULL) {
            return;
        } else {
            j->at++;
        }
    }
    if (j->tmp != NULL) { // nothing more to run: clean up, then report
        work_submit(j->git->lane, work_mount_key(j->tmp), remove_tmp, finish, j);
    } else {
        finish(j);
    }
}

// ---- for the operations ----------------------------------------------------------------------

void *job__new(struct git *g, size_t size, const struct git_step *steps,
               const struct git_step *undo,
               void (*report)(struct git_job *j, int status, const struct err *e))
{
    struct git_job *j = xcalloc(1, size);
    assert(!g->closing);
    j->git = g;
    j->steps = steps;
    j->undo = undo;
    j->report = report;
    j->umask = proc_umask();
    j->patience_ms = UINT64_MAX;
    timer_init(&j->limit, g->loop, on_limit, j);
    j->next = g->jobs;
    j->link = &g->jobs;
    if (j->next != NULL) {
        j->next->link = &j->next;
    }
    g->jobs = j;
    loop_defer(g->loop, advance, j);
    return j;
}

void job__become(struct git_job *j, const struct git_step *steps)
{
    assert(steps != NULL && j->proc == NULL);
    j->steps = steps;
    j->at = 0;
    j->moved = true;
}

static struct git_job *find_turn(struct git *g, const char *key, bool waiting)
{
    struct git_job *found = NULL;
    for (struct git_job *j = g->jobs; j != NULL; j = j->next) {
        if ((waiting ? j->waiting : j->holds) && strcmp(j->turn, key) == 0) {
            found = j; // the newest come first: keep the oldest
        }
    }
    return found;
}

void job__take_turn(struct git_job *j, const char *key)
{
    if (!j->holds) {
        j->waiting = find_turn(j->git, key, false) != NULL;
        j->holds = !j->waiting;
        j->turn = key;
    }
}

void job__release(struct git_job *j)
{
    if (!j->holds) {
        return;
    }
    assert(!j->waiting);
    j->holds = false;
    struct git_job *next = find_turn(j->git, j->turn, true);
    if (next != NULL) {
        next->waiting = false;
        next->holds = true;
        next->at++;
        loop_defer(j->git->loop, advance, next);
    }
}

void job__settle(struct git_job *j)
{
    j->settled = true;
}

void job__run(struct git_job *j, ...)
{
    const struct git *g = j->git;
    const struct git_place *at = &j->place;
    va_list args;
    assert(!j->cmd.wanted && j->proc == NULL);
    j->cmd.wanted = true;
    j->cmd.max = OUT_MAX;
    job__env(j, "PATH", g->path);
    job__env(j, "HOME", g->user_home);
    job__env(j, "XDG_CONFIG_HOME", g->xdg_config_home);
    job__env(j, "LC_ALL", "C");
    job__env(j, "GIT_TERMINAL_PROMPT", "0");
    job__env(j, "GIT_INDEX_FILE", at->index);
    job__env(j, "GIT_ALTERNATE_OBJECT_DIRECTORIES", at->objects);
    vec_push(&j->cmd.argv, g->program);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        vec_push(&j->cmd.argv, "-c");
        vec_push(&j->cmd.argv, settings[i]);
    }
    if (at->index != NULL) { // a split one would put its other half into the repository
        vec_push(&j->cmd.argv, "-c");
        vec_push(&j->cmd.argv, "core.splitIndex=false");
    }
    if (at->git_dir != NULL) {
        vec_push(&j->cmd.argv, arena_printf(&j->arena, "--git-dir=%s", at->git_dir));
    }
    if (at->work_tree != NULL) {
        vec_push(&j->cmd.argv, arena_printf(&j->arena, "--work-tree=%s", at->work_tree));
    }
    va_start(args, j);
    for (const char *arg; (arg = va_arg(args, const char *)) != NULL;) {
        vec_push(&j->cmd.argv, arg);
    }
    va_end(args);
}

void job__arg(struct git_job *j, const char *arg)
{
    vec_push(&j->cmd.argv, arg);
}

void job__env(struct git_job *j, const char *name, const char *value)
{
    if (value != NULL) {
        vec_push(&j->cmd.env, arena_printf(&j->arena, "%s=%s", name, value));
    }
}

void job__only_reads(struct git_job *j)
{
    job__env(j, "GIT_OPTIONAL_LOCKS", "0");
}

void job__ask_commit(struct git_job *j, const char *rev)
{
    job__run(j, "rev-parse", "-q", "--verify", "--end-of-options",
             arena_printf(&j->arena, "%s^{commit}", rev), NULL);
    j->cmd.may_fail = true;
}

void job__ask_head(struct git_job *j)
{
    job__ask_commit(j, "HEAD");
}

const char *job__take_head(struct git_job *j, const char *fallback)
{
    const char *head = job__line(j);
    j->look.head = j->cmd.code == 0 && job__is_id(head) ? head : fallback;
    return j->look.head;
}

void job__ask_ancestor(struct git_job *j, const char *old, const char *commit)
{
    job__run(j, "merge-base", "--is-ancestor", old, commit, NULL);
    j->cmd.may_fail = true;
}

int job__make_tmp(struct git_job *j, struct err *e)
{
    char *path = xasprintf("%s/job-XXXXXX", j->git->tmp_dir);
    if (mkdtemp(path) == NULL) {
        int rc = err_sys(e, "cannot make a directory in '%s'", j->git->tmp_dir);
        free(path);
        return rc;
    }
    j->tmp = path;
    return 0;
}

// ---- public ----------------------------------------------------------------------------------

static const char *copy_or(struct git *g, const char *given, const char *ours)
{
    const char *value = given != NULL ? given : ours;
    return value != NULL ? arena_strdup(&g->arena, str_of(value)) : NULL;
}

int git_open(struct git **out, const struct git_config *c, struct err *e)
{
    *out = NULL;
    int rc = path_remove_tree(c->tmp_dir, e);
    if (rc == 0) {
        rc = path_mkdirs(c->tmp_dir, 0700, e);
    }
    if (rc < 0) {
        return rc;
    }
    struct git *g = xcalloc(1, sizeof *g);
    g->loop = c->loop;
    g->lane = lane_open(c->loop, "git", LANE_THREADS);
    g->program = copy_or(g, c->program, "git");
    g->path = copy_or(g, c->path, getenv("PATH"));
    g->user_home = copy_or(g, c->user_home, getenv("HOME"));
    g->xdg_config_home = copy_or(g, c->xdg_config_home, getenv("XDG_CONFIG_HOME"));
    g->home = copy_or(g, c->home, NULL);
    g->runtime = copy_or(g, c->runtime, NULL);
    g->tmp_dir = copy_or(g, c->tmp_dir, NULL);
    g->timeout_ms = g->far_ms = c->timeout_ms != 0 ? c->timeout_ms : TIMEOUT_MS;
    *out = g;
    return 0;
}

void git_close(struct git *g)
{
    if (g == NULL) {
        return;
    }
    g->closing = true;
    for (struct git_job *j = g->jobs; j != NULL; j = j->next) {
        git_cancel(j);
    }
    if (g->jobs == NULL) {
        git_free(g);
    }
}

void git_hurry(struct git *g, uint64_t ms)
{
    g->far_ms = MIN(g->far_ms, ms);
    for (struct git_job *j = g->jobs; j != NULL; j = j->next) {
        if (j->proc != NULL && j->cmd.far && j->step_status == 0) {
            timer_start(&j->limit, limit_of(j));
        }
    }
}

void git_set_patience(struct git_job *j, uint64_t ms)
{
    j->patience_ms = ms;
}

void git_set_umask(struct git_job *j, mode_t mask)
{
    j->umask = mask;
}

void git_cancel(struct git_job *j)
{
    if (j->cancelled || j->undoing || j->settled) {
        return;
    }
    j->cancelled = true;
    if (j->proc != NULL) {
        proc_end(j->proc, GRACE_MS);
    } else if (j->waiting) {
        j->waiting = false;
        loop_defer(j->git->loop, advance, j);
    }
}
