// Entries: waiting, nesting, cancelling, owners and references.

#include <unistd.h>

#include <lauxlib.h>

#include "unit/lua/run.h"

// ---- a C function that waits ------------------------------------------------------------------

static struct entry_wait the_wait;
static int cancelled, ended;
static enum entry_status ended_as;

static void on_cancel(struct entry_wait *w)
{
    (void)w;
    cancelled++;
}

static int lua_wait(lua_State *L)
{
    entry_check_wait(L);
    the_wait.cancel = on_cancel;
    return entry_wait(L, &the_wait);
}

static void on_done(struct entry *en, enum entry_status status)
{
    (void)en;
    ended++;
    ended_as = status;
}

static int open_wait(lua_State *L)
{
    lua_pushcfunction(L, lua_wait);
    return 1;
}

static struct vm *waiting_vm(void)
{
    struct vm *vm = run_vm(VM_USER);
    vm_add_lib(vm, "wait", open_wait);
    return vm;
}

static enum entry_status start(struct entry *en, struct vm *vm, const char *source)
{
    en->done = on_done;
    en->budget_ms = 5000;
    entry_begin(en, vm);
    CHECK_INT(entry_push_chunk(en, str_of(source), "@w.lua"), 0);
    return entry_run(en, 0);
}

static void wake_with(lua_Integer n)
{
    lua_State *L = entry_wake_begin(&the_wait);
    lua_pushinteger(L, n);
    entry_wake(&the_wait, 1);
}

static int lua_slow_wait(lua_State *L)
{
    entry_check_wait(L);
    usleep(600 * 1000); // the work begins here, and takes the rest of the time
    the_wait.cancel = on_cancel;
    return entry_wait(L, &the_wait);
}

TEST(work_that_has_begun_is_waited_for_although_time_is_up)
{
    struct vm *vm = waiting_vm();
    struct entry en = {.done = on_done, .budget_ms = 500};
    lua_pushcfunction(vm_main(vm), lua_slow_wait);
    lua_setglobal(vm_main(vm), "slow_wait");
    entry_begin(&en, vm);
    const char *source = "local function down(n)\n"
                         "  if n == 0 then return (slow_wait()) end\n"
                         "  local r = down(n - 1) return r end\n"
                         "return down(2500)";
    CHECK_INT(entry_push_chunk(&en, str_of(source), "@w.lua"), 0);
    CHECK_INT(entry_run(&en, 0), ENTRY_WAITING);
    wake_with(7);
    CHECK_INT(ended_as, ENTRY_DONE);
    CHECK_INT(lua_tointeger(en.L, -1), 7);
    entry_end(&en);
    vm_close(vm);
}

TEST(a_wait_returns_what_the_wake_brings)
{
    struct vm *vm = waiting_vm();
    struct entry en = {0};
    CHECK_INT(start(&en, vm, "local a = wait() local b = wait() return a * 10 + b"), ENTRY_WAITING);
    CHECK_LUA(vm, "return 'others run meanwhile'", "others run meanwhile");
    wake_with(4);
    CHECK_INT(ended, 0);
    wake_with(2);
    CHECK_INT(ended, 1);
    CHECK_INT(ended_as, ENTRY_DONE);
    CHECK_INT(lua_tointeger(en.L, 1), 42);
    entry_end(&en);
    vm_close(vm);
}

TEST(a_wait_passes_through_pcall_and_coroutines)
{
    struct vm *vm = waiting_vm();
    struct entry en = {0};
    CHECK_INT(start(&en, vm,
                    "local gen = coroutine.wrap(function()\n"
                    "  local ok, v = pcall(function() return wait() end)\n"
                    "  coroutine.yield(v + 1)\n"
                    "  local co = coroutine.create(function() return wait() end)\n"
                    "  local _, w = coroutine.resume(co)\n"
                    "  return w + coroutine.yield('between')\n"
                    "end)\n"
                    "local a, b = gen(), gen()\n"
                    "return a .. b .. gen(5)"),
              ENTRY_WAITING);
    wake_with(1);
    CHECK_INT(ended, 0);
    wake_with(10);
    CHECK_INT(ended_as, ENTRY_DONE);
    CHECK_STR(lua_tostring(en.L, 1), "2between15");
    entry_end(&en);
    vm_close(vm);
}

TEST(an_error_after_a_wait_is_a_fault)
{
    struct vm *vm = waiting_vm();
    struct entry en = {0};
    CHECK_INT(start(&en, vm, "wait()\nerror('late')"), ENTRY_WAITING);
    wake_with(0);
    CHECK_INT(ended_as, ENTRY_FAILED);
    CHECK_STR(en.fault->message, "late");
    CHECK_INT(en.fault->line, 2);
    entry_end(&en);
    vm_close(vm);
}

TEST(waiting_stops_the_clock_and_starts_it_anew)
{
    struct vm *vm = waiting_vm();
    struct entry en = {0};
    CHECK_INT(start(&en, vm, "wait() while true do end"), ENTRY_WAITING);
    en.deadline = 0; // long ago: it must not count
    en.budget_ms = 50;
    wake_with(0);
    CHECK_INT(ended_as, ENTRY_FAILED);
    CHECK_INT(en.fault->code, FAULT_HOOK_TIMEOUT);
    entry_end(&en);
    vm_close(vm);
}

TEST(the_time_that_the_caller_has_seen_counts_for_the_first_run_alone)
{
    struct vm *vm = waiting_vm();
    struct entry late = {.budget_ms = 1000, .now = 1}; // a second that was over long ago
    luaL_loadstring(entry_begin(&late, vm), "while true do end");
    CHECK_INT(entry_run(&late, 0), ENTRY_FAILED);
    CHECK_INT(vm_get_stats(vm).ticks, 1);
    entry_end(&late);
    struct entry en = {.budget_ms = 60000, .done = on_done, .now = 1};
    luaL_loadstring(entry_begin(&en, vm), "wait() for i = 1, 10000 do end");
    CHECK_INT(entry_run(&en, 0), ENTRY_WAITING);
    wake_with(0);
    CHECK_INT(ended_as, ENTRY_DONE);
    entry_end(&en);
    vm_close(vm);
}

TEST(where_code_cannot_wait_it_is_told_so)
{
    struct vm *vm = waiting_vm();
    static const char *const places[][2] = {
        {"table.sort({2, 1}, function(a, b) wait() return a < b end)",
         "cannot wait here: inside a callback"},
        {"('x'):gsub('x', function() wait() end)", "cannot wait here: inside a callback"},
        {"local t = setmetatable({}, {__index = function() local v = wait() return v end}) "
         "return t.x",
         "cannot wait here: inside a metamethod"},
        {"return setmetatable({}, {__add = function() wait() return 1 end}) + 1",
         "cannot wait here: inside a metamethod"},
        {"local c = coroutine.wrap(function() wait() end); ('x'):gsub('x', function() c() end)",
         "cannot wait here: inside a callback"},
        {"load(function() return wait() end)", "cannot wait here: inside a callback"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct entry en = {0};
        if (start(&en, vm, places[i][0]) != ENTRY_FAILED ||
            strstr(en.fault->message, places[i][1]) == NULL) {
            test_fail(__FILE__, __LINE__, "%s: %s", places[i][0],
                      en.fault != NULL ? en.fault->message : "no fault");
        }
        entry_end(&en);
    }
    struct run r = run_with(vm, "wait()", (struct entry){.kind = ENTRY_LOAD});
    CHECK_STR(r.text, "cannot wait here: a file that loads cannot be suspended");
    r = run_with(vm, "wait()", (struct entry){.kind = ENTRY_CALL});
    CHECK_STR(r.text, "cannot wait here: this handler cannot be suspended");
    vm_close(vm);
}

TEST(a_cancelled_wait_closes_its_variables_within_the_limits)
{
    struct vm *vm = waiting_vm();
    static const char *const sources[] = {
        "local x <close> = setmetatable({}, {__close = function() closed = true end}) wait()",
        "local x <close> = setmetatable({}, {__close = function() while true do end end}) wait()",
    };
    for (int i = 0; i < 2; i++) {
        struct entry en = {0};
        CHECK_INT(start(&en, vm, sources[i]), ENTRY_WAITING);
        en.budget_ms = i == 0 ? 5000 : 50;
        entry_end(&en);
        CHECK_INT(cancelled, i + 1);
        CHECK(the_wait.en == NULL);
    }
    CHECK_INT(ended, 0);
    CHECK_LUA(vm, "return tostring(closed)", "true");
    vm_close(vm);
}

static void end_it(struct entry *en, enum entry_status status)
{
    ended++;
    CHECK_INT(status, ENTRY_FAILED);
    CHECK_INT(en->fault->code, FAULT_STALE_HANDLE);
    entry_end(en);
}

TEST(closing_a_state_ends_what_waits_in_it)
{
    struct vm *vm = waiting_vm();
    struct entry en = {0};
    CHECK_INT(start(&en, vm, "wait()"), ENTRY_WAITING);
    en.done = end_it;
    vm_close(vm);
    CHECK_INT(ended, 1);
    CHECK_INT(cancelled, 1);
}

TEST(the_coroutine_of_an_entry_cannot_be_touched)
{
    struct vm *vm = waiting_vm();
    struct entry en = {0};
    CHECK_INT(start(&en, vm,
                    "mine, is_main = coroutine.running()\n"
                    "inner = coroutine.create(function() return wait() end)\n"
                    "return select(2, coroutine.resume(inner))"),
              ENTRY_WAITING);
    CHECK_LUA(vm, "return tostring(is_main)", "true");
    CHECK_LUA(vm, "return select(2, coroutine.resume(mine, 'forged'))",
              "cannot resume: this coroutine belongs to the hub");
    CHECK_LUA(vm, "return select(2, coroutine.resume(inner, 'forged'))",
              "cannot resume: this coroutine is waiting");
    CHECK_FAILS(vm, "coroutine.close(mine)", "belongs to the hub");
    CHECK_FAILS(vm, "coroutine.close(inner)", "is waiting");
    wake_with(3);
    CHECK_INT(lua_tointeger(en.L, 1), 3);
    entry_end(&en);
    vm_close(vm);
}

TEST(a_coroutine_that_a_limit_ended_never_runs_again)
{
    // closing it would run its __close handler where no hook runs
    struct vm *vm = run_vm(VM_USER);
    struct run r = run_with(vm,
                            "co = coroutine.create(function() local x <close> = setmetatable({}, "
                            "{__close = function() while true do end end}) while true do end end)\n"
                            "coroutine.resume(co)",
                            (struct entry){.budget_ms = 200});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT);
    CHECK_FAILS(vm, "coroutine.close(co)", "ended by a limit");
    CHECK_LUA(vm, "return coroutine.status(co)", "dead");
    vm_close(vm);
}

TEST(coroutines_behave_as_ever)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_LUA(vm,
              "local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) "
              "error('bad ' .. c, 0) end)\n"
              "local r = {coroutine.resume(co, 1, 2)}\n"
              "local s = {coroutine.resume(co, 'x')}\n"
              "return tostring(r[1]) .. r[2] .. tostring(s[1]) .. s[2] .. coroutine.status(co) .. "
              "select(2, coroutine.resume(co))",
              "true3falsebad xdeadcannot resume dead coroutine");
    CHECK_LUA(vm,
              "local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)\n"
              "return f() .. f() .. f()",
              "123");
    CHECK_LUA(
        vm,
        "local closed\n"
        "local co = coroutine.create(function() local x <close> = setmetatable({}, {__close = "
        "function() closed = 'yes' end}) coroutine.yield() end)\n"
        "coroutine.resume(co) return tostring(coroutine.close(co)) .. closed .. "
        "coroutine.status(co)",
        "trueyesdead");
    CHECK_LUA(vm,
              "local f f = coroutine.wrap(function() return pcall(f) end)\n"
              "return tostring(select(2, f()):find('non%-suspended') or select(2, 1, 'suspended'))",
              "suspended");
    CHECK_LUA(vm,
              "return tostring(coroutine.isyieldable()) .. "
              "tostring(coroutine.wrap(coroutine.isyieldable)())",
              "falsetrue");
    CHECK_FAILS(vm, "coroutine.wrap(function() error('inside') end)()", "inside");
    vm_close(vm);
}

// ---- nesting ----------------------------------------------------------------------------------

static struct run nested;

static int lua_nest(lua_State *L)
{
    nested = run_with(vm_of(L), luaL_checkstring(L, 1),
                      (struct entry){.budget_ms = (uint32_t)luaL_checkinteger(L, 2)});
    lua_pushstring(L, nested.text);
    return 1;
}

static int open_nest(lua_State *L)
{
    lua_pushcfunction(L, lua_nest);
    return 1;
}

TEST(an_inner_entry_that_runs_out_of_time_leaves_the_outer_one)
{
    struct vm *vm = run_vm(VM_USER);
    vm_add_lib(vm, "nest", open_nest);
    CHECK_LUA(vm, "return nest('return 1 + 1', 1000) .. 'outer'", "2outer");
    CHECK_LUA(vm, "nest('while true do end', 20) return 'outer goes on'", "outer goes on");
    CHECK_INT(nested.code, FAULT_HOOK_TIMEOUT);
    struct run r = run_with(vm, "nest('while true do end', 100000) while true do end",
                            (struct entry){.budget_ms = 50});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT); // both: the inner one had no more time than the outer
    CHECK_INT(nested.code, FAULT_HOOK_TIMEOUT);
    vm_close(vm);
}

// ---- memory -----------------------------------------------------------------------------------

TEST(a_state_that_stays_full_is_dead)
{
    struct vm_opts opts = {.trust = VM_USER, .memory_max = 4 * 1024 * 1024};
    struct vm *vm = vm_open(&opts);
    struct run r = run_lua(vm, "keep = {} while true do keep[#keep + 1] = {} end");
    CHECK_INT(r.code, FAULT_MEMORY_LIMIT);
    CHECK(vm_get_stats(vm).dead);
    CHECK_INT(run_lua(vm, "return 1").code, FAULT_STALE_HANDLE);
    vm_close(vm);
}

struct death {
    unsigned n;
    const struct vm_owner *owner;
};

static void on_death(void *arg, struct vm_owner *owner)
{
    struct death *d = arg;
    d->n++;
    d->owner = owner;
}

TEST(a_death_is_told_once_with_whose_code_it_was)
{
    struct vm_opts opts = {.trust = VM_USER, .memory_max = 4 * 1024 * 1024};
    struct vm *vm = vm_open(&opts);
    struct vm_owner *owner = vm_owner_open(vm, "x");
    struct death d = {0};
    vm_on_death(vm, on_death, &d);
    run_with(vm, "local t = {} while true do t[#t + 1] = {} end", (struct entry){.owner = owner});
    CHECK_INT(d.n, 0); // all of it could be collected
    for (int i = 0; i < 2; i++) {
        run_with(vm, "keep = {} while true do keep[#keep + 1] = {} end",
                 (struct entry){.owner = owner});
    }
    CHECK_INT(d.n, 1);
    CHECK(d.owner == owner);
    vm_close(vm);
}

TEST(values_of_ours_are_never_refused)
{
    struct vm_opts opts = {.trust = VM_USER, .memory_max = 4 * 1024 * 1024};
    struct vm *vm = vm_open(&opts);
    char *big = calloc(1, 6 << 20);
    // more than a block may have; more than the state may have, which the code then pays for
    for (int mib = 2; mib <= 6; mib += 4) {
        struct entry en = {.budget_ms = 5000};
        lua_State *L = entry_begin(&en, vm);
        CHECK_INT(entry_push_chunk(&en, STR("return #... .. ''"), "@x"), 0);
        lua_pushlstring(L, big, (size_t)mib << 20);
        CHECK_INT(entry_run(&en, 1), mib == 2 ? ENTRY_DONE : ENTRY_FAILED);
        CHECK(mib == 2 || en.fault->code == FAULT_MEMORY_LIMIT);
        entry_end(&en);
        CHECK_LUA(vm, "return 'alive'", "alive");
    }
    free(big);
    vm_close(vm);
}

// ---- owners and references --------------------------------------------------------------------

static vm_ref kept;

static int lua_keep(lua_State *L)
{
    lua_settop(L, 1);
    kept = refs_take(L, vm_owner_running(vm_of(L)));
    return 0;
}

static int open_keep(lua_State *L)
{
    lua_pushcfunction(L, lua_keep);
    return 1;
}

TEST(what_a_callback_registers_belongs_to_who_runs)
{
    struct vm *vm = run_vm(VM_USER);
    vm_add_lib(vm, "keep", open_keep);
    struct vm_owner *a = vm_owner_open(vm, "a"), *b = vm_owner_open(vm, "b");
    struct run r = run_with(vm, "keep(function() return 'from a' end)", (struct entry){.owner = a});
    CHECK_INT(r.status, ENTRY_DONE);
    vm_ref of_a = kept;
    run_with(vm, "keep(function() return 'from b' end)", (struct entry){.owner = b});
    CHECK(refs_owner(vm, of_a) == a && refs_owner(vm, kept) == b);
    vm_owner_close(a);
    lua_State *L = vm_main(vm);
    CHECK(!refs_push(L, of_a)); // stale
    CHECK(lua_isnil(L, -1));
    CHECK(refs_push(L, kept));
    lua_pop(L, 2);
    vm_close(vm); // closes b
}

TEST(a_stale_reference_never_means_another_value)
{
    struct vm *vm = run_vm(VM_USER);
    struct vm_owner *o = vm_owner_open(vm, "o");
    lua_State *L = vm_main(vm);
    vm_ref refs[100], later[50];
    for (int i = 0; i < 100; i++) {
        lua_pushinteger(L, i);
        refs[i] = refs_take(L, o);
    }
    for (int i = 0; i < 100; i += 2) {
        refs_drop(vm, refs[i]);
        refs_drop(vm, refs[i]); // twice is nothing
    }
    for (int i = 0; i < 50; i++) {
        lua_pushinteger(L, 1000 + i);
        later[i] = refs_take(L, o);
    }
    for (int i = 0; i < 50; i++) {
        CHECK(refs_push(L, later[i]) && lua_tointeger(L, -1) == 1000 + i);
        lua_pop(L, 1);
    }
    for (int i = 0; i < 100; i++) {
        CHECK(refs_push(L, refs[i]) == (i % 2 == 1));
        CHECK(i % 2 == 0 || lua_tointeger(L, -1) == i);
        lua_pop(L, 1);
    }
    CHECK(!refs_push(L, 0));
    lua_pop(L, 1);
    vm_owner_close(o);
    vm_close(vm);
}

TEST(a_field_of_a_referenced_table_is_pushed_raw_or_nil)
{
    struct vm *vm = run_vm(VM_USER);
    struct vm_owner *o = vm_owner_open(vm, "o");
    lua_State *L = vm_main(vm);
    lua_newtable(L);
    value_set_int(L, "n", 7);
    value_set_str(L, "text", "seven");
    lua_newtable(L);
    luaL_loadstring(L, "error('an index function ran')");
    value_set(L, "__index");
    lua_setmetatable(L, -2);
    vm_ref table = refs_take(L, o);
    lua_pushinteger(L, 1);
    vm_ref number = refs_take(L, o);
    int top = lua_gettop(L);
    refs_push_field(L, table, "n");
    CHECK_INT(lua_tointeger(L, -1), 7);
    refs_push_field(L, table, "text");
    CHECK_STR(lua_tostring(L, -1), "seven");
    refs_push_field(L, table, "missing");
    refs_push_field(L, number, "n"); // no table
    refs_drop(vm, table);
    refs_push_field(L, table, "n"); // stale
    CHECK_INT(lua_gettop(L), top + 5);
    CHECK(lua_isnil(L, -1) && lua_isnil(L, -2) && lua_isnil(L, -3));
    lua_settop(L, top);
    vm_owner_close(o);
    vm_close(vm);
}

TEST(a_hundred_thousand_entries_leave_nothing)
{
    struct vm *vm = run_vm(VM_USER);
    struct vm_owner *o = vm_owner_open(vm, "o");
    lua_State *L = vm_main(vm);
    luaL_loadstring(L, "return ...");
    vm_ref fn = refs_take(L, o);
    size_t before = 0;
    for (int i = 0; i < 100000; i++) {
        struct entry en = {.owner = o, .budget_ms = 5000};
        refs_push(entry_begin(&en, vm), fn);
        lua_pushinteger(en.L, i);
        CHECK_INT(entry_run(&en, 1), ENTRY_DONE);
        CHECK_INT(lua_tointeger(en.L, -1), i);
        entry_end(&en);
        if (i == 1000) {
            lua_gc(L, LUA_GCCOLLECT);
            before = vm_get_stats(vm).memory;
        }
    }
    lua_gc(L, LUA_GCCOLLECT);
    CHECK_INT(vm_get_stats(vm).memory, before);
    vm_close(vm);
}
