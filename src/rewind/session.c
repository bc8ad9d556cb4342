// What is kept around the calls of a session.
//
//     file tool:  look at its files, write them down ──> it runs ──> look again, write that down
//     command:    snapshot, "begin" ──> it runs ──> compare, "end" with what changed
//
// A snapshot is taken with git's list of what is not committed. The session remembers the last one; when
// the tripwire says that nothing was touched since, it still holds and git is not asked. The wire is
// trusted only when it was armed before the snapshot was taken (`sure`), so the second command of a
// session looks once more and the third one does not.
//
// When the hub is killed while a command runs, its "begin" has no "end", and the snapshot before it lies
// in `snapshot.json`. The session's next job compares with that first: what the command did is taken
// back like anything else.
//
// Invariants:
//   - jobs of a session run one at a time, in the order of the calls.
//   - `now` and `snapshot.json` are the same whenever a command may run.
//   - a failure to keep something never stops a call; it becomes a note that people see.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "rewind/rewind_int.h"

struct rewind_call {
    struct rewind_session *s;
    struct arena arena;
    const char *turn;
    uint64_t number; // of a command that began; 0: none
    bool command;
    struct git_names paths;
    rewind_changes changes; // of a file tool
};

// ---- sessions and jobs --------------------------------------------------------------------------

struct rewind *rewind_open(struct loop *l)
{
    struct rewind *r = xcalloc(1, sizeof *r);
    *r = (struct rewind){.loop = l, .lane = lane_open(l, "rewind", 2)};
    return r;
}

void rewind_set_git(struct rewind *r, struct git *git)
{
    r->git = git;
}

static void free_if_over(struct rewind *r)
{
    if (r->closed && r->n_jobs == 0) {
        lane_close(r->lane);
        free(r);
    }
}

void rewind_close(struct rewind *r)
{
    if (r != NULL) {
        r->closed = true;
        free_if_over(r);
    }
}

struct rewind_session *rewind_session_open(struct rewind *r, const char *dir,
                                           const char *working_dir, uint64_t max_bytes)
{
    struct rewind_session *s = xcalloc(1, sizeof *s);
    s->rewind = r;
    s->working_dir = working_dir != NULL ? xstrdup(working_dir) : NULL;
    s->record = path_join(dir, "rewind.jsonl");
    s->snapshot_file = path_join(dir, "snapshot.json");
    s->tmp = path_join(dir, "rewind.tmp");
    s->store.dir = path_join(dir, "kept");
    s->max_bytes = max_bytes;
    return s;
}

static void session_free(struct rewind_session *s)
{
    assert(s->first == NULL);
    snapshot_fini(&s->now);
    tripwire_free(s->wire);
    free(s->working_dir);
    free(s->record);
    free(s->snapshot_file);
    free(s->tmp);
    free(s->store.dir);
    free(s);
}

void rewind_session_close(struct rewind_session *s)
{
    if (s != NULL) {
        s->closed = true;
        if (s->first == NULL) {
            session_free(s);
        }
    }
}

void rewind_session_rest(struct rewind_session *s)
{
    if (s->first == NULL) {
        tripwire_free(s->wire);
        s->wire = NULL;
        s->sure = false;
    }
}

static void start_first(void *arg)
{
    struct rewind_session *s = arg;
    s->first->start(s->first);
}

struct rewind_job *rewind__job_new(struct rewind_session *s, void (*start)(struct rewind_job *j))
{
    struct rewind_job *j = xcalloc(1, sizeof *j);
    assert(!s->closed);
    s->rewind->n_jobs++;
    j->s = s;
    j->start = start;
    arena_init(&j->arena);
    if (s->first == NULL) {
        s->first = j;
        loop_defer(s->rewind->loop, start_first, s);
    } else {
        s->last->next = j;
    }
    s->last = j;
    return j;
}

void rewind__job_end(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    struct rewind *r = s->rewind;
    assert(s->first == j && r->n_jobs != 0);
    r->n_jobs--;
    s->first = j->next;
    snapshot_fini(&j->fresh);
    vec_fini(&j->changes);
    arena_fini(&j->arena);
    free(j);
    if (s->first != NULL) {
        loop_defer(r->loop, start_first, s);
    } else if (s->closed) {
        session_free(s);
    }
    free_if_over(r);
}

void rewind__lane(struct rewind_job *j, work_fn *work, work_done *done)
{
    work_submit(j->s->rewind->lane, work_mount_key(j->s->record), work, done, j);
}

static void set_note(struct rewind_job *j, const char *msg)
{
    if (j->note == NULL) {
        j->note = arena_strdup(&j->arena, str_of(msg));
    }
}

/// Write one line: `{"turn": ..., MEMBER: N?, changes..., "not_kept"?}`.
static void append_line(struct rewind_job *j, const char *member, const char *base,
                        const rewind_changes *changes)
{
    const struct rewind_call *c = j->call;
    struct buf line;
    struct jw w;
    struct err e;
    buf_init(&line, SIZE_MAX);
    jw_init(&w, &line);
    jw_obj(&w);
    jw_kstrz(&w, "turn", c->turn);
    if (member != NULL) {
        jw_kint(&w, member, (int64_t)c->number);
    }
    if (changes != NULL && changes->n != 0) {
        rewind_write_changes(&w, base, changes->p, changes->n);
    }
    if (j->note != NULL) {
        jw_key(&w, "not_kept");
        jw_arr(&w);
        jw_strz(&w, j->note);
        jw_end_arr(&w);
    }
    jw_end_obj(&w);
    if (rewind_record_append(j->s->record, buf_str(&line), &e) < 0) {
        set_note(j, e.msg);
    }
    buf_fini(&line);
}

// ---- a turn -------------------------------------------------------------------------------------

static void write_turn(void *arg)
{
    struct rewind_job *j = arg;
    if (rewind_record_append(j->s->record, str_of(j->note), &j->err) < 0) {
        j->status_code = j->err.code;
    }
}

static void turn_written(void *arg)
{
    rewind__job_end(arg);
}

static void start_turn(struct rewind_job *j)
{
    rewind__lane(j, write_turn, turn_written);
}

void rewind_turn(struct rewind_session *s, const char *turn, int64_t at, struct str text)
{
    enum { TEXT_MAX = 200 };
    struct rewind_job *j = rewind__job_new(s, start_turn);
    struct buf line;
    struct jw w;
    buf_init(&line, SIZE_MAX);
    jw_init(&w, &line);
    jw_obj(&w);
    jw_kstrz(&w, "turn", turn);
    jw_kint(&w, "at", at);
    jw_kstr(&w, "text", (struct str){text.p, MIN(text.n, (size_t)TEXT_MAX)});
    jw_end_obj(&w);
    j->note = arena_strdup(&j->arena, buf_str(&line));
    buf_fini(&line);
}

// ---- a file tool --------------------------------------------------------------------------------

/// Where `path` is opened from: the working directory, else the nearest directory above it that is there.
/// Links on the way are resolved here, once.
static struct rewind_change split_path(struct arena *a, const char *working_dir, const char *path)
{
    char *base = arena_strdup(a, str_of(path)), *real = NULL;
    const char *rest = path;
    for (char *slash; real == NULL && (slash = strrchr(base, '/')) != NULL;) {
        *slash = '\0';
        rest = path + (slash - base) + 1;
        real = realpath(slash != base ? base : "/", NULL);
    }
    assert(real != NULL);
    const char *full = arena_printf(a, "%s/%s", real, rest);
    size_t n = working_dir != NULL ? strlen(working_dir) : 0;
    bool inside = n != 0 && strncmp(full, working_dir, n) == 0 && full[n] == '/';
    struct rewind_change c = {.base = arena_strdup(a, str_of(inside ? working_dir : real)),
                              .path = inside ? full + n + 1 : rest};
    free(real);
    return c;
}

static int look_at(const struct kept_store *store, const struct rewind_change *c,
                   struct kept_state *out, struct err *e)
{
    int fd = open(c->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc =
        fd < 0 ? err_sys(e, "cannot open '%s'", c->base) : kept_look(store, fd, c->path, out, e);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static void look_before(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_call *c = j->call;
    struct err e;
    for (size_t i = 0; i < c->paths.n; i++) {
        struct rewind_change change = split_path(&c->arena, j->s->working_dir, c->paths.p[i]);
        change.open = true;
        if (look_at(&j->s->store, &change, &change.before, &e) < 0) {
            set_note(j, e.msg);
            change.before.kind = KEPT_NOT;
        }
        vec_push(&c->changes, change);
    }
    for (size_t i = 0; i < c->changes.n; i++) {
        rewind_changes one = {.p = &c->changes.p[i], .n = 1};
        append_line(j, NULL, one.p->base, &one);
    }
}

static void look_after(void *arg)
{
    struct rewind_job *j = arg;
    struct err e;
    vec_foreach (c, &j->call->changes) {
        rewind_changes one = {.p = c, .n = 1};
        c->open = false;
        if (look_at(NULL, c, &c->after, &e) < 0) {
            c->after.kind = KEPT_NOT;
        }
        append_line(j, NULL, c->base, &one);
    }
    if (rewind_record_shrink(j->s->record, &j->s->store, &j->s->now, j->s->max_bytes, &e) < 0) {
        set_note(j, e.msg);
    }
}

// ---- a command ----------------------------------------------------------------------------------

static void copy_status(struct rewind_job *j, const struct git_status *from)
{
    struct git_dirty *list = arena_calloc(&j->arena, from->n + 1, sizeof *list);
    const char **dirs = arena_calloc(&j->arena, from->dirs.n + 1, sizeof *dirs);
    for (size_t i = 0; i < from->n; i++) {
        list[i] = from->p[i];
        list[i].path = arena_strdup(&j->arena, str_of(from->p[i].path));
    }
    for (size_t i = 0; i < from->dirs.n; i++) {
        dirs[i] = arena_strdup(&j->arena, str_of(from->dirs.p[i]));
    }
    j->status = (struct git_status){.root = arena_strdup(&j->arena, str_of(from->root)),
                                    .head = arena_strdup(&j->arena, str_of(from->head)),
                                    .p = list,
                                    .n = from->n,
                                    .dirs = {.p = dirs, .n = from->dirs.n}};
}

/// The new snapshot is the session's, in memory and on disk; a wire is armed when there is none.
static void adopt(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    struct err e;
    if (snapshot_save(&j->fresh, s->snapshot_file, &e) < 0) {
        set_note(j, e.msg);
    }
    snapshot_fini(&s->now);
    s->now = j->fresh;
    j->fresh = (struct snapshot){0};
    if (s->wire == NULL) {
        s->wire = tripwire_arm(s->now.root, j->status.dirs.p, j->status.dirs.n);
        s->sure = false;
    }
}

/// Ask the wire what happened; one that cannot see all of the tree is cut.
static enum tripped ask_wire(struct rewind_session *s)
{
    enum tripped found = s->wire != NULL ? tripwire_ask(s->wire) : TRIPWIRE_DIRS;
    if (found == TRIPWIRE_DIRS) {
        tripwire_free(s->wire);
        s->wire = NULL;
    }
    return found;
}

static void write_note(void *arg)
{
    append_line(arg, NULL, NULL, NULL);
}

static void write_begin(void *arg)
{
    struct rewind_job *j = arg;
    append_line(j, "begin", NULL, NULL);
}

/// Take a snapshot of what git listed. A failure is a note, and `fresh` is empty then.
static void take_fresh(struct rewind_job *j)
{
    struct err e;
    if (snapshot_take(&j->fresh, &j->s->now, &j->status, &j->s->store, &e) < 0) {
        set_note(j, e.msg);
        snapshot_fini(&j->fresh);
    }
}

static void take_before(void *arg)
{
    struct rewind_job *j = arg;
    take_fresh(j);
    if (j->fresh.root != NULL) {
        adopt(j);
        append_line(j, "begin", NULL, NULL);
    }
}

static void tell_ready(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_call *c = j->call;
    if (c->command && j->note != NULL) {
        c->number = 0; // nothing to compare with
    }
    j->ready(j->arg, j->note);
    rewind__job_end(j);
}

static const char outside[] = "what a command changes outside of a git checkout is not kept";

static void got_before(void *arg, int status, const struct err *e, const struct git_status *r)
{
    struct rewind_job *j = arg;
    if (status < 0) {
        set_note(j, status == ERR_NOT_FOUND ? outside : e->msg);
        tell_ready(j);
        return;
    }
    copy_status(j, r);
    rewind__lane(j, take_before, tell_ready);
}

/// Look for a checkout without git: most commands outside of one need no process for that.
static void find_checkout(void *arg)
{
    struct rewind_job *j = arg;
    char *dir = xstrdup(j->s->working_dir);
    bool found = false;
    for (char *slash = dir; !found && slash != NULL;) {
        char *path = path_join(dir[0] != '\0' ? dir : "/", ".git");
        found = access(path, F_OK) == 0;
        free(path);
        slash = strrchr(dir, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    if (!found) {
        set_note(j, outside);
    }
    free(dir);
}

static void found_checkout(void *arg)
{
    struct rewind_job *j = arg;
    if (j->note != NULL) {
        tell_ready(j);
    } else {
        git_status(j->s->rewind->git, j->s->working_dir, NULL, got_before, j);
    }
}

static void begin_command(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    struct git *git = s->rewind->git;
    if (git == NULL || s->working_dir == NULL) {
        set_note(j, "what a command changes is not kept without git and a working directory");
        tell_ready(j);
        return;
    }
    j->call->number = s->next_call++;
    bool sure = s->sure;
    if (ask_wire(s) == TRIPWIRE_STILL && sure) {
        rewind__lane(j, write_begin, tell_ready);
        return;
    }
    s->sure = s->wire != NULL; // what comes from here on, it sees
    if (s->now.root != NULL) {
        found_checkout(j);
    } else {
        rewind__lane(j, find_checkout, found_checkout);
    }
}

static void write_end(void *arg)
{
    struct rewind_job *j = arg;
    struct err e;
    append_line(j, "end", j->s->now.root, &j->changes);
    if (rewind_record_shrink(j->s->record, &j->s->store, &j->s->now, j->s->max_bytes, &e) < 0) {
        set_note(j, e.msg);
    }
}

/// Fill in what was clean before, from where git wrote it out, and clear that up.
static void take_extracted(void *arg)
{
    static const struct kept_state absent = {.kind = KEPT_ABSENT};
    struct rewind_job *j = arg;
    struct err e;
    size_t n = 0;
    int fd = open(j->s->tmp, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < j->changes.n; i++) {
        struct rewind_change c = j->changes.p[i];
        if (c.open) {
            c.open = false;
            c.before.kind = KEPT_NOT;
            if (fd < 0 || kept_look(&j->s->store, fd, c.path, &c.before, &e) < 0 ||
                kept_put(NULL, fd, c.path, &absent, &e) < 0) {
                set_note(j, "some files could not be kept");
            }
        }
        if (!kept_same(&c.before, &c.after) || c.before.kind == KEPT_NOT) {
            j->changes.p[n++] = c;
        }
    }
    j->changes.n = n;
    if (fd >= 0) {
        close(fd);
    }
    rmdir(j->s->tmp);
    if (j->fresh.root != NULL) {
        adopt(j);
    }
    write_end(j);
}

static void tell_over(void *arg);

static void extracted(void *arg, int status, const struct err *e)
{
    struct rewind_job *j = arg;
    if (status < 0) {
        set_note(j, e->msg);
    }
    rewind__lane(j, take_extracted, tell_over);
}

static void compare(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_session *s = j->s;
    struct err e;
    take_fresh(j);
    if (j->fresh.root == NULL) {
        return;
    }
    snapshot_compare(&s->now, &j->fresh, &j->status, &j->arena, &j->changes);
    vec_foreach (c, &j->changes) { // the snapshots go, the changes stay
        c->base = arena_strdup(&j->arena, str_of(c->base));
        c->path = arena_strdup(&j->arena, str_of(c->path));
    }
    if (path_mkdirs(s->tmp, 0700, &e) < 0) {
        set_note(j, e.msg);
    }
}

static void compared(void *arg)
{
    struct rewind_job *j = arg;
    const char *commit = arena_strdup(&j->arena, str_of(j->s->now.head));
    struct git_names paths = {0};
    const char **list = arena_calloc(&j->arena, j->changes.n + 1, sizeof *list);
    vec_foreach (c, &j->changes) {
        if (c->open) {
            list[paths.n++] = c->path;
        }
    }
    paths.p = list;
    if (paths.n != 0 && *commit != '\0') {
        git_extract(j->s->rewind->git, j->s->now.root, commit, &paths, j->s->tmp, extracted, j);
    } else {
        rewind__lane(j, take_extracted, tell_over);
    }
}

static void got_after(void *arg, int status, const struct err *e, const struct git_status *r)
{
    struct rewind_job *j = arg;
    if (status < 0) {
        set_note(j, e->msg);
        rewind__lane(j, write_end, tell_over);
        return;
    }
    copy_status(j, r);
    rewind__lane(j, compare, compared);
}

/// Compare with the snapshot before the command; the job's call is that command.
static void end_command(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    bool sure = s->sure;
    if (s->now.root == NULL || (ask_wire(s) == TRIPWIRE_STILL && sure)) {
        rewind__lane(j, write_end, tell_over);
        return;
    }
    s->sure = s->wire != NULL;
    git_status(s->rewind->git, s->now.root, s->now.head, got_after, j);
}

// ---- settling -----------------------------------------------------------------------------------

static void look_for_open(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_session *s = j->s;
    struct rewind_call *c = j->call;
    struct rewind_record past;
    if (rewind_record_read(&past, s->record, NULL) == 0) {
        s->next_call = past.next_call;
        c->number = past.open_call;
        c->turn = past.open_call != 0 ? arena_strdup(&c->arena, str_of(past.open_turn)) : "";
    }
    rewind_record_fini(&past);
    if (c->number != 0) {
        snapshot_load(&s->now, s->snapshot_file);
    }
}

static void settle_free(struct rewind_job *j)
{
    struct rewind_job *owner = j->arg;
    void (*next)(struct rewind_job *) = owner->start;
    arena_fini(&j->call->arena);
    free(j->call);
    snapshot_fini(&j->fresh);
    vec_fini(&j->changes);
    arena_fini(&j->arena);
    free(j);
    owner->s->settled = true;
    next(owner);
}

static void looked_for_open(void *arg)
{
    struct rewind_job *j = arg;
    if (j->call->number != 0 && j->s->now.root != NULL && j->s->rewind->git != NULL) {
        end_command(j);
    } else {
        settle_free(j);
    }
}

void rewind__settle(struct rewind_job *j, void (*next)(struct rewind_job *j))
{
    if (j->s->settled) {
        next(j);
        return;
    }
    struct rewind_job *k = xcalloc(1, sizeof *k);
    j->start = next;
    k->s = j->s;
    k->arg = j;
    k->call = xcalloc(1, sizeof *k->call);
    arena_init(&k->arena);
    arena_init(&k->call->arena);
    rewind__lane(k, look_for_open, looked_for_open);
}

static void call_free(struct rewind_call *c)
{
    vec_fini(&c->changes);
    arena_fini(&c->arena);
    free(c);
}

static void tell_over(void *arg)
{
    struct rewind_job *j = arg;
    if (j->ready == NULL) {
        settle_free(j);
        return;
    }
    j->ready(j->arg, j->note);
    call_free(j->call);
    rewind__job_end(j);
}

// ---- around a call ------------------------------------------------------------------------------

static void begin_call(struct rewind_job *j)
{
    if (j->call->command) {
        begin_command(j);
    } else {
        rewind__lane(j, look_before, tell_ready);
    }
}

static void start_before(struct rewind_job *j)
{
    rewind__settle(j, begin_call);
}

struct rewind_call *rewind_before(struct rewind_session *s, const char *turn,
                                  const char *const *paths, rewind_ready_cb *cb, void *arg)
{
    struct rewind_call *c = xcalloc(1, sizeof *c);
    size_t n = 0;
    arena_init(&c->arena);
    c->s = s;
    c->turn = arena_strdup(&c->arena, str_of(turn));
    c->command = paths == NULL;
    while (paths != NULL && paths[n] != NULL) {
        n++;
    }
    const char **list = arena_calloc(&c->arena, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        list[i] = arena_strdup(&c->arena, str_of(paths[i]));
    }
    c->paths = (struct git_names){.p = list, .n = n};
    struct rewind_job *j = rewind__job_new(s, start_before);
    j->call = c;
    j->ready = cb;
    j->arg = arg;
    return c;
}

static void start_after(struct rewind_job *j)
{
    if (j->call->command && j->call->number != 0) {
        end_command(j);
    } else if (j->call->command) {
        j->note = "what its commands changed";
        rewind__lane(j, write_note, tell_over);
    } else {
        rewind__lane(j, look_after, tell_over);
    }
}

void rewind_after(struct rewind_call *c, rewind_ready_cb *cb, void *arg)
{
    struct rewind_job *j = rewind__job_new(c->s, start_after);
    assert(cb != NULL);
    j->call = c;
    j->ready = cb;
    j->arg = arg;
}
