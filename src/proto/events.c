// The types of the hub's events.

#include "proto/events.h"

const struct event_info event_infos[EVENT__COUNT] = {
#define EVENT(id, ty, he) [EVENT_##id] = {.type = ty, .help = he},
#include "proto/events.def"
#undef EVENT
};

bool event_type_matches(struct str patterns, struct str type)
{
    if (str_trim(patterns).n == 0) {
        return true;
    }
    while (patterns.n != 0) {
        if (str_glob(str_trim(str_cut(&patterns, ',')), type)) {
            return true;
        }
    }
    return false;
}

bool event_type_is_open(struct str type)
{
    static const enum event_id open[] = {
        EVENT_GENERATION_COMMITTED, EVENT_HUB_STARTED,     EVENT_PLUGIN_CHANGED, EVENT_PLUGIN_ERROR,
        EVENT_PLUGIN_LOADED,        EVENT_PLUGIN_UNLOADED, EVENT_TOOLS_CHANGED,
    };
    for (size_t i = 0; i < ARRAY_LEN(open); i++) {
        if (str_eqz(type, event_infos[open[i]].type)) {
            return true;
        }
    }
    return str_starts(type, "improvement.");
}

bool event_type_is_user(struct str type)
{
    if (!str_starts(type, "user.") || type.n == 5 || type.n > 64) {
        return false;
    }
    for (size_t i = 5; i < type.n; i++) {
        char c = type.p[i];
        bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("._-", c) != NULL;
        if (!fits || c == '\0') {
            return false;
        }
    }
    return true;
}
