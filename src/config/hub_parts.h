#pragma once

// What every part of the hub works with. The composition root opens these first and closes them last, so that a part
// takes one pointer to all of them.

struct choices;
struct config_live;
struct event_log;
struct home;
struct loop;
struct store;
struct trust;

/// All borrowed. None is NULL, but where a test has a part that needs less.
struct hub_parts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct store *store;
    struct event_log *events;
    struct choices *choices; // loaded
    struct trust *trust;
};
