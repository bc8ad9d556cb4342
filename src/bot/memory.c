// What a bot remembers.
//
//     change:  lock ── read ── parse ── set a member ── write ── unlock
//                       ^                                 │ another hub was faster
//                       └─────────────────────────────────┘
//     load:            read ── parse ──> entries by key
//
// The file is the only copy, and it is read again under the lock: two runs, or a run and a command, change
// it in turn. Reading takes no lock, for a rename shows the old file or the new one, never a half. A document of
// a shared store needs no lock: it is written under the revision that was read (shelf.h).
//
// Invariant: a damaged text is never written over. It gets another name, under the lock, after it was read again
// there and found damaged still.

#include "bot/memory.h"

#include <errno.h>

#include "base/path.h"
#include "base/utf8.h"
#include "bot/workspace.h"

/// The text as it was read. Strings of `root` point into `text`.
struct file {
    struct shelf *sh;
    char *path;
    int64_t rev;
    int lock; // -1: none is held
    struct arena arena;
    struct buf text;
    struct json *root; // an object
};

static void file_init(struct file *f, struct shelf *sh, const char *dir)
{
    *f = (struct file){.sh = sh, .path = path_join(dir, "memory.json"), .lock = -1};
    buf_init(&f->text, MEMORY_BYTES);
}

/// Keep other writers of a file away until file_fini(). Writers of a document need not wait for each other.
static int file_lock(struct file *f, const char *dir, struct err *e)
{
    f->lock = f->sh == NULL ? workspace_lock(dir, e) : -1;
    return f->sh == NULL && f->lock < 0 ? f->lock : 0;
}

static void file_fini(struct file *f)
{
    if (f->lock >= 0) {
        workspace_unlock(f->lock);
    }
    free(f->path);
    arena_fini(&f->arena);
    buf_fini(&f->text);
}

// ---- reading ------------------------------------------------------------------------------------

static int parse(struct file *f, struct err *e)
{
    struct json_opts opts = {.dup = JSON_DUP_LAST};
    int rc = json_parse(&f->root, &f->arena, buf_str(&f->text), &opts, e);
    if (rc < 0) {
        return err_set(e, ERR_CORRUPT, "%s", e->msg);
    }
    const struct json *entries = json_get(f->root, "entries");
    if (f->root->type != JSON_OBJ) {
        return err_set(e, ERR_CORRUPT, "not an object");
    }
    return entries == NULL || entries->type == JSON_OBJ
               ? 0
               : err_set(e, ERR_CORRUPT, "'entries' is not an object");
}

/// ERR_CORRUPT for a file that is not ours to understand.
static int file_read(struct file *f, struct err *e)
{
    buf_clear(&f->text);
    int rc = shelf_read(f->sh, f->path, &f->text, &f->rev, e);
    if (rc == -ENOENT || rc == -ENOTDIR) {
        f->root = arena_calloc(&f->arena, 1, sizeof *f->root);
        f->root->type = JSON_OBJ;
        return 0;
    }
    return rc < 0 ? rc : parse(f, e);
}

/// Give a damaged text another name. Under the lock.
static int set_aside(struct file *f, const struct err *why, char note[MEMORY_NOTE], struct err *e)
{
    char *kept;
    struct err own = {0};
    int rc = shelf_set_aside(f->sh, f->path, &kept, &own);
    if (rc < 0) {
        err_set(e, rc, "'%s' is damaged (%s) and cannot be set aside: %s", f->path, why->msg,
                own.msg);
    } else if (note != NULL) {
        int n = snprintf(note, MEMORY_NOTE,
                         "the memory was damaged (%.80s) and begins empty; it is kept as '%s'",
                         why->msg, kept);
        note[utf8_cut(note, (size_t)MIN(n, MEMORY_NOTE - 1), MEMORY_NOTE - 1)] = '\0';
    }
    free(kept);
    return rc;
}

/// Read under the lock; what is damaged is set aside.
static int file_read_locked(struct file *f, char note[MEMORY_NOTE], struct err *e)
{
    struct err why = {0};
    int rc = file_read(f, &why);
    if (rc == ERR_CORRUPT) {
        rc = set_aside(f, &why, note, e);
        return rc < 0 ? rc : file_read(f, e);
    }
    return rc < 0 ? err_set(e, rc, "%s", why.msg) : 0;
}

static int by_key(const void *a, const void *b)
{
    const struct memory_entry *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

static void take_entries(struct memory *m, const struct json *entries)
{
    struct buf text = {.max = SIZE_MAX};
    json_foreach_member (it, entries) {
        struct json *value = json_clone(&m->arena, &it->value);
        buf_clear(&text);
        if (value->type != JSON_STR) {
            json_write(&text, value, 0);
        }
        struct memory_entry entry = {
            .key = arena_str(&m->arena, it->key),
            .text = value->type == JSON_STR ? value->s : arena_str(&m->arena, buf_str(&text)),
            .value = value};
        vec_push(&m->list, entry);
    }
    buf_fini(&text);
    if (m->list.n != 0) {
        qsort(m->list.p, m->list.n, sizeof *m->list.p, by_key);
    }
}

int memory_load(struct memory *m, struct shelf *sh, const char *dir, struct err *e)
{
    struct file f;
    struct err why = {0};
    *m = (struct memory){0};
    file_init(&f, sh, dir);
    int rc = file_read(&f, &why);
    if (rc == ERR_CORRUPT) { // read again under the lock, and set aside what is damaged still
        struct err held = {0};
        rc = file_lock(&f, dir, &held);
        rc = rc < 0 ? err_set(e, rc, "'%s' is damaged (%s) and cannot be set aside: %s", f.path,
                              why.msg, held.msg)
                    : file_read_locked(&f, m->note, e);
    } else if (rc < 0) {
        err_set(e, rc, "%s", why.msg);
    }
    if (rc == 0) {
        take_entries(m, json_get(f.root, "entries"));
    }
    file_fini(&f);
    return rc;
}

void memory_fini(struct memory *m)
{
    vec_fini(&m->list);
    arena_fini(&m->arena);
}

const struct memory_entry *memory_find(const struct memory *m, struct str key)
{
    vec_foreach (it, &m->list) {
        if (str_eq(it->key, key)) {
            return it;
        }
    }
    return NULL;
}

// ---- changing -----------------------------------------------------------------------------------

static int file_save(struct file *f, const struct json *entries, struct err *e)
{
    struct buf out = {.max = MEMORY_BYTES};
    struct json *root = json_with(&f->arena, f->root, STR("entries"), entries);
    json_write(&out, root, 2);
    buf_addc(&out, '\n');
    int rc = buf_ok(&out) ? shelf_write(f->sh, f->path, buf_str(&out), f->rev, e)
                          : err_set(e, ERR_TOO_LARGE,
                                    "the memory would be above %d bytes: remove something first",
                                    MEMORY_BYTES);
    buf_fini(&out);
    return rc;
}

/// What is asked for; `value` NULL takes the key out, `all` every key. With `more` its entries that are not there are
/// added, and nothing else happens.
struct change {
    struct str key;
    const struct json *value;
    bool all;
    size_t removed;
    const struct json *more;
    struct memory_merge *merged;
};

static int check_key(struct str key, struct err *e)
{
    bool ok = key.n != 0 && utf8_valid(key);
    for (size_t i = 0; ok && i < key.n; i++) {
        ok = (unsigned char)key.p[i] >= ' ' && key.p[i] != 0x7F;
    }
    if (!ok) {
        return err_set(e, ERR_INVALID, "a key of the memory is text without control characters");
    }
    return key.n <= MEMORY_KEY
               ? 0
               : err_set(e, ERR_TOO_LARGE, "a key of the memory has at most %d bytes", MEMORY_KEY);
}

static int check_value(struct str value, struct err *e)
{
    if (value.n > MEMORY_VALUE) {
        return err_set(e, ERR_TOO_LARGE, "a value of the memory has at most %d bytes, this has %zu",
                       MEMORY_VALUE, value.n);
    }
    return utf8_valid(value) && (value.n == 0 || memchr(value.p, 0, value.n) == NULL)
               ? 0
               : err_set(e, ERR_INVALID, "a value of the memory is text in UTF-8");
}

/// `entries` of the file with those of `more` that it lacks.
static const struct json *merge(struct arena *a, const struct json *entries,
                                const struct json *more, struct memory_merge *m)
{
    size_t n = entries != NULL ? entries->n : 0;
    struct json *out = arena_calloc(a, 1, sizeof *out);
    out->type = JSON_OBJ;
    out->members = arena_calloc(a, n + more->n + 1, sizeof *out->members);
    *m = (struct memory_merge){0};
    json_foreach_member (it, entries) {
        out->members[out->n++] = *it;
    }
    json_foreach_member (it, more) {
        bool fits = check_key(it->key, NULL) == 0 &&
                    check_value(json_str(&it->value, ""), NULL) == 0 && out->n < MEMORY_ENTRIES;
        if (json_get_str(entries, it->key) != NULL) {
            m->kept++;
        } else if (fits) {
            out->members[out->n++] = *it;
            m->added++;
        } else {
            m->refused++;
        }
    }
    return out;
}

static int apply(struct file *f, struct change *ch, struct err *e)
{
    const struct json *entries = json_get(f->root, "entries");
    const struct json none = {.type = JSON_OBJ};
    bool there = json_get_str(entries, ch->key) != NULL;
    size_t n = entries != NULL ? entries->n : 0;
    if (ch->more != NULL) {
        const struct json *both = merge(&f->arena, entries, ch->more, ch->merged);
        return ch->merged->added != 0 ? file_save(f, both, e) : 0;
    }
    if (ch->all) {
        ch->removed = n;
        return n == 0 ? 0 : file_save(f, &none, e);
    }
    if (ch->value == NULL && !there) {
        return err_set(e, ERR_NOT_FOUND, "nothing is remembered as '%.*s'", STR_ARG(ch->key));
    }
    if (ch->value != NULL && !there && n >= MEMORY_ENTRIES) {
        return err_set(e, ERR_TOO_LARGE, "the memory is full (%d entries): remove something first",
                       MEMORY_ENTRIES);
    }
    return file_save(f, json_with(&f->arena, entries, ch->key, ch->value), e);
}

static int edit(struct shelf *sh, const char *dir, char note[MEMORY_NOTE], struct change *ch,
                struct err *e)
{
    int rc;
    if (note != NULL) {
        note[0] = '\0';
    }
    do { // another hub that was faster has its change in the text that is read next
        struct file f;
        file_init(&f, sh, dir);
        rc = file_lock(&f, dir, e);
        rc = rc == 0 ? file_read_locked(&f, note, e) : rc;
        rc = rc == 0 ? apply(&f, ch, e) : rc;
        file_fini(&f);
    } while (rc == ERR_CONFLICT);
    return rc;
}

int memory_set(struct shelf *sh, const char *dir, struct str key, struct str value,
               char note[MEMORY_NOTE], struct err *e)
{
    const struct json v = {.type = JSON_STR, .s = value};
    struct change ch = {.key = key, .value = &v};
    int rc = check_key(key, e);
    rc = rc == 0 ? check_value(value, e) : rc;
    return rc == 0 ? edit(sh, dir, note, &ch, e) : rc;
}

int memory_remove(struct shelf *sh, const char *dir, struct str key, char note[MEMORY_NOTE],
                  struct err *e)
{
    struct change ch = {.key = key};
    return edit(sh, dir, note, &ch, e);
}

int memory_clear(struct shelf *sh, const char *dir, size_t *n, char note[MEMORY_NOTE],
                 struct err *e)
{
    struct change ch = {.all = true};
    int rc = edit(sh, dir, note, &ch, e);
    *n = ch.removed;
    return rc;
}

int memory_merge(struct shelf *sh, const char *dir, const struct json *entries,
                 struct memory_merge *m, struct err *e)
{
    struct change ch = {.more = entries, .merged = m};
    *m = (struct memory_merge){0};
    return edit(sh, dir, NULL, &ch, e);
}
