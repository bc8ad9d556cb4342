#pragma once

#include <pthread.h>

#include <uv.h>

#include "server/server.h"

// Answering `GET /healthz` from another thread while the loop thread is held up. See door.c.

struct server;

/// The names of TCP by which a request may address us; see hosts.c.
struct hosts_local {
    char port[8];    // of the TCP listener, or ""
    char listen[64]; // its address as it appears in a Host header
};

struct door {
    pthread_mutex_t lock;
    uv_async_t bell;  // tells the loop to take over what is held
    int listeners[2]; // our own descriptors, over TCP and over the Unix socket; -1: none
    struct hosts_local local;
    struct door__conn {
        int fd;
        bool over_socket;
    } * held;
    size_t n_held;
};

/// Make the door of `s`, whose loop is set. It counts as one of the handles that are open.
void door__open(struct server *s);
/// Give what is held to the server, which turns it away.
void door__close(struct server *s);
/// Free it, after the listeners and door__close().
void door__fini(struct door *d);
/// The server listens with `listener` now; NULL: no longer.
void door__listen(struct server *s, bool over_socket, const uv_handle_t *listener);
