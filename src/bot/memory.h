#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "store/shelf.h"

// `memory.json` of a workspace: {"entries": {key: value}}, a file or, with a shared store, a document of it
// (`sh`, shelf.h). A file is changed under the workspace's lock by reading, changing and renaming, a document
// by its revision, so that of two writers neither is lost. Members that we do not know stay, and so do values
// that are not strings.
//
// A text that is not what it should be is set aside as `memory.json.corrupt-<time>`, byte for byte, and
// the call continues with an empty memory; `note` says where it went. Everything here blocks; on any thread but
// the loop's. `dir` is workspace.dir, which need not exist for reading.

enum {
    MEMORY_KEY = 200,         // bytes of a key
    MEMORY_VALUE = 64 * 1024, // of a value
    MEMORY_ENTRIES = 1000,
    MEMORY_BYTES = 16 << 20, // of the file
    MEMORY_NOTE = 300,       // of what a person is told
};

struct memory_entry {
    struct str key;
    struct str text;          // a string as it is, anything else as JSON
    const struct json *value; // never NULL
};

/// The caller's storage, ended with memory_fini(), on failure too.
struct memory {
    struct arena arena;
    vec(struct memory_entry) list; // by key
    char note[MEMORY_NOTE];        // what was set aside, for a person; else empty
};

/// No file is an empty memory. ERR_TOO_LARGE and failed reads leave the file alone.
int memory_load(struct memory *m, struct shelf *sh, const char *dir, struct err *e) MUST_CHECK;
void memory_fini(struct memory *m);
const struct memory_entry *memory_find(const struct memory *m, struct str key); // NULL: none

/// Set a key to a string. ERR_INVALID for an empty key, control characters in it, or bytes that are not
/// UTF-8; ERR_TOO_LARGE beyond the limits. On failure the old file is whole. `note` (may be NULL) is as in
/// struct memory.
int memory_set(struct shelf *sh, const char *dir, struct str key, struct str value,
               char note[MEMORY_NOTE], struct err *e) MUST_CHECK;
/// ERR_NOT_FOUND when there is no such key.
int memory_remove(struct shelf *sh, const char *dir, struct str key, char note[MEMORY_NOTE],
                  struct err *e) MUST_CHECK;
/// Take all keys out; `*n` is how many there were.
int memory_clear(struct shelf *sh, const char *dir, size_t *n, char note[MEMORY_NOTE],
                 struct err *e) MUST_CHECK;

/// Add what is not there of `entries`, an object: for memory that comes from elsewhere. Nothing that is
/// there changes; what is too large or one too many is counted and left out.
struct memory_merge {
    size_t added, kept, refused;
};
/// Merge `entries` into the memory at `dir`; `m` counts. Nothing is written when that fails. Blocks.
int memory_merge(struct shelf *sh, const char *dir, const struct json *entries,
                 struct memory_merge *m, struct err *e) MUST_CHECK;
