#pragma once

#include "agent/provider.h"
#include "agent/skills.h"
#include "agent/tool.h"
#include "base/json.h"
#include "config/config.h"
#include "gen/engine.h"
#include "loop/loop.h"
#include "permit/book.h"
#include "proto/events.h"
#include "proto/problems.h"

// Sessions: conversations with a model, each with its journal, run on the generations of plugins.
//
//     agent_session_new ──> session ──> agent_send ──> turn ──> steps (model request, tool calls)
//                              │                         │
//                              └── journal (store) ──written──> event log ──> all who follow
//
// Every function belongs to the loop thread and returns at once; callbacks come once, on the loop
// thread, and may come from inside the call where something is refused. docs/internals/agent.md tells
// how a turn goes.

struct agent;
struct session;
struct choices;
struct event_log;
struct http_client;
struct providers;
struct store;
struct trust;

// ---- what the agent is given --------------------------------------------------------------------------

/// "NAME=value", NULL at the end.
typedef void agent_environ_cb(void *arg, const char *const *vars);

/// What sessions ask of parts that agent/ does not know. Results are borrowed until the loop turns.
struct agent_host {
    // plugins, with the argument `plugins`: see plugin/sessions.h
    void *plugins;
    /// Is `u` part of a session, and how? Improvements of other sessions and plugins of other projects
    /// are not.
    enum agent_reach {
        AGENT_NEVER,
        AGENT_LISTED, // when the session names it, or has all
        AGENT_ALWAYS, // modules of the hub, required plugins, what the session itself wrote
    } (*reach)(void *arg, const struct gen_unit *u, const char *session, const char *working_dir);
    /// Is there a plugin of that name, serving or not?
    bool (*known)(void *arg, struct str name);
    /// The i-th plugin that is required of a session in `working_dir`, NULL after the last.
    const char *(*required)(void *arg, size_t i, const char *working_dir);
    /// Call `each` with every path from which the hub loads a plugin of the user's.
    void (*loaded)(void *arg, void (*each)(void *each_arg, const char *path), void *each_arg);
    /// A file of a plugin, by its path in it; `p` NULL when there is none.
    struct str (*file)(void *arg, const struct gen_unit *u, const char *path);
    /// Write an improvement for one session and reload; `done` with the report (NULL: the hub stops), or
    /// with `e`. Not from inside.
    void (*save)(void *arg, struct str name, struct str content, const char *session,
                 void (*done)(void *arg, const struct gen_report *r, const struct err *e),
                 void *done_arg);
    // the rest has the argument `arg`
    void *arg;
    /// Somebody works in `dir`: `done`, not from inside, when what its project brings serves, with the
    /// real path (NULL: there is nothing to leave); and works there no more.
    void (*enter)(void *arg, const char *dir, void (*done)(void *arg, const char *real_dir),
                  void *done_arg);
    void (*leave)(void *arg, const char *real_dir);
    /// The settings for those who work in `dir`, where its project brings some that are trusted; NULL:
    /// those of agent_opts.
    const struct config *(*config)(void *arg, const char *dir);
    /// Why the settings let no session begin in `dir`, for the caller to free; NULL: they do. May be NULL.
    char *(*refusal)(void *arg, const char *dir);
    /// The environment for a program that a tool of `s` runs: the client's with that of the project on
    /// top. `done` later, once, with what is borrowed for the call; unless `arg` is forgotten before.
    void (*environ)(void *arg, const struct session *s, agent_environ_cb *done, void *done_arg);
    void (*forget_environ)(void *arg, const struct session *s, void *done_arg);
    /// A session was made, a fork with its past; one has ended, and its journal says so. Once each; `s` is
    /// good for the call.
    void (*made)(void *arg, const struct session *s);
    /// Its directory or its client's environment may be another one now.
    void (*changed)(void *arg, const struct session *s);
    void (*ended)(void *arg, const struct session *s);
    /// Its directory goes, and nothing of it is wanted for the session until the next turn.
    void (*vacated)(void *arg, const struct session *s);
};

// ---- what bots bring --------------------------------------------------------------------------------

/// What a session of a bot is, beyond the parameters of POST /session. Everything is copied.
struct agent_role {
    struct str bot, project;     // names, for its metadata
    struct str dir;              // its files are in DIR/<id>, relative to the home
    struct str run_id;           // of its run; empty: it belongs to none
    int64_t number;              // of the session in its workspace
    struct str branch, worktree; // may be empty
    struct str before;           // the session whose conversation it goes on with; may be empty
    bool autonomous; // an iteration of a bot's run: what a person would be asked is denied
};

/// What a session of a bot is told, at the beginning of each turn.
struct agent_lore {
    struct skills skills;    // before those of the user and the project; owner of the arena below
    struct str instructions; // in the arena of `skills`; empty: the built-in ones
    struct str notes;        // a part of the prompt, such as what it remembers; may be empty
    bool told;               // its messages name the skills already
};

/// What bots bring to their sessions: agent/ and bot/ meet here only.
struct agent_kit {
    /// Their tools; the last one has no name. Their calls have `arg` as tool_call_data().
    const struct tool *tools;
    /// Fill in `out`, which is initialised; `done` once, never from inside. The session stays until then.
    void (*learn)(void *arg, struct session *s, struct agent_lore *out, loop_fn *done,
                  void *done_arg);
    /// A step of an iteration of a run is over and its results are in the journal; `done` once, never from
    /// inside: the next step waits for it. May be NULL.
    void (*stepped)(void *arg, struct session *s, loop_fn *done, void *done_arg);
    /// A session that belongs to a run has ended, and its journal says so. May be NULL.
    void (*ended)(void *arg, const struct session *s);
    void *arg;
};

/// Borrowed until agent_free().
struct agent_opts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct store *store;
    struct event_log *events;
    struct choices *choices;
    struct trust *trust;
    struct providers *providers;
    struct http_client *http; // of the tool web_fetch
    struct gen_engine *engine;
    struct agent_host host;
};

/// Open; sessions that a killed hub left running are marked before `ready` comes.
struct agent *agent_open(const struct agent_opts *o, loop_fn *ready, void *arg);
/// Interrupt every turn and let nothing begin; `done` when the last one is over and written. Before the
/// engine closes.
void agent_stop(struct agent *a, loop_fn *done, void *arg);
void agent_free(struct agent *a); // when the store is closed; NULL is allowed
struct tool_env;
struct arena;
/// Fill in what runs outside of the sandbox now, so that no tool of this call writes it, and how much a
/// command may take. In the arena.
void agent_guard(const struct agent *a, struct tool_env *env, struct arena *arena);
/// The hub that ran the session was lost: end what it left open, as after a restart; then `done`, whatever came
/// of it.
void agent_session_take_over(struct agent *a, struct str id, loop_fn *done, void *arg);
/// Copied; before the first session of a bot is made or found.
void agent_set_kit(struct agent *a, const struct agent_kit *kit);
struct buf;
struct tool_ticket;
/// The person's open page, for the tools ui_state and ui_command.
struct agent_screen {
    void (*state)(void *arg, struct buf *out); // append what it shows, as JSON
    /// Have it do something; ends with tool_ticket_finish().
    void (*command)(void *arg, struct str kind, const struct json *params,
                    struct tool_ticket *ticket);
    void *arg;
};
/// Copied; before the first session.
void agent_set_screen(struct agent *a, const struct agent_screen *screen);
struct engine_kind;
struct engine_world;
/// The outside agents that can run turns, NULL at the end; borrowed until agent_free(), as is `world`. Before the
/// first session.
void agent_set_engines(struct agent *a, const struct engine_kind *const *kinds,
                       struct engine_world *world);
/// An engine that sessions can have. Borrowed for the call of agent_engines_cb.
struct agent_engine {
    const char *name, *kind;
    const char *program; // its path; NULL: it is not installed
    const char *install; // the command that installs it; NULL: there is none
    const char *version; // what it says of itself; NULL: unknown
};
typedef void agent_engines_cb(void *arg, const struct agent_engine *list, size_t n);
/// The engines that come with the program and those of [engines], as a client with this PATH has them (empty: a usual
/// one). `cb` is called once, also from inside.
void agent_engines(struct agent *a, struct str path, agent_engines_cb *cb, void *arg);
/// What an editor answered; NULL: it refused and `why` says why, or it is gone (`why` NULL). Borrowed for the call.
typedef void agent_editor_cb(void *arg, const struct json *result, const char *why);
/// An editor that drives a session. Borrowed until it is taken back with agent_set_editor(); what it was asked is
/// answered before.
struct agent_editor {
    bool reads, writes; // it gives the text of files, and writes them
    bool terminals;     // it runs commands
    /// Ask for "read" {path}, "write" {path, content} or "terminal" {cmd, cwd, ...}; `params` is JSON. `done` once,
    /// never from inside, unless it is forgotten.
    void (*ask)(void *arg, const char *method, struct str params, agent_editor_cb *done,
                void *done_arg);
    void (*forget)(void *arg, void *done_arg); // nobody waits any more
    void *arg;
};
/// Tools of the session and its subagents use it from now on. NULL: there is none any more.
void agent_set_editor(struct agent *a, struct str session, const struct agent_editor *editor);
struct git;
/// What looks at the user's checkouts, so that sessions can go back; borrowed until agent_stop() is done.
void agent_set_git(struct agent *a, struct git *git);

// ---- answers ------------------------------------------------------------------------------------

/// Why not; borrowed for the callback.
struct agent_no {
    enum problem problem;
    char detail[300];
    char hint[120]; // may be empty
};

/// `s` is good until the loop turns; NULL: `no` says why.
typedef void agent_session_cb(void *arg, struct session *s, const struct agent_no *no);
/// `no` NULL: it was done.
typedef void agent_done_cb(void *arg, const struct agent_no *no);

// ---- sessions -----------------------------------------------------------------------------------

/// Make one. `params` are those of POST /session; borrowed for the call, as is `role`. `role` NULL: it
/// belongs to no bot.
void agent_session_new(struct agent *a, const struct json *params, const struct agent_role *role,
                       agent_session_cb *cb, void *arg);
/// Find one, in memory or in the store.
void agent_session_get(struct agent *a, struct str id, agent_session_cb *cb, void *arg);
/// Change what `params` name: those of PATCH /session/{id}.
void agent_session_patch(struct session *s, const struct json *params, agent_session_cb *cb,
                         void *arg);
/// Damage was found in the journal of session `id`: its row says so from now on.
void agent_session_damaged(struct agent *a, struct str id, const char *what);
/// End it: its turn is interrupted, queued messages are dropped. `purge`: with its files.
void agent_session_end(struct session *s, bool purge, agent_session_cb *cb, void *arg);
/// What the metadata of a bot's session say of its end.
struct agent_end {
    const char *reason; // of `end_reason`: complete, limit, interrupted, failed
    struct str action;  // what became of its work; may be empty
    struct str summary; // may be empty: what it answered last
};
/// agent_session_end() for a bot, without purging. An iteration of a run is always ended so.
void agent_session_close(struct session *s, const struct agent_end *end, agent_session_cb *cb,
                         void *arg);
/// What became of its work later: a person has merged or discarded it. `cb` may be NULL.
void agent_session_set_action(struct session *s, struct str action, store_done *cb, void *arg);
/// A new session with the events up to `seq` (0: all of them) and the same settings.
void agent_session_fork(struct session *s, uint64_t seq, agent_session_cb *cb, void *arg);
/// Sessions, those started last first; borrowed for the callback. `next` is the cursor of the next page; empty:
/// there is none.
struct agent_page {
    const struct session *const *sessions;
    size_t n;
    struct str next;
};
typedef void agent_page_cb(void *arg, const struct agent_page *page, const struct agent_no *no);
struct agent_filter {
    struct str state;  // empty: any
    struct str parent; // the subagents of this session; empty: those that are nobody's subagents
};
/// At most `limit` sessions; `cursor` may be empty. `which` is borrowed for the call.
void agent_session_list(struct agent *a, const struct agent_filter *which, struct str cursor,
                        size_t limit, agent_page_cb *cb, void *arg);

/// A session that was deleted, or would be; borrowed for the callback.
struct agent_pruned {
    char *id, *title, *working_dir;
    int64_t used_at; // milliseconds since 1970
};
typedef void agent_prune_cb(void *arg, const struct agent_pruned *list, size_t n,
                            const struct agent_no *no);
/// Delete, with their files, the sessions that are not at work and were last used before the wall time `before`; those
/// of bots stay. `dry_run`: only say which. On a failure the list has what was deleted before it.
void agent_session_prune(struct agent *a, int64_t before, bool dry_run, agent_prune_cb *cb,
                         void *arg);

/// Borrowed from the session.
const char *agent_session_id(const struct session *s);
/// Has it ended, or is it about to?
bool agent_session_is_ended(const struct session *s);
/// What it was made as; all empty when no bot's. Borrowed from the session.
const struct agent_role *agent_session_role(const struct session *s);
const char *agent_session_dir(const struct session *s); // where it works
/// The client's environment as tools may have it; NULL at the end, never NULL.
const char *const *agent_session_environ(const struct session *s);
/// Does [tool_env] drop keep a variable of that name from the tools of session `id`?
bool agent_drops_variable(const struct agent *a, struct str id, struct str name);
/// Write an event of somebody else's into the journal of a session; `write` adds its members, from inside.
/// Nothing happens when it has ended or is not in memory any more.
void agent_tell(struct agent *a, struct str id, enum event_id event,
                void (*write)(struct jw *w, void *arg), void *arg);

/// What a tool answered; borrowed for the callback.
struct agent_tool_answer {
    struct str output;
    bool success;
    struct str error; // STR_NULL: none
    uint64_t generation;
    const struct json *content;    // MCP content blocks that say the same as `output`; NULL: none
    const struct json *structured; // the same as an object; NULL: none
};
/// From where it is called. All may be NULL.
struct agent_tool_from {
    const char *dir; // the absolute working directory
    const struct hook_caller *caller;
    void *caller_arg;
    const struct json *client; // see struct hook_ctx; borrowed until `cb`
};
struct tool_run;
typedef void agent_tool_cb(void *arg, const struct agent_tool_answer *answer,
                           const struct agent_no *no);
/// Call a tool without a session, through the pipeline of every call. `name`, and `input` (NULL: {}), are
/// borrowed until `cb`, which comes once, also from inside: then NULL is returned, else a handle until `cb`.
struct tool_run *agent_tool_run(struct agent *a, struct str name, const struct json *input,
                                const struct agent_tool_from *from, agent_tool_cb *cb, void *arg);
/// Give it up: `cb` comes with a refusal, now or when what runs has ended.
void agent_tool_cancel(struct tool_run *r);

/// Somebody who is no session works in `dir`: `done`, not from inside, when what its project brings serves, with the
/// real path (NULL: there is none, and nothing to leave); and works there no more.
void agent_enter(struct agent *a, const char *dir, void (*done)(void *arg, const char *real_dir),
                 void *arg);
void agent_leave(struct agent *a, const char *real_dir);
/// Does a unit reach callers outside of sessions, in `dir` (NULL: outside of projects)?
bool agent_reaches(const struct agent *a, const struct gen_unit *u, const char *dir);
/// A tool of a plugin that can be called without a session.
struct agent_tool {
    struct str name; // as it is called: its plain name, or UNIT__NAME
    const struct gen_item *item;
};
/// List those of the current generation that are switched on and reach callers in the real directory `dir` (NULL:
/// outside of projects), in load order. The same rules decide what agent_tool_run() there finds. `*out` is in `arena`;
/// items are borrowed until the loop turns, names until another generation is asked for. Returns how many.
size_t agent_tool_list(struct agent *a, const char *dir, struct arena *arena,
                       const struct agent_tool **out);
/// The one of that name in the list; NULL when there is none. `arena` is for what is looked up.
const struct gen_item *agent_tool_find(struct agent *a, const char *dir, struct str name,
                                       struct arena *arena);

/// The directory of session `id` is about to go: no settings, plugins or environment of it are kept for it.
/// The next turn finds them again, if they are there; nothing happens while one runs.
void agent_vacate(struct agent *a, struct str id);
/// What the client's environment holds for providers, keys among it; NULL at the end, NULL for none.
const char *const *agent_session_variables(const struct session *s);
/// The provider and model that it chose last; "" before it chose.
const char *agent_session_provider(const struct session *s);
const char *agent_session_model(const struct session *s);
/// The row `{id, state, plugins, working_dir, provider, model, pending, usage, ...}`.
void agent_session_write(const struct session *s, struct jw *w);
/// The object of GET /session/{id}/pipeline: the plugins of its next step, and for each hook point the
/// handlers in the order in which they run.
void agent_session_write_pipeline(struct session *s, struct jw *w);

// ---- turns --------------------------------------------------------------------------------------

#define AGENT_TURN_STATES(X)                                                                       \
    X(RUNNING, "running")                                                                          \
    X(WAITING, "waiting")                                                                          \
    X(COMPLETED, "completed")                                                                      \
    X(FAILED, "failed")                                                                            \
    X(INTERRUPTED, "interrupted")

enum agent_turn_state {
#define X(id, name) AGENT_TURN_##id,
    AGENT_TURN_STATES(X)
#undef X
};

/// A call that a turn has made.
struct agent_call {
    struct str id, tool;
    const struct json *input;
    bool success;
    struct str error; // STR_NULL: none
    int64_t duration_ms;
};

/// How a turn ended, or that it waits for a person. Borrowed for the callback.
struct agent_outcome {
    const struct session *s;
    const char *turn_id;
    enum agent_turn_state state;
    struct str text;   // what was said last
    uint64_t left_out; // bytes of it that nobody kept
    struct provider_usage usage;
    double cost; // NAN: unknown
    const struct agent_call *calls;
    size_t n_calls;
    const char *error_code; // of a turn that failed
    struct str error;
};
typedef void agent_outcome_cb(void *arg, const struct agent_outcome *o, const struct agent_no *no);
/// Write its members into the open object. Secrets in it are not redacted.
void agent_outcome_write(const struct agent_outcome *o, struct jw *w);

/// What became of a message.
struct agent_sent {
    const char *turn_id;
    bool queued;
    size_t position;   // in the queue, from 1
    uint64_t after;    // the journal's seq before it: where a reader of this turn begins
    struct session *s; // good until the loop turns
};
/// Accepted: it is in the journal, synced. NULL: `no` says why.
typedef void agent_sent_cb(void *arg, const struct agent_sent *sent, const struct agent_no *no);

/// The client's environment, as `env` of POST /session: tools that begin and turns that choose a provider
/// from now on have it. A hub that was started anew knows little of the former one. False: `no` says why.
bool agent_session_set_env(struct session *s, const struct json *env, struct agent_no *no);
/// What is said. Borrowed for the call.
struct agent_message {
    struct str text;
    const struct json *images; // as picture_take() reads them; NULL: none
    bool reject;               // refuse it while a turn runs, instead of queueing it
};
/// Send a message: it begins a turn, or waits in the queue while one runs.
void agent_send(struct session *s, const struct agent_message *m, agent_sent_cb *cb, void *arg);
/// Wait until the turn has ended or a person is needed. To be called from inside agent_sent_cb.
void agent_wait(struct session *s, const char *turn_id, agent_outcome_cb *cb, void *arg);

/// End the turn that runs, if there is one; asked twice, a command that does not end is killed.
void agent_interrupt(struct session *s);
/// Say something to the turn that runs: the model hears it with its next request, which begins at once.
void agent_steer(struct session *s, struct str text, agent_done_cb *cb, void *arg);

/// The rules of [[permission]]. Borrowed until the settings change.
const struct rules *agent_rules(const struct agent *a);
/// The remembered rules. Borrowed; NULL when the hub stops.
struct book *agent_book(struct agent *a);

/// What a person decided about a call.
struct agent_decision {
    bool allow;
    enum permit_reach remember;
    struct str reason; // may be empty
};
/// Decide about the call that asked `request_id`. `cb` when the decision is in the journal, and remembered
/// if that was asked for.
void agent_decide(struct session *s, struct str request_id, const struct agent_decision *d,
                  agent_done_cb *cb, void *arg);
/// A person answers a question; any JSON.
void agent_answer(struct session *s, struct str question_id, const struct json *answer,
                  agent_done_cb *cb, void *arg);
/// Look which files of instructions the next prompt of the session would have; its row names them then.
void agent_session_look(struct session *s, agent_session_cb *cb, void *arg);
/// Replace old messages by a summary now; refused while a turn runs.
void agent_compact(struct session *s, agent_outcome_cb *cb, void *arg);

struct rewind_listed;
struct rewind_result;
typedef void agent_checkpoints_cb(void *arg, const struct rewind_listed *list, size_t n,
                                  const struct agent_no *no);
/// The points that the session can go back to.
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

/// A JSON text, or `no`.
typedef void agent_text_cb(void *arg, struct str json, const struct agent_no *no);
/// `{events, next}` of GET /session/{id}/events.
void agent_events(struct session *s, uint64_t after, size_t limit, agent_text_cb *cb, void *arg);
/// The number of the last event that readers may see: the `shown` of a reader by journal (event.h).
uint64_t agent_session_shown(const struct session *s);
