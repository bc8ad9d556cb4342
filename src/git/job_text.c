// What steps hand to git and take from its answers: texts that live as long as their job.

#include <stdarg.h>

#include "git/git_int.h"

void job__feed(struct git_job *j, const struct git_names *names)
{
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++) {
        n += strlen(names->p[i]) + 1;
    }
    char *text = arena_alloc(&j->arena, n + 1), *at = text;
    for (size_t i = 0; i < names->n; i++) {
        at = stpcpy(at, names->p[i]) + 1;
    }
    j->cmd.in = (struct str){text, n};
}

const char *job__line(struct git_job *j)
{
    struct str out = buf_str(&j->cmd.out);
    if (out.n != 0 && out.p[out.n - 1] == '\n') {
        out.n--;
    }
    return arena_strdup(&j->arena, out);
}

int job__id(struct git_job *j, const char **out, struct err *e)
{
    *out = job__line(j);
    return job__is_id(*out)
               ? 0
               : err_set(e, ERR_CORRUPT, "git answered '%.60s' for the id of an object", *out);
}

bool job__is_fault(struct str line)
{
    return str_starts(line, "fatal: ") || str_starts(line, "error: ");
}

struct str job__fault(const struct git_job *j)
{
    struct str rest = buf_str(&j->cmd.grumble), first = STR_NULL;
    while (rest.n != 0) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        if (job__is_fault(line)) {
            return str_from(line, strlen("fatal: "));
        }
        first = first.n == 0 ? line : first;
    }
    return first.n != 0 ? first : STR("it gave no reason");
}

/// Add the names that git lists below a line which ends in a colon, each after a tab; the first few are enough.
static void add_names(struct buf *out, struct str rest)
{
    size_t n = 0;
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        if (!str_starts(line, "\t")) {
            break;
        }
        if (++n <= 3) {
            buf_addf(out, "%s '" STR_FMT "'", n > 1 ? "," : "", STR_ARG(str_trim(line)));
        }
    }
    buf_addz(out, n > 3 ? ", ..." : "");
}

int job__grumble(struct git_job *j, int code, const char *what, struct err *e)
{
    struct str said = buf_str(&j->cmd.grumble), fault = job__fault(j);
    struct buf names = {.max = 4096};
    if (str_ends(fault, ":")) {
        size_t after = (size_t)(fault.p - said.p) + fault.n;
        add_names(&names, str_from(said, MIN(after + 1, said.n)));
    }
    err_set(e, code, "%s: " STR_FMT "%s", what, STR_ARG(fault), buf_z(&names));
    buf_fini(&names);
    return code;
}

char *job__dup(struct git_job *j, const char *z)
{
    return z != NULL ? arena_strdup(&j->arena, str_of(z)) : NULL;
}

const char *const *job__dup_list(struct git_job *j, const char *const *list)
{
    return arena_copy_list(&j->arena, list);
}

void job__note(struct git_job *j, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    vec_push(&j->notes, arena_strdup(&j->arena, str_of(line)));
}

struct git_names job__notes(struct git_job *j)
{
    return (struct git_names){.p = j->notes.p, .n = j->notes.n};
}

struct git_names job__names(struct git_job *j, struct str text, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        n += text.p[i] == '\0';
    }
    struct git_names names = {.cut = n > max};
    const char **p = arena_calloc(&j->arena, MIN(n, max) + 1, sizeof *p);
    while (names.n < MIN(n, max)) {
        p[names.n++] = arena_strdup(&j->arena, str_cut(&text, '\0'));
    }
    names.p = p;
    return names;
}

char *job__quote(const char *text)
{
    struct buf out = {.max = SIZE_MAX};
    buf_addc(&out, '"');
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            buf_addz(&out, "\\n");
            continue;
        }
        if (*c == '"' || *c == '\\') {
            buf_addc(&out, '\\');
        }
        buf_addc(&out, *c);
    }
    buf_addc(&out, '"');
    return buf_take(&out, NULL);
}

bool job__is_id(const char *id)
{
    size_t n = strlen(id);
    return (n == 40 || n == 64) && strspn(id, "0123456789abcdef") == n;
}
