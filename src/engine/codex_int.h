#pragma once

#include "engine/base.h"

// What the files of engine codex share.
//
//     codex.c        the thread: handshake, turns, answers        codex_items.c  what happens in a turn
//     codex_check.c  does the installed version have what we need?

/// A call that Codex asked about, until its item is over.
struct codex_call {
    char *item;           // Codex's id
    int64_t request;      // of its question; -1: answered, or it did not ask
    bool told;            // on_call was called
    unsigned waiting;     // decisions that are still to come
    bool refused;         // one of them was a refusal
    struct json *changes; // of files, in its arena; NULL: a command
    struct arena arena;
};

/// Something that we asked Codex for.
enum codex_ask { ASK_INIT, ASK_THREAD, ASK_RESUME, ASK_TURN, ASK_STEER, ASK_INTERRUPT };
struct codex_asked {
    int64_t id;
    enum codex_ask what;
    char *refuses; // of steering: the call to refuse when the message has arrived; NULL: none
};

struct codex {
    struct engine_base base; // its task reports `why`, or ends the turn
    struct gateway *gateway; // until the child has it
    struct arena line;       // of the message under way
    const char *program, *dir, *model;
    const char *const *argv;
    char *resume;
    // under way
    int64_t last_id;
    vec(struct codex_asked) asked;
    vec(struct codex_call *) calls;
    char *turn;          // NULL: not known
    bool told_past;      // the thread knows it, or there is none
    bool in_turn;        // turn() was called, on_end was not
    bool begun;          // turn/start was sent
    bool stopping;       // interrupt() came
    struct buf input;    // of the turn, until it begins
    struct buf pictures; // the same, as items of JSON
    struct buf steer;    // said before its id was known
    char *message;       // the item whose pieces come
    bool message_open;   // pieces of it came, and not its end
    int64_t tokens;      // total of the thread, as told last
    char error[400];     // what Codex said last of a failure
    struct codex_check *check;
    enum engine_end end; // how the turn is to end
    struct err why;      // why the thread cannot be used; code 0: it can
};

// codex.c
/// Begin the answer to a question of Codex: members of the result follow, then codex__send().
struct jw *codex__begin_answer(struct engine_line *m, int64_t request);
/// End and send a message whose last object is still open.
void codex__send(struct codex *c, struct engine_line *m);
/// The turn is over.
void codex__end(struct codex *c, enum engine_end end, struct str why);

// codex_items.c
/// A notification.
void codex__notified(struct codex *c, struct str method, const struct json *params);
/// A question; every one is answered.
void codex__questioned(struct codex *c, int64_t id, struct str method, const struct json *params);
/// The decision about a call, by our id for it.
void codex__decide(struct codex *c, struct str id, bool allow);
void codex__forget_calls(struct codex *c); // the turn is over

// codex_check.c
struct codex_check;
/// Check, once for each program, that the program of `c` has all methods that we use. `done` is called later; `why` NULL:
/// it has them.
struct codex_check *codex_check_start(struct codex *c, const struct tool_env *place,
                                      void (*done)(struct codex *c, const struct err *why));
void codex_check_cancel(struct codex_check *k); // `done` does not come any more
