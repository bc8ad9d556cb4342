// What the hub says, for the layout.
//
//     /events ──> which documents are out of date ──> asked for again, once per burst ──> state of the layout
//
// Documents are whole answers. An event only says that one changed: asking again costs a millisecond, and no
// second notion of what a session is can drift from the hub's. While an answer is on its way, further events
// lead to one more question, not to one each.

#include "base/path.h"
#include "tui/tui_int.h"

enum { SOON_MS = 20, RETRY_MS = 500 };

static const struct {
    const char *path, *field; // the list in the answer; NULL: all of it
} sources[DOC__COUNT] = {
    [DOC_SESSIONS] = {"/session?limit=100", "sessions"},
    [DOC_WAITING] = {"/session?state=waiting&limit=1000", "sessions"},
    [DOC_PLUGINS] = {"/plugin/list", "plugins"},
    [DOC_RUNS] = {"/runs?limit=50", "runs"},
    [DOC_PTYS] = {"/pty", "ptys"},
    [DOC_COMMANDS] = {"/command", "commands"},
    [DOC_REPORT] = {"/reload", NULL},
};

static const char types[] =
    "session.*,turn.*,permission.*,question.*,plugin.*,generation.*,tools.changed,bot.*,env.*,"
    "usage.updated,message.completed,tool.called,tool.completed,todo.updated,hub.*,user.*,pty.*";

// ---- documents -----------------------------------------------------------------------------

struct json *model__without_nulls(struct arena *a, const struct json *v)
{
    struct json *out = arena_calloc(a, 1, sizeof *out);
    *out = *v;
    if (v->type == JSON_STR) {
        out->s = arena_str(a, v->s);
    } else if (v->type == JSON_ARR) {
        out->items = arena_calloc(a, MAX(v->n, 1), sizeof *out->items);
        for (uint32_t i = 0; i < v->n; i++) {
            out->items[i] = *model__without_nulls(a, &v->items[i]);
        }
    } else if (v->type == JSON_OBJ) {
        out->n = 0;
        out->members = arena_calloc(a, MAX(v->n, 1), sizeof *out->members);
        json_foreach_member (m, v) {
            if (m->value.type != JSON_NULL) {
                out->members[out->n++] =
                    (struct json_member){arena_str(a, m->key), *model__without_nulls(a, &m->value)};
            }
        }
    }
    return out;
}

void model__set(struct tui *t, enum doc_id id, const struct json *v)
{
    struct doc *d = &t->model.docs[id];
    struct arena a = {0};
    const struct json *copy = v != NULL ? model__without_nulls(&a, v) : NULL;
    if (json_equal(copy, d->v)) {
        arena_fini(&a);
        return;
    }
    arena_fini(&d->arena);
    d->arena = a;
    d->v = copy;
    d->version++;
    app__changed(t, true);
}

static void take(struct tui *t, enum doc_id id, const struct json *v)
{
    const char *field = sources[id].field;
    model__set(t, id, field != NULL ? json_get(v, field) : v);
    if (id == DOC_PLUGINS) {
        sources__set_plugins(t, t->model.docs[id].v);
    } else if (id == DOC_REPORT) {
        t->model.generation = json_int(json_get(v, "generation"), t->model.generation);
    } else if (id == DOC_SESSION) {
        gauge_row(&t->talk.gauge, v);
    }
}

static void on_answer(int rc, const struct client_answer *a, const struct err *e, void *arg)
{
    struct doc *d = arg;
    struct tui *t = d->t;
    struct arena arena = {0};
    struct json *v;
    (void)e;
    d->call = NULL;
    if (rc == 0 && a->status / 100 == 2 &&
        json_parse(&v, &arena, buf_str(&a->body), NULL, NULL) == 0) {
        take(t, (enum doc_id)(d - t->model.docs), v);
    }
    arena_fini(&arena);
    if (d->again) {
        d->again = false;
        timer_start(&d->soon, SOON_MS);
    }
}

static void ask(void *arg)
{
    struct doc *d = arg;
    struct tui *t = d->t;
    enum doc_id id = (enum doc_id)(d - t->model.docs);
    char path[TUI_ID + 32];
    struct err e;
    if (d->call != NULL) {
        d->again = true;
        return;
    }
    snprintf(path, sizeof path, "/session/%s", t->talk.id);
    struct client_request r = {.method = "GET",
                               .path = id == DOC_SESSION ? path : sources[id].path};
    if ((id != DOC_SESSION || t->talk.id[0] != '\0') &&
        async_open(&d->call, &t->loop, &t->hub, &r, NULL, on_answer, d, &e) < 0) {
        d->call = NULL; // the stream of events ends too, and asks for all when the hub is back
    }
}

void model__refresh(struct tui *t, enum doc_id id)
{
    struct doc *d = &t->model.docs[id];
    if (!timer_running(&d->soon)) {
        timer_start(&d->soon, SOON_MS);
    }
}

// ---- events --------------------------------------------------------------------------------

static const struct {
    const char *prefix;
    enum doc_id docs[3]; // DOC__COUNT: no more
} changes[] = {
    {"session.", {DOC_SESSIONS, DOC_SESSION, DOC__COUNT}},
    {"turn.", {DOC_SESSIONS, DOC_SESSION, DOC__COUNT}},
    {"permission.", {DOC_SESSIONS, DOC_SESSION, DOC__COUNT}},
    {"question.", {DOC_SESSIONS, DOC_SESSION, DOC__COUNT}},
    {"usage.", {DOC_SESSIONS, DOC_SESSION, DOC__COUNT}},
    {"plugin.", {DOC_PLUGINS, DOC_REPORT, DOC__COUNT}},
    {"generation.", {DOC_PLUGINS, DOC_REPORT, DOC_COMMANDS}},
    {"tools.", {DOC_PLUGINS, DOC__COUNT, DOC__COUNT}},
    {"pty.", {DOC_PTYS, DOC__COUNT, DOC__COUNT}},
    {"bot.", {DOC_RUNS, DOC_SESSIONS, DOC__COUNT}},
};

// The environment of this directory: shells of other projects tell of theirs too.
static void take_env(struct tui *t, struct str type, const struct json *event)
{
    char *project = str_dup(json_get_text(event, "project"));
    if (str_starts(type, "env.") && path_below(project, t->o->project) != NULL) {
        struct str what = str_from(type, 4);
        snprintf(t->model.env, sizeof t->model.env, "environment " STR_FMT, STR_ARG(what));
        app__changed(t, true);
    }
    free(project);
}

// A session that waited has moved on. One that begins to wait is renewed by itself, see ui/events.lua.
static void refresh_waiting(struct tui *t, struct str session)
{
    json_foreach_item (row, t->model.docs[DOC_WAITING].v) {
        if (str_eq(json_get_text(row, "id"), session)) {
            model__refresh(t, DOC_WAITING);
            return;
        }
    }
}

static void on_event(const struct client_event *ev, void *arg)
{
    struct tui *t = arg;
    struct arena a = {0};
    struct json *v = NULL;
    uint64_t id;
    if (str_to_u64(ev->id, &id)) {
        t->model.seen = id;
    }
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        for (size_t k = 0; k < 3 && str_starts(ev->type, changes[i].prefix); k++) {
            if (changes[i].docs[k] != DOC__COUNT) {
                model__refresh(t, changes[i].docs[k]);
            }
        }
    }
    if (json_parse(&v, &a, ev->data, NULL, NULL) == 0) {
        take_env(t, ev->type, v);
        refresh_waiting(t, json_get_text(v, "session"));
        if (t->ui != NULL) {
            ui__event(t->ui, ev->type, model__without_nulls(&a, v));
        }
    }
    arena_fini(&a);
}

static void follow(void *arg);

static void on_lost(struct tui *t)
{
    if (!t->model.lost) {
        t->model.lost = true;
        app__changed(t, true);
    }
    timer_start(&t->model.retry, RETRY_MS);
}

static void on_end(int rc, const struct client_answer *a, const struct err *e, void *arg)
{
    struct tui *t = arg;
    (void)rc;
    (void)a;
    (void)e;
    t->model.events = NULL;
    on_lost(t);
}

// Follow the hub's events, from the last one seen on. What happened before is in the documents.
static void follow(void *arg)
{
    struct tui *t = arg;
    char path[512];
    struct err e;
    snprintf(path, sizeof path, "/events?types=%s", types);
    if (t->model.seen != 0) {
        size_t n = strlen(path);
        snprintf(path + n, sizeof path - n, "&after=%llu", (unsigned long long)t->model.seen);
    }
    struct client_request r = {.method = "GET", .path = path, .accept = "text/event-stream"};
    if (async_open(&t->model.events, &t->loop, &t->hub, &r, on_event, on_end, t, &e) < 0) {
        t->model.events = NULL;
        on_lost(t);
        return;
    }
    if (t->model.lost) {
        t->model.lost = false;
        app__note(t, STR("the hub is back"), "good");
    }
    for (size_t i = 0; i < DOC__COUNT; i++) {
        if (sources[i].path != NULL || i == DOC_SESSION) {
            ask(&t->model.docs[i]);
        }
    }
}

void model__open(struct tui *t)
{
    for (size_t i = 0; i < DOC__COUNT; i++) {
        struct doc *d = &t->model.docs[i];
        d->t = t;
        timer_init(&d->soon, &t->loop, ask, d);
    }
    timer_init(&t->model.retry, &t->loop, follow, t);
    follow(t);
}

void model__close(struct tui *t)
{
    timer_stop(&t->model.retry);
    async_close(t->model.events);
    for (size_t i = 0; i < DOC__COUNT; i++) {
        struct doc *d = &t->model.docs[i];
        timer_stop(&d->soon);
        async_close(d->call);
        arena_fini(&d->arena);
    }
}
