#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

/// A copy of `dir` with `/name` appended, or of `name` alone if that is absolute. Caller frees.
char *path_join(const char *dir, const char *name);

/// Borrowed last part of `path`, without slashes at its end; "/" for the root.
struct str path_base(struct str path);
/// Is a part of `path` `name`? That of "a/.." is "..".
bool path_has_part(const char *path, const char *name);
/// The part of `path` below `dir`: "" for `dir` itself, NULL when it is not inside. Compares text only;
/// both are clean. Borrowed from `path`.
const char *path_below(const char *dir, const char *path);
/// Borrowed part before the last slash; "." when there is none, "/" for the root.
struct str path_dir(struct str path);
/// Is `path` a directory, or a link to one? Does `path` exist? A dangling link does.
bool path_is_dir(const char *path);
bool path_exists(const char *path);
/// `~` and `~/...` replaced by $HOME (or the password database); anything else, and an unknown home, stays
/// as it is. The caller frees it.
char *path_expand_home(const char *path);
/// `path` with `~` in place of the directory `home` (NULL or "/": none) that it begins with; the caller frees it.
char *path_fold_home(const char *path, const char *home);

/// `path` (absolute) without links as far as it exists; the part that does not is cleaned up as text. Blocks.
/// Caller frees.
char *path_real(const char *path);

/// Lexical clean-up: `.`, empty parts and `x/..` go. Never touches the disk. Caller frees.
char *path_clean(const char *path);

/// The first executable file `name` in the absolute ones of `dirs`, a list as in $PATH. Caller frees;
/// NULL when there is none.
char *path_find_program(struct str dirs, const char *name);

/// The file of this program, also after a newer one has replaced it on the disk. Caller frees; NULL on an error.
char *path_own_program(struct err *e);

/// Open `rel` under `dirfd` so that no `..`, absolute path or symlink can lead outside; O_CLOEXEC
/// is always added. Uses openat2(RESOLVE_BENEATH), or a walk part by part where the kernel has
/// none. Returns a descriptor or a negative code: -EXDEV for an attempt to leave.
int path_open_beneath(int dirfd, const char *rel, int flags, mode_t mode, struct err *e) MUST_CHECK;

/// The fallback alone: tests prove it on kernels that have openat2.
int path_open_walk(int dirfd, const char *rel, int flags, mode_t mode, struct err *e) MUST_CHECK;

/// Create `path` and its missing parents with `mode`, whatever the umask. An existing directory
/// is left as it is.
int path_mkdirs(const char *path, mode_t mode, struct err *e) MUST_CHECK;

/// Delete a file, or a directory with all that is in it, whatever its permissions; links are deleted, never followed,
/// and other file systems are left. Nothing there is fine; the first thing that cannot be deleted ends it. Blocks.
int path_remove_tree(const char *path, struct err *e) MUST_CHECK;

/// Append a whole regular file to `out`, whose maximum is the limit: ERR_TOO_LARGE beyond it. On
/// failure `out` is as it was.
int path_read(const char *path, struct buf *out, struct err *e) MUST_CHECK;

/// The same for an open file, whose state goes to `st`. Returns 0 or a negative code.
int path_read_fd(int fd, struct buf *out, struct stat *st) MUST_CHECK;
/// Write all of it, also to a terminal or pipe that takes nothing for a while. Returns 0 or a negative code. Blocks.
int path_write_fd(int fd, struct str bytes) MUST_CHECK;

/// Lock the file `path`.lock, which stays, so that only this process changes `path`; waits for another that has
/// the lock. Returns a descriptor; closing it unlocks. Blocks.
int path_lock(const char *path, struct err *e) MUST_CHECK;

/// Replace `path` in one step: temporary file beside it with `mode`, written, synced, renamed,
/// directory synced. A symlink is replaced, not followed. On failure the old file is untouched and
/// the temporary one is gone, with one exception: when only the last sync, that of the directory,
/// fails, the new bytes are in place but may not survive a power cut.
int path_write_atomic(const char *path, struct str bytes, mode_t mode, struct err *e) MUST_CHECK;

/// The same with the temporary file in the directory `through`, on the same file system: for a directory
/// that other users may write to, who must not reach the file before it has its name.
int path_write_through(const char *through, const char *path, struct str bytes, mode_t mode,
                       struct err *e) MUST_CHECK;

/// The same for a new file: ERR_CONFLICT when that name exists, and the old file stays. Of several writers
/// at once exactly one wins.
int path_write_new(const char *path, struct str bytes, mode_t mode, struct err *e) MUST_CHECK;
