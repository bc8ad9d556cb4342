#pragma once

#include "base/json.h"
#include "base/str.h"

// Templates of addresses that a server offers (RFC 6570): literal text, `{name}` and `{+name}`.

/// The position in its template of an address that is being typed. Slices of what was given.
struct mcp_spot {
    struct str variable; // the one that is being typed
    bool reserved;       // written `{+name}`: its value is not escaped
    struct str before;   // what was typed up to its value
    struct str value;    // what was typed of it, as it is in the address
    struct str after;    // text that follows the variable in the template
};

/// Find the variable that the end of `typed` belongs to, and write the values of those before it into the open object
/// `given`. False: `typed` does not begin an address of this template, ends in its literal text, or a variable in it has
/// another form.
bool mcp_template_at(struct str template, struct str typed, struct mcp_spot *out, struct jw *given);
