// Compiling under the limits of the entry.
//
// No hook runs inside Lua's compiler, and a file of 1 MiB can keep it busy for 20 seconds: each name
// is looked for among the locals of every function around it. So the compiler gets the text in small
// pieces, and the clock is looked at whenever it asks for the next one. Within one piece it does some
// milliseconds of work at most. (Its table of constants grows as any table does: see collide.c.)

#include "lua/vm_int.h"

enum { PIECE = 256 }; // bytes

struct source {
    const char *all;
    struct str rest;
};

/// Raises when time is up, which the compiler passes on.
static const char *next_piece(lua_State *L, void *arg, size_t *n)
{
    struct source *s = arg;
    const char *piece = s->rest.p;
    limit__check(L);
    *n = MIN(s->rest.n, PIECE);
    s->rest = str_from(s->rest, *n);
    return piece;
}

int compile__text(lua_State *L, struct str text, const char *chunk, int *line)
{
    struct source s = {text.p, text};
    int status = lua_load(L, next_piece, &s, chunk, "t");
    if (line != NULL) {
        *line = 1;
        for (const char *p = s.all; p < s.rest.p; p++) {
            *line += *p == '\n';
        }
    }
    return status;
}
