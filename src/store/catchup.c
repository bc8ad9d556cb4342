// Bring the index up to date with the files.
//
// After kill -9, a power cut, or when the user copied sessions into the home, rows are older than
// their files. Each row says what it was made from: the inode and time of metadata.json (replaced by
// rename, so a new text has a new inode) and a mark in events.jsonl. So most sessions cost two calls
// of stat(); of the others only the part after the mark is read.
//
//     walk directories ─> row? ─ no ──────────────> read metadata, scan journal from its start
//                          │ yes
//                          ├─ metadata.json is another file ──> read it
//                          └─ journal is not as long as the mark says ──> scan from the mark
//     rows whose directory was not found: removed
//
// Invariant: a mark is only taken from a journal whose bytes before it are synced; journal_open()
// sees to that.

#include "store/catchup.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/path.h"
#include "base/vec.h"
#include "store/doc.h"
#include "store/walk.h"

struct catchup {
    struct index *x;
    const char *home;
    catchup_cb *cb;
    void *arg;
    struct catchup_stats *stats;
    struct map seen;   // ids
    const char *under; // what is looked at; "" is everything
    struct err *e;
};

// ---- metadata -----------------------------------------------------------------------------

static int64_t mtime_ns(const struct stat *st)
{
    return st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
}

static bool refresh_meta(const char *path, const char *dir, struct str id, struct index_row *r,
                         struct arena *a, bool *exists)
{
    struct stat st = {0};
    *exists = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (r->row.id.n != 0 && r->meta_ino == st.st_ino && r->meta_mtime == mtime_ns(&st) &&
        str_eqz(r->row.dir, dir)) {
        return false;
    }
    int64_t updated_at = r->row.updated_at;
    struct buf text; // unreadable metadata hide no session: its row then has empty columns
    buf_init(&text, DOC_MAX);
    struct str meta = path_read(path, &text, NULL) == 0 ? str_trim(buf_str(&text)) : STR_NULL;
    index_row_from_meta(r, id, arena_str(a, str_of(dir)), arena_str(a, meta), a);
    buf_fini(&text);
    r->row.updated_at = MAX(r->row.updated_at, updated_at);
    r->meta_ino = st.st_ino;
    r->meta_mtime = mtime_ns(&st);
    return true;
}

// ---- journal ------------------------------------------------------------------------------

void catchup_tell(catchup_cb *cb, void *arg, const char *dir, const struct store_notice *n)
{
    char *path = path_join(dir, "events.jsonl");
    char *kept = n->kept != NULL ? path_join(dir, n->kept) : NULL;
    struct store_notice full = *n;
    full.path = path;
    full.kept = kept;
    if (cb != NULL) {
        cb(arg, &full);
    }
    free(path);
    free(kept);
}

void catchup_tell_cut(catchup_cb *cb, void *arg, const char *dir, const struct journal_repair *r)
{
    if (r->bytes_cut != 0) {
        catchup_tell(cb, arg, dir,
                     &(struct store_notice){.kind = STORE_REPAIRED,
                                            .kept = r->kept,
                                            .message = "",
                                            .bytes_cut = r->bytes_cut,
                                            .last_seq = r->last_seq});
    }
}

static void set_progress(struct index_row *r, struct journal_mark end, int64_t last_ts)
{
    r->row.last_seq = end.seq - 1;
    r->row.updated_at = MAX(last_ts != 0 ? last_ts : r->row.updated_at, r->row.started_at);
    r->mark = end;
}

static int read_journal(struct catchup *c, const char *path, const char *dir, struct index_row *r,
                        struct arena *a, struct err *e)
{
    struct journal *j;
    struct journal_repair repair = {0};

    int rc = journal_open(&j, path, r->mark, &repair, e);
    if (rc < 0) {
        return rc;
    }
    if (repair.damage[0] != '\0') {
        catchup_tell(c->cb, c->arg, dir,
                     &(struct store_notice){.kind = STORE_DAMAGED, .message = repair.damage});
        r->row.damage = arena_str(a, str_of(repair.damage));
    }
    catchup_tell_cut(c->cb, c->arg, dir, &repair);
    set_progress(r, journal_end(j), journal_last_ts(j));
    c->stats->bytes_read += journal_bytes_read(j);
    journal_close(j);
    return 0;
}

static int refresh_journal(struct catchup *c, const char *path, const char *dir,
                           struct index_row *r, struct arena *a, bool *changed, bool *exists,
                           struct err *e)
{
    struct stat st = {0};
    *exists = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
    bool same = r->dev == st.st_dev && r->ino == st.st_ino;
    if (same && r->mark.seq != 0 && r->mark.at == (uint64_t)st.st_size) {
        return 0;
    }
    if (!same) {
        r->mark = JOURNAL_START;
        r->row.damage = STR_NULL; // another file: the damage was that of the old one
    }
    *changed = true;
    r->dev = st.st_dev;
    r->ino = st.st_ino;
    if (!*exists) {
        set_progress(r, JOURNAL_START, 0);
        return 0;
    }
    return read_journal(c, path, dir, r, a, e);
}

/// Make the row of the session in `dir` from its files, strings in `a`. `r` holds what is known:
/// its mark and file numbers (all zero: nothing). `*changed` says whether anything differs from
/// that. ERR_NOT_FOUND when there is neither metadata nor journal. Blocks.
static int catch_up_session(struct catchup *c, const char *dir, struct str id, struct index_row *r,
                            struct arena *a, bool *changed, struct err *e)
{
    bool has_meta, has_journal;
    char *meta = xasprintf("%s/%s/metadata.json", c->home, dir);
    char *events = xasprintf("%s/%s/events.jsonl", c->home, dir);

    *changed = refresh_meta(meta, dir, id, r, a, &has_meta);
    int rc = refresh_journal(c, events, dir, r, a, changed, &has_journal, e);
    if (rc == 0 && !has_meta && !has_journal) {
        rc = err_set(e, ERR_NOT_FOUND, "'%s' holds no session", dir);
    }
    free(meta);
    free(events);
    return rc;
}

// ---- all of them --------------------------------------------------------------------------

static void complain(struct catchup *c, const char *dir, const char *message)
{
    struct store_notice n = {.kind = STORE_DAMAGED, .path = dir, .message = message};
    if (c->cb != NULL) {
        c->cb(c->arg, &n);
    }
}

/// A session that cannot be read is reported and keeps its row; the walk continues.
static int refresh(struct catchup *c, const char *dir, struct str id, struct arena *a)
{
    struct index_row r = {0};
    bool changed = false;
    struct err why;

    int rc = index_get(c->x, id, &r, a, c->e);
    if (rc < 0 && rc != ERR_NOT_FOUND) {
        return rc;
    }
    rc = catch_up_session(c, dir, id, &r, a, &changed, &why);
    if (rc == ERR_NOT_FOUND) {
        return 0;
    }
    map_set(&c->seen, id, c);
    if (rc < 0) {
        complain(c, dir, why.msg);
        return 0;
    }
    c->stats->sessions++;
    c->stats->changed += changed;
    return changed ? index_put(c->x, &r, c->e) : 0;
}

static int visit(void *arg, const char *dir, struct str id)
{
    struct catchup *c = arg;
    struct arena a = {0};
    if (map_get(&c->seen, id) != NULL) {
        complain(c, dir, "another session has this id; this one is not listed");
        return 0;
    }
    int rc = refresh(c, dir, id, &a);
    arena_fini(&a);
    return rc;
}

struct gone {
    const struct map *seen;
    const char *under; // rows elsewhere are not meant
    vec(char *) ids;
};

static int note_gone(void *arg, const struct index_row *r)
{
    struct gone *g = arg;
    if (str_starts(r->row.dir, g->under) && map_get(g->seen, r->row.id) == NULL) {
        vec_push(&g->ids, str_dup(r->row.id));
    }
    return 0;
}

static int remove_gone(struct catchup *c)
{
    struct gone g = {.seen = &c->seen, .under = c->under};
    int rc = index_each(c->x, note_gone, &g, c->e);
    vec_foreach (id, &g.ids) {
        if (rc == 0) {
            rc = index_remove(c->x, str_of(*id), c->e);
            c->stats->removed++;
        }
        free(*id);
    }
    vec_fini(&g.ids);
    return rc;
}

/// Walk with `visitor` and remove the rows that it did not visit, in one transaction.
static int walk_all(struct catchup *c, walk_cb *visitor)
{
    memset(c->stats, 0, sizeof *c->stats);
    map_init(&c->seen);
    int rc = index_begin(c->x, c->e);
    if (rc == 0) {
        rc = walk_sessions(c->home, visitor, c, c->e);
        rc = rc == 0 ? remove_gone(c) : rc;
        struct err ignored;
        int committed = index_commit(c->x, rc == 0 ? c->e : &ignored);
        rc = rc == 0 ? committed : rc;
    }
    map_fini(&c->seen);
    return rc;
}

int catchup_run(struct index *x, const char *home, catchup_cb *cb, void *arg,
                struct catchup_stats *stats, struct err *e)
{
    struct catchup c = {
        .x = x, .home = home, .cb = cb, .arg = arg, .stats = stats, .under = "", .e = e};
    return walk_all(&c, visit);
}

/// Only what has no row is read; a row of that id elsewhere stays, and the directory is not listed.
static int visit_new(void *arg, const char *dir, struct str id)
{
    struct catchup *c = arg;
    struct arena a = {0};
    struct index_row r;
    if (!str_starts(str_of(dir), c->under)) {
        return 0;
    }
    int rc = index_get(c->x, id, &r, &a, c->e);
    if (rc == 0) {
        map_set(&c->seen, id, c);
    } else if (rc == ERR_NOT_FOUND) {
        rc = refresh(c, dir, id, &a);
    }
    arena_fini(&a);
    return rc;
}

int catchup_rescan(struct index *x, const char *home, const char *under,
                   struct catchup_stats *stats, struct err *e)
{
    struct catchup c = {.x = x, .home = home, .stats = stats, .under = under, .e = e};
    return walk_all(&c, visit_new);
}
