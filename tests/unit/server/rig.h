#pragma once

// A real server on a real loop, clients on real sockets of the same thread, handlers of our own.

#include "net/http1.h"
#include "server/server_int.h"
#include "unit/test.h"

#define TOKEN "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

struct rig {
    struct loop loop;
    struct server *server;
    struct event_log *events;
    struct gen_engine *engine; // NULL: no plugins
    uint64_t now_ms;           // what the loop's clock says
    size_t runs[OP__COUNT];    // calls of each operation
    struct op_call *held[64];  // calls of DOCTOR and FEATURE_DISABLE, not answered yet
    size_t n_held;
    const struct server_page *page; // set before rig_open(); NULL: the plain page
    size_t big;                     // bytes of OPENAPI's answer
    unsigned taken;                 // so many of the next listeners find their port taken
    char socket[160];
    bool stalled; // the loop is held up: rig_turn() does nothing
    bool ready, closed;
};
extern struct rig rig;

/// Open the rig. `limits` NULL: the defaults. Unix socket and TCP on 127.0.0.1 both listen.
void rig_open(const struct server_limits *limits);
/// Close everything and fail on what is left open.
void rig_close(void);
void rig_turn(void);                                     // one turn of the loop, not waiting
void rig_pass(uint64_t ms);                              // let time go by
void rig_answer(size_t i, int status, const char *json); // answer held call `i`

int rig_unix(void); // a connected client; non-blocking
int rig_tcp(void);
/// False when the server has closed before all was sent.
bool rig_send(int fd, const char *bytes, size_t n);
void rig_put(int fd, const char *text);
bool rig_at_end(int fd); // waits for the next byte or the end: true at the end

/// One answer as a client reads it.
struct answer {
    struct http1 head;
    struct buf body;
};
/// Wait for an answer. Only its own bytes are read: the next one stays in the socket.
void rig_read(int fd, bool head_only, struct answer *out);
void answer_fini(struct answer *a);
/// Send a request and give back its status; the body's beginning goes to `body` (may be NULL).
int rig_ask(int fd, const char *request, char *body, size_t n);
/// The same on a new connection that is closed afterwards.
int rig_ask_unix(const char *request, char *body, size_t n);
int rig_ask_tcp(const char *request, char *body, size_t n);
const char *rig_host(void); // "127.0.0.1:PORT"
