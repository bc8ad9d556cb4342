#pragma once

#include "agent/agent.h"
#include "api/api_int.h"

// What the handlers of sessions share.

/// One operation on a session, while it is looked up and works.
struct session_op {
    struct api *api;
    struct op_call *call;
    void (*run)(struct session_op *o, struct session *s);
};

/// Find the session of the path and run `run`, which answers and ends the operation; answered here when
/// there is none.
void api__with_session(struct api *api, struct op_call *c,
                       void (*run)(struct session_op *o, struct session *s));
/// The same for a session that is named elsewhere.
void api__with_session_of(struct api *api, struct op_call *c, struct str id,
                          void (*run)(struct session_op *o, struct session *s));
/// Answer with a problem and end it.
void api__session_no(struct session_op *o, const struct agent_no *no);
/// Begin an answer that is an object, or with `no` answer that: NULL. Then api__session_end() sends it.
struct jw *api__session_begin(struct session_op *o, const struct agent_no *no);
void api__session_end(struct session_op *o, int status);
/// agent_done_cb of a session_op: answer 200 `{ok: true}`.
void api__session_ok(void *arg, const struct agent_no *no);
/// agent_text_cb of a session_op: answer 200 with the text.
void api__session_text(void *arg, struct str json, const struct agent_no *no);
/// agent_session_cb of a session_op: answer 200 with the row.
void api__session_row(void *arg, struct session *s, const struct agent_no *no);
