#pragma once

#include "loop/loop.h"

// What the files of loop/ know of each other.

/// The alarm's callback and the heap's end (timer.c).
void timer__on_alarm(uv_timer_t *alarm);
void timer__fini(struct loop *l);

/// The name of a lane that is not closed yet, or NULL (work.c).
const char *work__open_lane(const struct loop *l);
/// True for the handle through which results come back.
bool work__owns(const struct loop *l, const uv_handle_t *h);
/// Close that handle; it must be followed by turns of the loop, then by work__fini().
void work__close(struct loop *l);
void work__fini(struct loop *l);
