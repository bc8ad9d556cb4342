// The hub's terminals as a part of what operations work on, and what they tell the stream.

#include "keep/terms.h"

#include "api/api_int.h"
#include "base/path.h"
#include "proto/events.h"

static void on_event(void *arg, enum terms_event what, const struct term *t, struct str text)
{
    static const enum event_id ids[] = {
        [TERMS_OPENED] = EVENT_PTY_OPENED,     [TERMS_CLOSED] = EVENT_PTY_CLOSED,
        [TERMS_UPDATED] = EVENT_PTY_UPDATED,   [TERMS_BELL] = EVENT_PTY_BELL,
        [TERMS_NOTIFIED] = EVENT_PTY_NOTIFIED,
    };
    struct api *api = arg;
    struct buf fields = {.max = SIZE_MAX};
    struct jw w;
    buf_addz(&fields, "\"pty\":");
    jw_init(&w, &fields);
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
    event_emit(api->events, str_of(event_infos[ids[what]].type), STR_NULL, buf_str(&fields));
    buf_fini(&fields);
}

void api_open_terms(struct api *api)
{
    char *dir = path_join(api->home->runtime, "pty");
    api->terms = terms_open(
        &(struct terms_opts){.loop = api->loop, .dir = dir, .event = on_event, .arg = api});
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
