#pragma once

#include "base/json.h"

// Values checked against a JSON Schema: the subset that tools and options use. `type` (one or a list),
// `properties`, `required`, `additionalProperties` (a boolean or a schema), `items`, `enum`, `const`,
// `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `minLength`, `maxLength` (characters),
// `minItems`, `maxItems`, `anyOf`, `oneOf`, `allOf`, `default`; `description`, `title`, `format`,
// `examples`, `$schema` and their like, and names beginning with `x-`, say nothing about validity.

enum { SCHEMA_STEPS = 200 * 1000 }; // that one check takes at most: some ten milliseconds

/// Is `schema` one of ours? ERR_INVALID with the place inside it ("properties.n: unknown type 'int'
/// (did you mean 'integer'?)"; callers put their own name in front) when it is malformed, uses an unknown keyword
/// or type, or has a default that does not fit; ERR_UNSUPPORTED when it uses a keyword of the standard that we do not
/// check, or a boolean as a schema. NULL is fine.
int schema_check(const struct json *schema, struct err *e) MUST_CHECK;

/// Does `value` (NULL: null) fit? ERR_INVALID with the path of the first part that does not and what the schema
/// wants there ("input.sides: must be an integer, is a string"). `root` is how messages call the value
/// itself. A schema that schema_check() refused is the caller's bug; NULL fits everything. A value that takes more than
/// SCHEMA_STEPS does not fit.
int schema_fit(const struct json *schema, const struct json *value, const char *root,
               struct err *e) MUST_CHECK;

/// `value` with the schema's defaults put where object members are absent; shares what did not change. Goes
/// into `properties` and `items`, not into `anyOf` and its like. Stops where schema_fit() would refuse `value` as too large.
const struct json *schema_defaults(const struct json *schema, const struct json *value,
                                   struct arena *a);

/// `value` with empty objects turned into empty arrays where the schema wants an array, for values from a
/// language that has one kind of empty table; shares and goes as schema_defaults() does.
const struct json *schema_arrays(const struct json *schema, const struct json *value,
                                 struct arena *a);

/// The schema of an object whose members are given in short: `input` is {name: "integer"} or {name: {type, description, enum,
/// default}}; `?` after a type, or a default, makes a member optional. schema_check() says what is wrong with the types.
struct json *schema_from_short(struct arena *a, const struct json *input);
