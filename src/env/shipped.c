// The shell texts that the program carries with it.

#include "env/shipped.h"

#include <assert.h>

const char *env_shipped(const char *rel)
{
    const struct shipped *s = shipped_env;
    while (s->rel != NULL && strcmp(s->rel, rel) != 0) {
        s++;
    }
    assert(s->rel != NULL);
    return s->text;
}
