// What the user trusts: reading, asking, changing.
//
// A place is trusted by its content: each item's bytes by their hash, and every hash for good. So switching to an
// older branch needs no question, and pulling another author's new code does. `follow` is the exception, for the
// user's own repositories.
//
// Every change is read, change, replace under a lock, so that two commands at once lose nothing:
//
//     flock trust.json.lock ── read trust.json ── change ── write it anew (0600, synced, renamed)
//
// The lock is a separate file: a lock on a file that is replaced by rename guards nothing. Readers take none.
// A damaged file is set aside under the lock, after another look: a good one may just have replaced it.
//
// Invariants:
//   - what is not known for certain is not trusted: every failure of reading is an empty book.
//   - trust_add() stores contents before it writes hashes: what is trusted can be found again.
//   - a `struct trust` changes only by trust_add(), trust_remove() and trust_adopt().

#include "trust/trust.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "base/utf8.h"
#include "store/versions.h"
#include "trust/trust_int.h"

static struct trust *trust_new(const char *home)
{
    struct trust *t = xcalloc(1, sizeof *t);
    char *real = realpath(home, NULL);
    t->home = xstrdup(home);
    t->worktrees = path_join(real != NULL ? real : home, "worktrees");
    free(real);
    return t;
}

static char *file_of(const struct trust *t)
{
    return path_join(t->home, "trust.json");
}

/// Returns the descriptor that holds the lock; closing it lets go.
static int lock(const struct trust *t, struct err *e)
{
    char *path = file_of(t);
    int rc = path_lock(path, e);
    free(path);
    return rc;
}

/// Only the user may say what is trusted.
static int check_owner(const char *path, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return err_sys(e, "cannot look at '%s'", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_DENIED, "'%s' is not a regular file", path);
    }
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        return err_set(e, ERR_DENIED,
                       "others may write '%s', so nothing is trusted; make it yours and chmod 600",
                       path);
    }
    return 0;
}

/// Fill `out` with the file; a missing one leaves it empty.
static int read_text(const char *path, struct buf *out, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0) {
        return err_sys(e, "cannot open '%s'", path);
    }
    int rc = check_owner(path, fd, e);
    char chunk[4096];
    for (ssize_t n = 1; rc == 0 && n != 0;) {
        n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno != EINTR) {
            rc = err_sys(e, "cannot read '%s'", path);
        }
        buf_add(out, chunk, n > 0 ? (size_t)n : 0);
        if (!buf_ok(out)) {
            rc = err_set(e, ERR_CORRUPT, "'%s' is damaged: larger than %d MiB", path,
                         TRUST_MAX >> 20);
        }
    }
    if (rc == 0 && out->n == 0) {
        rc = err_set(e, ERR_CORRUPT, "'%s' is damaged: it is empty", path);
    }
    close(fd);
    return rc;
}

static int load(struct trust *t, struct err *e)
{
    struct buf text = {.max = TRUST_MAX};
    struct err why;
    char *path = file_of(t);
    int rc = read_text(path, &text, e);
    if (rc == 0 && text.n != 0) {
        rc = trust__decode(&t->book, buf_str(&text), &why);
        if (rc < 0) {
            err_set(e, rc, "cannot use '%s': %s; nothing is trusted", path, why.msg);
        }
    }
    buf_fini(&text);
    free(path);
    return rc;
}

/// Move a damaged file out of the way, if it still is one. Returns 0 when `t` could be read after all.
static int set_aside(struct trust *t, struct err *e)
{
    struct err why;
    int fd = lock(t, e);
    if (fd < 0) {
        return fd;
    }
    int rc = load(t, &why);
    if (rc == ERR_CORRUPT) {
        char *path = file_of(t);
        char *to = xasprintf("%s.damaged-%llu", path, (unsigned long long)time_wall_ms());
        rc = rename(path, to) == 0
                 ? err_set(e, ERR_CORRUPT, "%s; it was set aside as '%s'", why.msg, to)
                 : err_sys(e, "%s; cannot set it aside", why.msg);
        free(to);
        free(path);
    } else if (rc < 0 && e != NULL) {
        *e = why;
    }
    close(fd);
    return rc;
}

static int save(struct trust *t, struct err *e)
{
    struct buf text = {.max = TRUST_MAX};
    char *path = file_of(t);
    trust__encode(&t->book, &text);
    int rc = buf_ok(&text)
                 ? path_write_atomic(path, buf_str(&text), 0600, e)
                 : err_set(e, ERR_TOO_LARGE,
                           "'%s' would exceed %d MiB; remove places with 'afloat untrust'", path,
                           TRUST_MAX >> 20);
    buf_fini(&text);
    free(path);
    return rc;
}

struct adding {
    struct trust__book *book;
    struct trust__item *item;
};

static void add_token(void *arg, const char *token)
{
    struct adding *a = arg;
    trust__add_hash(a->book, a->item, token);
}

/// The book that is in the file now, under the lock `*fd`.
static int begin(struct trust **fresh, const struct trust *t, int *fd, struct err *e)
{
    *fresh = NULL;
    *fd = -1;
    int rc = path_mkdirs(t->home, 0700, e);
    rc = rc == 0 ? *fd = lock(t, e) : rc;
    if (rc < 0) {
        return rc;
    }
    *fresh = trust_new(t->home);
    return load(*fresh, e);
}

/// Write what was changed; `t` becomes it when all went well.
static int end(struct trust *t, struct trust *fresh, int fd, int rc, struct err *e)
{
    assert(fd >= 0 || rc < 0);
    rc = rc == 0 ? save(fresh, e) : rc;
    if (fd >= 0) {
        close(fd);
    }
    if (rc == 0) {
        trust_adopt(t, fresh);
    } else {
        trust_close(fresh);
    }
    return rc;
}

static bool same_books(const struct trust *a, const struct trust *b)
{
    struct buf x = {.max = SIZE_MAX}, y = {.max = SIZE_MAX};
    trust__encode(&a->book, &x);
    trust__encode(&b->book, &y);
    bool same = str_eq(buf_str(&x), buf_str(&y));
    buf_fini(&x);
    buf_fini(&y);
    return same;
}

int trust_open(struct trust **out, const char *home, struct err *e)
{
    struct trust *t = *out = trust_new(home);
    int rc = load(t, e);
    return rc == ERR_CORRUPT ? set_aside(t, e) : rc;
}

void trust_close(struct trust *t)
{
    if (t != NULL) {
        trust__book_fini(&t->book);
        vec_fini(&t->listeners);
        free(t->worktrees);
        free(t->home);
        free(t);
    }
}

enum trust_answer trust_ask(const struct trust *t, const struct trust_place *p,
                            enum trust_kind kind, const char *path, const char *hash)
{
    const struct trust__place *place = trust__find(&t->book, p->place);
    const struct trust__item *it = place != NULL ? trust__find_item(place, kind, path) : NULL;
    if (it != NULL && str_lookup(str_of(hash), it->hashes.p, it->hashes.n) >= 0) {
        return TRUST_YES;
    }
    return trust_follows(t, p) ? TRUST_FOLLOWED : TRUST_NO;
}

bool trust_allows(const struct trust *t, const struct trust_place *p, enum trust_kind kind,
                  const char *path, const struct tree *tree)
{
    return trust_allows_hash(t, p, kind, path, tree->hash, tree->foreign != NULL);
}

bool trust_allows_hash(const struct trust *t, const struct trust_place *p, enum trust_kind kind,
                       const char *path, const char *hash, bool foreign)
{
    enum trust_answer a = trust_ask(t, p, kind, path, hash);
    return a == TRUST_YES || (a == TRUST_FOLLOWED && !foreign);
}

bool trust_knows(const struct trust *t, const struct trust_place *p)
{
    return trust__find(&t->book, p->place) != NULL;
}

bool trust_follows(const struct trust *t, const struct trust_place *p)
{
    const struct trust__place *place = trust__find(&t->book, p->place);
    return place != NULL && place->follow && !p->foreign &&
           path_below(t->worktrees, p->root) == NULL;
}

const char *trust_followed(const struct trust *t, size_t i)
{
    vec_foreach (p, &t->book.places) {
        if ((*p)->follow && i-- == 0) {
            return (*p)->path;
        }
    }
    return NULL;
}

const char *trust_last(const struct trust *t, const struct trust_place *p, enum trust_kind kind,
                       const char *path)
{
    const struct trust__place *place = trust__find(&t->book, p->place);
    const struct trust__item *it = place != NULL ? trust__find_item(place, kind, path) : NULL;
    return it != NULL ? *vec_last(&it->hashes) : NULL;
}

bool trust_keeps(const struct trust *t, const char *hash)
{
    vec_foreach (p, &t->book.places) {
        vec_foreach (it, &(*p)->items) {
            if (strcmp(*vec_last(&(*it)->hashes), hash) == 0) {
                return true;
            }
        }
    }
    return false;
}

int trust_add(struct trust *t, const struct trust_place *p, const struct trust_item *items,
              size_t n, bool follow, struct err *e)
{
    struct trust *fresh;
    int fd;
    if (!utf8_valid(str_of(p->place))) { // JSON could not say it
        return err_set(e, ERR_INVALID, "cannot trust a directory whose name is not UTF-8");
    }
    // store what is about to be trusted; the environment may hold secrets and is not copied
    char *dir = path_join(t->home, "state/versions");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (items[i].error == NULL && items[i].kind != TRUST_ENV) {
            rc = versions_put(dir, &items[i].tree, e);
        }
    }
    free(dir);
    if (rc < 0) {
        return rc;
    }
    rc = begin(&fresh, t, &fd, e);
    if (rc == 0) {
        struct trust__place *place = trust__place(&fresh->book, p->place);
        place->follow |= follow;
        for (size_t i = 0; i < n; i++) {
            if (items[i].error == NULL) {
                struct trust__item *it =
                    trust__item(&fresh->book, place, items[i].kind, items[i].path);
                struct adding add = {&fresh->book, it};
                if (it->kind == TRUST_ENV) { // before its hash: the last one is that of the bytes
                    trust__env_tokens(&items[i].tree, add_token, &add);
                }
                trust__add_hash(&fresh->book, it, items[i].tree.hash);
                it->trusted_at = time_wall_ms();
            }
        }
    }
    return end(t, fresh, fd, rc, e);
}

int trust_remove(struct trust *t, const struct trust_place *p, struct err *e)
{
    struct trust *fresh;
    int fd;
    if (!trust_knows(t, p)) {
        return err_set(e, ERR_NOT_FOUND, "'%s' is not trusted", p->place);
    }
    int rc = begin(&fresh, t, &fd, e);
    if (rc == 0 && !trust__forget(&fresh->book, p->place)) {
        rc = err_set(e, ERR_NOT_FOUND, "'%s' is not trusted", p->place);
    }
    return end(t, fresh, fd, rc, e);
}

void trust_listen(struct trust *t, trust_cb *cb, void *arg)
{
    struct trust__listener l = {cb, arg};
    vec_push(&t->listeners, l);
}

void trust_unlisten(struct trust *t, trust_cb *cb, void *arg)
{
    for (size_t i = 0; i < t->listeners.n; i++) {
        if (t->listeners.p[i].cb == cb && t->listeners.p[i].arg == arg) {
            vec_remove(&t->listeners, i);
            return;
        }
    }
}

void trust_adopt(struct trust *t, struct trust *fresh)
{
    assert(t != fresh);
    bool changed = !same_books(t, fresh);
    struct trust__book old = t->book;
    t->book = fresh->book;
    fresh->book = old;
    trust_close(fresh);
    for (size_t i = 0; changed && i < t->listeners.n; i++) {
        t->listeners.p[i].cb(t, t->listeners.p[i].arg);
    }
}
