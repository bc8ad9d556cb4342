#pragma once

#include "base/json.h"

// keys.def as data: which settings there are and which values each takes. Private to config/.

enum schema_type {
    SCHEMA_STR,
    SCHEMA_NAME,   // may be used as the name of a directory
    SCHEMA_LISTEN, // see config_listen_valid()
    SCHEMA_URL,    // http:// or https://, no user name
    SCHEMA_HTTPS,  // https:// or ""
    SCHEMA_ENUM,   // one of `range`
    SCHEMA_BOOL,
    SCHEMA_INT,     // within `range`
    SCHEMA_NUMBER,  // within `range`
    SCHEMA_STRINGS, // a list
    SCHEMA_CHOICE,  // "*" or a list
    SCHEMA_HOT,     // true, false or "manual"
    SCHEMA_TABLE,   // anything, kept as it is
};

enum schema_project { SCHEMA_NEVER, SCHEMA_ALWAYS, SCHEMA_NARROW, SCHEMA_ADD };

struct schema__key {
    const char *pattern;
    enum schema_type type;
    const char *fallback; // as text, NULL: absent unless given
    const char *range;
    enum schema_project project;
};

struct schema__preset {
    const char *key, *value;
};

struct schema__variable {
    const char *name, *key;
    bool client_only;
};

extern const struct schema__key schema__keys[];           // ends with pattern NULL
extern const struct schema__preset schema__presets[];     // ends with key NULL
extern const struct schema__variable schema__variables[]; // ends with name NULL

/// An array of tables: [[plugins]], [[permission]].
struct schema__array {
    const char *name;   // "plugins"
    const char *prefix; // "plugins[].": of the keys that an element may have
    enum schema_project project;
};
enum { SCHEMA_ARRAYS = 3 };
extern const struct schema__array schema__arrays[SCHEMA_ARRAYS];

/// Look `name` up in the table of `prefix` ("" for the top, "providers.*.").
/// `key` is set for a setting, else `prefix` for a table; neither when the name is unknown.
struct schema__step {
    const struct schema__key *key;
    struct str prefix;
    bool any; // the user chose the name: it matches a `*`
};
struct schema__step schema__step(struct str prefix, struct str name);

/// The known name that `name` was meant to be there, from `a`, or NULL.
const char *schema__nearest(struct arena *a, struct str prefix, struct str name);

/// The setting of exactly that name, none with `*` or `[]`; NULL when there is none.
const struct schema__key *schema__find(struct str key);

/// Whether a user may choose `name` for a `*`, and `name` added to a key: quoted where TOML needs it.
bool schema__name_ok(struct str name);
void schema__add_name(struct buf *key, struct str name);

/// Whether `v` is a value of `k`.
bool schema__check(const struct schema__key *k, const struct json *v);
/// What `k` takes, for "expected ...".
void schema__expected(const struct schema__key *k, struct buf *out);
/// Whether a wrong string may be shown in a message.
bool schema__may_show(const struct schema__key *k);

/// `text` (a default, a variable, a flag) as a value of `k`, copied into `a`. False when it is none.
bool schema__parse(const struct schema__key *k, struct str text, struct arena *a, struct json *out);

/// Whether `v` allows no more than `than` (NULL: unset, the narrowest) under SCHEMA_NARROW.
bool schema__not_wider(const struct schema__key *k, const struct json *v, const struct json *than);
