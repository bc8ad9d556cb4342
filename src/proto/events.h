#pragma once

#include "base/str.h"

enum event_id {
#define EVENT(id, ...) EVENT_##id,
#include "proto/events.def"
#undef EVENT
    EVENT__COUNT
};

struct event_info {
    const char *type;
    const char *help;
};
extern const struct event_info event_infos[EVENT__COUNT];

/// True when `type` fits one of the comma-separated patterns (`plugin.*,turn.completed`); an empty
/// list fits everything.
bool event_type_matches(struct str patterns, struct str type);

/// True for an event that an improvement may listen to: its own kind (`improvement.*`), and those that say
/// nothing about a session.
bool event_type_is_open(struct str type);

/// True for a name that users may emit: `user.` and then a-z, 0-9, `.`, `_`, `-`; 64 bytes at most.
bool event_type_is_user(struct str type);
