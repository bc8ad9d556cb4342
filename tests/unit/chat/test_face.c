#include <sys/stat.h>

#include "base/path.h"
#include "chat/face.h"
#include "unit/test.h"

static struct gauge gauge;
static struct buf out, fault;
static struct face *face;

static void feed(const char *event)
{
    struct arena a = {0};
    struct json *ev;
    CHECK_INT(json_parse(&ev, &a, str_of(event), NULL, NULL), 0);
    gauge_event(&gauge, json_str(json_get(ev, "type"), ""), ev);
    arena_fini(&a);
}

static void begin(void)
{
    struct arena a = {0};
    struct json *row;
    gauge_init(&gauge);
    buf_init(&out, SIZE_MAX);
    buf_init(&fault, SIZE_MAX);
    CHECK_INT(json_parse(&row, &a,
                         STR("{\"provider\": \"p\", \"model\": \"m\", \"permission\": \"ask\", "
                             "\"working_dir\": \"/home/u/nosuch\", \"usage\": {\"input\": 0}}"),
                         NULL, NULL),
              0);
    gauge_row(&gauge, row);
    arena_fini(&a);
    face = face_new(test_dir(), "/home/u");
}

static void end(void)
{
    face_free(face);
    buf_fini(&out);
    buf_fini(&fault);
}

/// Save a file of the user's; another size is another version, whatever the clock says.
static void save(const char *name, const char *text)
{
    char *path = path_join(test_dir(), name), *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(path);
    free(dir);
}

static const char *status(size_t cols)
{
    buf_clear(&out);
    buf_clear(&fault);
    face_update(face, &gauge, cols, &fault);
    face_status(face, &out, cols, COLOR_NONE);
    return buf_z(&out);
}

TEST(the_status_has_what_is_known)
{
    begin();
    feed("{\"type\": \"usage.updated\", \"usage\": {\"input\": 2500000}, "
         "\"context\": {\"used\": 2500000, \"window\": null}}");
    feed("{\"type\": \"env.applied\"}");
    CHECK_STR(status(80), "ask · p/m · ~/nosuch · context 2.5M · environment applied\n");
    feed("{\"type\": \"usage.updated\", \"usage\": {\"input\": 1, \"cost_usd\": 0.0123}, "
         "\"context\": {\"used\": 500, \"window\": 4000}}");
    CHECK_STR(status(80), "ask · p/m · ~/nosuch · context 12% · $0.0123 · environment applied\n");
    CHECK_STR(status(12), "ask · p/m ·…\n");
    CHECK_STR(face_prompt(face), "> ");
    gauge_init(&gauge);
    CHECK_STR(status(80), "");
    end();
}

TEST(a_saved_file_counts_at_once_and_gets_the_one_before)
{
    begin();
    CHECK_STR(status(80), "ask · p/m · ~/nosuch\n");
    save("lua/user/ui/status.lua",
         "return { status = function(s, next) return next(s) .. ' !' end, "
         "prompt = function(s) return s.permission .. '$ ' end }");
    CHECK(face_is_stale(face));
    CHECK_STR(status(80), "ask · p/m · ~/nosuch !\n");
    CHECK_STR(face_prompt(face), "ask$ ");
    CHECK(!face_is_stale(face));
    save("lua/ui/status.lua", "return { status = function(s) return 'mine ' .. s.cols end }");
    CHECK_STR(status(60), "mine 60 !\n");
    char *path = path_join(test_dir(), "lua/user/ui/status.lua");
    CHECK_INT(unlink(path), 0);
    free(path);
    CHECK_STR(status(60), "mine 60\n");
    CHECK_STR(face_prompt(face), "> ");
    end();
}

TEST(a_broken_file_keeps_the_last_good_one_and_says_where)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"return {\n  status = function(s) retrn 1 end }", "lua/user/ui/status.lua:2: "},
        {"\n\nerror('on purpose')", "lua/user/ui/status.lua:3: on purpose"},
        {"return 7", "lua/user/ui/status.lua: the file must return a table"},
        {"return { status = 'text' }", "lua/user/ui/status.lua: status must be a function"},
        {"return {\n status = function(s)\n return s.no.such end }", "lua/user/ui/status.lua:3: "},
        {"return { status = function() return {} end }", "status must return a text, not a table"},
        {"return { prompt = function() while true do end end }", "lua/user/ui/status.lua:1: "},
    };
    begin();
    save("lua/user/ui/status.lua", "return { status = function() return 'good' end }");
    CHECK_STR(status(80), "good\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        save("lua/user/ui/status.lua", rows[i].text);
        CHECK_STR(status(80), "good\n");
        if (strstr(buf_z(&fault), rows[i].says) == NULL) {
            test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", buf_z(&fault), rows[i].says);
        }
        CHECK_STR(status(80), "good\n");
        CHECK_INT(fault.n, 0); // said once
    }
    end();
}

TEST(what_fails_later_gives_way_to_the_shipped_file)
{
    begin();
    save("lua/user/ui/status.lua",
         "return { status = function(s) return 'used ' .. (s.busy and s.context.used or 0) end }");
    CHECK_STR(status(80), "used 0\n");
    gauge_begin(&gauge);
    CHECK_STR(status(80), "ask · p/m · ~/nosuch\n");
    CHECK(strstr(buf_z(&fault), "lua/user/ui/status.lua:1: ") != NULL);
    end();
}

TEST(a_text_cannot_command_the_terminal)
{
    begin();
    save("lua/user/ui/status.lua", "return { status = function() return 'a\\27[31mb\\nc' end, "
                                   "prompt = function() return ('long'):rep(50) end }");
    CHECK_STR(status(80), "a\\x1b[31mb\\nc\n");
    CHECK_STR(face_prompt(face), "> ");
    end();
}
