#pragma once

#include "bot/ask.h"
#include "bot/runs.h"
#include "store/store.h"

/// Find the run that the parameter `key` names; then `then` with its record as a->data, which the ask ends.
/// While a hub that has just started looks for the runs of the one before it, asks wait: a run that will live again is not
/// one that has ended.
void runs__find(struct ask *a, const char *key, ask_fn *then);
/// That is known now: continue those that wait.
void runs__find_early(struct bots *b);
/// Let a->data be an empty record, which the ask ends.
struct record *runs__hold(struct ask *a);
enum { RUNS_DEFAULT_LIST = 50 };
/// Read the cursor "<started_at>-<id>" of a list; false when it is none.
bool runs__cursor(struct str cursor, int64_t *started_at, struct str *id);

// runs_shared.c: of hubs that share a store. a->data is a record, and then the one that was found.
void runs__find_shared(struct ask *a, struct str id, ask_fn *then);
void runs__find_any_shared(struct ask *a, struct str id, ask_fn *then);
void runs__find_last_shared(struct ask *a, ask_fn *then);
void runs__list_shared(struct ask *a);
/// Ask the hub that has it to end it, and answer with the record when it has ended; or say something to it.
void runs__stop_shared(struct ask *a);
void runs__say_shared(struct ask *a);
/// Write a record that has ended: the file here and, where hubs share a store, the table.
void runs__keep(struct bots *b, const struct record *rec, store_done *done, void *arg);

/// Answer with a record; with a page of a list, after which there are `more`.
void runs__answer(struct ask *a, const struct record *rec);
void runs__answer_page(struct ask *a, const struct record *page, size_t n, bool more);
