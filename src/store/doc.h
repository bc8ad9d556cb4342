#pragma once

#include "base/map.h"
#include "loop/work.h"
#include "store/store.h"

// JSON documents, replaced by rename. Everything here runs on the loop thread except reading and writing.

enum { DOC_MAX = 16 << 20 }; // bytes of one document

struct docs {
    struct lane *lane; // borrowed
    const char *home;  // borrowed
    struct map busy;   // struct doc by name, only those with something to do
    void (*idle)(void *arg);
    void *arg;
};

/// `idle(arg)` is called each time the last outstanding request has been answered.
void docs_init(struct docs *d, struct lane *lane, const char *home, void (*idle)(void *arg),
               void *arg);
/// Free it. Nothing may be outstanding.
void docs_fini(struct docs *d);
/// Is anything outstanding?
bool docs_busy(const struct docs *d);

/// As store_doc_get(), store_doc_put() and store_doc_set().
void docs_get(struct docs *d, struct str name, store_text_cb *cb, void *arg);
void docs_put(struct docs *d, struct str name, struct str json, store_done *cb, void *arg);
void docs_set(struct docs *d, struct str name, struct str key, struct str value, store_done *cb,
              void *arg);

/// True for a path below the home that may hold a document: relative, clean, ends in ".json", no
/// part begins with a dot.
bool doc_name_valid(struct str name);

/// Read the document at `path` into `out` and check that it is JSON. A missing file leaves `out`
/// empty and is no error. Blocks.
int doc_load(const char *path, struct buf *out, struct err *e) MUST_CHECK;

/// Replace the file at `path` with `json` plus a newline, in one step, creating its directory when
/// missing. Blocks.
int doc_save(const char *path, struct str json, struct err *e) MUST_CHECK;
