#pragma once

#include "base/buf.h"
#include "base/url.h"

// Web pages as Markdown, for a model to read.

/// Append the text of a web page, which is UTF-8, as Markdown: headings, lists, links, tables, code,
/// quotes and emphasis; scripts, styles and forms' controls are left out. `page` (may be NULL) is where
/// relative links begin. Any text is a page; of an endless one the rest is left out. The result has no control
/// character but line feeds.
void html_to_markdown(struct buf *out, struct str text, const struct url *page);
