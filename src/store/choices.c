// What was chosen by command, in memory and written through.
//
//     disk      what is known to be in choices.json
//   + waiting   the changes made since, in order, which the store has not answered yet
//   = all       what choices_get() gives
//
// A change that could not be written is removed from `waiting`, and `all` is made again. So the former
// value is back, and a later change of the same key, which may succeed, stays. The store answers in the
// order of the calls, so an answer is always for the first one.
//
// The whole object is made again each time: choices are few, and change only when the user runs a command.
//
// Invariants:
//   - `all` holds copies only: what it lends out stays until the next change or failure.
//   - a value that is not JSON is never part of `all`; the store says what is wrong with it.

#include "store/choices.h"

#include <assert.h>

#include "base/fifo.h"

#define DOCUMENT STR("choices.json")

struct pending {
    struct choices *owner;
    struct pending *next;
    char *key;
    struct str value; // JSON text, its own; empty: forget
    bool bad;         // it is not JSON
    choices_done *done;
    void *arg;
};

/// An object and its memory.
struct object {
    struct arena arena;
    const struct json *json;
};

struct choices {
    struct store *store;
    struct object disk, all;
    fifo(struct pending) waiting;
    choices_done *loaded;
    void *loaded_arg;
};

// ---- objects --------------------------------------------------------------------------------

/// Make `o` the object of that text; what it was is gone. On failure nothing changed.
static int object_read(struct object *o, struct str text, struct err *e)
{
    struct object fresh = {0};
    struct json *json;
    int rc = json_parse(&json, &fresh.arena, arena_str(&fresh.arena, text), NULL, e);
    if (rc < 0) {
        arena_fini(&fresh.arena);
        return rc;
    }
    fresh.json = json;
    arena_fini(&o->arena);
    *o = fresh;
    return 0;
}

static void object_clear(struct object *o)
{
    int rc = object_read(o, STR("{}"), NULL);
    assert(rc == 0);
    (void)rc;
}

/// Write `obj` with the change `p` applied.
static void write_changed(struct buf *out, const struct json *obj, const struct pending *p)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    json_foreach_member (m, obj) {
        if (!str_eqz(m->key, p->key)) {
            jw_key_str(&w, m->key);
            jw_value(&w, &m->value);
        }
    }
    if (p->value.n != 0) {
        jw_key(&w, p->key);
        jw_raw(&w, p->value);
    }
    jw_end_obj(&w);
}

/// `o` becomes `from` with `p` applied; the two may be one.
static void object_change(struct object *o, const struct json *from, const struct pending *p)
{
    struct buf text = {.max = SIZE_MAX};
    write_changed(&text, from, p);
    int rc = object_read(o, buf_str(&text), NULL);
    assert(rc == 0); // made of values that were parsed
    (void)rc;
    buf_fini(&text);
}

static void make_all(struct choices *c)
{
    arena_fini(&c->all.arena);
    c->all.json = json_clone(&c->all.arena, c->disk.json);
    for (const struct pending *p = c->waiting.head; p != NULL; p = p->next) {
        if (!p->bad) {
            object_change(&c->all, c->all.json, p);
        }
    }
}

static bool is_json(struct str text)
{
    struct arena a = {0};
    struct json *v;
    bool ok = json_parse(&v, &a, text, NULL, NULL) == 0;
    arena_fini(&a);
    return ok;
}

// ---- answers of the store -------------------------------------------------------------------

static void pending_free(struct pending *p)
{
    free(p->key);
    free((void *)(uintptr_t)p->value.p);
    free(p);
}

static void on_kept(void *arg, int status, const struct err *e)
{
    struct pending *p = arg;
    struct choices *c = p->owner;
    assert(c->waiting.head == p);
    fifo_take(&c->waiting);
    if (status == 0) {
        object_change(&c->disk, c->disk.json, p);
    } else {
        make_all(c);
    }
    if (p->done != NULL) {
        p->done(p->arg, status, e);
    }
    pending_free(p);
}

static void on_read(void *arg, int status, struct str text, const struct err *e)
{
    struct choices *c = arg;
    struct err own = {0};
    if (status == 0 && text.n != 0) {
        status = object_read(&c->disk, text, &own);
        e = status < 0 ? &own : NULL;
    }
    if (c->disk.json->type != JSON_OBJ) { // chooses nothing, and is not what the user chose
        object_clear(&c->disk);
        status =
            err_set(&own, ERR_CORRUPT, "it is not an object; 'afloat fsck --repair' sets it aside");
        e = &own;
    }
    make_all(c);
    c->loaded(c->loaded_arg, status, e);
}

// ---- public ---------------------------------------------------------------------------------

struct choices *choices_new(struct store *store)
{
    struct choices *c = xcalloc(1, sizeof *c);
    c->store = store;
    object_clear(&c->disk);
    make_all(c);
    return c;
}

void choices_free(struct choices *c)
{
    if (c == NULL) {
        return;
    }
    assert(c->waiting.head == NULL);
    arena_fini(&c->disk.arena);
    arena_fini(&c->all.arena);
    free(c);
}

void choices_load(struct choices *c, choices_done *done, void *arg)
{
    c->loaded = done;
    c->loaded_arg = arg;
    store_doc_get(c->store, DOCUMENT, on_read, c);
}

const struct json *choices_get(const struct choices *c, struct str key)
{
    return json_get_str(c->all.json, key);
}

const struct json *choices_all(const struct choices *c)
{
    return c->all.json;
}

void choices_set(struct choices *c, struct str key, struct str value, choices_done *done, void *arg)
{
    struct pending *p = xcalloc(1, sizeof *p);
    *p = (struct pending){.owner = c,
                          .key = str_dup(key),
                          .value = {str_dup(value), value.n},
                          .bad = value.n != 0 && !is_json(value),
                          .done = done,
                          .arg = arg};
    fifo_add(&c->waiting, p);
    if (!p->bad) {
        object_change(&c->all, c->all.json, p);
    }
    store_doc_set(c->store, DOCUMENT, key, value, on_kept, p);
}
