#pragma once

// What the files of hub.state share.

#include "base/vec.h"
#include "bind/state.h"

struct state__change {
    struct version *by;
    char *key;
    vm_ref before; // the value; 0: there was none
    vm_ref fields; // of a class: a copy of its fields; 0 otherwise
};

struct state {
    struct vm *vm;
    struct vm_owner *own;
    vm_ref values; // a table: key to value
    bool logging;
    bool alone; // whatever changes it now is the one version that loads
    vec(struct state__change) log;
};
