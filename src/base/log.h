#pragma once

#include "base/str.h"

// One line an event, in logfmt:
//
//     2026-11-15T05:01:12.345Z info http peer=unix method=GET path=/healthz status=200
//
// The text after the component is the caller's "key=value key=value"; values that may hold spaces, quotes
// or bytes from outside go through LOGQ(). A line always stays one line: control characters are escaped.
// Known secrets (redact.h) and text that looks like one (bearer tokens, `*_key=`, `token=`, `code=`) are
// replaced by "[redacted ...]" before any sink sees them.

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

// component of a line: the folder it comes from
#define LOG_COMPONENTS(X)                                                                          \
    X(HUB, "hub")                                                                                  \
    X(HTTP, "http")                                                                                \
    X(AUTH, "auth")                                                                                \
    X(STORE, "store")                                                                              \
    X(EVENT, "event")                                                                              \
    X(CONFIG, "config")                                                                            \
    X(PROC, "proc")                                                                                \
    X(LOOP, "loop")                                                                                \
    X(AGENT, "agent")                                                                              \
    X(BOT, "bot")                                                                                  \
    X(GIT, "git")

enum log_component {
#define X(id, name) LOG_##id,
    LOG_COMPONENTS(X)
#undef X
        LOG__COUNT
};

/// A sink gets complete redacted lines without the newline. It runs on the calling thread, under
/// the log's lock: it must be quick and must not log.
typedef void log_sink(void *arg, enum log_level level, enum log_component component,
                      struct str line);

/// The process has one log (its only global). Until log_open() lines of level warn and above go to
/// stderr. Passing NULL as sink sends lines there again.
void log_open(enum log_level level, log_sink *sink, void *arg);
/// The level below which lines are dropped.
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/// Read "error", "warn", "info" or "debug", in any case; false for anything else.
bool log_level_parse(struct str name, enum log_level *out);
const char *log_level_name(enum log_level level);
const char *log_component_name(enum log_component component);

struct buf;
/// Append `line` to `out` with secrets replaced and control characters escaped. Also for events and dumps:
/// JSON text stays JSON.
void log_redact(struct buf *out, struct str line);
/// The same for a text of several lines: its line ends stay.
void log_redact_lines(struct buf *out, struct str text);

#define log_error(component, ...) log_write(LOG_ERROR, component, __VA_ARGS__)
#define log_warn(component, ...)  log_write(LOG_WARN, component, __VA_ARGS__)
#define log_info(component, ...)  log_write(LOG_INFO, component, __VA_ARGS__)
#define log_debug(component, ...) log_write(LOG_DEBUG, component, __VA_ARGS__)
/// Write one line if `level` is enabled. Any thread.
void log_write(enum log_level level, enum log_component component, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

struct log_quoted {
    char z[256];
};
/// A logfmt value: plain, or quoted with escapes; cut at 200 bytes. For use inside one log call:
/// `log_warn(LOG_AUTH, "reason=%s", LOGQ(s).z)`.
struct log_quoted log_quote(struct str value);
#define LOGQ(s) log_quote(s)
