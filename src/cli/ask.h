#pragma once

#include "base/json.h"
#include "cli/cli_int.h"
#include "client/ask.h"
#include "client/client.h"
#include "view/table.h"

// Asking the hub on behalf of a command. Results are exit codes: 0 to continue, else what the command
// returns; whatever went wrong has been said.

/// How long the answer of an operation is waited for.
unsigned ask_limit_ms(enum op_id op);

/// Start the hub if it does not run. `already` (may be NULL) tells whether it did.
int ask_start(struct cli *c, bool *already);

/// Does the home's hub answer? Starts none.
bool ask_is_up(struct cli *c);

/// Before connecting to the hub: ERR_UNREACHABLE when that would start one, which systemd would do (see
/// holder_is_dormant()), and the command starts none; else 0.
int ask_may_connect(struct cli *c, struct err *e) MUST_CHECK;

/// Make sure that there is a hub: starts one if the command does that.
int ask_ensure_hub(struct cli *c);

/// Send a request over the socket and take any HTTP answer. Starts a hub if the command does that.
int ask_request(struct cli *c, const struct client_request *r, struct client_answer *a);

/// The same, but anything but 2xx is told and becomes the exit code.
int ask_accepted(struct cli *c, const struct client_request *r, struct client_answer *a);

/// Call an operation; anything but 2xx is told and becomes the exit code. With --json the answer is
/// printed as it came, whatever it was.
int ask_op(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
           struct client_answer *a);

/// Tell what an answer that is no success says; returns the exit code.
int ask_problem(struct cli *c, const struct client_answer *a);
/// The exit code for an answer: 0 for 2xx, else by its problem code, else by its status.
int ask_exit_of(const struct client_answer *a);
/// The exit code by the status alone, for `afloat api`.
int ask_exit_of_status(int status);

/// Call an operation over the socket and take any answer. Prints nothing and starts no hub by itself. `timeout_ms` of 0 is the
/// usual time. Returns 0, or a negative code with `e` (may be NULL).
int ask_send(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
             unsigned timeout_ms, struct client_answer *a, struct err *e);
/// The same for who needs only a success: the answer, in `arena`, else NULL.
const struct json *ask_quietly(struct cli *c, enum op_id op, const struct ask_param *params,
                               size_t n, unsigned timeout_ms, struct arena *arena);

/// The parameter `after` of OP_EVENTS that is greater than every id: the answer's `next` is the newest.
#define ASK_EVENTS_END "9007199254740991"

/// Call an operation without parameters so that a running hub takes notice of changed files now; `what`
/// names them in the note that tells of a failure. Without a hub nothing happens.
void ask_nudge(struct cli *c, enum op_id op, const char *what);

/// True when the home's hub answers; then `a` holds its health. Never starts one, see
/// holder_is_dormant().
bool ask_health(struct cli *c, struct client_answer *a);

/// One line when the hub is of another build than we are.
void ask_note_build(struct cli *c, const struct client_answer *a);

/// The answer's body as JSON, in `arena`; NULL, with an error printed, when it is not JSON.
struct json *ask_json(struct cli *c, struct arena *arena, const struct client_answer *a);

/// ask_op() and ask_json() in one: the answer in `*out`, living in `arena`; NULL when the exit code is not
/// 0. ask_value() also sets NULL with --json, where the answer has been printed.
int ask_parsed(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
               struct arena *arena, const struct json **out);
int ask_value(struct cli *c, enum op_id op, const struct ask_param *params, size_t n,
              struct arena *arena, const struct json **out);
