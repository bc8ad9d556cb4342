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

struct agent_env *agent_env_open(const struct agent_env_opts *o); // never NULL
/// When all turns are over: no session has an environment any more. Builds under way are killed.
void agent_env_close(struct agent_env *v);
void agent_env_free(struct agent_env *v); // when the loop has ended; NULL is allowed
/// Whose sessions they are; before the first of them.
void agent_env_set_agent(struct agent_env *v, struct agent *a);

// as struct agent_host says
void agent_env_made(struct agent_env *v, const struct session *s);
void agent_env_changed(struct agent_env *v, const struct session *s);
void agent_env_ended(struct agent_env *v, const struct session *s);
void agent_env_ask(struct agent_env *v, const struct session *s, agent_environ_cb *done, void *arg);
void agent_env_forget(struct agent_env *v, const struct session *s, void *arg);
