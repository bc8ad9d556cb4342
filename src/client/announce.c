// Messages of a shell to the hub.
//
// A shell works without a hub, and outlives hubs. Each message is one call on a thread of our own; without
// a hub it costs one failed connect. The socket (device, inode and time of change) identifies the hub that
// got the last message: every few seconds we check whether there is another hub now, and if so it gets the
// last message again. The last message describes the whole state, so that is enough.

#include "client/announce.h"

#include <assert.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "client/client.h"
#include "loop/timer.h"
#include "loop/work.h"

enum { LOOK_MS = 4000, CALL_MS = 2000, WAITING_MAX = 64 };

struct identity {
    dev_t dev;
    ino_t ino;
    int64_t ctime_ns;
};

struct message {
    struct announce *a;
    char *path, *body;
    char *socket;
    struct identity hub; // as it was when the call began
    bool sent;           // it was taken
};

struct announce {
    char *socket;
    struct lane *lane;
    struct timer look;
    struct identity told; // the hub that has the last message; zeros: none
    char *path, *body;    // the last message; NULL: none yet
    size_t under_way;
    bool closed;
};

static struct identity identity_of(const char *socket)
{
    struct stat st;
    if (stat(socket, &st) != 0) {
        return (struct identity){0};
    }
    return (struct identity){st.st_dev, st.st_ino,
                             (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec};
}

static bool same(const struct identity *a, const struct identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->ctime_ns == b->ctime_ns;
}

static void free_announce(struct announce *a)
{
    lane_close(a->lane);
    free(a->socket);
    free(a->path);
    free(a->body);
    free(a);
}

static void call_hub(void *arg)
{
    struct message *m = arg;
    m->hub = identity_of(m->socket); // before the call: a hub that starts meanwhile is another
    struct client_peer hub = {.socket = m->socket};
    struct client_request r = {
        .method = "POST", .path = m->path, .body = str_of(m->body), .timeout_ms = CALL_MS};
    struct client_answer answer;
    client_answer_init(&answer);
    m->sent = client_call(&hub, &r, &answer, NULL) == 0;
    client_answer_fini(&answer);
}

static void on_called(void *arg)
{
    struct message *m = arg;
    struct announce *a = m->a;
    assert(a->under_way != 0);
    a->under_way--;
    a->told = m->sent ? m->hub : (struct identity){0};
    free(m->path);
    free(m->body);
    free(m->socket);
    free(m);
    if (a->closed && a->under_way == 0) {
        free_announce(a);
    }
}

static void submit(struct announce *a)
{
    assert(a->path != NULL && a->body != NULL && !a->closed);
    struct message *m = xcalloc(1, sizeof *m);
    *m = (struct message){
        .a = a, .path = xstrdup(a->path), .body = xstrdup(a->body), .socket = xstrdup(a->socket)};
    a->under_way++;
    work_submit(a->lane, 0, call_hub, on_called, m);
}

static void on_look(void *arg)
{
    struct announce *a = arg;
    struct identity now = identity_of(a->socket);
    if (a->body != NULL && a->under_way == 0 && now.ino != 0 && !same(&now, &a->told)) {
        submit(a);
    }
    timer_start(&a->look, LOOK_MS);
}

struct announce *announce_open(struct loop *l, const char *socket)
{
    struct announce *a = xcalloc(1, sizeof *a);
    a->socket = xstrdup(socket);
    a->lane = lane_open(l, "announce", 1);
    timer_init(&a->look, l, on_look, a);
    timer_start(&a->look, LOOK_MS);
    return a;
}

void announce_send(struct announce *a, const char *path, struct str body)
{
    free(a->path);
    free(a->body);
    a->path = xstrdup(path);
    a->body = str_dup(body);
    if (a->under_way < WAITING_MAX) {
        submit(a);
    }
}

void announce_close(struct announce *a)
{
    if (a == NULL) {
        return;
    }
    a->closed = true;
    timer_stop(&a->look);
    if (a->under_way == 0) {
        free_announce(a);
    }
}
