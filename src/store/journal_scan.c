// Looking at a journal that another process, or a bad disk, may have left in any state.
//
// A line is good when it ends in a newline, is an event (journal_line.c) and its `seq` is the next one,
// or a later one: then the lines between are lost. A bad line is treated by what follows it:
//
//     good good good bad-or-unfinished                 torn: a write that did not finish. Cut.
//     good good bad good good                          damaged: another program changed the file, or
//                                                      the disk lost a piece. Skipped, not cut.
//
// Numbers are never given out twice, so a line with a number below the next one is not an event of this journal,
// and neither is one that jumps by more than LOST_MAX.
//
// Memory is bounded by one line (STORE_LINE_MAX) and a chunk, whatever the file holds. Holes are neither read
// nor copied: a file of gigabytes that a crash left without its blocks costs no time and no disk.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "store/journal.h"

enum { CHUNK = 64 * 1024, LOST_MAX = 65536 };

struct scanner {
    struct journal_scan *out;
    journal_line_cb *cb;
    void *arg;
    struct buf line; // read, and not yet looked at
    uint64_t at;     // where it begins in the file
    size_t searched; // bytes of it known to hold no newline
    bool skipping;   // inside a line that is too long
    bool stopped;    // by the callback
};

/// The position of the first byte at `at` or after it that is not in a hole; `upto` when there is none.
static uint64_t next_data(int fd, uint64_t at, uint64_t upto)
{
    struct stat st;
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    if (data < 0 && errno == ENXIO && fstat(fd, &st) == 0) {
        data = st.st_size;
    }
    return data < 0 ? at : MIN(MAX(at, (uint64_t)data), upto);
}

static void bad_line(struct journal_scan *out, const char *why)
{
    if (out->why[0] == '\0') {
        out->bad = out->end.seq;
        snprintf(out->why, sizeof out->why, "%s", why);
    }
}

/// Look at a line that its newline has ended.
static void take_line(struct scanner *s, struct str text)
{
    struct journal_scan *out = s->out;
    struct journal_line l = {.at = s->at, .text = text};
    char why[JOURNAL_WHY] = "";
    if (s->skipping || text.n >= STORE_LINE_MAX) {
        bad_line(out, "line is too long");
    } else if (!journal_line_read(&l, why)) {
        bad_line(out, why);
    } else if (l.seq < out->end.seq || l.seq - out->end.seq > LOST_MAX) {
        snprintf(why, sizeof why, "'seq' is %llu, not %llu", (unsigned long long)l.seq,
                 (unsigned long long)out->end.seq);
        bad_line(out, why);
        out->left_out++;
    } else {
        if (l.seq != out->end.seq) {
            bad_line(out, "it is missing");
        }
        out->damaged = out->why[0] != '\0';
        out->lost += l.seq - out->end.seq;
        out->end = (struct journal_mark){l.seq + 1, l.at + l.text.n + 1};
        out->last_ts = l.ts;
        s->stopped = s->cb != NULL && !s->cb(s->arg, &l);
    }
    s->skipping = false;
}

static void take_lines(struct scanner *s)
{
    struct str rest = buf_str(&s->line);
    const char *from = rest.p + s->searched, *end = rest.p + rest.n;
    for (const char *nl; !s->stopped && (nl = memchr(from, '\n', (size_t)(end - from))) != NULL;) {
        struct str line = {rest.p, (size_t)(nl - rest.p)};
        rest = str_from(rest, line.n + 1);
        from = nl + 1;
        take_line(s, line);
        s->at += line.n + 1;
    }
    buf_drop(&s->line, s->line.n - rest.n);
    if (s->line.n > STORE_LINE_MAX) {
        s->skipping = true;
    }
    if (s->skipping) {
        s->at += s->line.n;
        buf_clear(&s->line);
    }
    s->searched = s->line.n;
}

static int read_all(struct scanner *s, int fd, uint64_t upto, struct err *e)
{
    uint64_t at = s->at;
    while (at < upto && !s->stopped) {
        if (s->skipping) { // a hole has no newline
            uint64_t data = next_data(fd, at, upto);
            s->at += data - at;
            at = data;
        }
        char *to = buf_reserve(&s->line, CHUNK);
        ssize_t n = pread(fd, to, (size_t)MIN((uint64_t)CHUNK, upto - at), (off_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(e, "cannot read journal");
        }
        if (n == 0) {
            break;
        }
        buf_grow(&s->line, (size_t)n);
        at += (uint64_t)n;
        s->out->bytes_read += (uint64_t)n;
        take_lines(s);
    }
    if (!s->stopped && (s->line.n != 0 || s->skipping)) {
        bad_line(s->out, "last line is not complete");
    }
    s->out->size = at;
    return 0;
}

int journal__scan(int fd, struct journal_mark from, uint64_t upto, struct journal_scan *out,
                  journal_line_cb *cb, void *arg, struct err *e)
{
    struct scanner s = {.out = out, .cb = cb, .arg = arg, .at = from.at};
    memset(out, 0, sizeof *out);
    out->end = from;
    buf_init(&s.line, (size_t)STORE_LINE_MAX + 2 * CHUNK);
    int rc = read_all(&s, fd, upto, e);
    buf_fini(&s.line);
    return rc;
}

int journal_scan(int fd, struct journal_mark from, struct journal_scan *out, journal_line_cb *cb,
                 void *arg, struct err *e)
{
    return journal__scan(fd, from, UINT64_MAX, out, cb, arg, e);
}

// ---- cutting ------------------------------------------------------------------------------

/// Copy the torn end of `fd` to the new file `kept`, synced; zeroes become a hole.
static int keep_torn(int fd, const char *kept, const struct journal_scan *scan)
{
    char chunk[16 * 1024];
    int to = open(kept, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = to >= 0 ? 0 : -errno;
    for (uint64_t at = scan->end.at; rc == 0 && at < scan->size;) {
        at = next_data(fd, at, scan->size);
        ssize_t n = pread(fd, chunk, MIN(sizeof chunk, scan->size - at), (off_t)at);
        if (n > 0) {
            bool zero = chunk[0] == '\0' && memcmp(chunk, chunk + 1, (size_t)n - 1) == 0;
            bool there = zero || lseek(to, (off_t)(at - scan->end.at), SEEK_SET) >= 0;
            rc = !there ? -errno : zero ? 0 : path_write_fd(to, (struct str){chunk, (size_t)n});
            at += (uint64_t)n;
        } else if (n == 0 && at == scan->size) {
            break; // a hole to the end
        } else if (n == 0 || errno != EINTR) {
            rc = n < 0 ? -errno : -EIO;
        }
    }
    if (rc == 0 && (ftruncate(to, (off_t)(scan->size - scan->end.at)) != 0 || fsync(to) != 0)) {
        rc = -errno;
    }
    if (to >= 0) {
        close(to);
    }
    if (to >= 0 && rc < 0) {
        unlink(kept);
    }
    return rc;
}

int journal_cut(int fd, const char *path, const struct journal_scan *scan, struct journal_repair *r,
                struct err *e)
{
    memset(r, 0, sizeof *r);
    r->last_seq = scan->end.seq - 1;
    if (scan->size == scan->end.at) {
        return 0;
    }
    char *kept = xasprintf("%s.torn-%llu", path, (unsigned long long)time_wall_ms());
    int rc = keep_torn(fd, kept, scan);
    if (rc == 0 && (ftruncate(fd, (off_t)scan->end.at) != 0 || fsync(fd) != 0)) {
        rc = -errno;
    }
    struct str name = path_base(str_of(kept));
    snprintf(r->kept, sizeof r->kept, STR_FMT, STR_ARG(name));
    free(kept);
    if (rc < 0) {
        return err_set(e, rc, "cannot cut the torn end of '%s': %s", path, err_text(rc));
    }
    r->bytes_cut = scan->size - scan->end.at;
    return 0;
}
