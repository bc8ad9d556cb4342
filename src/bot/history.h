#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "store/store.h"

// What the sessions of a bot left: `workspaces/<slug>/history/<id>/{metadata.json, events.jsonl}`, written
// by the agent's sessions through the store and found through its index.

// ---- rows: pure --------------------------------------------------------------------------------------

/// One session as its metadata.json tells it.
struct history_row {
    struct str id, dir; // relative to the home
    struct str meta;    // the text of all that follows
    uint64_t number;    // 0: it says none
    struct str run_id, summary, prompt, action, end_reason, model, branch;
    int64_t started_at; // milliseconds since 1970
    int64_t duration_secs;
    int64_t commands;
    int64_t input_tokens, output_tokens; // -1: not known
};

/// Texts point into `r` and the arena. Metadata that are no JSON object give a row with the id alone.
struct history_row history_row_of(const struct store_row *r, struct arena *a);

/// The table of `session_history` with `list`: Session, Date, Duration, Commands, Summary (80 characters).
void history_write_table(struct buf *out, const struct history_row *rows, size_t n);
/// `text` as one line of at most `max` characters; "..." says that there was more. Characters are never
/// split, bad bytes become U+FFFD.
void history_write_line(struct buf *out, struct str text, size_t max);

// ---- lists: on the loop thread, answered once, never from inside ---------------------------------------

/// Rows are those started last first; all of it is borrowed for the callback. `status` < 0: `e`.
struct history_page {
    const struct history_row *rows;
    size_t n;
    struct str next; // cursor of the next page; empty on the last
};
typedef void history_page_cb(void *arg, int status, const struct history_page *p,
                             const struct err *e);

/// A page of the sessions in `rel` (workspace.rel). `cursor` is empty or the `next` of the page before.
void history_list(struct store *s, struct str rel, struct str cursor, size_t limit,
                  history_page_cb *cb, void *arg);
/// The last `n` (at most 20) sessions that have a summary, the newest first; `except` (may be empty) is a
/// run whose sessions do not count.
void history_recent(struct store *s, struct str rel, size_t n, struct str except,
                    history_page_cb *cb, void *arg);
/// One session, by its number ("12", "#12") or by an id or the beginning of one that no other begins with;
/// `n` is 1. ERR_NOT_FOUND; ERR_CONFLICT when several ids begin so.
void history_find(struct store *s, struct str rel, struct str which, history_page_cb *cb,
                  void *arg);
