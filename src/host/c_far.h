#pragma once

#include <pthread.h>

#include "base/json.h"
#include "base/vec.h"
#include "host/afloat_plugin.h"
#include "host/c_call.h"

// What the files of the C host share. One process runs one plugin: there is one `far`.

/// How registrations of one kind are read and told to the hub.
struct c_kind {
    const char *name; // as in `register`
    size_t list;      // where struct afloat_plugin has its list
    size_t size;      // of the plugin's structure
    size_t run;       // where that has its function; 0: it has none
    /// Write what the hub has to know of a structure; NULL: nothing.
    int (*write)(struct jw *w, const void *entry, struct err *e);
    bool unique; // it is called by name
};

/// One registration. It lives as long as the process.
struct c_entry {
    const struct c_kind *kind;
    int64_t ref;  // its number, from 1
    char *name;   // of a tool, event, ...; "GET /path" of a route
    void *data;   // a copy of the plugin's structure; its texts are the plugin's
    bool off;     // taken back
    uint64_t due; // of a timer, monotonic ms; 0: it does not run yet
};

/// An answer that a thread waits for.
struct ask {
    int64_t id;
    bool done;
    char *value; // JSON; NULL: it failed
    struct ask *next;
};

struct c_far {
    const struct afloat_plugin *plugin;
    void *library;
    vec(struct c_entry *) entries; // in the order of their numbers, but for those of other threads
    int64_t last_ref;
    bool loaded, validating;
    bool leaving; // a newer version serves: nothing is registered any more
    struct buf in;
    vec(char *) backlog; // lines that came while an answer was waited for
    pthread_t main;
    pthread_mutex_t lock; // of the socket, `held`, `entries`, `asks`, `running` and `state`
    struct buf held;      // lines that go out with the next one
    int wake;             // an eventfd that ends the main thread's wait; 0: no thread needs it
    pthread_cond_t answered;
    struct ask *asks;
    int64_t last_ask;
    struct arena arena; // of `state` alone
    struct json *state;
    vec(int64_t) running; // ids of calls that run apart
    bool serving;         // timers run
};
extern struct c_far far;

// ---- c_wire.c -------------------------------------------------------------------------------

/// Begin a message; members follow, then c_send(), which frees it.
void c_begin(struct jw *w, struct buf *line, const char *type, int64_t id);
void c_send(struct jw *w, struct buf *line);
/// Send it with the next message, or when the main thread waits: what a function registers reaches the hub in one piece.
void c_send_later(struct jw *w, struct buf *line);
void c_send_error(int64_t id, const char *message);
/// Give the message to the thread that waits for it. False: it is no answer.
bool c_take_answer(const struct json *m);
/// The next line of the hub, waiting for it; the caller frees it. Ends the process when there will be none.
char *c_read_line(void);
/// Wait until a line is there, c_wake() is called, or for `ms` (negative: without end). False: there is no line yet.
bool c_wait_line(int ms);
/// Send what is held back, and end the wait of the main thread.
void c_wake(void);
/// Functions of struct afloat_host.
void c_log(const char *level, const char *format, ...) PRINTF_LIKE(2, 3);
void c_progress(struct afloat_call *c, const char *text);
const char *c_ask(struct afloat_call *c, const char *op, const char *params);
bool c_emit(struct afloat_call *c, const char *json);
bool c_emit_text(struct afloat_call *c, const char *text);
/// Note that a call runs apart, and that it does not any more: it has ended, or was cancelled.
void c_running(int64_t id);
void c_over(int64_t id);

// ---- c_register.c ---------------------------------------------------------------------------

/// A function that the plugin exports by name; NULL: it has none.
afloat_fn *c_exported(const char *name);
/// Tell the hub what the plugin offers.
int c_register_all(struct err *e) MUST_CHECK;
/// The function of a registration; not for kinds that have none.
afloat_fn *c_entry_run(const struct c_entry *n);
/// The next of a kind that is on, from place `*at`, which moves after it; NULL: there is none.
struct c_entry *c_entry_next(const char *kind, size_t *at);
/// The one of that name that is on, else one that was taken back: a turn may still have it. NULL: there is none.
struct c_entry *c_entry_find(const char *kind, struct str name);
struct c_entry *c_entry_at(int64_t ref); // NULL: there is none
/// Functions of struct afloat_host.
long long c_add(const char *kind, const void *entry, size_t size);
long long c_find(const char *kind, const char *name);
bool c_off(long long id);

// ---- c_plugin.c -----------------------------------------------------------------------------

/// A timer was added, by any thread.
void c_timers_changed(void);

struct c_fault;
/// Compile, open, register. False, and `fault`.
bool c_load(const struct json *m, struct c_fault *fault);
void c_write_metadata(struct jw *w, struct str name);

// ---- c_check.c ------------------------------------------------------------------------------

/// Answer the request on stdin with the members of an object.
void c_validate(struct jw *w);
/// A function of struct afloat_host, for tests.
const char *c_try(struct afloat_call *outer, const char *kind, const char *name, const char *json);
