// What the fleet asks of this hub's plugins.

#include "config/config.h"
#include "event/event.h"
#include "main/daemon_int.h"
#include "plugin/plugins.h"
#include "proto/events.h"
#include "store/choices.h"

static struct plugins *plugins_of(struct daemon *d)
{
    return d->live != NULL && !d->stopping ? d->live->plugins : NULL;
}

// ---- choices --------------------------------------------------------------------------------------

static void on_choices_taken(const struct gen_report *r, void *arg)
{
    struct plugins *ps = r != NULL ? plugins_of(arg) : NULL;
    if (ps != NULL) {
        plugins_chosen(ps); // what no run takes over: tools, flags
    }
}

static void take_choices(void *arg)
{
    struct daemon *d = arg;
    struct plugins *ps = plugins_of(d);
    if (ps == NULL) {
        return;
    }
    bool on = plugins_wanted(d->choices, settings_live(d->settings)->now);
    if (on != plugins_is_on(ps)) {
        plugins_switch(ps, on);
    }
    gen_request(d->live->engine, &(struct gen_request){.trigger = "choice", .wait_all = true},
                on_choices_taken, d);
}

// ---- plugins --------------------------------------------------------------------------------------

static const char *why_off(void *arg)
{
    struct plugins *ps = plugins_of(arg);
    return ps == NULL           ? "it runs without plugins (--safe), or is stopping"
           : !plugins_is_on(ps) ? "the feature 'plugins' is off"
                                : NULL;
}

static void each_plugin(void *arg, fleet_path_cb *add, void *to)
{
    struct plugins *ps = plugins_of(arg);
    for (size_t i = 0; ps != NULL && i < plugins_count(ps); i++) {
        struct plugin_row row = plugins_at(ps, i);
        if (strcmp(row.source, "discovered") == 0 && row.state != GEN_UNTRUSTED) {
            add(to, row.path, row.project);
        }
        for (size_t k = 0; k < row.n_shadows; k++) {
            const struct plugin_place *under = row.shadows[k];
            if (strcmp(under->source, "discovered") == 0) {
                add(to, under->path, under->project);
            }
        }
    }
}

static bool find_plugin(void *arg, const char *path, struct fleet_plugin *out)
{
    struct plugins *ps = plugins_of(arg);
    for (size_t i = 0; ps != NULL && i < plugins_count(ps); i++) {
        struct plugin_row row = plugins_at(ps, i);
        if (strcmp(row.path, path) == 0) {
            const char *why = row.pending_error != NULL ? row.pending_error : "it does not load";
            *out = (struct fleet_plugin){
                .unit = row.name,
                .fault = row.state == GEN_FAILED ? why
                         : row.state == GEN_HELD ? "an earlier version is held; save its file, or "
                                                   "reload with --force"
                                                 : NULL};
            return true;
        }
    }
    return false;
}

/// A request of the fleet; `done` gets the generation.
struct request {
    struct daemon *d;
    fleet_reloaded *done;
    void *arg;
};

static void on_saved(void *arg)
{
    struct request q = *(struct request *)arg;
    free(arg);
    q.done(q.arg, api_generation(q.d->api));
}

static void on_report(const struct gen_report *r, void *arg)
{
    struct request *q = arg;
    struct plugins *ps = r != NULL ? plugins_of(q->d) : NULL;
    if (ps != NULL) {
        plugins_await_saved(ps, on_saved, q); // then the caller finds it also after a kill
    } else {
        q->done(q->arg, 0);
        free(q);
    }
}

static struct request *request_new(struct daemon *d, fleet_reloaded *done, void *arg)
{
    struct request *q = xmalloc(sizeof *q);
    *q = (struct request){.d = d, .done = done, .arg = arg};
    return q;
}

static void reload(void *arg, fleet_reloaded *done, void *done_arg)
{
    struct daemon *d = arg;
    gen_request(d->live->engine, &(struct gen_request){.trigger = "rollout", .wait_all = true},
                on_report, request_new(d, done, done_arg));
}

static int hold(void *arg, int64_t to, const char *const *paths, size_t n, fleet_reloaded *done,
                void *done_arg, struct err *e)
{
    struct daemon *d = arg;
    struct plugins *ps = plugins_of(d);
    if (ps == NULL) {
        return err_set(e, ERR_NOT_FOUND, "%s", why_off(d));
    }
    struct request *q = request_new(d, done, done_arg);
    int rc = plugins_undo_at(ps, (uint64_t)to, paths, n, on_report, q, e);
    if (rc < 0) {
        free(q);
    }
    return rc;
}

static void told(void *arg, struct str fields)
{
    struct daemon *d = arg;
    if (d->events != NULL) {
        event_emit(d->events, str_of(event_infos[EVENT_ROLLOUT_CHANGED].type), STR_NULL, fields);
    }
}

struct fleet_plugins daemon__fleet_plugins(struct daemon *d)
{
    return (struct fleet_plugins){.chosen = take_choices,
                                  .off = why_off,
                                  .each = each_plugin,
                                  .reload = reload,
                                  .find = find_plugin,
                                  .hold = hold,
                                  .told = told,
                                  .arg = d};
}
