#pragma once

#include "base/err.h"
#include "plugin/manifest.h"

// Plugins in processes of their own (plugin/hosts.h) in their place in the hub: what they may ask of it.

struct bind;
struct hosted_plugins;
struct plugin_runner;
struct hook_run;
struct json;
struct jw;

/// `b` is borrowed until hosted_close(). NULL when our own program cannot be found: `e` says why.
struct hosted_plugins *hosted_open(struct bind *b, struct err *e);
/// When all plugins are unloaded. NULL is allowed.
void hosted_close(struct hosted_plugins *h);
/// Who runs plugins of `lang`; NULL for NULL.
const struct plugin_runner *hosted_runner(const struct hosted_plugins *h, enum plugin_lang lang);

/// See hosts_event(), hosts_listen(); NULL is allowed.
void hosted_event(struct hosted_plugins *h, struct str name, struct str data);
bool hosted_listen(const struct hosted_plugins *h);
