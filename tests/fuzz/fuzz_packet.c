// Packets of the compiler for web sides: what can be read is written and read again as the same value.

#include <assert.h>

#include "front/front_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct packet p, q;
    if (packet__read(&p, &a, (struct str){(const char *)data, size})) {
        struct buf out = {.max = SIZE_MAX};
        packet__write(&out, p.id, p.is_request, p.value);
        bool again = packet__read(&q, &a, str_from(buf_str(&out), 4));
        assert(again && q.id == p.id && q.is_request == p.is_request);
        assert(q.value->type == p.value->type && q.value->n == p.value->n);
        buf_fini(&out);
    }
    arena_fini(&a);
    return 0;
}
