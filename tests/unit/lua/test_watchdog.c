// Code that does not come back in time is named, whatever it is stuck in.

#include <poll.h>
#include <unistd.h>

#include <lauxlib.h>

#include "lua/watchdog.h"
#include "unit/lua/run.h"

static char mark[64];
static struct watchdog *dog;

/// until(WHAT): block this thread, as no Lua code should be able to, until the watchdog has noticed.
static int l_until(lua_State *L)
{
    const char *what = luaL_checkstring(L, 1);
    struct watchdog_stall s;
    while (what[0] == 'm' ? access(mark, F_OK) != 0 : !watchdog_last(dog, &s)) {
        poll(NULL, 0, 5);
    }
    return 0;
}

static int open_until(lua_State *L)
{
    lua_pushcfunction(L, l_until);
    return 1;
}

static struct vm *open_all(void)
{
    struct err e = {0};
    snprintf(mark, sizeof mark, "/tmp/afloat-watchdog-%ld", (long)getpid());
    CHECK_INT(watchdog_open(&dog, mark, &e), 0);
    struct vm *vm = run_vm(VM_USER);
    vm_add_lib(vm, "block", open_until);
    return vm;
}

static void close_all(struct vm *vm)
{
    vm_close(vm);
    watchdog_close(dog);
    unlink(mark);
}

TEST(code_that_is_stuck_is_named_with_its_line)
{
    struct vm *vm = open_all();
    struct vm_owner *o = vm_owner_open(vm, "slow");
    struct watchdog_stall s;
    vm_owner_set_content(o, "abc");
    CHECK(!watchdog_last(dog, &s));
    run_with(vm, "local x = 1\nblock('last')", (struct entry){.budget_ms = 20, .owner = o});
    CHECK(watchdog_last(dog, &s));
    CHECK_STR(s.unit, "slow");
    CHECK_STR(s.content, "abc");
    CHECK_STR(s.path, "test.lua");
    CHECK_INT(s.line, 2);
    CHECK(s.ms >= 150);
    while (s.ended_ns == 0) { // it sees the end at its next look
        poll(NULL, 0, 5);
        watchdog_last(dog, &s);
    }
    CHECK(access(mark, F_OK) != 0);
    close_all(vm);
}

TEST(code_that_is_stuck_for_long_leaves_a_mark_until_it_ends)
{
    struct vm *vm = open_all();
    struct vm_owner *o = vm_owner_open(vm, "slow");
    struct watchdog_stall s;
    vm_owner_set_content(o, "abc");
    run_with(vm, "block('mark')", (struct entry){.budget_ms = 20, .owner = o});
    bool read = watchdog_read(mark, &s); // or it is gone already
    CHECK(!read || (strcmp(s.unit, "slow") == 0 && strcmp(s.content, "abc") == 0 && s.line == 1));
    while (access(mark, F_OK) == 0) {
        poll(NULL, 0, 5);
    }
    CHECK(!watchdog_read(mark, &s));
    close_all(vm);
}

TEST(code_that_ends_in_time_is_not_named)
{
    struct vm *vm = open_all();
    struct watchdog_stall s;
    for (int i = 0; i < 1000; i++) {
        CHECK_LUA(vm, "return 1", "1");
    }
    CHECK(!watchdog_last(dog, &s));
    close_all(vm);
}
