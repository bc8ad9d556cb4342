// Dotenv files. They have no standard; this is what the common readers agree on.
//
// The file is untrusted data. It is parsed, never handed to a shell, so `$(...)`, backquotes and
// `;` are plain characters. `$NAME` is one too, as in env.toml: passwords hold dollar signs.

#include "env/dotenv.h"

struct dotenv_reader {
    struct str rest;
    unsigned line;
    struct env_vars *vars;
    struct err *e;
};

static int fail(const struct dotenv_reader *r, const char *what)
{
    return err_set(r->e, ERR_PARSE, "line %u: %s", r->line, what);
}

static struct str take_name(struct str *line)
{
    size_t n = 0;
    while (n < line->n && env_name_ok((struct str){line->p, n + 1})) {
        n++;
    }
    struct str name = {line->p, n};
    *line = str_from(*line, n);
    return name;
}

// Read up to the closing quote, which may be on a later line, and append the text to `out`. In double quotes
// escapes are resolved, and `\$` is kept apart from `$`.
static int read_quoted(struct dotenv_reader *r, struct str *line, char quote, struct buf *out)
{
    size_t i = 0;
    unsigned lines = 0;
    struct str s = {line->p, (size_t)(r->rest.p + r->rest.n - line->p)};
    for (; i < s.n && s.p[i] != quote; i++) {
        lines += s.p[i] == '\n';
        if (quote == '"' && s.p[i] == '\\' && i + 1 < s.n) {
            i++;
            lines += s.p[i] == '\n';
            buf_addz(out, s.p[i] == '$' && i + 1 < s.n && s.p[i + 1] == '{' ? "$" : "");
            buf_addc(out, s.p[i] == 'n'   ? '\n'
                          : s.p[i] == 'r' ? '\r'
                          : s.p[i] == 't' ? '\t'
                                          : s.p[i]);
        } else {
            buf_addc(out, s.p[i]);
        }
    }
    if (i == s.n) {
        return fail(r, quote == '"' ? "the quote \" is not closed" : "the quote ' is not closed");
    }
    r->rest = str_from(s, i + 1);
    r->line += lines;
    *line = str_cut(&r->rest, '\n');
    *line = str_trim(*line);
    return line->n == 0 || line->p[0] == '#' ? 0 : fail(r, "text after the closing quote");
}

static int read_value(struct dotenv_reader *r, struct str name, struct str line)
{
    struct buf raw = {.max = SIZE_MAX}, value = {.max = ENV_VALUE_MAX};
    int rc = 0;
    bool literal = line.n != 0 && line.p[0] == '\'';
    if (literal || (line.n != 0 && line.p[0] == '"')) {
        char quote = line.p[0];
        line = str_from(line, 1);
        rc = read_quoted(r, &line, quote, &raw);
    } else {
        for (size_t i = 0; i < line.n; i++) {
            if (line.p[i] == '#' && (i == 0 || line.p[i - 1] == ' ' || line.p[i - 1] == '\t')) {
                line.n = i;
            }
        }
        buf_adds(&raw, str_trim(line));
    }
    if (rc == 0 && memchr(buf_z(&raw), '\0', raw.n) != NULL) {
        rc = fail(r, "a NUL byte");
    }
    if (rc == 0 && !literal) {
        struct err why = {0};
        rc = env_expand(&value, buf_str(&raw), r->vars, &why) == 0 ? 0 : fail(r, why.msg);
    }
    if (rc == 0) {
        env_vars_set(r->vars, name, buf_str(literal ? &raw : &value));
    }
    buf_fini(&raw);
    buf_fini(&value);
    return rc;
}

static int read_line(struct dotenv_reader *r, struct str line)
{
    line = str_trim(line);
    if (line.n == 0 || line.p[0] == '#') {
        return 0;
    }
    struct str name = take_name(&line);
    if (str_eqz(name, "export") && line.n != 0 && (line.p[0] == ' ' || line.p[0] == '\t')) {
        line = str_trim(line);
        name = take_name(&line);
    }
    line = str_trim(line);
    if (name.n == 0 || line.n == 0 || line.p[0] != '=') {
        return fail(r, "expected NAME=value");
    }
    return read_value(r, name, str_trim(str_from(line, 1)));
}

int env_expand(struct buf *out, struct str text, const struct env_vars *vars, struct err *e)
{
    if (vars->arena->used > ENV_EXPANDED_MAX) {
        return err_set(e, ERR_TOO_LARGE, "all values together take more than %d MiB",
                       ENV_EXPANDED_MAX >> 20);
    }
    for (size_t i = 0; i < text.n; i++) {
        struct str here = str_from(text, i);
        if (str_starts(here, "$${")) {
            buf_addz(out, "${");
            i += 2;
        } else if (str_starts(here, "${")) {
            ptrdiff_t end = str_index(here, '}');
            struct str name = {here.p + 2, end > 2 ? (size_t)end - 2 : 0};
            if (!env_name_ok(name)) {
                return err_set(e, ERR_PARSE, "'${' needs a name and '}'; write '$${' for itself");
            }
            buf_adds(out, str_of(env_vars_get(vars, name)));
            i += (size_t)end;
        } else {
            buf_addc(out, text.p[i]);
        }
    }
    return buf_ok(out)
               ? 0
               : err_set(e, ERR_TOO_LARGE, "the value is larger than %d MiB", ENV_VALUE_MAX >> 20);
}

int env_dotenv_read(struct env_vars *vars, struct str text, struct err *e)
{
    struct dotenv_reader r = {.rest = text, .vars = vars, .e = e};
    if (str_starts(text, "\xef\xbb\xbf")) {
        r.rest = str_from(text, 3);
    }
    while (r.rest.n != 0) {
        struct str line = str_cut(&r.rest, '\n');
        r.line++;
        if (r.rest.p == NULL) {
            r.rest = (struct str){line.p + line.n, 0};
        }
        int rc = read_line(&r, line);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}
