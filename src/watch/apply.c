// What a job found, put into the tree, on the loop.
//
//     scan ─> seat ─> merge names ─┬─ new or other directory ─> queued
//                                  ├─ new or other file ──────> touched (settle.c)
//                                  └─ no longer there ────────> files touched as gone
//     look ─> compare hash ───────> change for the next batch
//
// Events were drained just before, so the tree may be newer than what the job saw. Hence the one rule of this
// file: leave alone what waits for another scan or look; the later one decides.
//
// A directory that is gone keeps its files until each of them was looked at: when it returns within REST_MS,
// as whole-directory replaces do, only what really differs is reported.

#include <assert.h>
#include <errno.h>

#include "watch/watch_int.h"

static bool is_absent(int rc)
{
    return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -ENAMETOOLONG;
}

static bool is_refused(int rc)
{
    return rc == -EACCES || rc == -EPERM;
}

static void unwanted(struct watcher *wr, const struct errand *t)
{
    notify__unwanted(wr, t->wd);
    for (size_t i = 0; i < t->hops.n; i++) {
        notify__unwanted(wr, t->hops.p[i].wd);
    }
}

// ---- scans -----------------------------------------------------------------------------------

static void file_lost(struct watch_file *f)
{
    if (f->hold != HOLD_NONE) {
        return;
    }
    if ((f->flags & FILE_KNOWN) != 0) {
        settle__touch(f, HOLD_GONE);
    } else {
        tree__file_drop(f);
    }
}

/// `d` is not there: no events, no directories below; its files will be looked at. It is freed when nothing is
/// left of it, unless its anchors wait for its return; without `waits` they do not.
static void dir_lost(struct dir *d, bool waits)
{
    if (!waits) {
        notify__anchors_drop(d->watch->owner, &d->anchors);
    }
    notify__unseat(d->watch->owner, &d->seat);
    d->dev = d->ino = 0;
    for (uint32_t i = d->n_files; i-- > 0;) {
        file_lost(d->files[i]);
    }
    for (uint32_t i = d->n_dirs; i-- > 0;) {
        dir_lost(d->dirs[i], false);
    }
    tree__dir_sweep(d, false);
    if (d->parent != NULL && d->anchors == NULL && d->n_files == 0 && d->n_dirs == 0) {
        tree__dir_drop(d);
    }
}

/// True when a link leads back to where we came from.
static bool is_loop(const struct dir *d, const struct watch_stamp *found)
{
    for (const struct dir *up = d->parent; up != NULL; up = up->parent) {
        if (up->ino == found->ino && up->dev == found->dev) {
            return true;
        }
    }
    return false;
}

static void merge_dir(struct dir *d, const struct watch_entry *en)
{
    struct dir *child = tree__dir(d, en->name, true);
    if (child == NULL) {
        watch__degraded(d->watch->owner, d->watch->opts.path, ERR_TOO_LARGE);
        return;
    }
    uint8_t linked = en->kind != ENTRY_DIR ? DIR_LINKED : 0;
    bool same =
        child->seat.wd >= 0 || (child->seat.flags & DIR_SWEPT) != 0 || child->anchors != NULL;
    same = same && child->ino == en->ino && (child->seat.flags & DIR_LINKED) == linked;
    child->seat.flags = (uint8_t)((child->seat.flags & ~DIR_LINKED) | linked | DIR_LISTED);
    if (!same) {
        watch__queue_scan(child);
    }
}

static void merge_file(struct dir *d, const struct watch_entry *en)
{
    struct watch_file *f = tree__file(d, en->name, true);
    bool known = (f->flags & FILE_KNOWN) != 0;
    bool same = en->kind == ENTRY_DANGLING
                    ? !known && f->anchors != NULL
                    : known && memcmp(&f->stamp, &en->stamp, sizeof f->stamp) == 0;
    f->flags = (uint8_t)((f->flags & ~FILE_PROBE) | FILE_LISTED);
    bool blind = (f->flags & FILE_BLIND) != 0; // the way to its target is found anew with each look
    if ((!same || blind) && f->hold == HOLD_NONE) {
        settle__touch(f, HOLD_SEEN);
    }
}

/// Take note of what was not listed. True when a file here gives no events.
static bool merge_rest(struct dir *d)
{
    bool blind = false;
    for (uint32_t i = d->n_files; i-- > 0;) {
        struct watch_file *f = d->files[i];
        bool listed = (f->flags & FILE_LISTED) != 0;
        f->flags &= (uint8_t)~FILE_LISTED;
        blind = blind || (f->flags & FILE_BLIND) != 0;
        if (!listed) {
            file_lost(f);
        }
    }
    for (uint32_t i = d->n_dirs; i-- > 0;) {
        struct dir *child = d->dirs[i];
        bool keep = (child->seat.flags & (DIR_LISTED | DIR_QUEUED)) != 0;
        child->seat.flags &= (uint8_t)~DIR_LISTED;
        if (!keep) {
            dir_lost(child, false);
        }
    }
    return blind;
}

static void apply_found(struct dir *d, const struct errand *t, uint64_t began)
{
    struct watcher *wr = d->watch->owner;
    d->dev = t->found.dev;
    d->ino = t->found.ino;
    if (t->wd >= 0) {
        notify__seat(wr, &d->seat, t->wd, began);
    } else {
        notify__unseat(wr, &d->seat);
    }
    for (size_t i = 0; i < t->entries.n; i++) {
        const struct watch_entry *en = &t->entries.p[i];
        // a link to nothing waits as a file when its name matches, else as a directory
        if (en->kind == ENTRY_FILE ||
            (en->kind == ENTRY_DANGLING && errand__matches(d->watch, en->name))) {
            merge_file(d, en);
        } else {
            merge_dir(d, en);
        }
    }
    tree__dir_sweep(d, merge_rest(d) || t->blind);
}

static void apply_scan(struct watch *w, struct errand *t, uint64_t began)
{
    struct dir *d = t->dir;
    struct watcher *wr = w->owner;
    assert((d->seat.flags & DIR_BUSY) != 0);
    d->seat.flags &= (uint8_t)~DIR_BUSY;
    wr->stats.scans++;
    if ((d->seat.flags & DIR_DEAD) != 0) {
        unwanted(wr, t);
        tree__dir_release(d);
        return;
    }
    notify__anchors_set(wr, t, began);
    if (t->rc == 0 && !is_loop(d, &t->found)) {
        apply_found(d, t, began);
        return;
    }
    notify__unwanted(wr, t->wd);
    if ((d->seat.flags & DIR_QUEUED) != 0) {
        return;
    }
    if (t->rc != 0 && !is_absent(t->rc)) {
        if (!is_refused(t->rc)) { // refused: its rights must change first, and that is an event
            tree__dir_sweep(d, true);
        }
    } else if (t->linked && t->rc == -ENOTDIR && errand__matches(w, d->name)) {
        settle__touch(tree__file(d->parent, d->name, true), HOLD_SEEN); // it leads to a file now
        dir_lost(d, false);
    } else {
        bool waits = d->parent == NULL || d->anchors != NULL;
        dir_lost(d, true);
        if (waits) {
            tree__dir_sweep(d, t->blind); // it may come back without an event
        }
    }
}

// ---- looks -----------------------------------------------------------------------------------

static void report(struct watch *w, const struct errand *t, enum watch_kind kind)
{
    struct watch_change c = {.path = arena_strdup(&w->arena, str_of(t->path)), .kind = kind};
    if (kind != WATCH_DELETED) {
        c.size = t->found.size;
        c.ctime_ns = t->found.ctime;
        memcpy(c.hash, t->hash, sizeof c.hash);
        if (t->bytes != NULL) {
            c.bytes = arena_str(&w->arena, (struct str){t->bytes, t->found.size});
        }
    }
    struct watch_change *old = NULL; // one that waits in the inventory
    for (size_t i = 0; i < w->changes.n && !w->opened && kind != WATCH_CREATED; i++) {
        if (strcmp(w->changes.p[i].path, t->path) == 0) {
            old = &w->changes.p[i];
        }
    }
    if (old == NULL) {
        vec_push(&w->changes, c);
    } else if (kind == WATCH_DELETED) {
        *old = *vec_last(&w->changes);
        w->changes.n--;
    } else {
        c.kind = WATCH_CREATED;
        *old = c;
    }
}

static void look_failed(struct watch *w, struct watch_file *f, const struct errand *t)
{
    struct dir *d = f->dir;
    if (!is_absent(t->rc)) {
        if (!is_refused(t->rc)) {
            settle__hold(f, HOLD_WRITING, (uint64_t)REST_MS << MIN(f->tries, 5));
            f->tries = (uint8_t)MIN(f->tries + 1, 5);
        }
        return;
    }
    if ((f->flags & FILE_KNOWN) != 0) {
        report(w, t, WATCH_DELETED);
    }
    f->flags &= (uint8_t)~FILE_KNOWN;
    f->stamp = (struct watch_stamp){0};
    if (f->anchors == NULL) { // a dangling link is still waited for
        tree__file_drop(f);
        tree__dir_prune(d);
    }
}

static void look_held(struct watch *w, struct watch_file *f, const struct errand *t)
{
    if (f->seen_at == 0 || memcmp(&f->seen, &t->found, sizeof f->seen) != 0) {
        f->seen = t->found;
        f->seen_at = loop_now(w->owner->loop);
    }
    settle__hold(f, HOLD_SEEN, MAX(w->opts.pace.debounce_ms, (unsigned)REST_MS));
}

static void look_dir(struct watch *w, struct watch_file *f, const struct errand *t)
{
    struct dir *parent = f->dir, *d = NULL;
    if ((f->flags & FILE_KNOWN) != 0) {
        report(w, t, WATCH_DELETED);
    }
    if (w->opts.recursive && errand__wanted(w, t->path, true)) {
        d = tree__dir(parent, f->name, true);
    }
    tree__file_drop(f);
    if (d != NULL) {
        d->seat.flags |= t->is_link ? DIR_LINKED : 0;
        watch__queue_scan(d);
    }
}

static void look_read(struct watch *w, struct watch_file *f, const struct errand *t)
{
    bool known = (f->flags & FILE_KNOWN) != 0;
    w->owner->stats.reads++;
    if (!known || memcmp(f->hash, t->hash, sizeof f->hash) != 0 || t->found.size > WATCH_HASH_MAX) {
        report(w, t, known ? WATCH_CHANGED : WATCH_CREATED);
    }
    f->flags |= FILE_KNOWN;
    f->stamp = t->found;
    f->seen_at = 0;
    f->tries = 0;
    memcpy(f->hash, t->hash, sizeof f->hash);
}

static void (*const look_apply[])(struct watch *w, struct watch_file *f, const struct errand *t) = {
    [LOOK_FAILED] = look_failed, [LOOK_SAME] = NULL,      [LOOK_HELD] = look_held,
    [LOOK_DIR] = look_dir,       [LOOK_READ] = look_read,
};

static void apply_look(struct watch *w, struct errand *t, uint64_t began)
{
    struct watch_file *f = t->file;
    assert((f->flags & FILE_BUSY) != 0);
    f->flags &= (uint8_t)~FILE_BUSY;
    if ((f->flags & FILE_DEAD) != 0) {
        unwanted(w->owner, t);
        tree__file_release(f);
        return;
    }
    notify__anchors_set(w->owner, t, began);
    f->flags = (uint8_t)((f->flags & ~FILE_BLIND) | (t->blind ? FILE_BLIND : 0));
    if (t->blind) {
        tree__dir_sweep(f->dir, true);
    }
    // touched meanwhile: a later look decides, but a whole file is reported even if it is saved
    // without end
    bool whole = t->verdict == LOOK_READ && (f->hold == HOLD_READY || f->hold == HOLD_SEEN);
    if (t->verdict != LOOK_SAME && (f->hold == HOLD_NONE || whole)) {
        look_apply[t->verdict](w, f, t);
    }
}

void apply__errand(struct watch *w, struct errand *t, uint64_t began)
{
    int rc = t->wd;
    for (size_t i = 0; i < t->hops.n; i++) {
        rc = t->hops.p[i].wd == -ENOSPC ? -ENOSPC : rc;
    }
    if (w->cb != NULL && (rc == -ENOSPC || rc == -ENOMEM)) {
        watch__degraded(w->owner, t->path, rc);
    }
    if (t->file != NULL) {
        apply_look(w, t, began);
    } else {
        apply_scan(w, t, began);
    }
}
