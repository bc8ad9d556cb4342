#pragma once

#include "vt/vt.h"

/// The text of a row without blanks at its end; static storage, overwritten by the next call.
const char *screen_row(struct vt *v, int row);

/// Fail the test unless both show the same cells and stand in the same place.
void screen_check_same(struct vt *a, struct vt *b);

/// The next of a fixed sequence of random numbers.
unsigned screen_random(unsigned *seed);
/// Append a piece of program output: text, sequences, garbage.
void screen_add_noise(struct buf *out, unsigned *seed);
