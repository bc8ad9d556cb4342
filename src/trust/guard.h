#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "sandbox/box.h"

// The files that the hub and the user's shells run as they are, whatever they will hold: those of followed
// places, and the targets of links in the home of Afloat. No command in a sandbox may write them.

struct trust_guards {
    struct arena arena;
    vec(const char *) paths; // absolute; what is missing is named too; NULL at the end
};

/// Find them. `places` are the followed ones (trust_followed()), NULL at the end; `home` is AFLOAT_HOME.
/// Blocks. The caller ends it with trust_guards_fini().
void trust_guards_read(struct trust_guards *g, const char *home, const char *const *places);
void trust_guards_fini(struct trust_guards *g);

/// What the hub runs without looking at its content, as lists that end with NULL.
struct trust_outside {
    const char *const *plugins;  // files
    const char *const *followed; // places, as `places` above
};

struct trust;
/// Call `each` with every path from which the hub loads a plugin of the user's.
typedef void trust_plugins(void *plugins, void (*each)(void *arg, const char *path), void *arg);

/// List it for a lane, on the loop: everything is copied into `a`. `home` is AFLOAT_HOME.
struct trust_outside trust_list_outside(const struct trust *t, const char *home,
                                        trust_plugins *loaded, void *plugins, struct arena *a);

/// A copy of all of it, in `a`.
struct trust_outside trust_copy_outside(struct arena *a, const struct trust_outside *from);

/// The box of a command: `policy` with all that runs outside of the box as its guard, found anew each time, since a file
/// may have been named since the last. Blocks: for a lane.
int trust_make_box(struct box **out, struct box_policy *policy, const struct trust_outside *outside,
                   struct err *e) MUST_CHECK;
