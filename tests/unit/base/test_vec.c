#include "base/vec.h"
#include "unit/test.h"

TEST(a_vector_grows_and_keeps_the_order)
{
    vec(size_t) v = {0};
    for (size_t i = 0; i < 1000; i++) {
        vec_push(&v, v.n); // the count before the push
    }
    CHECK_INT(v.n, 1000);
    size_t want = 0;
    vec_foreach (it, &v) {
        CHECK_INT(*it, want);
        want++;
    }
    CHECK_INT(want, 1000);
    vec_fini(&v);
    CHECK(v.p == NULL && v.n == 0 && v.cap == 0);
}

TEST(an_element_may_be_pushed_again)
{
    vec(int) v = {0};
    vec_push(&v, 7);
    for (int i = 0; i < 100; i++) {
        vec_push(&v, v.p[0]);
    }
    CHECK_INT(*vec_last(&v), 7);
    vec_fini(&v);
}

TEST(removing_closes_the_gap)
{
    vec(char) v = {0};
    for (const char *c = "abcd"; *c != '\0'; c++) {
        vec_push(&v, *c);
    }
    vec_remove(&v, 1);
    vec_remove(&v, 2);
    CHECK_INT(v.n, 2);
    CHECK(v.p[0] == 'a' && v.p[1] == 'c');
    CHECK_INT(vec_pop(&v), 'c');
    vec_remove(&v, 0);
    CHECK_INT(v.n, 0);
    vec_fini(&v);
}

TEST(dropping_takes_the_first_equal_element_out)
{
    vec(int) v = {0};
    vec_drop(&v, 1); // of an empty one
    for (int i = 0; i < 6; i++) {
        vec_push(&v, i % 3);
    }
    vec_drop(&v, 1);
    vec_drop(&v, 7); // which it does not have
    CHECK_INT(v.n, 5);
    CHECK(v.p[0] == 0 && v.p[1] == 2 && v.p[2] == 0 && v.p[3] == 1 && v.p[4] == 2);
    vec_fini(&v);
}

TEST(an_empty_vector_has_nothing_to_walk)
{
    vec(int) v = {0};
    int seen = 0;
    vec_foreach (it, &v) {
        seen += 1 + *it;
    }
    CHECK_INT(seen, 0);
    vec_reserve(&v, 100);
    CHECK(v.cap >= 100 && v.n == 0);
    vec_fini(&v);
}

TEST(each_element_is_freed_with_the_array)
{
    vec(char *) words = {0};
    vec_push(&words, xstrdup("one"));
    vec_push(&words, xstrdup("two"));
    vec_fini_each(&words, free);
    CHECK(words.p == NULL && words.n == 0);
}
