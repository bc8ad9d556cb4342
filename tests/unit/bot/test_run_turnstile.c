#include "bot/turnstile.h"
#include "unit/test.h"

struct guest {
    struct turnstile *t;
    int entered;
    struct guest *goes; // leaves as this one enters
};

static void enter(void *arg)
{
    struct guest *g = arg;
    g->entered++;
    if (g->goes != NULL) {
        turnstile_leave(g->t, g->goes);
    }
}

TEST(one_at_a_time_for_each_repository_in_the_order_of_coming)
{
    struct turnstile t = {0};
    struct guest a = {&t, 0, NULL}, b = {&t, 0, NULL}, c = {&t, 0, NULL}, other = {&t, 0, NULL};
    turnstile_enter(&t, "/r/.git", enter, &a);
    turnstile_enter(&t, "/r/.git", enter, &b);
    turnstile_enter(&t, "/r/.git", enter, &c);
    turnstile_enter(&t, "/q/.git", enter, &other);
    CHECK(a.entered == 1 && b.entered == 0 && c.entered == 0 && other.entered == 1);
    turnstile_leave(&t, &a);
    CHECK(b.entered == 1 && c.entered == 0);
    turnstile_leave(&t, &b);
    CHECK(c.entered == 1);
    turnstile_leave(&t, &c);
    turnstile_leave(&t, &other);
    CHECK_INT(t.guests.n, 0);
    turnstile_fini(&t);
}

TEST(who_waits_can_leave_and_lets_nobody_in)
{
    struct turnstile t = {0};
    struct guest a = {&t, 0, NULL}, b = {&t, 0, NULL}, c = {&t, 0, NULL};
    turnstile_enter(&t, "/r", enter, &a);
    turnstile_enter(&t, "/r", enter, &b);
    turnstile_enter(&t, "/r", enter, &c);
    turnstile_leave(&t, &b);
    CHECK(b.entered == 0 && c.entered == 0);
    turnstile_leave(&t, &b); // not there: nothing
    CHECK(c.entered == 0);
    turnstile_leave(&t, &a);
    CHECK_INT(c.entered, 1);
    turnstile_fini(&t);
}

TEST(the_next_one_may_leave_as_it_enters)
{
    struct turnstile t = {0};
    struct guest a = {&t, 0, NULL}, b = {&t, 0, &b}, c = {&t, 0, NULL};
    turnstile_enter(&t, "/r", enter, &a);
    turnstile_enter(&t, "/r", enter, &b);
    turnstile_enter(&t, "/r", enter, &c);
    turnstile_leave(&t, &a);
    CHECK(b.entered == 1 && c.entered == 1);
    turnstile_leave(&t, &c);
    turnstile_fini(&t);
}
