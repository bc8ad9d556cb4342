#pragma once

#include "base/buf.h"

/// Where `text` is the JSON of a report, add what it changed in short lines ("generation 2: dice added"), problems after it.
/// False: it is something else, and nothing was added.
bool brief_report(struct buf *out, struct str text);
