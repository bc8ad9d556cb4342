#pragma once

#include "agent/provider.h"
#include "base/vec.h"

// A conversation as the model gets it: the list of messages of a request (agent/provider.h), built while a turn runs,
// or from the events of a journal. It uses no thread and no clock.
//
//     message.completed user ──> user          tool.completed ──┐
//     message.completed assistant ──> assistant with calls ─────┴─> tool: results in the order of calls
//
// Invariant: an assistant message with calls is followed by a result for each of them, before any other
// message; a result that never came is a failed one that says so.

struct talk;

/// An empty conversation; the caller frees it.
struct talk *talk_new(void);
void talk_free(struct talk *t); // NULL is allowed

/// The messages, an array; borrowed until the next change. Open calls get their results first.
const struct json *talk_messages(struct talk *t);

// ---- while a turn runs --------------------------------------------------------------------------

/// Add the message that begins a turn. `images` (may be NULL): where its pictures are, see picture.h.
void talk_user(struct talk *t, struct str text, const struct json *images);
/// Replace the text of the last user message.
void talk_replace_user(struct talk *t, struct str text);
/// Add an answer; `content` has the form of a response. Returns its copy, which lives as long as the conversation; NULL:
/// it is empty.
const struct json *talk_assistant(struct talk *t, const struct json *content, uint64_t left_out);
/// Add the result of a call of the last assistant message. `error` may be empty.
void talk_result(struct talk *t, struct str call_id, struct str output, bool success,
                 struct str error);
/// Add a steering message: the user sends it while the model answers or tools run, and the model reads it with the next
/// request. The part of an answer that talk_cut() gave becomes the message before it.
void talk_say(struct talk *t, struct str text);
/// How many steering messages the model has not read yet.
size_t talk_unheard(const struct talk *t);
/// The model reads steering messages now, until it has read `total` in this turn (SIZE_MAX: all). They follow all other
/// messages. Returns how many it has read in this turn.
size_t talk_hear(struct talk *t, size_t total);
/// The user cut an answer off; `text`, copied, is the part so far. talk_say() or talk_interrupted(), whichever follows,
/// tells the model.
void talk_cut(struct talk *t, struct str text);
/// The user interrupted the turn: tell the model.
void talk_interrupted(struct talk *t);
/// Replace all but the last `keep` messages with one that holds `summary`.
void talk_compact(struct talk *t, struct str summary, size_t keep);
/// Mark this place as `point`: talk_rewind() to it takes back what follows.
void talk_mark(struct talk *t, struct str point);
/// Is there a mark `point`?
bool talk_has_mark(const struct talk *t, struct str point);
/// Go back to the mark `point`; `as` becomes a mark for the place left, to undo this. False: there is no such mark.
bool talk_rewind(struct talk *t, struct str point, struct str as);
/// How many messages there are from the last user message to the end.
size_t talk_tail(struct talk *t);
/// Cut the results of tools to `max` bytes each; returns how many were longer.
size_t talk_trim(struct talk *t, size_t max);

/// Append the content of a message as text, for a model that reads it as a report: each part on its own lines and cut to
/// `max` bytes.
void talk_write_content(struct buf *out, const struct json *message, size_t max);

// ---- from a journal -----------------------------------------------------------------------------

/// A call without a result in the journal.
struct talk_call {
    char *id, *tool, *turn;
    bool waits; // it waits for permission, and has not run
};

/// What a journal tells beyond the messages. Zeroed: nothing.
struct talk_facts {
    uint64_t turns, requests, asks; // highest numbers given out
    struct provider_usage usage;    // of the session
    double cost;                    // NAN: unknown
    bool has_usage;                 // the journal has some
    uint64_t calls;                 // tools called
    vec(char *) open;               // turns accepted and not ended, in order
    vec(struct talk_call) running;  // calls of the last turn that have no result
};
/// Free the ids of open turns and running calls.
void talk_facts_fini(struct talk_facts *f);

/// Replay one event of a journal; call it in order.
void talk_replay(struct talk *t, struct talk_facts *f, const struct json *ev);
