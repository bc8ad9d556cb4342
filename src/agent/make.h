#pragma once

#include "base/json.h"

// JSON values made by hand, in an arena. The caller says at the start how many members or elements there will be.

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

static inline struct json make_null(void)
{
    return (struct json){.type = JSON_NULL};
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

/// The item {type: "text", text} of a message.
static inline struct json make_text(struct arena *a, struct str text)
{
    struct json *item = make_obj(a, 2);
    make_put(item, "type", make_strz("text"));
    make_put(item, "text", make_str(text));
    return *item;
}

/// The message {role, content}; talk.c relies on the order.
static inline struct json make_message(struct arena *a, const char *role, struct json content)
{
    struct json *m = make_obj(a, 2);
    make_put(m, "role", make_strz(role));
    make_put(m, "content", content);
    return *m;
}
