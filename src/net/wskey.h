#pragma once

#include "base/str.h"

enum { WSKEY_TEXT = 29 };

/// What a server answers to a Sec-WebSocket-Key (RFC 6455, 4.2.2): SHA-1 of it and a fixed text, as base64.
void wskey_accept(struct str key, char out[WSKEY_TEXT]);
