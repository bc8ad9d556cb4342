#pragma once

#include "agent/agent.h"
#include "agent/engine.h"
#include "agent/prompt.h"
#include "agent/providers.h"
#include "agent/talk.h"
#include "agent/tool_call_int.h"
#include "base/map.h"
#include "base/vec.h"
#include "loop/work.h"
#include "permit/book.h"
#include "proto/events.h"
#include "rewind/rewind.h"
#include "sandbox/box.h"
#include "store/store.h"

// What the files of a session share.
//
//     agent.c            the table of sessions, start and stop
//     session.c          one session: found, changed, ended           session_new.c   made
//     session_send.c     its messages                                 session_meta.c  as JSON
//     session_settings.c what requests may ask for
//     session_journal.c  events: written, then shown, and listed
//     session_load.c     the conversation, from the journal           talk.c
//     session_claim.c    several hubs on one store
//     session_fork.c     a copy                                       session_env.c   tools' variables
//     session_role.c     sessions of bots                             session_rewind.c going back
//     turn.c             a turn from its beginning to its end         pipeline.c      hooks
//     turn_prompt.c      a step begins                                prompt.c        system prompt
//     turn_model.c       around one request to the model              turn_stream.c   its stream
//     turn_tools.c       the calls that it asks for                   toolbox.c       tools
//     turn_engine.c      a turn that an outside agent runs            session_engine.c  its process
//     engines.c          the outside agents there are
//     turn_compact.c     a conversation that became too long          permission.c    people
//     tool_call.c             the pipeline of every call                   tool_call_outside.c  without a session
//     tool_call_job.c         calls of built-in tools                      tool_call_plugin.c   of plugins' tools
//     tool_call_editor.c      calls that an editor carries out
//     task.c             subagents                                    inquiry.c       what tools ask

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
    struct lane *files;    // prompts' files
    struct lane *requests; // requests.jsonl, in order
    struct lane *tools;    // jobs
    struct tool_run *runs; // tools that run without a session
    struct tool_shelf
        *shelf;             // what they find, of the last generation that was asked; NULL: none yet
    uint64_t n_runs;        // so far, for the names of their outputs
    struct rules rules;     // of [[permission]] in the configuration
    struct err rules_fault; // one of them cannot be used: no session starts, no turn either
    struct book *book;      // rules that users made by their answers
    struct rewind *rewind;  // keeps what tools are about to change
    const struct engine_kind *const *engines; // outside agents, NULL at the end; NULL: none
    struct engine_world *engine_world;
    size_t n_busy; // jobs that must end before the agent may go
    struct loop_task *idle_task;
    bool stopping;
    loop_fn *ready, *stopped;
    void *ready_arg, *stopped_arg;
};

/// Something of ours is under way: agent_stop() waits until it is released.
void agent__hold(struct agent *a);
/// It is over.
void agent__release(struct agent *a);

/// Fill in why not. `hint` may be NULL.
void agent__no(struct agent_no *no, enum problem p, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/// What the store said: a session that is gone is not found.
void agent__no_store(struct agent_no *no, const struct err *e);

// ---- a session ----------------------------------------------------------------------------------

#define SESSION_STATES(X)                                                                          \
    X(IDLE, "idle")                                                                                \
    X(RUNNING, "running")                                                                          \
    X(WAITING, "waiting")                                                                          \
    X(ENDED, "ended")                                                                              \
    X(CRASHED, "crashed")

enum session_state {
#define X(id, name) SESSION_##id,
    SESSION_STATES(X)
#undef X
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
    bool compact;  // no message: the conversation is to be made shorter
};

/// Who waits for a turn: `wait: true`.
struct turn_waiter {
    char turn_id[TURN_ID];
    agent_outcome_cb *cb;
    void *arg;
};

/// Who waits until the host knows of the directory.
typedef void session_entered(struct session *s, void *arg);
struct session_entrant {
    session_entered *done;
    void *arg;
};

/// Who waits for the end of a session.
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
    // what was asked for
    char *title, *working_dir;
    struct agent_role role; // in its arena; `dir` is set for every session
    struct arena role_arena;
    char *want_provider, *want_model; // NULL: as the rest says
    char *engine;                     // who runs its turns; NULL: our own loop
    bool all_plugins;                 // those of [session] plugins
    struct session_names plugins;     // else these, in this order
    struct session_names disabled_tools;
    bool some_tools;            // it has only `tools`
    struct session_names tools; // of a subagent, as the model calls them
    char *parent;               // the session whose subagent it is; NULL: none's
    struct task *task;          // the call that waits for it; NULL: none does
    struct session_names
        writable;          // directories that its tools may write besides the working directory
    struct grants *grants; // what these paths stand for
    enum box_mode sandbox;
    bool network;
    enum session_permission permission;
    bool keep_requests;
    int64_t max_steps; // model requests in one turn; 0: as [limits] says
    double max_cost;   // USD in all; 0: no cap
    // of the client, in memory only
    char **environment; // "NAME=value", NULL at the end; tools get it
    char **variables;   // the same of providers: AFLOAT_MODEL, keys
    struct provider_choice choice;
    bool chosen;
    char *provider, *model; // as chosen last, for the row
    bool fallback;
    // what happened
    uint64_t turns, requests, asks, calls, last_seq;
    struct provider_usage usage;
    double cost;     // NAN: unknown
    int64_t context; // tokens of its last request with the answer; 0: unknown
    char *prompt_summary, *response_summary;
    const char *end_reason; // NULL: none yet
    const char *closed_as;  // why its bot ended it; NULL: it did not
    char *closing_summary, *action;
    vec(char *) instructions; // files that its prompts had last, from the project's root
    char *damage;             // what of its files cannot be read; NULL: nothing
    bool broken; // its metadata, that is: nothing may begin, and they are not written over
    const struct talk_facts *left; // what its journal does not end, while it is being loaded
    // in work
    struct talk *talk; // NULL: not loaded
    struct session *warmer, *cooler;
    struct turn *turn;           // NULL: none runs
    struct session_engine *live; // the engine's process; NULL: none runs
    unsigned engine_processes;   // that are not gone, of this one and of those before
    char *engine_thread;         // what the engine calls the conversation; NULL: it knows none
    char *engine_dir; // where the engine keeps it; NULL: its own place, when a thread is opened
    struct rewind_session *rewind; // what its tools changed; NULL: not used yet, or a bot's run
    char *real_dir;                // the host knows of the directory by this; NULL: it does not
    bool entering;                 // it is being told
    unsigned arriving;             // messages that are not in the queue yet
    unsigned patches;              // changes of its settings so far
    unsigned
        rewinding; // jobs of session_rewind.c: no turn begins and the session stays until they end
    vec(struct session_entrant) entrants;
    bool claimed;       // of a shared store: this hub alone may write it
    unsigned claiming;  // asked for
    unsigned saving;    // its metadata are on their way into a shared store
    uint64_t row_hash;  // of the metadata that were read last; 0: none
    bool ending, purge; // DELETE came; its files go too
    bool closing;       // and its end is being written, once
    vec(struct session_ender) enders;
    vec(struct session_message) queue;
    struct session_note *notes, **notes_end;
    vec(struct turn_waiter) waiters;
};

/// "idle", "running", ...
const char *agent__session_state_name(enum session_state state);
/// "deny", "plan", "ask", "edits", "auto".
const char *agent__session_permission_name(enum session_permission permission);
/// Call `cb` in the loop's next turn: with `s`, when it is still there then, or with `no`.
void agent__answer_session(struct agent *a, agent_session_cb *cb, void *arg, struct session *s,
                           const struct agent_no *no);
/// Can it be used? False when its metadata are damaged: fsck has to make them again.
bool agent__session_usable(const struct session *s, struct agent_no *no);
/// Messages that were accepted and whose turns will not come are said to be interrupted.
void agent__session_drop_queue(struct session *s);
/// No turn runs and none waits: write the end, remove the files if that was asked for, answer.
void agent__session_finish_end(struct session *s);
/// Begin the turn of the next message, or be idle; end, if that was asked for.
void agent__session_next(struct session *s);
void agent__session_set_state(struct session *s, enum session_state state); // tells who listens
/// Does anybody wait for this turn?
bool agent__session_awaited(const struct session *s, const char *turn_id);
/// Answer those who wait for the turn.
void agent__session_answer(struct session *s, const struct agent_outcome *o);
/// Is everything that the session needs serving? ERR_NOT_FOUND names what is not.
int agent__session_units(const struct session *s, struct gen *g, struct arena *a,
                         struct gen_unit ***out, size_t *n, struct err *e) MUST_CHECK;
/// Is every plugin serving that is required of those who work in `dir`? ERR_NOT_FOUND names one that is not.
int agent__check_required(const struct agent *a, const struct gen *g, const char *dir,
                          struct err *e) MUST_CHECK;
/// The host is told of its directory; `done` when plugins of the project serve, at once when they do.
void agent__session_enter(struct session *s, session_entered *done, void *arg);
void agent__session_leave(struct session *s); // and not any more
/// The settings for who works in `dir`; never NULL, borrowed until the loop turns.
const struct config *agent__config_at(const struct agent *a, const char *dir);
/// The settings that count for it: those of its project, else the hub's. Borrowed until the loop turns.
const struct config *agent__session_config(const struct session *s);
/// Remember which files of instructions a prompt has.
void agent__session_set_instructions(struct session *s, const struct prompt_files *f);
/// Where the session works, as the host knows it.
const char *agent__session_place(const struct session *s);
void agent__session_set(char **place, struct str value); // NUL-terminated copy; empty: NULL

// ---- session_claim.c ----------------------------------------------------------------------------

/// `s` is NULL when it could not be claimed: `no` says why, and names the hub that has it.
typedef void session_claimed(struct session *s, const struct agent_no *no, void *arg);
/// Let this hub alone write the session, and bring it up to date. In a store of one hub `done` is called
/// at once.
void agent__session_claim(struct session *s, session_claimed *done, void *arg);
/// Give it back if it was claimed and has nothing to do.
void agent__session_unclaim(struct session *s);
/// Another hub may have changed it: take over what the row says, unless the session is in use here.
void agent__session_renew(struct session *s, const struct store_row *row);

// ---- session_settings.c, session_meta.c ---------------------------------------------------------

/// A session with the settings of the configuration, not in the table yet. The caller owns it.
struct session *agent__session_new(struct agent *a, struct str id);
/// Take from the settings what was not `asked` for: a set of SESSION_ASKED_.... The sandbox only becomes
/// narrower.
void agent__session_default(struct session *s, const struct config *c, unsigned asked);
/// No turn runs in it, and it is in no table.
void agent__session_free(struct session *s);
/// A new session with the settings and the environment of `s`. Who gives it a past tells that it was
/// made when that is there.
void agent__session_copy(const struct session *s, agent_session_cb *cb, void *arg);
/// A session for a subagent of `s`: the settings and the environment of `s`. `prepare` changes them before
/// provider and model are chosen.
void agent__session_spawn(const struct session *s,
                          void (*prepare)(struct session *child, const void *wish),
                          const void *wish, agent_session_cb *cb, void *arg);
/// It has ended, and nothing of it is wanted in memory: forget it, unless something is.
void agent__session_forget(struct session *s);
/// Tell the host that the session is there.
void agent__session_tell_made(const struct session *s);
/// Settings and environment of `from`, as a copy.
void agent__session_set_settings(struct session *to, const struct session *from);
/// And the conversation with its bot.
void agent__session_copy_settings(struct session *to, const struct session *from);
/// One that is in the store, as it is there.
struct session *agent__session_of_row(struct agent *a, const struct store_row *row);
/// metadata.json as text.
void agent__session_write_meta(const struct session *s, struct jw *w);
/// Fill in from metadata.json; what is missing or wrong stays as it is.
void agent__session_read_meta(struct session *s, const struct json *meta);
/// Write metadata.json; `cb` may be NULL.
void agent__session_save(struct session *s, store_done *cb, void *arg);
/// The member `usage`: tokens and `cost_usd`, null where unknown.
void agent__session_write_usage(struct jw *w, const struct provider_usage *u, double cost);
/// The member `context`: {used, window}, null where unknown.
void agent__session_write_context(struct jw *w, const struct session *s);
/// Take settings out of the parameters of POST or PATCH. False: `no` says what is wrong. Plugins are
/// not looked up yet.
bool agent__session_take(struct session *s, const struct json *params, struct agent_no *no);
/// The same out of metadata.json: what does not fit any more is left as it is.
void agent__session_take_stored(struct session *s, const struct json *meta);
/// Are all plugins that it lists known? In its directory: after agent__session_enter().
bool agent__session_knows_plugins(const struct session *s, struct agent_no *no);
/// Choose provider and model anew.
bool agent__session_choose(struct session *s, struct agent_no *no);

// ---- task.c -------------------------------------------------------------------------------------

/// The session that `s` works for: of a subagent at work the one that a person talks to, else `s` itself.
/// Its settings, rules, people and record of changes count for all of its subagents.
const struct session *agent__session_root(const struct session *s);
/// The turn that waits for the subagent whose turn `t` is; NULL: none.
struct turn *turn__parent(const struct turn *t);
/// The same, as far as it goes: `t` itself when nobody waits.
struct turn *turn__root(struct turn *t);
/// A subagent does something: who follows its parent reads `text` and `more`, one line. Nothing happens in
/// other sessions.
void task__tell(const struct turn *t, struct str text, struct str more);
/// Remove the sessions of the subagents of `s`, which has ended; `done` then.
void agent__purge_tasks(struct session *s, loop_fn *done);

// ---- session_role.c -----------------------------------------------------------------------------

/// Copy the role into the session.
void agent__session_set_role(struct session *s, const struct agent_role *r);
/// A conversation with the same bot, of no run.
void agent__session_copy_role(struct session *to, const struct session *from);
/// The members of the row and of metadata.json that are a bot's.
void agent__session_write_role(const struct session *s, struct jw *w);
/// `dir` is the session's own, relative to the home.
void agent__session_read_role(struct session *s, const struct json *meta, struct str dir);
/// The path of a file of the session. The caller frees it.
char *agent__session_path(const struct session *s, const char *name);
/// Take over the conversation of the session before it, if that is in memory.
void agent__session_inherit(struct session *s);
const struct tool *agent__session_tools(const struct session *s); // NULL: it is no bot's
/// An empty lore; ended with agent__lore_fini().
void agent__lore_init(struct agent_lore *l);
/// Free the skills, and with them the texts.
void agent__lore_fini(struct agent_lore *l);

// ---- session_env.c ------------------------------------------------------------------------------

/// `vars` without what [tool_env] drop keeps from tools; the list is in the arena.
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

/// What to call an event that could not be written: a full disk is something that a person can mend.
const char *note__fault(const struct err *e);
/// `t` may be NULL: the event belongs to no turn.
struct jw *note__begin(struct note *n, struct session *s, const struct turn *t,
                       enum event_id event);
/// Append it. It is shown, and `done` (may be NULL) called, when it and all before it are written.
void note__end(struct note *n, enum store_durability durability, note_done *done, void *arg);

// ---- session_load.c -----------------------------------------------------------------------------

typedef void session_loaded(struct session *s, int status, const struct err *e, void *arg);
/// Have the conversation in memory; `done` is never called from inside.
void agent__session_load(struct session *s, session_loaded *done, void *arg);
/// The session was used: conversations not used for long are forgotten.
void agent__session_touch(struct session *s);
void agent__session_cool(struct session *s); // forget it now
/// The conversation of `from`, if it is in memory, is that of `s` now.
void agent__session_move_talk(struct session *s, struct session *from);
/// Close the turns that a killed hub left open, and say so.
void agent__session_mark_crashed(struct session *s, session_loaded *done, void *arg);

// ---- session_rewind.c ---------------------------------------------------------------------------

/// A turn begins: write down that the session can go back to here.
void agent__session_mark(struct session *s, const struct turn *t);
/// Keep what the call is about to change; `ready` then, unless it returns false: nothing is to be kept.
bool agent__call_keep(struct tool_call *c, rewind_ready_cb *ready);
/// The call is over: see what it changed.
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

/// What the model said, as on_after_model left it. In the step's arena.
struct turn_reply {
    struct str text;
    const struct json *content; // what goes back to the model
    const struct json *calls;   // array of {id, name, input, bad_input?}
    struct str stop_reason;
    uint64_t left_out; // bytes of text that nobody kept
};

/// Pieces of the stream that are not in the journal yet.
struct turn_delta {
    struct buf text;
    struct redact_stream secrets; // in what comes
    bool reasoning;               // what kind they are
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
    struct buf fixed;  // what cannot change while it runs, as a text
    struct buf tools;  // of ours that it knows
    struct buf system; // the instructions that it was told last
    struct timer idle; // it ends when nobody needs it
    bool known;        // it has told its thread
    bool useless;      // it has lost the thread: the next turn opens another one
};

/// A turn that an engine runs: see turn_engine.c.
struct turn_engine {
    bool dressing;   // waits for the environment
    bool under_way;  // the engine has the turn
    bool wants_more; // the request under way made a call: another one will follow
    bool counted;    // one request to the model at least
    bool has_held;
    struct str held; // the last whole message, which is not in the journal yet
    struct buf said; // what was said to it before it had the turn
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
    unsigned n_below;   // of its subagents, and of theirs
    unsigned n_loading; // files and journal, at the beginning
    uint64_t since_ns;
    bool interrupted;
    bool only_compacts;
    bool settling;           // on_done waits until all events so far are written
    struct err lost;         // a part of the conversation that could not be; code 0: none
    struct arena arena;      // of the turn: ctx, results
    struct arena step_arena; // of the step: request, reply, calls
    struct hook_ctx ctx;
    struct str text;           // what the user said, as on_user_message left it
    const struct json *images; // where the pictures with it are; NULL: none
    vec(struct turn_picture) pictures;
    struct pipe pipe;
    struct call_site site;   // generation, hooks and tools of the step; what is called in it
    struct gen_unit **units; // the session's plugins in the generation
    size_t n_units;
    struct arena unit_arena; // of `units`
    struct loop_task *next;  // a step that begins in the next turn of the loop
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
    bool compacted;  // in this step, once
    bool refused;    // the provider said that it is too long
    bool compacting; // the request under way makes a summary
    size_t compact_keep;
    struct turn_engine engine;
    // tools
    vec(struct tool_call *) spent; // calls of earlier steps
    size_t n_open;                 // calls whose results are not on the disk
    size_t n_asking;               // of them and of subagents' calls, wait for a person
    vec(struct agent_call) calls;  // made so far, for who waits; in the turn's arena
    size_t heard;                  // of what was said to this turn while it ran
    // the end
    struct str final;        // what was said last
    uint64_t final_left_out; // bytes of it that nobody kept
    char error_code[48];
    struct str error;
};

/// Begin the turn of a message that was accepted, which is borrowed.
void turn__start(struct session *s, const struct session_message *m);
/// Go on with `step` in the loop's next turn.
void turn__go(struct turn *t, enum turn_step step);
/// End it as soon as what it waits for is given up; asked twice, commands are killed.
void turn__interrupt(struct turn *t);
/// It cannot go on.
void turn__fail(struct turn *t, const char *code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/// Whatever the step was waiting for came: shall it go on? False: it was interrupted, and ends.
bool turn__alive(struct turn *t);
/// An event that the conversation is made from is not in the journal.
void turn__lost(struct turn *t, const struct err *e);
/// True, and the turn fails, when that happened.
bool turn__has_lost(struct turn *t);
/// All events so far are written, or lost. `t` may be NULL: none runs.
void turn__settled(struct turn *t);
/// Answer who waits: a person is needed.
void turn__tell_waiting(struct turn *t);
/// Raise a point of the turn itself.
void turn__raise(struct turn *t, enum hook_point_id point, const struct json *value,
                 pipe_done *done);
/// pipe_failed of every point that a turn raises: into the journal.
void turn__hook_failed(void *arg, const char *unit, const struct hook *h,
                       const struct hook_run *run);
/// A handler with on_error = "block" failed: true, and the turn fails.
bool turn__blocked(struct turn *t, enum hook_point_id point);

// turn_prompt.c
/// Pin the newest generation and take the session's plugins in it. False: the turn failed.
bool turn__pin(struct turn *t);
/// The step `prompt`: build t->request.
void turn__prompt(struct turn *t);
/// Why the turn may ask the model no more, in its arena; NULL: it may. What a subagent asks is asked by all who
/// wait for it too.
const char *turn__spent(struct turn *t);
/// The skills of the step; the caller ends `out` with skills_fini().
void turn__skills(const struct turn *t, struct skills *out);

// turn_model.c
/// The step `before_model`.
void turn__before_model(struct turn *t);
/// The step `request`: keep the request in requests.jsonl if wanted, then turn__ask().
void turn__request(struct turn *t);
/// The step `after_model`: tools, another step, or the end.
void turn__after_model(struct turn *t);
/// The members of a message of the model's, and the message into the conversation.
void turn__note_reply(struct turn *t, struct str text, const struct pipe *changed);

// turn_pictures.c
/// Load the pictures of t->request, or of an engine's turn, that are not there yet; true: turn__request() or
/// turn__engine() follows when they are.
bool turn__load_pictures(struct turn *t);
/// t->request with the pictures in it, in the step's arena.
const struct json *turn__fill_pictures(struct turn *t);
/// The pictures of this turn, for its engine, in the step's arena. They are loaded.
const struct engine_picture *turn__engine_pictures(struct turn *t, size_t *n);
void turn__free_pictures(struct turn *t);

// turn_stream.c
/// Send t->request to the provider.
void turn__ask(struct turn *t);
/// Give up the request under way, if there is one; what was said so far is journaled.
void turn__cancel_model(struct turn *t);

/// A piece of what the model says, into the journal and to on_model_delta; the source is paused when the disk is
/// slower.
void turn__delta(struct turn *t, const struct provider_delta *piece);
/// Journal what has gathered.
void turn__flush_deltas(struct turn *t);
/// Count the tokens of one request, for the turn and for all who wait for it. `talks`: it held the conversation, and so
/// says how full the context is.
void turn__count(struct turn *t, const struct provider_usage *u, bool talks);

// turn_engine.c
/// The step `engine`: an outside agent runs the turn.
void turn__engine(struct turn *t);
/// Have the engine end it; asked twice, its process is ended.
void turn__cancel_engine(struct turn *t);
/// Say something to it.
void turn__steer_engine(struct turn *t, struct str text);
/// The turn cannot go on: the engine is stopped, then the turn fails.
void turn__stop_engine(struct turn *t, const char *code, const char *why);
/// What the process of the session's engine tells; `arg` is the struct session.
extern const struct engine_cb turn__engine_cb;

// engines.c
#define AGENT_PATH "/usr/local/bin:/usr/bin:/bin" // of a client that names none
/// A setting of the engine, such as "engines.*.kind"; NULL: it is not given.
const struct json *agent__engine_setting(const struct config *c, const char *key, const char *name);
/// The kind of the engine of that name; NULL: there is no such engine.
const struct engine_kind *agent__find_engine(const struct agent *a, const struct config *c,
                                             const char *name);
/// The program, in `path` or by its own path; NULL: it is not installed. The caller frees it.
char *agent__find_program(struct str path, const char *program);

// session_engine.c
/// Can its engine be used? False: `no` says why, and how to install it.
bool agent__engine_usable(const struct session *s, struct agent_no *no);
/// The kind of engine that the session has; NULL: our own loop.
const struct engine_kind *agent__engine_kind(const struct session *s);
/// The thread of the session, opened or resumed where none fits any more. `vars` are the variables of commands.
struct engine_thread *agent__engine_open(struct turn *t, const char *const *vars);
/// End the process; the conversation can be resumed.
void agent__engine_close(struct session *s);
/// And forget it: the next turn begins a new one, which is told the past.
void agent__engine_forget(struct session *s);
/// `s` goes on with the engine's conversation of `from`, which has it no more. False: it had none that fits.
bool agent__engine_inherit(struct session *s, struct session *from);
/// The turn leaves it: it ends when the next one is long in coming.
void agent__engine_rest(struct session *s);
/// The instructions, when they are others than the thread was told; else empty. They are told now.
struct str agent__engine_system(struct session *s, struct str system);

// turn_tools.c
/// The result of a call into the journal; `done` when it is synced.
void turn__note_result(struct tool_call *c, note_done *done, void *arg);
/// The step `tools`: all calls of the reply begin.
void turn__tools(struct turn *t);
/// Give up all calls; t->n_open goes down as they end.
void turn__cancel_tools(struct turn *t);
void turn__retire_tools(struct turn *t); // the step is over
/// Free all calls of the turn; none is open.
void turn__free_tools(struct turn *t);

// turn_compact.c
/// Make the conversation shorter; then goes on with TURN_PROMPT, or to the end.
void turn__compact(struct turn *t);
/// Is the context nearly full, so that the conversation should become shorter first?
bool turn__is_full(const struct turn *t);
/// The model has made the summary.
void turn__compact_reply(struct turn *t, struct str summary);

// tool_call_outside.c
void agent__drop_shelf(struct agent *a); // when no call can come any more
/// The hub stops: give up the tools that run without a session.
void agent__cancel_runs(struct agent *a);

// permission.c
/// Take the rules of the configuration anew.
void agent__read_rules(struct agent *a);

/// The member `pending` of the row and of `wait`.
void agent__session_write_pending(const struct session *s, struct jw *w);
