// Settings in front of Markdown.
//
// One reader for skills and bots, so that a file that is right in one place is right in the other. A fence
// that is never closed is an error: taking the whole file as text would show the user's settings to a model.

#include "base/front.h"

static const char bom[] = "\xEF\xBB\xBF";

static const struct {
    const char *fence;
    enum front_kind kind;
} fences[] = {{"+++", FRONT_TOML}, {"---", FRONT_LINES}};

static bool is_fence(struct str line, const char *fence)
{
    while (line.n != 0 && (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t')) {
        line.n--;
    }
    return str_eqz(line, fence);
}

struct str front_line(struct str *rest)
{
    struct str line = str_cut(rest, '\n');
    return line.n != 0 && line.p[line.n - 1] == '\r' ? (struct str){line.p, line.n - 1} : line;
}

/// Look for the closing `fence` in `rest`, which follows the first line of `all`.
static struct front close_at(struct str all, struct str rest, const char *fence,
                             enum front_kind kind)
{
    struct str at = rest;
    while (at.n != 0) {
        struct str line = front_line(&at);
        if (is_fence(line, fence)) {
            return (struct front){kind, {rest.p, (size_t)(line.p - rest.p)}, at};
        }
    }
    return (struct front){.kind = FRONT_UNCLOSED, .body = all};
}

struct front front_split(struct str text)
{
    struct str rest = str_starts(text, bom) ? str_from(text, sizeof bom - 1) : text;
    struct front all = {FRONT_NONE, STR_NULL, rest};
    struct str first = front_line(&rest);
    for (size_t i = 0; i < ARRAY_LEN(fences); i++) {
        if (is_fence(first, fences[i].fence)) {
            return close_at(all.body, rest, fences[i].fence, fences[i].kind);
        }
    }
    return all;
}

static struct str unquoted(struct str s)
{
    bool quoted = s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0];
    return quoted ? (struct str){s.p + 1, s.n - 2} : s;
}

bool front_pair(struct str *rest, struct str *key, struct str *value)
{
    while (rest->n != 0) {
        struct str line = front_line(rest);
        if (str_index(line, ':') >= 0) {
            *key = str_trim(str_cut(&line, ':'));
            *value = unquoted(str_trim(line));
            return true;
        }
    }
    return false;
}
