// The process that kill -9 loops kill; see journal_writer.h.

#include "lib/journal_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"

enum { IN_FLIGHT = 12 };

struct writer {
    struct loop loop;
    struct store *store;
    struct str id;
    int fd;
    unsigned in_flight;
};

struct request {
    struct writer *w;
    int synced;
};

static _Noreturn void give_up(const char *what, const struct err *e)
{
    fprintf(stderr, "writer: %s: %s\n", what, e != NULL ? e->msg : "");
    _exit(3);
}

static void fill(struct writer *w);

static void on_appended(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct request *r = arg;
    struct writer *w = r->w;
    struct journal_ack ack = {a->last_seq, r->synced};
    if (status < 0) {
        give_up("append", e);
    }
    if (write(w->fd, &ack, sizeof ack) != (ssize_t)sizeof ack) {
        _exit(4);
    }
    free(r);
    w->in_flight--;
    fill(w);
}

static void fill(struct writer *w)
{
    static char text[9000];
    static struct store_event events[20];
    while (w->in_flight < IN_FLIGHT) {
        struct request *r = malloc(sizeof *r);
        size_t n = 1 + (size_t)rand() % 20, len = (size_t)rand() % (rand() % 10 == 0 ? 8000 : 100);
        snprintf(text, sizeof text, "\"text\":\"%0*d\"", (int)len + 1, 0);
        for (size_t i = 0; i < n; i++) {
            events[i] = (struct store_event){STR("message.delta"), str_of(text)};
        }
        if (r == NULL) {
            abort();
        }
        *r = (struct request){w, rand() % 4 == 0};
        w->in_flight++;
        store_append(w->store, w->id, events, n, r->synced ? STORE_SYNCED : STORE_WRITTEN,
                     on_appended, r);
    }
}

static void on_made(void *arg, int status, const struct err *e)
{
    if (status < 0 && status != ERR_CONFLICT) {
        give_up("new", e);
    }
    fill(arg);
}

static void on_ready(void *arg, int status, const struct err *e)
{
    struct writer *w = arg;
    char dir[128];
    if (status < 0) {
        give_up("open", e);
    }
    snprintf(dir, sizeof dir, "sessions/" STR_FMT, STR_ARG(w->id));
    store_session_new(w->store, w->id, str_of(dir),
                      STR("{\"started_at\":\"2026-11-15T05:00:00.000Z\"}"), on_made, w);
}

void journal_writer_run(const char *home, const char *id, int fd, unsigned seed)
{
    static struct writer w;
    struct err e;
    srand(seed);
    w.id = str_of(id);
    w.fd = fd;
    if (loop_init(&w.loop, NULL, &e) < 0 ||
        store_open(&w.store, &w.loop, &(struct store_opts){.home = home}, on_ready, &w, &e) < 0) {
        give_up("start", &e);
    }
    loop_run(&w.loop);
    _exit(5);
}
