#include <sys/stat.h>

#include "unit/bind/rig.h"

TEST(a_value_is_kept_for_its_unit_alone)
{
    rig_open();
    rig_load("lua:lib.x", "timer.after(0, function() say(store.set('k', {1, {a = true}})) "
                          "say(store.get('k')[2].a, store.get('none')) store.set('e', {}) "
                          "say(table.concat(store.keys(), ' '), #json.encode(store.get('k'))) "
                          "say(store.remove('e'), store.get('e'), #store.keys()) say('end') end)");
    rig_wait("end");
    CHECK_STR(buf_z(&rig.said), "true\ntrue nil\nk e 14\ntrue nil 1\nend\n");
    rig_run("say(store.get('k'))");
    CHECK_STR(buf_z(&rig.said), "nil\nend\n");
    rig_hush();
    rig_load("b", rig_code("say(json.encode(json.decode(fs.read("
                           "'%s/state/lua/lua=3alib.x.json'))))",
                           rig.home.dir));
    CHECK_STR(buf_z(&rig.said), "{\"k\":[1,{\"a\":true}]}\n");
    rig_close();
}

TEST(store_has_a_callback_form_and_checks_what_it_is_given)
{
    rig_open();
    rig_load("a", "store.set('k', 7, function(ok) say(ok) store.get('k', function(v) say('v', v) "
                  "store.keys(function(t) say(#t) store.remove('k', say) end) end) end)");
    rig_wait("v 7");
    rig_run("for _, f in ipairs{ function() store.get({}) end, function() store.set('x') end, "
            "function() store.get('') end } do say(select(2, pcall(f))) end "
            "say(store.set('x', {f = print})) local t = {} t.t = t say((store.set('x', t)))"
            "say(store.set('x', ('x'):rep(1100000)))");
    CHECK(strstr(buf_z(&rig.said), "store.get: key must be a string, not table") != NULL);
    CHECK(strstr(buf_z(&rig.said), "store.set: no value") != NULL);
    CHECK(strstr(buf_z(&rig.said), "store.get: a key has 1 to 256 bytes") != NULL);
    CHECK(strstr(buf_z(&rig.said), "nil store.set: value.f: a function cannot be sent") != NULL);
    CHECK(strstr(buf_z(&rig.said), "nil store.set: 'x' is larger than 1 MiB") != NULL);
    CHECK(strstr(rig_fault("b", "store.get('k')"), "cannot wait here") != NULL);
    rig_close();
}

TEST(a_key_without_a_value_has_the_given_default)
{
    rig_open();
    rig_load("a", "timer.after(0, function() store.set('k', false) say(store.get('k', 7), "
                  "store.get('none', 7)) "
                  "say(json.encode(store.get('none', {1, {}})), store.get('none', nil)) "
                  "say(store.get('none', print)) say(store.get('none', {f = print})) "
                  "store.get('none', 'later', function(v) say(v) say('end') end) end)");
    rig_wait("end");
    CHECK_STR(buf_z(&rig.said),
              "false 7\n[1,{}] nil\ntrue\nnil store.get: value.f: a function cannot be sent\n"
              "later\nend\n");
    rig_close();
}

TEST(a_default_that_is_too_large_as_json_is_refused)
{
    rig_open();
    rig_run("say(store.get('none', ('\"'):rep(9000000))) "
            "store.get('none', ('\"'):rep(1000), function(v) say('got', #v) end)");
    CHECK(rig_said("nil store.get: the default is larger than 16 MiB"));
    rig_wait("got 1000");
    rig_close();
}

TEST(a_query_is_bounded_within_one_row)
{
    rig_open();
    rig_write("db", "");
    rig_run(rig_code("local path = '%s' "
                     "say(#sqlite.query(path, 'SELECT hex(zeroblob(10))').rows[1][1]) "
                     "say(sqlite.query(path, 'SELECT zeroblob(20000000)')) "
                     "say(sqlite.query(path, 'SELECT zeroblob(4000000), zeroblob(4000000)')) "
                     "say('end')",
                     rig_path("db")));
    CHECK(rig_said("20"));
    CHECK(rig_said(rig_code("nil sqlite.query: '%s': string or blob too big", rig_path("db"))));
    CHECK(rig_said(
        rig_code("nil sqlite.query: '%s': the answer is larger than 16 MiB", rig_path("db"))));
    rig_close();
}

TEST(a_query_does_not_wait_for_a_pipe)
{
    rig_open();
    CHECK_INT(mkfifo(rig_path("pipe"), 0600), 0);
    rig_run(rig_code("say(sqlite.query('%s', 'SELECT 1')) say('end')", rig_path("pipe")));
    CHECK(rig_said(rig_code("nil sqlite.query: '%s': it is not a regular file", rig_path("pipe"))));
    rig_close();
}

TEST(arguments_of_a_query_are_never_dropped)
{
    static const char *const bad[] = {"{nil, 2}", "{a = 1}", "{{1}, 2}", "{1, {}}"};
    rig_open();
    rig_write("db", "");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        rig_run(rig_code("say(pcall(sqlite.query, '%s', 'SELECT ?1, ?2', %s)) say('end')",
                         rig_path("db"), bad[i]));
        CHECK(rig_said("false sqlite.query: args must be a list of plain values; "
                       "json.null stands for NULL"));
        rig_hush();
    }
    rig_run(
        rig_code("local path = '%s' say(sqlite.query(path, 'SELECT ?1', {})) "
                 "say(sqlite.query(path, 'SELECT ?1')) say(sqlite.query(path, 'SELECT 1', {2})) "
                 "local r = sqlite.query(path, 'SELECT ?1 IS NULL, ?2, ?3', {json.null, 2.5, 'x'}) "
                 "say(table.concat(r.rows[1], ' ')) say('end')",
                 rig_path("db")));
    const char *path = rig_path("db");
    CHECK(rig_said(rig_code("nil sqlite.query: '%s': wrong number of arguments: 1 expected, 0 "
                            "given; json.null stands for NULL",
                            path)));
    CHECK(rig_said(rig_code("nil sqlite.query: '%s': wrong number of arguments: 0 expected, 1 "
                            "given; json.null stands for NULL",
                            path)));
    CHECK(rig_said("1 2.5 x"));
    rig_close();
}
