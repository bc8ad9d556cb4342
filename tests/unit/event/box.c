#include "unit/event/box.h"

void box_note(void *arg, int status, const struct err *e)
{
    struct box *b = arg;
    b->answered = true;
    b->status = status;
    if (e != NULL) {
        b->err = *e;
    }
}

int box_wait(struct box *b)
{
    while (!b->answered) {
        CHECK(loop_run_once(&b->loop, true) || b->answered);
    }
    b->answered = false;
    return b->status;
}

const struct loop_clock *box_clock; // NULL: the system's

int box_try_open(struct box *b, size_t ring)
{
    memset(b, 0, sizeof *b);
    CHECK_INT(loop_init(&b->loop, box_clock, NULL), 0);
    CHECK_INT(store_open(&b->store, &b->loop, &(struct store_opts){.home = test_dir()}, box_note, b,
                         NULL),
              0);
    CHECK_INT(box_wait(b), 0);
    CHECK_INT(event_open(&b->log, &b->loop, b->store, ring, box_note, b, NULL), 0);
    return box_wait(b);
}

void box_open(struct box *b, size_t ring)
{
    CHECK_INT(box_try_open(b, ring), 0);
}

void box_close(struct box *b)
{
    struct err e;
    event_close(b->log);
    store_close(b->store, box_note, b);
    CHECK_INT(box_wait(b), 0);
    while (loop_run(&b->loop)) {
    }
    if (loop_close(&b->loop, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}
