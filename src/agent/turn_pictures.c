// The pictures of a request: a conversation holds their paths, a provider needs their bytes.
//
//     t->request ──> pictures that are not loaded ──lane──> t->pictures ──> a copy of the request with them
//
// They are loaded once a turn. The newest ALL_MAX bytes of a conversation's pictures are sent. A line of text replaces
// an older one, one whose file is gone, and every one for a model that takes no pictures.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "agent/picture.h"

enum { ALL_MAX = 20 << 20 };

static bool is_picture(const struct json *item)
{
    return str_eqz(json_get_text(item, "type"), "image") && json_get(item, "url") == NULL;
}

static const struct turn_picture *find(const struct turn *t, struct str path)
{
    vec_foreach (p, &t->pictures) {
        if (str_eqz(path, p->path)) {
            return p;
        }
    }
    return NULL;
}

// ---- loading ------------------------------------------------------------------------------------

struct loading {
    struct turn *t;
    const char *home;
    vec(struct turn_picture) list;
};

static void load(void *arg) // on a lane
{
    struct loading *l = arg;
    struct err e;
    vec_foreach (p, &l->list) {
        buf_init(&p->data, SIZE_MAX);
        if (picture_load(l->home, p->path, &p->data, &e) < 0) {
            buf_clear(&p->data); // it is gone
        }
    }
}

static void on_loaded(void *arg)
{
    struct loading *l = arg;
    struct turn *t = l->t;
    t->keeping = false;
    vec_foreach (p, &l->list) {
        vec_push(&t->pictures, *p);
    }
    vec_fini(&l->list);
    free(l);
    if (!turn__resume(t)) {
        return;
    }
    if (t->step == TURN_ENGINE) {
        turn__engine(t);
    } else {
        turn__request(t);
    }
}

/// Load this picture too, unless it is loaded already. `*bytes` is the sum so far. False: it passes ALL_MAX.
static bool want(struct loading *l, const struct json *item, int64_t *bytes)
{
    struct str path = json_get_text(item, "path");
    bool again = find(l->t, path) != NULL;
    vec_foreach (p, &l->list) {
        again = again || str_eqz(path, p->path);
    }
    *bytes += again ? 0 : MAX(json_int(json_get(item, "bytes"), PICTURE_MAX), 1);
    if (!again && *bytes <= ALL_MAX) {
        vec_push(&l->list, (struct turn_picture){.path = str_dup(path)});
    }
    return *bytes <= ALL_MAX;
}

bool turn__load_pictures(struct turn *t)
{
    const struct json *messages = json_get(t->request, "messages");
    struct loading *l = xcalloc(1, sizeof *l);
    *l = (struct loading){.t = t, .home = t->s->agent->o.hub->home->dir};
    bool engine = t->s->engine != NULL, more = t->s->choice.facts.images && !engine;
    int64_t bytes = 0;
    vec_foreach (p, &t->pictures) {
        bytes += (int64_t)(p->data.n / 4 * 3);
    }
    json_foreach_item (it, engine ? t->images : NULL) { // it remembers those of other turns
        (void)want(l, it, &bytes);
    }
    for (size_t i = messages != NULL ? messages->n : 0; more && i-- > 0;) { // the newest first
        json_foreach_item (it, json_get(&messages->items[i], "content")) {
            more = more && (!is_picture(it) || want(l, it, &bytes));
        }
    }
    if (l->list.n == 0) {
        free(l);
        return false;
    }
    t->keeping = true;
    work_submit(t->s->agent->files, 0, load, on_loaded, l);
    return true;
}

const struct engine_picture *turn__engine_pictures(struct turn *t, size_t *n)
{
    size_t most = t->images != NULL ? t->images->n : 0;
    struct engine_picture *list = arena_calloc(&t->step_arena, most + 1, sizeof *list);
    *n = 0;
    json_foreach_item (it, t->images) {
        const struct turn_picture *p = find(t, json_get_text(it, "path"));
        struct str url = p != NULL ? buf_str(&p->data) : STR_NULL; // data:MEDIA_TYPE;base64,BYTES
        str_cut(&url, ':');
        struct str media_type = str_cut(&url, ';');
        str_cut(&url, ',');
        if (url.n != 0) {
            list[(*n)++] = (struct engine_picture){media_type, url};
        }
    }
    return list;
}

void turn__free_pictures(struct turn *t)
{
    vec_foreach (p, &t->pictures) {
        free(p->path);
        buf_fini(&p->data);
    }
    vec_fini(&t->pictures);
}

// ---- the request with them ----------------------------------------------------------------------

static struct json fill_item(struct turn *t, const struct json *item)
{
    struct arena *a = &t->step_arena;
    struct str name = json_str(json_get(item, "name"), "picture");
    const struct turn_picture *p = find(t, json_get_text(item, "path"));
    struct json *out = make_obj(a, 2);
    bool takes = t->s->choice.facts.images;
    if (takes && p != NULL && p->data.n != 0) {
        make_put(out, "type", make_strz("image"));
        make_put(out, "url", make_str(buf_str(&p->data)));
        return *out;
    }
    const char *why = !takes      ? "this model takes no pictures"
                      : p != NULL ? "its file is gone"
                                  : "it was shown before";
    make_put(out, "type", make_strz("text"));
    make_put(out, "text",
             make_strz(arena_printf(a, "[picture " STR_FMT ": %s]\n", STR_ARG(name), why)));
    return *out;
}

static struct json fill_message(struct turn *t, const struct json *message)
{
    const struct json *content = json_get(message, "content");
    bool has = false;
    json_foreach_item (it, content) {
        has = has || is_picture(it);
    }
    if (!has) {
        return *message;
    }
    struct json *list = make_arr(&t->step_arena, content->n), *out = make_obj(&t->step_arena, 2);
    json_foreach_item (it, content) {
        make_push(list, is_picture(it) ? fill_item(t, it) : *it);
    }
    make_put(out, "role", *json_get(message, "role")); // not checked yet: plugins may have made it
    make_put(out, "content", *list);
    return *out;
}

const struct json *turn__fill_pictures(struct turn *t)
{
    const struct json *messages = json_get(t->request, "messages");
    if (messages == NULL || messages->type != JSON_ARR) {
        return t->request; // wire_check() reports what is wrong
    }
    struct json *out = make_obj(&t->step_arena, t->request->n);
    struct json *list = make_arr(&t->step_arena, messages->n);
    json_foreach_item (it, messages) {
        make_push(list, fill_message(t, it));
    }
    assert(list->n == messages->n);
    json_foreach_member (m, t->request) {
        make_put(out, arena_strdup(&t->step_arena, m->key),
                 str_eqz(m->key, "messages") ? *list : m->value);
    }
    return out;
}
