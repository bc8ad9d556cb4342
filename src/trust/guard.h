#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "sandbox/box.h"

// The files that the hub and the user's shells run as they are, whatever they will hold: those of followed
// places, and what links in the home of Afloat lead to. A sandbox must not let anybody write them.

struct trust_guards {
    struct arena arena;
    vec(const char *) paths; // absolute; what is missing is named too; NULL at the end
};

/// Find them. `places` are the followed ones (trust_followed()), NULL at the end; `home` is AFLOAT_HOME.
/// Blocks. The caller ends it with trust_guards_fini().
void trust_guards_read(struct trust_guards *g, const char *home, const char *const *places);
void trust_guards_fini(struct trust_guards *g);

/// The box of a command: `policy` with all that runs outside of the box as its guard, found anew each time, since a file
/// may have been named since the last. `plugins` are files that the hub runs as they are, `followed` as `places` above;
/// both end with NULL. Blocks: for a lane.
int trust_make_box(struct box **out, struct box_policy *policy, const char *const *plugins,
                   const char *const *followed, struct err *e) MUST_CHECK;
