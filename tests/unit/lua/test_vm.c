// States: what each trust sees, faults with their place, protected calls, life.

#include "unit/lua/run.h"

TEST(a_chunk_runs_and_gives_its_result)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_LUA(vm, "return 6 * 7", "42");
    CHECK_LUA(vm, "x = 1; return 'a' .. x", "a1");
    CHECK_LUA(vm, "return x", "1"); // globals stay
    vm_close(vm);
}

TEST(a_fault_names_file_line_and_calls)
{
    struct vm *vm = run_vm(VM_USER);
    struct run r = run_lua(vm, "local function inner() local t = nil\n return t.x end\n"
                               "local function outer()\n  local v = inner()\n return v end\n"
                               "local r = outer()\nreturn r");
    CHECK_INT(r.status, ENTRY_FAILED);
    CHECK_INT(r.code, FAULT_HOOK_FAILED);
    CHECK_STR(r.path, "test.lua");
    CHECK_INT(r.line, 2);
    CHECK(strstr(r.text, "attempt to index a nil value") == r.text);
    CHECK(strstr(r.traceback, "test.lua:2: in upvalue 'inner'") != NULL);
    CHECK(strstr(r.traceback, "test.lua:4: in local 'outer'") != NULL);
    vm_close(vm);
}

TEST(a_fault_names_the_place_that_error_was_told)
{
    struct vm *vm = run_vm(VM_USER);
    struct run r = run_lua(vm, "local function check() error('bad', 2) end\n\ncheck()");
    CHECK_STR(r.text, "bad");
    CHECK_INT(r.line, 3);
    vm_close(vm);
}

TEST(a_syntax_error_is_load_failed_with_its_line)
{
    struct vm *vm = run_vm(VM_USER);
    struct run r = run_lua(vm, "local x = 1\nx = = 2");
    CHECK_INT(r.code, FAULT_LOAD_FAILED);
    CHECK_STR(r.path, "test.lua");
    CHECK_INT(r.line, 2);
    CHECK(strstr(r.text, "unexpected symbol") == r.text);
    vm_close(vm);
}

TEST(a_long_path_is_whole_in_the_fault)
{
    struct vm *vm = run_vm(VM_USER);
    char chunk[200] = "@/home/someone/";
    memset(chunk + strlen(chunk), 'd', 100);
    strcat(chunk, "/init.lua");
    const char *sources[] = {"error('no')", "x = = 1"};
    for (int i = 0; i < 2; i++) {
        struct entry en = {.kind = ENTRY_LOAD};
        entry_begin(&en, vm);
        if (entry_push_chunk(&en, str_of(sources[i]), chunk) == 0) {
            CHECK_INT(entry_run(&en, 0), ENTRY_FAILED);
        }
        CHECK_INT(en.fault->code, FAULT_LOAD_FAILED);
        CHECK_STR(en.fault->path, chunk + 1);
        CHECK_INT(en.fault->line, 1);
        CHECK(strstr(en.fault->message, "dddd") == NULL);
        entry_end(&en);
    }
    vm_close(vm);
}

TEST(an_error_value_that_is_no_text_never_runs_its_tostring)
{
    struct vm *vm = run_vm(VM_USER);
    struct run r = run_lua(vm, "error(setmetatable({}, {__tostring = function() ran = true end}))");
    CHECK_STR(r.text, "error value is a table");
    CHECK_LUA(vm, "return tostring(ran)", "nil");
    CHECK_FAILS(vm, "error({message = 'told', code = 3})", "told");
    CHECK_FAILS(vm, "error(nil)", "error value is a nil");
    CHECK_FAILS(vm, "error(42)", "42");
    CHECK_FAILS(vm, "error('bad \\255 bytes', 0)", "bad \xEF\xBF\xBD bytes");
    vm_close(vm);
}

TEST(protected_calls_catch_what_is_theirs)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_LUA(vm, "return select(2, pcall(error, 'x'))", "x");
    CHECK_LUA(vm, "return select('#', pcall(function() return 1, nil, 3, nil end))", "5");
    CHECK_LUA(vm, "return select(2, xpcall(error, function(m) return 'seen ' .. m end, 'x'))",
              "seen x");
    CHECK_LUA(vm, "return select(2, xpcall(function(a, b) return a + b end, print, 1, 2))", "3");
    CHECK_LUA(vm,
              "local _, t = xpcall(function() error('deep') end, debug.traceback)\n"
              "return tostring(t:find('stack traceback', 1, true) ~= nil and "
              "t:find('test.lua:1', 1, true) ~= nil)",
              "true");
    CHECK_LUA(vm, "local ok, m = pcall(string.rep, 'x', 1 << 40) return m",
              "resulting string too large");
    CHECK_FAILS(vm, "local function f() return f() + 1 end return f()", "stack overflow");
    vm_close(vm);
}

TEST(the_sandbox_sees_its_list_and_nothing_else)
{
    static const char *const listed =
        "_G _VERSION assert collectgarbage coroutine error getmetatable ipairs json load log math "
        "next os pairs pcall print rawequal rawget rawlen rawset select setmetatable string table "
        "tonumber tostring type utf8 warn xpcall ";
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_LUA(vm,
              "local n = {} for k in pairs(_G) do n[#n + 1] = k end table.sort(n)\n"
              "return table.concat(n, ' ') .. ' '",
              listed);
    CHECK_LUA(vm,
              "local n = {} for k in pairs(os) do n[#n + 1] = k end table.sort(n)\n"
              "return table.concat(n, ' ')",
              "clock date difftime time");
    CHECK_LUA(vm, "return tostring(string.dump)", "nil");
    CHECK_LUA(vm, "return tostring(getmetatable(''))", "false");
    CHECK_LUA(vm, "return ('x'):rep(3)", "xxx");
    vm_close(vm);
}

TEST(user_trust_has_the_standard_library_without_the_ways_around_the_limits)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_LUA(vm,
              "return type(io.open) .. type(package.path) .. type(require) .. "
              "type(debug.getinfo) .. type(os.getenv) .. type(dofile)",
              "functionstringfunctionfunctionfunctionfunction");
    CHECK_LUA(vm, "return tostring(debug.sethook) .. tostring(debug.getregistry)", "nilnil");
    CHECK_LUA(vm,
              "return tostring(require 'string' == string and package.loaded.os == os and "
              "_G._G == _G and package.loaded._G == _G and require 'json' == json)",
              "true");
    CHECK_FAILS(vm, "os.exit(3)", "os.exit");
    CHECK_FAILS(vm, "os.execute('true')", "not available");
    CHECK_FAILS(vm, "io.popen('true')", "not available");
    CHECK_LUA(vm, "return tostring(os.setlocale('de_DE.UTF-8'))", "nil");
    CHECK_LUA(vm, "return os.setlocale()", "C");
    vm_close(vm);
}

static int answer(lua_State *L)
{
    lua_pushinteger(L, 7);
    return 1;
}

TEST(a_library_function_can_be_replaced)
{
    struct vm *vm = run_vm(VM_USER);
    vm_replace(vm, "os", "execute", answer);
    vm_replace(vm, "_G", "assert", answer);
    CHECK_LUA(vm, "return os.execute('x') + assert(false)", "14");
    vm_close(vm);
}

TEST(two_states_share_nothing)
{
    struct vm *a = run_vm(VM_SANDBOX), *b = run_vm(VM_SANDBOX);
    CHECK_LUA(a, "string.upper = nil; table.x = 1; pcall = nil return 'done'", "done");
    CHECK_LUA(b, "return ('x'):upper() .. tostring(table.x) .. type(pcall)", "Xnilfunction");
    vm_close(a);
    vm_close(b);
}

TEST(bytecode_is_refused_everywhere)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_LUA(vm, "code = string.dump(function() return 1 end) return type(code)", "string");
    CHECK_LUA(vm, "return tostring(load(code))", "nil");
    CHECK_LUA(vm, "return tostring(load(code, 'x', 'b'))", "nil");
    CHECK_LUA(vm,
              "local given return tostring(load(function() if not given then given = true "
              "return code end end))",
              "nil");
    char source[512];
    snprintf(source, sizeof source,
             "local f = io.open('%s/m.lua', 'wb') f:write(code) f:close()\n"
             "package.path = '%s/?.lua'\n"
             "local a, b = loadfile('%s/m.lua'), pcall(require, 'm')\n"
             "return tostring(a) .. tostring(b) .. tostring(pcall(dofile, '%s/m.lua'))",
             test_dir(), test_dir(), test_dir(), test_dir());
    CHECK_LUA(vm, source, "nilfalsefalse");
    struct entry en = {.kind = ENTRY_LOAD};
    entry_begin(&en, vm);
    CHECK_INT(entry_push_chunk(&en, STR("\x1bLua"), "@x"), -1);
    CHECK_INT(en.fault->code, FAULT_LOAD_FAILED);
    entry_end(&en);
    vm_close(vm);
}

TEST(text_files_load_with_their_environment)
{
    struct vm *vm = run_vm(VM_USER);
    char source[768];
    snprintf(source, sizeof source,
             "local p = '%s/ok.lua'\n"
             "local f = io.open(p, 'w') f:write('#!/x\\nreturn x, ...') f:close()\n"
             "package.path = '%s/?.lua'\n"
             "x = 'global'\n"
             "return loadfile(p, 't', {x = 'own'})() .. dofile(p) .. require('ok')",
             test_dir(), test_dir());
    CHECK_LUA(vm, source, "ownglobalglobal");
    CHECK_LUA(vm, "return load('return y', 'c', 't', {y = 'env'})()", "env");
    CHECK_LUA(vm,
              "local i = 0 return load(function() i = i + 1 return ({'return', ' 1', '+2'})[i] "
              "end)()",
              "3");
    CHECK_LUA(vm, "return select(2, load('x = ', '=name'))",
              "name:1: unexpected symbol near <eof>");
    CHECK_LUA(vm, "return select(2, load(('x=1 '):rep(70000)))",
              "the chunk is larger than 256 KiB");
    vm_close(vm);
}

struct lines {
    int n;
    enum log_level level;
    char text[64], owner[32];
};

static void keep_line(void *arg, const struct vm_owner *owner, enum log_level level,
                      struct str text)
{
    struct lines *l = arg;
    l->n++;
    l->level = level;
    snprintf(l->text, sizeof l->text, STR_FMT, STR_ARG(text));
    snprintf(l->owner, sizeof l->owner, "%s", owner != NULL ? vm_owner_name(owner) : "");
}

TEST(log_and_print_reach_the_opener_with_the_owner)
{
    struct lines l = {0};
    struct vm_opts opts = {.trust = VM_USER, .log = keep_line, .arg = &l};
    struct vm *vm = vm_open(&opts);
    struct vm_owner *o = vm_owner_open(vm, "logger");
    struct entry en = {.owner = o};
    entry_begin(&en, vm);
    CHECK_INT(entry_push_chunk(&en, STR("print('a', 1, nil, json.null)"), "@x"), 0);
    CHECK_INT(entry_run(&en, 0), ENTRY_DONE);
    entry_end(&en);
    CHECK_STR(l.text, "a 1 nil null");
    CHECK_STR(l.owner, "logger");
    CHECK_INT(l.level, LOG_INFO);
    run_lua(vm, "log.error('e')");
    CHECK_INT(l.level, LOG_ERROR);
    run_lua(vm, "log.debug('d') warn('w')");
    CHECK_INT(l.level, LOG_WARN);
    CHECK_STR(l.owner, "");
    CHECK_INT(l.n, 4);
    vm_close(vm);
}

TEST(texts_of_values_show_no_addresses)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    lua_State *L = vm_main(vm);
    lua_newtable(L);
    char address[40];
    snprintf(address, sizeof address, "%p", lua_topointer(L, -1));
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_insert(L, -2);
    lua_setfield(L, -2, "t");
    lua_pop(L, 1);
    struct run r = run_lua(vm, "return tostring(t) .. ('%s %p'):format(t, t)");
    CHECK(strncmp(r.text, "table: 0x", 9) == 0);
    CHECK(strstr(r.text, address) == NULL);
    CHECK_LUA(vm, "return tostring(tostring(t) == tostring(t) and tostring(t) ~= tostring({}))",
              "true");
    CHECK_LUA(vm, "return tostring(setmetatable({}, {__name = 'N'})):sub(1, 3)", "N: ");
    CHECK_LUA(vm, "return tostring(setmetatable({}, {__tostring = function() return 'T' end}))",
              "T");
    vm_close(vm);
}

TEST(blocks_of_every_size_keep_what_they_hold_and_go)
{
    struct vm *vm = run_vm(VM_USER);
    const char *source =
        "collectgarbage()\n"
        "local before, all = collectgarbage('count'), {}\n"
        "for round = 1, 3 do\n"
        "  for i = 1, 300 do\n"
        "    local t = {text = ('x'):rep(i) .. i} all[i] = t\n"
        "    for k = 1, i % 20 do t[k] = i * k end\n" // 48, 64, 128 bytes
        "    for k = i % 20, 4, -1 do t[k] = nil end t.more, t.still = i, i\n"
        "  end\n"
        "  for i, t in ipairs(all) do\n"
        "    assert(t.text == ('x'):rep(i) .. i and t.more == i and t.still == i)\n"
        "    for k = 1, math.min(i % 20, 3) do assert(t[k] == i * k) end\n"
        "  end\n"
        "end\n"
        "all = nil collectgarbage() collectgarbage()\n"
        "return collectgarbage('count') - before < 8";
    CHECK_LUA(vm, source, "true");
    vm_close(vm);
}

TEST(ten_thousand_states_come_and_go)
{
    for (int i = 0; i < 10000; i++) {
        struct vm *vm = run_vm(i % 2 == 0 ? VM_USER : VM_SANDBOX);
        if (i % 100 == 0) {
            CHECK_LUA(vm, "local t = {} for i = 1, 100 do t[i] = {i} end return #t", "100");
        }
        vm_close(vm);
    }
}
