// What a project brings takes part in its sessions once it is trusted. Until then a chat says, once,
// that something waits: a plugin that is silently missing looks like one that does not work.

#include "chat/chat_int.h"
#include "trust/trust.h"

// Of the environment the session says so itself; bots count where they are run.
static bool takes_part(enum trust_kind kind, bool bots)
{
    return kind == TRUST_PLUGIN || kind == TRUST_CONFIG || kind == TRUST_SKILL ||
           kind == TRUST_AGENTS || kind == TRUST_MCP || (bots && kind == TRUST_BOT);
}

static size_t count_waiting(const struct trust *t, const struct trust_place *p,
                            const struct trust_scan *s, bool bots)
{
    size_t n = 0;
    vec_foreach (it, &s->items) {
        n += takes_part(it->kind, bots) && it->error == NULL &&
             trust_ask(t, p, it->kind, it->path, it->tree.hash) == TRUST_NO;
    }
    return n;
}

// What cannot be read is not trusted either; the hub and `afloat trust` say why.
void chat__announce_untrusted(struct cli *c, const char *dir, bool bots)
{
    struct trust_place p = {0};
    struct trust_scan s = {0};
    struct trust *t = NULL;
    if (trust_place_of(&p, c->home.dir, dir, NULL) == 0) {
        int rc = trust_open(&t, c->home.dir, NULL);
        (void)rc; // an empty book then
        size_t n = trust_scan_in(&s, p.root, dir, NULL) == 0 ? count_waiting(t, &p, &s, bots) : 0;
        if (n != 0) {
            out_note(&c->out,
                     "%zu item%s of '%s' %s not trusted as %s now, and only what was trusted "
                     "is used; 'afloat trust --dry-run' shows what there is",
                     n, n == 1 ? "" : "s", p.root, n == 1 ? "is" : "are",
                     n == 1 ? "it is" : "they are");
        }
        trust_scan_fini(&s);
        trust_close(t);
    }
    trust_place_fini(&p);
}
