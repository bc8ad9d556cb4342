// Failures carry a number for code and a sentence for people; see STYLE in CONTRIBUTING.md.

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>

#include "base/utf8.h"

static void cut_whole(struct err *e)
{
    size_t n = strlen(e->msg);
    if (n == sizeof e->msg - 1) {
        e->msg[utf8_cut(e->msg, n, n)] = '\0';
    }
}

static PRINTF_LIKE(3, 0) void fill(struct err *e, int code, const char *fmt, va_list ap)
{
    struct err filled = {.code = code}; // the old message may be among the arguments
    vsnprintf(filled.msg, sizeof filled.msg, fmt, ap);
    cut_whole(&filled);
    *e = filled;
}

static void append(struct err *e, const char *text)
{
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", text);
    cut_whole(e);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e != NULL) {
        va_list ap;
        va_start(ap, fmt);
        fill(e, code, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int saved = errno != 0 ? errno : EIO; // a failure is never code 0
    if (e != NULL) {
        va_list ap;
        va_start(ap, fmt);
        fill(e, -saved, fmt, ap);
        va_end(ap);
        append(e, err_text(-saved));
    }
    return -saved;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->msg];
    va_list ap;
    memcpy(old, e->msg, sizeof old);
    va_start(ap, fmt);
    fill(e, e->code, fmt, ap);
    va_end(ap);
    append(e, old);
    return e->code;
}

const char *err_text(int code)
{
    switch (code) {
#define X(name, num, text)                                                                         \
    case name: return text;
        ERR_MAP(X)
#undef X
    default: break;
    }
    const char *s = strerrordesc_np(-code);
    return s != NULL ? s : "unknown error";
}
