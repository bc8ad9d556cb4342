// Records: fields on demand, what is read back, and what outlives its object.

#include "lua/record.h"
#include "unit/lua/run.h"

struct call {
    const char *tool;
    struct json *input;
    int reads; // of any field
};

static bool get_tool(const void *obj, struct json *out)
{
    const struct call *c = obj;
    ((struct call *)(uintptr_t)obj)->reads++;
    *out = (struct json){.type = JSON_STR, .s = str_of(c->tool)};
    return true;
}

static bool get_input(const void *obj, struct json *out)
{
    ((struct call *)(uintptr_t)obj)->reads++;
    *out = *((const struct call *)obj)->input;
    return true;
}

static bool get_error(const void *obj, struct json *out)
{
    (void)obj;
    (void)out;
    return false;
}

static int hello(lua_State *L)
{
    lua_pushliteral(L, "hello");
    return 1;
}

static void push_hello(lua_State *L, void *obj)
{
    (void)obj;
    lua_pushcfunction(L, hello);
}

enum { TOOL, INPUT, ERROR, HELLO };
static const struct record_field fields[] = {
    [TOOL] = {.name = "tool_name", .get = get_tool},
    [INPUT] = {.name = "input", .get = get_input},
    [ERROR] = {.name = "error", .get = get_error},
    [HELLO] = {.name = "hello", .push = push_hello},
};
static const struct record_type call_type = {"call", fields, 4};

struct fixture {
    struct vm *vm;
    struct arena arena;
    struct call call;
    struct entry en;
    record_id id;
    const struct json *values[4];
    uint64_t changed;
    struct err e;
};

/// Run `source` with the record as its argument.
static enum entry_status run_record(struct fixture *f, const char *source)
{
    CHECK_INT(
        json_parse(&f->call.input, &f->arena, STR("{\"cmd\":\"ls\",\"n\":[1,2,3]}"), NULL, NULL),
        0);
    f->call.tool = "shell";
    f->vm = run_vm(VM_USER);
    f->en = (struct entry){.budget_ms = 5000};
    entry_begin(&f->en, f->vm);
    CHECK_INT(entry_push_chunk(&f->en, str_of(source), "@r.lua"), 0);
    f->id = record_push(f->en.L, &call_type, &f->call);
    return entry_run(&f->en, 1);
}

static void end(struct fixture *f)
{
    record_drop(f->vm, f->id);
    entry_end(&f->en);
    vm_close(f->vm);
    arena_fini(&f->arena);
}

static int read_back(struct fixture *f)
{
    return record_read(f->vm, f->id, &f->arena, f->values, &f->changed, &f->e);
}

TEST(a_field_is_fetched_once_and_only_when_read)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "local c = ... return c.tool_name .. c.tool_name .. type(c)"),
              ENTRY_DONE);
    CHECK_STR(lua_tostring(f.en.L, -1), "shellshelltable");
    CHECK_INT(f.call.reads, 1);
    CHECK(record_touched(f.vm, f.id));
    end(&f);
    struct fixture g = {0};
    CHECK_INT(run_record(&g, "local c = ..."), ENTRY_DONE);
    CHECK_INT(g.call.reads, 0);
    CHECK(!record_touched(g.vm, g.id));
    CHECK_INT(read_back(&g), 0);
    CHECK_INT(g.changed, 0);
    end(&g);
}

TEST(pairs_and_length_work_and_hide_what_is_ours)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "local c, n = ..., {}\n"
                             "for k, v in pairs(c) do n[#n + 1] = k .. '=' .. type(v) end\n"
                             "table.sort(n)\n"
                             "return table.concat(n, ' ') .. ' ' .. #c.input.n"),
              ENTRY_DONE);
    CHECK_STR(lua_tostring(f.en.L, -1), "hello=function input=table tool_name=string 3");
    end(&f);
}

TEST(only_what_differs_is_read_back)
{
    struct fixture f = {0};
    CHECK_INT(
        run_record(&f,
                   "local c = ... local _ = c.tool_name c.input.n[4] = 4 c.error = 'e' return c"),
        ENTRY_DONE);
    CHECK(record_is(f.en.L, -1, f.id));
    CHECK_INT(read_back(&f), 0);
    CHECK_INT(f.changed, 1 << INPUT | 1 << ERROR);
    CHECK_INT(json_get(f.values[INPUT], "n")->n, 4);
    CHECK_SPAN(f.values[ERROR]->s, "e");
    CHECK_INT(f.call.input->n, 2); // the object itself is as it was
    end(&f);
}

TEST(a_removed_field_stays_removed_and_is_told)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "local c = ... local _ = c.tool_name c.tool_name = nil c.input = nil\n"
                             "return tostring(c.tool_name) .. tostring(c.input)"),
              ENTRY_DONE);
    CHECK_STR(lua_tostring(f.en.L, -1), "nilnil");
    CHECK_INT(read_back(&f), 0);
    CHECK_INT(f.changed, 1 << TOOL | 1 << INPUT);
    CHECK(f.values[TOOL] == NULL && f.values[INPUT] == NULL);
    end(&f);
}

TEST(what_cannot_be_read_back_is_named)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "local c = ... c.input = {f = print} return c"), ENTRY_DONE);
    CHECK_INT(read_back(&f), ERR_INVALID);
    CHECK_STR(f.e.msg, "call.input: value.f: a function cannot be sent");
    end(&f);
}

TEST(an_unknown_field_is_nil_to_read_and_an_error_to_write)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "local c = ... local _ = c.nothing c.inptu = 1"), ENTRY_FAILED);
    CHECK_STR(f.en.fault->message, "'call' has no field 'inptu' (did you mean 'input'?)");
    end(&f);
}

TEST(another_table_is_not_the_record)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "return {tool_name = 'x'}"), ENTRY_DONE);
    CHECK(!record_is(f.en.L, -1, f.id));
    CHECK(!record_is(f.en.L, -1, 0));
    end(&f);
}

TEST(a_record_that_was_kept_reads_no_freed_object)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "kept = ... local _ = kept.tool_name"), ENTRY_DONE);
    record_drop(f.vm, f.id);
    CHECK_LUA(f.vm, "return kept.tool_name", "shell");
    CHECK_FAILS(f.vm, "return kept.input", "this 'call' belongs to a call that has ended");
    CHECK_LUA(f.vm, "return json.encode(kept)", "{\"tool_name\":\"shell\"}");
    struct call other = f.call;
    other.tool = "other";
    record_id id = record_push(vm_main(f.vm), &call_type, &other); // takes the same place
    lua_pop(vm_main(f.vm), 1);
    CHECK_FAILS(f.vm, "return kept.input", "has ended");
    record_drop(f.vm, id);
    end(&f);
}

TEST(a_record_that_was_kept_unread_is_never_the_next_one)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "kept = ..."), ENTRY_DONE);
    record_drop(f.vm, f.id);
    struct entry en = {.budget_ms = 5000};
    entry_begin(&en, f.vm);
    CHECK_INT(entry_push_chunk(&en, STR("assert(kept ~= ...) return kept.input"), "@r.lua"), 0);
    record_id id = record_push(en.L, &call_type, &f.call); // takes the same place
    CHECK_INT(entry_run(&en, 1), ENTRY_FAILED);
    CHECK_STR(en.fault->message, "this 'call' belongs to a call that has ended");
    record_drop(f.vm, id);
    entry_end(&en);
    end(&f);
}

TEST(a_table_made_in_the_place_of_a_record_is_not_the_record)
{
    // the record is collected while its handler runs; new tables may lie where it was
    struct fixture f = {0};
    CHECK_INT(run_record(&f,
                         "local c = ... c = nil collectgarbage()\n"
                         "local t = {} for i = 1, 1000 do t[i] = {} end return table.unpack(t)"),
              ENTRY_DONE);
    for (int i = 1; i <= f.en.n_results; i++) {
        CHECK(!record_is(f.en.L, i, f.id));
    }
    end(&f);
}

TEST(raw_access_sees_fields_only)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f,
                         "local c = ... return tostring(next(c)) .. tostring(rawget(c, 'input'))"
                         " .. getmetatable(c)"),
              ENTRY_DONE);
    CHECK_STR(lua_tostring(f.en.L, -1), "nilnilcall");
    end(&f);
}

TEST(a_record_inside_a_value_is_sent_whole)
{
    struct fixture f = {0};
    CHECK_INT(run_record(&f, "local c = ... c.hello = nil\nreturn json.encode({call = c})"),
              ENTRY_DONE);
    struct json *v;
    CHECK_INT(json_parse(&v, &f.arena, str_of(lua_tostring(f.en.L, -1)), NULL, NULL), 0);
    CHECK_SPAN(json_str(json_ptr(v, "/call/tool_name"), ""), "shell");
    CHECK_SPAN(json_str(json_ptr(v, "/call/input/cmd"), ""), "ls");
    end(&f);
}
