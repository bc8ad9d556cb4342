#pragma once

#include "agent/agent.h"
#include "api/api_int.h"

// What the handlers of sessions share.

/// An operation on a session that was found; it answers.
typedef void session_fn(struct op_call *c, struct session *s);

/// Find the session `id` and run `run`; answered here when there is none, and with `here` also when another hub runs a turn
/// in it.
void api__with_session(struct op_call *c, struct str id, bool here, session_fn *run);
#define OF_SESSION_IF(id, here, run)                                                               \
    void op_##id(struct api *api, struct op_call *c)                                               \
    {                                                                                              \
        (void)api;                                                                                 \
        api__with_session(c, json_get_text(c->params, "id"), here, run);                           \
    }
/// The handler of an operation whose path names the session.
#define OF_SESSION(id, run) OF_SESSION_IF(id, false, run)
/// The same for what changes the turn that runs, which its own hub alone can.
#define OF_SESSION_HERE(id, run) OF_SESSION_IF(id, true, run)

/// Begin an answer that is an object, or with `no` answer that: NULL. Then op_end_obj() sends it.
struct jw *api__session_begin(struct op_call *c, const struct agent_no *no);
/// agent_done_cb of an op_call: answer 200 `{ok: true}`.
void api__session_ok(void *arg, const struct agent_no *no);
/// agent_text_cb of an op_call: answer 200 with the text.
void api__session_text(void *arg, struct str json, const struct agent_no *no);
