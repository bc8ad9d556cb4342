#pragma once

#include "cli/cli_int.h"

/// Show an address in the user's browser, where there is a display and a terminal to say what went wrong.
void open_browser(struct cli *c, const char *url);
