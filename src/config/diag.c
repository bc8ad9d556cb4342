// The problems of the configuration, for the user and for GET /config.
//
// Messages quote names and values out of files, and a project's file is written by others: control
// characters are replaced before anything can reach a terminal, and the number of diagnostics is
// bounded, however long the file.

#include <stdarg.h>

#include "base/utf8.h"
#include "config/config_int.h"

enum { DIAGS_MAX = 100, MESSAGE_MAX = 1000 };

/// A copy of `z` without control characters (C0, DEL and C1) and without broken UTF-8.
static char *printable(const char *z)
{
    struct buf b = {.max = SIZE_MAX};
    struct str s = str_of(z);
    uint32_t c;

    for (size_t i = 0, n; i < s.n; i += n) {
        n = utf8_decode(str_from(s, i), &c);
        bool bad = c < ' ' || (c >= 0x7F && c < 0xA0) || c == 0xFFFD;
        buf_add(&b, bad ? "?" : s.p + i, bad ? 1 : n);
    }
    return buf_take(&b, NULL);
}

static void write_diag(struct jw *w, const struct config_diag *d)
{
    jw_obj(w);
    jw_kstrz(w, "severity", d->severity == CONFIG_ERROR ? "error" : "warning");
    jw_kstrz(w, "path", d->path);
    if (d->line != 0) {
        jw_kint(w, "line", d->line);
        jw_kint(w, "col", d->col);
    }
    jw_kstrz(w, "message", d->message);
    if (d->hint != NULL) {
        jw_kstrz(w, "hint", d->hint);
    }
    jw_end_obj(w);
}

void config_diags_init(struct config_diags *d)
{
    *d = (struct config_diags){0};
}

void config_diags_fini(struct config_diags *d)
{
    vec_foreach (it, d) {
        free(it->path);
        free(it->message);
        free(it->hint);
    }
    free(d->p);
    *d = (struct config_diags){0};
}

void config_diags_add(struct config_diags *d, enum config_severity severity, struct config_place at,
                      const char *hint, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;

    d->broken = d->broken || severity == CONFIG_ERROR;
    if (config_diags_full(d)) {
        struct config_diag *more = vec_last(d);
        more->severity = MAX(more->severity, severity);
        return;
    }
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    bool full = d->n == DIAGS_MAX;
    vec_push(d, ((struct config_diag){
                    .severity = severity,
                    .path = xstrdup(at.path),
                    .line = at.line,
                    .col = at.col,
                    .message = printable(full ? "more problems are not listed" : message),
                    .hint = hint != NULL && !full ? printable(hint) : NULL,
                }));
}

void config_diags_add_from(struct config_diags *d, const struct config_diags *from,
                           const char *path)
{
    vec_foreach (it, from) {
        if (strcmp(it->path, path) == 0) {
            config_diags_add(d, it->severity, (struct config_place){path, it->line, it->col},
                             it->hint, "%s", it->message);
        }
    }
}

const struct config_diag *config_diags_refusal(const struct config_diags *d)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->p[i].refuses) {
            return &d->p[i];
        }
    }
    return NULL;
}

void config_diag_refuse(struct config_diag *d)
{
    if (!d->refuses) {
        char *hint = d->hint != NULL ? xasprintf("%s; until then no session starts", d->hint)
                                     : xstrdup("no session starts until this is fixed");
        free(d->hint);
        d->hint = hint;
        d->refuses = true;
    }
}

void config_diags_refuse(struct config_diags *d)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->p[i].severity == CONFIG_ERROR) {
            config_diag_refuse(&d->p[i]);
        }
    }
}

bool config_diags_full(const struct config_diags *d)
{
    return d->n > DIAGS_MAX;
}

void config_diags_write(const struct config_diags *d, struct jw *w)
{
    jw_arr(w);
    for (size_t i = 0; d != NULL && i < d->n; i++) {
        write_diag(w, &d->p[i]);
    }
    jw_end_arr(w);
}
