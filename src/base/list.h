#pragma once

// Lists of structs that have members `prev` and `next`, NULL at both ends. `head` is the address of the pointer to the
// first; `x` is evaluated several times.

/// Put `x` in front.
#define list_add(head, x)                                                                          \
    do {                                                                                           \
        (x)->prev = NULL;                                                                          \
        (x)->next = *(head);                                                                       \
        if ((x)->next != NULL) {                                                                   \
            (x)->next->prev = (x);                                                                 \
        }                                                                                          \
        *(head) = (x);                                                                             \
    } while (0)

/// Take `x` out; its own pointers stay as they are, so that a loop can continue.
#define list_remove(head, x)                                                                       \
    do {                                                                                           \
        *((x)->prev != NULL ? &(x)->prev->next : (head)) = (x)->next;                              \
        if ((x)->next != NULL) {                                                                   \
            (x)->next->prev = (x)->prev;                                                           \
        }                                                                                          \
    } while (0)
