#pragma once

#include "base/buf.h"

// The secrets that this process knows, and text without them. Each is replaced by "[redacted NAME]".
// Everything that is kept or shown goes through here: journals, events, metadata, requests to models, files
// of tools' output, the log. Safe on every thread.

/// Know `value`, from now on, by `name`; a value that is known already keeps its name. Below 8 bytes it
/// would hide words that are none of its business: false. An empty name gives "[redacted]".
bool redact_add(struct str name, struct str value);
void redact_clear(void); // forget all of them

/// Append `text` to `out` without secrets.
void redact_text(struct buf *out, struct str text);

/// Append a JSON text to `out` without secrets; false, and nothing was appended, when it holds none.
bool redact_json_to(struct buf *out, struct str text);
/// Replace secrets in a JSON text, in strings only, as they look there (escaped): JSON stays JSON. `b` is
/// as it was when there are none, which costs a nanosecond a byte, or nothing while no secret is known.
void redact_json(struct buf *b);

/// A text that comes in pieces: a secret may be cut anywhere. The caller's storage.
struct redact_stream {
    struct buf held; // the end of what came, which may be the beginning of a secret
};
void redact_stream_init(struct redact_stream *s);
void redact_stream_fini(struct redact_stream *s);
/// What is known to be none, or is hidden: borrowed, `piece` itself while no secret is known, else made in
/// `out`, which is cleared.
struct str redact_feed(struct redact_stream *s, struct buf *out, struct str piece);
/// The text is over: what was held back too.
void redact_flush(struct redact_stream *s, struct buf *out);
