#pragma once

#include <assert.h>

#include "base/base.h"

// A typed growable array: `vec(int) v = {0};`, or as a member, `vec(const char *) names;`.
// Elements move when it grows: keep indexes, not pointers.
#define vec(type)                                                                                  \
    struct {                                                                                       \
        type *p;                                                                                   \
        size_t n, cap;                                                                             \
    }

#define vec_reserve(v, want)                                                                       \
    do {                                                                                           \
        if ((v)->cap < (want)) {                                                                   \
            (v)->cap = MAX((v)->cap * 2, MAX((size_t)(want), 8));                                  \
            (v)->p = xreallocarray((v)->p, (v)->cap, sizeof *(v)->p);                              \
        }                                                                                          \
    } while (0)

#define vec_push(v, x)                                                                             \
    do {                                                                                           \
        vec_reserve(v, (v)->n + 1);                                                                \
        (v)->p[(v)->n] = (x); /* before the count: `x` may ask for it */                           \
        (v)->n++;                                                                                  \
    } while (0)

#define vec_pop(v)  (assert((v)->n != 0), (v)->p[--(v)->n])
#define vec_last(v) (assert((v)->n != 0), &(v)->p[(v)->n - 1])

/// Take element `i` out and close the gap, keeping the order.
#define vec_remove(v, i)                                                                           \
    do {                                                                                           \
        assert((size_t)(i) < (v)->n);                                                              \
        memmove(&(v)->p[i], &(v)->p[(i) + 1], ((v)->n - (size_t)(i)-1) * sizeof *(v)->p);          \
        (v)->n--;                                                                                  \
    } while (0)

/// Take the first element that is equal to `x` out, if there is one.
#define vec_drop(v, x)                                                                             \
    do {                                                                                           \
        for (size_t vec_i = 0; vec_i < (v)->n; vec_i++) {                                          \
            if ((v)->p[vec_i] == (x)) {                                                            \
                vec_remove(v, vec_i);                                                              \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/// `it` is a pointer to each element in turn; the vector must not grow meanwhile.
#define vec_foreach(it, v)                                                                         \
    for (__typeof__(*(v)->p) *(it) = (v)->p; (it) != NULL && (it) < (v)->p + (v)->n; (it)++)

/// Free each element with `fn`, then the array.
#define vec_fini_each(v, fn)                                                                       \
    do {                                                                                           \
        for (size_t vec_i = 0; vec_i < (v)->n; vec_i++) {                                          \
            fn((v)->p[vec_i]);                                                                     \
        }                                                                                          \
        vec_fini(v);                                                                               \
    } while (0)

#define vec_fini(v)                                                                                \
    do {                                                                                           \
        free((v)->p);                                                                              \
        (v)->p = NULL;                                                                             \
        (v)->n = (v)->cap = 0;                                                                     \
    } while (0)
