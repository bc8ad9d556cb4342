#pragma once

#include "base/vec.h"
#include "loop/timer.h"
#include "shell/ctl_server.h"
#include "shell/offers.h"
#include "shell/run_int.h"
#include "shell/session.h"

// The running session between its parts: coordinator, offers, control socket, terminal.

/// A caller that waits for a task.
struct live_task {
    struct live *live;
    struct ctl_call *call;
    struct env_tasks *tasks;
    char *name;
    vec(char *) left;  // tasks for the shell itself
    struct buf output; // of the tasks
    char *failed;      // the first one that failed, and why; NULL: none
};

struct task_watch; // live_tasks.c

struct live {
    struct run *run;
    enum env_dialect dialect;
    const char *program;
    struct shell_dir dir;
    struct offers *offers;
    struct ctl_server *ctl;
    struct session *session;
    struct env_session *merge;
    enum status_state state;
    bool by_key;                    // the build under way was asked for
    uint64_t offer_id;              // of the environment that waits, 0 for none
    uint64_t offered;               // its generation
    uint64_t applied;               // generation that the shell has
    unsigned damaged;               // times the shell refused it
    struct timer calm;              // from "reloaded" back to "watching"
    struct timer retry;             // of an environment that could not be handed over
    bool stuck;                     // the last one could not
    vec(struct ctl_call *) waiting; // for the end of a build
    vec(struct live_task *) tasks;
    vec(struct task_watch *) watched; // inputs of tasks
    struct env_tasks *again;          // tasks whose inputs changed, running
    bool again_due;                   // one changed meanwhile
    struct timer again_timer;
    int code;
    bool over;
};

void live__show(struct live *v, enum status_state s);
/// Have `text` printed at the next prompt, and let the shell look. `slot`: see offers_note().
void live__note(struct live *v, const char *slot, const char *text);
/// Build if an input changed, the last build failed, or with `force`.
void live__reload(struct live *v, bool force);
/// Hand a task to the shell; with `force` its `status` is not asked.
int live__offer_task(struct live *v, const char *name, bool force, struct err *e) MUST_CHECK;
/// Take over what tasks exported, and offer it.
void live__take_exports(struct live *v, const struct env_tasks_end *end);

/// Run the tasks whose inputs changed; for `again_timer`.
void live__run_again(void *arg);
/// Watch the inputs of the tasks of `run->built`: they run again when one changes. With `look` tasks whose inputs were
/// not watched before run now, too, unless they ran on what is there.
void live__watch_tasks(struct live *v, bool look);
void live__end_tasks(struct live *v); // no longer

/// The build is over: answer all who wait for it.
void live__answer_waiting(struct live *v);

/// A question on the control socket; `data` is the struct live.
ctl_fn live__on_call;
/// End what the control socket started.
void live__end_calls(struct live *v);
