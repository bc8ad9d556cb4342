#pragma once

#include "plugin/host_unit.h"
#include "plugin/runner.h"

// Plugins in a process of their own, in languages that the hub does not run itself: Python, Node, C. One
// process for each version; a runner for each language. Everything belongs to the loop thread.

struct hosts;

/// A plugin asks for an operation. Answered once with hosts_answer(), now or later.
struct hosts_ask {
    const char *unit;               // borrowed until it is answered, as the rest
    const char *space;              // namespace of its durable values
    const struct plugin_code *code; // for ask() only: the version may go before the answer
    struct str op;
    const struct json *params; // NULL: none
};

/// Borrowed until hosts_close().
struct hosts_opts {
    struct loop *loop;
    const char *program; // our own; run as `PROGRAM host LANG PATH`
    const char *cache;   // directory for what hosts make of their programs
    const uint32_t *hook_ms, *tool_ms, *start_ms, *memory_mb; // limits, read at each call
    /// Answer `a` now or later.
    void (*ask)(void *arg, struct hosts_ask *a);
    void (*log)(void *arg, const char *unit, enum log_level level, struct str text);
    host_watch_fn *watch;
    /// A process that served has died: ask for a run.
    void (*died)(void *arg);
    void *arg;
};

/// Be ready to start processes for plugins; `o` is copied. Nothing runs before the first plugin needs it.
struct hosts *hosts_open(const struct hosts_opts *o);
/// When every version is freed. NULL is allowed.
void hosts_close(struct hosts *hs);
const struct plugin_runner *hosts_runner(const struct hosts *hs, enum plugin_lang lang);

/// An operation is over: 0 and a JSON text, or a negative code and a message. `a` is freed; its asker may be gone.
void hosts_answer(struct hosts_ask *a, int status, struct str text);

/// Tell those that listen to it and serve of an event; `data` is a JSON text.
void hosts_event(struct hosts *hs, struct str name, struct str data);
bool hosts_listen(const struct hosts *hs); // does any of them listen to anything?
