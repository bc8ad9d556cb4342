// Fuzz the hiding of secrets: the input is secrets, one a line, an empty line, and a text.
//
// Whatever they are: no secret is in what comes out, neither of the text nor of the text as a JSON string,
// which stays JSON; and a text that comes in pieces comes out as in one.

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/redact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_redact: %s\n", what);
        abort();
    }
}

/// What stands for a secret may be part of one itself; only then may one be left.
static bool shows(struct str text, struct str secret)
{
    bool own = memmem("[redacted S]", 12, secret.p, MIN(secret.n, (size_t)12)) != NULL ||
               memchr(secret.p, '[', secret.n) != NULL || memchr(secret.p, ']', secret.n) != NULL;
    return !own && text.n != 0 && memmem(text.p, text.n, secret.p, secret.n) != NULL;
}

static void check_pieces(struct str text, struct str whole, size_t step)
{
    struct redact_stream s;
    struct buf out, piece;
    redact_stream_init(&s);
    buf_init(&out, SIZE_MAX);
    buf_init(&piece, SIZE_MAX);
    for (size_t i = 0; i < text.n; i += step) {
        struct str next = {text.p + i, MIN(step, text.n - i)};
        buf_adds(&out, redact_feed(&s, &piece, next));
    }
    redact_flush(&s, &out);
    demand(str_eq(buf_str(&out), whole), "other in pieces");
    buf_fini(&out);
    buf_fini(&piece);
    redact_stream_fini(&s);
}

static void check_json(struct str text)
{
    struct buf json;
    struct jw w;
    struct arena a = {0};
    struct json *v;
    buf_init(&json, SIZE_MAX);
    jw_init(&w, &json);
    jw_str(&w, text);
    redact_json(&json);
    demand(json_parse(&v, &a, buf_str(&json), NULL, NULL) == 0, "no JSON any more");
    arena_fini(&a);
    buf_fini(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size}, line, secrets[16];
    struct buf out;
    size_t n = 0;
    while (rest.n != 0 && (line = str_cut(&rest, '\n')).n != 0 && n < ARRAY_LEN(secrets)) {
        if (redact_add(STR("S"), line)) {
            secrets[n++] = line;
        }
    }
    buf_init(&out, SIZE_MAX);
    redact_text(&out, rest);
    for (size_t i = 0; i < n; i++) {
        demand(!shows(buf_str(&out), secrets[i]), "a secret is shown");
    }
    check_pieces(rest, buf_str(&out), 1);
    check_pieces(rest, buf_str(&out), 7);
    check_json(rest);
    buf_fini(&out);
    redact_clear();
    return 0;
}
