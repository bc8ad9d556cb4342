#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>

void random_bytes(void *out, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t more = getrandom((char *)out + got, n - got, 0);
        if (more < 0 && errno != EINTR) {
            fputs("afloat: the kernel gives no random bytes\n", stderr);
            abort();
        }
        got += more > 0 ? (size_t)more : 0;
    }
}

void random_hex(char *out, size_t size)
{
    uint8_t bytes[64];
    size_t n = size / 2;
    assert(size % 2 == 1 && n <= sizeof bytes);
    random_bytes(bytes, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
    explicit_bzero(bytes, sizeof bytes);
}
