#pragma once

#include <pthread.h>

#include "base/json.h"
#include "base/vec.h"
#include "host/afloat_plugin.h"
#include "host/c_call.h"

// What the files of the C host share. One process runs one plugin: there is one `far`.

/// A function for a hook point; its number is its place, from 1.
struct hook {
    const char *point;
    afloat_fn *run;
};

/// An answer that somebody waits for.
struct ask {
    int64_t id;
    bool done;
    char *value; // JSON; NULL: it failed
    struct ask *next;
};

struct c_far {
    const struct afloat_plugin *plugin;
    void *library;
    vec(struct hook) hooks;
    bool loaded, validating;
    struct buf in;
    vec(char *) backlog; // lines that came while an answer was waited for
    pthread_t main;
    pthread_mutex_t lock; // of the socket, `asks` and `state`
    pthread_cond_t answered;
    struct ask *asks;
    int64_t last_ask;
    struct arena arena; // of `state`
    struct json *state;
    vec(int64_t) running; // ids of calls that run apart
    vec(uint64_t) due;    // of each timer, monotonic ms
    bool serving;         // timers run
};
extern struct c_far far;

/// The hook points and how their arguments are called.
struct c_point {
    const char *name, *args[2];
};
enum { C_POINTS = 13 };
extern const struct c_point c_points[C_POINTS];

/// The entry of a list whose structures begin with their name; NULL: there is none.
const void *c_find_entry(const void *list, size_t size, struct str name);
#define C_FIND(list, name) c_find_entry(far.plugin->list, sizeof *far.plugin->list, name)

// ---- c_wire.c -------------------------------------------------------------------------------

/// Begin a message; members follow, then c_send(), which frees it.
void c_begin(struct jw *w, struct buf *line, const char *type, int64_t id);
void c_send(struct jw *w, struct buf *line);
void c_send_error(int64_t id, const char *message);
/// Does the message answer something that was asked? Then whoever waits has it.
bool c_take_answer(const struct json *m);
/// The next line of the hub, waiting for it; the caller frees it. Ends the process when there will be none.
char *c_read_line(void);
/// Wait until a line is there, or for `ms` (negative: without end). False: there is none yet.
bool c_wait_line(int ms);
/// Functions of struct afloat_host.
void c_log(const char *level, const char *format, ...) PRINTF_LIKE(2, 3);
void c_progress(struct afloat_call *c, const char *text);
const char *c_ask(struct afloat_call *c, const char *op, const char *params);
bool c_emit(struct afloat_call *c, const char *json);
bool c_emit_text(struct afloat_call *c, const char *text);
/// Note that a call runs apart, and that it does not any more: it has ended, or nobody waits for it.
void c_running(int64_t id);
void c_over(int64_t id);

// ---- c_register.c ---------------------------------------------------------------------------

/// A function that the plugin exports by name; NULL: it has none.
afloat_fn *c_exported(const char *name);
/// Tell the hub what the plugin offers. False, and `e`.
bool c_register_all(struct err *e);

// ---- c_plugin.c -----------------------------------------------------------------------------

struct c_fault;
/// Compile, open, register. False, and `fault`.
bool c_load(const struct json *m, struct c_fault *fault);
void c_write_metadata(struct jw *w, struct str name);

// ---- c_check.c ------------------------------------------------------------------------------

/// Answer the request on stdin with the members of an object.
void c_validate(struct jw *w);
/// A function of struct afloat_host, for tests.
const char *c_try(struct afloat_call *outer, const char *kind, const char *name, const char *json);
