#pragma once

// The tiny test runner. Each TEST runs in a process of its own: a crash, a leak (ASan) or an open
// handle fails that test and no other.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_entry {
    const char *name;
    void (*run)(void);
};
extern const struct test_entry test_entries[]; // made by tools/unit_list.py

/// Say where and what, and end this test as failed.
_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/// A test that cannot run here says why; it is counted as skipped, not as passed.
_Noreturn void test_skip(const char *why);

/// A directory of this test's own, removed when the test ends.
const char *test_dir(void);

/// Where the public conformance data lies, or NULL: $AFLOAT_TEST_DATA, else ../shared/data beside
/// the source tree.
const char *test_data(void);

/// What this process has computed, in all its threads: other programs do not count.
uint64_t test_cpu_ns(void);
/// A clock that stands while this thread is ready to run and another has the processor, as far as the kernel says so.
uint64_t test_own_ns(void);

/// Bytes of the heap that are in use now, in all threads.
size_t test_heap_bytes(void);

/// How often a long loop runs: `quick` times in `make test`, $AFLOAT_LOOPS times as often in
/// `make soak`.
int test_loops(int quick);

#define TEST(name)                                                                                 \
    void test_##name(void);                                                                        \
    void test_##name(void)

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            test_fail(__FILE__, __LINE__, "%s", #x);                                               \
        }                                                                                          \
    } while (0)

#define CHECK_INT(a, b)                                                                            \
    do {                                                                                           \
        long long check_a = (long long)(a), check_b = (long long)(b);                              \
        if (check_a != check_b) {                                                                  \
            test_fail(__FILE__, __LINE__, "%s is %lld, not %lld (%s)", #a, check_a, check_b, #b);  \
        }                                                                                          \
    } while (0)

#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        const char *check_a = (a), *check_b = (b);                                                 \
        if (check_a == NULL || strcmp(check_a, check_b) != 0) {                                    \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #a,                          \
                      check_a ? check_a : "(null)", check_b);                                      \
        }                                                                                          \
    } while (0)

/// For a `struct str`.
#define CHECK_SPAN(a, b)                                                                           \
    do {                                                                                           \
        __typeof__(a) check_a = (a);                                                               \
        if (check_a.n != strlen(b) || (check_a.n != 0 && memcmp(check_a.p, b, check_a.n) != 0)) {  \
            test_fail(__FILE__, __LINE__, "%s is \"%.*s\", not \"%s\"", #a, (int)check_a.n,        \
                      check_a.p ? check_a.p : "", b);                                              \
        }                                                                                          \
    } while (0)
