// What an address of the network is.
//
// The IPv4 table is what IANA lists as not globally reachable, with multicast and the rest of the upper end. Of
// IPv6 only 2000::/3 is assigned; the other table has its parts that are reserved or contain an IPv4 address.

#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const struct {
    uint8_t net[4];
    unsigned bits;
} reserved4[] = {
    {{0, 0, 0, 0}, 8},      {{10, 0, 0, 0}, 8},     {{100, 64, 0, 0}, 10}, {{127, 0, 0, 0}, 8},
    {{169, 254, 0, 0}, 16}, {{172, 16, 0, 0}, 12},  {{192, 0, 0, 0}, 24},  {{192, 0, 2, 0}, 24},
    {{192, 88, 99, 0}, 24}, {{192, 168, 0, 0}, 16}, {{198, 18, 0, 0}, 15}, {{198, 51, 100, 0}, 24},
    {{203, 0, 113, 0}, 24}, {{224, 0, 0, 0}, 4},    {{240, 0, 0, 0}, 4},
};

static const struct {
    uint8_t net[4];
    unsigned bits;
} reserved6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23}, // protocols: Teredo, benchmarks, ORCHID
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, // examples
    {{0x20, 0x02, 0x00, 0x00}, 16}, // 6to4: an IPv4 address inside
    {{0x3f, 0xff, 0x00, 0x00}, 20}, // examples
};

static bool is_in(const uint8_t *address, const uint8_t *net, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;
    return memcmp(address, net, bytes) == 0 &&
           (rest == 0 || (address[bytes] ^ net[bytes]) >> (8 - rest) == 0);
}

static bool is_public4(const uint8_t a[4])
{
    for (size_t i = 0; i < ARRAY_LEN(reserved4); i++) {
        if (is_in(a, reserved4[i].net, reserved4[i].bits)) {
            return false;
        }
    }
    return true;
}

static bool is_public6(const uint8_t a[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff},
                         nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    if (memcmp(a, mapped, sizeof mapped) == 0 || memcmp(a, nat64, sizeof nat64) == 0) {
        return is_public4(a + 12);
    }
    for (size_t i = 0; i < ARRAY_LEN(reserved6); i++) {
        if (is_in(a, reserved6[i].net, reserved6[i].bits)) {
            return false;
        }
    }
    return a[0] >> 5 == 1; // 2000::/3
}

bool address_is_public(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, a, sizeof v4);
        return is_public4((const uint8_t *)&v4.sin_addr);
    }
    if (a->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, a, sizeof v6);
        return is_public6(v6.sin6_addr.s6_addr);
    }
    return false;
}

const char *address_text(const struct sockaddr *a, char out[ADDRESS_TEXT])
{
    const void *bytes =
        a->sa_family == AF_INET6
            ? (const void *)((const char *)a + offsetof(struct sockaddr_in6, sin6_addr))
            : (const void *)((const char *)a + offsetof(struct sockaddr_in, sin_addr));
    if ((a->sa_family != AF_INET && a->sa_family != AF_INET6) ||
        inet_ntop(a->sa_family, bytes, out, ADDRESS_TEXT) == NULL) {
        snprintf(out, ADDRESS_TEXT, "?");
    }
    return out;
}
