#pragma once

#include "agent/agent.h"

// Sessions get the environment of the project in which they work: agent/ and env/ do not know each other.

struct agent_env;
struct event_log;
struct watcher;

/// Everything is borrowed until agent_env_free().
struct agent_env_opts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct watcher *watcher;
    struct event_log *events;
};

/// What builds and hands out the environments of sessions. Never NULL.
struct agent_env *agent_env_open(const struct agent_env_opts *o);
/// When all turns are over: no session has an environment any more. Builds under way are killed.
void agent_env_close(struct agent_env *v);
void agent_env_free(struct agent_env *v); // when the loop has ended; NULL is allowed
/// Whose sessions they are; before the first of them.
void agent_env_set_agent(struct agent_env *v, struct agent *a);

// For struct agent_host, which says when each is called.

/// A session was made: its project's environment is wanted.
void agent_env_made(struct agent_env *v, const struct session *s);
/// Its directory or its client's variables are others.
void agent_env_changed(struct agent_env *v, const struct session *s);
/// It has ended, or its directory goes.
void agent_env_ended(struct agent_env *v, const struct session *s);
/// The variables for a command of `s`, when they are ready; unless `arg` is forgotten before.
void agent_env_ask(struct agent_env *v, const struct session *s, agent_environ_cb *done, void *arg);
/// Whoever asked with `arg` does not wait any more.
void agent_env_forget(struct agent_env *v, const struct session *s, void *arg);
