#pragma once

#include "agent/provider.h"
#include "agent/skills.h"
#include "agent/tool.h"
#include "base/json.h"
#include "config/config.h"
#include "config/hub_parts.h"
#include "gen/engine.h"
#include "loop/loop.h"
#include "permit/book.h"
#include "proto/events.h"
#include "proto/problems.h"

// Sessions: conversations with a model, each with its journal, run on the generations of plugins.
//
//     agent_session_new ──> session ──> agent_send ──> turn ──> steps (model request, tool calls)
//                              │                         │
//                              └── journal (store) ──written──> event log ──> its readers
//
// Call every function on the loop thread; each returns at once. A callback is called once, on the loop thread; a
// refusal may call it from inside the function. docs/internals/agent.md describes a turn.

struct agent;
struct session;
struct http_client;
struct providers;

// ---- the parts that the agent uses ----------------------------------------------------------------------

/// "NAME=value", NULL at the end.
typedef void agent_environ_cb(void *arg, const char *const *vars);

/// What sessions need from parts that agent/ may not include. Results are borrowed until the loop turns.
struct agent_host {
    // about plugins, with the argument `plugins`: see plugin/sessions.h
    void *plugins;
    /// Does a session in `working_dir` have the unit `u`? Improvements of other sessions and plugins of other projects
    /// never.
    enum agent_reach {
        AGENT_NEVER,
        AGENT_LISTED, // if the session names it, or has all plugins
        AGENT_ALWAYS, // modules of the hub, required plugins, improvements of the session itself
    } (*reach)(void *arg, const struct gen_unit *u, const char *session, const char *working_dir);
    /// Is there a plugin of that name, serving or not?
    bool (*known)(void *arg, struct str name);
    /// The i-th plugin that is required of a session in `working_dir`, NULL after the last.
    const char *(*required)(void *arg, size_t i, const char *working_dir);
    /// Call `each` with every path from which the hub loads a plugin of the user.
    void (*loaded)(void *arg, void (*each)(void *each_arg, const char *path), void *each_arg);
    /// The bytes of a file of a plugin, by its path in the plugin; `p` NULL: there is no such file.
    struct str (*file)(void *arg, const struct gen_unit *u, const char *path);
    /// Write an improvement for one session and reload. `done` gets the report (NULL: the hub stops) or `e`, never from
    /// inside.
    void (*save)(void *arg, struct str name, struct str content, const char *session,
                 void (*done)(void *arg, const struct gen_report *r, const struct err *e),
                 void *done_arg);
    // the other functions have the argument `arg`
    void *arg;
    /// A session begins to work in `dir`. `done` is called, never from inside, when the plugins and settings of the
    /// project serve; it gets the real path for leave() (NULL: there is no such directory, and nothing to leave).
    void (*enter)(void *arg, const char *dir, void (*done)(void *arg, const char *real_dir),
                  void *done_arg);
    void (*leave)(void *arg, const char *real_dir);
    /// The settings for sessions in `dir`, if its project has trusted ones; NULL: those of agent_opts.
    const struct config *(*config)(void *arg, const char *dir);
    /// Why no session may begin in `dir` with the settings there, for the caller to free; NULL: it may. The function may
    /// be NULL.
    char *(*refusal)(void *arg, const char *dir);
    /// The environment for a program that a tool of `s` runs: the client's, with the project's on top. `done` is called
    /// once, later, with variables borrowed for the call, unless forget_environ() comes first.
    void (*environ)(void *arg, const struct session *s, agent_environ_cb *done, void *done_arg);
    void (*forget_environ)(void *arg, const struct session *s, void *done_arg);
    /// A session was made (a fork: with its past); later, it has ended and its journal says so. Once each; `s` is valid
    /// for the call.
    void (*made)(void *arg, const struct session *s);
    /// Its directory or its client's environment may have changed.
    void (*changed)(void *arg, const struct session *s);
    void (*ended)(void *arg, const struct session *s);
    /// Its directory is about to be removed: drop what is kept of it until the next turn.
    void (*vacated)(void *arg, const struct session *s);
};

// ---- bots -------------------------------------------------------------------------------------------

/// What a bot's session has beyond the parameters of POST /session. Everything is copied.
struct agent_role {
    struct str bot, project;     // names, for its metadata
    struct str dir;              // its files are in DIR/<id>, relative to the home
    struct str run_id;           // of its run; empty: it belongs to no run
    int64_t number;              // of the session in its workspace
    struct str branch, worktree; // may be empty
    struct str started_in;       // the user's directory, for a chat in a worktree; else empty
    struct str before;           // the session whose conversation it continues; may be empty
    bool autonomous; // an iteration of a run: a call that would need a question is denied
};

/// What a bot's session is told at the beginning of each turn.
struct agent_lore {
    struct skills skills;    // before the user's and the project's; its arena has the texts below
    struct str instructions; // empty: the built-in ones
    struct str notes;        // a part of the prompt, such as the bot's memory; may be empty
    bool told;               // its messages name the skills already
};

/// What bot/ gives to the sessions of bots. agent/ and bot/ have no other connection.
struct agent_kit {
    /// Their tools; the last one has no name. Their calls have `arg` as tool_call_data().
    const struct tool *tools;
    /// Fill in `out`, which is initialised; `done` once, never from inside. The session stays until then.
    void (*learn)(void *arg, struct session *s, struct agent_lore *out, loop_fn *done,
                  void *done_arg);
    /// A step of an iteration of a run is over and its results are in the journal. The next step waits for `done`, which
    /// is called once, never from inside. May be NULL.
    void (*stepped)(void *arg, struct session *s, loop_fn *done, void *done_arg);
    /// A session that belongs to a run has ended, and its journal says so. May be NULL.
    void (*ended)(void *arg, const struct session *s);
    void *arg;
};

/// Borrowed until agent_free().
struct agent_opts {
    const struct hub_parts *hub;
    struct providers *providers;
    struct http_client *http; // of the tool web_fetch
    struct gen_engine *engine;
    struct agent_host host;
};

/// Open. Sessions that a killed hub left running are marked as crashed before `ready` is called.
struct agent *agent_open(const struct agent_opts *o, loop_fn *ready, void *arg);
/// secrets.json changed: read it again, so that its values are redacted everywhere. Nothing happens once it has stopped.
void agent_learn_secrets(struct agent *a);
/// Interrupt every turn and begin no other; `done` when the last one is over and written. Call it before the engine
/// of generations closes.
void agent_stop(struct agent *a, loop_fn *done, void *arg);
/// Is agent_stop() done? Its threads are gone then: clients are refused, while requests that came before still end.
bool agent_has_stopped(const struct agent *a);
void agent_free(struct agent *a); // when the store is closed; NULL is allowed
struct tool_env;
struct arena;
/// Fill in which files run outside of the sandbox, so that no tool of this call writes them, and the limits of a
/// command. In the arena.
void agent_guard(const struct agent *a, struct tool_env *env, struct arena *arena);
/// The hub that ran the session was lost: end what it left open, as after a restart. `done` follows, also on failure.
void agent_session_take_over(struct agent *a, struct str id, loop_fn *done, void *arg);
/// Set the kit, which is copied; before the first session of a bot is made or found.
void agent_set_kit(struct agent *a, const struct agent_kit *kit);
struct buf;
struct tool_ticket;
/// The user's open page, for the tools ui_state and ui_command.
struct agent_screen {
    void (*state)(void *arg, struct buf *out); // append what it shows, as JSON
    /// Send it a command; tool_ticket_finish() follows.
    void (*command)(void *arg, struct str kind, const struct json *params,
                    struct tool_ticket *ticket);
    void *arg;
};
/// Set the page, which is copied; before the first session.
void agent_set_screen(struct agent *a, const struct agent_screen *screen);
struct engine_kind;
struct engine_world;
/// Set the outside agents that can run turns, NULL at the end; borrowed until agent_free(), as is `world`. Before
/// the first session.
void agent_set_engines(struct agent *a, const struct engine_kind *const *kinds,
                       struct engine_world *world);
/// An engine that sessions can have. Borrowed for the call of agent_engines_cb.
struct agent_engine {
    const char *name, *kind;
    const char *program; // its path; NULL: it is not installed
    const char *install; // the command that installs it; NULL: there is none
    const char *version; // the output of `PROGRAM --version`; NULL: unknown
};
typedef void agent_engines_cb(void *arg, const struct agent_engine *list, size_t n);
/// List the engines that come with the program and those of [engines], as a client with this PATH finds them (empty:
/// AGENT_PATH). `cb` is called once, never from inside.
void agent_engines(struct agent *a, struct str path, agent_engines_cb *cb, void *arg);
/// The answer of an editor; NULL: it refused and `why` says why, or it is gone (`why` NULL). Borrowed for the call.
typedef void agent_editor_cb(void *arg, const struct json *result, const char *why);
/// An editor that drives a session. Borrowed until agent_set_editor() replaces or removes it; it answers all requests
/// before that.
struct agent_editor {
    bool reads, writes; // it gives the text of files, and writes them
    bool terminals;     // it runs commands
    /// Ask for "read" {path}, "write" {path, content} or "terminal" {cmd, cwd, ...}; `params` is JSON. `done` is called
    /// once, never from inside, unless forget() comes first.
    void (*ask)(void *arg, const char *method, struct str params, agent_editor_cb *done,
                void *done_arg);
    void (*forget)(void *arg, void *done_arg); // drop the request that was made with `done_arg`
    void *arg;
};
/// Set the editor that the tools of the session and of its subagents use; NULL: none.
void agent_set_editor(struct agent *a, struct str session, const struct agent_editor *editor);
struct git;
/// Set the git that looks at the user's checkouts for a rewind; borrowed until agent_stop() is done.
void agent_set_git(struct agent *a, struct git *git);

// ---- answers ------------------------------------------------------------------------------------

/// Why something was refused; borrowed for the callback.
struct agent_no {
    enum problem problem;
    char detail[300];
    char hint[120]; // may be empty
};
/// Fill in why something is refused, and return false, so that refusing is one line. `hint` may be NULL.
bool agent_no_set(struct agent_no *no, enum problem p, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void agent_no_vset(struct agent_no *no, enum problem p, const char *hint, const char *fmt,
                   va_list args) PRINTF_LIKE(4, 0);

/// `s` is valid until the loop turns; NULL: `no` says why.
typedef void agent_session_cb(void *arg, struct session *s, const struct agent_no *no);
/// `no` NULL: it succeeded.
typedef void agent_done_cb(void *arg, const struct agent_no *no);

// ---- sessions -----------------------------------------------------------------------------------

/// Make a session. `params` are those of POST /session; borrowed for the call, as is `role`. `role` NULL: it
/// belongs to no bot.
void agent_session_new(struct agent *a, const struct json *params, const struct agent_role *role,
                       agent_session_cb *cb, void *arg);
/// Would agent_session_new() refuse these parameters? `cb` gets no session; `no` NULL: it would not, as far as can be
/// said before the session's project is entered.
void agent_session_check(struct agent *a, const struct json *params, const struct agent_role *role,
                         agent_session_cb *cb, void *arg);
/// Find a session, in memory or in the store.
void agent_session_get(struct agent *a, struct str id, agent_session_cb *cb, void *arg);
/// Make sure that no other hub runs a turn in `s`: then `no` names it. A turn that a lost hub left open is ended. Mostly `cb` is
/// called from inside.
void agent_session_get_here(struct session *s, agent_session_cb *cb, void *arg);
/// Change the settings in `params`, those of PATCH /session/{id}.
void agent_session_patch(struct session *s, const struct json *params, agent_session_cb *cb,
                         void *arg);
/// Damage was found in the journal of session `id`: show it in its row from now on.
void agent_session_damaged(struct agent *a, struct str id, const char *what);
/// End a session: its turn is interrupted, queued messages are dropped. `purge`: its files are removed too.
void agent_session_end(struct session *s, bool purge, agent_session_cb *cb, void *arg);
/// What the metadata of a bot's session record about its end.
struct agent_end {
    const char *reason; // `end_reason`: complete, limit, interrupted, failed
    struct str action;  // what became of its work; may be empty
    struct str summary; // empty: its last answer
};
/// agent_session_end() for a bot, without purging. Iterations of a run are ended only with this.
void agent_session_close(struct session *s, const struct agent_end *end, agent_session_cb *cb,
                         void *arg);
/// Record what became of its work later: the user merged or discarded it. ERR_CORRUPT when its metadata are damaged.
void agent_session_set_action(struct session *s, struct str action, store_done *cb, void *arg);
/// Make a new session with the events up to `seq` (0: all of them) and the same settings.
void agent_session_fork(struct session *s, uint64_t seq, agent_session_cb *cb, void *arg);
/// A page of sessions, those started last first; borrowed for the callback. `next` is the cursor of the next page;
/// empty: this is the last one.
struct agent_page {
    const struct session *const *sessions;
    size_t n;
    struct str next;
};
typedef void agent_page_cb(void *arg, const struct agent_page *page, const struct agent_no *no);
struct agent_filter {
    struct str state;  // empty: any
    struct str parent; // only subagents of this session; empty: only sessions that are no subagents
};
/// List at most `limit` sessions; `cursor` may be empty. `which` is borrowed for the call. An unknown state is
/// refused at once.
void agent_session_list(struct agent *a, const struct agent_filter *which, struct str cursor,
                        size_t limit, agent_page_cb *cb, void *arg);

/// A session that was deleted, or would be; borrowed for the callback.
struct agent_pruned {
    char *id, *title, *working_dir;
    int64_t used_at; // milliseconds since 1970
};
typedef void agent_prune_cb(void *arg, const struct agent_pruned *list, size_t n,
                            const struct agent_no *no);
/// Delete, with their files, the idle sessions that were last used before the wall time `before`; those of bots stay.
/// `dry_run`: only list them. After a failure the list has those deleted before it.
void agent_session_prune(struct agent *a, int64_t before, bool dry_run, agent_prune_cb *cb,
                         void *arg);

/// The id; borrowed from the session.
const char *agent_session_id(const struct session *s);
/// Has it ended, or is it about to?
bool agent_session_is_ended(const struct session *s);
/// Its role; all members are empty when it belongs to no bot. Borrowed from the session.
const struct agent_role *agent_session_role(const struct session *s);
const char *agent_session_dir(const struct session *s); // where it works
/// The client's environment as tools may have it; NULL at the end, never NULL.
const char *const *agent_session_environ(const struct session *s);
/// Is a variable of that name kept from the tools of session `id` by [tool_env] drop?
bool agent_drops_variable(const struct agent *a, struct str id, struct str name);
/// Write an event of another part into the journal of a session; `write` adds its members, from inside. Nothing is
/// written when the session has ended or is not in memory.
void agent_tell(struct agent *a, struct str id, enum event_id event,
                void (*write)(struct jw *w, void *arg), void *arg);

/// The answer of a tool; borrowed for the callback.
struct agent_tool_answer {
    struct str output;
    bool success;
    struct str error; // STR_NULL: none
    uint64_t generation;
    const struct json *content;    // `output` as MCP content blocks; NULL: none
    const struct json *structured; // `output` as an object; NULL: none
};
/// The caller of a tool. All may be NULL.
struct agent_tool_from {
    const char *dir; // the absolute working directory
    const struct hook_caller *caller;
    void *caller_arg;
    const struct json *client; // see struct hook_ctx; borrowed until `cb`
};
struct tool_run;
typedef void agent_tool_cb(void *arg, const struct agent_tool_answer *answer,
                           const struct agent_no *no);
/// Call a tool without a session, through the same pipeline as every call. `name` and `input` (NULL: {}) are
/// borrowed until `cb`. Returns a handle that is valid until `cb`; NULL: `cb` was called from inside.
struct tool_run *agent_tool_run(struct agent *a, struct str name, const struct json *input,
                                const struct agent_tool_from *from, agent_tool_cb *cb, void *arg);
/// Cancel it: `cb` is called with a refusal, now or when what runs has ended.
void agent_tool_cancel(struct tool_run *r);

/// agent_host.enter and leave for a caller that is no session. `done` gets the real path (NULL: there is no such
/// directory, or the agent stops, and there is nothing to leave). The agent stops only after `done`.
void agent_enter(struct agent *a, const char *dir, void (*done)(void *arg, const char *real_dir),
                 void *arg);
void agent_leave(struct agent *a, const char *real_dir);
/// Can callers outside of sessions use a unit, in `dir` (NULL: outside of projects)?
bool agent_reaches(const struct agent *a, const struct gen_unit *u, const char *dir);
/// A tool of a plugin that can be called without a session.
struct agent_tool {
    struct str name; // to call it by: its plain name, or UNIT__NAME
    const struct gen_item *item;
};
/// List the tools of the current generation that are switched on and can be called in the real directory `dir` (NULL:
/// outside of projects), in load order: those that agent_tool_run() finds there. `*out` is in `arena`; items are
/// borrowed until the loop turns, names until the function is called for another generation. Returns how many.
size_t agent_tool_list(struct agent *a, const char *dir, struct arena *arena,
                       const struct agent_tool **out);
/// The tool of that name in the list; NULL: there is none. `arena` is used as scratch memory.
const struct gen_item *agent_tool_find(struct agent *a, const char *dir, struct str name,
                                       struct arena *arena);

/// The directory of session `id` is about to be removed: drop its settings, plugins and environment. The next turn
/// looks for them again. Nothing happens while a turn runs.
void agent_vacate(struct agent *a, struct str id);
/// The variables of the client's environment that belong to providers, keys among them; NULL at the end, NULL for none.
const char *const *agent_session_variables(const struct session *s);
/// The provider and model that were chosen last; "" before the first choice.
const char *agent_session_provider(const struct session *s);
const char *agent_session_model(const struct session *s);
/// Write the row `{id, state, plugins, working_dir, provider, model, pending, usage, ...}`.
void agent_session_write(const struct session *s, struct jw *w);
/// Write the object of GET /session/{id}/pipeline: the plugins of its next step, and for each hook point the
/// handlers in the order in which they run.
void agent_session_write_pipeline(struct session *s, struct jw *w);

// ---- turns --------------------------------------------------------------------------------------

enum agent_turn_state {
    AGENT_TURN_RUNNING,
    AGENT_TURN_WAITING, // for an answer of the user
    AGENT_TURN_COMPLETED,
    AGENT_TURN_FAILED,
    AGENT_TURN_INTERRUPTED,
};

/// A call that a turn has made.
struct agent_call {
    struct str id, tool;
    const struct json *input;
    bool success;
    struct str error; // STR_NULL: none
    int64_t duration_ms;
};

/// How a turn ended, or that it waits for the user. Borrowed for the callback.
struct agent_outcome {
    const struct session *s;
    const char *turn_id;
    enum agent_turn_state state;
    struct str text;   // the last answer
    uint64_t left_out; // bytes of it that were not kept
    struct provider_usage usage;
    double cost; // NAN: unknown
    const struct agent_call *calls;
    size_t n_calls;
    const char *error_code; // of a turn that failed
    struct str error;
};
typedef void agent_outcome_cb(void *arg, const struct agent_outcome *o, const struct agent_no *no);
/// Write its members into the open object. The caller redacts secrets.
void agent_outcome_write(const struct agent_outcome *o, struct jw *w);

/// What became of a message.
struct agent_sent {
    const char *turn_id;
    bool queued;
    size_t position;   // in the queue, from 1
    uint64_t after;    // the journal's seq before it: readers of this turn start here
    struct session *s; // valid until the loop turns
};
/// The message is accepted: in the journal, synced. `sent` NULL: `no` says why not.
typedef void agent_sent_cb(void *arg, const struct agent_sent *sent, const struct agent_no *no);

/// Set the client's environment to `v`, as `env` of POST /session. Tools and turns that begin later use it. A hub that was
/// restarted knows only a few variables of the former one. False: `no` says why.
bool agent_session_set_env(struct session *s, const struct json *v, struct agent_no *no);
/// A message of the user. Borrowed for the call.
struct agent_message {
    struct str text;
    const struct json *images; // as picture_take() reads them; NULL: none
    bool reject;               // refuse it while a turn runs, instead of queueing it
};
/// Send a message: it begins a turn, or waits in the queue while one runs.
void agent_send(struct session *s, const struct agent_message *m, agent_sent_cb *cb, void *arg);
/// Call `cb` when the turn has ended or needs an answer of the user. Call it from inside agent_sent_cb.
void agent_wait(struct session *s, const char *turn_id, agent_outcome_cb *cb, void *arg);

/// Interrupt the turn that runs, if there is one; the second time, a command that has not ended is killed.
void agent_interrupt(struct session *s);
/// Send a message to the turn that runs: the model reads it with its next request, which begins at once.
void agent_steer(struct session *s, struct str text, agent_done_cb *cb, void *arg);

/// The rules of [[permission]]. Borrowed until the settings change.
const struct rules *agent_rules(const struct agent *a);
/// The remembered rules. Borrowed; NULL when the hub stops.
struct book *agent_book(struct agent *a);

/// The user's decision about a call.
struct agent_decision {
    bool allow;
    enum permit_reach remember;
    struct str reason; // may be empty
};
/// Decide about the call that asked `request_id`. `cb` is called when the decision is journaled, and remembered if
/// `d` says so.
void agent_decide(struct session *s, struct str request_id, const struct agent_decision *d,
                  agent_done_cb *cb, void *arg);
/// Answer a question; any JSON.
void agent_answer(struct session *s, struct str question_id, const struct json *answer,
                  agent_done_cb *cb, void *arg);
/// Find the files of instructions that the next prompt of the session would have, and list them in its row.
void agent_session_look(struct session *s, agent_session_cb *cb, void *arg);
/// Replace the messages with a summary now; refused while a turn runs.
void agent_compact(struct session *s, agent_outcome_cb *cb, void *arg);

struct rewind_listed;
struct rewind_result;
typedef void agent_checkpoints_cb(void *arg, const struct rewind_listed *list, size_t n,
                                  const struct agent_no *no);
/// List the points that the session can go back to.
void agent_checkpoints(struct session *s, agent_checkpoints_cb *cb, void *arg);

struct agent_rewind {
    struct str to; // a turn or an earlier rewind; empty: the last turn
    bool files, conversation, dry_run, force;
};
typedef void agent_rewind_cb(void *arg, const struct rewind_result *r, const struct agent_no *no);
/// Go back to before a turn; refused while one runs.
void agent_rewind(struct session *s, const struct agent_rewind *wish, agent_rewind_cb *cb,
                  void *arg);

// ---- the journal, read --------------------------------------------------------------------------

/// `json` is the answer, unless `no` says why there is none.
typedef void agent_text_cb(void *arg, struct str json, const struct agent_no *no);
/// Read `{events, next}` of GET /session/{id}/events.
void agent_events(struct session *s, uint64_t after, size_t limit, agent_text_cb *cb, void *arg);
/// The number of the last event that readers may see (`shown` in event.h).
uint64_t agent_session_shown(const struct session *s);
