// One handler: what was registered, whether it may be entered, and what it cost.
//
// A handler is shared by the sets that list it (the current one, older ones that drain, a session's
// own). Being taken back is therefore a mark on the handler and not a change of a set: every run,
// also one that is under way on an old list, looks at the mark before it enters.
//
// Invariants:
//   - `gone` never goes back to false; `disabled` and `struck_out` may.
//   - `data` is released exactly once, with the last reference.

#include "hook/hook.h"

#include <assert.h>

static char *dup_or_null(struct str s)
{
    return s.n != 0 ? str_dup(s) : NULL;
}

int hook_new(struct hook **out, const struct hook_spec *spec, struct err *e)
{
    static const uint32_t usual_ms = HOOK_TIMEOUT_MS;
    const struct hook_point *p = hook_point_find(spec->point);
    *out = NULL;
    if (spec->point.n == 0) {
        return err_set(e, ERR_INVALID, "a hook needs the name of a point or event");
    }
    if (p == NULL && spec->kind != HOOK_OBSERVE && spec->kind != HOOK_CHAIN) {
        return err_set(e, ERR_INVALID, "event '" STR_FMT "' can be observed or intercepted only",
                       STR_ARG(spec->point));
    }
    if (p != NULL && spec->kind != p->kind) {
        return err_set(e, ERR_INVALID, "hook point '%s' is of kind %s, not %s", p->name,
                       hook_kind_name(p->kind), hook_kind_name(spec->kind));
    }
    struct hook *h = xmalloc(sizeof *h);
    *h = (struct hook){
        .point = p != NULL ? xstrdup(p->name) : str_dup(spec->point),
        .kind = spec->kind,
        .name = dup_or_null(spec->name),
        .filter = dup_or_null(spec->filter),
        .terms = spec->terms,
        .refs = 1,
    };
    if (h->terms.limit_ms == NULL) {
        h->terms.limit_ms = &usual_ms;
    }
    *out = h;
    return 0;
}

struct hook *hook_ref(struct hook *h)
{
    h->refs++;
    return h;
}

void hook_unref(struct hook *h)
{
    if (h == NULL) {
        return;
    }
    assert(h->refs != 0);
    if (--h->refs != 0) {
        return;
    }
    if (h->terms.target->release != NULL) {
        h->terms.target->release(h->terms.data);
    }
    free(h->point);
    free(h->name);
    free(h->filter);
    free(h->last_error);
    free(h);
}

void hook_off(struct hook *h)
{
    h->gone = true;
}

void hook_enable(struct hook *h, bool on)
{
    h->disabled = !on;
    if (on) {
        h->struck_out = false;
        h->strikes = 0;
    }
}

bool hook_is_live(const struct hook *h)
{
    return !h->gone && !h->disabled && !h->struck_out;
}
