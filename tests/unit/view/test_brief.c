// A report in a chat: a tool that saves a plugin answers with one, and people read what changed, not its JSON.

#include "unit/test.h"
#include "view/brief.h"

TEST(a_report_is_told_in_short_lines)
{
    struct buf out = {.max = SIZE_MAX};
    CHECK(brief_report(
        &out, STR("{\"generation\":2,\"plugins\":[{\"name\":\"dice\",\"state\":\"added\"},"
                  "{\"name\":\"log\",\"state\":\"failed\"}],"
                  "\"diagnostics\":[{\"code\":\"LOAD_FAILED\",\"message\":\"log.lua:3: no\"}]}")));
    CHECK_STR(buf_z(&out), "generation 2: dice added, log failed\nLOAD_FAILED: log.lua:3: no");
    buf_clear(&out);
    CHECK(brief_report(&out, STR("{\"generation\":2,\"plugins\":[]}")));
    CHECK_STR(buf_z(&out), "generation 2");
    buf_fini(&out);
}

TEST(what_is_no_report_is_left_alone)
{
    struct buf out = {.max = SIZE_MAX};
    CHECK(!brief_report(&out, STR("")));
    CHECK(!brief_report(&out, STR("plain text")));
    CHECK(!brief_report(&out, STR("{\"generation\":")));
    CHECK(!brief_report(&out, STR("{\"generation\":2}")));
    CHECK_INT(out.n, 0);
    buf_fini(&out);
}
