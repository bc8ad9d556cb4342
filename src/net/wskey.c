// The handshake of WebSockets. SHA-1 is used for nothing else here: it only shows that the server has
// understood the question, it protects nothing.

#include "net/wskey.h"

#include "base/base64.h"

struct sha1 {
    uint32_t h[5];
};

static uint32_t rotate(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

static void add_block(struct sha1 *s, const unsigned char *p)
{
    uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
    for (unsigned i = 0; i < 16; i++) {
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    }
    for (unsigned i = 16; i < 80; i++) {
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999u
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1u
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu
                              : (b ^ c ^ d) + 0xca62c1d6u;
        uint32_t t = rotate(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = t;
    }
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

static void sha1(struct str text, unsigned char out[20])
{
    struct sha1 s = {{0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u}};
    struct buf padded = {.max = SIZE_MAX};
    uint64_t bits = (uint64_t)text.n * 8;
    buf_adds(&padded, text);
    buf_addc(&padded, (char)0x80);
    while (padded.n % 64 != 56) {
        buf_addc(&padded, '\0');
    }
    for (int i = 7; i >= 0; i--) {
        buf_addc(&padded, (char)(bits >> 8 * i & 255));
    }
    for (size_t i = 0; i < padded.n; i += 64) {
        add_block(&s, (const unsigned char *)padded.p + i);
    }
    for (unsigned i = 0; i < 20; i++) {
        out[i] = (unsigned char)(s.h[i / 4] >> (24 - 8 * (i % 4)) & 255);
    }
    buf_fini(&padded);
}

void wskey_accept(struct str key, char out[WSKEY_TEXT])
{
    unsigned char hash[20];
    struct buf text = {.max = SIZE_MAX};
    buf_adds(&text, key);
    buf_addz(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    sha1(buf_str(&text), hash);
    buf_clear(&text);
    base64_encode(&text, (struct str){(const char *)hash, sizeof hash});
    snprintf(out, WSKEY_TEXT, "%s", buf_z(&text));
    buf_fini(&text);
}
