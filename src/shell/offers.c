// Files between the wrapper and its shell.
//
//     add ──> file NAME ──> `pending` replaced ──> (signal) ──> shell: NAME, then ack.ID
//                                                                  │ directory event
//     acked <── NAME and ack.ID removed, `pending` replaced or removed <──┘
//
// On a full disk even a message could not be written, so one file is kept only to be deleted then.
//
// Every file is written under another name and renamed, so the shell never sees half of one. An event says
// only that something happened; what it was is found by looking for the answers that are due.

#include "shell/offers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "base/visible.h"
#include "env/env.h"
#include "loop/timer.h"

enum { POLL_MS = 200, ANSWER_MAX = 64, SPARE_BYTES = 16384 };

static const char spare[] = "spare";

struct offer {
    uint64_t id;
    const char *kind;
    char *slot; // of those with the same only the newest waits; NULL: all do
    char *file; // of ours, or NULL
    char *arg;  // what follows it on the line, or NULL
    bool stale; // another is about to take its place
};

struct offers {
    const struct shell_dir *dir; // borrowed
    struct offers_cb cb;
    void *arg; // borrowed
    vec(struct offer) waiting;
    uint64_t last_id;
    uv_fs_event_t events;
    struct timer poll; // instead of events
    bool closed;
};

static void remove_file(const struct offers *o, const char *name)
{
    unlinkat(o->dir->fd, name, 0); // gone already is fine
}

static void drop(struct offers *o, size_t i)
{
    assert(i < o->waiting.n);
    struct offer *it = &o->waiting.p[i];
    if (it->file != NULL) {
        remove_file(o, it->file);
    }
    free(it->slot);
    free(it->file);
    free(it->arg);
    vec_remove(&o->waiting, i);
}

/// Make `pending` say what waits.
static int publish(struct offers *o, struct err *e)
{
    assert(!o->closed);
    struct buf text = {.max = SIZE_MAX};
    if (o->waiting.n == 0) {
        remove_file(o, "pending");
        return 0;
    }
    vec_foreach (it, &o->waiting) {
        if (it->stale) {
            continue;
        }
        buf_addf(&text, "%llu %s", (unsigned long long)it->id, it->kind);
        buf_addf(&text, it->file != NULL ? " %s" : "%s", it->file != NULL ? it->file : "");
        buf_addf(&text, it->arg != NULL ? " %s\n" : "%s\n", it->arg != NULL ? it->arg : "");
    }
    int rc = env_render_write(o->dir->path, "pending", buf_str(&text), e);
    buf_fini(&text);
    return rc;
}

// ---- answers -------------------------------------------------------------------------------

/// Take the number that the shell wrote into `name`. False while it is not whole.
static bool take_answer(const struct offers *o, const char *name, int64_t *out)
{
    char text[ANSWER_MAX];
    int fd = openat(o->dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (n <= 0 || text[n - 1] != '\n') {
        return false;
    }
    remove_file(o, name);
    if (!str_to_i64(str_trim((struct str){text, (size_t)n}), out)) {
        *out = -1;
    }
    return true;
}

/// One answer that has come, if any; its offer is dropped.
static bool take_next(struct offers *o, uint64_t *id, int *status)
{
    char name[40];
    int64_t value;
    for (size_t i = 0; i < o->waiting.n; i++) {
        *id = o->waiting.p[i].id;
        snprintf(name, sizeof name, "ack.%llu", (unsigned long long)*id);
        if (take_answer(o, name, &value)) {
            *status = (int)value;
            drop(o, i);
            return true;
        }
    }
    return false;
}

/// A callback may add offers, and may close us: the memory stays until the handle has closed.
static void look(struct offers *o)
{
    uint64_t id;
    int status;
    int64_t ignored;
    bool any = false;
    while (!o->closed && take_next(o, &id, &status)) {
        any = true;
        o->cb.acked(id, status, o->arg);
    }
    if (any && !o->closed && publish(o, NULL) < 0) {
        remove_file(o, "pending"); // the old one is harmless too, but names files that are gone
    }
    if (!o->closed && take_answer(o, "ask.reload", &ignored)) {
        o->cb.asked(o->arg);
    }
}

static void on_event(uv_fs_event_t *h, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    look(h->data);
}

static void on_poll(void *arg)
{
    struct offers *o = arg;
    timer_start(&o->poll, POLL_MS); // first: looking may close us
    look(o);
}

// ---- offers --------------------------------------------------------------------------------

/// `text` as one line of `pending`, safe for a terminal.
static char *one_line(struct str text)
{
    struct buf line = {.max = SIZE_MAX};
    visible_add(&line, text, false);
    return buf_take(&line, NULL);
}

static void set_stale(struct offers *o, const char *slot, bool stale)
{
    vec_foreach (it, &o->waiting) {
        bool same = slot != NULL && it->slot != NULL && strcmp(it->slot, slot) == 0;
        it->stale = same ? stale : it->stale;
    }
}

/// Add one whose file, if any, is written, in place of what waits in its slot. The strings `file` and
/// `arg` become ours, `slot` is copied. Nothing is taken away before the new list is in place.
static int add(struct offers *o, struct offer it, const char *slot, struct err *e)
{
    assert(it.id == 0 && o->last_id != 0); // ids only grow, and none is 0
    it.id = o->last_id;
    it.slot = slot != NULL ? xstrdup(slot) : NULL;
    set_stale(o, slot, true);
    vec_push(&o->waiting, it);
    int rc = publish(o, e);
    if (rc < 0) {
        drop(o, o->waiting.n - 1);
        set_stale(o, slot, false);
    }
    for (size_t i = o->waiting.n; i > 0; i--) {
        if (o->waiting.p[i - 1].stale) {
            drop(o, i - 1);
        }
    }
    return rc;
}

static int add_file(struct offers *o, const char *kind, const char *slot, char *arg,
                    struct str text, struct err *e)
{
    char *name = xasprintf("%s.%llu", kind, (unsigned long long)++o->last_id);
    int rc = env_render_write(o->dir->path, name, text, e);
    if (rc < 0) {
        free(name);
        free(arg);
        return rc;
    }
    return add(o, (struct offer){.kind = kind, .file = name, .arg = arg}, slot, e);
}

/// Keep a file that can be removed when the disk is full. If it is full now, a later call makes the file.
static void keep_spare(struct offers *o)
{
    static const char zeros[SPARE_BYTES];
    if (faccessat(o->dir->fd, spare, F_OK, 0) != 0) {
        int rc = env_render_write(o->dir->path, spare, (struct str){zeros, sizeof zeros}, NULL);
        (void)rc;
    }
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

struct offers *offers_open(struct loop *l, const struct shell_dir *d, const struct offers_cb *cb,
                           void *arg)
{
    struct offers *o = xcalloc(1, sizeof *o);
    *o = (struct offers){.dir = d, .cb = *cb, .arg = arg};
    timer_init(&o->poll, l, on_poll, o);
    int rc = uv_fs_event_init(&l->uv, &o->events); // touches nothing yet
    o->events.data = o;
    if (rc < 0 || uv_fs_event_start(&o->events, on_event, d->path, 0) < 0) {
        timer_start(&o->poll, POLL_MS);
    }
    keep_spare(o);
    return o;
}

int offers_env(struct offers *o, struct str text, uint64_t *id, struct err *e)
{
    int rc = add_file(o, "env", "env", NULL, text, e);
    if (rc == 0) {
        *id = o->last_id;
        keep_spare(o);
    }
    return rc;
}

int offers_task(struct offers *o, const char *name, struct str text, uint64_t *id, struct err *e)
{
    int rc = add_file(o, "task", NULL, one_line(str_of(name)), text, e);
    *id = rc == 0 ? o->last_id : *id;
    return rc;
}

size_t offers_count_task(const struct offers *o, const char *name)
{
    char *line = one_line(str_of(name));
    size_t n = 0;
    vec_foreach (it, &o->waiting) {
        n += strcmp(it->kind, "task") == 0 && strcmp(it->arg, line) == 0;
    }
    free(line);
    return n;
}

int offers_note(struct offers *o, const char *slot, struct str text, struct err *e)
{
    o->last_id++;
    int rc = add(o, (struct offer){.kind = "note", .arg = one_line(text)}, slot, e);
    if (rc == -ENOSPC && unlinkat(o->dir->fd, spare, 0) == 0) {
        rc = add(o, (struct offer){.kind = "note", .arg = one_line(text)}, slot, e);
    }
    return rc;
}

void offers_close(struct offers *o)
{
    if (o == NULL) {
        return;
    }
    o->closed = true;
    while (o->waiting.n != 0) {
        drop(o, o->waiting.n - 1);
    }
    vec_fini(&o->waiting);
    remove_file(o, "pending");
    remove_file(o, spare);
    timer_stop(&o->poll);
    uv_close((uv_handle_t *)&o->events, on_closed);
}
