// Feed any bytes to the reader of command lines and to the matchers. Reading ends, whatever the text. A line
// that a rule for one program allows runs no other program: a fence around another one never finds it.

#include <assert.h>

#include "permit/match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pattern pattern_of(struct arena *a, const char *text)
{
    struct pattern p;
    int rc = pattern_parse(&p, a, str_of(text), NULL);
    assert(rc == 0);
    return p;
}

static bool allows(const struct pattern *p, const struct cmdline *l)
{
    bool ok = match_is_plain(l, STR("/w"), STR("/w"));
    for (size_t i = 0; i < l->n_simples; i++) {
        ok = ok && match_allows(p, &l->simples[i]);
    }
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str line = {(const char *)data, size};
    struct arena a = {0};
    struct cmdline l;
    struct pattern any;
    struct pattern git = pattern_of(&a, "git *"), rm = pattern_of(&a, "rm *");
    cmdline_parse(&l, &a, line);
    if (allows(&git, &l)) {
        assert(match_finds(&git, &l, &a) && !match_finds(&rm, &l, &a) && !match_is_opaque(&l, &a));
    }
    if (pattern_parse(&any, &a, line, NULL) == 0) {
        assert(any.n != 0);
        assert(!match_finds(&any, &l, &a) || match_may_find(&any, &l, &a));
    }
    arena_fini(&a);
    return 0;
}
