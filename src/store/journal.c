// The append-only file of a session's events.
//
//     {"seq":1,"ts":"2026-11-15T05:01:12.345Z","type":"session.created",...}\n
//     {"seq":2,...}\n
//
// Writing: lines go behind `end` with pwrite(). Only when all of them are there does `end` move, so a
// write that failed half-way (disk full) leaves bytes behind `end` that count for nothing; they are
// cut off at once, or by the next write when even that fails. So a file that is being written never
// holds anything but whole lines in front of `end`, and `seq` has no holes.
//
// Reading: while the journal is open we remember where some lines begin, one in about every 64 KiB.
// A reader starts at the mark nearest to the line it wants and walks from there, forwards or
// backwards, counting newlines; it leaves marks of its own on the way. A tail of a large journal
// costs a few chunks, and paging through all of it is linear.
//
//     marks:   1@0 ........ 418@65102 ........ 830@131440 ........ end
//     want 825:                                 <-- backwards from 830
//
// Invariants:
//   - `lock` guards end, marks and the counter; nobody holds it during a system call.
//   - marks are sorted, begin with 1@0, and each points at the start of a whole line before `end`.
//   - `dirty_end` is set while the file may be longer than `end`.
//
// What it does not do: decide when to sync (session.c), or mend damage (fsck.c).

#include "store/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/time.h"
#include "base/vec.h"

enum { MARK_EVERY = 64 * 1024, CHUNK = 64 * 1024 };

struct journal {
    int fd;
    char *path;
    uint64_t dev, ino;
    int64_t last_ts;
    bool dirty_end; // of the appending thread
    pthread_mutex_t lock;
    struct journal_mark end;
    vec(struct journal_mark) marks;
    uint64_t bytes_read;
};

// ---- marks --------------------------------------------------------------------------------

/// Index of the last mark with seq <= `seq`.
static size_t mark_below(const struct journal *j, uint64_t seq)
{
    size_t lo = 0, hi = j->marks.n;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (j->marks.p[mid].seq <= seq) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

// Remember `m` unless a mark is near.
static void learn(struct journal *j, struct journal_mark m)
{
    pthread_mutex_lock(&j->lock);
    size_t i = mark_below(j, m.seq);
    bool far_below = m.at - j->marks.p[i].at >= MARK_EVERY;
    bool far_above = i + 1 == j->marks.n || j->marks.p[i + 1].at - m.at >= MARK_EVERY;
    if (far_below && far_above) {
        vec_push(&j->marks, m);
        memmove(&j->marks.p[i + 2], &j->marks.p[i + 1], (j->marks.n - i - 2) * sizeof m);
        j->marks.p[i + 1] = m;
    }
    pthread_mutex_unlock(&j->lock);
}

static void marks_around(struct journal *j, uint64_t seq, struct journal_mark *below,
                         struct journal_mark *above, struct journal_mark *end)
{
    pthread_mutex_lock(&j->lock);
    size_t i = mark_below(j, seq);
    *below = j->marks.p[i];
    *end = j->end;
    *above = i + 1 < j->marks.n ? j->marks.p[i + 1] : j->end;
    pthread_mutex_unlock(&j->lock);
}

// ---- reading ------------------------------------------------------------------------------

/// Exactly `n` bytes at `at`.
static int read_at(struct journal *j, void *to, size_t n, uint64_t at, struct err *e)
{
    for (size_t have = 0; have < n;) {
        ssize_t got = pread(j->fd, (char *)to + have, n - have, (off_t)(at + have));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_sys(e, "cannot read '%s'", j->path);
        }
        if (got == 0) {
            return err_set(e, ERR_CORRUPT, "'%s' became shorter while it was open", j->path);
        }
        have += (size_t)got;
    }
    pthread_mutex_lock(&j->lock);
    j->bytes_read += n;
    pthread_mutex_unlock(&j->lock);
    return 0;
}

/// Walk from `m` forward to line `seq`, which must lie before `end`.
static int walk_forward(struct journal *j, struct journal_mark *m, uint64_t seq, uint64_t end,
                        struct err *e)
{
    char chunk[CHUNK];
    uint64_t at = m->at;
    while (m->seq < seq) {
        size_t n = (size_t)MIN(sizeof chunk, end - at);
        if (n == 0) {
            return err_set(e, ERR_CORRUPT, "'%s' has fewer lines than it had", j->path);
        }
        int rc = read_at(j, chunk, n, at, e);
        if (rc < 0) {
            return rc;
        }
        for (const char *p = chunk, *nl; m->seq < seq; p = nl + 1) {
            nl = memchr(p, '\n', (size_t)(chunk + n - p));
            if (nl == NULL) {
                break;
            }
            m->seq++;
            m->at = at + (uint64_t)(nl + 1 - chunk);
        }
        learn(j, *m);
        at += n;
    }
    return 0;
}

/// Walk from `m` back to line `seq`. A line begins behind the newline of the one before.
static int walk_back(struct journal *j, struct journal_mark *m, uint64_t seq, struct err *e)
{
    char chunk[CHUNK];
    uint64_t at = m->at; // all from here on has been looked at
    uint64_t line = m->seq;
    while (at > 0 && m->seq > seq) {
        size_t n = (size_t)MIN(sizeof chunk, at);
        at -= n;
        int rc = read_at(j, chunk, n, at, e);
        if (rc < 0) {
            return rc;
        }
        for (const char *nl; n != 0 && m->seq > seq; n = (size_t)(nl - chunk)) {
            nl = memrchr(chunk, '\n', n);
            if (nl == NULL) {
                break;
            }
            *m = (struct journal_mark){line--, at + (uint64_t)(nl + 1 - chunk)};
        }
    }
    if (m->seq > seq && line == seq) {
        *m = JOURNAL_START; // the first line has no newline before it
    }
    return m->seq == seq ? 0 : err_set(e, ERR_CORRUPT, "'%s' has fewer lines than it had", j->path);
}

/// The mark of line `seq`, which exists; `*end` is where the journal ends.
static int locate(struct journal *j, uint64_t seq, struct journal_mark *at,
                  struct journal_mark *end, struct err *e)
{
    struct journal_mark below, above;
    marks_around(j, seq, &below, &above, end);
    if (seq - below.seq <= above.seq - seq) {
        *at = below;
        return walk_forward(j, at, seq, end->at, e);
    }
    *at = above;
    return walk_back(j, at, seq, e);
}

// Lines as we write them are known by their first bytes; others, rearranged by some tool, are parsed.
static bool line_is(struct str line, uint64_t seq)
{
    char want[40], why[160];
    int64_t ts;
    int n = snprintf(want, sizeof want, "{\"seq\":%llu,", (unsigned long long)seq);
    return (line.n > (size_t)n && memcmp(line.p, want, (size_t)n) == 0 &&
            line.p[line.n - 1] == '}') ||
           journal_line_seq(line, &ts, why, sizeof why) == seq;
}

/// Count whole lines in `out` from `*from` on, checking that they are `seq`, seq + 1, ...; up to
/// `limit` of them, and none that begins at `stop` or behind, but the first.
static int count_lines(struct journal *j, struct buf *out, size_t *from, uint64_t seq, size_t limit,
                       size_t stop, size_t *n, struct err *e)
{
    while (*n < limit && (*n == 0 || *from < stop)) {
        const char *p = out->p + *from;
        const char *nl = memchr(p, '\n', out->n - *from);
        if (nl == NULL) {
            return 0;
        }
        struct str line = {p, (size_t)(nl - p)};
        if (!line_is(line, seq + *n)) {
            unsigned long long bad = seq + *n;
            return err_set(e, ERR_CORRUPT, "'%s' is damaged at line %llu", j->path, bad);
        }
        *from += line.n + 1;
        (*n)++;
    }
    return 0;
}

int journal_read(struct journal *j, uint64_t after, size_t limit, size_t max, struct buf *out,
                 size_t *n, struct err *e)
{
    struct journal_mark at, end = journal_end(j);
    size_t whole = out->n; // all before is whole lines
    size_t stop = out->n + max;

    *n = 0;
    if (after >= end.seq - 1 || limit == 0) {
        return 0;
    }
    int rc = locate(j, after + 1, &at, &end, e);
    while (rc == 0 && at.at < end.at && *n < limit && (*n == 0 || whole < stop)) {
        // an unfinished line doubles what is read, so that a long one is not searched again and again
        size_t take = (size_t)MIN(MAX((uint64_t)CHUNK, out->n - whole), end.at - at.at);
        char *to = buf_reserve(out, take);
        if (to == NULL) {
            return err_set(e, ERR_TOO_LARGE, "an event of '%s' is above the limit", j->path);
        }
        rc = read_at(j, to, take, at.at, e);
        if (rc == 0) {
            buf_grow(out, take);
            at.at += take;
            rc = count_lines(j, out, &whole, after + 1, limit, stop, n, e);
        }
    }
    if (rc == 0) {
        uint64_t behind = at.at - (out->n - whole);
        buf_cut(out, whole);
        learn(j, (struct journal_mark){after + 1 + *n, behind});
    }
    return rc;
}

// ---- opening ------------------------------------------------------------------------------

static int sync_dir_of(const char *path)
{
    char *dir = str_dup(path_dir(str_of(path)));
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
    if (fd >= 0) {
        close(fd);
    }
    free(dir);
    return rc;
}

static int open_file(const char *path, struct stat *st, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(fd);
        return err_set(e, ERR_UNSUPPORTED, "'%s' is not a regular file", path);
    }
    int rc = st->st_size == 0 ? sync_dir_of(path) : 0;
    if (rc < 0) {
        close(fd);
        return err_set(e, rc, "cannot sync the directory of '%s': %s", path, err_text(rc));
    }
    return fd;
}

static bool mark_fits(int fd, struct journal_mark m)
{
    char before;
    return m.seq != 0 && (m.at == 0) == (m.seq == 1) &&
           (m.at == 0 || (pread(fd, &before, 1, (off_t)m.at - 1) == 1 && before == '\n'));
}

/// Scan from `from` when that leads anywhere, else from the start.
static int scan_from(int fd, struct journal_mark from, struct journal_scan *scan, struct err *e)
{
    uint64_t read_before = 0;
    if (mark_fits(fd, from) && from.at != 0) {
        int rc = journal_scan(fd, from, scan, NULL, NULL, e);
        if (rc < 0 || scan->end.at > from.at || scan->size == from.at) {
            return rc;
        }
        read_before = scan->bytes_read;
    }
    int rc = journal_scan(fd, JOURNAL_START, scan, NULL, NULL, e);
    scan->bytes_read += read_before;
    return rc;
}

static int prepare(int fd, const char *path, struct journal_mark from, struct journal_scan *scan,
                   struct journal_repair *r, struct err *e)
{
    int rc = scan_from(fd, from, scan, e);
    if (rc < 0) {
        err_prefix(e, "'%s'", path);
        return rc;
    }
    if (scan->damaged) {
        return err_set(e, ERR_CORRUPT,
                       "'%s' is damaged at line %llu (%s); 'afloat fsck --repair' mends it", path,
                       (unsigned long long)scan->end.seq, scan->why);
    }
    rc = journal_cut(fd, path, scan, r, e);
    if (rc == 0 && scan->end.at != from.at && fdatasync(fd) != 0) {
        return err_sys(e, "cannot sync '%s'", path);
    }
    return rc;
}

int journal_open(struct journal **out, const char *path, struct journal_mark from,
                 struct journal_repair *r, struct err *e)
{
    struct journal_scan scan;
    struct journal_repair unused;
    struct stat st;

    *out = NULL;
    int fd = open_file(path, &st, e);
    if (fd < 0) {
        return fd;
    }
    int rc = prepare(fd, path, from, &scan, r != NULL ? r : &unused, e);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    struct journal *j = xcalloc(1, sizeof *j);
    j->fd = fd;
    j->path = xstrdup(path);
    j->dev = st.st_dev;
    j->ino = st.st_ino;
    j->end = scan.end;
    j->last_ts = scan.last_ts;
    j->bytes_read = scan.bytes_read;
    pthread_mutex_init(&j->lock, NULL);
    vec_push(&j->marks, JOURNAL_START);
    *out = j;
    return 0;
}

void journal_close(struct journal *j)
{
    if (j == NULL) {
        return;
    }
    close(j->fd);
    pthread_mutex_destroy(&j->lock);
    vec_fini(&j->marks);
    free(j->path);
    free(j);
}

struct journal_mark journal_end(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    struct journal_mark end = j->end;
    pthread_mutex_unlock(&j->lock);
    return end;
}

int64_t journal_last_ts(struct journal *j)
{
    return j->last_ts;
}

const char *journal_path(const struct journal *j)
{
    return j->path;
}

void journal_file(const struct journal *j, uint64_t *dev, uint64_t *ino)
{
    *dev = j->dev;
    *ino = j->ino;
}

uint64_t journal_bytes_read(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    uint64_t n = j->bytes_read;
    pthread_mutex_unlock(&j->lock);
    return n;
}

// ---- writing ------------------------------------------------------------------------------

static int check_line(struct str line, struct err *e)
{
    struct arena a;
    struct json *v;
    if (line.n != 0 && memchr(line.p, '\n', line.n) != NULL) {
        return err_set(e, ERR_INVALID, "event has a line break");
    }
    arena_init(&a);
    int rc = json_parse(&v, &a, line, NULL, e);
    arena_fini(&a);
    return rc < 0 ? err_prefix(e, "event is not JSON") : 0;
}

int journal_encode(struct buf *out, uint64_t seq, int64_t ts, const struct store_event *ev,
                   struct err *e)
{
    char time[TIME_TEXT];
    struct jw w;
    size_t from = out->n;

    if (ev->type.n == 0 || ev->type.n > 256 || ev->fields.n >= STORE_LINE_MAX) {
        return err_set(e, ev->fields.n >= STORE_LINE_MAX ? ERR_TOO_LARGE : ERR_INVALID,
                       "event needs a type of 1-256 bytes and fields below %d", STORE_LINE_MAX);
    }
    buf_addf(out, "{\"seq\":%llu,\"ts\":\"%s\",\"type\":", (unsigned long long)seq,
             time_format(ts, time));
    jw_init(&w, out);
    jw_str(&w, ev->type);
    if (ev->fields.n != 0) {
        buf_addc(out, ',');
        buf_adds(out, ev->fields);
    }
    buf_addc(out, '}');
    int rc = !buf_ok(out) || out->n - from >= STORE_LINE_MAX
                 ? err_set(e, ERR_TOO_LARGE, "event is above %d bytes", STORE_LINE_MAX)
                 : check_line(str_from(buf_str(out), from), e);
    if (rc < 0) {
        buf_cut(out, from);
    } else {
        buf_addc(out, '\n');
    }
    return rc;
}

static int cut_back(struct journal *j, struct err *e)
{
    if (ftruncate(j->fd, (off_t)j->end.at) != 0) {
        return err_sys(e, "cannot cut '%s' back to its last event", j->path);
    }
    j->dirty_end = false;
    return 0;
}

static int write_at(int fd, struct str bytes, uint64_t at)
{
    while (bytes.n != 0) {
        ssize_t n = pwrite(fd, bytes.p, bytes.n, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
        at += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

int journal_write(struct journal *j, struct str lines, size_t n, struct err *e)
{
    assert(lines.n != 0 && lines.p[lines.n - 1] == '\n');
    int rc = j->dirty_end ? cut_back(j, e) : 0;
    if (rc < 0) {
        return rc;
    }
    rc = write_at(j->fd, lines, j->end.at);
    if (rc < 0) {
        err_set(e, rc, "cannot write '%s': %s", j->path, err_text(rc));
        j->dirty_end = true;
        (void)cut_back(j, NULL);
        return rc;
    }
    struct journal_mark first = j->end;
    pthread_mutex_lock(&j->lock);
    j->end.seq += n;
    j->end.at += lines.n;
    pthread_mutex_unlock(&j->lock);
    learn(j, first);
    return 0;
}

int journal_sync(struct journal *j, struct err *e)
{
    return fdatasync(j->fd) == 0 ? 0 : err_sys(e, "cannot sync '%s'", j->path);
}

int journal_rewrite(struct journal *j, struct journal_mark synced, struct err *e)
{
    struct journal_scan scan;
    char chunk[CHUNK];

    int rc = j->dirty_end ? cut_back(j, e) : 0;
    if (rc == 0) {
        rc = journal_scan(j->fd, synced, &scan, NULL, NULL, e);
    }
    if (rc == 0 && (scan.end.seq != j->end.seq || scan.end.at != j->end.at)) {
        rc = err_set(e, ERR_CORRUPT, "'%s' lost events behind %llu after a failed sync", j->path,
                     (unsigned long long)scan.end.seq - 1);
    }
    for (uint64_t at = synced.at; rc == 0 && at < j->end.at; at += sizeof chunk) {
        size_t n = (size_t)MIN(sizeof chunk, j->end.at - at);
        rc = read_at(j, chunk, n, at, e);
        if (rc == 0 && (rc = write_at(j->fd, (struct str){chunk, n}, at)) < 0) {
            err_set(e, rc, "cannot write '%s': %s", j->path, err_text(rc));
        }
    }
    return rc;
}
