#include "unit/hook/fake.h"

static void run_all(const struct hook_set *s, const char *point)
{
    fake_clear();
    fake_dispatch(s, point, HOOK_OBSERVE, NULL);
}

TEST(order_is_priority_then_rank_then_registration)
{
    struct fake f[5] = {{.id = "a"}, {.id = "b"}, {.id = "c"}, {.id = "d"}, {.id = "e"}};
    struct hook *h[5];
    for (int i = 0; i < 5; i++) {
        h[i] = fake_hook(&f[i], "x", HOOK_OBSERVE,
                         &(struct hook_spec){.terms.priority = i == 3   ? 10
                                                               : i == 0 ? -1
                                                                        : 0});
    }
    // d first (priority), a last; of b, c, e: e has the lower rank, b and c share one
    const struct hook_place places[] = {{h[0], 0}, {h[2], 5}, {h[1], 5}, {h[3], 9}, {h[4], 2}};
    struct hook_set *s = hook_set_new(places, 5, NULL);
    run_all(s, "x");
    CHECK_STR(fake_trace, "d e b c a");
    hook_set_free(s);
    for (int i = 0; i < 5; i++) {
        hook_unref(h[i]);
    }
}

TEST(order_is_the_same_whatever_order_the_handlers_come_in)
{
    struct fake f[40];
    struct hook *h[40];
    char expected[512] = "";
    static char ids[40][8];
    for (int i = 0; i < 40; i++) {
        snprintf(ids[i], sizeof ids[i], "h%d", i);
        f[i] = (struct fake){.id = ids[i]};
        h[i] = fake_hook(&f[i], "x", HOOK_OBSERVE, NULL);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%s",
                 i != 0 ? " " : "", ids[i]);
    }
    struct hook_place places[40];
    for (size_t i = 0; i < 40; i++) {
        places[i] = (struct hook_place){h[(i * 7) % 40], 0};
    }
    struct hook_set *s = hook_set_new(places, 40, NULL);
    run_all(s, "x");
    CHECK_STR(fake_trace, expected);
    hook_set_free(s);
    for (int i = 0; i < 40; i++) {
        hook_unref(h[i]);
    }
}

TEST(the_same_event_and_name_replaces)
{
    struct fake f[4] = {{.id = "old"}, {.id = "other"}, {.id = "new"}, {.id = "call"}};
    struct hook_spec named = {.name = STR("n")};
    struct hook *h[4] = {
        fake_hook(&f[0], "x", HOOK_OBSERVE, &named), fake_hook(&f[1], "y", HOOK_OBSERVE, &named),
        fake_hook(&f[2], "x", HOOK_OBSERVE, &named),
        fake_hook(&f[3], "x", HOOK_CHAIN, &named), // an interceptor is another thing
    };
    struct hook_set *s = fake_set(h, 4, NULL);
    run_all(s, "x");
    CHECK_STR(fake_trace, "new");
    CHECK_INT(f[0].releases, 1); // nothing lists it any more
    CHECK(hook_set_find(s, STR("x"), HOOK_OBSERVE, STR("n"))->terms.data == &f[2]);
    CHECK(hook_set_find(s, STR("x"), HOOK_CHAIN, STR("n"))->terms.data == &f[3]);
    CHECK(hook_set_find(s, STR("x"), HOOK_OBSERVE, STR("m")) == NULL);
    hook_set_free(s);
}

TEST(handlers_without_a_name_do_not_replace_each_other)
{
    struct fake f[2] = {{.id = "a"}, {.id = "b"}};
    struct hook *h[2] = {fake_hook(&f[0], "x", HOOK_OBSERVE, NULL),
                         fake_hook(&f[1], "x", HOOK_OBSERVE, NULL)};
    struct hook_set *s = fake_set(h, 2, NULL);
    run_all(s, "x");
    CHECK_STR(fake_trace, "a b");
    hook_set_free(s);
}

TEST(a_point_that_nobody_listens_to_has_no_list)
{
    struct fake f = {.id = "a"};
    struct hook *h = fake_hook(&f, "x", HOOK_OBSERVE, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    CHECK(hook_set_get(s, STR("y"), HOOK_OBSERVE) == NULL);
    CHECK(hook_set_get(s, STR("x"), HOOK_CHAIN) == NULL);
    CHECK(hook_set_get(s, STR(""), HOOK_OBSERVE) == NULL);
    hook_set_free(s);
}

TEST(a_name_of_any_length_is_found)
{
    char name[2001];
    memset(name, 'n', 2000);
    name[2000] = '\0';
    struct fake f = {.id = "a"};
    struct hook *h = fake_hook(&f, name, HOOK_OBSERVE, NULL);
    struct hook_set *s = fake_set(&h, 1, NULL);
    run_all(s, name);
    CHECK_INT(f.calls, 1);
    hook_set_free(s);
}

TEST(lists_can_be_walked)
{
    struct fake f[3] = {{.id = "a"}, {.id = "b"}, {.id = "c"}};
    struct hook *h[3] = {fake_hook(&f[0], "x", HOOK_OBSERVE, NULL),
                         fake_hook(&f[1], "y", HOOK_CHAIN, NULL),
                         fake_hook(&f[2], "x", HOOK_OBSERVE, NULL)};
    struct hook_set *s = fake_set(h, 3, NULL);
    const struct hook_list *l;
    size_t at = 0, lists = 0, hooks = 0;
    while ((l = hook_set_next(s, &at)) != NULL) {
        lists++;
        hooks += l->n;
    }
    CHECK_INT(lists, 2);
    CHECK_INT(hooks, 3);
    hook_set_free(s);
}
