// The append-only file of a session's events.
//
//     {"seq":1,"ts":"2026-11-15T05:01:12.345Z","type":"session.created",...,"crc":"8d3ab2f0"}\n
//     {"seq":2,...}\n
//
// Writing: pwrite() puts lines after `end`. `end` moves only when all of them are written, so a
// write that failed half-way (disk full) leaves bytes after `end` that do not count; they are
// cut off at once, or by the next write when even that fails. So before `end` there are only whole
// lines, and `seq` has no holes.
//
// Reading: while the journal is open we remember where some lines begin, one in about every 64 KiB.
// A reader starts at the mark nearest to the line it wants. If the mark is before that line, the lines
// between are checked; if it is after it, newlines are counted backwards, and the line that is found
// must have the right number. The tail of a large journal costs a few chunks, and paging through all
// of it is linear.
//
//     marks:   1@0 ........ 418@65102 ........ 830@131440 ........ end
//     want 825:                                 <-- backwards from 830
//
// Damage: a line that cannot be read is skipped, and its number is given to an event that says that
// it is lost. A flipped bit may remove or add a newline; then the count is wrong, the number does not
// fit, and the reader starts again at the start of the file.
//
// Invariants:
//   - `lock` guards end, marks, the counter and damage; it is not held during a system call.
//   - marks are sorted, begin with 1@0, and each points at the start of a whole line before `end`.
//   - `dirty_end` is set while the file may be longer than `end`.
//
// What it does not do: decide when to sync (session_log.c), mend damage (fsck.c), or know what a line
// looks like (journal_line.c).

#include "store/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "store/walk.h"

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
    char damage[JOURNAL_WHY]; // found by readers
    bool told;                // by journal_damage()
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

/// Remember `m` unless a mark is near, or does not fit: another program may have moved the lines.
static void learn(struct journal *j, struct journal_mark m)
{
    pthread_mutex_lock(&j->lock);
    size_t i = mark_below(j, m.seq);
    const struct journal_mark *below = &j->marks.p[i], *above = below + 1;
    bool far_below = below->seq < m.seq && below->at + MARK_EVERY <= m.at;
    bool far_above = i + 1 == j->marks.n || m.at + MARK_EVERY <= above->at;
    if (far_below && far_above) {
        vec_push(&j->marks, m);
        memmove(&j->marks.p[i + 2], &j->marks.p[i + 1], (j->marks.n - i - 2) * sizeof m);
        j->marks.p[i + 1] = m;
    }
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

/// Walk from `m` back to line `seq`, or as far as lines go. A line begins after the newline of the one
/// before.
static int walk_back(struct journal *j, struct journal_mark *m, uint64_t seq, struct err *e)
{
    char chunk[CHUNK];
    uint64_t at = m->at; // all bytes from here on have been searched
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
    return 0;
}

/// Where to begin reading line `seq`, which exists: at or before it. `*guessed` when that was counted.
static int locate(struct journal *j, uint64_t seq, struct journal_mark *at,
                  struct journal_mark *end, bool *guessed, struct err *e)
{
    pthread_mutex_lock(&j->lock);
    size_t i = mark_below(j, seq);
    struct journal_mark below = j->marks.p[i];
    struct journal_mark above = i + 1 < j->marks.n ? j->marks.p[i + 1] : j->end;
    *end = j->end;
    pthread_mutex_unlock(&j->lock);
    *at = below;
    *guessed = seq - at->seq > above.seq - seq;
    if (!*guessed) {
        return 0;
    }
    *at = above;
    int rc = walk_back(j, at, seq, e);
    if (at->seq != seq) {
        *at = below; // fewer newlines than lines
        *guessed = false;
    }
    return rc;
}

struct reader {
    struct journal *j;
    struct buf *out;
    uint64_t next; // the number that comes next
    size_t limit, stop;
    size_t n;
    struct journal_mark guess; // seq 0: none; else the first line must have this number
    bool astray;               // it has another one
};

static bool has_room(const struct reader *r)
{
    return r->n < r->limit && (r->n == 0 || r->out->n < r->stop);
}

/// Events up to `seq` cannot be read any more.
static void pass_over(struct reader *r, uint64_t seq, int64_t ts)
{
    struct buf line = {.max = 1024};
    for (; r->next < seq && has_room(r); r->next++, r->n++) {
        int rc = journal_encode(&line, r->next, ts, &JOURNAL_LOST, NULL);
        assert(rc == 0);
        (void)rc;
        journal_line_show(r->out, str_cut(&(struct str){line.p, line.n}, '\n'));
        buf_clear(&line);
    }
    buf_fini(&line);
}

static bool read_line(void *arg, const struct journal_line *l)
{
    struct reader *r = arg;
    r->astray = r->guess.seq != 0 && l->seq != r->guess.seq;
    r->guess.seq = 0;
    if (r->astray) {
        return false;
    }
    learn(r->j, (struct journal_mark){l->seq, l->at});
    if (l->seq >= r->next) {
        pass_over(r, l->seq, l->ts);
        if (has_room(r)) {
            journal_line_show(r->out, l->text);
            r->n++;
            r->next = l->seq + 1;
        }
    }
    return has_room(r);
}

/// Read with `r` from `from` on; `r` has room.
static int read_from(struct reader *r, struct journal_mark from, struct journal_mark end,
                     struct err *e)
{
    struct journal_scan scan;
    int rc = journal__scan(r->j->fd, from, end.at, &scan, read_line, r, e);
    if (rc < 0) {
        return err_prefix(e, "'%s'", r->j->path);
    }
    r->astray |= r->guess.seq != 0; // not one good line
    if (r->astray) {
        return 0;
    }
    struct journal *j = r->j;
    pthread_mutex_lock(&j->lock);
    j->bytes_read += scan.bytes_read;
    if (scan.why[0] != '\0' && j->damage[0] == '\0') {
        snprintf(j->damage, sizeof j->damage, "damaged at line %llu (%.100s)",
                 (unsigned long long)scan.bad, scan.why);
    }
    pthread_mutex_unlock(&j->lock);
    pass_over(r, end.seq, scan.last_ts);
    return 0;
}

int journal_read(struct journal *j, uint64_t after, size_t limit, size_t max, struct buf *out,
                 size_t *n, struct err *e)
{
    struct journal_mark at, end = journal_end(j);
    bool guessed;

    *n = 0;
    if (after >= end.seq - 1 || limit == 0) {
        return 0;
    }
    struct reader r = {.j = j, .out = out, .next = after + 1, .limit = limit, .stop = out->n + max};
    int rc = locate(j, after + 1, &at, &end, &guessed, e);
    if (rc == 0) {
        r.guess = guessed ? at : (struct journal_mark){0};
        rc = read_from(&r, at, end, e);
    }
    if (rc == 0 && r.astray) {
        r.guess.seq = 0;
        rc = read_from(&r, JOURNAL_START, end, e);
    }
    *n = r.n;
    return rc < 0 || buf_ok(out)
               ? rc
               : err_set(e, ERR_TOO_LARGE, "an event of '%s' is above the limit", j->path);
}

// ---- opening ------------------------------------------------------------------------------

static int open_file(const char *path, struct stat *st, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    int rc = 0;
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        rc = err_set(e, ERR_UNSUPPORTED, "'%s' is not a regular file", path);
    } else if (st->st_size == 0) { // it may be new: its name has to survive too
        char *dir = str_dup(path_dir(str_of(path)));
        rc = walk_sync_dir(dir, e);
        free(dir);
    }
    if (rc < 0) {
        close(fd);
    }
    return rc < 0 ? rc : fd;
}

/// Scan from `from` when that leads anywhere, else from the start.
static int scan_from(int fd, struct journal_mark from, struct journal_scan *scan, struct err *e)
{
    uint64_t read_before = 0;
    char before; // a line begins after a newline
    if (from.seq > 1 && from.at != 0 && pread(fd, &before, 1, (off_t)from.at - 1) == 1 &&
        before == '\n') {
        int rc = journal_scan(fd, from, scan, NULL, NULL, e);
        if (rc < 0 || (scan->end.at > from.at && !scan->damaged) || scan->size == from.at) {
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
    rc = journal_cut(fd, path, scan, r, e);
    if (scan->damaged) {
        snprintf(r->damage, sizeof r->damage,
                 "damaged at line %llu (%.100s), %llu events lost; 'afloat fsck --repair' mends it",
                 (unsigned long long)scan->bad, scan->why, (unsigned long long)scan->lost);
    }
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

void journal_file(const struct journal *j, uint64_t *dev, uint64_t *ino)
{
    *dev = j->dev;
    *ino = j->ino;
}

bool journal_damage(struct journal *j, char out[JOURNAL_WHY])
{
    pthread_mutex_lock(&j->lock);
    bool news = j->damage[0] != '\0' && !j->told;
    j->told |= news;
    memcpy(out, j->damage, JOURNAL_WHY);
    pthread_mutex_unlock(&j->lock);
    return news;
}

uint64_t journal_bytes_read(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    uint64_t n = j->bytes_read;
    pthread_mutex_unlock(&j->lock);
    return n;
}

// ---- writing ------------------------------------------------------------------------------

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
    assert(n != 0 && !j->dirty_end);
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
    if (rc == 0 && (scan.damaged || scan.end.seq != j->end.seq || scan.end.at != j->end.at)) {
        rc = err_set(e, ERR_CORRUPT, "'%s' lost events after %llu in a failed sync", j->path,
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
