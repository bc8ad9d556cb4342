// The other files of a session: making its directory, replacing metadata.json, removing it all.
//
//     new:    mkdir ─> metadata.json by rename ─> events.jsonl ─> sync parents ─> row ─> answer
//     meta:            metadata.json by rename ─────────────────────────────> row ─> answer
//     remove: rename into trash/ ─> row gone ─> answer, the trash emptied meanwhile
//
// A session exists once metadata.json or its journal does. Killed before that, an empty directory is
// left, which lists ignore and fsck removes. Killed before the row is there, the next start finds the
// directory. Removal is one rename: there is no half-removed session.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "base/time.h"
#include "store/doc.h"
#include "store/session_int.h"
#include "store/walk.h"

struct meta_job {
    struct index_op op;
    struct session *s;
    struct session_request *asked; // answered together; the last one's text counts
    bool create;
    char *dir; // relative to the home
    struct str meta;
    struct arena a;
    struct index_row row;
    struct journal *journal; // create: opened
    int status;
    struct err err;
};

// ---- on the files lane --------------------------------------------------------------------

/// Sync every directory above `dir`, the home included: their entries may be new.
static int sync_parents(const char *home, struct str dir, struct err *e)
{
    int rc;
    do {
        dir = path_dir(dir);
        char *path = xasprintf("%s/" STR_FMT, home, STR_ARG(dir));
        rc = walk_sync_dir(path, e);
        free(path);
    } while (rc == 0 && !str_eqz(dir, "."));
    return rc;
}

static char *job_path(const struct meta_job *m, const char *name)
{
    return xasprintf("%s/%s/%s", m->s->all->o.home, m->dir, name);
}

static int write_meta(struct meta_job *m, struct err *e)
{
    struct stat st;
    char *path = job_path(m, "metadata.json");
    int rc = doc_save(path, m->meta, e);
    if (rc == 0 && stat(path, &st) != 0) {
        rc = err_sys(e, "cannot look at '%s'", path);
    }
    free(path);
    if (rc == 0) {
        index_row_from_meta(&m->row, str_of(m->s->id), str_of(m->dir), m->meta, &m->a);
        m->row.meta_ino = st.st_ino;
        m->row.meta_mtime = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    }
    return rc;
}

/// The session could not be made: remove its directory again.
static void undo_create(struct meta_job *m)
{
    struct err e;
    char *path = path_join(m->s->all->o.home, m->dir);
    journal_close(m->journal);
    m->journal = NULL;
    if (path_remove_tree(path, &e) < 0) {
        log_warn(LOG_STORE, "session=%s left=%s error=%s", m->s->id, LOGQ(str_of(path)).z,
                 LOGQ(str_of(e.msg)).z);
    }
    free(path);
}

static void create_work(void *arg)
{
    struct meta_job *m = arg;
    const char *home = m->s->all->o.home;
    char *path = path_join(home, m->dir), *events = job_path(m, "events.jsonl");
    char *parent = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(parent, 0700, &m->err);
    bool made = rc == 0 && mkdir(path, 0700) == 0;
    if (rc == 0 && !made) {
        rc = errno == EEXIST ? err_set(&m->err, ERR_CONFLICT, "'%s' exists already", m->dir)
                             : err_sys(&m->err, "cannot create directory '%s'", path);
    }
    rc = rc == 0 ? write_meta(m, &m->err) : rc;
    rc = rc == 0 ? journal_open(&m->journal, events, JOURNAL_START, NULL, &m->err) : rc;
    if (rc == 0) {
        journal_file(m->journal, &m->row.dev, &m->row.ino);
        m->row.mark = journal_end(m->journal);
        rc = sync_parents(home, str_of(m->dir), &m->err);
    }
    if (rc < 0 && made) {
        undo_create(m);
    }
    m->status = rc;
    free(parent);
    free(events);
    free(path);
}

static void meta_work(void *arg)
{
    struct meta_job *m = arg;
    m->status = write_meta(m, &m->err);
}

// ---- rows ---------------------------------------------------------------------------------

static int run_row(struct index *x, struct index_op *op, struct err *e)
{
    struct meta_job *m = container_of(op, struct meta_job, op);
    return m->create ? index_put(x, &m->row, e) : index_put_meta(x, &m->row, e);
}

static void disown(struct session *s)
{
    session__close_journal(s);
    s->exists = false;
    free(s->dir);
    s->dir = NULL;
}

static void start_meta(struct session *s);

static void finish(struct meta_job *m, int status, const struct err *e)
{
    struct session *s = m->s;
    assert(m->create ? s->busy : s->meta_running);
    if (m->create) {
        s->busy = false;
    } else {
        s->meta_running = false;
    }
    for (struct session_request *op = m->asked, *next; op != NULL; op = next) {
        next = op->next;
        session__end(op, status, e);
    }
    arena_fini(&m->a);
    free(m->dir);
    free(m);
    if (s->meta_wait.head != NULL && !s->meta_running) {
        start_meta(s);
    }
    session__poke(s);
}

static void undo_work(void *arg)
{
    undo_create(arg);
}

static void on_undone(void *arg)
{
    struct meta_job *m = arg;
    finish(m, m->status, &m->err);
}

// When the row cannot be written, replaced metadata stay: the next start reads them. A new session
// is removed again, so that a failed call leaves nothing.
static void on_row(struct index_op *op, int status, const struct err *e)
{
    struct meta_job *m = container_of(op, struct meta_job, op);
    if (status == 0 || !m->create) {
        finish(m, status, e);
        return;
    }
    m->status = status;
    m->err = *e;
    disown(m->s);
    work_submit(m->s->all->o.files, 0, undo_work, on_undone, m);
}

static void on_files(void *arg)
{
    struct meta_job *m = arg;
    if (m->status < 0) {
        finish(m, m->status, &m->err);
        return;
    }
    if (m->create) {
        struct session *s = m->s;
        s->exists = true;
        s->dir = xstrdup(m->dir);
        s->journal = m->journal;
        m->journal = NULL;
        s->mark = s->written = s->synced = s->listed = journal_end(s->journal);
        s->updated_at = m->row.row.updated_at;
        session__touch(s);
    }
    m->op.run = run_row;
    m->op.done = on_row;
    indexer_submit(m->s->all->o.index, &m->op);
}

// ---- new and meta -------------------------------------------------------------------------

static struct meta_job *job_new(struct session *s, struct session_request *asked, struct str dir)
{
    struct meta_job *m = xcalloc(1, sizeof *m);
    const struct session_request *last = asked;
    while (last->next != NULL) {
        last = last->next;
    }
    m->s = s;
    m->asked = asked;
    m->dir = str_dup(dir);
    m->meta = str_trim(last->meta);
    return m;
}

static void start_meta(struct session *s)
{
    struct meta_job *m = job_new(s, fifo_take_all(&s->meta_wait), str_of(s->dir));
    s->meta_running = true;
    work_submit(s->all->o.files, map_hash(str_of(s->id)), meta_work, on_files, m);
}

bool session__begin_new(struct session *s)
{
    struct session_request *op = fifo_take(&s->queue);
    struct meta_job *m = job_new(s, op, op->dir);
    m->create = true;
    s->busy = true;
    work_submit(s->all->o.files, map_hash(str_of(s->id)), create_work, on_files, m);
    return true;
}

bool session__begin_meta(struct session *s)
{
    fifo_add(&s->meta_wait, fifo_take(&s->queue));
    if (!s->meta_running) {
        start_meta(s);
    }
    return true;
}

// ---- remove -------------------------------------------------------------------------------

struct remove_job {
    struct index_op op;
    struct session *s;
    struct session_request *asked;
    char *trash; // absolute; what is left of it
    int status;
    struct err err;
};

static void remove_work(void *arg)
{
    struct remove_job *r = arg;
    const char *home = r->s->all->o.home;
    char *from = path_join(home, r->s->dir);
    char *trash = path_join(home, "trash");
    r->trash = xasprintf("%s/%s.%llu", trash, r->s->id, (unsigned long long)time_wall_ms());
    r->status = path_mkdirs(trash, 0700, &r->err);
    if (r->status == 0 && rename(from, r->trash) != 0 && errno != ENOENT) {
        r->status = err_sys(&r->err, "cannot remove '%s'", from);
    }
    if (r->status == 0) {
        char *parent = str_dup(path_dir(str_of(from)));
        r->status = walk_sync_dir(parent, &r->err);
        free(parent);
    }
    free(trash);
    free(from);
}

static void empty_work(void *arg)
{
    char *trash = arg;
    struct err e;
    if (path_remove_tree(trash, &e) < 0) {
        log_warn(LOG_STORE, "trash=left error=%s", LOGQ(str_of(e.msg)).z);
    }
    free(trash);
}

static int run_remove(struct index *x, struct index_op *op, struct err *e)
{
    return index_remove(x, str_of(container_of(op, struct remove_job, op)->s->id), e);
}

static void finish_remove(struct remove_job *r, int status, const struct err *e)
{
    struct session *s = r->s;
    s->busy = false;
    session__end(r->asked, status, e);
    free(r->trash);
    free(r);
    session__poke(s);
}

static void on_unlisted(struct index_op *op, int status, const struct err *e)
{
    finish_remove(container_of(op, struct remove_job, op), status, e);
}

static void on_removed(void *arg)
{
    struct remove_job *r = arg;
    struct session *s = r->s;
    if (r->status < 0) {
        finish_remove(r, r->status, &r->err);
        return;
    }
    work_submit(s->all->o.files, 0, empty_work, NULL, r->trash);
    r->trash = NULL;
    disown(s);
    r->op.run = run_remove;
    r->op.done = on_unlisted;
    indexer_submit(s->all->o.index, &r->op);
}

bool session__begin_remove(struct session *s)
{
    if (s->readers != 0 || s->syncing || s->sync_wait.head != NULL || s->meta_running) {
        return false; // each of them pokes when it is done
    }
    struct remove_job *r = xcalloc(1, sizeof *r);
    r->s = s;
    r->asked = fifo_take(&s->queue);
    s->sync_failed = false;
    session__close_journal(s);
    s->written = s->synced;
    s->busy = true;
    work_submit(s->all->o.files, map_hash(str_of(s->id)), remove_work, on_removed, r);
    return true;
}
