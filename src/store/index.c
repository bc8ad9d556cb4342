// The SQLite index: lists without opening ten thousand files.
//
// One table, one row a session, every column made from the session's own files, so that it can be
// deleted at any time. The mark makes it cheap to keep: the place in the journal up to which a row
// is right. After a crash only the parts after the marks have to be read (catchup.c).
//
// Durability: WAL with synchronous=NORMAL. A power cut may lose the last commits but never breaks
// the file; the marks in a lost commit are simply older ones.
//
// What it does not do: decide anything. If index and files differ, the files are right.

#include "store/index.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/json.h"
#include "base/path.h"
#include "base/time.h"
#include "base/vec.h"

enum { BUSY_MS = 2000 };

static const char schema[] =
    "DROP TABLE IF EXISTS sessions;"
    "CREATE TABLE sessions("
    " id TEXT PRIMARY KEY, dir TEXT NOT NULL, kind TEXT NOT NULL,"
    " state TEXT NOT NULL, title TEXT NOT NULL, meta TEXT NOT NULL,"
    " started_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
    " last_seq INTEGER NOT NULL, mark_seq INTEGER NOT NULL,"
    " mark_at INTEGER NOT NULL, dev INTEGER NOT NULL, ino INTEGER NOT NULL,"
    " meta_ino INTEGER NOT NULL, meta_mtime INTEGER NOT NULL, damage TEXT NOT NULL);"
    "CREATE INDEX newest ON sessions(started_at DESC, id DESC);"
    "PRAGMA user_version = 2;";

#define COLUMNS                                                                                    \
    "id, dir, kind, state, title, meta, started_at, updated_at, last_seq, mark_seq, mark_at, dev," \
    " ino, meta_ino, meta_mtime, damage"

// the statements that are kept ready
enum statement { ST_PUT, ST_META, ST_PROGRESS, ST_REMOVE, ST_GET, ST_LIST, ST_EACH, ST__COUNT };

static const char *const statements[ST__COUNT] = {
    [ST_PUT] = "INSERT OR REPLACE INTO sessions(" COLUMNS ")"
               " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)",
    [ST_META] = "UPDATE sessions SET kind=?3, state=?4, title=?5, meta=?6, started_at=?7,"
                " updated_at=max(updated_at,?7), meta_ino=?14, meta_mtime=?15 WHERE id=?1",
    [ST_PROGRESS] =
        "UPDATE sessions SET updated_at=max(started_at,?8), last_seq=?9, mark_seq=?10, mark_at=?11,"
        " dev=?12, ino=?13, damage=?16 WHERE id=?1",
    [ST_REMOVE] = "DELETE FROM sessions WHERE id=?1",
    [ST_GET] = "SELECT " COLUMNS " FROM sessions WHERE id=?1",
    [ST_LIST] = "SELECT " COLUMNS " FROM sessions"
                " WHERE (started_at, id) < (?1, ?2)"
                " AND (?3 IS NULL OR id = ?3) AND (?4 IS NULL OR substr(dir, 1, length(?4)) = ?4)"
                " AND (?5 IS NULL OR kind = ?5) AND (?6 IS NULL OR state = ?6)"
                " AND (?8 IS NULL OR kind = 'task:' || ?8) AND (?9 = 0 OR kind NOT LIKE 'task:%')"
                " ORDER BY started_at DESC, id DESC LIMIT ?7",
    [ST_EACH] = "SELECT " COLUMNS " FROM sessions ORDER BY id",
};

struct index {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *st[ST__COUNT];
    unsigned depth; // of index_begin()
};

// ---- SQLite helpers -----------------------------------------------------------------------

// SQLite keeps the errno of what failed; a full disk should read as one.
static int db_fail(struct index *x, struct err *e, const char *what)
{
    int code = sqlite3_errcode(x->db), number = sqlite3_system_errno(x->db);
    bool corrupt = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    int rc = code == SQLITE_FULL ? -ENOSPC : corrupt ? ERR_CORRUPT : number > 0 ? -number : -EIO;
    return err_set(e, rc, "cannot %s index '%s': %s", what, x->path, sqlite3_errmsg(x->db));
}

static int exec(struct index *x, const char *sql, struct err *e)
{
    int rc = sqlite3_exec(x->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_fail(x, e, "change");
}

/// `*out` is NULL exactly when this fails.
static int get_statement(struct index *x, enum statement which, sqlite3_stmt **out, struct err *e)
{
    int rc = x->st[which] != NULL
                 ? SQLITE_OK
                 : sqlite3_prepare_v3(x->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                                      &x->st[which], NULL);
    *out = x->st[which];
    return rc == SQLITE_OK ? 0 : db_fail(x, e, "read");
}

static void bind_text(sqlite3_stmt *st, int at, struct str s)
{
    sqlite3_bind_text64(st, at, s.p != NULL ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
}

static void bind_text_or_null(sqlite3_stmt *st, int at, struct str s)
{
    if (s.n != 0) {
        bind_text(st, at, s);
    } else {
        sqlite3_bind_null(st, at);
    }
}

// Statements name the columns they want by number; binding one they lack is harmless.
static void bind_row(sqlite3_stmt *st, const struct index_row *r)
{
    const struct store_row *row = &r->row;
    const struct str texts[] = {row->id, row->dir, row->kind, row->state, row->title, row->meta};
    const int64_t numbers[] = {row->started_at,      row->updated_at,      (int64_t)row->last_seq,
                               (int64_t)r->mark.seq, (int64_t)r->mark.at,  (int64_t)r->dev,
                               (int64_t)r->ino,      (int64_t)r->meta_ino, r->meta_mtime};
    int at = 1;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        bind_text(st, at++, texts[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        sqlite3_bind_int64(st, at++, numbers[i]);
    }
    bind_text(st, at, row->damage);
}

static int change_row(struct index *x, enum statement which, const struct index_row *r,
                      struct err *e)
{
    sqlite3_stmt *st;
    int rc = get_statement(x, which, &st, e);
    if (st == NULL) {
        return rc;
    }
    bind_row(st, r);
    int got = sqlite3_step(st);
    rc = got == SQLITE_DONE || got == SQLITE_ROW ? 0 : db_fail(x, e, "change");
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc;
}

static struct str column_text(sqlite3_stmt *st, int at, struct arena *a)
{
    const char *p = (const char *)sqlite3_column_text(st, at);
    struct str s = {p, p != NULL ? (size_t)sqlite3_column_bytes(st, at) : 0};
    return arena_str(a, s);
}

static struct index_row read_row(sqlite3_stmt *st, struct arena *a)
{
    struct index_row r = {0};
    struct str *const texts[] = {&r.row.id,    &r.row.dir,   &r.row.kind,
                                 &r.row.state, &r.row.title, &r.row.meta};
    int at = 0;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *texts[i] = column_text(st, at++, a);
    }
    r.row.started_at = sqlite3_column_int64(st, at++);
    r.row.updated_at = sqlite3_column_int64(st, at++);
    r.row.last_seq = (uint64_t)sqlite3_column_int64(st, at++);
    r.mark.seq = (uint64_t)sqlite3_column_int64(st, at++);
    r.mark.at = (uint64_t)sqlite3_column_int64(st, at++);
    r.dev = (uint64_t)sqlite3_column_int64(st, at++);
    r.ino = (uint64_t)sqlite3_column_int64(st, at++);
    r.meta_ino = (uint64_t)sqlite3_column_int64(st, at++);
    r.meta_mtime = sqlite3_column_int64(st, at++);
    r.row.damage = column_text(st, at, a);
    return r;
}

// ---- opening ------------------------------------------------------------------------------

// The locks and shared memory of WAL do not work between machines.
static const struct {
    uint64_t magic;
    const char *name;
} refused_fs[] = {
    {NFS_SUPER_MAGIC, "NFS"},   {SMB_SUPER_MAGIC, "SMB"},   {CIFS_SUPER_MAGIC, "CIFS"},
    {SMB2_SUPER_MAGIC, "SMB"},  {AFS_SUPER_MAGIC, "AFS"},   {V9FS_MAGIC, "9P"},
    {CEPH_SUPER_MAGIC, "Ceph"}, {CODA_SUPER_MAGIC, "Coda"},
};

bool index_fs_refused(uint64_t magic, const char **name)
{
    for (size_t i = 0; i < ARRAY_LEN(refused_fs); i++) {
        if (refused_fs[i].magic == magic) {
            *name = refused_fs[i].name;
            return true;
        }
    }
    return false;
}

static int check_fs(const char *path, struct err *e)
{
    struct statfs fs;
    const char *name;
    char *dir = str_dup(path_dir(str_of(path)));
    int rc = statfs(dir, &fs) == 0 ? 0 : err_sys(e, "cannot look at '%s'", dir);
    if (rc == 0 && index_fs_refused((uint64_t)fs.f_type, &name)) {
        rc =
            err_set(e, ERR_UNSUPPORTED,
                    "'%s' is on %s, where SQLite is not safe; set AFLOAT_HOME to a local directory",
                    dir, name);
    }
    free(dir);
    return rc;
}

static int user_version(struct index *x, int *version, struct err *e)
{
    sqlite3_stmt *st;
    *version = 0;
    if (sqlite3_prepare_v2(x->db, "PRAGMA user_version", -1, &st, NULL) != SQLITE_OK) {
        return db_fail(x, e, "read");
    }
    int rc = sqlite3_step(st) == SQLITE_ROW ? 0 : db_fail(x, e, "read");
    if (rc == 0) {
        *version = sqlite3_column_int(st, 0);
    }
    sqlite3_finalize(st);
    return rc;
}

/// `fresh` NULL: one that is not ours yet is left as it is.
static int prepare_schema(struct index *x, bool *fresh, struct err *e)
{
    int version;
    int rc = user_version(x, &version, e);
    if (rc == 0 && version > INDEX_SCHEMA) {
        return err_set(e, ERR_UNSUPPORTED,
                       "index '%s' is from a newer afloat (schema %d, ours is %d); use that one, or"
                       " remove the file, and it is rebuilt",
                       x->path, version, INDEX_SCHEMA);
    }
    bool old = version < INDEX_SCHEMA; // all of it can be made again, so an older one is
    if (rc == 0 && old && fresh == NULL) {
        rc = err_set(e, ERR_CORRUPT, "index '%s' has schema %d, not %d; the next start rebuilds it",
                     x->path, version, INDEX_SCHEMA);
    }
    if (fresh != NULL) {
        *fresh = old;
    }
    if (rc == 0) {
        rc = exec(x, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", e);
    }
    if (rc == 0 && old) {
        rc = exec(x, "BEGIN IMMEDIATE", e);
        rc = rc == 0 ? exec(x, schema, e) : rc;
        rc = rc == 0 ? exec(x, "COMMIT", e) : rc;
    }
    return rc;
}

/// SQLite's own check of every page, so that damage is found here and not by a list. ERR_CORRUPT with what it said.
static int check_pages(struct index *x, struct err *e)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(x->db, "PRAGMA quick_check(1)", -1, &st, NULL) != SQLITE_OK) {
        return db_fail(x, e, "check");
    }
    int rc = 0;
    if (sqlite3_step(st) != SQLITE_ROW) {
        rc = db_fail(x, e, "check");
    } else if (strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0) {
        rc = err_set(e, ERR_CORRUPT, "index '%s': %s", x->path,
                     (const char *)sqlite3_column_text(st, 0));
    }
    sqlite3_finalize(st);
    return rc;
}

static int open_file(struct index **out, const char *path, bool *fresh, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); // SQLite itself would ask the umask
    if (fd < 0) {
        *out = NULL;
        int rc = err_sys(e, "cannot open index '%s'", path);
        // a directory, a link to nothing
        bool no_file = rc == -EISDIR || rc == -ENOENT || rc == -ELOOP;
        return no_file ? ERR_CORRUPT : rc;
    }
    close(fd);
    struct index *x = xcalloc(1, sizeof *x);
    x->path = xstrdup(path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(path, &x->db, flags, NULL) == SQLITE_OK ? 0 : db_fail(x, e, "open");
    if (rc == 0) {
        sqlite3_busy_timeout(x->db, BUSY_MS);
        rc = prepare_schema(x, fresh, e);
    }
    rc = rc == 0 ? check_pages(x, e) : rc;
    if (rc < 0) {
        index_close(x);
        x = NULL;
    }
    *out = x;
    return rc;
}

static const char *const suffixes[] = {"", "-wal", "-shm"}; // of the files that SQLite has

static int set_aside(const char *path, struct err *e)
{
    unsigned long long now = (unsigned long long)time_wall_ms();
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(suffixes) && rc == 0; i++) {
        char *from = xasprintf("%s%s", path, suffixes[i]);
        char *to = xasprintf("%s.damaged-%llu%s", path, now, suffixes[i]);
        if (rename(from, to) != 0 && errno != ENOENT) {
            rc = err_sys(e, "cannot set '%s' aside", from);
        }
        free(from);
        free(to);
    }
    return rc;
}

/// Is one of its files a directory, a pipe, ...? SQLite cannot use it, or might wait for it. Only the first may be a link.
static bool is_no_file(const char *path)
{
    bool found = false;
    for (size_t i = 0; i < ARRAY_LEN(suffixes) && !found; i++) {
        struct stat st;
        char *file = xasprintf("%s%s", path, suffixes[i]);
        found = fstatat(AT_FDCWD, file, &st, i == 0 ? 0 : AT_SYMLINK_NOFOLLOW) == 0 &&
                !S_ISREG(st.st_mode);
        free(file);
    }
    return found;
}

int index_open(struct index **out, const char *path, bool *fresh, char why[INDEX_WHY],
               struct err *e)
{
    struct err first;
    *out = NULL;
    why[0] = '\0';
    int rc = check_fs(path, e);
    if (rc < 0) {
        return rc;
    }
    rc = is_no_file(path)
             ? err_set(&first, ERR_CORRUPT, "a file of '%s' is not a regular one", path)
             : open_file(out, path, fresh, &first);
    if (rc == ERR_CORRUPT) {
        snprintf(why, INDEX_WHY, "%.159s", first.msg);
        rc = set_aside(path, e);
        return rc == 0 ? open_file(out, path, fresh, e) : rc;
    }
    if (rc < 0 && e != NULL) {
        *e = first;
    }
    return rc;
}

int index_open_as_is(struct index **out, const char *path, struct err *e)
{
    *out = NULL;
    int rc = check_fs(path, e);
    return rc == 0 ? open_file(out, path, NULL, e) : rc;
}

const char *index_sqlite(void)
{
    return sqlite3_libversion();
}

void index_close(struct index *x)
{
    if (x == NULL) {
        return;
    }
    for (size_t i = 0; i < ST__COUNT; i++) {
        sqlite3_finalize(x->st[i]);
    }
    int rc = sqlite3_close(x->db);
    assert(rc == SQLITE_OK); // fails only with statements left open
    (void)rc;
    free(x->path);
    free(x);
}

// ---- changes ------------------------------------------------------------------------------

int index_begin(struct index *x, struct err *e)
{
    int rc = x->depth == 0 ? exec(x, "BEGIN", e) : 0;
    x->depth += rc == 0;
    return rc;
}

int index_commit(struct index *x, struct err *e)
{
    assert(x->depth > 0);
    if (--x->depth != 0) {
        return 0;
    }
    int rc = exec(x, "COMMIT", e);
    if (rc < 0 && !sqlite3_get_autocommit(x->db)) {
        (void)exec(x, "ROLLBACK", NULL);
    }
    return rc;
}

int index_put(struct index *x, const struct index_row *r, struct err *e)
{
    return change_row(x, ST_PUT, r, e);
}

int index_put_meta(struct index *x, const struct index_row *r, struct err *e)
{
    return change_row(x, ST_META, r, e);
}

int index_put_progress(struct index *x, const struct index_row *r, struct err *e)
{
    return change_row(x, ST_PROGRESS, r, e);
}

int index_remove(struct index *x, struct str id, struct err *e)
{
    const struct index_row r = {.row.id = id};
    return change_row(x, ST_REMOVE, &r, e);
}

int index_clear(struct index *x, struct err *e)
{
    return exec(x, "DELETE FROM sessions", e);
}

// ---- questions ----------------------------------------------------------------------------

int index_get(struct index *x, struct str id, struct index_row *out, struct arena *a, struct err *e)
{
    sqlite3_stmt *st;
    int rc = get_statement(x, ST_GET, &st, e);
    if (st == NULL) {
        return rc;
    }
    bind_text(st, 1, id);
    int got = sqlite3_step(st);
    if (got == SQLITE_ROW) {
        *out = read_row(st, a);
    } else if (got == SQLITE_DONE) {
        rc = err_set(e, ERR_NOT_FOUND, "no session '" STR_FMT "'", STR_ARG(id));
    } else {
        rc = db_fail(x, e, "read");
    }
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc;
}

/// Up to `limit` rows, in `a`; returns what the last step said: SQLITE_ROW when there are more.
static int collect(sqlite3_stmt *st, size_t limit, struct store_rows *out, struct arena *a)
{
    int got;
    vec(struct store_row) rows = {0};
    while ((got = sqlite3_step(st)) == SQLITE_ROW && rows.n < limit) {
        vec_push(&rows, read_row(st, a).row);
    }
    struct store_row *copy = arena_alloc(a, rows.n * sizeof *copy);
    if (rows.n != 0) {
        memcpy(copy, rows.p, rows.n * sizeof *copy);
    }
    out->rows = copy;
    out->n = rows.n;
    vec_fini(&rows);
    return got;
}

int index_list(struct index *x, const struct store_filter *f, struct str cursor, size_t limit,
               struct store_rows *out, struct arena *a, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int64_t started_at = INT64_MAX;
    struct str id = cursor, number = cursor.n != 0 ? str_cut(&id, ':') : STR_NULL;

    memset(out, 0, sizeof *out);
    limit = limit == 0 ? STORE_LIST_MAX : MIN(limit, STORE_LIST_MAX);
    if (cursor.n != 0 && (!str_to_i64(number, &started_at) || !store_id_valid(id))) {
        return err_set(e, ERR_INVALID, "not a cursor of this list");
    }
    int rc = get_statement(x, ST_LIST, &st, e);
    if (st == NULL) {
        return rc;
    }
    sqlite3_bind_int64(st, 1, started_at);
    bind_text(st, 2, id);
    if (f != NULL) {
        bind_text_or_null(st, 3, f->id);
        bind_text_or_null(st, 4, f->dir);
        bind_text_or_null(st, 5, f->kind);
        bind_text_or_null(st, 6, f->state);
        bind_text_or_null(st, 8, f->parent);
    }
    sqlite3_bind_int(st, 9, f != NULL && f->no_tasks);
    sqlite3_bind_int64(st, 7, (int64_t)limit + 1); // one more tells whether there is a next page
    int got = collect(st, limit, out, a);
    if (got != SQLITE_ROW && got != SQLITE_DONE) {
        rc = db_fail(x, e, "read");
    } else if (got == SQLITE_ROW) {
        const struct store_row *last = &out->rows[out->n - 1];
        out->next = str_of(
            arena_printf(a, "%lld:" STR_FMT, (long long)last->started_at, STR_ARG(last->id)));
    }
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc;
}

int index_each(struct index *x, int (*cb)(void *arg, const struct index_row *r), void *arg,
               struct err *e)
{
    sqlite3_stmt *st;
    int got = SQLITE_DONE;
    int rc = get_statement(x, ST_EACH, &st, e);
    while (st != NULL && rc == 0 && (got = sqlite3_step(st)) == SQLITE_ROW) {
        struct arena a = {0};
        struct index_row r = read_row(st, &a);
        rc = cb(arg, &r);
        arena_fini(&a);
    }
    if (rc == 0 && got != SQLITE_DONE) {
        rc = db_fail(x, e, "read");
    }
    sqlite3_reset(st); // NULL is allowed
    return rc;
}

void index_row_from_meta(struct index_row *r, struct str id, struct str dir, struct str meta,
                         struct arena *a)
{
    struct json *v = NULL;
    if (json_parse(&v, a, meta, NULL, NULL) < 0) {
        v = NULL;
    }
    r->row.id = id;
    r->row.dir = dir;
    r->row.meta = meta;
    struct str parent = json_str(json_get(v, "parent"), "");
    r->row.kind = str_starts(dir, "bots/") ? STR("bot")
                  : parent.n != 0 ? str_of(arena_printf(a, "task:" STR_FMT, STR_ARG(parent)))
                                  : STR("session");
    r->row.state = json_str(json_get(v, "state"), "");
    r->row.title = json_str(json_get(v, "title"), "");
    r->row.started_at = 0;
    (void)time_parse(json_str(json_get(v, "started_at"), ""), &r->row.started_at);
    r->row.updated_at = r->row.started_at;
}
