#pragma once

#include "base/json.h"
#include "base/sha256.h"
#include "trust/place.h"
#include "trust/scan.h"

// What the user trusts: places, and for each every content hash that was ever trusted there, kept in
// `$AFLOAT_HOME/trust.json`. A `struct trust` is that file in memory: plain memory, without a thread. The
// hub's belongs to the loop thread, which only asks. Trust is changed on a worker or in a command, each with its
// own `struct trust`, and the hub takes over the result:
//
//     command or worker: trust_open ── trust_scan ── trust_add ──> trust.json
//     hub, file changed: trust_open on a worker ── trust_adopt on the loop ──> listeners

struct trust;

enum { TRUST_MAX = 4 << 20 }; // bytes of trust.json

/// Read `$AFLOAT_HOME/trust.json`; blocks. `*out` is never NULL, the caller ends it with
/// trust_close(). No file is an empty book and 0. A damaged one is set aside as
/// `trust.json.damaged-<time>`: ERR_CORRUPT, nothing is trusted, `e` says where it went. A file
/// that others may write (ERR_DENIED), one of a later version (ERR_UNSUPPORTED) and any other failure
/// also mean that nothing is trusted; that file stays, and nothing is written over it.
int trust_open(struct trust **out, const char *home, struct err *e) MUST_CHECK;
void trust_close(struct trust *t); // NULL is allowed

enum trust_answer {
    TRUST_NO,
    TRUST_YES,      // these bytes were trusted here
    TRUST_FOLLOWED, // the place is trusted, whatever its content
};

/// May these bytes be used? `path` is the item's path relative to the root (`.afloat/plugins/x.lua`),
/// `hash` the hash of trust_scan() or of tree_read(). Cheap, touches no file. Bytes that were trusted
/// are TRUST_YES in a followed place too. A worktree under `$AFLOAT_HOME/worktrees` is never followed.
enum trust_answer trust_ask(const struct trust *t, const struct trust_place *p,
                            enum trust_kind kind, const char *path, const char *hash);
/// May this tree be run? Following ends where another user owns or may write a part of it: bytes that were
/// trusted as such run all the same.
bool trust_allows(const struct trust *t, const struct trust_place *p, enum trust_kind kind,
                  const char *path, const struct tree *tree);
/// The same for a tree of which only the hash was kept; `foreign`: another user owns or may write a part of it.
bool trust_allows_hash(const struct trust *t, const struct trust_place *p, enum trust_kind kind,
                       const char *path, const char *hash, bool foreign);
/// True when anything of the place was ever trusted and the user has not taken it back.
bool trust_knows(const struct trust *t, const struct trust_place *p);
/// True when the place is followed, `p` is no worktree of ours, and no other user may write there.
bool trust_follows(const struct trust *t, const struct trust_place *p);
/// The i-th place that is followed; NULL after the last. Borrowed until `t` changes.
const char *trust_followed(const struct trust *t, size_t i);
/// The hash trusted last for an item, borrowed until `t` changes; NULL when there is none.
const char *trust_last(const struct trust *t, const struct trust_place *p, enum trust_kind kind,
                       const char *path);
/// True when some place's item was last trusted with this hash; for versions_prune().
bool trust_keeps(const struct trust *t, const char *hash);

/// Trust the present bytes of `items` (those with an error are passed over) and, with `follow`, the
/// place whatever it will hold; without it a place that is followed stays so. What is in the file by
/// then is kept: other commands may have written. Contents are stored under `state/versions/` first
/// (not the environment's: it may hold secrets), so that what is trusted can be shown and run later.
/// Blocks. On failure the old file is whole and `t` as it was.
int trust_add(struct trust *t, const struct trust_place *p, const struct trust_item *items,
              size_t n, bool follow, struct err *e) MUST_CHECK;
/// Forget the place with all its hashes. ERR_NOT_FOUND when it is not there. Blocks.
int trust_remove(struct trust *t, const struct trust_place *p, struct err *e) MUST_CHECK;

/// Called on the thread that adopts, after the change.
typedef void trust_cb(const struct trust *t, void *arg);
/// Be told when trust_adopt() changed something. A listener may neither add nor remove listeners.
void trust_listen(struct trust *t, trust_cb *cb, void *arg);
void trust_unlisten(struct trust *t, trust_cb *cb, void *arg);
/// Take over what `fresh` holds and close it; tells the listeners when it is other than before.
void trust_adopt(struct trust *t, struct trust *fresh);

// ---- answers of GET /trust, POST /trust and of the commands, the same bytes for both ---------------

/// `{"places": [{path, follow, items: [{kind, path, hash, versions, trusted_at}]}], "next": null}`
void trust_write(const struct trust *t, struct buf *out);
/// `{path, place, follow, dry_run, items: [{kind, name, path, hash, files, state, error?}]}`; `state` as
/// `t` has it: of what was trusted just now, write before trust_add().
void trust_write_scan(const struct trust *t, const struct trust_place *p,
                      const struct trust_scan *s, bool follow, bool dry_run, struct buf *out);
/// `{path, place, removed: true}`, of DELETE /trust.
void trust_write_removed(const struct trust_place *p, struct buf *out);
/// "new", "changed" (another version is trusted), "trusted", "followed" or "unreadable".
const char *trust_state(const struct trust *t, const struct trust_place *p,
                        const struct trust_item *it);
