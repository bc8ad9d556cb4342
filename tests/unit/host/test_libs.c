// The libraries over the backend of the far end. The test plays the hub: what a file emits comes back to it
// as an event.

#include "unit/host/far.h"
#include "unit/lua/libs_suite.h"

static void echo(const char *said)
{
    static const char emit[] = "\"op\":\"event.emit\",\"params\":{";
    const char *at = strstr(said, emit);
    if (at != NULL) {
        const char *end = strchr(at, '\n');
        char *line = xasprintf("{\"type\":\"event\",%.*s", (int)(end - at) - (int)sizeof emit,
                               at + sizeof emit - 1);
        far__line(&far, str_of(line));
        free(line);
    }
}

static void check_case(const char *name, const char *load, const char *body, const char *expected)
{
    far_begin();
    char *code = xasprintf("DIR = '' %s %s tool{name = 't', run = function() %s end}",
                           SUITE_PRELUDE, load, body);
    char *answer = xasprintf("{\"type\":\"result\",\"id\":1,\"value\":%s}\n", expected);
    CHECK_SAYS(far_load(code), "\"type\":\"loaded\"");
    far_say("{\"type\":\"event\",\"name\":\"plugin_start\",\"data\":{}}");
    const char *said = far_say("{\"type\":\"tool\",\"id\":1,\"name\":\"t\",\"input\":{}}");
    while (strstr(said, "\"id\":1,\"value\"") == NULL && strstr(said, "\"error\"") == NULL) {
        echo(said);
        said = far_turn();
    }
    if (strstr(said, answer) == NULL) {
        test_fail(__FILE__, __LINE__, "%s: %s instead of %s", name, said, expected);
    }
    free(answer);
    free(code);
    far_end();
}

TEST(the_libraries_do_what_the_suite_says)
{
#define CASE(name, load, body, expected) check_case(#name, load, body, expected);
#include "unit/lua/libs_suite.def"
}
