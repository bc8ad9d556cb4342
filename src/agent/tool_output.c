// Output of any length in bounded memory.
//
//     add ──> first (32 KB) ── full ──> first (16 KB, the head) + tail (the last 16 KB)
//                                  └──> pending ── lane ──> file
//
// Two buffers are swapped between the loop and the lane: `pending` fills while `writing` is
// written. When `pending` holds PAUSE_AT bytes the caller is asked to wait, so a fast command runs at the
// speed of the disk. A full disk stops the file, not the command.
//
// Invariants:
//   - a job is on the lane exactly while `busy`; it alone touches fd, written and failed then.
//   - before the file there is `first` and nothing else; after that `first` never changes.

#include "agent/tool_output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/tool.h"
#include "base/path.h"
#include "base/redact.h"
#include "base/utf8.h"

enum {
    HALF = TOOL_OUTPUT_MAX / 2, // bytes of the head that are shown, and of the tail
    TAIL_ROOM = 4 * HALF,
    PAUSE_AT = 256 << 10,
};

static const uint64_t FILE_MAX = 1ULL << 30;

struct tool_output {
    struct lane *lane;
    uint64_t key;     // of the lane's job
    const char *path; // borrowed
    loop_fn *on_room, *done;
    void *room_arg, *done_arg;    // borrowed
    struct redact_stream secrets; // what commands print may hold some, cut anywhere
    struct buf first, tail;
    struct buf pending, writing;
    uint64_t total;
    bool spilled;      // there is more than `first`
    bool busy, paused; // a job is on the lane; the caller waits
    bool ending, last; // no more comes; the job under way is the last one
    int fd;            // -1 before the file is open and after it was closed
    uint64_t written;
    int failed; // negative code of the first write that failed
};

// ---- on the lane -----------------------------------------------------------------------------

static void job(void *arg)
{
    struct tool_output *o = arg;
    struct str bytes = buf_str(&o->writing);
    if (o->fd < 0 && o->failed == 0) {
        char *dir = str_dup(path_dir(str_of(o->path)));
        o->failed = path_mkdirs(dir, 0700, NULL);
        if (o->failed == 0) {
            int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
            o->fd = open(o->path, flags, 0600);
            o->failed = o->fd < 0 ? -errno : 0;
        }
        free(dir);
    }
    if (o->written + bytes.n > FILE_MAX) {
        bytes.n = (size_t)(FILE_MAX - o->written);
    }
    while (bytes.n != 0 && o->failed == 0) {
        ssize_t n = write(o->fd, bytes.p, bytes.n);
        if (n >= 0) {
            bytes = str_from(bytes, (size_t)n);
            o->written += (uint64_t)n;
        } else if (errno != EINTR) {
            o->failed = -errno;
        }
    }
    if (o->last && o->fd >= 0) {
        close(o->fd);
        o->fd = -1;
    }
}

// ---- on the loop -----------------------------------------------------------------------------

static void on_written(void *arg);

static void submit(struct tool_output *o)
{
    assert(!o->busy && o->spilled);
    struct buf empty = o->writing;
    o->writing = o->pending;
    o->pending = empty;
    o->busy = true;
    o->last = o->ending;
    work_submit(o->lane, o->key, job, on_written, o);
}

static void on_written(void *arg)
{
    struct tool_output *o = arg;
    bool over = o->last;
    o->busy = false;
    buf_clear(&o->writing);
    if (over) {
        o->done(o->done_arg);
        return;
    }
    if (o->pending.n != 0 || o->ending) {
        submit(o);
    }
    if (o->paused) {
        o->paused = false;
        o->on_room(o->room_arg);
    }
}

static void keep_tail(struct tool_output *o, struct str bytes)
{
    if (bytes.n > HALF) {
        bytes = str_from(bytes, bytes.n - HALF);
    }
    if (o->tail.n + bytes.n > TAIL_ROOM) {
        buf_drop(&o->tail, o->tail.n - HALF);
    }
    buf_adds(&o->tail, bytes);
}

struct tool_output *tool_output_new(struct lane *lane, const char *path, loop_fn *on_room,
                                    void *arg)
{
    struct tool_output *o = xcalloc(1, sizeof *o);
    o->lane = lane;
    o->path = path;
    o->on_room = on_room;
    o->room_arg = arg;
    o->fd = -1;
    redact_stream_init(&o->secrets);
    buf_init(&o->first, SIZE_MAX);
    buf_init(&o->tail, SIZE_MAX);
    buf_init(&o->pending, SIZE_MAX);
    buf_init(&o->writing, SIZE_MAX);
    return o;
}

static bool add(struct tool_output *o, struct str bytes)
{
    o->total += bytes.n;
    if (!o->spilled) {
        size_t n = MIN(bytes.n, TOOL_OUTPUT_MAX - o->first.n);
        buf_add(&o->first, bytes.p, n);
        bytes = str_from(bytes, n);
        if (bytes.n == 0) {
            return true;
        }
        // More than is shown: begin the file.
        o->spilled = true;
        o->key = work_mount_key(o->path);
        buf_adds(&o->pending, buf_str(&o->first));
        size_t head = utf8_cut(o->first.p, o->first.n, HALF);
        keep_tail(o, str_from(buf_str(&o->first), head));
        buf_cut(&o->first, head);
    }
    keep_tail(o, bytes);
    buf_adds(&o->pending, bytes);
    if (!o->busy) {
        submit(o);
    }
    o->paused = o->pending.n >= PAUSE_AT;
    return !o->paused;
}

bool tool_output_add(struct tool_output *o, struct str bytes)
{
    assert(!o->ending);
    struct buf clean = {.max = SIZE_MAX};
    bytes = redact_feed(&o->secrets, &clean, bytes);
    bool room = bytes.n == 0 ? !o->paused : add(o, bytes);
    buf_fini(&clean);
    return room;
}

void tool_output_end(struct tool_output *o, loop_fn *done, void *arg)
{
    struct buf rest = {.max = SIZE_MAX};
    redact_flush(&o->secrets, &rest);
    if (rest.n != 0) {
        add(o, buf_str(&rest));
    }
    buf_fini(&rest);
    o->ending = true;
    o->done = done;
    o->done_arg = arg;
    o->paused = false;
    if (!o->spilled) {
        done(arg);
    } else if (!o->busy) {
        submit(o);
    }
}

void tool_output_text(struct tool_output *o, struct buf *out)
{
    tool_output_clean(out, buf_str(&o->first));
    if (!o->spilled) {
        return;
    }
    struct str tail = buf_str(&o->tail);
    tail = str_from(tail, tail.n > HALF ? tail.n - HALF : 0);
    for (int i = 0; i < 3 && tail.n != 0 && ((unsigned char)tail.p[0] & 0xc0) == 0x80; i++) {
        tail = str_from(tail, 1); // the rest of a character whose beginning was left out
    }
    buf_addf(out, "\n[%llu bytes left out here; ",
             (unsigned long long)(o->total - o->first.n - tail.n));
    if (o->failed != 0) {
        buf_addf(out, "the whole output could not be kept: %s]\n", err_text(o->failed));
    } else if (o->written < o->total) {
        buf_addf(out, "the first %llu bytes of the output are in %s]\n",
                 (unsigned long long)o->written, o->path);
    } else {
        buf_addf(out, "the whole output is in %s]\n", o->path);
    }
    tool_output_clean(out, tail);
}

void tool_output_free(struct tool_output *o)
{
    if (o == NULL) {
        return;
    }
    redact_stream_fini(&o->secrets);
    buf_fini(&o->first);
    buf_fini(&o->tail);
    buf_fini(&o->pending);
    buf_fini(&o->writing);
    free(o);
}

void tool_output_clean(struct buf *out, struct str bytes)
{
    while (bytes.n != 0) {
        size_t good = utf8_valid_prefix(bytes);
        const char *nul = good != 0 ? memchr(bytes.p, '\0', good) : NULL;
        good = nul != NULL ? (size_t)(nul - bytes.p) : good;
        buf_add(out, bytes.p, good);
        if (good < bytes.n) {
            buf_addz(out, "\xef\xbf\xbd");
        }
        bytes = str_from(bytes, good + 1);
    }
}
