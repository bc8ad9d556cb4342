#pragma once

#include "base/json.h"

// Our tools as an MCP server tells of them. Claude Code and agents of ACP each have such a server, by other ways; what
// it says is the same. Each function writes one object: the result of a request.

/// Of "initialize", with the parameters of the request.
void offer_write_hello(struct jw *w, const struct json *params, const char *version);
/// Of "tools/list": `tools` as in engine_spec.
void offer_write_tools(struct jw *w, const struct json *tools);
/// Of "tools/call".
void offer_write_result(struct jw *w, struct str output, bool success);
/// The input of a "tools/call": an object, empty where the client gave none. Borrowed from `params`.
const struct json *offer_input(const struct json *params);
