#pragma once

#include <lua.h>

#include "base/arena.h"
#include "sandbox/box.h"

// Programs that Lua code runs: exec{}, os.execute and io.popen.

struct exec_spec {
    const char *const *argv;
    const char *const *env; // NULL: an allow-list of ours
    const char *cwd;        // NULL: /
    const char *shown;      // what messages call it
    struct str stdin_text;  // p NULL: none
    uint64_t timeout_ms;    // 0: none
    bool boxed;             // in a box without network, with `cwd` as its working directory
    enum box_mode mode;     // of the box
};

struct exec_result {
    int code, signal;
    struct str out, err;
};

/// Push what the caller gets; returns how many values.
typedef int exec_push(lua_State *L, const struct exec_result *r);

/// Run it as the request that the running code makes, after bind__op_check(); `callback` is the
/// place of its callback. The texts of `spec` are in `a`, which is taken over.
int exec_run(lua_State *L, struct arena *a, const struct exec_spec *spec, int callback,
             exec_push *push);
