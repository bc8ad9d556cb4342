#pragma once

#include "base/str.h"

/// How the answers of a point's handlers are put together.
enum hook_kind {
    HOOK_OBSERVE, // all run, answers are ignored
    HOOK_CHAIN,   // each may change the value for the next
    HOOK_FIRST,   // the first answer wins, later ones do not run
    HOOK_VETO,    // any may refuse; a fault or a time-out refuses too
    HOOK__KINDS
};

enum hook_point_id {
#define POINT(id, ...) POINT_##id,
#include "hook/points.def"
#undef POINT
    POINT__COUNT
};

/// What a handler gets after ctx, and what it may answer.
enum hook_shape {
    HOOK_SHAPE_NONE,
    HOOK_SHAPE_TEXT,
    HOOK_SHAPE_SUMMARY, // a text
    HOOK_SHAPE_REQUEST,
    HOOK_SHAPE_RESPONSE,
    HOOK_SHAPE_DELTA,
    HOOK_SHAPE_CALL,
    HOOK_SHAPE_RESULT,
    HOOK_SHAPE_ERROR,
    HOOK_SHAPE__COUNT
};
/// What each is called: "call", ...; "" of HOOK_SHAPE_NONE.
extern const char *const hook_shape_names[HOOK_SHAPE__COUNT];

enum { HOOK_ARGS = 2 }; // after ctx, at most

/// One of the agent's points. Every other name is a free event of the hub's modules: observers
/// (HOOK_OBSERVE) and interceptors (HOOK_CHAIN) may be set on any.
struct hook_point {
    const char *name;
    enum hook_kind kind;
    bool may_wait;                   // handlers may answer later
    bool open;                       // improvements may use it
    enum hook_shape args[HOOK_ARGS]; // HOOK_SHAPE_NONE after the last
    enum hook_shape answer;          // of a chain and of FIRST; else HOOK_SHAPE_NONE
};
extern const struct hook_point hook_points[POINT__COUNT];

/// The agent's point of that name, with or without its "on_"; NULL for any other name.
const struct hook_point *hook_point_find(struct str name);
/// The agent's point whose name is nearest to a misspelt one, or NULL.
const char *hook_point_nearest(struct str name);
const char *hook_kind_name(enum hook_kind kind); // "observe", "chain", "first", "veto"
