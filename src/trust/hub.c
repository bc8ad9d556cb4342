// Trust in the hub.
//
//     POST /trust ──> job on the lane: read trust.json ─ find ─ scan ─ add ──┐
//     file changed ─> job on the lane: read trust.json ──────────────────────┤
//                                                                            v
//     loop:                          trust_adopt ── listeners ── answer to the caller
//
// The lane has one thread: jobs run in order, so an older reading never replaces a newer one.
//
// A file that cannot be read for the moment (too many open files, a failing disk) changes nothing: what was
// trusted stays trusted. A file that is damaged, or that others may write, ends all trust.

#include "trust/hub.h"

#include <assert.h>

#include "base/log.h"
#include "loop/work.h"

struct trust_hub {
    char *home;
    struct trust *book;
    struct lane *lane;
    size_t jobs;
    bool closing;
};

struct trust_job {
    struct trust_hub *h;
    int (*act)(struct trust_job *j); // NULL: only read
    char *dir;
    bool follow, dry_run;
    trust_hub_cb *cb;
    void *arg;
    // filled in on the lane
    struct trust *fresh;
    int opened;
    int status;
    struct err err;
    struct buf body;
};

// ---- on the lane ---------------------------------------------------------------------------

static int act_add(struct trust_job *j)
{
    struct trust_place p;
    struct trust_scan s;
    int rc = trust_place_of(&p, j->h->home, j->dir, &j->err);
    if (rc < 0) {
        return rc;
    }
    rc = trust_scan_in(&s, p.root, j->dir, &j->err);
    if (rc == 0) {
        trust_write_scan(j->fresh, &p, &s, j->follow, j->dry_run, &j->body);
    }
    if (rc == 0 && !j->dry_run && (s.items.n != 0 || j->follow)) {
        rc = trust_add(j->fresh, &p, s.items.p, s.items.n, j->follow, &j->err);
    }
    trust_scan_fini(&s);
    trust_place_fini(&p);
    return rc;
}

static int act_remove(struct trust_job *j)
{
    struct trust_place p;
    int rc = trust_place_named(&p, j->h->home, j->dir, &j->err);
    if (rc == 0) {
        rc = trust_remove(j->fresh, &p, &j->err);
    }
    if (rc == 0) {
        trust_write_removed(&p, &j->body);
    }
    trust_place_fini(&p);
    return rc;
}

static void work(void *arg)
{
    struct trust_job *j = arg;
    j->opened = j->status = trust_open(&j->fresh, j->h->home, &j->err);
    if (j->act != NULL && (j->status == 0 || j->status == ERR_CORRUPT)) { // set aside: begin anew
        j->status = j->act(j);
    }
}

// ---- on the loop ---------------------------------------------------------------------------

static void trust_hub_free(struct trust_hub *h)
{
    trust_close(h->book);
    free(h->home);
    free(h);
}

static void done(void *arg)
{
    struct trust_job *j = arg;
    struct trust_hub *h = j->h;
    if (j->opened < 0) {
        log_warn(LOG_HUB, "trust=unread reason=%s", LOGQ(str_of(j->err.msg)).z);
    }
    if (j->opened == 0 || j->opened == ERR_CORRUPT || j->opened == ERR_DENIED ||
        j->opened == ERR_UNSUPPORTED) { // any other fault is of the moment
        trust_adopt(h->book, j->fresh);
    } else {
        trust_close(j->fresh);
    }
    if (j->status == 0 && j->act == NULL) {
        trust_write(h->book, &j->body);
    }
    if (j->cb != NULL) {
        j->cb(j->arg, j->status, buf_str(&j->body), j->status < 0 ? &j->err : NULL);
    }
    buf_fini(&j->body);
    free(j->dir);
    free(j);
    assert(h->jobs != 0);
    if (--h->jobs == 0 && h->closing) {
        trust_hub_free(h);
    }
}

static void submit(struct trust_hub *h, const struct trust_job *like, struct str dir)
{
    struct trust_job *j = xmalloc(sizeof *j);
    assert(!h->closing);
    *j = *like;
    j->h = h;
    j->dir = str_dup(dir);
    j->body.max = SIZE_MAX;
    h->jobs++;
    work_submit(h->lane, 0, work, done, j);
}

struct trust_hub *trust_hub_open(struct loop *l, const char *home)
{
    struct err e;
    struct trust_hub *h = xcalloc(1, sizeof *h);
    h->home = xstrdup(home);
    h->lane = lane_open(l, "trust", 1);
    if (trust_open(&h->book, home, &e) < 0) {
        log_warn(LOG_HUB, "trust=none reason=%s", LOGQ(str_of(e.msg)).z);
    }
    return h;
}

void trust_hub_close(struct trust_hub *h)
{
    if (h == NULL) {
        return;
    }
    h->closing = true;
    lane_close(h->lane);
    if (h->jobs == 0) {
        trust_hub_free(h);
    }
}

struct trust *trust_hub_book(struct trust_hub *h)
{
    return h->book;
}

void trust_hub_reread(struct trust_hub *h, trust_hub_cb *cb, void *arg)
{
    submit(h, &(struct trust_job){.cb = cb, .arg = arg}, STR_NULL);
}

void trust_hub_add(struct trust_hub *h, struct str dir, bool follow, bool dry_run, trust_hub_cb *cb,
                   void *arg)
{
    struct trust_job add = {
        .act = act_add, .follow = follow, .dry_run = dry_run, .cb = cb, .arg = arg};
    submit(h, &add, dir);
}

void trust_hub_remove(struct trust_hub *h, struct str dir, trust_hub_cb *cb, void *arg)
{
    submit(h, &(struct trust_job){.act = act_remove, .cb = cb, .arg = arg}, dir);
}
