// JSON documents by rename: choices.json, state/hub.json, metadata.json.
//
// Several parts of the hub keep a key each in one document (state/hub.json: the event-id mark, held
// versions). Each change is read, changed and renamed into place as a whole, so two at once would
// lose one of them. So each document has a queue, and one job at a time:
//
//     set a ─┐
//     set b ─┼─> [ set c, put ] ──> job: read file, apply in order, write beside, sync, rename
//     get ───┘        waiting                 the whole run shares one write
//
// The file is the only copy: nothing is cached, so a failed write has nothing to take back.
//
// Invariants:
//   - a document is in `busy` exactly while it has requests; `running` is what its job works on.
//   - a run holds either gets or changes, never both: a get never sees what is not on disk.
//   - a file that is not JSON is reported and left alone; fsck sets it aside.

#include "store/doc.h"

#include <assert.h>
#include <errno.h>

#include "base/fifo.h"
#include "base/json.h"
#include "base/path.h"

struct doc_req {
    struct doc_req *next;
    store_text_cb *got; // a get
    store_done *done;   // a change
    void *arg;
    bool whole; // put, else set
    struct str key, value;
    int status; // a change that cannot be applied fails alone
    struct err err;
};

struct doc {
    struct docs *docs;
    char *name, *path;
    fifo(struct doc_req) waiting;
    struct doc_req *running;
    // owned by the job while it runs, with the requests in `running`
    struct buf text;
};

static bool is_get(const struct doc_req *r)
{
    return r->got != NULL;
}

// ---- on the lane --------------------------------------------------------------------------

static int apply(struct json **root, struct arena *a, const struct doc_req *r, struct err *e)
{
    struct json *value = NULL;
    if (r->value.n != 0 || r->whole) {
        int rc = json_parse(&value, a, r->value, NULL, e);
        if (rc < 0) {
            return rc;
        }
    }
    if (r->whole) {
        *root = value;
        return 0;
    }
    if ((*root)->type != JSON_OBJ) {
        return err_set(e, ERR_INVALID, "it is not an object; 'afloat fsck --repair' sets it aside");
    }
    *root = json_with(a, *root, r->key, value);
    return 0;
}

static int save(struct doc *d, const struct json *root, struct err *e)
{
    struct buf out = {.max = DOC_MAX};
    json_write(&out, root, 2);
    int rc = buf_ok(&out)
                 ? doc_save(d->path, buf_str(&out), e)
                 : err_set(e, ERR_TOO_LARGE, "'%s' would be above %d bytes", d->name, DOC_MAX);
    buf_fini(&out);
    return rc;
}

static void fail_all(struct doc *d, int status, const struct err *e)
{
    for (struct doc_req *r = d->running; r != NULL; r = r->next) {
        if (r->status == 0) {
            r->status = status;
            r->err = *e;
        }
    }
}

static void change(struct doc *d, struct json *root, struct arena *a)
{
    struct err e;
    bool any = false; // if not, the file stays as it is, byte for byte
    for (struct doc_req *r = d->running; r != NULL; r = r->next) {
        r->status = apply(&root, a, r, &r->err);
        if (r->status < 0) {
            err_prefix(&r->err, "cannot change '%s'", d->name);
        }
        any = any || r->status == 0;
    }
    int rc = any ? save(d, root, &e) : 0;
    if (rc < 0) {
        fail_all(d, rc, &e);
    }
}

/// Read a document and parse it into `a`; an empty object when there is none.
static int load(const char *path, struct buf *out, struct arena *a, struct json **root,
                struct err *e)
{
    struct err why;
    int rc = path_read(path, out, &why);
    if (rc < 0 && rc != -ENOENT) {
        return e != NULL ? (*e = why, rc) : rc;
    }
    rc = json_parse(root, a, rc == 0 ? buf_str(out) : STR("{}"), NULL, &why);
    return rc == 0 ? 0
                   : err_set(e, ERR_CORRUPT,
                             "'%s' is damaged (%s); 'afloat fsck --repair' sets it aside", path,
                             why.msg);
}

static void work(void *arg)
{
    struct doc *d = arg;
    struct json *root;
    struct arena a = {0};
    struct err e;
    int rc = doc_name_valid(str_of(d->name))
                 ? load(d->path, &d->text, &a, &root, &e)
                 : err_set(&e, ERR_INVALID, "not a document's name: '%s'", d->name);
    if (rc < 0) {
        fail_all(d, rc, &e);
    } else if (!is_get(d->running)) {
        change(d, root, &a);
    }
    arena_fini(&a);
}

// ---- on the loop --------------------------------------------------------------------------

static void answer(struct doc *d, struct doc_req *r)
{
    const struct err *e = r->status < 0 ? &r->err : NULL;
    if (is_get(r)) {
        r->got(r->arg, r->status, r->status < 0 ? STR_NULL : str_trim(buf_str(&d->text)), e);
    } else if (r->done != NULL) {
        r->done(r->arg, r->status, e);
    }
    free(r);
}

static void doc_free(struct doc *d)
{
    buf_fini(&d->text);
    free(d->name);
    free(d->path);
    free(d);
}

static void done(void *arg);

static void start(struct doc *d)
{
    fifo(struct doc_req) run = {0};
    bool gets = is_get(d->waiting.head);
    while (d->waiting.head != NULL && is_get(d->waiting.head) == gets) {
        fifo_add(&run, fifo_take(&d->waiting));
    }
    d->running = run.head;
    buf_clear(&d->text);
    work_submit(d->docs->lane, map_hash(str_of(d->name)), work, done, d);
}

static void done(void *arg)
{
    struct doc *d = arg;
    struct docs *docs = d->docs;

    // `running` stays set meanwhile: a callback that asks again only queues
    for (struct doc_req *r = d->running, *next; r != NULL; r = next) {
        next = r->next;
        answer(d, r);
    }
    d->running = NULL;
    if (d->waiting.head != NULL) {
        start(d);
        return;
    }
    map_remove(&docs->busy, str_of(d->name));
    doc_free(d);
    if (docs->busy.n == 0) {
        docs->idle(docs->arg);
    }
}

static struct doc *find(struct docs *docs, struct str name)
{
    struct doc *d = map_get(&docs->busy, name);
    if (d == NULL) {
        d = xcalloc(1, sizeof *d);
        d->docs = docs;
        d->name = str_dup(name);
        d->path = path_join(docs->home, d->name);
        buf_init(&d->text, DOC_MAX);
        map_set(&docs->busy, name, d);
    }
    return d;
}

/// `key` and `value` are copied into the same block of memory, after the request.
static struct doc_req *queue(struct docs *docs, struct str name, struct str key, struct str value)
{
    struct doc *d = find(docs, name);
    struct doc_req *r = xcalloc(1, sizeof *r + key.n + value.n);
    char *copy = (char *)(r + 1);
    if (key.n != 0) {
        memcpy(copy, key.p, key.n);
    }
    if (value.n != 0) {
        memcpy(copy + key.n, value.p, value.n);
    }
    r->key = (struct str){copy, key.n};
    r->value = (struct str){copy + key.n, value.n};
    fifo_add(&d->waiting, r);
    return r;
}

static void pump(struct docs *docs, struct str name)
{
    struct doc *d = map_get(&docs->busy, name);
    if (d->running == NULL) {
        start(d);
    }
}

void docs_init(struct docs *d, struct lane *lane, const char *home, void (*idle)(void *arg),
               void *arg)
{
    d->lane = lane;
    d->home = home;
    d->idle = idle;
    d->arg = arg;
    map_init(&d->busy);
}

void docs_fini(struct docs *d)
{
    assert(d->busy.n == 0);
    map_fini(&d->busy);
}

bool docs_busy(const struct docs *d)
{
    return d->busy.n != 0;
}

void docs_get(struct docs *d, struct str name, store_text_cb *cb, void *arg)
{
    struct doc_req *r = queue(d, name, STR_NULL, STR_NULL);
    r->got = cb;
    r->arg = arg;
    pump(d, name);
}

void docs_put(struct docs *d, struct str name, struct str json, store_done *cb, void *arg)
{
    struct doc_req *r = queue(d, name, STR_NULL, json);
    r->whole = true;
    r->done = cb;
    r->arg = arg;
    pump(d, name);
}

void docs_set(struct docs *d, struct str name, struct str key, struct str value, store_done *cb,
              void *arg)
{
    struct doc_req *r = queue(d, name, key, value);
    r->done = cb;
    r->arg = arg;
    pump(d, name);
}

bool doc_name_valid(struct str name)
{
    if (name.n == 0 || name.n > 512 || !str_ends(name, ".json") || memchr(name.p, 0, name.n)) {
        return false;
    }
    while (name.n != 0) {
        struct str part = str_cut(&name, '/');
        if (part.n == 0 || part.p[0] == '.') {
            return false;
        }
    }
    return true;
}

int doc_load(const char *path, struct buf *out, struct err *e)
{
    struct arena a = {0};
    struct json *root;
    int rc = load(path, out, &a, &root, e);
    arena_fini(&a);
    return rc;
}

int doc_save(const char *path, struct str json, struct err *e)
{
    struct buf text = {.max = DOC_MAX + 1};
    char *dir = str_dup(path_dir(str_of(path)));
    int rc = path_mkdirs(dir, 0700, e);
    free(dir);
    if (rc < 0) {
        return rc;
    }
    buf_adds(&text, json);
    buf_addc(&text, '\n');
    rc = buf_ok(&text) ? path_write_atomic(path, buf_str(&text), 0600, e)
                       : err_set(e, ERR_TOO_LARGE, "'%s' is above %d bytes", path, DOC_MAX);
    buf_fini(&text);
    return rc;
}
