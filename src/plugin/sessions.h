#pragma once

#include "agent/agent.h"

// Plugins and improvements as sessions see them: what struct agent_host asks of them. `view` of each function is a
// struct plugin_view.

struct improvements;
struct plugins;

/// Borrowed by the agent for as long as it lives.
struct plugin_view {
    struct loop *loop;
    struct gen_engine *engine;
    struct plugins *plugins;           // NULL: none
    struct improvements *improvements; // NULL: none
};

/// See agent_host.reach, .known, .required, .loaded, .file.
enum agent_reach plugin_view_reach(void *view, const struct gen_unit *u, const char *session,
                                   const char *working_dir);
bool plugin_view_known(void *view, struct str name);
const char *plugin_view_required(void *view, size_t i, const char *working_dir);
void plugin_view_loaded(void *view, void (*each)(void *each_arg, const char *path), void *each_arg);
struct str plugin_view_file(void *view, const struct gen_unit *u, const char *path);

/// See agent_host.save: improvement_save.c.
typedef void improvement_saved(void *arg, const struct gen_report *r, const struct err *e);
void plugin_view_save(void *view, struct str name, struct str content, const char *session,
                      improvement_saved *done, void *arg);
