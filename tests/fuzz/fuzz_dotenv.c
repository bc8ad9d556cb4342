// Feed any bytes to the dotenv reader and to the provider's side channel. What the reader accepts holds
// only names that a shell can hold; what it refuses names a line of the text. The side channel must say
// the same whether the bytes come at once or one by one.

#include <assert.h>

#include "env/dotenv.h"
#include "env/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_dotenv(struct str text)
{
    struct arena a = {0};
    struct env_vars vars;
    struct err e = {0};
    unsigned line = 0, lines = 1;
    size_t n;
    env_vars_init(&vars, &a);
    env_vars_set(&vars, STR("HOME"), STR("/home/u"));
    if (env_dotenv_read(&vars, text, &e) != 0) {
        for (size_t i = 0; i < text.n; i++) {
            lines += text.p[i] == '\n';
        }
        assert(e.code == ERR_PARSE && sscanf(e.msg, "line %u: ", &line) == 1);
        assert(line >= 1 && line <= lines);
    }
    const char **names = env_vars_names(&vars, &n);
    for (size_t i = 0; i < n; i++) {
        assert(env_name_ok(str_of(names[i])) && env_name_is_free(str_of(names[i])));
    }
    env_vars_fini(&vars);
    arena_fini(&a);
}

static int feed(struct env_wire *w, struct str text, size_t piece)
{
    int rc = 0;
    env_wire_init(w);
    for (size_t at = 0; rc == 0 && at < text.n; at += piece) {
        rc = env_wire_feed(w, (struct str){text.p + at, MIN(piece, text.n - at)}, NULL);
    }
    return rc == 0 ? env_wire_end(w, NULL) : rc;
}

static void check_wire(struct str text)
{
    struct env_wire whole, bytes;
    int a = feed(&whole, text, text.n + 1), b = feed(&bytes, text, 1);
    assert(a == b);
    assert(whole.entries.n == bytes.entries.n && whole.answered == bytes.answered);
    env_wire_fini(&whole);
    env_wire_fini(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    check_dotenv(text);
    check_wire(text);
    return 0;
}
