// The jobs of a session, and what is kept around its file tools.
//
//     rewind_before ──> job: look at the files, write them down ──> it runs
//     rewind_after  ──> job: look again, write that down
//
// Commands are in command.c, going back is in restore.c.
//
// Invariants:
//   - jobs of a session run one at a time, in the order of the calls.
//   - a failure to keep something never stops a call; it becomes a note that people see.

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "base/utf8.h"
#include "rewind/rewind_int.h"

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
    *s = (struct rewind_session){.rewind = r,
                                 .working_dir = working_dir != NULL ? xstrdup(working_dir) : NULL,
                                 .record = path_join(dir, "rewind.jsonl"),
                                 .snapshot_file = path_join(dir, "snapshot.json"),
                                 .tmp = path_join(dir, "rewind.tmp"),
                                 .store = {.dir = path_join(dir, "kept")},
                                 .max_bytes = max_bytes};
    return s;
}

static void session_free(struct rewind_session *s)
{
    assert(s->jobs.head == NULL);
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
        if (s->jobs.head == NULL) {
            session_free(s);
        }
    }
}

void rewind_session_rest(struct rewind_session *s)
{
    if (s->jobs.head == NULL) {
        tripwire_free(s->wire);
        s->wire = NULL;
        s->sure = false;
    }
}

static void start_first(void *arg)
{
    struct rewind_session *s = arg;
    struct rewind_job *j = s->jobs.head;
    if (j->settles && !s->settled) {
        rewind__settle(j);
    } else {
        j->start(j);
    }
}

struct rewind_job *rewind__job_new(struct rewind_session *s, void (*start)(struct rewind_job *j),
                                   bool settles)
{
    struct rewind_job *j = xcalloc(1, sizeof *j);
    assert(!s->closed);
    s->rewind->n_jobs++;
    *j = (struct rewind_job){.s = s, .start = start, .settles = settles};
    if (s->jobs.head == NULL) {
        loop_defer(s->rewind->loop, start_first, s);
    }
    fifo_add(&s->jobs, j);
    return j;
}

void rewind__job_end(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    struct rewind *r = s->rewind;
    assert(s->jobs.head == j && r->n_jobs != 0);
    r->n_jobs--;
    fifo_take(&s->jobs);
    snapshot_fini(&j->fresh);
    vec_fini(&j->changes);
    arena_fini(&j->arena);
    free(j);
    if (s->jobs.head != NULL) {
        loop_defer(r->loop, start_first, s);
    } else if (s->closed) {
        session_free(s);
    }
    free_if_over(r);
}

/// The path of the user that the job looks at: the file of a file tool, else the session's directory.
static const char *place_of(const struct rewind_job *j)
{
    bool file = j->call != NULL && j->call->paths.n != 0;
    const char *dir = j->s->working_dir != NULL ? j->s->working_dir : j->s->record;
    return file ? j->call->paths.p[0] : dir;
}

void rewind__lane(struct rewind_job *j, work_fn *work, work_done *done)
{
    work_submit(j->s->rewind->lane, work_mount_key(place_of(j)), work, done, j);
}

void rewind__note(struct rewind_job *j, const char *msg)
{
    if (j->note == NULL) {
        j->note = arena_strdup(&j->arena, str_of(msg));
    }
}

void rewind__append(struct rewind_job *j, const char *member, const char *base,
                    const rewind_changes *changes)
{
    const struct rewind_call *c = j->call;
    struct buf line = {.max = SIZE_MAX};
    struct err e;
    struct jw w = {.out = &line};
    jw_obj(&w);
    jw_kstrz(&w, "turn", c->turn);
    if (member != NULL) {
        jw_kint(&w, member, (int64_t)c->number);
    }
    if (changes != NULL && changes->n != 0) {
        rewind_write_changes(&w, base, changes->p, changes->n);
    }
    if (j->note != NULL) {
        jw_kstrs(&w, "not_kept", &j->note, 1);
    }
    jw_end_obj(&w);
    if (rewind_record_append(j->s->record, buf_str(&line), &e) < 0) {
        rewind__note(j, e.msg);
    }
    buf_fini(&line);
}

// ---- another directory --------------------------------------------------------------------------

void rewind__forget(struct rewind_session *s)
{
    snapshot_fini(&s->now);
    tripwire_free(s->wire);
    s->wire = NULL;
    s->sure = false;
}

static void start_move(struct rewind_job *j)
{
    struct rewind_session *s = j->s;
    free(s->working_dir);
    s->working_dir = j->note != NULL ? xstrdup(j->note) : NULL;
    rewind__forget(s);
    rewind__job_end(j);
}

void rewind_session_move(struct rewind_session *s, const char *working_dir)
{
    struct rewind_job *j = rewind__job_new(s, start_move, false);
    j->note = working_dir != NULL ? arena_strdup(&j->arena, str_of(working_dir)) : NULL;
}

// ---- a turn -------------------------------------------------------------------------------------

static void write_turn(void *arg)
{
    const struct rewind_job *j = arg;
    (void)!rewind_record_append(j->s->record, str_of(j->note), NULL); // its calls name the turn too
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
    struct rewind_job *j = rewind__job_new(s, start_turn, false);
    struct buf line = {.max = SIZE_MAX};
    struct jw w = {.out = &line};
    jw_obj(&w);
    jw_kstrz(&w, "turn", turn);
    jw_kint(&w, "at", at);
    jw_kstr(&w, "text", (struct str){text.p, utf8_cut(text.p, text.n, TEXT_MAX)});
    jw_end_obj(&w);
    j->note = arena_strdup(&j->arena, buf_str(&line));
    buf_fini(&line);
}

// ---- a file tool --------------------------------------------------------------------------------

/// Where `path` is opened from: the working directory, else the nearest directory above `path` that exists. Links are
/// resolved here, once: a file tool writes the file that a link leads to, and leaves the link.
static struct rewind_change split_path(struct arena *a, const char *working_dir, const char *path)
{
    char *real = path_real(path);
    const char *full = arena_strdup(a, str_of(real));
    const char *below = working_dir != NULL ? path_below(working_dir, full) : NULL;
    free(real);
    if (below != NULL && below[0] != '\0') {
        return (struct rewind_change){.base = arena_strdup(a, str_of(working_dir)), .path = below};
    }
    struct str up = path_dir(str_of(full));
    char *base = arena_strdup(a, up);
    while (!path_is_dir(base) && up.n > 1) {
        up = path_dir(up);
        base = arena_strdup(a, up);
    }
    return (struct rewind_change){.base = base, .path = full + up.n + (up.n > 1)};
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
            rewind__note(j, e.msg);
            change.before.kind = KEPT_NOT;
        }
        vec_push(&c->changes, change);
    }
    for (size_t i = 0; i < c->changes.n; i++) {
        rewind_changes one = {.p = &c->changes.p[i], .n = 1};
        rewind__append(j, NULL, one.p->base, &one);
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
        rewind__append(j, NULL, c->base, &one);
    }
    if (rewind_record_shrink(j->s->record, &j->s->store, &j->s->now, j->s->max_bytes, &e) < 0) {
        rewind__note(j, e.msg);
    }
}

// ---- around a call ------------------------------------------------------------------------------

void rewind__ready(void *arg)
{
    struct rewind_job *j = arg;
    struct rewind_call *c = j->call;
    if (c->command && j->note != NULL) {
        c->number = 0; // nothing to compare with
    }
    j->ready(j->arg, j->note);
    rewind__job_end(j);
}

void rewind__call_free(struct rewind_call *c)
{
    vec_fini(&c->changes);
    arena_fini(&c->arena);
    free(c);
}

static void write_note(void *arg)
{
    rewind__append(arg, NULL, NULL, NULL);
}

static void start_before(struct rewind_job *j)
{
    if (j->call->command) {
        rewind__begin_command(j);
    } else {
        rewind__lane(j, look_before, rewind__ready);
    }
}

struct rewind_call *rewind_before(struct rewind_session *s, const char *turn,
                                  const char *const *paths, rewind_ready_cb *cb, void *arg)
{
    struct rewind_call *c = xcalloc(1, sizeof *c);
    c->s = s;
    c->turn = arena_strdup(&c->arena, str_of(turn));
    c->command = paths == NULL;
    c->paths = (struct git_names){.p = arena_copy_list(&c->arena, paths), .n = str_count(paths)};
    struct rewind_job *j = rewind__job_new(s, start_before, true);
    j->call = c;
    j->ready = cb;
    j->arg = arg;
    return c;
}

static void start_after(struct rewind_job *j)
{
    if (j->call->command && j->call->number != 0) {
        rewind__end_command(j);
    } else if (j->call->command) {
        j->note = "what its commands changed";
        rewind__lane(j, write_note, rewind__over);
    } else {
        rewind__lane(j, look_after, rewind__over);
    }
}

void rewind_after(struct rewind_call *c, rewind_ready_cb *cb, void *arg)
{
    struct rewind_job *j = rewind__job_new(c->s, start_after, false);
    assert(cb != NULL);
    j->call = c;
    j->ready = cb;
    j->arg = arg;
}
