#pragma once

#include "agent/agent.h"

// The environment of a project, for the sessions that work in it: the one place where agent/ uses env/.

struct agent_env;
struct watcher;

/// Everything is borrowed until agent_env_free().
struct agent_env_opts {
    const struct hub_parts *hub;
    struct watcher *watcher;
};

/// Open the part that builds and hands out the environments of sessions. Never NULL.
struct agent_env *agent_env_open(const struct agent_env_opts *o);
/// Close it, when all turns are over: no session has an environment any more. Builds under way are killed.
void agent_env_close(struct agent_env *v);
void agent_env_free(struct agent_env *v); // when the loop has ended; NULL is allowed
/// Set the agent whose sessions they are; before the first session.
void agent_env_set_agent(struct agent_env *v, struct agent *a);

// The functions of struct agent_host, which says when each is called.

/// A session was made: build its project's environment.
void agent_env_made(struct agent_env *v, const struct session *s);
/// Its directory or its client's variables changed.
void agent_env_changed(struct agent_env *v, const struct session *s);
/// It has ended, or its directory goes.
void agent_env_ended(struct agent_env *v, const struct session *s);
/// Call `done` with the variables for a command of `s` when they are ready, unless agent_env_forget() comes first.
void agent_env_ask(struct agent_env *v, const struct session *s, agent_environ_cb *done, void *arg);
/// Drop the request that was made with `arg`.
void agent_env_forget(struct agent_env *v, const struct session *s, void *arg);
