// Base64, strictly: no line ends, and nothing after the padding.

#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct buf *out, struct str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    (void)buf_reserve(out, (bytes.n + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t n = MIN(bytes.n - i, (size_t)3);
        uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (n > 2 ? (uint32_t)p[i + 2] : 0);
        char four[4] = {alphabet[v >> 18], alphabet[v >> 12 & 63],
                        n > 1 ? alphabet[v >> 6 & 63] : '=', n > 2 ? alphabet[v & 63] : '='};
        buf_add(out, four, sizeof four);
    }
}

void base64_encode_url(struct buf *out, struct str bytes)
{
    size_t start = out->n;
    base64_encode(out, bytes);
    while (out->n > start && out->p[out->n - 1] == '=') {
        buf_cut(out, out->n - 1);
    }
    for (size_t i = start; i < out->n; i++) {
        out->p[i] = (char)(out->p[i] == '+' ? '-' : out->p[i] == '/' ? '_' : out->p[i]);
    }
}

bool base64_decode(struct buf *out, struct str text)
{
    uint32_t v = 0;
    unsigned bits = 0;
    for (size_t i = 0, padded = text.n % 4 == 0 && text.n != 0 ? 2 : 0; i < padded; i++) {
        text.n -= text.p[text.n - 1] == '=';
    }
    for (size_t i = 0; i < text.n; i++) {
        const char *at = text.p[i] != '\0' ? strchr(alphabet, text.p[i]) : NULL;
        if (at == NULL) {
            return false;
        }
        v = v << 6 | (uint32_t)(at - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_addc(out, (char)(v >> bits));
            v &= (1U << bits) - 1;
        }
    }
    return bits < 6 && v == 0; // the last character may leave zero bits over
}
