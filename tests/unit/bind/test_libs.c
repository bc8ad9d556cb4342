// The libraries over the backend of the hub.

#include "unit/bind/rig.h"
#include "unit/lua/libs_suite.h"

static void check_case(const char *name, const char *load, const char *body, const char *expected)
{
    rig_open();
    char *code =
        xasprintf("DIR = '%s/' %s %s timer.after(0, function() "
                  "local ok, v = pcall(function() %s end) say(json.encode(v)) say('end') end)",
                  test_dir(), SUITE_PRELUDE, load, body);
    rig_load("a", code);
    free(code);
    rig_wait("end");
    if (!rig_said(expected)) {
        test_fail(__FILE__, __LINE__, "%s: %s instead of %s", name, buf_z(&rig.said), expected);
    }
    rig_close();
}

TEST(the_libraries_do_what_the_suite_says)
{
#define CASE(name, load, body, expected) check_case(#name, load, body, expected);
#include "unit/lua/libs_suite.def"
}
