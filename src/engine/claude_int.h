#pragma once

#include "engine/base.h"

// What the files of engine claude share: claude.c is the thread and its stream, claude_calls.c the calls of tools.

enum { CLAUDE_ID_MAX = 150 };

struct tool_map;

/// A call that Claude asks about.
struct claude_call {
    char *id, *request;         // of the tool, of the question; `request` NULL: answered
    const struct json *input;   // as Claude made it
    const struct tool_map *map; // what its tool is here; not of a tool of ours
    struct json rpc_id;         // of a tool of ours; in the arena
    bool ours;
    struct arena arena;
};

struct claude {
    struct engine_base base; // its task tells `why`
    struct arena line;       // of the message under way
    bool resumed, told_past;
    vec(struct claude_call *) calls;
    bool in_turn, stopping;
    bool message_open; // pieces of it came, and not its end
    struct buf again;  // messages to the turn, which continues with them after the interrupt
    struct provider_usage usage;
    unsigned n_requests; // of ours to Claude
    struct err why;
};

// claude_calls.c
/// A question of Claude Code's: a hook, a message to our MCP server. Every one is answered.
void claude__questioned(struct claude *c, const struct json *msg);
/// The call of that id; NULL: there is none.
struct claude_call *claude__find_call(const struct claude *c, struct str id);
void claude__forget_call(struct claude *c, struct claude_call *call); // it is over
void claude__forget_calls(struct claude *c);                          // and so are all
/// allow(), refuse() and answer() of engine_ops.
void claude__allow(struct engine_thread *t, struct str id, const struct json *input);
void claude__refuse(struct engine_thread *t, struct str id, struct str reason);
void claude__answer(struct engine_thread *t, struct str id, struct str output, bool success);
