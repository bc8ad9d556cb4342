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
