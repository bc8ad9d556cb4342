// The hub's terminals as a part of what operations work on, and what they tell the stream.

#include "keep/terms.h"

#include <assert.h>

#include "api/api_int.h"
#include "api/policy.h"
#include "base/path.h"
#include "proto/events.h"

static void on_event(void *arg, enum terms_event what, const struct term *t, struct str text)
{
    static const enum event_id ids[] = {
        [TERMS_OPENED] = EVENT_PTY_OPENED,     [TERMS_CLOSED] = EVENT_PTY_CLOSED,
        [TERMS_UPDATED] = EVENT_PTY_UPDATED,   [TERMS_BELL] = EVENT_PTY_BELL,
        [TERMS_NOTIFIED] = EVENT_PTY_NOTIFIED, [TERMS_REMOVED] = EVENT_PTY_REMOVED,
    };
    struct api *api = arg;
    struct buf fields = {.max = SIZE_MAX};
    buf_addz(&fields, "\"pty\":");
    struct jw w = {.out = &fields};
    term_write(t, &w);
    if (what == TERMS_NOTIFIED) {
        struct str title = str_cut(&text, '\n');
        buf_addz(&fields, ",\"notification\":");
        jw_init(&w, &fields);
        jw_obj(&w);
        jw_kstr(&w, "title", title);
        jw_kstr(&w, "body", text);
        jw_end_obj(&w);
    }
    event_emit(api->o.hub->events, str_of(event_infos[ids[what]].type), STR_NULL, buf_str(&fields));
    buf_fini(&fields);
    if (what == TERMS_CLOSED && term_about(t, "run_id").n != 0) {
        api__decide_end(api, t);
    }
}

bool api_terminal_runs(struct api *api, const char *id, int *status)
{
    struct term *t = api->terms != NULL ? terms_find(api->terms, str_of(id), NULL) : NULL;
    *status = t != NULL ? term_status(t) : -1;
    return t != NULL && !term_is_ended(t);
}

static void on_ended(void *arg, struct str text, const struct err *e)
{
    (void)arg;
    (void)text;
    (void)e; // TERMS_CLOSED tells all
}

bool api_terminal_end(struct api *api, const char *id)
{
    struct term *t = api->terms != NULL ? terms_find(api->terms, str_of(id), NULL) : NULL;
    if (t != NULL) {
        terms_kill(t, on_ended, NULL);
    }
    return t != NULL;
}

void api_open_terms(struct api *api)
{
    assert(api->terms == NULL);
    char *dir = path_join(api->o.hub->home->runtime, "pty");
    api->terms = terms_open(
        &(struct terms_opts){.loop = api->o.hub->loop, .dir = dir, .event = on_event, .arg = api});
    free(dir);
}

void api_close_terms(struct api *api)
{
    terms_close(api->terms);
    api->terms = NULL;
}

struct terms *api_terms(const struct api *api)
{
    return api->terms;
}
