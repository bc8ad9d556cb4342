// The matcher of string.find, match, gmatch and gsub.
//
// Lua's own can take exponential time inside one C call, where no hook can stop it. This one has
// the same language and gives the same answers (tests compare the two), and counts its steps: every
// item tried, every character of a set looked at, every character that a repetition runs over. Each
// VM__WORK of them the clock is looked at.
//
// The pattern is read as it is matched, never compiled: a mistake in a part that is not
// reached is no error, as in Lua. Nesting is bounded by MATCH_DEPTH calls, captures by
// MATCH_CAPTURES.

#include "lua/match.h"

#include <ctype.h>

#include "lua/vm_int.h"

static const char *match_here(struct match *m, const char *s, const char *p);

static void step(struct match *m, size_t n)
{
    m->steps += (unsigned)MIN(n, VM__WORK);
    if (m->steps >= 256) {
        limit__tick(m->L, m->vm, m->steps);
        m->steps = 0;
    }
}

// ---- items: one character, class or set -----------------------------------------------------

static bool in_class(int c, int letter)
{
    bool yes;
    switch (tolower(letter)) {
    case 'a': yes = isalpha(c); break;
    case 'c': yes = iscntrl(c); break;
    case 'd': yes = isdigit(c); break;
    case 'g': yes = isgraph(c); break;
    case 'l': yes = islower(c); break;
    case 'p': yes = ispunct(c); break;
    case 's': yes = isspace(c); break;
    case 'u': yes = isupper(c); break;
    case 'w': yes = isalnum(c); break;
    case 'x': yes = isxdigit(c); break;
    case 'z': yes = c == 0; break;
    default: return letter == c; // an escaped character
    }
    return isupper(letter) ? !yes : yes;
}

/// The end of the item at `p`. A set runs to the first ']' that is neither its first character nor
/// escaped.
static const char *item_end(struct match *m, const char *p)
{
    char first = *p++;
    if (first == '%') {
        if (p == m->p_end) {
            luaL_error(m->L, "malformed pattern (ends with '%%')");
        }
        return p + 1;
    }
    if (first != '[') {
        return p;
    }
    const char *start = p;
    if (p < m->p_end && *p == '^') {
        p++;
    }
    do {
        if (p == m->p_end) {
            luaL_error(m->L, "malformed pattern (missing ']')");
        }
        if (*p++ == '%' && p < m->p_end) {
            p++;
        }
    } while (p == m->p_end || *p != ']');
    step(m, (size_t)(p - start));
    return p + 1;
}

/// Is `c` in the set [p, end), where `p` is after the '[' and `end` at the ']'?
static bool in_set(struct match *m, int c, const char *p, const char *end)
{
    bool wanted = true;
    step(m, (size_t)(end - p));
    if (*p == '^') {
        wanted = false;
        p++;
    }
    while (p < end) {
        int low = (unsigned char)*p++;
        if (low == '%') { // after a range up to '%' the escaped character may be the ']' itself
            if (in_class(c, (unsigned char)*p++)) {
                return wanted;
            }
        } else if (end - p >= 2 && *p == '-') {
            if (low <= c && c <= (unsigned char)p[1]) {
                return wanted;
            }
            p += 2;
        } else if (low == c) {
            return wanted;
        }
    }
    return !wanted;
}

/// Does the item [p, end) match the character at `s`?
static bool item_matches(struct match *m, const char *s, const char *p, const char *end)
{
    step(m, 1);
    if (s >= m->s_end) {
        return false;
    }
    int c = (unsigned char)*s;
    switch (*p) {
    case '.': return true;
    case '%': return in_class(c, (unsigned char)p[1]);
    case '[': return in_set(m, c, p + 1, end - 1);
    default: return (unsigned char)*p == c;
    }
}

// ---- repetitions ----------------------------------------------------------------------------

/// As many as possible, then fewer. `end` is after the item, at its suffix.
static const char *longest(struct match *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;
    while (item_matches(m, s + n, p, end)) {
        n++;
    }
    for (; n >= 0; n--) {
        const char *r = match_here(m, s + n, end + 1);
        if (r != NULL) {
            return r;
        }
    }
    return NULL;
}

/// As few as possible, then more.
static const char *shortest(struct match *m, const char *s, const char *p, const char *end)
{
    for (;; s++) {
        const char *r = match_here(m, s, end + 1);
        if (r != NULL) {
            return r;
        }
        if (!item_matches(m, s, p, end)) {
            return NULL;
        }
    }
}

// ---- captures, back references, %b and %f ---------------------------------------------------

static const char *open_capture(struct match *m, const char *s, const char *p, ptrdiff_t n)
{
    if (m->n >= MATCH_CAPTURES) {
        luaL_error(m->L, "too many captures");
    }
    m->captures[m->n] = (struct match_capture){s, n};
    m->n++;
    const char *r = match_here(m, s, p);
    if (r == NULL) {
        m->n--;
    }
    return r;
}

static const char *close_capture(struct match *m, const char *s, const char *p)
{
    int i = m->n - 1;
    while (i >= 0 && m->captures[i].n != MATCH_OPEN) {
        i--;
    }
    if (i < 0) {
        luaL_error(m->L, "invalid pattern capture");
    }
    m->captures[i].n = s - m->captures[i].at;
    const char *r = match_here(m, s, p);
    if (r == NULL) {
        m->captures[i].n = MATCH_OPEN;
    }
    return r;
}

/// The text of capture `digit` must be at `s` again.
static const char *same_again(struct match *m, const char *s, char digit)
{
    int i = digit - '1';
    if (i < 0 || i >= m->n || m->captures[i].n == MATCH_OPEN) {
        luaL_error(m->L, "invalid capture index %%%d", i + 1);
    }
    size_t n = (size_t)m->captures[i].n; // a position is longer than any rest
    if (n > (size_t)(m->s_end - s)) {
        return NULL;
    }
    step(m, n / 8);
    return memcmp(m->captures[i].at, s, n) == 0 ? s + n : NULL;
}

/// %bxy: from an x to the y that balances it.
static const char *balanced(struct match *m, const char *s, const char *p)
{
    if (m->p_end - p < 2) {
        luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    }
    if (s >= m->s_end || *s != p[0]) {
        return NULL;
    }
    size_t open = 1;
    for (s++; s < m->s_end; s++) {
        step(m, 1);
        if (*s == p[1]) {
            if (--open == 0) {
                return s + 1;
            }
        } else if (*s == p[0]) {
            open++;
        }
    }
    return NULL;
}

/// The items that are neither a character nor a class: moves `*s` and `*p` over one. Returns 1
/// when it matched, -1 when it did not, 0 when there is none here.
static int special(struct match *m, const char **s, const char **p)
{
    const char *q = *p + 1;
    if (**p != '%' || q == m->p_end) {
        return 0;
    }
    const char *r = NULL;
    if (*q == 'b') {
        r = balanced(m, *s, q + 1);
        *p = q + 3;
    } else if (*q == 'f') {
        if (q + 1 == m->p_end || q[1] != '[') {
            luaL_error(m->L, "missing '[' after '%%f' in pattern");
        }
        const char *end = item_end(m, q + 1);
        // a border between what is not in the set and what is
        int before = *s == m->s ? 0 : (unsigned char)(*s)[-1];
        int after = *s == m->s_end ? 0 : (unsigned char)**s;
        bool border = !in_set(m, before, q + 2, end - 1) && in_set(m, after, q + 2, end - 1);
        r = border ? *s : NULL;
        *p = end;
    } else if (isdigit((unsigned char)*q)) {
        r = same_again(m, *s, *q);
        *p = q + 1;
    } else {
        return 0;
    }
    *s = r;
    return r != NULL ? 1 : -1;
}

// ---- sequences ------------------------------------------------------------------------------

/// One item with its suffix. Returns true when the match is decided, with `*out`; else `*s` and
/// `*p` are where to continue.
static bool item(struct match *m, const char **s, const char **p, const char **out)
{
    const char *end = item_end(m, *p);
    char suffix = '\0';
    if (end < m->p_end) {
        suffix = *end;
    }
    bool hit = item_matches(m, *s, *p, end);
    *out = NULL;
    if (!hit && (suffix == '*' || suffix == '?' || suffix == '-')) {
        *p = end + 1;
        return false;
    }
    if (!hit) {
        return true;
    }
    switch (suffix) {
    case '?':
        *out = match_here(m, *s + 1, end + 1);
        *p = end + 1;
        return *out != NULL;
    case '+': *out = longest(m, *s + 1, *p, end); return true;
    case '*': *out = longest(m, *s, *p, end); return true;
    case '-': *out = shortest(m, *s, *p, end); return true;
    default:
        *s += 1;
        *p = end;
        return false;
    }
}

/// The rest of the pattern, item by item.
static const char *sequence(struct match *m, const char *s, const char *p)
{
    const char *out;
    while (p != m->p_end) {
        if (*p == '(') {
            bool position = p + 1 < m->p_end && p[1] == ')';
            return position ? open_capture(m, s, p + 2, MATCH_POSITION)
                            : open_capture(m, s, p + 1, MATCH_OPEN);
        }
        if (*p == ')') {
            return close_capture(m, s, p + 1);
        }
        if (*p == '$' && p + 1 == m->p_end) {
            return s == m->s_end ? s : NULL;
        }
        int done = special(m, &s, &p);
        if (done < 0) {
            return NULL;
        }
        if (done == 0 && item(m, &s, &p, &out)) {
            return out;
        }
    }
    return s;
}

static const char *match_here(struct match *m, const char *s, const char *p)
{
    if (m->depth-- == 0) {
        luaL_error(m->L, "pattern too complex");
    }
    const char *r = sequence(m, s, p);
    m->depth++;
    return r;
}

// ---- public ---------------------------------------------------------------------------------

void match_init(struct match *m, lua_State *L, struct str subject, struct str pattern)
{
    m->L = L;
    m->vm = vm_of(L);
    m->s = subject.p;
    m->s_end = subject.p + subject.n;
    m->p_end = pattern.p + pattern.n;
    m->steps = 0;
}

const char *match_at(struct match *m, const char *s, const char *p)
{
    m->n = 0;
    m->depth = MATCH_DEPTH;
    step(m, 1);
    return match_here(m, s, p);
}

void match_push(struct match *m, int i, const char *s, const char *e)
{
    if (i >= m->n) {
        if (i != 0) {
            luaL_error(m->L, "invalid capture index %%%d", i + 1);
        }
        lua_pushlstring(m->L, s, (size_t)(e - s));
        return;
    }
    const struct match_capture *c = &m->captures[i];
    if (c->n == MATCH_OPEN) {
        luaL_error(m->L, "unfinished capture");
    }
    if (c->n == MATCH_POSITION) {
        lua_pushinteger(m->L, c->at - m->s + 1);
    } else {
        lua_pushlstring(m->L, c->at, (size_t)c->n);
    }
}

int match_push_all(struct match *m, const char *s, const char *e)
{
    int n = m->n == 0 && s != NULL ? 1 : m->n;
    luaL_checkstack(m->L, n, "too many captures");
    for (int i = 0; i < n; i++) {
        match_push(m, i, s, e);
    }
    return n;
}
