// Every fallible call of a reload fails once, and then for good: whichever it is, what serves is one
// whole set, and the next reload that can read finds everything.
//
// Looking, reading and keeping run on workers, so a point is not the same call in each run; what counts
// is that the n-th call fails for n = 1, 2, 3, ... until a whole reload has fewer calls than that.

#include <errno.h>
#include <stdio.h>

#include "lib/fault.h"
#include "unit/plugin/plugs.h"

enum { POINTS_MAX = 5000 };

struct ground {
    struct plugs h;
    unsigned version;     // written last
    unsigned long failed; // points
};

static bool serves(struct ground *g, unsigned version)
{
    char name[32];
    snprintf(name, sizeof name, "v%u", version);
    return plugs_has_tool(&g->h, name);
}

/// One plugin that changes between two that stay, in each form that a plugin can have.
static void set_up(struct ground *g)
{
    *g = (struct ground){.version = 1};
    plugs_home(&g->h);
    plugs_write(&g->h, "plugins/a.lua", "tool a\n");
    plugs_write(&g->h, "plugins/edited/init.lua", "tool v1\n");
    plugs_write(&g->h, "plugins/edited/more/part.lua", "-- 1\n");
    plugs_write(&g->h, "profiles/default/plugins/z/plugin.json",
                "{\"name\": \"zed\", \"server\": \"main.lua\"}");
    plugs_write(&g->h, "profiles/default/plugins/z/main.lua", "tool z\n");
    plugs_open(&g->h);
    CHECK(serves(g, 1) && plugs_has_tool(&g->h, "a") && plugs_has_tool(&g->h, "z"));
}

static void edit(struct ground *g)
{
    char text[32];
    snprintf(text, sizeof text, "tool v%u\n", ++g->version);
    plugs_write(&g->h, "plugins/edited/init.lua", text);
}

/// What serves is the set of before or the set of after.
static void check_whole(struct ground *g, unsigned long n)
{
    bool old = serves(g, g->version - 1), new = serves(g, g->version);
    if (old == new || !plugs_has_tool(&g->h, "a") || !plugs_has_tool(&g->h, "z")) {
        test_fail(__FILE__, __LINE__, "point %lu: old %d, new %d, a %d, z %d", n, old, new,
                  plugs_has_tool(&g->h, "a"), plugs_has_tool(&g->h, "z"));
    }
    CHECK(plugs_row(&g->h, "edited").unit != NULL);
}

/// Returns false when no call was left to fail.
static bool fail_at(struct ground *g, unsigned long n, bool forever)
{
    edit(g);
    fault_at(n, EIO, forever);
    plugs_reload(&g->h, false, false);
    check_whole(g, n);
    plugs_reload(&g->h, true, false); // after this one the versions of the first were kept, or not
    unsigned long hits = fault_hits();
    fault_off();
    check_whole(g, n);
    const struct gen_report *r = plugs_reload(&g->h, false, false);
    CHECK(r->ok);
    CHECK(serves(g, g->version) && !serves(g, g->version - 1));
    return hits != 0;
}

static void fail_everywhere(bool forever)
{
    struct ground g;
    set_up(&g);
    for (unsigned long n = 1; n < POINTS_MAX && fail_at(&g, n, forever); n++) {
        g.failed++;
    }
    printf("    %lu calls of a reload failed%s\n", g.failed, forever ? ", and all after them" : "");
    CHECK(g.failed > 0 && g.failed < POINTS_MAX - 1);
    plugs_close(&g.h);
    plugs_open(&g.h); // and what was kept is whole
    CHECK(serves(&g, g.version) && plugs_has_tool(&g.h, "a") && plugs_has_tool(&g.h, "z"));
    plugs_close(&g.h);
    plugs_fini(&g.h);
}

TEST(whatever_call_of_a_reload_fails_the_old_generation_or_the_new_one_serves)
{
    fail_everywhere(false);
}

TEST(a_disk_that_goes_away_in_the_middle_of_a_reload_takes_no_plugin_with_it)
{
    fail_everywhere(true);
}
