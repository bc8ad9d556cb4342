// Which variable of a template of addresses is being typed: `notes://{day}/{+path}` with `notes://mon/a` is at `path`.
//
// A variable takes what is typed up to the literal text after it. Templates with other forms of RFC 6570 (`{?q}`,
// `{list*}`) are followed as far as such a form: its values cannot be told from what is typed.

#include "mcp/template.h"

#include <string.h>

#include "base/url.h"

/// Take `{name}` or `{+name}` from the rest of a template. False: it has another form.
static bool take_variable(struct str *template, struct mcp_spot *out)
{
    struct str name = str_cut(template, '}');
    out->reserved = str_starts(name, "+");
    out->variable = str_from(name, out->reserved);
    for (size_t i = 0; i < out->variable.n; i++) {
        if (strchr("#./;?&*:,{", out->variable.p[i]) != NULL) {
            return false;
        }
    }
    return out->variable.n != 0 && template->p != NULL;
}

static bool begins(struct str s, struct str with)
{
    return s.n >= with.n && (with.n == 0 || memcmp(s.p, with.p, with.n) == 0);
}

bool mcp_template_at(struct str template, struct str typed, struct mcp_spot *out, struct jw *given)
{
    struct str rest = typed, literal = str_cut(&template, '{');
    *out = (struct mcp_spot){0};
    while (begins(rest, literal) && template.p != NULL) {
        rest = str_from(rest, literal.n);
        if (!take_variable(&template, out)) {
            return false;
        }
        literal = str_cut(&template, '{');
        const char *end =
            literal.n == 0 || rest.n == 0 ? NULL : memmem(rest.p, rest.n, literal.p, literal.n);
        if (end == NULL) {
            out->before = (struct str){typed.p, typed.n - rest.n};
            out->value = rest;
            out->after = literal;
            return true;
        }
        struct buf value = {.max = SIZE_MAX};
        url_decode(&value, (struct str){rest.p, (size_t)(end - rest.p)}, false);
        jw_key_str(given, out->variable);
        jw_str(given, buf_str(&value));
        buf_fini(&value);
        rest = str_from(rest, (size_t)(end - rest.p));
    }
    return false;
}
