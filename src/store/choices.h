#pragma once

#include "base/json.h"
#include "store/store.h"

// What was chosen by command: choices.json, held in memory and written through. Keys are dotted names
// ("features.plugins", "plugins.NAME.enabled", "tools.NAME.off", "flags.PLUGIN.NAME"); a choice wins
// over the configuration. Belongs to the loop thread.

struct choices;

typedef void choices_done(void *arg, int status, const struct err *e);

/// Nothing is chosen until `done` of choices_load() came with 0.
struct choices *choices_new(struct store *store);
/// When the store is closed: nothing that was set may still be on its way. NULL is allowed.
void choices_free(struct choices *c);
/// Read what is stored; `done` is called once, later. It may be read again, since other hubs may have chosen; what
/// is set meanwhile stays set. One reading at a time.
void choices_load(struct choices *c, choices_done *done, void *arg);

/// The value of a key, borrowed until the next set or reading, or until one fails; NULL when nothing was chosen.
const struct json *choices_get(const struct choices *c, struct str key);
/// All of them as one object, borrowed like that.
const struct json *choices_all(const struct choices *c);
/// Choose. choices_get() gives the new value at once; `done` (may be NULL) is called when it is on disk. When that
/// fails, the former value is back. `value` is a JSON text; empty: forget the choice.
void choices_set(struct choices *c, struct str key, struct str value, choices_done *done,
                 void *arg);
