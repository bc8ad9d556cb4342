#pragma once

#include "agent/pipeline.h"
#include "agent/tool.h"
#include "agent/toolbox.h"
#include "base/redact.h"
#include "hook/args.h"
#include "loop/timer.h"
#include "sandbox/box.h"

// The pipeline that every call of a tool goes through, in a turn or without one. See tool_call.c.

struct agent;
struct book_project;
struct engine_errand;
struct fetch;
struct inquiry;
struct call_look;
struct rewind_call;
struct task;
struct turn;

/// The place where calls are made: a step of a turn, or outside of any session.
struct call_site {
    struct agent *agent;
    struct turn *turn;          // NULL: outside of a session
    struct arena *arena;        // lives as long as the calls
    struct hook_ctx *ctx;       // the same
    struct gen *gen;            // pinned
    struct hook_set *hooks;     // of the plugins that apply here
    struct toolbox tools;       // that can be called
    struct book_project *rules; // remembered for the project; NULL: no project
    const char *dir;            // outside of a session: the real working directory; NULL: none
    enum box_mode mode;         // outside of a session
    vec(struct tool_call *) calls;
    size_t n_running; // sum of the weights of those that run
    /// A call has its final result. May free the call and the site.
    void (*ended)(struct tool_call *c);
};

/// How a call ended.
enum call_end {
    CALL_RAN,     // with a result of the tool, or of a plugin in its place
    CALL_UNFIT,   // there is no such tool, or the input does not fit
    CALL_DENIED,  // `denied_by` and `reason` say why
    CALL_UNASKED, // the user would have to be asked, and cannot be
    CALL_BROKEN,  // the plugin that runs the tool failed
    CALL_TIMEOUT, // the plugin took too long
    CALL_CANCELLED,
};

/// Which answer of the user a call waits for.
enum ask_kind { ASK_NOTHING, ASK_PERMISSION, ASK_QUESTION };
enum { ASK_ID = 24 };

/// What the editor does for a call.
enum call_editing { EDITING_NOTHING, EDITING_READS, EDITING_WRITES, EDITING_RUNS };

struct tool_call {
    struct call_site *site;
    struct str id;                  // given by the model
    struct str name;                // of the tool, as on_tool_call left it
    const struct json *call;        // {tool_name, tool_call_id, input}, for handlers
    const struct json *said;        // the input as the model wrote it
    const struct json *result;      // {output, success, error?, ...}
    const struct tool_entry *entry; // NULL: there is no such tool
    enum call_end end;
    const char *denied_by, *reason;
    const char *resolved_by; // the unit that answered in place of the tool; NULL: the tool ran
    struct str diff;         // what it changes in a file, in the site's arena; may be empty
    struct pipe pipe;
    uint64_t since_ns;
    bool guarded;     // the file runs outside of the sandbox: the user has to agree
    bool consented;   // the user has agreed
    bool noted;       // tool.called is on its way into the journal
    bool synced;      // tool.called is on the disk: the tool may begin
    const char *lost; // why it could not be written: the tool will not begin
    bool allowed;     // by plugins, rules and the user
    bool cancelled;
    bool over;
    bool keeping;             // waits until the files that it will change are kept
    struct rewind_call *kept; // NULL: none are
    // how it runs
    struct tool_job *job;
    bool dressing;                    // the job waits for its environment
    enum call_editing editing;        // what the editor is asked for
    bool in_line;                     // it waits until others end
    unsigned weight;                  // its part of n_running
    struct fetch *fetch;              // the page that it reads; NULL: none
    struct task *task;                // the subagent that it waits for; NULL: none
    struct engine_errand *errand;     // an engine runs it, see turn_engine.c; NULL: we do
    struct tool_ticket *ticket;       // NULL: none was given out
    struct hook_ctx ctx;              // of a plugin's tool
    struct hook_seen seen;            // of `ctx`, when the tool began
    const struct hook_caller *caller; // takes what the tool asks for; NULL: it may not ask
    void *caller_arg;
    const struct json *content;    // of a plugin's tool: content blocks; NULL: none
    const struct json *structured; // the same as an object
    struct str content_says;       // the output that both stand for
    struct gen_call gen;
    bool calling;
    size_t progress;              // bytes shown so far
    struct redact_stream secrets; // finds them in the progress
    bool telling;                 // a piece of progress is being written
    // what it waits for
    struct call_look *look; // for the real paths of its files, see permission.c; NULL: none
    const char *file;       // the file that it names, without links as far as it exists; NULL: none
    const char *const *writes; // the files that the redirections of a command write; NULL: none
    enum ask_kind asking;
    const char *asked_by; // the plugin that wants the question; NULL: none
    char ask_id[ASK_ID];
    struct timer patience;
    struct deciding *deciding; // the user's answer while it is being stored; NULL: none
    // what it asks while it runs, see inquiry.c
    struct inquiry *inquiries;
    uint64_t n_asked; // number of their last question
};

/// Add a call to the site; `id` and `said` are borrowed as long as the site's arena.
struct tool_call *tool_call__new(struct call_site *site, struct str id, const struct json *said);
/// Send it through the pipeline. `bad_input`: why the model's input cannot be used; NULL: it can.
void tool_call__begin(struct tool_call *c, struct str name, const char *bad_input);
/// Cancel it: site->ended follows, now or when its command has ended. The second time, the command is killed.
void tool_call__cancel(struct tool_call *c);
/// Free a call that is over; its events are written.
void tool_call__free(struct tool_call *c);
/// Start calls that waited until others ended.
void tool_call__start_waiting(struct call_site *site);
/// Free what the site holds; its calls are freed before.
void tool_call__site_fini(struct call_site *site);

/// End it without a result of its tool.
void tool_call__fail(struct tool_call *c, enum call_end end, const char *error);
/// End it with the result {output, success, error?} of the tool.
void tool_call__finish_as(struct tool_call *c, struct str output, bool success, const char *error);
/// The text cut to what a model gets: head and tail of one that is too long, in the arena.
struct str tool_call__clip(struct arena *a, struct str text);
/// Journal new output as tool.progress.
void tool_call__tell_progress(struct tool_call *c, struct str text);
/// Raise a point for the call; `b` as in pipe_opts.
void tool_call__raise(struct tool_call *c, enum hook_point_id point, const struct json *b,
                      pipe_done *done);
/// The session of the site; NULL: none.
struct session *tool_call__session(const struct call_site *site);

// turn_engine.c
/// The entry for a call that an engine runs itself, in the arena of its site. `known`: our tool of that name; NULL: none.
const struct tool_entry *turn__engine_entry(struct tool_call *c, struct str name,
                                            const struct tool_entry *known);

// tool_call_job.c
/// Fill in box and variables for a command of the site, in its arena. `vars`: the client's and the project's variables;
/// not used without a session.
void tool_call__place(struct call_site *site, const char *const *vars, struct box_policy *policy,
                      struct tool_env *env);
/// Find out what a file tool would change, then ask.
void tool_call__preview(struct tool_call *c);
/// The directory for outputs that are too long for the model. The caller frees it.
char *tool_call__outputs_dir(const struct call_site *site);

// tool_call_editor.c
/// The editor that drives the session; NULL: there is none.
const struct agent_editor *tool_call__editor(const struct tool_call *c);
/// on_editor of jobs; `arg` is the call.
void tool_call__ask_editor(struct tool_job *j, const char *path, struct str text, void *arg);
/// Run the command of the call in a terminal of the editor. False: it has to run here.
bool tool_call__run_terminal(struct tool_call *c, const char *const *vars);
/// The call is cancelled: drop its request to the editor.
void tool_call__forget_editor(struct tool_call *c);

// inquiry.c
/// Takes what a tool that runs in a session asks for; its argument is the call.
extern const struct hook_caller inquiry__caller;
/// The call {tool_name, tool_call_id, input} that is judged now: of the tool itself, or of what it asks for.
const struct json *tool_call__about(const struct tool_call *c);
/// Is that what a running tool asks for?
bool inquiry__is_judged(const struct tool_call *c);
/// If so: go on with it (`refused` NULL), or refuse it and say why. False: it is the call of the tool itself.
bool inquiry__decided(struct tool_call *c, const char *refused);
/// Write `question` and more members into the open object. False: a running tool asks nothing.
bool inquiry__write_question(const struct tool_call *c, struct jw *w);
/// Take the answer `json` to its question `number`; `null`: none was given. False: `number` is 0, and the question is
/// not one of a running tool.
bool inquiry__answered(struct tool_call *c, uint64_t number, struct str json);

// task.c
/// The turn of the subagent that the call waits for; NULL: there is none.
const struct turn *task__turn(const struct tool_call *c);

// tool_call_plugin.c
extern const struct tool tool_call__plugin_tool; // runs the entry's gen_item

// permission.c
/// Decide whether it may run: continue with tool_call__resolve(), ask the user, or end it.
void tool_call__permit(struct tool_call *c);
/// It is allowed: raise on_resolve_tool, then run it.
void tool_call__resolve(struct tool_call *c);
/// The user has allowed it.
void tool_call__go_on(struct tool_call *c);
/// Ask the user for permission; c->diff and c->asked_by are set.
void tool_call__ask(struct tool_call *c);
/// Ask the user the question of the tool ask_user, or of a running tool.
void tool_call__ask_user(struct tool_call *c);
/// Can the user be asked?
bool tool_call__can_ask(const struct tool_call *c);
/// The call is cancelled: stop looking for the real paths of its files.
void tool_call__stop_looking(struct tool_call *c);
/// The call is cancelled: its question gets no answer.
void tool_call__stop_asking(struct tool_call *c);
/// The call is freed: an answer that is being stored must not use it.
void tool_call__drop_decision(struct tool_call *c);
