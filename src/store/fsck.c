// Check what is stored, and repair it.
//
//     directories > something else has the name of one: set aside
//     documents ──> not JSON, or nothing a hub can use: set aside
//     sessions  ──> metadata.json: not JSON: set aside; missing: made again from the journal
//               ──> events.jsonl:  torn: cut    damaged: rebuilt from its good lines
//               ──> files never finished: removed
//     index     ──> rows that differ from the files: all made again
//
// Rebuilding a damaged journal keeps every good line and its seq. Where lines are lost, events of type
// journal.repaired with "lost":true take their numbers, so that `seq` has no holes and every reference
// to an event by its number stays right. The damaged file stays beside the new one.
//
// The order matters: the index is made from the rest, so it comes last.

#include "store/fsck.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/json.h"
#include "base/map.h"
#include "base/path.h"
#include "base/time.h"
#include "store/catchup.h"
#include "store/doc.h"
#include "store/walk.h"

struct fsck {
    const char *home;
    struct index *x; // may be NULL
    bool repair;
    bool stale; // the index has to be made again
    struct jw w;
    struct buf *report;
    struct fsck_counts *c;
    struct map seen;
};

enum severity { WARNING, ERROR };

static void finding(struct fsck *f, const char *path, const char *kind, enum severity severity,
                    bool repaired, const char *message)
{
    f->c->found++;
    f->c->repaired += repaired;
    jw_obj(&f->w);
    jw_kstrz(&f->w, "path", path);
    jw_kstrz(&f->w, "kind", kind);
    jw_kstrz(&f->w, "severity", severity == ERROR ? "error" : "warning");
    jw_kstrz(&f->w, "message", message);
    jw_kbool(&f->w, "repaired", repaired);
    jw_end_obj(&f->w);
}

/// Report a finding. `rc` and `e` are the result of the repair, when there was one.
static void mended(struct fsck *f, const char *path, const char *kind, enum severity severity,
                   const char *what, int rc, const struct err *e)
{
    char message[480];
    bool tried = f->repair;
    snprintf(message, sizeof message, "%s%s%s", what, tried && rc < 0 ? "; not mended: " : "",
             tried && rc < 0 ? e->msg : "");
    finding(f, path, kind, severity, tried && rc == 0, message);
}

static int set_aside(const char *path, struct err *e)
{
    char *to = xasprintf("%s.damaged-%llu", path, (unsigned long long)time_wall_ms());
    int rc = rename(path, to) == 0 ? 0 : err_sys(e, "cannot set '%s' aside", path);
    free(to);
    return rc;
}

/// What is wrong with `path` when it exists and is not a regular file; else NULL.
static const char *kind_fault(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && !S_ISREG(st.st_mode) ? "not a regular file" : NULL;
}

/// Without its mark the hub would give out event ids a second time. No hub has given out an id for every
/// millisecond since 1970, so the time of now is a safe mark.
static int save_mark(const char *path, struct err *e)
{
    char mark[64];
    snprintf(mark, sizeof mark, "{\"event_id_mark\":%lld}", (long long)time_wall_ms());
    return doc_save(path, str_of(mark), e);
}

// ---- directories --------------------------------------------------------------------------

// of CONTRACT 1, and those that only the hub knows; a parent before what is in it
static const char *const directories[] = {
    "state",      "state/versions", "sessions", "logs",     "bots",
    "plugins",    "shared",         "skills",   "profiles", "worktrees",
    "quarantine", "trash",          "clones",   "lua",      "permissions"};

/// A link that leads nowhere stays: its target may be on a disk that is not mounted now.
static void check_directory(struct fsck *f, const char *name)
{
    struct stat st;
    struct err e;
    char *path = path_join(f->home, name), *mark = path_join(f->home, "state/hub.json");
    bool there = lstat(path, &st) == 0, link = there && S_ISLNK(st.st_mode);
    if (link && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))) {
        finding(f, name, "directory", ERROR, false, "a link that leads to no directory");
    } else if (there && !S_ISDIR(st.st_mode)) {
        int rc = f->repair ? set_aside(path, &e) : 0;
        if (f->repair && rc == 0 && mkdir(path, 0700) != 0) {
            rc = err_sys(&e, "cannot make '%s'", path);
        }
        if (f->repair && rc == 0 && strcmp(name, "state") == 0) {
            rc = save_mark(mark, &e);
        }
        mended(f, name, "directory", ERROR, "not a directory", rc, &e);
        f->stale = true;
    } else if (!there && f->repair && strcmp(name, "state") == 0) { // a new home
        (void)mkdir(path, 0700); // the index, which is made in it, says when that failed
    }
    free(path);
    free(mark);
}

// ---- documents ----------------------------------------------------------------------------

/// Why a hub could not start with this document, or NULL when it can.
static const char *useless(const char *name, struct str text)
{
    struct arena a = {0};
    struct json *v = NULL;
    const char *why = NULL;
    if (text.n == 0) {
        // missing, as in a new home
    } else if (json_parse(&v, &a, text, NULL, NULL) < 0) {
        why = "not JSON";
    } else if (v->type != JSON_OBJ) {
        why = "not an object";
    } else if (strcmp(name, "state/hub.json") == 0) {
        const struct json *mark = json_get(v, "event_id_mark");
        int64_t n = json_int(mark, -1);
        why =
            mark != NULL && (n < 0 || n > INT64_MAX / 2) ? "its event_id_mark is no number" : NULL;
    }
    arena_fini(&a);
    return why;
}

static void check_document(struct fsck *f, const char *name)
{
    struct buf text = {.max = DOC_MAX};
    struct err why, e;
    char *path = path_join(f->home, name);

    const char *fault = kind_fault(path);
    int rc = fault != NULL ? 0 : doc_load(path, &text, &why);
    if (fault == NULL) {
        fault = rc == ERR_CORRUPT     ? "not JSON"
                : rc == ERR_TOO_LARGE ? "too large"
                                      : useless(name, buf_str(&text));
    }
    if (rc == ERR_CORRUPT || rc == ERR_TOO_LARGE || (rc == 0 && fault != NULL)) {
        rc = f->repair ? set_aside(path, &e) : 0;
        if (f->repair && rc == 0 && strcmp(name, "state/hub.json") == 0) {
            rc = save_mark(path, &e);
        }
        mended(f, name, "document", ERROR, fault, rc, &e);
    } else if (rc < 0) {
        finding(f, name, "unreadable", ERROR, false, why.msg);
    }
    buf_fini(&text);
    free(path);
}

/// The hub does not start when its log is not a regular file.
static void check_log(struct fsck *f)
{
    char *path = path_join(f->home, "logs/hub.log");
    const char *fault = kind_fault(path);
    struct err e;
    if (fault != NULL) {
        int rc = f->repair ? set_aside(path, &e) : 0;
        mended(f, "logs/hub.log", "log", ERROR, fault, rc, &e);
    }
    free(path);
}

// ---- rebuilding a journal -----------------------------------------------------------------

struct rebuild {
    int fd;
    uint64_t next;
    struct journal_scan scan; // of the damaged file
    int rc;
};

/// Write an event in place of each lost one, with the time of the next good event.
static bool on_line(void *arg, const struct journal_line *l)
{
    struct rebuild *r = arg;
    struct buf line;
    buf_init(&line, (size_t)STORE_LINE_MAX + 1024);
    while (r->next < l->seq && r->rc == 0) {
        r->rc = journal_encode(&line, r->next++, l->ts, &JOURNAL_LOST, NULL);
        r->rc = r->rc == 0 ? path_write_fd(r->fd, buf_str(&line)) : r->rc;
        buf_clear(&line);
    }
    buf_adds(&line, l->text);
    buf_addc(&line, '\n');
    r->rc = r->rc == 0 ? path_write_fd(r->fd, buf_str(&line)) : r->rc;
    r->next = l->seq + 1;
    buf_fini(&line);
    return r->rc == 0;
}

static int rebuild_journal(int from, const char *path, struct rebuild *r, struct err *e)
{
    char *built = xasprintf("%s.rebuilt", path);
    *r = (struct rebuild){.next = 1};
    r->fd = open(built, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = r->fd >= 0 ? 0 : err_sys(e, "cannot create '%s'", built);
    if (rc == 0) {
        rc = journal_scan(from, JOURNAL_START, &r->scan, on_line, r, e);
    }
    if (rc == 0 && (r->rc < 0 || fsync(r->fd) != 0)) {
        rc = r->rc < 0 ? r->rc : -errno;
        err_set(e, rc, "cannot write '%s': %s", built, err_text(rc));
    }
    if (r->fd >= 0) {
        close(r->fd);
    }
    // the damaged file keeps its bytes under another name, and there is a journal at every moment
    char *kept = xasprintf("%s.damaged-%llu", path, (unsigned long long)time_wall_ms());
    if (rc == 0 && link(path, kept) != 0) {
        rc = err_sys(e, "cannot keep '%s' as '%s'", path, kept);
    }
    if (rc == 0 && rename(built, path) != 0) {
        rc = err_sys(e, "cannot replace '%s'", path);
    }
    if (rc < 0) {
        unlink(built);
    }
    free(kept);
    free(built);
    return rc;
}

static void mend_damaged(struct fsck *f, int fd, const char *path, const char *rel,
                         const struct journal_scan *scan)
{
    char what[320];
    struct rebuild r = {0};
    struct err e;
    int rc = f->repair ? rebuild_journal(fd, path, &r, &e) : 0;
    snprintf(what, sizeof what, "damaged at line %llu (%s)", (unsigned long long)scan->bad,
             scan->why);
    if (f->repair && rc == 0) {
        size_t n = strlen(what);
        snprintf(what + n, sizeof what - n, "; rebuilt, %llu lost, %llu left out",
                 (unsigned long long)r.scan.lost, (unsigned long long)r.scan.left_out);
    }
    mended(f, rel, "damaged", ERROR, what, rc, &e);
    f->stale = true;
}

static void mend_torn(struct fsck *f, int fd, const char *path, const char *rel,
                      const struct journal_scan *scan)
{
    char what[200];
    struct journal_repair repair;
    struct err e;
    int rc = f->repair ? journal_cut(fd, path, scan, &repair, &e) : 0;
    snprintf(what, sizeof what, "%llu bytes after event %llu: %s",
             (unsigned long long)(scan->size - scan->end.at), (unsigned long long)scan->end.seq - 1,
             scan->why);
    mended(f, rel, "torn", WARNING, what, rc, &e);
}

// ---- sessions -----------------------------------------------------------------------------

/// What a session's journal says.
struct told {
    bool there; // the journal exists
    uint64_t last_seq;
    struct arena a;
    const struct json *first; // its first event; NULL: it is lost
};

static bool note_first(void *arg, const struct journal_line *l)
{
    struct told *t = arg;
    struct json *v;
    if (l->seq == 1 && json_parse(&v, &t->a, arena_str(&t->a, l->text), NULL, NULL) == 0) {
        t->first = v;
    }
    return true;
}

/// Check and mend the journal.
static void check_journal(struct fsck *f, const char *dir, struct told *t)
{
    struct journal_scan scan;
    struct err e;
    char *rel = path_join(dir, "events.jsonl");
    char *path = path_join(f->home, rel);
    const char *fault = kind_fault(path);
    int fd = open(path, (f->repair ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    t->there = fd >= 0 || errno != ENOENT;
    if (fault != NULL) {
        int rc = f->repair ? set_aside(path, &e) : 0;
        mended(f, rel, "damaged", ERROR, fault, rc, &e);
        f->stale = true;
    } else if (t->there && fd < 0) {
        err_sys(&e, "cannot open");
        finding(f, rel, "unreadable", ERROR, false, e.msg);
    } else if (t->there && journal_scan(fd, JOURNAL_START, &scan, note_first, t, &e) < 0) {
        finding(f, rel, "unreadable", ERROR, false, e.msg);
    } else if (t->there) {
        t->last_seq = scan.end.seq - 1;
        if (scan.damaged) {
            mend_damaged(f, fd, path, rel, &scan);
        } else if (scan.size != scan.end.at) {
            mend_torn(f, fd, path, rel, &scan);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(path);
    free(rel);
}

/// The first event, session.created, has the members with which the metadata began.
static int make_metadata(const char *path, struct str id, const struct json *first, struct err *e)
{
    static const char *const own[] = {"seq", "type", "session", "crc"};
    struct buf text = {.max = DOC_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    jw_kstr(&w, "session_id", id);
    json_foreach_member (m, first) {
        bool skip = false;
        for (size_t i = 0; i < ARRAY_LEN(own); i++) {
            skip |= str_eqz(m->key, own[i]);
        }
        if (!skip) {
            jw_key_str(&w, str_eqz(m->key, "ts") ? STR("started_at") : m->key);
            jw_value(&w, &m->value);
        }
    }
    jw_kbool(&w, "recovered", true);
    jw_end_obj(&w);
    int rc = doc_save(path, buf_str(&text), e);
    buf_fini(&text);
    return rc;
}

/// What is wrong with the metadata, or NULL. Of its members only the working directory is necessary: without it
/// a session cannot continue.
static const char *metadata_fault(struct str text, const struct told *t, struct arena *a)
{
    struct json *v = NULL;
    if (text.n == 0) {
        return t->there ? "missing" : NULL;
    }
    if (json_parse(&v, a, text, NULL, NULL) < 0) {
        return "not JSON";
    }
    if (v->type != JSON_OBJ) {
        return "not an object";
    }
    bool lost = json_str(json_get(t->first, "working_dir"), "").n != 0 &&
                json_str(json_get(v, "working_dir"), "").n == 0;
    return lost ? "its working_dir is lost" : NULL;
}

static void check_metadata(struct fsck *f, const char *dir, struct str id, struct told *t,
                           struct buf *meta)
{
    struct err e, why;
    struct stat st;
    char *rel = path_join(dir, "metadata.json");
    char *path = path_join(f->home, rel);
    const char *fault = kind_fault(path);
    int rc = fault != NULL ? 0 : doc_load(path, meta, &why);
    if (fault == NULL) {
        fault = rc == ERR_CORRUPT ? "not JSON"
                : rc == 0         ? metadata_fault(buf_str(meta), t, &t->a)
                                  : NULL;
    }

    if (fault != NULL) {
        int fixed = f->repair && lstat(path, &st) == 0 ? set_aside(path, &e) : 0;
        if (f->repair && fixed == 0) {
            fixed = make_metadata(path, id, t->first, &e);
        }
        mended(f, rel, "metadata", ERROR, fault, fixed, &e);
        f->stale = true;
    } else if (rc < 0) {
        finding(f, rel, "unreadable", ERROR, false, why.msg);
    }
    free(path);
    free(rel);
}

/// Temporary files of a process that was killed while it replaced one.
static void check_leftovers(struct fsck *f, const char *dir)
{
    struct err e;
    char *path = path_join(f->home, dir);
    struct folder there = folder_open(path);
    while (folder_next(&there)) {
        struct str name = str_of(there.name);
        if (str_starts(name, ".afloat-") && str_ends(name, ".tmp")) {
            char *rel = path_join(dir, there.name);
            int rc = f->repair && unlinkat(dirfd(there.stream), there.name, 0) != 0
                         ? err_sys(&e, "cannot remove it")
                         : 0;
            mended(f, rel, "leftover", WARNING, "never finished, never seen", rc, &e);
            free(rel);
        }
    }
    free(path);
}

static void check_row(struct fsck *f, const char *dir, struct str id, uint64_t last_seq,
                      struct str meta)
{
    struct arena a = {0};
    struct index_row r;
    if (f->x == NULL) {
        f->stale = true;
    } else if (index_get(f->x, id, &r, &a, NULL) < 0) {
        finding(f, dir, "index", WARNING, f->repair, "not in the index");
        f->stale = true;
    } else if (!str_eqz(r.row.dir, dir) || r.row.last_seq != last_seq ||
               !str_eq(r.row.meta, meta)) {
        finding(f, dir, "index", WARNING, f->repair, "the index says something else");
        f->stale = true;
    }
    arena_fini(&a);
}

static int check_session(void *arg, const char *dir, struct str id)
{
    struct fsck *f = arg;
    struct told t = {0};
    struct buf meta = {.max = DOC_MAX};

    f->c->sessions++;
    check_leftovers(f, dir);
    check_journal(f, dir, &t);
    check_metadata(f, dir, id, &t, &meta);
    if (map_set(&f->seen, id, f) != NULL) {
        finding(f, dir, "index", ERROR, false, "another session has this id");
    } else if (!t.there && meta.n == 0) {
        struct err e;
        char *path = path_join(f->home, dir);
        int rc = f->repair && rmdir(path) != 0 ? err_sys(&e, "cannot remove '%s'", path) : 0;
        mended(f, dir, "empty", WARNING, "neither metadata nor journal", rc, &e);
        free(path);
    } else {
        check_row(f, dir, id, t.last_seq, str_trim(buf_str(&meta)));
    }
    buf_fini(&meta);
    arena_fini(&t.a);
    return 0;
}

// ---- index --------------------------------------------------------------------------------

static int check_seen(void *arg, const struct index_row *r)
{
    struct fsck *f = arg;
    if (map_get(&f->seen, r->row.id) == NULL) {
        char *dir = str_dup(r->row.dir);
        finding(f, dir, "index", WARNING, f->repair, "listed, but its files are gone");
        free(dir);
        f->stale = true;
    }
    return 0;
}

static int check_index(struct fsck *f, struct err *e)
{
    struct catchup_stats stats;
    if (f->x == NULL) {
        return 0;
    }
    int rc = index_each(f->x, check_seen, f, e);
    if (rc < 0 || !f->repair || !f->stale) {
        return rc;
    }
    rc = index_begin(f->x, e);
    if (rc == 0) {
        rc = index_clear(f->x, e);
        rc = rc == 0 ? catchup_run(f->x, f->home, NULL, NULL, &stats, e) : rc;
        int committed = index_commit(f->x, rc == 0 ? e : NULL);
        rc = rc == 0 ? committed : rc;
    }
    return rc;
}

// ---- public -------------------------------------------------------------------------------

static const char *const documents[] = {"choices.json", "trust.json", "state/hub.json"};

static void begin_report(struct fsck *f)
{
    map_init(&f->seen);
    memset(f->c, 0, sizeof *f->c);
    jw_init(&f->w, f->report);
    jw_obj(&f->w);
    jw_kstrz(&f->w, "home", f->home);
    jw_kbool(&f->w, "repair", f->repair);
    jw_key(&f->w, "findings");
    jw_arr(&f->w);
}

static int end_report(struct fsck *f, int rc, struct err *e)
{
    jw_end_arr(&f->w);
    jw_kint(&f->w, "sessions", (int64_t)f->c->sessions);
    jw_kint(&f->w, "found", (int64_t)f->c->found);
    jw_kint(&f->w, "repaired", (int64_t)f->c->repaired);
    jw_end_obj(&f->w);
    map_fini(&f->seen);
    if (rc == 0 && !buf_ok(f->report)) {
        return err_set(e, ERR_TOO_LARGE, "the report is above %d bytes", FSCK_REPORT_MAX);
    }
    return rc;
}

static int check_all(struct fsck *f, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        check_document(f, documents[i]);
    }
    check_log(f);
    check_leftovers(f, ".");
    check_leftovers(f, "state");
    int rc = walk_sessions(f->home, check_session, f, e);
    return rc == 0 ? check_index(f, e) : rc;
}

int fsck_with_index(struct index *x, const char *home, bool repair, struct buf *report,
                    struct fsck_counts *c, struct err *e)
{
    struct fsck f = {.home = home, .x = x, .repair = repair, .report = report, .c = c};
    begin_report(&f);
    int rc = check_all(&f, e);
    return end_report(&f, rc, e);
}

/// Open the index for a check. A fault is a finding; `f->x` stays NULL when the index cannot be used.
static void open_index(struct fsck *f)
{
    const char *name = "state/index.sqlite";
    char *path = path_join(f->home, name);
    struct err e;
    char why[INDEX_WHY] = "";
    bool fresh;

    if (access(path, F_OK) != 0 && !f->repair) {
        finding(f, name, "index", WARNING, false, "missing");
    } else if (f->repair) {
        if (index_open(&f->x, path, &fresh, why, &e) < 0) {
            finding(f, name, "index", ERROR, false, e.msg);
        } else if (fresh) {
            finding(f, name, "index", WARNING, true, why[0] != '\0' ? why : "missing");
            f->stale = true;
        }
    } else {
        int rc = index_open_as_is(&f->x, path, &e);
        if (rc < 0) { // what it holds can be made again, on a disk that can be written
            bool harmless = rc == ERR_CORRUPT || rc == -EROFS;
            finding(f, name, "index", harmless ? WARNING : ERROR, false, e.msg);
        }
    }
    free(path);
}

int fsck_run(const char *home, bool repair, struct buf *report, struct fsck_counts *c,
             struct err *e)
{
    struct fsck f = {.home = home, .repair = repair, .report = report, .c = c};
    begin_report(&f);
    for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
        check_directory(&f, directories[i]);
    }
    open_index(&f);
    int rc = check_all(&f, e);
    index_close(f.x);
    return end_report(&f, rc, e);
}
