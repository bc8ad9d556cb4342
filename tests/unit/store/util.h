#pragma once

// A store in a directory of the test's own, and calls that wait for their answer.

#include "loop/loop.h"
#include "store/store.h"
#include "unit/test.h"

struct box {
    struct loop loop;
    struct store *store;
    char home[512];
    // of the last answer
    bool answered;
    int status;
    struct err err;
    struct store_appended appended;
    struct buf text;  // of a document, a page or a report
    size_t n;         // rows or lines
    uint64_t next;    // of a page
    char cursor[128]; // of a list
    char damage[256]; // of a row of it that has some
    // notices so far
    unsigned notices[8];
    struct store_notice last_notice; // its strings are gone
};

/// Open a store in `home` (NULL: the test's directory) and wait until it is ready; fails the test
/// when it is not.
void box_open(struct box *b, const char *home);
int box_try_open(struct box *b, const char *home);
/// Close it and the loop; returns the status of closing.
int box_close(struct box *b);

/// Run the loop until the last request was answered; its status.
int box_wait(struct box *b);

int box_begin(struct box *b, const char *id, const char *meta);
int box_meta(struct box *b, const char *id, const char *meta);
int box_remove(struct box *b, const char *id);
int box_append(struct box *b, const char *id, const char *type, const char *fields,
               enum store_durability d);
int box_read(struct box *b, const char *id, uint64_t after, size_t limit);
/// Lists into `text`: one line a row, "id state title last_seq".
int box_list(struct box *b, const struct store_filter *f, const char *cursor, size_t limit);
int box_doc_get(struct box *b, const char *name);
int box_doc_put(struct box *b, const char *name, const char *json);
int box_doc_set(struct box *b, const char *name, const char *key, const char *value);

/// Path of a file below the box's home, in a static buffer.
const char *box_path(const struct box *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// callbacks that note the answer in a box
void box_done(void *arg, int status, const struct err *e);
void box_appended(void *arg, int status, const struct store_appended *a, const struct err *e);
void box_paged(void *arg, int status, const struct store_page *p, const struct err *e);
void box_got(void *arg, int status, struct str json, const struct err *e);

/// Whole files, for looking at what is on disk and for damaging it.
char *file_text(const char *path, size_t *n); // "" when missing; freed by the caller
void file_write(const char *path, const char *bytes, size_t n);
void file_append(const char *path, const char *bytes);
bool file_exists(const char *path);
/// Number of files in the directory of `path` whose name begins with its last part.
size_t file_count(const char *path);

/// Check a journal's text as a reader from outside would: every line JSON, seq from 1 without holes.
/// Returns the last seq; fails the test otherwise.
uint64_t journal_text_check(const char *path);
