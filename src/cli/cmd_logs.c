// The hub's log, read from its file, which is there whether the hub runs or not.
//
//     logs         the last lines
//     logs -f      ... and what is appended, across rotations; inotify says when
//     --json       the answer of GET /logs, or the same made from the file; with -f the `log` events

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/ask.h"
#include "cli/watch.h"
#include "client/interrupt.h"

enum {
    DEFAULT_LINES = 100,
    MOST_LINES = 1000,
    WINDOW = 64 << 10,
    TAIL_MAX = 64 << 20,
    HUB_MS = 2000, // then the file answers for a hub that hangs
};

// ---- the tail ------------------------------------------------------------------------------

// Where the last `lines` lines of the text begin, or -1 when it has fewer.
static ptrdiff_t find_start(struct str text, int64_t lines)
{
    size_t i = str_ends(text, "\n") ? text.n - 1 : text.n;
    for (; i > 0 && lines > 0; i--) {
        lines -= text.p[i - 1] == '\n';
    }
    return lines == 0 ? (ptrdiff_t)(i + (i < text.n && text.p[i] == '\n')) : -1;
}

// Read backwards in growing windows until there are enough lines. `*end` is where reading stopped.
static int read_tail(int fd, int64_t lines, struct buf *out, off_t *end)
{
    assert(fd >= 0 && lines >= 0);
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    *end = st.st_size;
    for (off_t window = WINDOW;; window = MIN(window * 4, TAIL_MAX)) {
        off_t from = st.st_size > window ? st.st_size - window : 0;
        size_t want = (size_t)(st.st_size - from);
        buf_clear(out);
        char *room = buf_reserve(out, want);
        ssize_t n = want != 0 ? pread(fd, room, want, from) : 0;
        if (n < 0) {
            return -errno;
        }
        buf_grow(out, (size_t)n);
        ptrdiff_t start = lines > 0 ? find_start(buf_str(out), lines) : n;
        if (start >= 0 || from == 0 || window == TAIL_MAX) {
            buf_drop(out, start > 0 ? (size_t)start : 0);
            return 0;
        }
    }
}

// ---- printing ------------------------------------------------------------------------------

static void print_line(struct cli *c, struct str line)
{
    struct str rest = line;
    str_cut(&rest, ' ');
    enum out_tint tint = str_starts(rest, "error ")  ? OUT_RED
                         : str_starts(rest, "warn ") ? OUT_YELLOW
                                                     : OUT_PLAIN;
    out_tinted(&c->out, tint, line);
    out_add(&c->out, STR("\n"));
}

// The shape of GET /logs.
static void print_lines_json(struct cli *c, struct str text)
{
    struct jw w = {.out = &c->out.data};
    jw_obj(&w);
    jw_karr(&w, "lines");
    while (text.n != 0) {
        struct str line = str_cut(&text, '\n');
        jw_obj(&w);
        jw_kstr(&w, "ts", str_cut(&line, ' '));
        jw_kstr(&w, "level", str_cut(&line, ' '));
        jw_kstr(&w, "component", str_cut(&line, ' '));
        jw_kstr(&w, "text", line);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    out_add(&c->out, STR("\n"));
}

// ---- following -----------------------------------------------------------------------------

struct tail {
    struct cli *c;
    int fd, notify;
    off_t at;
    struct buf part; // a line whose end has not been written yet
};

static void print_new(struct tail *t)
{
    assert(t->fd >= 0 && t->at >= 0);
    char chunk[16 << 10];
    struct stat st;
    if (fstat(t->fd, &st) == 0 && st.st_size < t->at) {
        t->at = 0; // emptied under us
    }
    for (ssize_t n; (n = pread(t->fd, chunk, sizeof chunk, t->at)) > 0; t->at += n) {
        buf_add(&t->part, chunk, (size_t)n);
        struct str rest = buf_str(&t->part);
        for (ptrdiff_t end; (end = str_index(rest, '\n')) >= 0;) {
            print_line(t->c, (struct str){rest.p, (size_t)end});
            rest = str_from(rest, (size_t)end + 1);
        }
        buf_drop(&t->part, t->part.n - rest.n);
    }
    out_flush(&t->c->out);
}

static int follow_file(struct tail *t)
{
    char events[4096];
    struct pollfd p = {.fd = t->notify, .events = POLLIN};
    struct stat ours, there;
    int rc = 0;
    while (rc >= 0 && t->c->out.fault == 0) {
        print_new(t);
        bool moved = stat(t->c->home.log, &there) == 0 && fstat(t->fd, &ours) == 0 &&
                     (ours.st_ino != there.st_ino || ours.st_dev != there.st_dev);
        int fresh = moved ? open(t->c->home.log, O_RDONLY | O_CLOEXEC) : -1;
        if (fresh >= 0) { // the rotated log is read to its end first
            print_new(t);
            close(t->fd);
            t->fd = fresh;
            t->at = 0;
            print_new(t);
        }
        rc = interrupt_wait(&p, 1, 0);
        if (rc > 0 && read(t->notify, events, sizeof events) < 0 && errno != EAGAIN) {
            rc = -errno;
        }
    }
    return t->c->out.fault != 0 ? EXIT_FAILED : cli__exit_of(rc);
}

static int open_notify(const char *log)
{
    char *dir = str_dup(path_dir(str_of(log)));
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, dir, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0) {
        close(fd);
        fd = -1;
    }
    free(dir);
    return fd;
}

// ---- the command ---------------------------------------------------------------------------

static int read_file(struct cli *c, int64_t lines)
{
    struct tail t = {.c = c, .notify = -1};
    struct buf text = {.max = TAIL_MAX};
    struct err e = {0};
    bool follow = args_has(&c->args, FLAG_FOLLOW);
    t.fd = open(c->home.log, O_RDONLY | O_CLOEXEC);
    if (t.fd < 0) {
        int fault = errno; // telling it may change errno
        out_error(&c->out, "there is no log to read at '%s': %s", c->home.log, err_text(-fault));
        return fault == ENOENT ? EXIT_NOT_FOUND : EXIT_FAILED;
    }
    buf_init(&t.part, TAIL_MAX);
    if (follow) {
        interrupt_catch();
        t.notify = open_notify(c->home.log); // before reading: nothing is missed in between
    }
    int code = EXIT_OK;
    if (read_tail(t.fd, lines, &text, &t.at) < 0 || (follow && t.notify < 0)) {
        err_sys(&e, "cannot read '%s'", c->home.log);
        code = cli__fail(c, &e);
    } else if (c->json) {
        print_lines_json(c, buf_str(&text));
    } else {
        for (struct str rest = buf_str(&text); rest.n != 0;) {
            print_line(c, str_cut(&rest, '\n'));
        }
        code = follow ? follow_file(&t) : EXIT_OK;
    }
    buf_fini(&text);
    buf_fini(&t.part);
    close(t.fd);
    if (t.notify >= 0) {
        close(t.notify);
    }
    return code;
}

// True when the hub answered for us.
static bool answer_from_hub(struct cli *c, int64_t lines, int *code)
{
    char limit[24];
    struct client_answer a;
    snprintf(limit, sizeof limit, "%lld",
             (long long)(lines < 1 ? 1 : MIN(lines, (int64_t)MOST_LINES)));
    client_answer_init(&a);
    bool there =
        ask_send(c, OP_LOGS, &(struct ask_param){"limit", limit}, 1, HUB_MS, &a, NULL) == 0;
    if (there) {
        out_body(&c->out, buf_str(&a.body));
        *code = ask_exit_of(&a);
    }
    client_answer_fini(&a);
    return there;
}

int cmd_logs(struct cli *c)
{
    int64_t lines;
    struct err e;
    int code = EXIT_OK;
    if (args_number(&c->args, FLAG_LINES, DEFAULT_LINES, &lines, &e) < 0) {
        return cli__fail(c, &e);
    }
    if (c->json && args_has(&c->args, FLAG_FOLLOW)) {
        return watch__follow(c, &(struct watch_opts){.types = "log"});
    }
    if (c->json && answer_from_hub(c, lines, &code)) {
        return code;
    }
    return read_file(c, lines);
}
