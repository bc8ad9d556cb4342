// Publish the plugins that a roll-out brings to the hubs.
//
//     paths of this hub and of the last set ── choose ──> collect (worker) ──> contents that the store lacks
//         ──> publish ──> the hubs
//
// With names, only those plugins are read from the files here; everything else is in the new set as in the last one,
// whatever is here. A dry run stops before it publishes, and tells what differs.

#include <assert.h>

#include "base/path.h"
#include "fleet/rollout_int.h"

static const struct pg_stmt stmt_missing = {"plugin_missing",
                                            "SELECT * FROM afloat.plugin_missing($1)"};
static const struct pg_stmt stmt_add = {"plugin_blob_add", "SELECT afloat.plugin_blob_add($1, $2)"};
static const struct pg_stmt stmt_publish = {"plugin_publish",
                                            "SELECT afloat.plugin_publish($1, $2, $3, $4, $5)"};

// ---- the publication ----------------------------------------------------------------------------------

static void on_published(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!rollout__succeeded(r, e)) {
        return;
    }
    r->number = pg_get_int(res, 0, 0);
    rollout__list_hubs(r);
}

static void publish(struct rollout *r)
{
    struct fleet *f = r->f;
    struct pg_number n[2];
    struct buf body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    plugin_set_write(&r->set, &w);
    const struct pg_param params[] = {pg_text(str_of(f->hub.name)), pg_int(&n[0], f->hub.epoch),
                                      pg_int(&n[1], f->channel.state.number),
                                      pg_text(str_of(r->token)), pg_text(buf_str(&body))};
    rollout__ask(r, &stmt_publish, params, 5, on_published);
    buf_fini(&body);
}

static void upload(struct rollout *r);

static void on_added(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    (void)res;
    if (!rollout__answered(r)) {
        return;
    }
    if (e != NULL) {
        rollout__finish(r, e);
    } else {
        upload(r);
    }
}

/// The last of what is still to be sent.
static void upload(struct rollout *r)
{
    if (r->blobs.n == 0) {
        publish(r);
        return;
    }
    struct channel_blob b = vec_pop(&r->blobs);
    const struct pg_param params[] = {pg_text(str_of(b.hash)), pg_text((struct str){b.text, b.n})};
    rollout__ask(r, &stmt_add, params, 2, on_added);
    free(b.text);
}

/// Only what the store lacks is sent.
static void on_missing(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!rollout__succeeded(r, e)) {
        return;
    }
    for (size_t i = r->blobs.n; i-- > 0;) {
        bool missing = false;
        for (size_t k = 0; k < pg_rows(res); k++) {
            missing = missing || str_eqz(pg_get(res, k, 0), r->blobs.p[i].hash);
        }
        if (!missing) {
            free(r->blobs.p[i].text);
            vec_remove(&r->blobs, i);
        }
    }
    upload(r);
}

// ---- which plugins ------------------------------------------------------------------------------------

/// Is the plugin at `path`, which may be gone, among those that are sent? Notes which names were met.
static bool is_sent(const struct rollout *r, const char *path, bool *met)
{
    struct fleet_plugin p;
    struct str name = path_base(str_of(path));
    if (r->f->plugins.find(r->f->plugins.arg, path, &p)) {
        name = str_of(p.unit);
    } else {
        name = str_cut(&name, '.');
    }
    bool sent = r->names.n == 0;
    for (size_t i = 0; i < r->names.n; i++) {
        bool same = str_eqz(name, r->names.p[i]);
        sent = sent || same;
        met[i] = met[i] || same;
    }
    return sent;
}

/// Of `paths` only what is sent stays, and the set begins with all of the last one that is not sent.
static int choose(struct rollout *r, struct err *e)
{
    bool *met = xcalloc(r->names.n + 1, sizeof *met);
    int rc = 0;
    for (size_t i = r->paths.n; i-- > 0;) {
        if (!is_sent(r, r->paths.p[i].path, met)) {
            free(r->paths.p[i].path);
            free(r->paths.p[i].project);
            vec_remove(&r->paths, i);
        }
    }
    vec_foreach (it, &r->base.items) {
        char *path = channel_path_of(r->home, it);
        if (!is_sent(r, path, met)) {
            plugin_set_add(&r->set, it->place, it->project, it->hash);
        }
        free(path);
    }
    for (size_t i = 0; i < r->names.n && rc == 0; i++) {
        if (!met[i]) {
            rc = err_set(e, ERR_INVALID, "'%.64s' is not a plugin that can be sent to other hubs",
                         r->names.p[i]);
        }
    }
    free(met);
    return rc;
}

static void collect_work(void *arg) // on the lane
{
    struct rollout *r = arg;
    r->rc = channel_collect(r->home, &r->paths, &r->set, &r->blobs, &r->e);
}

static void on_collected(void *arg)
{
    struct rollout *r = arg;
    struct buf hashes = {.max = SIZE_MAX};
    if (!rollout__answered(r)) {
        return;
    }
    if (r->rc < 0) {
        struct err e = r->e;
        rollout__finish(r, &e);
        return;
    }
    if (r->dry_run) {
        rollout__list_hubs(r);
        return;
    }
    pg_array_begin(&hashes, r->blobs.n);
    vec_foreach (b, &r->blobs) {
        pg_array_add(&hashes, str_of(b->hash));
    }
    const struct pg_param param = pg_array(&hashes);
    rollout__ask(r, &stmt_missing, &param, 1, on_missing);
    buf_fini(&hashes);
}

static void add_path(void *to, const char *path, const char *project)
{
    channel_paths *paths = to;
    vec_push(paths, ((struct channel_path){.path = xstrdup(path),
                                           .project = project != NULL ? xstrdup(project) : NULL}));
}

void rollout__send(struct rollout *r)
{
    struct fleet *f = r->f;
    struct err e;
    assert(r->phase == PHASE_READY && r->paths.n == 0);
    r->phase = PHASE_PUBLISH;
    f->plugins.each(f->plugins.arg, add_path, &r->paths);
    plugin_set_copy(&r->base, &f->channel.state.base);
    vec_foreach (it, &r->base.items) { // of other profiles, and projects that are closed
        char *path = channel_path_of(r->home, it);
        add_path(&r->paths, path, it->project);
        free(path);
    }
    if (choose(r, &e) < 0) {
        rollout__finish(r, &e);
        return;
    }
    r->asked = true;
    work_submit(f->lane, 0, collect_work, on_collected, r);
}
