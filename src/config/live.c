// The settings in force, and the listeners for their changes.

#include <assert.h>

#include "config/config.h"

void config_listen(struct config_live *c, config_changed_fn *changed, void *arg)
{
    struct config_listener l = {changed, arg};
    assert(c->now != NULL);
    vec_push(&c->listeners, l);
}

void config_unlisten(struct config_live *c, config_changed_fn *changed, void *arg)
{
    size_t i = 0;
    while (i < c->listeners.n &&
           (c->listeners.p[i].changed != changed || c->listeners.p[i].arg != arg)) {
        i++;
    }
    assert(i < c->listeners.n);
    vec_remove(&c->listeners, i);
    if (c->listeners.n == 0) {
        vec_fini(&c->listeners);
    }
}

void config_put(struct config_live *c, const struct config *now, const struct config_diags *diags)
{
    assert(now != NULL);
    c->now = now;
    c->diags = diags;
    for (size_t i = 0; i < c->listeners.n; i++) {
        c->listeners.p[i].changed(c->listeners.p[i].arg);
    }
}
