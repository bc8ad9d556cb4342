#pragma once

// Running Lua texts in tests.

#include "lua/entry.h"
#include "lua/refs.h"
#include "lua/value.h"
#include "lua/vm.h"
#include "unit/test.h"

/// What one run gave: `text` is its first result as a string ("" for none), or the fault's message.
struct run {
    enum entry_status status;
    enum fault_code code;
    char text[1024];
    char path[256];
    int line;
    char traceback[2048];
};

struct vm *run_vm(enum vm_trust trust); // with the usual limits
/// Run `source` (chunk "@test.lua") as an entry, with plenty of time.
struct run run_lua(struct vm *vm, const char *source);
struct run run_with(struct vm *vm, const char *source, struct entry en);

/// Run it; the first result must be `expected`.
#define CHECK_LUA(vm, source, expected)                                                            \
    do {                                                                                           \
        struct run check_run = run_lua(vm, source);                                                \
        CHECK_STR(check_run.text, expected);                                                       \
        CHECK_INT(check_run.status, ENTRY_DONE);                                                   \
    } while (0)

/// Run it; it must fail with a message that contains `part`.
#define CHECK_FAILS(vm, source, part)                                                              \
    do {                                                                                           \
        struct run check_run = run_lua(vm, source);                                                \
        CHECK_INT(check_run.status, ENTRY_FAILED);                                                 \
        if (strstr(check_run.text, part) == NULL) {                                                \
            test_fail(__FILE__, __LINE__, "\"%s\" has no \"%s\"", check_run.text, part);           \
        }                                                                                          \
    } while (0)
