// The connection between improvements (agent-written code) and the hub.
//
//     hub's stream ──reader──> improvements that listen
//     improvement: events.emit("improvement.x") ──> other improvements, modules that subscribed
//
//     improvement: log.info(text) ──> the lines of its unit, beside those of modules and plugins
//
// An improvement may ask for two things only: to emit an event named improvement.*, and the list of worktrees. The settings
// that it sees are a copy in which values that look like secrets are blanked.

#include "bind/improve.h"

#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "bind/bind_int.h"
#include "bind/hosted.h"
#include "config/home.h"
#include "event/event.h"
#include "hook/args.h"
#include "plugin/improvements.h"

enum { SPAN_BYTES = 4 << 20, EMIT_MAX = 1 << 20 };

struct improve {
    struct bind *bind;
    struct hosted_plugins *hosted;
    struct improvements *improvements;
    struct event_reader *reader;
    uint64_t heard; // last id of the stream that was passed on
};

// ---- what they hear ------------------------------------------------------------------------

static void tell(struct improve *im, struct str name, struct str data)
{
    improvements_event(im->improvements, name, data);
    hosted_event(im->hosted, name, data);
}

static void on_module_emit(void *arg, const char *name, struct str data)
{
    tell(arg, str_of(name), data);
}

static void on_wake(void *arg)
{
    struct improve *im = arg;
    struct buf text = {.max = SPAN_BYTES};
    while (event_reader_peek(im->reader, SPAN_BYTES).n != 0) {
        event_reader_next(im->reader);
    }
    if (!improvements_listen(im->improvements) && !hosted_listen(im->hosted)) {
        im->heard = event_last_id(im->bind->o.hub->events);
        return;
    }
    for (uint64_t last = event_last_id(im->bind->o.hub->events); im->heard < last;) {
        static const struct event_filter own = {.own =
                                                    true}; // each hub has improvements of its own
        buf_clear(&text);
        struct jw w = {.out = &text};
        jw_arr(&w);
        im->heard = event_list(im->bind->o.hub->events, im->heard, &own, 1, &w);
        jw_end_arr(&w);
        struct arena a = {0};
        struct json *events = NULL;
        if (json_parse(&events, &a, buf_str(&text), NULL, NULL) == 0 && events->n == 1) {
            struct str data = {text.p + 1, text.n - 2}; // without the brackets
            tell(im, json_get_text(json_at(events, 0), "type"), data);
        }
        arena_fini(&a);
    }
    buf_fini(&text);
}

// ---- what they ask for ---------------------------------------------------------------------

static int emit(struct improve *im, const struct improvement_call *c, struct buf *answer)
{
    char *name = str_dup(json_str(json_get(c->params, "name"), ""));
    struct buf data = {.max = EMIT_MAX};
    json_write(&data, json_get(c->params, "data"), 0);
    int rc = buf_ok(&data) ? 0 : ERR_TOO_LARGE; // half of it would be no JSON to those who hear it
    if (rc == 0) {
        on_module_emit(im, name, buf_str(&data));
        bind_emit(im->bind, name, buf_str(&data));
    } else {
        buf_addf(answer, "'%s' carries more than %d MiB", name, EMIT_MAX >> 20);
    }
    buf_fini(&data);
    free(name);
    return rc;
}

static int on_call(void *arg, const struct improvement_call *c, struct buf *answer)
{
    if (str_eqz(c->op, "event.emit")) {
        return emit(arg, c, answer);
    }
    if (str_eqz(c->op, "worktree.list")) {
        struct improve *im = arg;
        struct jw w = {.out = answer};
        bind_worktrees_write(im->bind, &w);
        return 0;
    }
    buf_addz(answer, "not offered to improvements");
    return ERR_DENIED;
}

static void write_config(void *arg, struct buf *out)
{
    struct improve *im = arg;
    struct arena a = {0};
    json_write(out, config_values(im->bind->o.hub->config->now, &a), 0);
    arena_fini(&a);
}

static void on_log(void *arg, const char *name, enum log_level level, struct str text)
{
    struct improve *im = arg;
    char *unit = xasprintf("improvements/%s", name);
    bind_log_add(im->bind, str_of(unit), level, text);
    free(unit);
}

// ---- life ----------------------------------------------------------------------------------

struct improve *improve_open(struct bind *b, struct plugins *past, struct hosted_plugins *hosted,
                             struct err *e)
{
    struct improve *im = xcalloc(1, sizeof *im);
    im->bind = b;
    im->hosted = hosted;
    char *program = path_own_program(e);
    if (program == NULL) {
        free(im);
        return NULL;
    }
    char *lua = path_join(b->o.hub->home->dir, "lua"), *dir = path_join(lua, "improvements");
    char *scopes = path_join(b->o.hub->home->state, "scopes.json");
    struct improvements_opts opts = {
        .dir = dir,
        .program = program,
        .scopes = scopes,
        .data_dir = b->o.hub->home->dir,
        .past = past,
        .config = write_config,
        .call = on_call,
        .log = on_log,
        .arg = im,
    };
    int rc =
        improvements_open(&im->improvements, b->o.hub->loop, b->o.engine, b->o.watcher, &opts, e);
    free(program);
    free(scopes);
    free(dir);
    free(lua);
    if (rc < 0) {
        free(im);
        return NULL;
    }
    bind_on_emit(b, on_module_emit, im);
    im->heard = event_last_id(b->o.hub->events);
    im->reader = event_reader_open(b->o.hub->events, UINT64_MAX, NULL, on_wake, im);
    return im;
}

struct improvements *improve_improvements(struct improve *im)
{
    return im != NULL ? im->improvements : NULL;
}

void improve_stop(struct improve *im)
{
    if (im != NULL) {
        bind_on_emit(im->bind, NULL, NULL);
        event_reader_close(im->reader);
        im->reader = NULL;
        improvements_stop(im->improvements);
    }
}

void improve_free(struct improve *im)
{
    assert(im == NULL || im->reader == NULL); // it was stopped
    if (im != NULL) {
        improvements_free(im->improvements);
        free(im);
    }
}
