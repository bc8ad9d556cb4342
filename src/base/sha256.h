#pragma once

#include "base/str.h"

enum { SHA256_SIZE = 32, SHA256_HEX = 65 }; // bytes of a digest; of its text with the NUL

/// SHA-256 (FIPS 180-4) of bytes that come in pieces. Plain memory: copying it forks the hash.
struct sha256 {
    uint32_t state[8];
    uint64_t n; // bytes so far
    uint8_t block[64];
};

/// Begin, and add bytes.
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
/// Write the digest. `s` must be initialised again before its next use.
void sha256_final(struct sha256 *s, uint8_t out[SHA256_SIZE]);

/// The digest of `bytes`.
void sha256_of(struct str bytes, uint8_t out[SHA256_SIZE]);
/// HMAC-SHA256 (RFC 2104) of `text` under `key`.
void sha256_hmac(struct str key, struct str text, uint8_t out[SHA256_SIZE]);
/// Lower-case hexadecimal with a NUL; returns `out`.
const char *sha256_hex(const uint8_t hash[SHA256_SIZE], char out[SHA256_HEX]);
