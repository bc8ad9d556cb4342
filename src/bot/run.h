#pragma once

#include "bot/ask.h"

// A run that lives: made by bots_run() or, for what a killed hub left, by recovery; gone when its record
// says `ended`. Loop thread.

struct record;
struct run;

/// Begin the run that `a` asks for, once it is located; answers `a` when the first session is there.
void run_start(struct ask *a);
/// Where this hub clones the repository at the address `remote` to; caller frees.
char *run__clone_of(const struct bots *b, const char *remote);
/// Bring in what a killed hub left of a run: its work is committed, its directory goes, it ended as
/// `crashed`. `rec` is moved.
void run_recover(struct bots *b, struct record *rec);

/// End it cleanly; a second call, or `force`, waits no longer than it must.
void run_stop(struct run *r, bool force);
/// Answer `a` with the record when the run has ended.
void run_await(struct run *r, struct ask *a);
/// Say something to it: `a` is answered.
void run_say(struct run *r, struct ask *a);
/// Its model says, in `session`, that the work is done; it ends after this turn. False: that is not the
/// session whose turn the run waits for.
bool run_complete(struct run *r, struct str session, struct str summary, struct str action);

/// Its record as it is now; borrowed until the run goes on.
const struct record *run_record(const struct run *r);
/// Another hub has it: it ends here without a trace.
bool run_is_lost(const struct run *r);
/// It has ended; it is here because its record could not be written yet.
bool run_is_unsaved(const struct run *r);
