// hub.state out of one Lua state and into another.

#include <lauxlib.h>

#include "unit/bind/lab.h"

static char lost[1024]; // what was left out

static void run(struct space *sp, const char *code, char *out, size_t size)
{
    struct entry en = {.budget_ms = 5000};
    lua_State *L = entry_begin(&en, sp->vm);
    bool ok = entry_push_chunk(&en, str_of(code), "@test") == 0 && entry_run(&en, 0) == ENTRY_DONE;
    const char *text = !ok                                      ? en.fault->message
                       : en.n_results > 0 && lua_isstring(L, 1) ? lua_tostring(L, 1)
                                                                : "";
    snprintf(out, size, "%s", text);
    entry_end(&en);
}

/// Run `fill` on one state, carry hub.state over as JSON text, and give what `look` returns on another.
static const char *carry_max(const char *fill, const char *look, size_t max)
{
    static char out[1024];
    struct arena a = {0};
    struct buf text, gone;
    struct json *parsed = NULL;
    struct err e = {0};
    lab_open(NULL);
    struct space *from = lab.modules->space, *to = space__open(lab.modules);
    buf_init(&text, SIZE_MAX);
    buf_init(&gone, SIZE_MAX);
    run(from, fill, out, sizeof out);
    CHECK_STR(out, "");
    json_write(&text, state_save(from->state, &a, max, &gone), 0);
    if (json_parse(&parsed, &a, buf_str(&text), NULL, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    state_restore(to->state, parsed);
    run(to, look, out, sizeof out);
    snprintf(lost, sizeof lost, "%s", buf_z(&gone));
    space__retire(to);
    buf_fini(&gone);
    buf_fini(&text);
    arena_fini(&a);
    lab_close();
    return out;
}

static const char *carry(const char *fill, const char *look)
{
    return carry_max(fill, look, SIZE_MAX);
}

TEST(plain_data_of_every_kind_is_carried)
{
    CHECK_STR(carry("state.set('t', {text = 'a', [1] = 2, [2.5] = true, [true] = 1 / 0, no = false,"
                    " none = json.null, low = math.mininteger, neg = -1 / 0, bytes = '\\255\\0x',"
                    " float = 1.0}) state.set('n', 7)",
                    "local t = state.get('t') return table.concat({t.text, t[1], tostring(t[2.5]),"
                    " tostring(t[true]), tostring(t.no), tostring(t.none == json.null),"
                    " tostring(t.low == math.mininteger), tostring(t.neg),"
                    " tostring(t.bytes == '\\255\\0x'), math.type(t.float), state.get('n')}, ' ')"),
              "a 2 true inf false true true -inf true float 7");
    CHECK_STR(lost, "");
}

TEST(nothing_is_carried_as_nothing)
{
    CHECK_STR(carry("", "return #state.keys() .. ''"), "0");
    CHECK_STR(lost, "");
}

TEST(tables_that_share_and_hold_each_other_keep_doing_so)
{
    CHECK_STR(carry("local s = {n = 1} s.me = s s[s] = 'key' state.set('a', {s = s})"
                    " state.set('b', s)",
                    "local a, b = state.get('a'), state.get('b') b.n = 5 return tostring(a.s == b)"
                    " .. tostring(b.me == b) .. b[b] .. a.s.n"),
              "truetruekey5");
    CHECK_STR(carry("local t = {} for i = 1, 100000 do t = {next = t} end state.set('deep', t)",
                    "local t, n = state.get('deep'), 0 while t.next do t = t.next n = n + 1 end"
                    " return n .. ''"),
              "100000");
}

TEST(arrays_stay_arrays_and_instances_have_their_class)
{
    CHECK_STR(carry("state.set('empty', json.array({})) local C = state.class('C') C.limit = 3"
                    " function C:hi() end state.set('one', setmetatable({name = 'x'}, C))",
                    "local C = state.class('C') function C:hi() return self.name .. C.limit end"
                    " return json.encode(state.get('empty')) .. state.get('one'):hi()"),
              "[]x3");
    CHECK_STR(lost, ""); // methods come with the file
}

TEST(what_cannot_be_carried_is_left_out_and_named)
{
    CHECK_STR(
        carry("state.set('job', {n = 1, done = function() end, deep = {list = {coroutine.create("
              "function() end)}}, odd = setmetatable({}, {})}) state.set('f', print)",
              "local j = state.get('job') return tostring(j.n) .. tostring(j.done) .."
              " #j.deep.list .. tostring(j.odd) .. #state.keys()"),
        "1nil0nil1");
    static const char *const names[] = {"job.done (function)", "job.deep.list[1] (thread)",
                                        "job.odd (a table with a metatable)", "f (function)"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK(strstr(lost, names[i]) != NULL);
    }
    carry("local t = {} for i = 1, 50 do t[i] = print end state.set('t', t)", "return ''");
    CHECK(strstr(lost, " and 42 more") != NULL);
}

TEST(of_too_much_the_largest_keys_go)
{
    CHECK_STR(carry_max("local t = {} for i = 1, 20000 do t[i] = 'text ' .. i end"
                        " state.set('huge', t) state.set('small', {n = 1}) state.set('n', 2)",
                        "return table.concat(state.keys(), ' ') .. state.get('small').n",
                        64 * 1024),
              "n small1");
    CHECK_STR(lost, "huge (too large)");
}

TEST(what_is_no_saved_state_is_passed_over)
{
    static const char *const texts[] = {
        "null",
        "{}",
        "{\"tables\": 1}",
        "{\"tables\": [1, null, []]}",
        "{\"tables\": [{\"pairs\": [1]}, {\"pairs\": {}}]}",
        "{\"tables\": [{\"pairs\": [{\"table\": 9}, 1, {\"float\": \"nan\"}, 1], \"meta\": 5}]}",
        "{\"tables\": [{\"pairs\": [\"a\", {\"table\": -1}, {\"hex\": 3}, {\"x\": 1}]}]}",
    };
    lab_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct space *sp = space__open(lab.modules);
        struct arena a = {0};
        struct json *v = NULL;
        char out[256];
        CHECK_INT(json_parse(&v, &a, str_of(texts[i]), NULL, NULL), 0);
        state_restore(sp->state, v);
        run(sp, "state.set('k', 1) return state.get('k') .. ''", out, sizeof out);
        CHECK_STR(out, "1");
        arena_fini(&a);
        space__retire(sp);
    }
    lab_close();
}
