// SHA-256, plain C.
//
// One hash answers three questions: did a file change, which stored version is this, and is it what
// the user trusted. The last one has an adversary, so the hash is a cryptographic one; why it is our
// own and not libcrypto's is in docs/decisions/005-sha256.md.
//
//     bytes ──> block[64] ──full──> compress() ──> state[8] ──> big-endian digest
//
// Invariant: `n % 64` bytes of `block` are filled.
//
// What it does not do: secrets. It is no MAC and takes no care of timing.

#include "base/sha256.h"

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static inline uint32_t load(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void store(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

/// The message schedule, sixteen words at a time: w[i] becomes w[i + 16].
static inline uint32_t schedule(uint32_t w[16], unsigned i)
{
    uint32_t a = w[(i + 1) & 15], b = w[(i + 14) & 15];
    w[i & 15] += (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[(i + 9) & 15] +
                 (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    return w[i & 15];
}

// One round on eight variables whose names rotate instead of their values. `word` is w[i] of the
// schedule plus its constant.
#define ROUND(a, b, c, d, e, f, g, h, word)                                                        \
    do {                                                                                           \
        uint32_t t = (h) + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +                        \
                     ((g) ^ ((e) & ((f) ^ (g)))) + (word);                                         \
        (d) += t;                                                                                  \
        (h) = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +                                 \
              (((a) & (b)) | ((c) & ((a) | (b))));                                                 \
    } while (0)

#define EIGHT_ROUNDS(W)                                                                            \
    do {                                                                                           \
        ROUND(a, b, c, d, e, f, g, h, W(0));                                                       \
        ROUND(h, a, b, c, d, e, f, g, W(1));                                                       \
        ROUND(g, h, a, b, c, d, e, f, W(2));                                                       \
        ROUND(f, g, h, a, b, c, d, e, W(3));                                                       \
        ROUND(e, f, g, h, a, b, c, d, W(4));                                                       \
        ROUND(d, e, f, g, h, a, b, c, W(5));                                                       \
        ROUND(c, d, e, f, g, h, a, b, W(6));                                                       \
        ROUND(b, c, d, e, f, g, h, a, W(7));                                                       \
    } while (0)

#define WORD_FRESH(j) (round_constant[i + (j)] + w[i + (j)])
#define WORD_NEXT(j)  (round_constant[i + (j)] + schedule(w, i + (j)))

static void compress(uint32_t s[8], const uint8_t *p)
{
    uint32_t w[16];
    for (unsigned i = 0; i < 16; i++) {
        w[i] = load(p + (size_t)i * 4);
    }
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (unsigned i = 0; i < 16; i += 8) {
        EIGHT_ROUNDS(WORD_FRESH);
    }
    for (unsigned i = 16; i < 64; i += 8) {
        EIGHT_ROUNDS(WORD_NEXT);
    }
    s[0] += a;
    s[1] += b;
    s[2] += c;
    s[3] += d;
    s[4] += e;
    s[5] += f;
    s[6] += g;
    s[7] += h;
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, start, sizeof start);
    s->n = 0;
}

void sha256_add(struct sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    size_t filled = s->n % sizeof s->block;
    s->n += n;
    if (filled != 0) {
        size_t part = MIN(n, sizeof s->block - filled);
        memcpy(s->block + filled, p, part);
        if (filled + part < sizeof s->block) {
            return;
        }
        compress(s->state, s->block);
        p += part;
        n -= part;
    }
    for (; n >= sizeof s->block; p += sizeof s->block, n -= sizeof s->block) {
        compress(s->state, p);
    }
    if (n != 0) {
        memcpy(s->block, p, n);
    }
}

void sha256_final(struct sha256 *s, uint8_t out[SHA256_SIZE])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = s->n * 8;
    uint8_t length[8];
    store(length, (uint32_t)(bits >> 32));
    store(length + 4, (uint32_t)bits);
    sha256_add(s, padding, 1 + (119 - s->n % 64) % 64); // up to 56 mod 64
    sha256_add(s, length, sizeof length);
    for (size_t i = 0; i < 8; i++) {
        store(out + i * 4, s->state[i]);
    }
}

void sha256_of(struct str bytes, uint8_t out[SHA256_SIZE])
{
    struct sha256 s;
    sha256_init(&s);
    if (bytes.n != 0) {
        sha256_add(&s, bytes.p, bytes.n);
    }
    sha256_final(&s, out);
}

void sha256_hmac(struct str key, struct str text, uint8_t out[SHA256_SIZE])
{
    uint8_t pad[64] = {0};
    struct sha256 h;
    if (key.n > sizeof pad) {
        sha256_of(key, pad);
    } else {
        memcpy(pad, key.p, key.n);
    }
    for (int outer = 0; outer < 2; outer++) {
        for (size_t i = 0; i < sizeof pad; i++) {
            pad[i] ^= outer ? 0x36 ^ 0x5c : 0x36;
        }
        sha256_init(&h);
        sha256_add(&h, pad, sizeof pad);
        sha256_add(&h, outer ? (const char *)out : text.p, outer ? SHA256_SIZE : text.n);
        sha256_final(&h, out);
    }
    explicit_bzero(pad, sizeof pad);
}

const char *sha256_hex(const uint8_t hash[SHA256_SIZE], char out[SHA256_HEX])
{
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        out[2 * i] = digit[hash[i] >> 4];
        out[2 * i + 1] = digit[hash[i] & 15];
    }
    out[2 * SHA256_SIZE] = '\0';
    return out;
}
