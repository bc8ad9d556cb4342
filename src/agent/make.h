#pragma once

#include "base/json.h"

// JSON values made by hand, in an arena. Room for members and elements is asked for at the start.

static inline struct json make_str(struct str s)
{
    return (struct json){.type = JSON_STR, .s = s};
}

static inline struct json make_strz(const char *z)
{
    return make_str(str_of(z));
}

static inline struct json make_bool(bool b)
{
    return (struct json){.type = JSON_BOOL, .b = b};
}

static inline struct json make_int(int64_t i)
{
    return (struct json){.type = JSON_INT, .i = i};
}

/// An object with room for `room` members.
static inline struct json *make_obj(struct arena *a, size_t room)
{
    struct json *v = arena_calloc(a, 1, sizeof *v);
    v->type = JSON_OBJ;
    v->members = arena_calloc(a, MAX(room, (size_t)1), sizeof *v->members);
    return v;
}

static inline void make_put(struct json *obj, const char *key, struct json v)
{
    obj->members[obj->n++] = (struct json_member){.key = str_of(key), .value = v};
}

/// An array with room for `room` elements.
static inline struct json *make_arr(struct arena *a, size_t room)
{
    struct json *v = arena_calloc(a, 1, sizeof *v);
    v->type = JSON_ARR;
    v->items = arena_calloc(a, MAX(room, (size_t)1), sizeof *v->items);
    return v;
}

static inline void make_push(struct json *arr, struct json v)
{
    arr->items[arr->n++] = v;
}
