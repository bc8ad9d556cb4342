// What a bot remembers of a workspace, for people; models have a tool (tools.c).

#include "bot/ask.h"
#include "bot/memory.h"

/// One of the five operations while it works.
struct remembering {
    struct memory memory;
    char note[300]; // what was set aside
    size_t removed;
};

static void free_remembering(void *data)
{
    struct remembering *m = data;
    memory_fini(&m->memory);
    free(m);
}

static void begin(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg,
                  unsigned flags, ask_fn *work, ask_fn *then)
{
    struct ask *a = ask__new(b, params, cb, arg);
    a->data = xcalloc(1, sizeof(struct remembering));
    a->free_data = free_remembering;
    ask__locate_work(a, WHERE_SPACE | flags, work, then);
}

/// Begin the answer; the caller writes what is its own.
static struct jw *open_answer(struct ask *a)
{
    jw_obj(&a->w);
    jw_kstrz(&a->w, "project", a->ws.slug);
    return &a->w;
}

static void close_answer(struct ask *a)
{
    struct remembering *m = a->data;
    const char *note = m->memory.note[0] != '\0' ? m->memory.note : m->note;
    if (note[0] != '\0') {
        jw_kstrz(&a->w, "note", note);
    }
    jw_end_obj(&a->w);
    ask__answer(a);
}

static void load(struct ask *a) // on the lane
{
    struct remembering *m = a->data;
    a->rc = memory_load(&m->memory, store_shelf(a->b->o.hub->store), a->ws.dir, &a->e);
}

// ---- list, get ----------------------------------------------------------------------------------

static void listed(struct ask *a)
{
    struct remembering *m = a->data;
    memory_write(&m->memory, open_answer(a));
    close_answer(a);
}

void bots_memory_list(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    begin(b, params, cb, arg, WHERE_LEFT, load, listed);
}

static void got(struct ask *a)
{
    struct remembering *m = a->data;
    struct str key = ask__str(a, "key");
    const struct memory_entry *it = memory_find(&m->memory, key);
    if (it == NULL) {
        ask__no(a, PROBLEM_NOT_FOUND, "`afloat memory BOT` shows all of it",
                "'%s' remembers no '%.*s' in '%s'", a->name, (int)MIN(key.n, (size_t)MEMORY_KEY),
                key.p, a->ws.slug);
        return;
    }
    struct jw *w = open_answer(a);
    jw_kstr(w, "key", it->key);
    jw_key(w, "value");
    jw_value(w, it->value);
    close_answer(a);
}

void bots_memory_get(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    begin(b, params, cb, arg, WHERE_LEFT, load, got);
}

// ---- set, remove, clear -------------------------------------------------------------------------

static void do_set(struct ask *a) // on the lane
{
    struct remembering *m = a->data;
    a->rc = memory_set(store_shelf(a->b->o.hub->store), a->ws.dir, ask__str(a, "key"),
                       ask__str(a, "value"), m->note, &a->e);
}

static void was_set(struct ask *a)
{
    struct jw *w = open_answer(a);
    jw_kstr(w, "key", ask__str(a, "key"));
    jw_kstr(w, "value", ask__str(a, "value"));
    close_answer(a);
}

void bots_memory_set(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    begin(b, params, cb, arg, WHERE_MAKE, do_set, was_set);
}

static void do_remove(struct ask *a) // on the lane
{
    struct remembering *m = a->data;
    a->rc = memory_remove(store_shelf(a->b->o.hub->store), a->ws.dir, ask__str(a, "key"), m->note,
                          &a->e);
}

static void was_removed(struct ask *a)
{
    struct jw *w = open_answer(a);
    jw_kstr(w, "key", ask__str(a, "key"));
    jw_kbool(w, "removed", true);
    close_answer(a);
}

void bots_memory_remove(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    begin(b, params, cb, arg, WHERE_LEFT, do_remove, was_removed);
}

static void do_clear(struct ask *a) // on the lane
{
    struct remembering *m = a->data;
    struct shelf *sh = store_shelf(a->b->o.hub->store);
    bool there = a->ws.exists || sh != NULL;
    a->rc = there ? memory_clear(sh, a->ws.dir, &m->removed, m->note, &a->e) : 0;
}

static void was_cleared(struct ask *a)
{
    struct remembering *m = a->data;
    jw_kint(open_answer(a), "removed", (int64_t)m->removed);
    close_answer(a);
}

void bots_memory_clear(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    begin(b, params, cb, arg, WHERE_LEFT, do_clear, was_cleared);
}
