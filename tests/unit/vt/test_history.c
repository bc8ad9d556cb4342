
#include "base/vec.h"
#include "unit/test.h"
#include "vt/history.h"

/// A line of `n` cells, made of its number; every third one is red.
static void fill(struct vt_cell *cells, int n, unsigned number)
{
    for (int i = 0; i < n; i++) {
        cells[i] = (struct vt_cell){.text = 'a' + (number + (unsigned)i) % 26, .width = 1};
        cells[i].fg = number % 3 == 0 && i % 5 != 0 ? VT_INDEXED | 1 : 0;
    }
}

struct pushed {
    unsigned number;
    vec(int) parts; // cells of each row of the line
};

/// The newest line is the one that was pushed; it is taken out.
static void check_newest(struct history *h, struct clusters *c, const struct pushed *want)
{
    struct vt_cells got = {0};
    struct vt_cell cells[400];
    bool mark;
    size_t at = 0;
    CHECK(history_pop(h, c, &got, &mark));
    CHECK_INT(mark, want->number % 2);
    for (size_t i = 0; i < want->parts.n; i++) {
        fill(cells, want->parts.p[i], want->number);
        for (int k = 0; k < want->parts.p[i]; k++, at++) {
            CHECK(at < got.n && got.p[at].text == cells[k].text && got.p[at].fg == cells[k].fg);
        }
    }
    CHECK_INT(got.n, at);
    vec_fini(&got);
}

TEST(lines_come_back_as_they_were_pushed_whatever_block_they_are_in)
{
    struct history h;
    struct clusters c = {0};
    struct vt_cell cells[400];
    vec(struct pushed) lines = {0};
    uint64_t seed = 7;
    history_init(&h, 300);
    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned chance = (unsigned)(seed >> 33);
        if (chance % 5 == 0 && h.n != 0) {
            struct pushed last = vec_pop(&lines);
            check_newest(&h, &c, &last);
            vec_fini(&last.parts);
            continue;
        }
        bool goes_on = history_is_open(&h) && chance % 3 != 0;
        int n = chance % 7 == 0 ? 0 : (int)(chance / 7 % 400);
        if (!goes_on && history_is_open(&h)) {
            history_push(&h, &c, cells, 0, false, false);
            vec_push(&lines.p[lines.n - 1].parts, 0);
        }
        if (!goes_on) {
            vec_push(&lines, ((struct pushed){.number = i}));
        }
        struct pushed *l = &lines.p[lines.n - 1];
        fill(cells, n, l->number);
        history_push(&h, &c, cells, n, chance % 11 < 4 && l->parts.n < 30, l->number % 2 != 0);
        vec_push(&l->parts, n);
        CHECK(h.n <= 300 && h.n <= lines.n);
    }
    CHECK(h.n > 10 && lines.n > 300); // some were dropped at the other end
    while (h.n != 0) {
        struct pushed last = vec_pop(&lines);
        check_newest(&h, &c, &last);
        vec_fini(&last.parts);
    }
    CHECK(h.oldest == NULL && h.newest == NULL && h.bytes == 0);
    vec_foreach (l, &lines) {
        vec_fini(&l->parts);
    }
    vec_fini(&lines);
    history_fini(&h);
}

TEST(a_full_history_takes_no_more_memory_whatever_follows)
{
    struct vt *v = vt_new(24, 80, VT_HISTORY_DEFAULT, NULL, NULL);
    size_t full = 0;
    for (int i = 0; i < 5 * VT_HISTORY_DEFAULT; i++) {
        char line[128];
        int n =
            snprintf(line, sizeof line,
                     "\033[1m\033[32m%6d\033[0m \033[34mdrwxr-xr-x\033[m src/\033[1;35mmodule_%d.c"
                     "\033[m: \033[31merror:\033[0m expected value\r\n",
                     i, i % 97);
        vt_feed(v, (struct str){line, (size_t)n}, NULL);
        if (i == VT_HISTORY_DEFAULT + 500) {
            full = test_heap_bytes();
        }
    }
    CHECK(test_heap_bytes() < full + 40000); // a block or two, and longer numbers
    CHECK_INT(vt_history(v), VT_HISTORY_DEFAULT);
    vt_free(v);
}
