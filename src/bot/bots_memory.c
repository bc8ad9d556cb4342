// What a bot remembers of a workspace, for people; models have a tool (tools.c). Each operation is one function on
// the lane, which also writes the answer.

#include "bot/ask.h"
#include "bot/memory.h"

/// Begin the answer; the caller writes its own members.
static struct jw *open_answer(struct ask *a)
{
    jw_obj(&a->w);
    jw_kstrz(&a->w, "project", a->ws.slug);
    return &a->w;
}

/// End it, with `note` unless that is empty.
static void close_answer(struct ask *a, const char *note)
{
    if (note[0] != '\0') {
        jw_kstrz(&a->w, "note", note);
    }
    jw_end_obj(&a->w);
}

static void list(struct ask *a) // on the lane
{
    struct memory m;
    a->rc = memory_load(&m, a->b->shelf, a->ws.dir, &a->e);
    struct jw *w = open_answer(a);
    jw_kobj(w, "entries");
    vec_foreach (it, &m.list) {
        jw_key_str(w, it->key);
        jw_value(w, it->value);
    }
    jw_end_obj(w);
    close_answer(a, m.note);
    memory_fini(&m);
}

void bots_memory_list(struct ask *a)
{
    ask__locate_work(a, WHERE_SPACE | WHERE_LEFT, list, ask__answer);
}

static void get(struct ask *a) // on the lane
{
    struct memory m;
    struct str key = ask__str(a, "key");
    a->rc = memory_load(&m, a->b->shelf, a->ws.dir, &a->e);
    const struct memory_entry *it = memory_find(&m, key);
    if (it != NULL) {
        struct jw *w = open_answer(a);
        jw_kstr(w, "key", it->key);
        jw_kvalue(w, "value", it->value);
        close_answer(a, m.note);
    } else if (a->rc == 0) {
        a->hint = "`afloat memory BOT` shows all of it";
        a->rc = err_set(&a->e, ERR_NOT_FOUND, "'%s' remembers no '%.*s' in '%s'", a->name,
                        (int)MIN(key.n, (size_t)MEMORY_KEY), key.p, a->ws.slug);
    }
    memory_fini(&m);
}

void bots_memory_get(struct ask *a)
{
    ask__locate_work(a, WHERE_SPACE | WHERE_LEFT, get, ask__answer);
}

static void set(struct ask *a) // on the lane
{
    struct str key = ask__str(a, "key"), value = ask__str(a, "value");
    char note[MEMORY_NOTE] = "";
    a->rc = memory_set(a->b->shelf, a->ws.dir, key, value, note, &a->e);
    struct jw *w = open_answer(a);
    jw_kstr(w, "key", key);
    jw_kstr(w, "value", value);
    close_answer(a, note);
}

void bots_memory_set(struct ask *a)
{
    ask__locate_work(a, WHERE_SPACE | WHERE_MAKE, set, ask__answer);
}

static void take_out(struct ask *a) // on the lane
{
    struct str key = ask__str(a, "key");
    char note[MEMORY_NOTE] = "";
    a->rc = memory_remove(a->b->shelf, a->ws.dir, key, note, &a->e);
    struct jw *w = open_answer(a);
    jw_kstr(w, "key", key);
    jw_kbool(w, "removed", true);
    close_answer(a, note);
}

void bots_memory_remove(struct ask *a)
{
    ask__locate_work(a, WHERE_SPACE | WHERE_LEFT, take_out, ask__answer);
}

static void clear(struct ask *a) // on the lane
{
    size_t n = 0;
    char note[MEMORY_NOTE] = "";
    if (a->ws.exists || a->b->shelf != NULL) {
        a->rc = memory_clear(a->b->shelf, a->ws.dir, &n, note, &a->e);
    }
    jw_kint(open_answer(a), "removed", (int64_t)n);
    close_answer(a, note);
}

void bots_memory_clear(struct ask *a)
{
    ask__locate_work(a, WHERE_SPACE | WHERE_LEFT, clear, ask__answer);
}
