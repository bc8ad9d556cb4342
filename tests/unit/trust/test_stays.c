#include "trust/stays.h"
#include "unit/test.h"

TEST(a_project_has_somebody_until_the_last_one_has_left)
{
    struct stays s;
    stays_init(&s);
    CHECK(!stays_has(&s, "/p"));
    stays_enter(&s, "/p/a", "/p");
    stays_enter(&s, "/p/a", "/p");
    stays_enter(&s, "/p/b", "/p");
    stays_enter(&s, "/tmp", NULL);
    stays_leave(&s, "/p/a");
    stays_leave(&s, "/p/b");
    CHECK(stays_has(&s, "/p"));
    stays_leave(&s, "/p/a");
    CHECK(!stays_has(&s, "/p"));
    stays_leave(&s, "/p/a"); // once too often
    CHECK(!stays_has(&s, "/p"));
    size_t at = 0;
    CHECK(str_eqz(stays_next(&s, &at), "/tmp"));
    CHECK(stays_next(&s, &at).p == NULL);
    stays_fini(&s); // somebody is still in /tmp
}

TEST(who_comes_later_says_for_all_which_project_it_is)
{
    struct stays s;
    stays_init(&s);
    stays_enter(&s, "/p/in", "/p");
    stays_enter(&s, "/p/x", "/p");
    stays_enter(&s, "/p/in", "/p/in"); // it has become one of its own
    CHECK(stays_has(&s, "/p") && stays_has(&s, "/p/in"));
    stays_leave(&s, "/p/x");
    CHECK(!stays_has(&s, "/p") && stays_has(&s, "/p/in"));
    stays_leave(&s, "/p/in");
    CHECK(stays_has(&s, "/p/in"));
    stays_leave(&s, "/p/in");
    CHECK(!stays_has(&s, "/p/in"));
    stays_fini(&s);
}
