#pragma once

#include "agent/agent.h"
#include "agent/providers.h"
#include "agent/responses.h"
#include "loop/timer.h"
#include "modelserver/modelserver.h"

// What the files of modelserver/ share.
//
//     server/mount ─> modelserver.c (method, body, session) ─> responses.c: one answer of a model
//                                                           └> models.c: the models of all providers

struct modelserver {
    struct modelserver_opts o;
    struct server_mount responses, models;
    struct model_call *calls;
};

/// One request under way.
struct model_call {
    struct modelserver *server;
    struct mount_call *m; // NULL: the peer is gone
    struct model_call *prev, *next;
    void (*run)(struct model_call *c);  // when session and body are known
    void (*stop)(struct model_call *c); // end what it waits for
    void *work;                         // of run()
    struct arena arena;
    const struct json *body;      // NULL: none was sent
    const char *const *variables; // of the session named in a header, for keys; NULL: none
    const char *session_model;    // "PROVIDER/MODEL" of that session; NULL: none
    const char *cwd;              // of that session; NULL: none
    bool looking;                 // the session is being looked up
};

/// Answer with a whole body and free the call.
void model_call__reply(struct model_call *c, int status, struct str body);
/// Answer with an error and free the call. `param` and `code` may be NULL.
void model_call__refuse(struct model_call *c, int status, const char *type, const char *param,
                        const char *code, const char *fmt, ...) PRINTF_LIKE(6, 7);
/// Free the call, whose answer has begun or is no longer wanted.
void model_call__free(struct model_call *c);

/// Begin to answer POST /v1/responses, or GET /v1/models. Both set `stop` and free the call in the end.
void responses__run(struct model_call *c);
void models__run(struct model_call *c);
