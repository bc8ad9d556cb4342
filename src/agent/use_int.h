#pragma once

#include "agent/agent_int.h"
#include "base/redact.h"

// One call of a tool, from what the model asked for to what it reads. See turn_tools.c.

struct use {
    struct turn *t;
    struct str id;                 // the model's
    struct str name;               // of the tool, as on_tool_call left it
    const struct json *call;       // {tool_name, tool_call_id, input} as handlers see it
    const struct json *said;       // the input as the model wrote it
    const struct json *result;     // {output, success, error?, ...}
    const struct tool_entry *tool; // NULL: there is none
    struct pipe pipe;
    uint64_t since_ns;
    const char *resolved_by; // a unit; NULL: the tool itself ran
    struct str diff;         // what it changes in a file, in the step's arena; may be empty
    bool guarded;     // the file runs outside of the sandbox: the user has to agree to this change
    bool consented;   // and has agreed
    bool noted;       // tool.called is on its way
    bool synced;      // it is on the disk: the tool may begin
    const char *lost; // why it is not: it will not begin
    bool allowed;     // by plugins, policy and people
    bool over;
    // what runs it
    struct hook_ctx ctx;
    struct hook_seen seen; // of it, when the plugin's tool began
    struct gen_call gen;
    bool calling;
    bool dressing; // it waits for its environment
    struct tool_call *running;
    bool in_line, counted; // others run; it is one of t->n_running
    struct use_save *saving;
    struct use_kit *kit;
    size_t progress;              // bytes told so far
    struct redact_stream secrets; // in it
    bool telling;                 // one is being written
    // whom it waits for
    enum ask_kind asking;
    const char *asked_by; // the plugin that wants it asked; NULL: none
    char ask_id[ASK_ID];
    struct timer patience;
    struct deciding *deciding; // an answer that is being stored; it forgets a use that goes first
};

/// A call has its result: on_tool_result, and then the model. `error` may be NULL.
void use__finish(struct use *u, struct str output, bool success, const char *error);
/// May it run? Goes on to use__resolve() or ends it.
void use__permit(struct use *u);
/// Nothing is against it any more.
void use__resolve(struct use *u);
/// The user has allowed it.
void use__go_on(struct use *u);
/// Find out what a file tool would change, then ask.
void use__preview(struct use *u);
/// Ask the user; u->diff and u->asked_by are set.
void use__ask(struct use *u);
/// Nobody will answer: the turn ends.
void use__stop_asking(struct use *u);
/// The use is freed: an answer on its way to the disk forgets it.
void use__drop_decision(struct use *u);
/// The tool `ask_user`.
void use__ask_user(struct use *u, const struct json *input);

// use_own.c: tools that need the session itself
void use__run_own(struct use *u);
void use__drop_save(struct use *u); // the report has nobody to go to

// session_role.c: tools of bots
void use__run_kit(struct use *u);
void use__drop_kit(struct use *u); // the answer has nobody to go to
