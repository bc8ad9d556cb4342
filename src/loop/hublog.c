// The hub's log: file, ring and event stream in one sink.
//
//     any thread: log_x() ── lock ──> sink ──┬─> write(2) to hub.log, rotated by size
//                                            ├─> systemd's journal, where it started the hub: life and troubles
//                                            ├─> ring of the last lines (GET /logs)
//                                            └─> waiting list ── uv_async ──> loop: emit (`log` events)
//
// Lines come from worker threads too, and only the loop thread may touch the stream: so they wait in
// a short list for the loop. The list is bounded; when a flood outruns the loop, lines are still in
// the file, and one line says how many the stream left out.
//
// Invariant: everything below `lock` is touched only with it held; the log's own lock is always
// outside of it.

#include "loop/hublog.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"

enum { RING = 1000, WAITING = 1000, KEPT_FILES = 3 };

struct line {
    enum log_level level;
    enum log_component component;
    char *text; // the whole line, with time, level and component
};

struct hublog {
    pthread_mutex_t lock;
    char *path;
    bool journal; // stderr is systemd's
    int fd;
    size_t size, max_bytes;
    struct line ring[RING];
    size_t n; // lines ever kept; line i is ring[i % RING]
    vec(struct line) waiting;
    size_t left_out;
    bool attached;
    uv_async_t async;
    hublog_emit *emit;
    void *arg;
};

// ---- the file ------------------------------------------------------------------------------

static void open_file(struct hublog *h)
{
    struct stat st;
    h->fd = open(h->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                 0600); // a FIFO must not hang us
    h->size = h->fd >= 0 && fstat(h->fd, &st) == 0 ? (size_t)st.st_size : 0;
}

static void rotate(struct hublog *h)
{
    char from[4096], to[4096];
    for (int i = KEPT_FILES; i > 0; i--) {
        snprintf(to, sizeof to, "%s.%d", h->path, i);
        if (i > 1) {
            snprintf(from, sizeof from, "%s.%d", h->path, i - 1);
        } else {
            snprintf(from, sizeof from, "%s", h->path);
        }
        rename(from, to); // a missing one is no fault
    }
    close(h->fd);
    open_file(h);
}

static void append_file(struct hublog *h, struct str line)
{
    if (h->fd < 0) { // the last rotation failed: its cause may be gone
        open_file(h);
    } else if (h->size + line.n > h->max_bytes && h->size != 0) {
        rotate(h);
    }
    if (h->fd < 0) {
        return;
    }
    char *whole = xasprintf(STR_FMT "\n", STR_ARG(line));
    ssize_t n = write(h->fd, whole, line.n + 1); // a full disk must not stop the hub
    h->size += n > 0 ? (size_t)n : 0;
    free(whole);
}

// ---- systemd's journal ---------------------------------------------------------------------

/// systemd names the device and inode of the stream that it gave a service (systemd.exec(5)).
static bool stderr_is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    struct stat st;
    char named[64];
    if (text == NULL || fstat(STDERR_FILENO, &st) < 0) {
        return false;
    }
    snprintf(named, sizeof named, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(named, text) == 0;
}

/// When the hub came and went, and what went wrong; the rest is in the file alone. The journal adds the time, and
/// takes the level as a number (sd-daemon(3)).
static void tell_journal(enum log_level level, enum log_component c, struct str line)
{
    static const int priority[] = {[LOG_ERROR] = 3, [LOG_WARN] = 4, [LOG_INFO] = 6};
    if (level > LOG_INFO || (level == LOG_INFO && c != LOG_HUB)) {
        return;
    }
    str_cut(&line, ' ');
    str_cut(&line, ' ');
    char *whole = xasprintf("<%d>" STR_FMT "\n", priority[level], STR_ARG(line));
    // a slow journal must not delay the hub: the line is in the file
    send(STDERR_FILENO, whole, strlen(whole), MSG_DONTWAIT | MSG_NOSIGNAL);
    free(whole);
}

// ---- ring and stream -----------------------------------------------------------------------

static void keep(struct hublog *h, enum log_level level, enum log_component c, struct str line)
{
    struct line *slot = &h->ring[h->n++ % RING];
    free(slot->text);
    *slot = (struct line){level, c, str_dup(line)};
}

static void wait_for_loop(struct hublog *h, enum log_level level, enum log_component c,
                          struct str line)
{
    if (!h->attached || level > LOG_INFO) {
        return;
    }
    if (h->waiting.n == WAITING) {
        h->left_out++;
        return;
    }
    struct line l = {level, c, str_dup(line)};
    vec_push(&h->waiting, l);
    uv_async_send(&h->async);
}

static void on_line(void *arg, enum log_level level, enum log_component component, struct str line)
{
    struct hublog *h = arg;
    pthread_mutex_lock(&h->lock);
    append_file(h, line);
    if (h->journal) {
        tell_journal(level, component, line);
    }
    keep(h, level, component, line);
    wait_for_loop(h, level, component, line);
    pthread_mutex_unlock(&h->lock);
}

// What follows "TIME LEVEL COMPONENT " in a line.
static struct str text_of(const char *line)
{
    struct str rest = str_of(line);
    for (int i = 0; i < 3; i++) {
        str_cut(&rest, ' ');
    }
    return rest;
}

static void on_async(uv_async_t *a)
{
    struct hublog *h = container_of(a, struct hublog, async);
    pthread_mutex_lock(&h->lock);
    __typeof__(h->waiting) lines = h->waiting;
    size_t left_out = h->left_out;
    memset(&h->waiting, 0, sizeof h->waiting);
    h->left_out = 0;
    pthread_mutex_unlock(&h->lock);

    vec_foreach (l, &lines) {
        if (h->emit != NULL) {
            h->emit(h->arg, l->level, log_component_name(l->component), text_of(l->text));
        }
        free(l->text);
    }
    vec_fini(&lines);
    if (left_out != 0) {
        log_warn(LOG_HUB, "lines_left_out_of_events=%zu", left_out);
    }
}

// ---- public --------------------------------------------------------------------------------

int hublog_open(struct hublog **out, const char *path, size_t max_bytes, struct err *e)
{
    *out = NULL;
    struct hublog *h = xcalloc(1, sizeof *h);
    h->path = xstrdup(path);
    h->max_bytes = max_bytes;
    h->journal = stderr_is_journal();
    open_file(h);
    if (h->fd < 0) {
        int rc = err_sys(e, "cannot open the log '%s'", path);
        free(h->path);
        free(h);
        return rc;
    }
    pthread_mutex_init(&h->lock, NULL);
    log_open(log_get_level(), on_line, h);
    *out = h;
    return 0;
}

int hublog_attach(struct hublog *h, struct loop *l, hublog_emit *emit, void *arg, struct err *e)
{
    int rc = uv_async_init(&l->uv, &h->async, on_async);
    if (rc < 0) {
        return err_set(e, rc, "cannot watch the log: %s", uv_strerror(rc));
    }
    uv_unref((uv_handle_t *)&h->async);
    pthread_mutex_lock(&h->lock);
    h->emit = emit;
    h->arg = arg;
    h->attached = true;
    pthread_mutex_unlock(&h->lock);
    return 0;
}

void hublog_detach(struct hublog *h)
{
    pthread_mutex_lock(&h->lock);
    bool was = h->attached;
    h->attached = false;
    pthread_mutex_unlock(&h->lock);
    if (was) {
        on_async(&h->async); // what still waits
        h->emit = NULL;
        uv_close((uv_handle_t *)&h->async, NULL);
    }
}

void hublog_reopen(struct hublog *h)
{
    pthread_mutex_lock(&h->lock);
    if (h->fd >= 0) {
        close(h->fd);
    }
    open_file(h);
    pthread_mutex_unlock(&h->lock);
}

void hublog_lines(struct hublog *h, size_t limit, struct jw *w)
{
    pthread_mutex_lock(&h->lock);
    size_t n = MIN(MIN(limit, h->n), (size_t)RING);
    for (size_t i = h->n - n; i < h->n; i++) {
        const struct line *l = &h->ring[i % RING];
        struct str rest = str_of(l->text);
        jw_obj(w);
        jw_kstr(w, "ts", str_cut(&rest, ' '));
        jw_kstrz(w, "level", log_level_name(l->level));
        jw_kstrz(w, "component", log_component_name(l->component));
        jw_kstr(w, "text", text_of(l->text));
        jw_end_obj(w);
    }
    pthread_mutex_unlock(&h->lock);
}

void hublog_close(struct hublog *h)
{
    log_open(log_get_level(), NULL, NULL);
    for (size_t i = 0; i < RING; i++) {
        free(h->ring[i].text);
    }
    vec_foreach (l, &h->waiting) {
        free(l->text);
    }
    vec_fini(&h->waiting);
    if (h->fd >= 0) {
        close(h->fd);
    }
    pthread_mutex_destroy(&h->lock);
    free(h->path);
    free(h);
}
