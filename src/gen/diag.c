// Diagnostics: the table of codes, copies, JSON.

#include "gen/diag.h"

#include <assert.h>

#include "base/redact.h"

static const struct {
    const char *name;
    enum gen_severity severity;
} codes[DIAG__COUNT] = {
#define CODE(id, sev) [DIAG_##id] = {#id, DIAG_##sev},
#include "gen/codes.def"
#undef CODE
};

static char *copy(const char *z)
{
    return z != NULL ? xstrdup(z) : NULL;
}

static void drop(const char **z)
{
    free((void *)(uintptr_t)*z);
    *z = NULL;
}

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void write_known(struct jw *w, const char *key, const char *z)
{
    if (z != NULL && z[0] != '\0') {
        jw_kstrz(w, key, z);
    }
}

const char *gen_code_name(enum gen_code code)
{
    assert(code >= 0 && code < DIAG__COUNT);
    return codes[code].name;
}

enum gen_severity gen_code_severity(enum gen_code code)
{
    assert(code >= 0 && code < DIAG__COUNT);
    return codes[code].severity;
}

bool gen_code_parse(struct str name, enum gen_code *out)
{
    for (int i = 0; i < DIAG__COUNT; i++) {
        if (str_eqz(name, codes[i].name)) {
            *out = (enum gen_code)i;
            return true;
        }
    }
    return false;
}

struct gen_diag gen_diag_copy(const struct gen_diag *d)
{
    return (struct gen_diag){
        .code = d->code,
        .plugin = copy(d->plugin),
        .source = copy(d->source),
        .origin = copy(d->origin),
        .path = copy(d->path),
        .line = d->line,
        .message = copy(d->message),
        .hint = copy(d->hint),
        .hook = copy(d->hook),
        .traceback = copy(d->traceback),
    };
}

void gen_diag_fini(struct gen_diag *d)
{
    drop(&d->plugin);
    drop(&d->source);
    drop(&d->origin);
    drop(&d->path);
    drop(&d->message);
    drop(&d->hint);
    drop(&d->hook);
    drop(&d->traceback);
}

bool gen_diag_equal(const struct gen_diag *a, const struct gen_diag *b)
{
    return a->code == b->code && a->line == b->line && same(a->plugin, b->plugin) &&
           same(a->source, b->source) && same(a->origin, b->origin) && same(a->path, b->path) &&
           same(a->message, b->message) && same(a->hint, b->hint) && same(a->hook, b->hook);
}

void gen_diag_write(const struct gen_diag *d, struct jw *w)
{
    static const char *const severities[] = {[DIAG_ERROR] = "error", [DIAG_WARNING] = "warning"};
    jw_obj(w);
    jw_kstrz(w, "code", gen_code_name(d->code));
    jw_kstrz(w, "severity", severities[gen_code_severity(d->code)]);
    write_known(w, "plugin", d->plugin);
    write_known(w, "source", d->source);
    write_known(w, "origin", d->origin);
    write_known(w, "path", d->path);
    if (d->line > 0) {
        jw_kint(w, "line", d->line);
    }
    redact_member(w, "message", str_of(d->message != NULL ? d->message : ""));
    write_known(w, "hint", d->hint);
    write_known(w, "hook", d->hook);
    if (d->traceback != NULL && d->traceback[0] != '\0') {
        redact_member(w, "traceback", str_of(d->traceback));
    }
    jw_end_obj(w);
}
