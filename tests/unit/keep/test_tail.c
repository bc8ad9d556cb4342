#include "keep/tail.h"
#include "unit/test.h"

TEST(the_last_bytes_are_found_by_their_offset)
{
    struct tail t;
    char text[16];
    tail_init(&t, 8);
    tail_add(&t, STR("abcdef"));
    CHECK_INT(tail_start(&t), 0);
    CHECK_SPAN(tail_from(&t, 2, 100), "cdef");
    tail_add(&t, STR("ghij"));
    CHECK_INT(t.end, 10);
    CHECK_INT(tail_start(&t), 2);
    size_t n = 0;
    for (uint64_t at = 2; at < t.end;) { // in two pieces: it goes round
        struct str piece = tail_from(&t, at, 3);
        CHECK(piece.n != 0);
        memcpy(text + n, piece.p, piece.n);
        n += piece.n;
        at += piece.n;
    }
    text[n] = '\0';
    CHECK_STR(text, "cdefghij");
    CHECK_INT(tail_from(&t, t.end, 10).n, 0);
    tail_add(&t, STR("0123456789ABCDEF"));
    CHECK_INT(t.end, 26);
    CHECK_INT(tail_start(&t), 18);
    CHECK_INT(tail_from(&t, 18, 1).p[0], '8');
    tail_fini(&t);
}
