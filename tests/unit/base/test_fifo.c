#include "base/fifo.h"
#include "unit/test.h"

struct item {
    int value;
    struct item *next;
};

TEST(a_queue_gives_back_in_the_order_of_adding)
{
    fifo(struct item) q = {0};
    struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    CHECK(fifo_take(&q) == NULL);
    fifo_add(&q, &items[0]);
    fifo_add(&q, &items[1]);
    CHECK(fifo_take(&q) == &items[0]);
    CHECK(items[0].next == NULL);
    fifo_add(&q, &items[2]);
    CHECK(fifo_take(&q) == &items[1]);
    CHECK(fifo_take(&q) == &items[2]);
    CHECK(fifo_take(&q) == NULL);
    fifo_add(&q, &items[0]);
    CHECK(fifo_take_all(&q) == &items[0]);
    CHECK(q.head == NULL);
}

TEST(an_emptied_queue_and_one_without_its_last_go_on)
{
    fifo(struct item) q = {0};
    struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct item *none = NULL;
    fifo_add(&q, &items[0]);
    fifo_add(&q, &items[1]);
    fifo_remove(&q, &items[0], &items[1]);
    fifo_add(&q, &items[2]);
    CHECK(q.head == &items[0] && items[0].next == &items[2] && items[2].next == NULL);
    fifo_remove(&q, none, &items[0]);
    fifo_remove(&q, none, &items[2]);
    CHECK(q.head == NULL);
    fifo_add(&q, &items[1]);
    CHECK(q.head == &items[1] && q.last == &items[1]);
}

TEST(a_queue_moves_to_the_end_of_another)
{
    fifo(struct item) q = {0}, more = {0};
    struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    fifo_append(&q, &more);
    CHECK(q.head == NULL);
    fifo_add(&more, &items[0]);
    fifo_append(&q, &more);
    CHECK(q.head == &items[0] && more.head == NULL);
    fifo_add(&more, &items[1]);
    fifo_append(&q, &more);
    fifo_add(&q, &items[2]);
    CHECK(items[0].next == &items[1] && items[1].next == &items[2]);
}
