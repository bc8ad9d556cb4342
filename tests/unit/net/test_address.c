#include <arpa/inet.h>
#include <netinet/in.h>

#include "net/address.h"
#include "unit/test.h"

static bool is_public(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    char again[ADDRESS_TEXT];
    bool six = strchr(text, ':') != NULL;
    CHECK_INT(inet_pton(six ? AF_INET6 : AF_INET, text,
                        six ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr),
              1);
    const struct sockaddr *a = six ? (const void *)&v6 : (const void *)&v4;
    CHECK_STR(address_text(a, again), text);
    return address_is_public(a);
}

TEST(addresses_of_machines_and_networks_are_private)
{
    static const char *const list[] = {"0.0.0.0",
                                       "10.1.2.3",
                                       "100.64.0.1",
                                       "100.127.255.255",
                                       "127.0.0.1",
                                       "127.255.0.1",
                                       "169.254.169.254",
                                       "172.16.0.1",
                                       "172.31.255.255",
                                       "192.0.0.1",
                                       "192.168.1.1",
                                       "198.18.0.1",
                                       "198.19.255.255",
                                       "203.0.113.7",
                                       "224.0.0.1",
                                       "239.1.1.1",
                                       "240.0.0.1",
                                       "255.255.255.255",
                                       "::",
                                       "::1",
                                       "fe80::1",
                                       "fc00::1",
                                       "fd12:3456::1",
                                       "ff02::1",
                                       "::ffff:127.0.0.1",
                                       "::ffff:10.0.0.1",
                                       "64:ff9b::7f00:1",
                                       "64:ff9b::a9fe:a9fe",
                                       "2001::1",
                                       "2001:db8::1",
                                       "2002:7f00:1::1",
                                       "::127.0.0.1",
                                       "100::1"};
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        if (is_public(list[i])) {
            test_fail(__FILE__, __LINE__, "%s is public", list[i]);
        }
    }
}

TEST(others_are_public)
{
    static const char *const list[] = {"1.1.1.1",        "9.255.255.255",   "11.0.0.0",
                                       "100.63.255.255", "100.128.0.0",     "172.15.255.255",
                                       "172.32.0.0",     "192.167.255.255", "198.17.255.255",
                                       "198.20.0.0",     "223.255.255.255", "2606:4700::1111",
                                       "2a00:1450::1",   "::ffff:1.1.1.1",  "64:ff9b::101:101"};
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        if (!is_public(list[i])) {
            test_fail(__FILE__, __LINE__, "%s is private", list[i]);
        }
    }
    struct sockaddr unix_socket = {.sa_family = AF_UNIX};
    CHECK(!address_is_public(&unix_socket));
}
