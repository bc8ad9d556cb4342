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
struct rewind_call;
struct task;
struct turn;

/// Where calls are made: in a step of a turn, or outside of any session.
struct call_site {
    struct agent *agent;
    struct turn *turn;          // NULL: outside of a session
    struct arena *arena;        // lives as long as the calls
    struct hook_ctx *ctx;       // the same
    struct gen *gen;            // pinned
    struct hook_set *hooks;     // of the plugins that reach the calls
    struct toolbox tools;       // what can be called
    struct book_project *rules; // remembered for the project; NULL: no project
    const char *dir;            // outside of a session: the real working directory; NULL: none
    enum box_mode mode;         // outside of a session
    vec(struct tool_call *) calls;
    size_t n_running; // sum of the weights of those that run
    /// The result of a call is final. May free the call and the site.
    void (*ended)(struct tool_call *c);
};

/// How a call ended. CALL_RAN has a result of the tool, or of a plugin in its place.
enum call_end {
    CALL_RAN,
    CALL_UNFIT,   // there is no such tool, or the input does not fit
    CALL_DENIED,  // `denied_by` and `reason` say why
    CALL_UNASKED, // the user would have to be asked and cannot be; `asked_by` wants it
    CALL_BROKEN,  // the plugin that runs the tool failed
    CALL_TIMEOUT, // and took too long
    CALL_CANCELLED,
};

/// What a call waits for.
enum ask_kind { ASK_NOTHING, ASK_PERMISSION, ASK_QUESTION };
enum { ASK_ID = 24 };

/// What the editor does for a call.
enum call_editing { EDITING_NOTHING, EDITING_READS, EDITING_WRITES, EDITING_RUNS };

struct tool_call {
    struct call_site *site;
    struct str id;                  // the model's
    struct str name;                // of the tool, as on_tool_call left it
    const struct json *call;        // {tool_name, tool_call_id, input} as handlers see it
    const struct json *said;        // the input as the model wrote it
    const struct json *result;      // {output, success, error?, ...}
    const struct tool_entry *entry; // NULL: there is no such tool
    enum call_end end;
    const char *denied_by, *reason;
    const char *resolved_by; // a unit; NULL: the tool itself ran
    struct str diff;         // what it changes in a file, in the site's arena; may be empty
    struct pipe pipe;
    uint64_t since_ns;
    bool guarded;     // the file runs outside of the sandbox: the user has to agree to this change
    bool consented;   // and has agreed
    bool noted;       // tool.called is on its way
    bool synced;      // it is on the disk: the tool may begin
    const char *lost; // why it is not: it will not begin
    bool allowed;     // by plugins, policy and people
    bool cancelled;
    bool over;
    bool keeping;             // waits until what it will change is kept
    struct rewind_call *kept; // NULL: nothing is
    // what runs it
    struct tool_job *job;
    bool dressing;                    // the job waits for its environment
    enum call_editing editing;        // what the editor is asked for
    bool in_line;                     // it waits until others end
    unsigned weight;                  // its part of n_running
    struct fetch *fetch;              // the page that it reads; NULL: none
    struct task *task;                // the subagent that it waits for; NULL: none
    struct engine_errand *errand;     // an engine runs it, see turn_engine.c; NULL: we do
    struct tool_ticket *ticket;       // NULL: none is out
    struct hook_ctx ctx;              // of a plugin's tool
    struct hook_seen seen;            // of it, when the tool began
    const struct hook_caller *caller; // whom it may ask; NULL: nobody
    void *caller_arg;
    const struct json *content;    // of a plugin's tool: content blocks; NULL: none
    const struct json *structured; // the same as an object
    struct str content_says;       // the output that both stand for
    struct gen_call gen;
    bool calling;
    size_t progress;              // bytes told so far
    struct redact_stream secrets; // in it
    bool telling;                 // one is being written
    // whom it waits for
    enum ask_kind asking;
    const char *asked_by; // the plugin that wants it asked; NULL: none
    char ask_id[ASK_ID];
    struct timer patience;
    struct deciding *deciding; // an answer that is being stored; it forgets a call that goes first
    // what it asks as it runs, see inquiry.c
    struct inquiry *inquiries;
    uint64_t n_asked; // questions of them so far
};

/// Add a call to the site; `id` and `said` are borrowed as long as the site's arena.
struct tool_call *tool_call__new(struct call_site *site, struct str id, const struct json *said);
/// Send it through the pipeline. `bad_input`: why `said` is no input at all; NULL: it is one.
void tool_call__begin(struct tool_call *c, struct str name, const char *bad_input);
/// Give it up: site->ended follows, now or when its command has ended. Asked twice, the command is killed.
void tool_call__cancel(struct tool_call *c);
void tool_call__free(struct tool_call *c); // when its events are written
/// Start what waits until others end.
void tool_call__start_waiting(struct call_site *site);
void tool_call__site_fini(struct call_site *site); // the calls are freed before

/// It ends without a result of its tool.
void tool_call__fail(struct tool_call *c, enum call_end end, const char *error);
/// The result {output, success, error?} of the tool.
void tool_call__finish_as(struct tool_call *c, struct str output, bool success, const char *error);
/// The text as a model may have it: of what is too long head and tail, in the arena.
struct str tool_call__clip(struct arena *a, struct str text);
/// New output, for people who watch.
void tool_call__tell_progress(struct tool_call *c, struct str text);
/// Raise a point for the call; `b` as in pipe_opts.
void tool_call__raise(struct tool_call *c, enum hook_point_id point, const struct json *b,
                      pipe_done *done);
/// The session of the site; NULL: none.
struct session *tool_call__session(const struct call_site *site);

// turn_engine.c
/// How a call runs that an engine runs itself, in the arena of its site. `known`: the entry of its name; NULL: none.
const struct tool_entry *turn__engine_entry(struct tool_call *c, struct str name,
                                            const struct tool_entry *known);

// tool_call_job.c
/// Where a command of the site runs: box and variables, in the arena of the site. `vars`: the client's and the
/// project's variables; not looked at without a session.
void tool_call__place(struct call_site *site, const char *const *vars, struct box_policy *policy,
                      struct tool_env *env);
/// Find out what a file tool would change, then ask.
void tool_call__preview(struct tool_call *c);
/// Run the job again: the user has agreed to what stopped it.
void tool_call__run_job(struct tool_call *c);

// tool_call_editor.c
/// The editor that drives the session; NULL: there is none.
const struct agent_editor *tool_call__editor(const struct tool_call *c);
/// on_editor of jobs; `arg` is the call.
void tool_call__ask_editor(struct tool_job *j, const char *path, struct str text, void *arg);
/// Run the command of the call in a terminal of the editor. False: it does not belong there.
bool tool_call__run_terminal(struct tool_call *c, const char *const *vars);
/// The call is given up: the editor need not answer.
void tool_call__forget_editor(struct tool_call *c);

// inquiry.c
/// Whom a tool may ask that runs in a session; its argument is the call.
extern const struct hook_caller inquiry__caller;
/// The call {tool_name, tool_call_id, input} that is judged now: of the tool itself, or of what it asks for.
const struct json *tool_call__about(const struct tool_call *c);
/// Is that not the call of the tool itself?
bool inquiry__is_judged(const struct tool_call *c);
/// It was allowed (`refused` NULL), or refused and why. False: the call of the tool itself was.
bool inquiry__decided(struct tool_call *c, const char *refused);
/// Write `question` and more members into the open object. False: the question is not one of a running tool.
bool inquiry__write_question(const struct tool_call *c, struct jw *w);
/// Its question `number` (0: of another) has the answer `json`; `null`: nobody gave one. False as before.
bool inquiry__answered(struct tool_call *c, uint64_t number, struct str json);

// task.c
/// The turn of the subagent that the call waits for; NULL: there is none.
const struct turn *task__turn(const struct tool_call *c);

// tool_call_plugin.c
extern const struct tool tool_call__plugin_tool; // runs the entry's gen_item

// permission.c
/// May it run? Continues with tool_call__resolve() or ends it.
void tool_call__permit(struct tool_call *c);
/// Nothing is against it any more.
void tool_call__resolve(struct tool_call *c);
/// The user has allowed it.
void tool_call__go_on(struct tool_call *c);
/// Ask the user; c->diff and c->asked_by are set.
void tool_call__ask(struct tool_call *c);
/// Ask what the tool ask_user, or a running tool, wants to know.
void tool_call__ask_user(struct tool_call *c);
/// Can the user be asked?
bool tool_call__can_ask(const struct tool_call *c);
/// Nobody will answer: the call is given up.
void tool_call__stop_asking(struct tool_call *c);
/// The call is freed: an answer on its way to the disk forgets it.
void tool_call__drop_decision(struct tool_call *c);
