#pragma once

#include <sys/stat.h>

#include "base/map.h"
#include "env/env.h"
#include "loop/work.h"

// The files that an environment depends on: watched, and each compared with what builds used. See inputs.c.

struct watch;

/// What a file is, as far as we know.
struct env_print {
    bool known;
    bool there;
    uint8_t hash[SHA256_SIZE];
};

struct env_inputs;

/// A file as a worker saw it.
struct env_looked {
    char *path;
    // known from the last look, and found by this one; zeros: never looked
    struct timespec changed; // with the next two: the file was not touched since
    ino_t inode;
    off_t size;
    bool there;                // as a file
    uint8_t hash[SHA256_SIZE]; // zeros when it is not there or cannot be read
};

/// One input; `in` is for everyone, the rest belongs to inputs.c.
struct env_tracked {
    struct env_inputs *set;
    struct env_input in; // its path is that of `seen`
    struct watch *watch; // NULL: not watched
    struct env_print built, start, now;
    uint64_t build;   // the last that named it
    bool fresh;       // reported without a hash in a build that the first batch is compared with
    int64_t since_ns; // wall time at which that build began
    unsigned dirt;    // of a directory: counts changes in it
    struct env_looked seen; // by the last look; its path is ours
    struct env_print asked; // `now` when that began
};

/// In the caller's storage; the caller fills in the first part.
struct env_inputs {
    struct watcher *watcher; // NULL: nothing is watched
    struct lane *lane;       // for looking
    const char *root;        // of the project
    /// The watcher has looked at an input, which may be unchanged. `at_ns`: when it last changed; 0: unknown.
    void (*on_seen)(struct env_tracked *in, int64_t at_ns, void *arg);
    void (*on_looked)(void *arg); // env_inputs_look() is done
    void (*on_log)(struct str line, void *arg);
    void *arg;

    vec(struct env_tracked *) all;
    struct map by_path;    // the same
    struct env_look *look; // under way
};

enum { ENV_CLOCK_SLACK_NS = 10000000 }; // the kernel stamps files with a clock that ticks

/// Stop watching and looking; no callback follows.
void env_inputs_fini(struct env_inputs *s);

/// Is it other than the last build found it?
bool env_tracked_is_changed(const struct env_tracked *in);
/// Is it what the build that runs began with, or read?
bool env_tracked_is_known(const struct env_tracked *in);
/// Its path, relative to the project root if it is inside the project; borrowed.
const char *env_tracked_shown(const struct env_tracked *in);
/// Has any of them changed?
bool env_inputs_changed(const struct env_inputs *s);

/// A build begins: it starts from what is there now.
void env_inputs_begin(struct env_inputs *s);
/// It has read, or missed, one. `build` is its number, `since_ns` the wall time at which it began.
void env_inputs_add(struct env_inputs *s, const struct env_input *found, uint64_t build,
                    int64_t since_ns);
/// It is over: what it used is what was there when it began, or what it read itself. After a good one
/// (`ok`) those that it did not name are forgotten.
void env_inputs_settle(struct env_inputs *s, uint64_t build, bool ok);

/// Look at all files on a worker, whether or not the watcher has seen the last save; `on_looked` follows.
/// While a look is under way nothing new begins; its `on_looked` follows.
void env_inputs_look(struct env_inputs *s);
