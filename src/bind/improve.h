#pragma once

#include "base/err.h"

// The improvements in their place in the hub: what they may ask of it, and what they hear.

struct bind;
struct hosted_plugins;
struct improve;
struct improvements;
struct plugins;

/// Add the improvements to the engine; before its first request. NULL when their processes cannot be
/// started here: the log and `e` say why, and the hub goes on without them. `past` keeps versions, `hosted` hears the same
/// events (NULL: there is none). All is borrowed until improve_free().
struct improve *improve_open(struct bind *b, struct plugins *past, struct hosted_plugins *hosted,
                             struct err *e);
struct improvements *improve_improvements(struct improve *im); // NULL for NULL
void improve_stop(struct improve *im);                         // before gen_close()
void improve_free(struct improve *im);                         // when it is done
