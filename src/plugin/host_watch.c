// Files that a plugin in a process wants to be told of.
//
//     register{watch, ref, path} ── the unit serves ── watch_open ──> a batch ── watch{ref, path, kind} for each file
//
// The hub watches for all plugins, so that one inotify descriptor, one debounce and one sweep serve them.

#include <assert.h>

#include "base/path.h"
#include "plugin/host_unit_int.h"

int host__watch_read(struct offer *o, const struct json *what, struct err *e)
{
    struct str pattern = json_get_text(what, "pattern");
    char *path = path_expand_home(o->name);
    if (path[0] != '/' || o->name[0] == '\0') {
        int rc = err_set(e, ERR_INVALID, "watch.directory: '%s' is not an absolute path", o->name);
        free(path);
        return rc;
    }
    free(o->name);
    o->name = path;
    o->filter = pattern.n != 0 ? str_dup(pattern) : NULL;
    o->recursive = json_bool(json_get(what, "recursive"), true);
    o->poll = json_bool(json_get(what, "poll"), false);
    return 0;
}

static void on_batch(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct offer *o = arg;
    struct buf text = {.max = SIZE_MAX};
    struct jw jw;
    assert(w == o->watch);
    for (size_t i = 0; !batch->first && i < batch->n && host__is_live(o); i++) {
        buf_clear(&text);
        jw_init(&jw, &text);
        jw_obj(&jw);
        jw_kint(&jw, "ref", o->ref);
        jw_kstrz(&jw, "path", batch->changes[i].path);
        jw_kstrz(&jw, "kind", watch_kind_name(batch->changes[i].kind));
        jw_end_obj(&jw);
        host_tell(o->unit->host, "watch", host__inner(&text));
    }
    buf_fini(&text);
}

void host__watch_start(void *offer)
{
    struct offer *o = offer;
    const struct host_rules *rules = o->unit->rules;
    struct watch_opts opts = {
        .path = o->name, .pattern = o->filter, .recursive = o->recursive, .pace.poll = o->poll};
    struct err e = {0};
    assert(o->kind == OFFER_WATCH && o->watch == NULL);
    if (rules->watch(rules->watch_arg, &o->watch, &opts, on_batch, o, &e) < 0) {
        gen_unit_note(
            o->unit->gen,
            &(struct gen_diag){.code = DIAG_WATCH_DEGRADED, .path = o->name, .message = e.msg});
    }
}

void host__watch_stop(void *offer)
{
    struct offer *o = offer;
    watch_close(o->watch);
    o->watch = NULL;
}
