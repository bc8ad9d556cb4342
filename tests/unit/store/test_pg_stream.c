#include "lib/pg_server.h"
#include "pg/pg.h"
#include "store/store.h"
#include "unit/test.h"

// A hub that follows the stream of a shared store.

struct hub {
    struct loop loop;
    struct store *store;
    bool ready, followed, rang, closed;
};

static void on_ready(void *arg, int status, const struct err *e)
{
    struct hub *h = arg;
    if (status < 0) {
        test_fail(__FILE__, __LINE__, "%s", e->msg);
    }
    h->ready = true;
}

static void on_followed(void *arg, int status, const struct err *e)
{
    struct hub *h = arg;
    (void)e;
    CHECK_INT(status, 0);
    h->followed = true;
}

static void on_event(void *arg, const struct store_stream_event *ev)
{
    (void)arg;
    (void)ev;
}

static void on_ring(void *arg, struct str what)
{
    struct hub *h = arg;
    h->rang |= str_eqz(what, "heard");
}

static void on_closed(void *arg, int status, const struct err *e)
{
    struct hub *h = arg;
    (void)e;
    CHECK_INT(status, 0);
    h->closed = true;
}

static void wait_for(struct hub *h, const bool *flag)
{
    while (!*flag) {
        loop_run_once(&h->loop, true);
    }
}

/// Events that are said to be on the stream and were not read.
static int lag(struct hub *h)
{
    static const char name[] = "\nafloat_store_stream_lag_events ";
    struct buf text = {.max = SIZE_MAX};
    store_metrics(h->store, &text);
    const char *at = strstr(buf_z(&text), name);
    int n = at != NULL ? atoi(at + sizeof name - 1) : -1;
    buf_fini(&text);
    return n;
}

TEST(an_event_that_the_server_has_lost_is_not_asked_for_again_and_again)
{
    struct hub h = {0};
    struct err e = {0};
    struct pg_link *l = NULL;
    const char *url = pg_server_start();
    struct store_team team = {.url = url, .hub = "here", .lease_s = 15};
    struct store_opts opts = {.home = test_dir(), .team = &team};
    CHECK_INT(loop_init(&h.loop, NULL, NULL), 0);
    CHECK_INT(store_open(&h.store, &h.loop, &opts, on_ready, &h, &e), 0);
    wait_for(&h, &h.ready);
    store_on_ring(h.store, on_ring, &h);
    store_follow(h.store, 0, on_event, on_followed, &h);
    wait_for(&h, &h.followed);

    // a server that lost commits has told of more events than it has
    CHECK_INT(pg_link_open(&l, url, &e), 0);
    CHECK_INT(pg_link_script(l,
                             "SELECT pg_notify(afloat.channel(), '1000');"
                             "SELECT pg_notify(afloat.channel(), 'heard')",
                             &e),
              0);
    pg_link_close(l);
    wait_for(&h, &h.rang);
    while (lag(&h) != 0) {
        loop_run_once(&h.loop, true);
    }

    store_unfollow(h.store);
    store_close(h.store, on_closed, &h);
    wait_for(&h, &h.closed);
    while (loop_run(&h.loop)) {
    }
    CHECK_INT(loop_close(&h.loop, &e), 0);
}
