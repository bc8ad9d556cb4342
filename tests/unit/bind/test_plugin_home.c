// What of a plugin outlives its Lua state: when it is gone for a while, and when the state is full.

#include "bind/plugin_int.h"
#include "unit/bind/plug.h"

#define TOOL(name)      plug_call(GEN_TOOL, name, "{}")
#define HAS(text, part) (strstr(text, part) != NULL)

// One that fills its state when it is told to, keeps a number, and waits when it is told to.
#define HOARDER                                                                                    \
    "local t = state.get('t', {n = 0})\n"                                                          \
    "t.n = t.n + 1\n"                                                                              \
    "hoard = {}\n"                                                                                 \
    "tool{name = 'n', run = function() return t.n end}\n"                                          \
    "tool{name = 'fill', run = function() for i = 1, 1e9 do hoard[i] = {i} end end}\n"             \
    "tool{name = 'wait', run = function() log.info('waits') timer.sleep(3600) end}\n"

static const char *const small[] = {"limits.memory_mb=4", "limits.lua_ms=20000", NULL};

static size_t homes(void)
{
    return rig.bind->plugins->homes.n;
}

static bool is_dead(const char *name)
{
    const struct plugin__version *v = map_get(&rig.bind->plugins->live, str_of(name));
    return v->head.runner->dead(&v->head);
}

TEST(a_plugin_that_is_gone_keeps_its_data_and_no_lua_state)
{
    plug_open(NULL);
    plug_load("x", "local C = state.class('C') function C.hi(c) return c.n end "
                   "state.set('one', setmetatable({n = 5}, C)) state.set('list', {1, 2})");
    plug_remove("x");
    rig_settle();
    CHECK_INT(homes(), 0);
    plug_load("x", "local C = state.class('C') function C.hi(c) return 'n' .. c.n end "
                   "tool{name='t', run=function() "
                   "return state.get('one'):hi() .. #state.get('list') end}");
    CHECK_STR(TOOL("t"), "{\"output\":\"n52\",\"success\":true}");
    CHECK(plug_diag("x") == NULL);
    plug_close();
}

TEST(what_could_not_be_carried_is_one_diagnostic_and_said_once)
{
    plug_open(NULL);
    plug_load("x", "state.set('k', {a = 1, f = print})");
    plug_remove("x");
    rig_settle();
    CHECK(HAS(plug_fault("x", "error('no')")->message, "no")); // that is not the one that is told
    rig_settle();
    plug_load("x", "tool{name='t', run=function() return state.get('k').a end}");
    const struct gen_diag *d = plug_diag("x");
    CHECK(d != NULL && d->code == DIAG_CHANGE_DROPPED && HAS(d->message, "k.f (function)"));
    CHECK_STR(TOOL("t"), "{\"output\":\"1\",\"success\":true}");
    plug_load("x", "tool{name='t', run=function() return state.get('k').a end} --");
    CHECK(plug_diag("x") == NULL);
    plug_close();
}

TEST(a_failed_first_load_changes_nothing_of_what_is_kept)
{
    plug_open(NULL);
    plug_load("x", "state.set('k', 'old')");
    plug_remove("x");
    rig_settle();
    plug_fault("x", "state.set('k', 'new') error('no')");
    plug_load("x", "tool{name='t', run=function() return state.get('k') end}");
    CHECK_STR(TOOL("t"), "{\"output\":\"old\",\"success\":true}");
    plug_close();
}

TEST(a_full_state_is_made_anew_with_the_plain_data)
{
    plug_open(small);
    plug_load("y",
              "state.set('k', 1) tool{name='other', run=function() return state.get('k') end}");
    plug_load("x", HOARDER "state.set('f', {g = print})");
    CHECK(HAS(TOOL("fill"), "memory"));
    CHECK(is_dead("x") && !is_dead("y"));
    plug_load("x", HOARDER "state.set('f', {g = print})");
    const struct gen_diag *d = plug_diag("x");
    CHECK(d != NULL && d->code == DIAG_MEMORY_LIMIT && HAS(d->message, "lost: f.g (function)"));
    CHECK(!is_dead("x"));
    CHECK_STR(TOOL("n"), "{\"output\":\"2\",\"success\":true}");
    CHECK_STR(TOOL("other"), "{\"output\":\"1\",\"success\":true}");
    CHECK_INT(plug_unit("y")->revision, 1);
    rig_settle();
    CHECK_INT(homes(), 2);
    plug_close();
}

TEST(code_that_fills_its_state_again_and_again_is_not_run_until_it_changes)
{
    plug_open(small);
    for (int i = 0; i < 4; i++) {
        plug_load("x", HOARDER); // serves again after each of the first three
        TOOL("fill");
    }
    const struct gen_diag *d = plug_fault("x", HOARDER);
    CHECK(d->code == DIAG_MEMORY_LIMIT && HAS(d->message, "until it changes"));
    plug_load("x", HOARDER "--");
    CHECK_STR(TOOL("n"), "{\"output\":\"5\",\"success\":true}");
    TOOL("fill"); // it is another one: it may be full once again
    plug_load("x", HOARDER "--");
    plug_close();
}

static void on_stale(struct gen_call *c, int status, const struct json *v, const struct err *e)
{
    (void)v;
    CHECK(status < 0 && e != NULL);
    *(bool *)c->arg = true;
}

TEST(calls_in_a_full_state_end_when_the_new_one_serves)
{
    bool ended = false;
    plug_open(small);
    plug_load("x", HOARDER);
    struct gen *g = gen_pin(gen_current(rig.engine));
    struct gen_item *it = gen_item_find(g, GEN_TOOL, STR("wait"));
    const struct json none = {.type = JSON_OBJ};
    struct gen_call c = {.input = &none, .done = on_stale, .arg = &ended};
    ((const struct gen_target *)gen_item_face(it))->call(gen_item_data(it), &c);
    while (plug_said("x", "waits") == 0) {
        loop_run_once(&l, true);
    }
    TOOL("fill");
    CHECK(!ended);
    plug_load("x", HOARDER);
    CHECK(ended);
    gen_unpin(g);
    CHECK_STR(TOOL("n"), "{\"output\":\"2\",\"success\":true}");
    plug_close();
}

TEST(a_version_that_fits_only_alone_gets_a_state_of_its_own)
{
    static const char big[] = "keep = {} for i = 1, 30000 do keep[i] = {i} end "
                              "tool{name='t', run=function() return #keep end} --%d";
    char first[256], second[256];
    snprintf(first, sizeof first, big, 1);
    snprintf(second, sizeof second, big, 2);
    plug_open(small);
    plug_load("x", first);
    plug_load("x", second);
    CHECK_STR(TOOL("t"), "{\"output\":\"30000\",\"success\":true}");
    CHECK(!is_dead("x"));
    plug_close();
}

TEST(a_dry_run_that_fills_its_state_is_nothing_to_the_plugin)
{
    plug_open(small);
    plug_load("x", HOARDER);
    plug_try("x", "h = {} for i = 1, 1e9 do h[i] = {i} end", true);
    rig_settle();
    CHECK_STR(gen_last_report(rig.engine)->trigger, "test"); // nobody asked for more
    CHECK(!is_dead("x"));
    CHECK_STR(TOOL("n"), "{\"output\":\"1\",\"success\":true}");
    plug_close();
}

// ---- arguments of hooks -------------------------------------------------------------------------

// Its first handler of `e` waits until `go`; the second logs the arguments.
#define WAITER                                                                                     \
    "hooks.on('e', 'wait', function() while not went do timer.sleep(0.001) end end,\n"             \
    "         {timeout_ms = 60000})\n"                                                             \
    "hooks.on('e', 'look', function(t, none, s) log.info(t.n .. tostring(none) .. s) end)\n"       \
    "hooks.on('go', 'go', function() went = true end)\n"                                           \
    "hooks.intercept('may', 'may', function() return opened end)\n"                                \
    "hooks.on('open', 'open', function() opened = true end)\n"
#define NOTIFY "hooks.notify('e', {n = 1}, nil, 'x')\n"

/// Let the waiting handler of `e` end; the next one gets the arguments of a state that is closed.
static void check_go(void)
{
    plug_load("end", "hooks.notify('go')");
    while (plug_said("b", "1nilx") == 0) {
        loop_run_once(&l, true);
    }
    plug_close();
}

TEST(what_a_failed_load_notified_of_is_there_for_handlers_that_come_later)
{
    plug_open(NULL);
    plug_load("b", WAITER);
    plug_fault("a", NOTIFY "error('no')");
    rig_settle();
    CHECK_INT(homes(), 1);
    check_go();
}

TEST(what_a_dry_run_notified_of_is_there_for_handlers_that_come_later)
{
    plug_open(NULL);
    plug_load("b", WAITER);
    plug_try("a", NOTIFY, true);
    rig_settle();
    check_go();
}

TEST(what_a_removed_plugin_notified_of_is_there_for_handlers_that_come_later)
{
    plug_open(NULL);
    plug_load("b", WAITER);
    plug_load("a", "hooks.on('kick', 'kick', function()\n"
                   "  while not hooks.call('may', false) do timer.sleep(0.001) end\n" NOTIFY
                   "end, {timeout_ms = 60000})");
    plug_load("c", "hooks.notify('kick')");
    plug_remove("a");
    plug_load("c", "hooks.notify('open')");
    while (homes() != 2) { // until the state of `a` is closed
        loop_run_once(&l, true);
    }
    check_go();
}
