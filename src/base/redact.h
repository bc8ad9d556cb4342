#pragma once

#include "base/buf.h"
#include "base/json.h"

// The secrets that this process knows, and text without them. Each is replaced by "[redacted NAME]".
// Everything that is stored or shown goes through here: journals, events, metadata, requests to models,
// files of tool output, the log. Safe on every thread.

/// Add the secret `value` under `name`; a known value keeps its name. A value of fewer than 8 bytes would
/// hide ordinary words: it is not added, and the answer is false. An empty name gives "[redacted]". Of a
/// value of several lines each long line without blanks is a secret too.
bool redact_add(struct str name, struct str value);
/// Forget all secrets.
void redact_clear(void);

/// Append `text` to `out` without secrets.
void redact_text(struct buf *out, struct str text);

/// Write the member `key` of an object: `text` without secrets, null for STR_NULL.
void redact_member(struct jw *w, const char *key, struct str text);

/// Append a JSON text to `out` without secrets. False when it contains none: nothing is appended then.
bool redact_json_to(struct buf *out, struct str text);
/// Replace secrets in a JSON text, in strings only, as they look there (escaped): JSON stays JSON. `b` is
/// as it was when there are none, which costs a nanosecond a byte, or nothing while no secret is known.
void redact_json(struct buf *b);

/// A text that comes in pieces: a secret may be cut anywhere. The caller's storage.
struct redact_stream {
    struct buf held; // the end of the input, which may be the beginning of a secret
};
/// Start empty; free what is held.
void redact_stream_init(struct redact_stream *s);
void redact_stream_fini(struct redact_stream *s);
/// The text that is known to be free of secrets: borrowed, `piece` itself while no secret is known, else
/// built in `out`, which is cleared first.
struct str redact_feed(struct redact_stream *s, struct buf *out, struct str piece);
/// The text has ended: append the part that was held back.
void redact_flush(struct redact_stream *s, struct buf *out);
