// The agent's hook points: points.def as a table, looked up by name.
//
// "tool_call" and "on_tool_call" are the same point, so that on(NAME, fn) and on_NAME(fn) are one
// thing. Names that are not here belong to the hub's modules and mean what they agree on.

#include "hook/points.h"

const struct hook_point hook_points[POINT__COUNT] = {
#define POINT(id, n, k, wait, all, first, second, back, h)                                         \
    [POINT_##id] = {.name = n,                                                                     \
                    .kind = HOOK_##k,                                                              \
                    .may_wait = wait,                                                              \
                    .open = all,                                                                   \
                    .args = {HOOK_SHAPE_##first, HOOK_SHAPE_##second},                             \
                    .answer = HOOK_SHAPE_##back},
#include "hook/points.def"
#undef POINT
};

const char *const hook_shape_names[HOOK_SHAPE__COUNT] = {
    [HOOK_SHAPE_NONE] = "",
    [HOOK_SHAPE_TEXT] = "text",
    [HOOK_SHAPE_SUMMARY] = "summary",
    [HOOK_SHAPE_REQUEST] = "request",
    [HOOK_SHAPE_RESPONSE] = "response",
    [HOOK_SHAPE_DELTA] = "delta",
    [HOOK_SHAPE_CALL] = "call",
    [HOOK_SHAPE_RESULT] = "result",
    [HOOK_SHAPE_ERROR] = "error",
};

static const char prefix[] = "on_";

const struct hook_point *hook_point_find(struct str name)
{
    bool full = str_starts(name, prefix);
    for (size_t i = 0; i < POINT__COUNT; i++) {
        const char *have = hook_points[i].name;
        if (str_eqz(name, full ? have : have + strlen(prefix))) {
            return &hook_points[i];
        }
    }
    return NULL;
}

const char *hook_point_nearest(struct str name)
{
    const char *names[POINT__COUNT];
    for (size_t i = 0; i < POINT__COUNT; i++) {
        names[i] = hook_points[i].name;
    }
    return str_nearest(name, names, POINT__COUNT);
}

const char *hook_kind_name(enum hook_kind kind)
{
    static const char *const names[HOOK__KINDS] = {
        [HOOK_OBSERVE] = "observe",
        [HOOK_CHAIN] = "chain",
        [HOOK_FIRST] = "first",
        [HOOK_VETO] = "veto",
    };
    return names[kind];
}
