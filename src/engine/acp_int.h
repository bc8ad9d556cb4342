#pragma once

#include "engine/base.h"
#include "rpc/rpc.h"

// What the files of engine acp share.
//
//     acp.c        the thread: handshake, prompts, their end        acp_calls.c  calls of the agent's tools
//     acp_tools.c  our tools for the agent

/// A call of the agent, from the first message about it to its end.
struct acp_call {
    char *id;                 // the agent's
    char *ours;               // unique in the turn
    char *title, *kind;       // may be NULL
    const struct json *input; // as the agent has it; NULL: unknown. In `arena`
    char *path;               // NULL: none
    struct buf text, diff;    // what it shows
    bool told;                // on_call was called
    bool refused;             // further messages about it are ignored
    const struct json *ask;   // the id of the agent's question; NULL: none is open
    char *allow, *reject;     // options of it; NULL: none of that kind
    struct arena arena;
};

enum acp_ask { ACP_INIT, ACP_NEW, ACP_LOAD, ACP_PROMPT };

struct acp_thread {
    struct engine_base base; // its task ends the turn
    struct gateway *gateway; // the child's; NULL: there is none
    vec(struct acp_tool_call *) tool_calls;
    const char *resume;
    bool boxed; // it runs in a box without network
    // under way
    int64_t last_id;
    int64_t asked[4]; // the id of the request of each kind that is open; 0: none
    bool can_load, can_resume, can_http, can_see;
    bool loading;         // it reports the past
    bool fresh;           // it knows neither the instructions nor the past
    bool in_turn;         // turn() was called, on_end was not
    bool begun, stopping; // the prompt was sent; interrupt() came
    struct buf input;     // of the turn, until it begins; then what the user adds
    struct buf pictures;  // of the turn, as items of JSON, until it begins
    bool unfit;           // it has pictures, and the agent takes none
    struct buf message;   // the message so far
    unsigned n_ours;      // calls of our tools without an answer
    bool over;            // the prompt is over; the turn ends with the last of these
    unsigned n_calls;     // told in this turn, for ids
    vec(struct acp_call *) calls;
};

// acp.c
/// The message so far is complete: report it.
void acp__flush(struct acp_thread *t);
/// Answer a question of the agent's; `result` is JSON.
void acp__reply(struct acp_thread *t, const struct json *id, const char *result);

// acp_calls.c
/// session/update tool_call and tool_call_update.
void acp__call_update(struct acp_thread *t, const struct json *update, bool begins);
/// session/request_permission: every one is answered.
void acp__permission(struct acp_thread *t, const struct json *id, const struct json *params);
/// The list of steps, as a call of our tool for it.
void acp__plan(struct acp_thread *t, const struct json *update);
/// The decision about a call, by our id for it.
void acp__decide(struct acp_thread *t, struct str ours, bool allow);
/// Answer the open questions with "cancelled"; the calls stay.
void acp__cancel_questions(struct acp_thread *t);
void acp__forget_calls(struct acp_thread *t); // the turn is over

// acp_tools.c
/// gateway_request of the thread.
void acp__tools_request(void *arg, struct str body, struct gateway_ticket *ticket);
/// The result of a call that came from there. False: it did not.
bool acp__tool_answer(struct acp_thread *t, struct str ours, struct str output, bool success);
void acp__tools_end(struct acp_thread *t); // calls that are open are answered
