#include "base/sha256.h"
#include "unit/test.h"

static const char *hex_of(struct str s)
{
    static char text[SHA256_HEX];
    uint8_t hash[SHA256_SIZE];
    sha256_of(s, hash);
    return sha256_hex(hash, text);
}

TEST(sha256_agrees_with_the_vectors_of_fips_180)
{
    CHECK_STR(hex_of(STR_NULL), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_STR(hex_of(STR("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_STR(hex_of(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK_STR(hex_of(STR("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")),
              "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST(sha256_of_a_million_letters_in_odd_pieces)
{
    struct sha256 s;
    uint8_t hash[SHA256_SIZE];
    char text[SHA256_HEX], piece[997];
    memset(piece, 'a', sizeof piece);
    sha256_init(&s);
    size_t left = 1000000;
    for (size_t n = 1; left != 0; n = n % sizeof piece + 1) {
        size_t part = n < left ? n : left;
        sha256_add(&s, piece, part);
        left -= part;
    }
    sha256_final(&s, hash);
    CHECK_STR(sha256_hex(hash, text),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(sha256_pads_right_at_every_length_around_a_block)
{
    // every length in one piece and byte by byte; the sum of all digests is one known digest
    struct sha256 all;
    char bytes[130], text[SHA256_HEX];
    sha256_init(&all);
    for (size_t n = 0; n < sizeof bytes; n++) {
        struct sha256 s;
        uint8_t whole[SHA256_SIZE], single[SHA256_SIZE];
        memset(bytes, (int)n, n);
        sha256_of((struct str){bytes, n}, whole);
        sha256_init(&s);
        for (size_t i = 0; i < n; i++) {
            sha256_add(&s, bytes + i, 1);
        }
        sha256_final(&s, single);
        CHECK(memcmp(whole, single, sizeof whole) == 0);
        sha256_add(&all, whole, sizeof whole);
    }
    uint8_t hash[SHA256_SIZE];
    sha256_final(&all, hash);
    CHECK_STR(sha256_hex(hash, text),
              "5f8908a7c79bf2d794fd61440e680bde6be7fd0c1f0192bb877dbed657fb7d91");
}

TEST(a_mac_is_that_of_the_standard)
{
    char hex[SHA256_HEX], long_key[131];
    uint8_t mac[SHA256_SIZE];
    sha256_hmac(STR("Jefe"), STR("what do ya want for nothing?"), mac); // RFC 4231, 4.3 and 4.7
    CHECK_STR(sha256_hex(mac, hex),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(long_key, 0xaa, sizeof long_key);
    sha256_hmac((struct str){long_key, sizeof long_key},
                STR("Test Using Larger Than Block-Size Key - Hash Key First"), mac);
    CHECK_STR(sha256_hex(mac, hex),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
