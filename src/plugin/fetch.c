// Kept versions come back into memory: read on a worker, by hash, from state/versions/.

#include <assert.h>

#include "base/log.h"
#include "plugin/plugins_int.h"

struct wanted {
    char *path, *hash; // where it came from, what it is
    bool built;
    struct content *content;
};

struct fetch {
    struct plugins *ps;
    vec(struct wanted) wanted;
};

static void fetch_work(void *arg)
{
    struct fetch *f = arg;
    vec_foreach (w, &f->wanted) {
        w->content = content_fetch(f->ps->versions, w->hash, w->path, w->built);
    }
}

static void fetch_done(void *arg)
{
    struct fetch *f = arg;
    struct plugins *ps = f->ps;
    vec_foreach (w, &f->wanted) {
        if (w->content != NULL) {
            vec_push(&ps->fetched, w->content);
        } else {
            log_warn(LOG_HUB, "version=%s is not kept any more", w->hash);
        }
        free(w->path);
        free(w->hash);
    }
    vec_fini(&f->wanted);
    free(f);
    plugins__decide(ps);
}

void fetch__begin(struct plugins *ps, const struct kept_want *list, size_t n)
{
    struct fetch *f = xcalloc(1, sizeof *f);
    assert(n != 0);
    f->ps = ps;
    for (size_t i = 0; i < n; i++) {
        struct wanted w = {
            .path = xstrdup(list[i].path), .hash = xstrdup(list[i].hash), .built = list[i].built};
        vec_push(&f->wanted, w);
    }
    work_submit(ps->keeper, 0, fetch_work, fetch_done, f);
}
