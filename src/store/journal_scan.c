// Looking at a journal that another process may have left in any state.
//
// A line is good when it ends in a newline, is a JSON object, has a `type`, and its `seq` is one
// above that of the line before. The first line that is not good ends the trustworthy part. What
// follows decides what it is:
//
//     good good good bad-or-unfinished                 torn: a write that did not finish. Cut.
//     good good bad good good                          damaged: somebody else changed the file, or
//                                                      the disk lost a piece. Not ours to cut.
//
// A line behind the first bad one counts as good when it is an event with any seq: cutting there
// could throw away what somebody was told is safe.
//
// Memory is bounded by one line (STORE_LINE_MAX) and a chunk, whatever the file holds.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/time.h"
#include "store/journal.h"

enum { CHUNK = 128 * 1024 };

struct scanner {
    struct journal_scan *out;
    journal_line_cb *cb;
    void *arg;
    struct buf line; // read, and not yet looked at
    size_t searched; // bytes of it known to hold no newline
    bool skipping;   // inside a line that is too long
};

uint64_t journal_line_seq(struct str line, int64_t *ts, char *why, size_t why_n)
{
    struct arena a;
    struct json *v;
    struct err e;
    int64_t seq = 0;

    arena_init(&a);
    if (json_parse(&v, &a, line, NULL, &e) < 0) {
        snprintf(why, why_n, "%s", e.msg);
    } else if (v->type != JSON_OBJ || json_str(json_get(v, "type"), NULL).n == 0) {
        snprintf(why, why_n, "not an event");
    } else if ((seq = json_int(json_get(v, "seq"), 0)) <= 0) {
        snprintf(why, why_n, "no 'seq'");
        seq = 0;
    } else if (!time_parse(json_str(json_get(v, "ts"), NULL), ts)) {
        *ts = 0;
    }
    arena_fini(&a);
    return (uint64_t)seq;
}

static void bad_line(struct journal_scan *out, const char *why)
{
    if (out->why[0] == '\0') {
        snprintf(out->why, sizeof out->why, "%s", why);
    }
}

static void take_line(struct scanner *s, struct str line)
{
    struct journal_scan *out = s->out;
    char why[160] = "";
    int64_t ts = 0;
    uint64_t seq = journal_line_seq(line, &ts, why, sizeof why);
    bool stray = out->why[0] != '\0';

    if (seq != 0 && !stray && seq != out->end.seq) {
        snprintf(why, sizeof why, "'seq' is %llu, not %llu", (unsigned long long)seq,
                 (unsigned long long)out->end.seq);
    }
    if (seq != 0 && stray) {
        out->damaged = true;
    }
    if (seq != 0 && s->cb != NULL) {
        s->cb(s->arg, seq, line, stray || why[0] != '\0');
    }
    if (why[0] != '\0') {
        bad_line(out, why);
    } else if (!stray) {
        out->end.seq++;
        out->end.at += line.n + 1;
        out->last_ts = ts;
    }
}

// The newline that ends the line has been seen, `line` is what lies before it.
static void end_line(struct scanner *s, struct str line)
{
    if (s->skipping || line.n >= STORE_LINE_MAX) {
        bad_line(s->out, "line is too long");
    } else {
        take_line(s, line);
    }
    s->skipping = false;
}

static void take_lines(struct scanner *s)
{
    struct str rest = buf_str(&s->line);
    const char *from = rest.p + s->searched, *end = rest.p + rest.n;
    for (const char *nl; (nl = memchr(from, '\n', (size_t)(end - from))) != NULL;) {
        struct str line = {rest.p, (size_t)(nl - rest.p)};
        rest = str_from(rest, line.n + 1);
        from = nl + 1;
        end_line(s, line);
    }
    buf_drop(&s->line, s->line.n - rest.n);
    if (s->line.n > STORE_LINE_MAX) {
        s->skipping = true;
    }
    if (s->skipping) {
        buf_clear(&s->line);
    }
    s->searched = s->line.n;
}

static int read_all(struct scanner *s, int fd, uint64_t at, struct err *e)
{
    for (;;) {
        char *to = buf_reserve(&s->line, CHUNK);
        ssize_t n = pread(fd, to, CHUNK, (off_t)at);
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
    if (s->line.n != 0 || s->skipping) {
        bad_line(s->out, "last line is not complete");
    }
    s->out->size = at;
    return 0;
}

int journal_scan(int fd, struct journal_mark from, struct journal_scan *out, journal_line_cb *cb,
                 void *arg, struct err *e)
{
    struct scanner s = {.out = out, .cb = cb, .arg = arg};
    memset(out, 0, sizeof *out);
    out->end = from;
    buf_init(&s.line, (size_t)STORE_LINE_MAX + 2 * CHUNK);
    int rc = read_all(&s, fd, from.at, e);
    buf_fini(&s.line);
    return rc;
}

// ---- cutting ------------------------------------------------------------------------------

static int copy_range(int from, int to, uint64_t at, uint64_t end)
{
    char chunk[16 * 1024];
    while (at < end) {
        ssize_t n = pread(from, chunk, MIN(sizeof chunk, end - at), (off_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : -EIO;
        }
        for (ssize_t done = 0; done < n;) {
            ssize_t w = write(to, chunk + done, (size_t)(n - done));
            if (w < 0 && errno != EINTR) {
                return -errno;
            }
            done += w > 0 ? w : 0;
        }
        at += (uint64_t)n;
    }
    return 0;
}

static int keep_torn(int fd, const char *kept, const struct journal_scan *scan)
{
    int to = open(kept, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0) {
        return -errno;
    }
    int rc = copy_range(fd, to, scan->end.at, scan->size);
    if (rc == 0 && fsync(to) != 0) {
        rc = -errno;
    }
    close(to);
    if (rc < 0) {
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
