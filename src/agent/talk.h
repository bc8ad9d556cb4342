#pragma once

#include "agent/provider.h"
#include "base/vec.h"

// A conversation as the model gets it: the list of messages of a request (agent/provider.h), built up
// while a turn runs, or from the events of a journal. Plain memory, no thread and no clock.
//
//     message.completed user ──> user          tool.completed ──┐
//     message.completed assistant ──> assistant with calls ─────┴─> tool: results in the order of calls
//
// Invariant: after an assistant message with calls comes a result for every one of them, before any other
// message; a result that never arrived is a failed one that says so.

struct talk;

/// An empty conversation; the caller frees it.
struct talk *talk_new(void);
void talk_free(struct talk *t); // NULL is allowed

/// The messages, an array; borrowed until the next change. Open calls are settled first.
const struct json *talk_messages(struct talk *t);

// ---- while a turn runs --------------------------------------------------------------------------

/// A turn begins with this. `images` (may be NULL): where the pictures with it are, see picture.h.
void talk_user(struct talk *t, struct str text, const struct json *images);
/// The text of the last user message is another one.
void talk_replace_user(struct talk *t, struct str text);
/// `content` as a response has it. Returns the copy in the conversation, which stays as long as that; NULL
/// when it says nothing.
const struct json *talk_assistant(struct talk *t, const struct json *content, uint64_t left_out);
/// The answer to a call of the last assistant message. `error` may be empty.
void talk_result(struct talk *t, struct str call_id, struct str output, bool success,
                 struct str error);
/// Something said while the model speaks or tools run: it is heard with the next request.
void talk_say(struct talk *t, struct str text);
/// How much was said and not heard yet.
size_t talk_unheard(const struct talk *t);
/// The model hears it now, after all other messages: of this turn `total` in all (SIZE_MAX: everything).
/// Returns how many it has heard in this turn.
size_t talk_hear(struct talk *t, size_t total);
/// Something that the model should know and nobody said.
void talk_remark(struct talk *t, struct str text);
/// The turn was ended by the user: the model is told so.
void talk_interrupted(struct talk *t);
/// All but the last `keep` messages become one that holds `summary`.
void talk_compact(struct talk *t, struct str summary, size_t keep);
/// From here on it is "after `point`": talk_rewind() to it takes back what follows.
void talk_mark(struct talk *t, struct str point);
bool talk_has_mark(const struct talk *t, struct str point);
/// Go back to `point`, a mark; `as` is a mark for what is given up by that. False: there is no such mark.
bool talk_rewind(struct talk *t, struct str point, struct str as);
/// How many messages at the end belong to what was said last: from the last user message on.
size_t talk_tail(struct talk *t);
/// Cut the results of tools to `max` bytes each; returns how many were longer.
size_t talk_trim(struct talk *t, size_t max);

// ---- from a journal -----------------------------------------------------------------------------

/// A call that a journal begins and does not end.
struct talk_call {
    char *id, *tool, *turn;
};

/// What a journal says beyond the messages. Zeroed: nothing.
struct talk_facts {
    uint64_t turns, requests, asks; // highest numbers given out
    struct provider_usage usage;    // of the session
    double cost;                    // NAN: unknown
    bool has_usage;                 // there was one
    uint64_t calls;                 // tools called
    vec(char *) open;               // turns accepted and not ended, in order
    vec(struct talk_call) running;  // calls of the last turn that have no result
};
/// Free the ids of open turns and running calls.
void talk_facts_fini(struct talk_facts *f);

/// Take one event of a journal, in order.
void talk_replay(struct talk *t, struct talk_facts *f, const struct json *event);
