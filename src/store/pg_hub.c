// This hub among those that share the store, for parts that keep tables of their own there (src/fleet).

#include "store/pg_store.h"

bool store_hub(struct store *s, struct store_hub *out)
{
    *out = (struct store_hub){0};
    if (!store_shared(s)) {
        return false;
    }
    const struct pg_store *p = pg_store_of(s);
    *out =
        (struct store_hub){.pg = p->pg, .name = p->hub, .epoch = p->epoch, .lease_s = p->lease_s};
    return true;
}

void store_on_ring(struct store *s, store_ring_cb *cb, void *arg)
{
    if (store_shared(s)) {
        struct pg_store *p = pg_store_of(s);
        p->ring = cb;
        p->ring_arg = arg;
    }
}
