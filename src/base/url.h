#pragma once

#include "base/buf.h"
#include "base/str.h"

// Web addresses, read strictly: a decision by host must see the host that a client connects to.

/// Slices of the text that was parsed.
struct url {
    struct str scheme; // "http" or "https", in any case
    struct str host;   // without brackets and a dot at its end; in any case
    struct str port;   // empty: the scheme's
    struct str path;   // from the slash on, query and fragment included; may be empty
};

/// Split an absolute http or https URL. False: it is not one, or holds something that programs read in
/// different ways (a user name, a backslash, an escape in the host, a character beyond printable ASCII).
bool url_parse(struct url *out, struct str text);
/// Append what `ref` means on the page `base`: an absolute URL, or `ref` itself when it is one already or of
/// another kind ("mailto:").
void url_join(struct buf *out, const struct url *base, struct str ref);

/// Append `text` as a part of a path or query: all but letters, digits and "-._~" become %XX.
void url_encode(struct buf *out, struct str text);
/// Append `text` with its %XX decoded, and with `plus` each '+' as a space, as in forms. A '%' that begins no escape
/// stays. The result may hold any byte.
void url_decode(struct buf *out, struct str text, bool plus);
