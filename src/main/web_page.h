#pragma once

#include "server/server.h"

/// The web page as tools/build-web built it; its HTML is empty where it could not be built.
extern const struct server_page web_page;
