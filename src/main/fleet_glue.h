#pragma once

#include "fleet/fleet.h"

struct daemon;

/// The plugins of this hub as the fleet sees them. `d` is borrowed until fleet_close().
struct fleet_plugins fleet_glue(struct daemon *d);
