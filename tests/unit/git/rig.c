#include "unit/git/rig.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "loop/proc.h"
#include "sandbox/box.h"
#include "unit/git/git_programs.h" // made by meson: where the launcher lies

struct rig rig;

// ---- scripts ---------------------------------------------------------------------------------

static const char *run(const char *script, int *code)
{
    struct buf out;
    char chunk[4096];
    size_t n;
    char *file = xasprintf("%s/script.sh", rig.base);
    CHECK_INT(path_write_atomic(file, str_of(script), 0700, NULL), 0);
    char *command = xasprintf("cd '%s' && exec sh -eu ./script.sh", rig.base);
    FILE *f = popen(command, "re");
    CHECK(f != NULL);
    buf_init(&out, SIZE_MAX);
    while ((n = fread(chunk, 1, sizeof chunk, f)) != 0) {
        buf_add(&out, chunk, n);
    }
    *code = WEXITSTATUS(pclose(f));
    struct str text = buf_str(&out);
    if (text.n != 0 && text.p[text.n - 1] == '\n') {
        text.n--;
    }
    const char *copy = arena_strdup(&rig.arena, text);
    buf_fini(&out);
    free(command);
    free(file);
    return copy;
}

void rig_sh(const char *fmt, ...)
{
    struct buf script;
    char text[8192];
    int code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_init(&script, SIZE_MAX);
    buf_addf(&script, "exec 2>&1\n%s\n", text);
    const char *out = run(buf_z(&script), &code);
    buf_fini(&script);
    if (code != 0) {
        test_fail(__FILE__, __LINE__, "script failed with %d: %s\n%s", code, text, out);
    }
}

const char *rig_out(const char *fmt, ...)
{
    char text[8192];
    int code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *out = run(text, &code);
    if (code != 0) {
        test_fail(__FILE__, __LINE__, "script failed with %d: %s\n%s", code, text, out);
    }
    return out;
}

const char *rig_state(const char *root)
{
    return rig_out("cd '%s'\n"
                   "find . -name .git -prune -o -printf '%%p %%y %%m %%l %%T@ %%s\\n' | sort\n"
                   "find . -name .git -prune -o -type f -print0 | sort -z | xargs -0r sha256sum\n"
                   "own=$(git rev-parse --absolute-git-dir)\n"
                   "all=$(git rev-parse --path-format=absolute --git-common-dir)\n"
                   "sha256sum \"$own/index\" \"$own/HEAD\" \"$all/config\"\n"
                   "stat -c %%y \"$own/index\"\n"
                   "git for-each-ref | grep -v refs/heads/afloat/\n"
                   "cd \"$all\"; find logs -path '*/afloat*' -prune -o -type f -print | sort |"
                   " xargs -r sha256sum\n"
                   "ls -A | grep -v '^worktrees$'\n"
                   "ls -A \"$own\" | grep -v '^worktrees$'\n",
                   root);
}

bool rig_exists(const char *name)
{
    struct stat st;
    char *path = path_join(rig.base, name);
    bool there = lstat(path, &st) == 0;
    free(path);
    return there;
}

// ---- begin and end ---------------------------------------------------------------------------

static const char *own_path(const char *name)
{
    return arena_printf(&rig.arena, "%s/%s", rig.base, name);
}

static void open_git(void)
{
    struct err e = {0};
    struct git_config config = {
        .loop = &rig.loop,
        .program = rig.program,
        .path = "/usr/local/bin:/usr/bin:/bin",
        .user_home = own_path("user"),
        .xdg_config_home = own_path("user/.config"),
        .home = rig.home,
        .runtime = own_path("home/run"),
        .tmp_dir = own_path("home/tmp/git"),
        .timeout_ms = rig.timeout_ms != 0 ? rig.timeout_ms : 60000,
    };
    if (git_open(&rig.git, &config, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

void rig_begin(void)
{
    struct err e = {0};
    rig = (struct rig){0};
    if (proc_setup_at(GIT_LAUNCHER, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_INT(loop_init(&rig.loop, NULL, NULL), 0);
    char *real = realpath(test_dir(), NULL);
    rig.base = arena_strdup(&rig.arena, str_of(real));
    free(real);
    rig.repo = own_path("repo");
    rig.home = own_path("home");
    rig.dir = own_path("home/worktrees/repo/bot-1");
    rig.quarantine = own_path("home/quarantine/repo/bot-1");
    setenv("HOME", own_path("user"), 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    setenv("LC_ALL", "C", 1);
    unsetenv("GIT_CONFIG_GLOBAL");
    unsetenv("XDG_CONFIG_HOME");
    rig_sh(
        "find . -mindepth 1 -maxdepth 1 ! -name script.sh -exec rm -rf {} +\n" // of a round before
        "mkdir -p user/.config home/run\n"
        "git config --global user.name 'The User'\n"
        "git config --global user.email user@example.org\n"
        "git config --global init.defaultBranch main\n"
        "git init -q repo && cd repo\n"
        "echo one >one; echo two >two; mkdir sub; echo three >sub/three\n"
        "printf '*.log\\n/build/\\n.env\\n' >.gitignore\n"
        "git add -A && git commit -qm first\n");
    open_git();
}

void rig_end(void)
{
    git_close(rig.git);
    TEST_LOOP_END(&rig.loop);
    proc_teardown();
    CHECK_STR(rig_out("ls -A home/tmp/git 2>/dev/null || true"), "");
    arena_fini(&rig.arena);
}

void rig_use(const char *program)
{
    git_close(rig.git);
    loop_run(&rig.loop);
    rig.program = program;
    open_git();
}

static void on_probed(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct err *e = arg;
    (void)p;
    rig.calls++;
    if (x->no_box != 0) {
        box_explain(x->no_box, -x->code, BOX_INSTEAD, e);
    }
}

void rig_need_box(void)
{
    static const struct proc_cb cb = {.on_exit = on_probed};
    static const char *const argv[] = {"/bin/true", NULL};
    struct box *box = NULL;
    struct proc *p = NULL;
    struct err e = {0};
    struct box_policy policy = {.mode = BOX_WORKSPACE_WRITE, .working_dir = own_path("user")};
    CHECK_INT(box_new(&box, &policy, NULL), 0);
    struct proc_opts opts = {.argv = argv, .supervise = true, .box = box_rules(box)};
    CHECK_INT(proc_spawn(&p, &rig.loop, &opts, &cb, &e, NULL), 0);
    rig_wait();
    box_free(box);
    if (e.code != 0) {
        test_skip(e.msg);
    }
}

// ---- callbacks -------------------------------------------------------------------------------

static const char *keep(const char *z)
{
    return z != NULL ? arena_strdup(&rig.arena, str_of(z)) : NULL;
}

static struct git_names keep_names(struct git_names names)
{
    const char **p = arena_calloc(&rig.arena, names.n + 1, sizeof *p);
    for (size_t i = 0; i < names.n; i++) {
        p[i] = keep(names.p[i]);
    }
    return (struct git_names){p, names.n, names.cut};
}

static void ended(int status, const struct err *e)
{
    rig.calls++;
    rig.job = NULL;
    rig.status = status;
    CHECK((status < 0) == (e != NULL));
    rig.err = e != NULL ? *e : (struct err){0};
    if (e != NULL) {
        CHECK_INT(e->code, status);
        CHECK(e->msg[0] != '\0');
    }
}

static void on_look(void *arg, int status, const struct err *e, const struct git_look *r)
{
    (void)arg;
    ended(status, e);
    rig.look = *r;
    const char **all[] = {&rig.look.root,      &rig.look.git_dir, &rig.look.common,
                          &rig.look.main_root, &rig.look.branch,  &rig.look.head,
                          &rig.look.tree,      &rig.look.doing};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        *all[i] = keep(*all[i]);
    }
}

static void on_add(void *arg, int status, const struct err *e, const struct git_added *r)
{
    (void)arg;
    ended(status, e);
    rig.added = *r;
    const char **all[] = {&rig.added.dir,   &rig.added.common, &rig.added.root,
                          &rig.added.start, &rig.added.base,   &rig.added.base_branch};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        *all[i] = keep(*all[i]);
    }
    rig.added.notes = keep_names(r->notes);
}

static void on_commit(void *arg, int status, const struct err *e, const struct git_committed *r)
{
    (void)arg;
    ended(status, e);
    rig.committed = *r;
    rig.committed.head = keep(r->head);
    rig.committed.rescue = keep(r->rescue);
    rig.committed.ignored = keep_names(r->ignored);
    rig.committed.nested = keep_names(r->nested);
    rig.committed.notes = keep_names(r->notes);
}

static void on_done(void *arg, int status, const struct err *e)
{
    (void)arg;
    ended(status, e);
}

static void on_diff(void *arg, int status, const struct err *e, const struct git_diff *r)
{
    (void)arg;
    ended(status, e);
    struct git_change *changes = arena_calloc(&rig.arena, r->n_changes + 1, sizeof *changes);
    rig.diff = *r;
    rig.diff.from = keep(r->from);
    rig.diff.to = keep(r->to);
    rig.diff.touches = keep(r->touches);
    rig.diff.patch = arena_str(&rig.arena, r->patch);
    for (size_t i = 0; i < r->n_changes; i++) {
        changes[i] = r->changes[i];
        changes[i].path = keep(r->changes[i].path);
    }
    rig.diff.changes = changes;
}

static void on_take(void *arg, int status, const struct err *e, const struct git_taken *r)
{
    (void)arg;
    ended(status, e);
    rig.taken = *r;
    rig.taken.branch = keep(r->branch);
    rig.taken.head = keep(r->head);
    rig.taken.paths = keep_names(r->paths);
}

static void on_list(void *arg, int status, const struct err *e, const struct git_list *r)
{
    (void)arg;
    ended(status, e);
    struct git_entry *p = arena_calloc(&rig.arena, r->n + 1, sizeof *p);
    for (size_t i = 0; i < r->n; i++) {
        p[i] = r->p[i];
        p[i].path = keep(p[i].path);
        p[i].head = keep(p[i].head);
        p[i].branch = keep(p[i].branch);
    }
    rig.list = (struct git_list){p, r->n};
}

static void on_measure(void *arg, int status, const struct err *e, const struct git_measure *r)
{
    (void)arg;
    ended(status, e);
    rig.measure = *r;
}

// ---- operations ------------------------------------------------------------------------------

static void started(struct git_job *j)
{
    CHECK_INT(rig.calls, 0); // never from inside the call
    rig.job = j;
}

int rig_wait(void)
{
    while (rig.calls == 0 && loop_run_once(&rig.loop, true)) {
    }
    CHECK_INT(rig.calls, 1);
    rig.calls = 0;
    return rig.status;
}

int rig_look(const char *dir)
{
    started(git_look(rig.git, dir, on_look, NULL));
    return rig_wait();
}

struct git_worktree rig_worktree(void)
{
    return (struct git_worktree){
        .common = rig.added.common,
        .dir = rig.added.dir,
        .quarantine = rig.quarantine,
        .branch = "afloat/bot-1",
        .start = rig.added.start,
        .rescue = rig.committed.rescue,
    };
}

int rig_add(void)
{
    return rig_add_with(
        &(struct git_add){.repo = rig.repo, .dir = rig.dir, .branch = "afloat/bot-1"});
}

void rig_start_add(const struct git_add *a)
{
    struct git_add ask = *a;
    ask.quarantine = rig.quarantine;
    started(git_add(rig.git, &ask, on_add, NULL));
}

void rig_start_more(const struct git_add *a)
{
    git_add(rig.git, a, on_add, NULL);
}

void rig_wait_more(int n)
{
    while (rig.calls < n && loop_run_once(&rig.loop, true)) {
        if (rig.status < 0) {
            test_fail(__FILE__, __LINE__, "%s", rig.err.msg);
        }
    }
    CHECK_INT(rig.calls, n);
    rig.calls = 0;
}

int rig_add_with(const struct git_add *a)
{
    rig_start_add(a);
    return rig_wait();
}

void rig_commit_of(const struct git_worktree *w)
{
    static const char *const link[] = {"modules", NULL};
    started(git_commit(rig.git, w, rig.added.root, link, "work", on_commit, NULL));
}

int rig_commit(void)
{
    struct git_worktree w = rig_worktree();
    rig_commit_of(&w);
    return rig_wait();
}

int rig_remove(void)
{
    struct git_worktree w = rig_worktree();
    started(git_remove(rig.git, &w, on_done, NULL));
    return rig_wait();
}

void rig_diff_of(const struct git_diff_opts *opts)
{
    started(git_diff(rig.git, opts, on_diff, NULL));
}

int rig_diff(bool live, size_t max_patch)
{
    struct git_diff_opts opts = {.of = rig_worktree(), .max_patch = max_patch};
    if (!live) {
        opts.of.dir = NULL;
    }
    rig_diff_of(&opts);
    return rig_wait();
}

int rig_apply(void)
{
    struct git_worktree w = rig_worktree();
    started(git_apply(rig.git, rig.added.root, &w, on_take, NULL));
    return rig_wait();
}

int rig_merge(void)
{
    struct git_worktree w = rig_worktree();
    started(git_merge(rig.git, rig.added.root, &w, rig.added.dirty, rig.into, on_take, NULL));
    return rig_wait();
}

int rig_delete(const char *branch, const char *commit)
{
    started(git_delete_branch(rig.git, rig.added.common, branch, commit, on_done, NULL));
    return rig_wait();
}

int rig_list(const char *repo)
{
    started(git_list(rig.git, repo, on_list, NULL));
    return rig_wait();
}

int rig_measure(void)
{
    struct git_worktree w = rig_worktree();
    started(git_measure(rig.git, &w, on_measure, NULL));
    return rig_wait();
}

bool rig_has(const struct git_names *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->p[i], name) == 0) {
            return true;
        }
    }
    return false;
}
