#pragma once

#include "base/buf.h"
#include "fleet/plugin_set.h"

// The files of plugins on this machine, as sets put them there. Everything blocks: for workers.

/// What this hub has of the channel: `state/channel.json`. Zeroed memory is a hub that has taken nothing.
struct channel_state {
    char channel[33];       // which numbers these are; "": none yet
    int64_t number;         // of the set that was taken; 0: none
    int64_t generation;     // that served it
    struct plugin_set base; // what the set put at each place, or found there
    bool doing;             // its files may be written in part
    bool may_revert;        // what follows is how to get back
    int64_t before_number, before_generation;
    struct plugin_set before_base;
    struct plugin_set before_files; // what was overwritten; their contents are in state/channel/
};

/// Read it; no file is an empty state.
int channel_state_load(struct channel_state *s, const char *home, struct err *e) MUST_CHECK;
int channel_state_save(const struct channel_state *s, const char *home, struct err *e) MUST_CHECK;
void channel_state_fini(struct channel_state *s);

/// The contents of one plugin, as tree_to_text() writes them.
struct channel_blob {
    char hash[SHA256_HEX];
    char *text;
    size_t n;
};
typedef vec(struct channel_blob) channel_blobs;
/// Free the texts and the list.
void channel_blobs_fini(channel_blobs *b);

/// Absolute paths of plugins, with the root of their project; NULL: the user's.
struct channel_path {
    char *path, *project;
};
typedef vec(struct channel_path) channel_paths;
/// Free the paths and the list.
void channel_paths_fini(channel_paths *p);

/// Read the plugins at `paths` into a set and its contents. Plugins outside of the directories that are searched
/// for them, and those of a project that are not trusted, stay here. ERR_DENIED for symbolic links, ERR_TOO_LARGE.
int channel_collect(const char *home, const channel_paths *paths, struct plugin_set *set,
                    channel_blobs *blobs, struct err *e) MUST_CHECK;

enum channel_what { CHANNEL_KEEP, CHANNEL_WRITE, CHANNEL_REMOVE, CHANNEL_CONFLICT, CHANNEL_SKIP };
/// What a set means for one place here.
struct channel_step {
    const struct set_item *item;
    enum channel_what what;
    char local[SHA256_HEX]; // what is there
    const char *why;        // of a conflict, or of what is passed over
};
typedef vec(struct channel_step) channel_plan;

/// Compare `set` with the files here, and with what the channel put here last. Borrows both.
void channel_make_plan(channel_plan *plan, const char *home, const struct channel_state *s,
                       const struct plugin_set *set);
/// Do it, with the contents of all that is written; `s` becomes the new state, which says how to get back. What
/// failed half way is reverted.
int channel_take(const channel_plan *plan, const char *home, struct channel_state *s,
                 const struct plugin_set *set, int64_t number, const channel_blobs *blobs,
                 struct err *e) MUST_CHECK;
/// Put back what was there before the last set, except where the user has changed files since: these are added to
/// `kept` as a list.
int channel_revert(const char *home, struct channel_state *s, struct buf *kept,
                   struct err *e) MUST_CHECK;
/// The set stays: forget how to get back.
int channel_confirm(const char *home, struct channel_state *s, struct err *e) MUST_CHECK;

/// The absolute path of an item. Caller frees.
char *channel_path_of(const char *home, const struct set_item *it);
