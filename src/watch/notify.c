// One inotify descriptor for all watches, and the seats on each of its watch descriptors.
//
// The kernel gives one watch descriptor per inode: two trees that overlap get the same number and share it as
// seats on one list. An event is only a hint: it queues a directory to be read or marks a file to be looked
// at. The jobs find out what is true, and the same jobs serve after an overflow and in a sweep.
//
//     read ──> seats[wd] ─┬─> directory: file touched, child directory queued
//                         └─> anchor: its owner (root, linked directory, linked file) looks again
//
// Threads add watches, the loop seats them; an event may arrive between the two. Its number is kept as a
// stray while any job runs, and a seat on one that came after its job began looks again.
//
// Invariants:
//   - dispatch adds to the tree and to queues; it never drops anything, so lists may be walked.
//   - a descriptor without seats is removed from the kernel.

#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "watch/watch_int.h"

// ---- the table -------------------------------------------------------------------------------

static size_t place(const struct watcher *wr, int wd)
{
    return ((uint32_t)wd * 2654435761u) & (wr->cap_seats - 1);
}

/// The slot that holds `wd`, or the free one where it belongs.
static size_t slot_of(const struct watcher *wr, int wd)
{
    size_t i = place(wr, wd);
    while (wr->seats[i] != NULL && wr->seats[i]->wd != wd) {
        i = (i + 1) & (wr->cap_seats - 1);
    }
    return i;
}

static struct seat *seats_on(const struct watcher *wr, int wd)
{
    return wr->cap_seats != 0 ? wr->seats[slot_of(wr, wd)] : NULL;
}

/// Take `s` off its list. True when the descriptor has no seats left: its slot is free then, and later slots that
/// would no longer be found move up.
static bool unlist(struct watcher *wr, struct seat *s)
{
    size_t i = slot_of(wr, s->wd), mask = wr->cap_seats - 1;
    struct seat **at = &wr->seats[i];
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    s->next = NULL;
    if (wr->seats[i] != NULL) {
        return false;
    }
    assert(wr->n_seats != 0 && i <= mask);
    wr->n_seats--;
    for (size_t j = (i + 1) & mask; wr->seats[j] != NULL; j = (j + 1) & mask) {
        if (((j - place(wr, wr->seats[j]->wd)) & mask) >= ((j - i) & mask)) {
            wr->seats[i] = wr->seats[j];
            wr->seats[j] = NULL;
            i = j;
        }
    }
    return true;
}

// ---- strays ----------------------------------------------------------------------------------

/// Remember that `wd` had an event, for as long as a job runs that may bring a seat for it.
static void add_stray(struct watcher *wr, int wd)
{
    wr->events++;
    if (wr->jobs == 0) {
        return;
    }
    vec_foreach (it, &wr->strays) {
        if (it->wd == wd) {
            it->event = wr->events;
            return;
        }
    }
    if (wr->strays.n == STRAYS_MAX) {
        wr->flooded = wr->events; // all that are not listed count as one
        return;
    }
    vec_push(&wr->strays, ((struct stray){wd, wr->events}));
}

// ---- dispatch --------------------------------------------------------------------------------

static const struct {
    uint32_t mask;
    enum hold hold;
} hold_of[] = {
    // the first that fits
    {IN_CLOSE_WRITE | IN_MOVED_TO, HOLD_READY},
    {IN_MODIFY | IN_CREATE, HOLD_WRITING},
    {IN_DELETE | IN_MOVED_FROM, HOLD_GONE},
    {IN_ATTRIB, HOLD_READY},
};

static void touch_file(struct watch_file *f, uint32_t mask)
{
    for (size_t i = 0; i < ARRAY_LEN(hold_of); i++) {
        if ((mask & hold_of[i].mask) != 0) {
            bool keep = mask == IN_ATTRIB && f->hold != HOLD_NONE; // says nothing about the writer
            settle__touch(f, keep ? (enum hold)f->hold : hold_of[i].hold);
            return;
        }
    }
}

static void on_file_name(struct dir *d, uint32_t mask, const char *name)
{
    struct dir *linked = tree__dir(d, name, false);
    struct watch_file *f = tree__file(d, name, false);
    bool matches = errand__matches(d->watch, name);
    bool appears = (mask & (IN_CREATE | IN_MOVED_TO)) != 0;
    if (linked != NULL) {
        watch__queue_scan(linked);
    }
    if (f == NULL && (matches || (appears && d->watch->opts.recursive && linked == NULL))) {
        f = tree__file(d, name, true);
        f->flags |= matches ? 0 : FILE_PROBE;
    }
    if (f != NULL) {
        touch_file(f, mask);
    }
}

static void on_dir_event(struct dir *d, uint32_t mask, const char *name)
{
    struct watch *w = d->watch;
    bool is_dir = (mask & IN_ISDIR) != 0;
    if (name == NULL) { // the directory itself moved, ended or got other rights
        watch__queue_scan(d);
        return;
    }
    char *path = tree__path(d, name);
    bool wanted = errand__wanted(w, path, is_dir);
    free(path);
    if (wanted && !is_dir) {
        on_file_name(d, mask & IN_ALL_EVENTS, name);
    } else if (wanted && w->opts.recursive) {
        bool appears = (mask & (IN_CREATE | IN_MOVED_TO | IN_ATTRIB)) != 0;
        struct dir *child = tree__dir(d, name, appears);
        if (child != NULL) {
            watch__queue_scan(child); // finds out by itself when it is gone
        }
    }
}

static void on_seat_event(struct seat *s, uint32_t mask, const char *name)
{
    if (s->kind == SEAT_DIR) {
        on_dir_event(container_of(s, struct dir, seat), mask, name);
        return;
    }
    struct anchor *a = container_of(s, struct anchor, seat);
    assert((a->dir == NULL) != (a->file == NULL));
    if (name != NULL && strcmp(name, a->name) != 0) {
        return;
    }
    if (a->dir != NULL) {
        watch__queue_scan(a->dir);
    } else {
        touch_file(a->file, name != NULL ? mask & IN_ALL_EVENTS : IN_MOVED_FROM);
    }
}

static void dispatch(struct watcher *wr, const struct inotify_event *ev)
{
    const char *name = ev->len != 0 && ev->name[0] != '\0' ? ev->name : NULL;
    add_stray(wr, ev->wd);
    if ((ev->mask & IN_Q_OVERFLOW) != 0) {
        wr->stats.floods++;
        watch__rescan(wr);
        return;
    }
    struct seat *s = seats_on(wr, ev->wd);
    if ((ev->mask & IN_IGNORED) == 0) {
        for (; s != NULL; s = s->next) {
            on_seat_event(s, ev->mask, name);
        }
        return;
    }
    for (; s != NULL; s = seats_on(wr, ev->wd)) { // the kernel ended it: all on it look again
        unlist(wr, s);
        s->wd = -1;
        on_seat_event(s, IN_MOVED_FROM, NULL);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct watcher *wr = container_of(poll, struct watcher, poll);
    (void)status; // read() says the same
    (void)events;
    notify__drain(wr);
    watch__pump_all(wr);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct watcher *wr = container_of((uv_poll_t *)h, struct watcher, poll);
    wr->polling = false;
    watcher__release(wr);
}

// ---- for the folder --------------------------------------------------------------------------

void notify__open(struct watcher *wr)
{
    wr->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (wr->fd < 0 || uv_poll_init(&wr->loop->uv, &wr->poll, wr->fd) < 0) {
        int rc = wr->fd < 0 ? -errno : -EMFILE;
        if (wr->fd >= 0) {
            close(wr->fd);
        }
        wr->fd = -1;
        watch__degraded(wr, NULL, rc);
        return;
    }
    wr->polling = true;
    uv_poll_start(&wr->poll, UV_READABLE, on_readable); // fails only on a closing handle
}

void notify__close(struct watcher *wr)
{
    if (wr->polling) {
        uv_close((uv_handle_t *)&wr->poll, on_poll_closed);
    }
}

void notify__drain(struct watcher *wr)
{
    _Alignas(struct inotify_event) char bytes[16 * 1024];
    ssize_t n = 0;
    int left = 0; // what is there now: more may come without end
    if (wr->fd >= 0) {
        ioctl(wr->fd, FIONREAD, &left);
    }
    for (; left > 0 && (n = read(wr->fd, bytes, sizeof bytes)) > 0; left -= (int)n) {
        for (char *p = bytes; p < bytes + n;) {
            const struct inotify_event *ev = (const void *)p;
            dispatch(wr, ev);
            p += sizeof *ev + ev->len;
        }
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        watch__rescan(wr); // events are lost: look everywhere
    }
}

void notify__seat(struct watcher *wr, struct seat *s, int wd, uint64_t began)
{
    if (s->wd == wd) {
        return; // what came meanwhile came to it
    }
    notify__unseat(wr, s);
    if ((wr->n_seats + 1) * 4 > wr->cap_seats * 3) {
        struct seat **old = wr->seats;
        size_t n = wr->cap_seats;
        wr->cap_seats = MAX(n * 2, 16);
        wr->seats = xcalloc(wr->cap_seats, sizeof(struct seat *));
        for (size_t i = 0; i < n; i++) {
            if (old[i] != NULL) {
                wr->seats[slot_of(wr, old[i]->wd)] = old[i];
            }
        }
        free(old);
    }
    size_t i = slot_of(wr, wd);
    assert(wd >= 0 && s->wd < 0);
    wr->n_seats += wr->seats[i] == NULL;
    s->wd = wd;
    s->next = wr->seats[i];
    wr->seats[i] = s;
    uint64_t last = wr->flooded; // event of `wd`
    vec_foreach (it, &wr->strays) {
        last = it->wd == wd ? it->event : last;
    }
    if (last > began) {
        on_seat_event(s, IN_MOVED_FROM, NULL);
    }
}

void notify__unseat(struct watcher *wr, struct seat *s)
{
    if (s->wd >= 0 && unlist(wr, s)) {
        inotify_rm_watch(wr->fd, s->wd);
    }
    s->wd = -1;
}

void notify__unwanted(struct watcher *wr, int wd)
{
    if (wd >= 0 && seats_on(wr, wd) == NULL) {
        inotify_rm_watch(wr->fd, wd);
    }
}

void notify__anchors_set(struct watcher *wr, const struct errand *t, uint64_t began)
{
    struct anchor **list = t->file != NULL ? &t->file->anchors : &t->dir->anchors;
    struct anchor *old = *list; // left last, so that what both have in common stays watched
    *list = NULL;
    for (size_t i = 0; i < t->hops.n; i++) {
        const struct hop *hop = &t->hops.p[i];
        if (hop->wd < 0) {
            continue;
        }
        struct anchor **at = &old, *a;
        while (*at != NULL && ((*at)->seat.wd != hop->wd || strcmp((*at)->name, hop->name) != 0)) {
            at = &(*at)->next;
        }
        a = *at;
        if (a != NULL) {
            *at = a->next;
        } else {
            size_t n = strlen(hop->name) + 1;
            a = xcalloc(1, sizeof *a + n);
            a->seat = (struct seat){.wd = -1, .kind = SEAT_ANCHOR};
            a->dir = t->file == NULL ? t->dir : NULL;
            a->file = t->file;
            memcpy(a->name, hop->name, n);
        }
        a->next = *list;
        *list = a;
        notify__seat(wr, &a->seat, hop->wd, began);
    }
    notify__anchors_drop(wr, &old);
}

void notify__anchors_drop(struct watcher *wr, struct anchor **list)
{
    while (*list != NULL) {
        struct anchor *a = *list;
        *list = a->next;
        notify__unseat(wr, &a->seat);
        free(a);
    }
}
