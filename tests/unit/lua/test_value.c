// Values: JSON to Lua and back, what is refused, and the bounds.

#include "unit/lua/run.h"

/// Run `source` and read its first result as JSON text, or the error's message.
static void read_result(struct vm *vm, const char *source, char *out, size_t max)
{
    struct entry en = {.budget_ms = 5000};
    struct arena a = {0};
    struct json *v;
    struct err e;
    entry_begin(&en, vm);
    CHECK_INT(entry_push_chunk(&en, str_of(source), "@t"), 0);
    CHECK_INT(entry_run(&en, 0), ENTRY_DONE);
    int top = lua_gettop(en.L);
    if (value_read(&v, &a, en.L, 1, &e) < 0) {
        CHECK(v == NULL);
        snprintf(out, max, "%s", e.msg);
    } else {
        struct buf b;
        buf_init(&b, SIZE_MAX);
        json_write(&b, v, 0);
        snprintf(out, max, "%s", buf_z(&b));
        buf_fini(&b);
    }
    CHECK_INT(lua_gettop(en.L), top);
    entry_end(&en);
    arena_fini(&a);
}

#define CHECK_READ(vm, source, expected)                                                           \
    do {                                                                                           \
        char check_out[512];                                                                       \
        read_result(vm, source, check_out, sizeof check_out);                                      \
        CHECK_STR(check_out, expected);                                                            \
    } while (0)

TEST(lua_values_become_json)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_READ(vm, "return nil", "null");
    CHECK_READ(vm, "return json.null", "null");
    CHECK_READ(vm, "return true", "true");
    CHECK_READ(vm, "return 9007199254740993", "9007199254740993");
    CHECK_READ(vm, "return math.mininteger", "-9223372036854775808");
    CHECK_READ(vm, "return 1.5", "1.5");
    CHECK_READ(vm, "return 'a\\0b\\255'", "\"a\\u0000b\xEF\xBF\xBD\"");
    CHECK_READ(vm, "return {}", "{}");
    CHECK_READ(vm, "return json.array{}", "[]");
    CHECK_READ(vm, "return json.array()", "[]");
    CHECK_READ(vm, "return {1, 2, {3}}", "[1,2,[3]]");
    CHECK_READ(vm, "return {a = {b = {json.null}}}", "{\"a\":{\"b\":[null]}}");
    CHECK_READ(vm, "return {[10] = 'x'}", "{\"10\":\"x\"}");
    CHECK_READ(vm, "return {[-1] = json.array{}}", "{\"-1\":[]}");
    CHECK_READ(vm, "return json.array{1, nil, 3}", "[1,null,3]");
    vm_close(vm);
}

TEST(what_cannot_be_sent_is_refused_with_its_place)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_READ(vm, "return {a = {1, 2, print}}", "value.a[3]: a function cannot be sent");
    CHECK_READ(vm, "return print", "value: a function cannot be sent");
    CHECK_READ(vm, "return {{x = io.stdout}}", "value[1].x: a userdata cannot be sent");
    CHECK_READ(vm, "return {c = coroutine.create(print)}", "value.c: a coroutine cannot be sent");
    CHECK_READ(vm, "return {1 / 0}", "value[1]: a number that is not finite cannot be sent");
    CHECK_READ(vm, "return {[true] = 1}",
               "value: a key that is neither text nor integer cannot be sent");
    CHECK_READ(vm, "return {[1] = 1, ['1'] = 2}",
               "value: an integer key beside the same key as text cannot be sent");
    CHECK_READ(vm, "return {a = {['\\xff'] = 1, ['\\xfe'] = {b = 2}}}",
               "value.a: keys that differ only in bytes that are not UTF-8 cannot be sent");
    CHECK_READ(vm, "return {['\\xff'] = 1, a = 2, ['\\u{FFFD}'] = 3}",
               "value: keys that differ only in bytes that are not UTF-8 cannot be sent");
    CHECK_READ(vm, "return {['\\xff'] = 1}", "{\"\xEF\xBF\xBD\":1}");
    CHECK_READ(vm, "local t = {} t.a = {t} return t",
               "value.a[1]: a table that holds itself cannot be sent");
    vm_close(vm);
}

TEST(bounds_on_depth_count_and_bytes_hold)
{
    struct vm *vm = run_vm(VM_USER);
    char out[512];
    read_result(vm, "local t = {} for i = 1, 63 do t = {t} end return t", out, sizeof out);
    CHECK_INT(strlen(out), 63 + 2 + 63);
    read_result(vm, "local t = {} for i = 1, 64 do t = {t} end return t", out, sizeof out);
    CHECK(strstr(out, ": more than 64 levels cannot be sent") != NULL);
    // one table twice in another, that one twice in a third: 2^60 values from 60 tables
    read_result(vm, "local t = {} for i = 1, 60 do t = {t, t} end return t", out, sizeof out);
    CHECK(strstr(out, "more than 262144 values") != NULL);
    read_result(vm, "local s, t = ('x'):rep(1 << 20), {} for i = 1, 17 do t[i] = s end return t",
                out, sizeof out);
    CHECK(strstr(out, "more than 16 MiB of text") != NULL);
    vm_close(vm);
}

TEST(walking_over_large_empty_tables_ends_in_time)
{
    struct vm *vm = run_vm(VM_USER);
    char out[512];
    read_result(vm,
                "local t = {} for i = 1, 400000 do t[i + 0.5] = 1 end "
                "for i = 1, 400000 do t[i + 0.5] = nil end "
                "local all = {} for i = 1, 5000 do all[i] = t end return all",
                out, sizeof out);
    CHECK(strstr(out, ": out of time") != NULL);
    vm_close(vm);
}

TEST(reading_runs_no_metamethods)
{
    struct vm *vm = run_vm(VM_USER);
    CHECK_READ(vm,
               "local function spin() while true do end end\n"
               "return setmetatable({a = 1}, {__index = spin, __len = spin, __pairs = spin, "
               "__tostring = spin})",
               "{\"a\":1}");
    vm_close(vm);
}

/// The text, through Lua and back.
static void round_trip(struct vm *vm, const char *text)
{
    struct arena a = {0};
    struct json *v, *back;
    struct err e;
    CHECK_INT(json_parse(&v, &a, str_of(text), NULL, &e), 0);
    struct entry en = {0};
    lua_State *L = entry_begin(&en, vm);
    value_push(L, v);
    CHECK_INT(value_read(&back, &a, L, -1, &e), 0);
    entry_end(&en);
    if (!json_equal(v, back)) {
        test_fail(__FILE__, __LINE__, "%s changes on its way", text);
    }
    arena_fini(&a);
}

TEST(json_comes_back_as_it_went)
{
    static const char *const texts[] = {"null",
                                        "true",
                                        "0",
                                        "-1",
                                        "9223372036854775807",
                                        "1.25",
                                        "1e300",
                                        "\"\"",
                                        "\"\\u0000\"",
                                        "[]",
                                        "{}",
                                        "[[]]",
                                        "[{}]",
                                        "[null]",
                                        "[null,null]",
                                        "{\"a\":null}",
                                        "{\"1\":\"x\"}",
                                        "{\"\":[]}",
                                        "[1,[2,[3,{}]]]",
                                        "{\"a\":{\"b\":[1,2,{\"c\":\"\\u00e4\"}]},\"d\":[]}",
                                        "123456789012345678901234567890"};
    struct vm *vm = run_vm(VM_SANDBOX);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        round_trip(vm, texts[i]);
    }
    vm_close(vm);
}

TEST(an_array_from_json_stays_one_when_emptied_and_filled)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_LUA(vm, "local a = json.decode('[1]') a[1] = nil return json.encode({a = a})",
              "{\"a\":[]}");
    CHECK_LUA(vm, "local a = json.decode('[]') table.insert(a, 'x') return json.encode(a) .. #a",
              "[\"x\"]1");
    CHECK_LUA(vm, "return json.encode(json.decode('{}'))", "{}");
    CHECK_LUA(vm, "return getmetatable(json.decode('[]'))", "array");
    vm_close(vm);
}

TEST(the_json_library_encodes_and_decodes)
{
    struct vm *vm = run_vm(VM_SANDBOX);
    CHECK_LUA(vm, "return json.encode({1, 'x', true})", "[1,\"x\",true]");
    CHECK_LUA(vm, "return json.encode({1}, 2)", "[\n  1\n]");
    CHECK_LUA(vm, "return select(2, json.encode({f = print}))",
              "value.f: a function cannot be sent");
    CHECK_LUA(vm, "return json.decode('{\"a\":[1,2]}').a[2]", "2");
    CHECK_LUA(vm, "return tostring(json.decode('null') == json.null)", "true");
    CHECK_LUA(vm, "local v, m = json.decode('[1,') return tostring(v) .. type(m)", "nilstring");
    CHECK_LUA(vm, "return json.decode('{\"a\":1,\"a\":2}').a", "2");
    CHECK_FAILS(vm, "json.array(setmetatable({}, {}))", "metatable already");
    vm_close(vm);
}
