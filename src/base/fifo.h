#pragma once

#include "base/base.h"

// Queues of structs that have a member `next`, first in, first out: `fifo(struct job) waiting;`. All zeros is an empty
// queue. `head` may be read, and each `next` after it; NULL is the end. Arguments are evaluated several
// times, but for the `x` of fifo_add().

#define fifo(type)                                                                                 \
    struct {                                                                                       \
        type *head, *last; /* `last` means nothing while it is empty */                            \
    }

/// Put `x` at the end.
#define fifo_add(q, x)                                                                             \
    do {                                                                                           \
        __typeof__((q)->head) fifo_added = (x);                                                    \
        fifo_added->next = NULL;                                                                   \
        *((q)->head != NULL ? &(q)->last->next : &(q)->head) = fifo_added;                         \
        (q)->last = fifo_added;                                                                    \
    } while (0)

/// Take the first one out; NULL: it is empty.
#define fifo_take(q)                                                                               \
    __extension__({                                                                                \
        __typeof__((q)->head) fifo_taken = (q)->head;                                              \
        if (fifo_taken != NULL) {                                                                  \
            (q)->head = fifo_taken->next;                                                          \
            fifo_taken->next = NULL;                                                               \
        }                                                                                          \
        fifo_taken;                                                                                \
    })

/// Take everything out: the first one, from which `next` leads to the others; NULL: it is empty.
#define fifo_take_all(q)                                                                           \
    __extension__({                                                                                \
        __typeof__((q)->head) fifo_all = (q)->head;                                                \
        (q)->head = NULL;                                                                          \
        fifo_all;                                                                                  \
    })

/// Take out `x`, which comes after `before`; `before` is NULL when `x` is the first.
#define fifo_remove(q, before, x)                                                                  \
    do {                                                                                           \
        *((before) != NULL ? &(before)->next : &(q)->head) = (x)->next;                            \
        if ((q)->last == (x)) {                                                                    \
            (q)->last = (before);                                                                  \
        }                                                                                          \
        (x)->next = NULL;                                                                          \
    } while (0)

/// Move all of `from` to the end of `q`.
#define fifo_append(q, from)                                                                       \
    do {                                                                                           \
        if ((from)->head != NULL) {                                                                \
            *((q)->head != NULL ? &(q)->last->next : &(q)->head) = (from)->head;                   \
            (q)->last = (from)->last;                                                              \
            (from)->head = NULL;                                                                   \
        }                                                                                          \
    } while (0)
