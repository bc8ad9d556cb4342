#pragma once

#include "agent/agent.h"
#include "agent/engine.h"
#include "agent/prompt.h"
#include "agent/providers.h"
#include "agent/talk.h"
#include "agent/tool_call_int.h"
#include "base/fifo.h"
#include "base/map.h"
#include "base/vec.h"
#include "loop/work.h"
#include "permit/book.h"
#include "proto/events.h"
#include "rewind/rewind.h"
#include "sandbox/box.h"
#include "store/store.h"

// What the files of sessions and turns share.
//
//     agent.c            the table of sessions, start and stop
//     session.c          one session: found, changed, ended     session_new.c     made
//     session_send.c     its messages                           session_meta.c    as JSON
//     session_settings.c what requests may ask for              session_places.c  their directories
//     session_journal.c  events: written, then shown, and listed
//     session_load.c     the conversation, from the journal     talk.c            the conversation
//     session_claim.c    several hubs on one store              session_units.c   its plugins
//     session_fork.c     a copy                                 session_env.c     tools' variables
//     session_role.c     sessions of bots                       session_rewind.c  going back
//     session_prune.c    old ones deleted                       session_engine.c  an outside agent's process
//     turn.c             a turn from its beginning to its end   pipeline.c        hooks
//     turn_prompt.c      a step begins                          prompt.c          system prompt
//     turn_model.c       around one request to the model        turn_stream.c     its stream
//     turn_pictures.c    its pictures                           picture.c         their files
//     turn_tools.c       the calls that it asks for             toolbox.c         tools
//     turn_compact.c     a conversation that became too long    permission.c      may it run?
//     turn_engine.c      a turn that an outside agent runs      engines.c         the outside agents there are
//     tool_call.c        the pipeline of every call             tool_call_outside.c  without a session
//     tool_call_job.c    calls of built-in tools                tool_call_plugin.c   of plugins' tools
//     tool_call_editor.c calls that an editor carries out
//     task.c             subagents                              inquiry.c         what tools ask

struct turn;

// ---- the service --------------------------------------------------------------------------------

struct agent {
    struct agent_opts o;
    struct agent_kit kit;       // no tools: there are no bots
    struct agent_screen screen; // no functions: there is no page
    struct map sessions;        // id -> struct session, those in memory
    struct map editors;         // id of a session -> struct agent_editor that drives it
    struct session *warm;       // with a conversation in memory, used last first
    size_t n_warm;
    struct lane *files;       // files of prompts, directories, pictures
    struct lane *requests;    // requests.jsonl, in order
    struct lane *tools;       // jobs
    struct tool_run *runs;    // tools that run without a session
    struct tool_shelf *shelf; // their tools, of the last generation used; NULL: none yet
    uint64_t n_runs;          // so far, for the names of their outputs
    struct rules rules;       // of [[permission]] in the configuration
    struct err rules_fault;   // one of them cannot be used: no session and no turn begins
    struct book *book;        // rules that the user made by answers
    struct rewind *rewind;    // keeps the files that tools are about to change
    const struct engine_kind *const *engines; // outside agents, NULL at the end; NULL: none
    struct engine_world *engine_world;
    size_t n_busy; // jobs that must end before the agent may go
    struct loop_task *idle_task;
    bool stopping;
    loop_fn *ready, *stopped;
    void *ready_arg, *stopped_arg;
};

/// Something begins that will call back: agent_stop() waits for agent__release().
void agent__hold(struct agent *a);
/// It is over.
void agent__release(struct agent *a);

/// Turn an error of the store into a refusal; NULL when `status` is 0.
const struct agent_no *agent__no_store(struct agent_no *no, int status, const struct err *e);

// ---- a session ----------------------------------------------------------------------------------

enum session_state {
    SESSION_IDLE,
    SESSION_RUNNING,
    SESSION_WAITING, // for an answer of the user
    SESSION_ENDED,
    SESSION_CRASHED,
};

enum { SESSION_ASKED_SANDBOX = 1, SESSION_ASKED_NETWORK = 2, SESSION_ASKED_PERMISSION = 4 };

// Ordered from the narrowest to the widest.
enum session_permission {
    PERMISSION_DENY,
    PERMISSION_PLAN, // nothing that writes, runs or reaches out
    PERMISSION_ASK,
    PERMISSION_EDITS, // file tools run, the rest asks
    PERMISSION_AUTO,
};

enum { TURN_ID = 24, SESSION_QUEUE = 64, SUMMARY_BYTES = 200 };

/// A message that waits for its turn.
struct session_message {
    char turn_id[TURN_ID];
    char *text;
    char *images;  // where its pictures are, as JSON (picture.h); NULL: it has none
    bool accepted; // it is in the journal, synced
    bool compact;  // no message, but a request to compact the conversation
    bool stopped;  // the session was interrupted before this turn began
};

/// A caller that waits for a turn.
struct turn_waiter {
    char turn_id[TURN_ID];
    agent_outcome_cb *cb;
    void *arg;
};

/// A caller that waits until the session has entered its directory.
typedef void session_entered(struct session *s, void *arg);
struct session_entrant {
    session_entered *done;
    void *arg;
};

/// A caller that waits for the end of a session.
struct session_ender {
    agent_session_cb *cb;
    void *arg;
};

/// An event on its way into the journal; freed when it is shown.
struct session_note;

struct session {
    struct agent *agent;
    char *id;
    enum session_state state;
    int64_t started_at, ended_at; // ms since 1970; 0: not
    // settings
    char *title, *working_dir;
    struct agent_role role; // in its arena; `dir` is set for every session
    struct arena role_arena;
    char *want_provider, *want_model; // NULL: by the client's environment and the settings
    char *engine;                     // the engine that runs its turns; NULL: our own loop
    bool all_plugins;                 // it has those of [session] plugins
    struct session_names plugins;     // else these, in this order
    struct session_names disabled_tools;
    bool some_tools;               // it has only `tools`
    struct session_names tools;    // of a subagent, by the names that the model uses
    char *parent;                  // the session whose subagent it is; NULL: it is none
    struct task *task;             // the call that waits for it; NULL: none does
    struct session_names writable; // what its tools may write besides the working directory
    struct grants *grants;         // the real places of these paths
    char *memory;                  // ctx.memory that no request had yet, as JSON; NULL: none
    enum box_mode sandbox;
    const char *sandbox_reason; // why it is narrower than the settings; NULL: it is not
    bool network;
    enum session_permission permission;
    bool keep_requests;
    int64_t max_steps; // requests to the model in one turn; 0: [limits] max_steps
    double max_cost;   // USD for the whole session; 0: no cap
    // of the client, in memory only
    char **environment; // "NAME=value", NULL at the end; tools get it
    char **variables;   // the same for providers: AFLOAT_MODEL, keys
    struct provider_choice choice;
    bool chosen;
    char *provider, *model; // as chosen last, for the row
    bool fallback;
    // so far
    uint64_t turns, requests, asks, calls, last_seq;
    struct provider_usage usage;
    double cost;     // NAN: unknown
    int64_t context; // tokens of its last request with the answer; 0: unknown
    char *prompt_summary, *response_summary;
    const char *end_reason; // NULL: none yet
    const char *closed_as;  // `end_reason` that its bot gave; NULL: it did not end it
    char *closing_summary, *action;
    vec(char *) instructions;      // files of its last prompt, relative to the project's root
    char *damage;                  // which of its files cannot be read; NULL: all can
    bool broken;                   // its metadata cannot: no turn begins, and they stay as they are
    const struct talk_facts *left; // open turns and calls of its journal, while it is being loaded
    // in memory
    struct talk *talk;             // NULL: not loaded
    struct session *prev, *next;   // in agent.warm, while `talk` is there
    struct turn *turn;             // NULL: none runs
    struct session_engine *live;   // the engine's process; NULL: none runs
    unsigned engine_processes;     // that still exist, of this engine and of earlier ones
    char *engine_thread;           // the engine's id of the conversation; NULL: it has none
    char *engine_dir;              // where the engine stores it; NULL: not chosen yet
    struct rewind_session *rewind; // what its tools changed; NULL: not used yet, or a bot's run
    char *real_dir;                // of agent_host.enter(); NULL: it has not entered its directory
    bool entering;                 // agent_host.enter() is under way
    unsigned arriving;             // messages that are not in the queue yet
    unsigned patches;              // changes of its settings so far
    unsigned rewinding;            // jobs of session_rewind.c: no turn begins meanwhile
    vec(struct session_entrant) entrants;
    bool claimed;      // in a shared store: this hub alone may write it
    unsigned claiming; // claims under way
    bool marking;      // a turn that a lost hub left open is being ended; claims wait `behind` that
    vec(struct claiming *) behind;
    unsigned saving;    // writes of its metadata under way
    uint64_t row_hash;  // of the metadata that were read last; 0: none
    bool ending, purge; // DELETE came; remove its files too
    bool closing;       // its end is being written, once
    vec(struct session_ender) enders;
    vec(struct session_message) queue;
    fifo(struct session_note) notes;
    vec(struct turn_waiter) waiters;
};

/// "idle", "running", ...
const char *agent__session_state_name(enum session_state state);
/// False, and `*state` untouched, when no state has this name.
bool agent__session_state_find(struct str name, enum session_state *state);
/// "deny", "plan", "ask", "edits", "auto".
const char *agent__session_permission_name(enum session_permission permission);
/// Call `cb` in the loop's next turn: with `s`, when it is still there then, or with `no`.
void agent__answer_session(struct agent *a, agent_session_cb *cb, void *arg, struct session *s,
                           const struct agent_no *no);
/// Can it be used? False, and `no` says why, when its metadata are damaged: fsck can mend them.
bool agent__session_usable(const struct session *s, struct agent_no *no);
/// Drop the accepted messages from the queue: their turns are journaled as interrupted.
void agent__session_drop_queue(struct session *s);
/// No turn runs and no message waits: journal the end, remove the files if `purge`, tell the callers.
void agent__session_finish_end(struct session *s);
/// Begin the turn of the next message, or become idle; end the session if that was asked for.
void agent__session_next(struct session *s);
/// Set the state and journal the change.
void agent__session_set_state(struct session *s, enum session_state state);
/// Does a caller wait for this turn?
bool agent__session_awaited(const struct session *s, const char *turn_id);
/// Answer the callers that wait for the turn.
void agent__session_answer(struct session *s, const struct agent_outcome *o);
/// The plugins of the session in `g`, in order, in the arena. ERR_NOT_FOUND names one that does not serve; `*out` has the
/// others then.
int agent__session_units(const struct session *s, struct gen *g, struct arena *a,
                         struct gen_unit ***out, size_t *n, struct err *e) MUST_CHECK;
/// Check that every plugin that is required in `dir` serves. ERR_NOT_FOUND names one that does not.
int agent__check_required(const struct agent *a, const struct gen *g, const char *dir,
                          struct err *e) MUST_CHECK;
/// Enter the session's directory (agent_host.enter); `done` when the project's plugins serve, from inside if they do
/// already.
void agent__session_enter(struct session *s, session_entered *done, void *arg);
/// Leave it again, if it was entered.
void agent__session_leave(struct session *s);
/// The settings in `dir`; never NULL, borrowed until the loop turns.
const struct config *agent__config_at(const struct agent *a, const char *dir);
/// The settings of its project, else the hub's. Borrowed until the loop turns.
const struct config *agent__session_config(const struct session *s);
/// Remember which files of instructions a prompt has.
void agent__session_set_instructions(struct session *s, const struct prompt_files *f);
/// The real path of its directory, or the path that was asked for while it has not entered.
const char *agent__session_place(const struct session *s);
/// Replace a text with a copy of `value`; NULL when that is empty.
void agent__session_set(char **place, struct str value);
/// The same with the beginning of `text` for lists, without secrets.
void agent__session_set_summary(char **place, struct str text);

// ---- session_claim.c ----------------------------------------------------------------------------

/// `s` is NULL when it could not be claimed: `no` says why, and names the hub that has it.
typedef void session_claimed(struct session *s, const struct agent_no *no, void *arg);
/// Claim the session, so that only this hub may write it, and read it again. In a store of one hub `done` is called
/// from inside.
void agent__session_claim(struct session *s, session_claimed *done, void *arg);
/// Release the claim if the session is idle.
void agent__session_unclaim(struct session *s);
/// Another hub may have changed it: take the state of the row, unless the session is in use here.
void agent__session_renew(struct session *s, const struct store_row *row);

// ---- session_settings.c, session_meta.c ---------------------------------------------------------

/// A session with the default settings, not in the table yet. The caller owns it.
struct session *agent__session_new(struct agent *a, struct str id);
/// Take sandbox, network and permission from the settings, without those in `asked` (SESSION_ASKED_...). The sandbox only
/// becomes narrower.
void agent__session_default(struct session *s, const struct config *c, unsigned asked);
/// Narrow the settings to what a [policy] allows.
void agent__session_hold(struct session *s);
/// Free a session that is in no table; no turn runs in it.
void agent__session_free(struct session *s);
/// Make a session with the settings and the environment of `s`. The caller copies the past, then tells the host
/// that the session was made.
void agent__session_copy(const struct session *s, agent_session_cb *cb, void *arg);
/// Make a session for a subagent of `s`, with its settings and environment. `prepare` changes them before provider and
/// model are chosen.
void agent__session_spawn(const struct session *s,
                          void (*prepare)(struct session *child, const void *wish),
                          const void *wish, agent_session_cb *cb, void *arg);
/// Remove a session from memory if it has ended and nothing uses it.
void agent__session_forget(struct session *s);
/// Copy settings and environment.
void agent__session_set_settings(struct session *to, const struct session *from);
/// Make a session from its row in the store. The caller owns it.
struct session *agent__session_of_row(struct agent *a, const struct store_row *row);
/// Write metadata.json.
void agent__session_write_meta(const struct session *s, struct jw *w);
/// Read metadata.json; settings that are missing or wrong keep their value.
void agent__session_read_meta(struct session *s, const struct json *meta);
/// Save metadata.json; `cb` may be NULL.
void agent__session_save(struct session *s, store_done *cb, void *arg);
/// Write the member `usage`: tokens and `cost_usd`, null where unknown.
void agent__session_write_usage(struct jw *w, const struct provider_usage *u, double cost);
/// Write the member `context`: {used, window}, null where unknown.
void agent__session_write_context(struct jw *w, const struct session *s);
/// `params` with real paths, borrowed for the call; NULL: `no` names a path that is no directory. `read_only` is why
/// tools may only read in the `working_dir`, unless a mode was asked for; NULL: they may write.
typedef void agent__places_cb(void *arg, const struct json *params, const char *read_only,
                              const struct agent_no *no);
/// Look up, on a thread, the directories that `params` of POST or PATCH name. `params` are copied.
void agent__find_places(struct agent *a, const struct json *params, agent__places_cb *cb,
                        void *arg);
/// Take the settings of POST or PATCH, whose paths are real. False: `no` says what is wrong. The names of plugins are
/// not checked yet.
bool agent__session_take(struct session *s, const struct json *params, struct agent_no *no);
/// Take the settings of metadata.json; invalid ones are ignored.
void agent__session_take_stored(struct session *s, const struct json *meta);
/// Are all plugins that it lists known in its directory? After agent__session_enter(). `no` names one that is not.
bool agent__session_knows_plugins(const struct session *s, struct agent_no *no);
/// Choose provider and model again. False: `no` says why none can be used.
bool agent__session_choose(struct session *s, struct agent_no *no);

// ---- task.c -------------------------------------------------------------------------------------

/// The session that the user talks to: `s` itself, or the root of the subagent `s`. Its settings, rules, questions and
/// record of changes count for all of its subagents.
const struct session *agent__session_root(const struct session *s);
/// The turn that waits for the subagent whose turn `t` is; NULL: none does.
struct turn *turn__parent(const struct turn *t);
/// The topmost of these; `t` itself when no turn waits for it.
struct turn *turn__root(struct turn *t);
/// Report what a subagent does as progress of its parent's call: `text` and the first line of `more`. Does nothing in
/// other sessions.
void task__tell(const struct turn *t, struct str text, struct str more);
/// Remove the sessions of the subagents of `s`, which has ended; then call `done` with `s`.
void agent__purge_tasks(struct session *s, loop_fn *done);

// ---- session_role.c -----------------------------------------------------------------------------

/// Copy the role into the session.
void agent__session_set_role(struct session *s, const struct agent_role *r);
/// Write the role's members of the row and of metadata.json.
void agent__session_write_role(const struct session *s, struct jw *w);
/// Read them back; `dir` is the session's directory, relative to the home.
void agent__session_read_role(struct session *s, const struct json *meta, struct str dir);
/// The path of a file of the session. The caller frees it.
char *agent__session_path(const struct session *s, const char *name);
/// Take over the conversation of the session before it, if that is in memory.
void agent__session_inherit(struct session *s);
/// The tools of its bot; NULL: it belongs to none.
const struct tool *agent__session_tools(const struct session *s);

// ---- session_env.c ------------------------------------------------------------------------------

/// `vars` without those that [tool_env] drop names; the list is in the arena.
const char *const *agent__session_filter(const struct session *s, const char *const *vars,
                                         struct arena *a);

// ---- session_journal.c --------------------------------------------------------------------------

/// One event being written. Members go between begin and end:
///
///     struct note n;
///     jw_kstr(note__begin(&n, s, t, EVENT_MESSAGE_DELTA), "text", text);
///     note__end(&n, STORE_WRITTEN, NULL, NULL);
struct note {
    struct session *s;
    enum event_id event;
    bool of_turn;
    struct buf fields;
    struct jw w;
};
typedef void note_done(void *arg, int status, const struct err *e);

/// Why an event could not be written, in words: a full disk is something that the user can mend.
const char *note__fault(const struct err *e);
/// Write the member `error`: {code, message}.
void note__put_error(struct jw *w, const char *code, struct str message);
/// Begin an event; returns the writer for its members. `t` may be NULL: it belongs to no turn.
struct jw *note__begin(struct note *n, struct session *s, const struct turn *t,
                       enum event_id event);
/// Append the event to the journal. When it and all before it are written, it is shown and `done` (may be NULL) called.
void note__end(struct note *n, enum store_durability durability, note_done *done, void *arg);

// ---- session_load.c -----------------------------------------------------------------------------

typedef void session_loaded(struct session *s, int status, const struct err *e, void *arg);
/// Read the conversation into memory; `done` is never called from inside.
void agent__session_load(struct session *s, session_loaded *done, void *arg);
/// Give a new session its empty conversation, unless it continues another one.
void agent__session_begin_talk(struct session *s);
/// The session is used: if too many conversations are in memory, free the one used longest ago.
void agent__session_touch(struct session *s);
/// Free its conversation and close its engine.
void agent__session_cool(struct session *s);
/// Move the conversation of `from`, if it is in memory, to `s`.
void agent__session_move_talk(struct session *s, struct session *from);
/// Journal that the turns and calls that a killed hub left open have failed, and mark the session as crashed.
void agent__session_mark_crashed(struct session *s, session_loaded *done, void *arg);

// ---- session_rewind.c ---------------------------------------------------------------------------

/// A turn begins: record it as a point to go back to.
void agent__session_mark(struct session *s, const struct turn *t);
/// The session's working directory has changed.
void agent__session_moved(struct session *s);
/// Keep the files that the call is about to change, then call `ready`. False: there is nothing to keep, and no callback.
bool agent__call_keep(struct tool_call *c, rewind_ready_cb *ready);
/// The call is over: record what it changed.
void agent__call_kept(struct tool_call *c);

// ---- a turn -------------------------------------------------------------------------------------

#define TURN_STEPS(X)                                                                              \
    X(LOAD, "load")                 /* the conversation, prompt files */                           \
    X(BEGIN, "begin")               /* on_begin */                                                 \
    X(USER_MESSAGE, "user_message") /* on_user_message */                                          \
    X(PROMPT, "prompt")             /* sections that are functions */                              \
    X(BEFORE_MODEL, "before_model") /* on_before_model */                                          \
    X(REQUEST, "request")           /* requests.jsonl */                                           \
    X(MODEL, "model")               /* the provider streams */                                     \
    X(AFTER_MODEL, "after_model")   /* on_after_model */                                           \
    X(TOOLS, "tools")               /* calls run */                                                \
    X(ENGINE, "engine")             /* an outside agent has the turn */                            \
    X(COMPACT, "compact")           /* a summary is made */                                        \
    X(FINAL, "final")               /* on_final */                                                 \
    X(ERROR, "error")               /* on_error */                                                 \
    X(DONE, "done")                 /* on_done */                                                  \
    X(CLOSE, "close")               /* the last event is written */

enum turn_step {
#define X(id, name) TURN_##id,
    TURN_STEPS(X)
#undef X
};

/// The answer of the model, as on_after_model left it. In the step's arena.
struct turn_reply {
    struct str text;
    const struct json *content; // what goes back to the model
    const struct json *calls;   // array of {id, name, input, bad_input?}
    struct str stop_reason;
    struct provider_usage usage; // of this answer alone
    uint64_t left_out;           // bytes of text that were not kept
    bool cut;                    // the user interrupted it
};

/// Pieces of the stream that are not in the journal yet.
struct turn_delta {
    struct buf text;
    struct redact_stream secrets; // finds them in the pieces
    bool reasoning;               // the pieces are reasoning, not text
    bool writing, paused;
    struct loop_task *task;
};

/// A picture of the conversation, loaded.
struct turn_picture {
    char *path;
    struct buf data; // as a data: URL; empty: its file is gone
};

/// The process of an engine that runs the turns of a session: see session_engine.c.
struct session_engine {
    const struct engine_kind *kind;
    struct engine_thread *thread;
    struct buf fixed;  // the settings that cannot change while it runs, as text
    struct buf tools;  // those of our tools that it knows, as JSON
    struct buf system; // the instructions that it was told last
    struct timer idle; // closes it when no turn comes
    bool known;        // it has reported the id of its thread
    bool useless;      // it cannot resume its thread: the next turn opens another one
};

/// A turn that an engine runs: see turn_engine.c.
struct turn_engine {
    struct engine_look *look; // the search for its program; NULL: none is under way
    bool dressing;            // waits for the environment
    bool under_way;           // the engine runs the turn
    bool wants_more;          // the request under way made a call: another one will follow
    bool counted;             // at least one request to the model was counted
    bool has_held;            // `held` is set
    struct str held;          // the last whole message, which is not in the journal yet
    struct buf said;          // steering messages from before the engine had the turn
    bool told_to_end;
    const char *stopped; // the code of the failure that ends the turn; NULL: none so far
    enum engine_end end;
    struct timer patience;
};

struct turn {
    struct session *s;
    char id[TURN_ID];
    enum turn_step step;
    enum agent_turn_state state;
    unsigned n_steps;   // requests to the model
    unsigned n_below;   // the same of its subagents, and of theirs
    unsigned n_loading; // things that the step `load` still waits for
    uint64_t since_ns;
    bool interrupted;
    bool only_compacts;
    bool settling;           // on_done waits until all events so far are written
    struct err lost;         // why a part of the conversation could not be written; code 0: all was
    struct arena arena;      // of the turn: ctx, results
    struct arena step_arena; // of the step: request, reply, calls
    struct hook_ctx ctx;
    size_t remembered;         // items of ctx.memory that a request to the model had
    struct str text;           // the user's message, as on_user_message left it
    const struct json *images; // where the pictures with it are; NULL: none
    vec(struct turn_picture) pictures;
    struct pipe pipe;
    struct call_site site;   // generation, hooks, tools and calls of the step
    struct gen_unit **units; // the session's plugins in the generation
    size_t n_units;
    struct arena unit_arena; // of `units`
    struct loop_task *next;  // enters `step` in the next turn of the loop
    // the prompt
    struct prompt_files *files; // read for this turn
    struct agent_lore lore;     // of a bot
    struct prompt_job *prompt;  // sections under way
    // the model
    const struct json *request;
    struct provider_call *call;
    bool keeping; // a line of requests.jsonl is being written
    struct turn_reply reply;
    struct turn_delta delta;
    struct provider_usage usage; // of the turn
    double cost;
    bool compacted;  // in this step already
    bool refused;    // the provider refused the request as too long
    bool compacting; // the request under way asks for a summary
    size_t compact_keep;
    struct turn_engine engine;
    // tools
    vec(struct tool_call *) spent; // calls of earlier steps
    size_t n_open;                 // calls whose results are not on the disk
    size_t n_asking;               // calls, also of subagents, that wait for the user
    vec(struct agent_call) calls;  // made so far, for the outcome; in the turn's arena
    size_t heard;                  // steering messages of this turn that the model has read
    // the end
    struct str final;        // the last answer
    uint64_t final_left_out; // bytes of it that were not kept
    char error_code[48];
    struct str error;
};

/// Begin the turn of a message that was accepted, which is borrowed.
void turn__start(struct session *s, const struct session_message *m);
/// Continue with `step` in the loop's next turn.
void turn__go(struct turn *t, enum turn_step step);
/// Cancel what the turn waits for, and end it; the second time, commands are killed.
void turn__interrupt(struct turn *t);
/// Fail the turn, with a code of docs/reference/errors.md.
void turn__fail(struct turn *t, const char *code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/// What the step waited for has come. False: the turn was interrupted meanwhile, and goes to its end.
bool turn__resume(struct turn *t);
/// An event that the conversation is made from could not be written.
void turn__lost(struct turn *t, const struct err *e);
/// Fail the turn if turn__lost() was called; true then.
bool turn__fail_if_lost(struct turn *t);
/// All events so far are written, or lost. `t` may be NULL: none runs.
void turn__settled(struct turn *t);
/// Tell the callers that wait for the turn that it needs an answer of the user.
void turn__tell_waiting(struct turn *t);
/// Raise a point of the turn itself; the handlers may change `value`.
void turn__raise(struct turn *t, enum hook_point_id point, const struct json *value,
                 pipe_done *done);
/// The same with a text, borrowed as long as the step.
void turn__raise_text(struct turn *t, enum hook_point_id point, struct str text, pipe_done *done);
/// pipe_failed of every point that a turn raises: journal plugin.error.
void turn__hook_failed(void *arg, const char *unit, const struct hook *h,
                       const struct hook_run *run);
/// Fail the turn if a handler with on_error = "block" failed; true then.
bool turn__fail_if_blocked(struct turn *t, enum hook_point_id point);

// turn_prompt.c
/// Pin the newest generation and take the session's plugins in it. False: the turn failed.
bool turn__pin(struct turn *t);
/// The step `prompt`: build t->request.
void turn__prompt(struct turn *t);
/// A request to the model begins: count it for the turn, and for the turns that wait for this subagent.
void turn__count_step(struct turn *t);
/// Why the turn may not ask the model again, in its arena; NULL: it may. A request of a subagent counts for all turns
/// that wait for it.
const char *turn__spent(struct turn *t);
/// The skills of the step; the caller ends `out` with skills_fini().
void turn__skills(const struct turn *t, struct skills *out);

// turn_model.c
/// The step `before_model`: raise on_before_model.
void turn__before_model(struct turn *t);
/// The step `request`: keep the request in requests.jsonl if wanted, then turn__ask().
void turn__request(struct turn *t);
/// The step `after_model`: tools, another step, or the end.
void turn__after_model(struct turn *t);
/// Journal the reply with `text`, and add it to the conversation. `changed`: the pipe that changed the text; NULL: none.
void turn__note_reply(struct turn *t, struct str text, const struct pipe *changed);
/// `text` as it is in an item of `content`, if it is there in one piece: it may be long. Else a copy in `a`.
struct str turn__share_text(struct arena *a, const struct json *content, struct str text);
/// Set the reply to a plain text, which is borrowed.
void turn__set_reply(struct turn *t, struct str text);

// turn_pictures.c
/// Load the pictures of t->request, or of an engine's turn, that are not loaded yet. True: turn__request() or
/// turn__engine() is called again when they are.
bool turn__load_pictures(struct turn *t);
/// t->request with the pictures in it, in the step's arena.
const struct json *turn__fill_pictures(struct turn *t);
/// The loaded pictures of this turn, for its engine, in the step's arena.
const struct engine_picture *turn__engine_pictures(struct turn *t, size_t *n);
/// Free the loaded pictures.
void turn__free_pictures(struct turn *t);

// turn_stream.c
/// Send t->request to the provider.
void turn__ask(struct turn *t);
/// Cancel the request under way, if there is one; the deltas so far are journaled.
void turn__cancel_model(struct turn *t);
/// The same when the user cuts the answer off: the part so far becomes a message, so that the model knows it. False: it
/// had said nothing.
bool turn__cut_model(struct turn *t);

/// Pass a piece of the answer to the journal and to on_model_delta. The source is paused while the disk is slower.
void turn__delta(struct turn *t, const struct provider_delta *piece);
/// Journal the pieces collected so far.
void turn__flush_deltas(struct turn *t);
/// Count the tokens of one request, for the turn and for all turns that wait for it. `talks`: the request held the
/// conversation, so its size tells how full the context is.
void turn__count(struct turn *t, const struct provider_usage *u, bool talks);

// turn_engine.c
/// The step `engine`: an outside agent runs the turn.
void turn__engine(struct turn *t);
/// Tell the engine to end the turn; the second time, end its process.
void turn__cancel_engine(struct turn *t);
/// Send a steering message to the engine.
void turn__steer_engine(struct turn *t, struct str text);
/// Stop the engine, then fail the turn.
void turn__stop_engine(struct turn *t, const char *code, const char *why);
/// Takes what the session's engine reports; `arg` is the struct session.
extern const struct engine_cb turn__engine_cb;

// engines.c
#define AGENT_PATH "/usr/local/bin:/usr/bin:/bin" // the PATH of a client that sent none
/// A setting of the engine, such as "engines.*.kind"; NULL: it is not given.
const struct json *agent__engine_setting(const struct config *c, const char *key, const char *name);
/// The kind of the engine of that name; NULL: there is no such engine.
const struct engine_kind *agent__find_engine(const struct agent *a, const struct config *c,
                                             const char *name);
/// The program, in `path` or by its own path; NULL: it is not installed. The caller frees it.
char *agent__find_program(struct str path, const char *program);

// session_engine.c
/// `no` is NULL when the engine can be used; else it says why not, and how to install it.
typedef void agent__usable_cb(void *arg, const struct agent_no *no);
/// Check that the engine of the session, which has one, can be used. `cb` is called once, later, unless
/// agent__engine_stop_looking() comes first; the session may be freed meanwhile. The look frees itself.
struct engine_look *agent__engine_look(const struct session *s, agent__usable_cb *cb, void *arg);
void agent__engine_stop_looking(struct engine_look *l);
/// The kind of engine that the session has; NULL: our own loop.
const struct engine_kind *agent__engine_kind(const struct session *s);
/// The thread of the session: the one that runs, or a new one when its settings changed. `vars` are the variables of
/// commands.
struct engine_thread *agent__engine_open(struct turn *t, const char *const *vars);
/// End the process; its conversation can be resumed.
void agent__engine_close(struct session *s);
/// The same, and forget its conversation: the next turn begins a new thread, which is told the past.
void agent__engine_forget(struct session *s);
/// Move the engine's conversation of `from` to `s`. False: it has none of the same engine.
bool agent__engine_inherit(struct session *s, struct session *from);
/// The turn does not need the engine any more: close it if no other turn comes soon.
void agent__engine_rest(struct session *s);
/// `system` if it differs from what the thread was told last, else empty. It counts as told now.
struct str agent__engine_system(struct session *s, struct str system);

// turn_tools.c
/// Add the result of a call to the conversation.
void turn__tell_result(struct tool_call *c);
/// Journal the result of a call; `done` when it is synced.
void turn__note_result(struct tool_call *c, note_done *done, void *arg);
/// The step `tools`: begin all calls of the reply.
void turn__tools(struct turn *t);
/// Cancel all calls; t->n_open goes down as they end.
void turn__cancel_tools(struct turn *t);
/// The step is over: keep its calls until the turn ends.
void turn__retire_tools(struct turn *t);
/// Free all calls of the turn; none is open.
void turn__free_tools(struct turn *t);

// turn_compact.c
/// The step `compact`: make the conversation shorter, then continue with TURN_PROMPT or end.
void turn__compact(struct turn *t);
/// Is the context so full that the conversation should be compacted first?
bool turn__is_full(const struct turn *t);
/// The model has made the summary.
void turn__compact_reply(struct turn *t, struct str summary);

// tool_call_outside.c
/// Free the shelf; no call can come any more.
void agent__drop_shelf(struct agent *a);
/// The hub stops: cancel the tools that run without a session.
void agent__cancel_runs(struct agent *a);

// permission.c
/// Read the rules of the configuration again.
void agent__read_rules(struct agent *a);

/// Write the member `pending` of the row and of `wait`.
void agent__session_write_pending(const struct session *s, struct jw *w);
