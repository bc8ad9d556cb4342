// Hostile programs. Each tries to outlast its 50 ms or its memory in a way of its own; each must
// end with the right fault, and the state must serve the next entry as if nothing had been.
//
// The test asserts what happened, not how long it took: a program that got away would hang, and the
// guards turn that into a failure.

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <lauxlib.h>

#include "base/buf.h"
#include "base/time.h"
#include "unit/lua/run.h"

enum { HANG_MS = 2000 };

struct attack {
    const char *name;
    enum vm_trust trust;
    enum fault_code code; // that it must end with
    const char *source;
};

#define TIME(name, source)                                                                         \
    {                                                                                              \
        name, VM_SANDBOX, FAULT_HOOK_TIMEOUT, source                                               \
    }
#define TIME_USER(name, source)                                                                    \
    {                                                                                              \
        name, VM_USER, FAULT_HOOK_TIMEOUT, source                                                  \
    }
#define MEMORY(name, source)                                                                       \
    {                                                                                              \
        name, VM_SANDBOX, FAULT_MEMORY_LIMIT, source                                               \
    }
#define REFUSED(name, source)                                                                      \
    {                                                                                              \
        name, VM_SANDBOX, FAULT_HOOK_FAILED, source                                                \
    }
#define REFUSED_USER(name, source)                                                                 \
    {                                                                                              \
        name, VM_USER, FAULT_HOOK_FAILED, source                                                   \
    }

// clang-format off
static const struct attack attacks[] = {
    // one instruction that moves every key of a table: 8,192 keys in one slot are refused
    TIME("integers that collide", "local m = (1 << 15) - 1 local t = {} for i = 1, (1 << 14) + 1 do t[i * m] = true end"),
    TIME("integers that collide in a constructor", "local m, t = (1 << 14) - 1, {} local s = {}"
         " for i = 1, 9000 do s[#s + 1] = '[a*' .. i .. ']=1' end"
         " load('local a = ' .. m .. ' return {' .. table.concat(s, ',') .. ', ...}')(1, 2, 3, 4, 5)"),
    TIME("floats that collide", "local t = {} for i = 1, 1 << 15 do t[1 + i * 2.0^-52] = true end"),
    TIME("integers that collide in pcall", "local m = (1 << 15) - 1 while true do pcall(function() local t = {}"
         " for i = 1, (1 << 14) + 1 do t[i * m] = true end end) end"),
    TIME("constants that collide", "local m, s = (1 << 15) - 1, {} for i = 10, (1 << 14) + 20 do s[#s + 1] = i * m end"
         " load('return {' .. table.concat(s, ',') .. '}')"),
    TIME("names looked up through many functions", "local s = {} for i = 1, 60 do s[#s + 1] = 'local function f() local '"
         " for j = 1, 189 do s[#s + 1] = 'a' .. j .. ',' end s[#s + 1] = 'a ' end"
         " s[#s + 1] = ('x=x '):rep(30000) s[#s + 1] = ('end '):rep(60) load(table.concat(s))"),
    // plain loops
    TIME("a loop", "while true do end"),
    TIME("a loop of calls", "local function f() end while true do f() end"),
    TIME("goto", "::again:: goto again"),
    TIME("a tail call", "local function f() return f() end f()"),
    TIME("a loop that builds strings", "local s = '' while true do s = s:sub(1, 10) .. 'x' end"),
    TIME("a loop over itself", "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end})"
         " while true do pcall(function() return t[1] end) end"),
    // catching
    TIME("pcall swallows", "while true do pcall(function() while true do end end) end"),
    TIME("nested pcall swallows", "local function f() while true do pcall(f) end end f()"),
    TIME("pcall of pcall", "while true do pcall(pcall, pcall, function() while true do end end) end"),
    TIME("xpcall handler loops", "xpcall(function() while true do end end, function() while true do end end)"),
    TIME("xpcall handler of an error loops", "xpcall(error, function() while true do end end)"),
    TIME("xpcall handler raises", "while true do xpcall(function() while true do end end, error) end"),
    TIME("xpcall handler calls xpcall",
         "local function h() xpcall(error, h) end while true do xpcall(error, h) end"),
    TIME("load reader swallows", "while true do load(function() while true do end end) end"),
    TIME("__close loops", "local x <close> = setmetatable({}, {__close = function() while true do end end})"
         " while true do end"),
    TIME("__close in pcall loops", "while true do pcall(function() local x <close> = setmetatable({},"
         " {__close = function() while true do end end}) error('x') end) end"),
    TIME("__close calls pcall", "local function spin() while true do pcall(spin) end end"
         " local x <close> = setmetatable({}, {__close = spin}) spin()"),
    // coroutines
    TIME("coroutine hides", "local c = coroutine.wrap(function() while true do end end) c()"),
    TIME("coroutine swallows", "while true do coroutine.resume(coroutine.create(function() while true do end end)) end"),
    TIME("coroutine in pcall", "while true do pcall(coroutine.wrap(function() while true do end end)) end"),
    TIME("coroutine tower", "local function f() while true do coroutine.resume(coroutine.create(f)) end end f()"),
    TIME("coroutine ping pong", "local c = coroutine.wrap(function() while true do coroutine.yield() end end)"
         " while true do c() end"),
    TIME("coroutine.close loops", "local c = coroutine.create(function() local x <close> = setmetatable({},"
         " {__close = function() while true do end end}) coroutine.yield() end) coroutine.resume(c)"
         " while true do coroutine.close(c) end"),
    TIME("wrap that fails closes and loops", "local f = coroutine.wrap(function() local x <close> = setmetatable({},"
         " {__close = function() while true do end end}) error('x') end) while true do pcall(f) end"),
    TIME("many coroutines", "while true do coroutine.wrap(function() for i = 1, 100 do end end)() end"),
    // patterns
    TIME("pattern bomb of question marks", "return ('a'):rep(40):find(('a?'):rep(40) .. ('a'):rep(40) .. 'b')"),
    TIME("pattern bomb of stars", "return ('a'):rep(100):match(('a*'):rep(20) .. 'b')"),
    TIME("pattern bomb of dots", "return ('x'):rep(3000):find('.-.-.-.-.-.-y')"),
    TIME("pattern bomb of captures", "return ('a'):rep(60):gsub(('(a*)'):rep(20) .. 'b', '')"),
    TIME("pattern bomb in gmatch", "for x in ('a'):rep(100):gmatch(('a*'):rep(20) .. 'b') do end"),
    TIME("pattern bomb of balance", "local s = ('('):rep(200000) return s:find('%b()')"),
    TIME("pattern bomb of sets", "return ('a'):rep(200000):find('[' .. ('b'):rep(200000) .. ']')"),
    TIME("pattern bomb of frontiers", "return ('a'):rep(200000):find('%f[' .. ('b'):rep(200000) .. ']')"),
    TIME("pattern bomb of references", "return ('a'):rep(20000):find('(.*).-%1b')"),
    TIME("pattern bomb in pcall", "while true do pcall(string.find, ('a'):rep(100), ('a*'):rep(20) .. 'b') end"),
    TIME("gsub callback loops", "('x'):gsub('x', function() while true do end end)"),
    // C loops over tables
    TIME("table.insert believes __len", "table.insert(setmetatable({}, {__len = function() return 1 << 62 end}), 1, 0)"),
    TIME("table.remove believes __len", "table.remove(setmetatable({}, {__len = function() return 1 << 62 end}), 1)"),
    TIME("table.move moves much", "table.move({}, 1, 1 << 62, 2)"),
    TIME("table.concat believes __len", "table.concat(setmetatable({}, {__len = function() return 1 << 62 end,"
         " __index = function() return '' end}))"),
    TIME("table.concat with a C index", "table.concat(setmetatable({}, {__len = function() return 1 << 62 end,"
         " __index = rawlen}))"),
    TIME("table.unpack with a C index", "while true do pcall(table.unpack, setmetatable({}, {__index = rawequal}), 1, 200000) end"),
    TIME("table.sort loops in its comparator", "table.sort({3, 2, 1}, function() while true do end end)"),
    TIME("table.sort of much", "local t = {} for i = 1, 60000 do t[i] = -i end while true do table.sort(t) end"),
    TIME("table.sort with a lying comparator", "local t = {} for i = 1, 300 do t[i] = i end"
         " while true do table.sort(t, function() return true end) end"),
    TIME("table.sort of long strings", "local t, a = {}, ('a'):rep(100000) for i = 1, 60 do t[i] = a .. i end"
         " while true do table.sort(t) end"),
    // few instructions that cost much
    TIME("upper of megabytes", "local s = ('x'):rep(4 << 20) while true do local _ = s:upper() end"),
    TIME("reverse of megabytes", "local s = ('x'):rep(4 << 20) while true do local _ = s:reverse() end"),
    TIME("concatenation of megabytes", "local s = ('x'):rep(3 << 20) while true do local _ = s .. 'y' end"),
    TIME("comparison of megabytes", "local a, b = ('x'):rep(4 << 20) .. 'a', ('x'):rep(4 << 20) .. 'a'"
         " while true do local _ = a == b end"),
    TIME("order of megabytes", "local a, b = ('x'):rep(4 << 20) .. 'a', ('x'):rep(4 << 20) .. 'b'"
         " while true do local _ = a < b end"),
    TIME("number of megabytes", "local s = ('0'):rep(4 << 20) while true do local _ = tonumber(s) end"),
    TIME("utf8.len of megabytes", "local s = ('x'):rep(4 << 20) while true do local _ = utf8.len(s) end"),
    TIME("pack of megabytes", "while true do local _ = string.pack('c4000000', '') end"),
    TIME("rep of megabytes", "while true do local _ = ('x'):rep(6 << 20) end"),
    TIME("format of megabytes", "local s = ('\\0'):rep(1 << 20) while true do local _ = ('%q'):format(s) end"),
    TIME("plain find of megabytes", "local s = ('a'):rep(4 << 20) while true do s:find(('a'):rep(1 << 20) .. 'b', 1, true) end"),
    TIME("load of much", "local s = ('x = 1 '):rep(40000) while true do load(s) end"),
    TIME("next over an emptied table", "local t = {} for i = 1, 100000 do t[i .. ''] = 1 end for k in pairs(t) do t[k] = nil end"
         " while true do next(t) end"),
    TIME("collect and collect", "local t = {} for i = 1, 50000 do t[i] = {} end while true do collectgarbage() end"),
    TIME("json of much", "local t = {} for i = 1, 50000 do t[i] = {i} end while true do json.encode(t) end"),
    TIME("json text of much", "local s = '[' .. ('[],'):rep(200000) .. '1]' while true do json.decode(s) end"),
    // __tostring and friends
    TIME("tostring loops", "tostring(setmetatable({}, {__tostring = function() while true do end end}))"),
    TIME("print loops", "while true do pcall(print, setmetatable({}, {__tostring = function() while true do end end})) end"),
    TIME("log floods", "while true do log.info('x') end"),
    TIME("__eq loops", "local m = {__eq = function() while true do end end}"
         " return setmetatable({}, m) == setmetatable({}, m)"),
    TIME("__index tower", "local t = {} for i = 1, 1000 do t = setmetatable({}, {__index = t}) end"
         " while true do local _ = t.x end"),
    TIME("__pairs loops", "for k in pairs(setmetatable({}, {__pairs = function() return function() return 1 end end})) do end"),
    // memory
    MEMORY("a table that grows", "local t = {} while true do t[#t + 1] = {} end"),
    MEMORY("a string that doubles", "local s = 'x' while true do s = s .. s end"),
    MEMORY("memory in pcall", "local t = {} while true do pcall(function() while true do t[#t + 1] = ('x'):rep(1000) .. #t end end) end"),
    MEMORY("memory in xpcall", "local t = {} while true do xpcall(function() while true do t[#t + 1] = ('x'):rep(1000) .. #t end end,"
           " function() return 1 end) end"),
    MEMORY("memory in a coroutine", "local t = {} while true do coroutine.resume(coroutine.create(function()"
           " while true do t[#t + 1] = ('x'):rep(1000) .. #t end end)) end"),
    MEMORY("memory in gsub", "while true do ('x'):rep(4 << 20):gsub('x', 'xxxxxxxxxxxxxxxx') end"),
    MEMORY("memory in concat", "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1 << 20) end return table.concat(t)"),
    MEMORY("memory in a constructor", "local s = ('x'):rep(1 << 20) local t = {} for i = 1, 100 do t[i] = s .. i end"),
    MEMORY("memory near the limit", "local t, n = {}, 0 while true do n = n + 1 t[n] = ('x'):rep(100000) .. n end"),
    MEMORY("one block that is too large", "local s = ('x'):rep(7 << 20) return s .. s"),
    MEMORY("many coroutines kept", "local t = {} while true do t[#t + 1] = coroutine.create(print) end"),
    // refused outright
    REFUSED("__gc", "setmetatable({}, {__gc = function() while true do end end})"),
    REFUSED_USER("__gc with user trust", "setmetatable({}, {__gc = function() while true do end end})"),
    REFUSED_USER("__gc by debug", "debug.setmetatable({}, {__gc = function() while true do end end})"),
    REFUSED_USER("__gc of a file", "local m = debug.getmetatable(io.stdout) or getmetatable(io.stdout)"
                 " m.__gc = function() while true do end end"),
    REFUSED_USER("another metatable for a file", "debug.setmetatable(io.tmpfile(), {})"),
    REFUSED("weak keys", "setmetatable({}, {__mode = 'k'})"),
    REFUSED("the metatable of strings", "getmetatable('').__index = nil"),
    REFUSED("yield from an entry", "coroutine.yield()"),
    REFUSED("string.rep of more than there is", "return ('x'):rep(1 << 50)"),
    REFUSED("a pattern that nests too deep", "return ('a'):rep(300):find(('a?'):rep(300))"),
    REFUSED_USER("upvalues of C functions", "debug.setupvalue(string.upper, 1, nil)"),
    REFUSED_USER("upvalues joined to C functions", "local x debug.upvaluejoin(string.upper, 1, function() return x end, 1)"),
    REFUSED_USER("locals of C functions", "('x'):gsub('x', function() debug.setlocal(2, 1, 'y') end)"),
    REFUSED_USER("hooks", "debug.sethook()"),
    REFUSED_USER("os.exit", "os.exit(0)"),
    TIME_USER("traceback of a deep stack", "local function f(n) if n > 0 then return 1 + f(n - 1) end"
              " while true do debug.traceback() end end f(10000)"),
    TIME_USER("a module that loops", "package.preload.m = function() while true do end end while true do pcall(require, 'm') end"),
    TIME_USER("a searcher that loops", "package.searchers[1] = function() while true do end end while true do pcall(require, 'm') end"),
};
// clang-format on

static struct vm *small_vm(enum vm_trust trust)
{
    struct vm_opts opts = {.trust = trust, .memory_max = 32 * 1024 * 1024};
    return vm_open(&opts);
}

static const char *attack_now;

static _Noreturn void on_hang(int sig)
{
    (void)sig;
    test_fail(__FILE__, __LINE__, "'%s' hangs", attack_now);
}

/// From here on a test that hangs fails, and says with which program.
static void guard_hang(const char *name)
{
    struct itimerval t = {.it_value = {.tv_sec = 120}};
    attack_now = name;
    signal(SIGALRM, on_hang);
    setitimer(ITIMER_REAL, &t, NULL);
}

static void check_attack(const struct attack *a)
{
    struct vm *vm = small_vm(a->trust);
    uint32_t budget_ms = a->code == FAULT_HOOK_TIMEOUT ? 50 : 10000;
    guard_hang(a->name);
    for (int round = 0; round < 2; round++) { // a state that was attacked is no weaker
        uint64_t start = test_own_ns();
        struct run r = run_with(vm, a->source, (struct entry){.budget_ms = budget_ms});
        uint64_t ms = (test_own_ns() - start) / 1000000;
        if (r.status != ENTRY_FAILED || r.code != a->code) {
            test_fail(__FILE__, __LINE__, "'%s' ended with %d %s: %s", a->name, (int)r.status,
                      fault_name(r.code), r.text);
        }
        if (a->code == FAULT_HOOK_TIMEOUT && ms >= HANG_MS) {
            test_fail(__FILE__, __LINE__, "'%s' took %llu ms", a->name, (unsigned long long)ms);
        }
        CHECK(!vm_get_stats(vm).dead);
        CHECK_LUA(vm,
                  "local t = {} for i = 1, 100 do t[i] = ('x'):rep(i) end "
                  "return #table.concat(t)",
                  "5050");
    }
    vm_close(vm);
}

TEST(hostile_programs_end_and_leave_the_state_working)
{
    CHECK(sizeof attacks / sizeof attacks[0] >= 40);
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        check_attack(&attacks[i]);
    }
}

/// A C function from elsewhere that catches what it should not, as a module of somebody's may.
static int swallow(lua_State *L)
{
    lua_pcall(L, 0, 0, 0);
    return 0;
}

static int open_swallow(lua_State *L)
{
    lua_pushcfunction(L, swallow);
    return 1;
}

TEST(a_c_function_that_swallows_errors_does_not_help)
{
    struct vm *vm = small_vm(VM_USER);
    vm_add_lib(vm, "swallow", open_swallow);
    guard_hang("swallow");
    struct run r = run_with(vm, "while true do swallow(function() while true do end end) end",
                            (struct entry){.budget_ms = 50});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT);
    CHECK_LUA(vm, "return 1", "1");
    vm_close(vm);
}

TEST(a_time_out_says_where_and_at_load_has_its_own_code)
{
    struct vm *vm = small_vm(VM_USER);
    struct run r = run_with(vm, "local function spin()\n  while true do end\nend\nspin()",
                            (struct entry){.kind = ENTRY_LOAD, .budget_ms = 50});
    CHECK_INT(r.code, FAULT_LOAD_TIMEOUT);
    CHECK_STR(r.text, "ran for more than 50 ms without a pause");
    CHECK_STR(r.path, "test.lua");
    CHECK_INT(r.line, 2);
    CHECK(strstr(r.traceback, "in local 'spin'") != NULL);
    vm_close(vm);
}

/// Time passes and the thread has no processor, as on a machine that is busy with others.
static int starve(lua_State *L)
{
    usleep((useconds_t)luaL_checkinteger(L, 1) * 1000);
    return 0;
}

static int open_starve(lua_State *L)
{
    lua_pushcfunction(L, starve);
    return 1;
}

TEST(only_time_with_a_processor_counts)
{
    struct vm *vm = small_vm(VM_USER);
    vm_add_lib(vm, "starve", open_starve);
    guard_hang("starve");
    const char *some = "for i = 1, 5000 do end starve(120) for i = 1, 5000 do end return 'done'";
    struct run r = run_with(vm, some, (struct entry){.budget_ms = 50});
    CHECK_INT(r.status, ENTRY_DONE);

    guard_hang("starve before the first look");
    r = run_with(vm, "starve(120) for i = 1, 5000 do end return 'done'",
                 (struct entry){.budget_ms = 50});
    CHECK_INT(r.status, ENTRY_DONE);
    r = run_with(vm, "starve(120) while true do end", (struct entry){.budget_ms = 50});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT);
    r = run_with(vm, "for i = 1, 5000 do end starve(400) for i = 1, 5000 do end return 'done'",
                 (struct entry){.budget_ms = 50});
    CHECK_INT(r.status, ENTRY_DONE);

    guard_hang("starve, then loop");
    r = run_with(vm, "for i = 1, 5000 do end starve(120) while true do end",
                 (struct entry){.budget_ms = 50});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT);

    guard_hang("starve for good");
    r = run_with(vm, "while true do starve(10) for i = 1, 2000 do end end",
                 (struct entry){.budget_ms = 50});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT);
    vm_close(vm);
}

/// The thread works for a while, and says that this was not the plugin's.
static int held_up(lua_State *L)
{
    uint64_t began = time_mono_ns();
    uint64_t enough = test_own_ns() + (uint64_t)luaL_checkinteger(L, 1) * 1000000;
    while (test_own_ns() < enough) {
    }
    entry_excuse(vm_of(L), time_mono_ns() - began);
    return 0;
}

static int open_held_up(lua_State *L)
{
    lua_pushcfunction(L, held_up);
    return 1;
}

TEST(time_for_which_others_held_the_code_up_does_not_count)
{
    struct vm *vm = small_vm(VM_USER);
    vm_add_lib(vm, "held_up", open_held_up);
    guard_hang("held up");
    const char *some = "for i = 1, 5000 do end held_up(300) for i = 1, 5000 do end return 'done'";
    struct run r = run_with(vm, some, (struct entry){.budget_ms = 50});
    CHECK_INT(r.status, ENTRY_DONE);

    guard_hang("held up, then loop");
    r = run_with(vm, "held_up(100) while true do end", (struct entry){.budget_ms = 50});
    CHECK_INT(r.code, FAULT_HOOK_TIMEOUT);
    vm_close(vm);
}

TEST(a_file_larger_than_a_mebibyte_is_refused)
{
    struct vm *vm = small_vm(VM_USER);
    size_t n = VM_CHUNK_MAX + 1;
    char *text = malloc(n);
    memset(text, ' ', n);
    struct entry en = {.kind = ENTRY_LOAD};
    entry_begin(&en, vm);
    CHECK_INT(entry_push_chunk(&en, (struct str){text, n}, "@big.lua"), -1);
    CHECK_INT(en.fault->code, FAULT_LOAD_FAILED);
    entry_end(&en);
    free(text);
    vm_close(vm);
}

/// A text of `n` statements inside functions with many locals: each name is looked for in all of them.
static char *slow_to_compile(size_t n)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < 60; i++) {
        buf_addz(&b, "local function f() local a");
        for (int k = 0; k < 180; k++) {
            buf_addf(&b, ",a%d", k);
        }
        buf_addz(&b, "\n");
    }
    for (size_t i = 0; i < n; i++) {
        buf_addz(&b, "x=x ");
    }
    for (int i = 0; i < 60; i++) {
        buf_addz(&b, "end ");
    }
    return buf_take(&b, NULL);
}

TEST(a_file_that_takes_too_long_to_compile_is_refused_with_its_line)
{
    struct vm *vm = small_vm(VM_USER);
    char *text = slow_to_compile(200000);
    guard_hang("compiling");
    struct run r = run_with(vm, text, (struct entry){.kind = ENTRY_LOAD, .budget_ms = 200});
    CHECK_INT(r.status, ENTRY_FAILED);
    CHECK_INT(r.code, FAULT_LOAD_TIMEOUT);
    CHECK_STR(r.text, "took more than 200 ms to compile");
    CHECK_STR(r.path, "test.lua");
    CHECK_INT(r.line, 61);
    CHECK_LUA(vm, "return 1", "1");
    free(text);
    vm_close(vm);
}

TEST(large_tables_of_usual_keys_are_not_refused)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_LUA(vm, "local t = {} for i = 1, 100000 do t[i * 1000] = i end return t[100000000]",
              "100000");
    CHECK_LUA(vm, "local t = {} for i = 1, 50000 do t['k' .. i] = i end return t.k50000", "50000");
    CHECK_LUA(vm, "local t = {} for i = 1, 50000 do t[i / 7] = i end return t[50000 / 7]", "50000");
    CHECK_LUA(vm, "local t = {} for i = 1, 50000 do t[{}] = i end return next(t) ~= nil", "true");
    CHECK_LUA(vm, "local t = {} for i = 100000, 1, -1 do t[i] = i end return #t", "100000");
    vm_close(vm);
}

TEST(a_state_that_was_full_makes_room_again_once_its_values_are_gone)
{
    struct vm *vm = vm_open(&(struct vm_opts){.trust = VM_USER, .memory_max = 8 << 20});
    CHECK_LUA(vm, "t = {} for i = 1, 6 do t[i] = ('x'):rep(1 << 20) end return #t", "6");
    CHECK(!vm_make_room(vm, 4 << 20)); // nothing is garbage
    CHECK_LUA(vm, "t[4], t[5], t[6] = nil collectgarbage() return #t", "3");
    CHECK_LUA(vm, "for i = 1, 2 do local s = ('y'):rep(1 << 20) end return 'garbage'", "garbage");
    CHECK(vm_make_room(vm, 4 << 20));
    vm_close(vm);
}
