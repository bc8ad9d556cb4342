#pragma once

#include <sys/socket.h>

#include "base/str.h"

// What an address of the network is.

enum { ADDRESS_TEXT = 48 };

/// Is it an address of the public internet? False for this machine, its networks, link-local and reserved
/// ranges, and for IPv6 addresses that stand for such an IPv4 address; also for what is no IP address.
bool address_is_public(const struct sockaddr *a);
/// The address as text, "?" when it is no IP address. Returns `out`.
const char *address_text(const struct sockaddr *a, char out[ADDRESS_TEXT]);
