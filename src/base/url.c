// Web addresses.
//
// This is no general parser: what it does not know it refuses. A permission rule names a host, libcurl connects
// to one, and "http://good@evil/" or "http://good\@evil/" must not be two hosts.

#include "base/url.h"

#include <assert.h>

static bool is_scheme(struct str s)
{
    return str_caseeqz(s, "http") || str_caseeqz(s, "https");
}

static bool is_host(struct str s, bool bracketed)
{
    bool ok = s.n != 0 && s.n <= 255 && s.p[0] != '.' && s.p[s.n - 1] != '.';
    for (size_t i = 0; ok && i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        ok = word || c == '.' || (bracketed ? c == ':' : c == '-' || c == '_');
    }
    return ok;
}

/// "host", "host:port", "[v6]", "[v6]:port".
static bool split_authority(struct url *out, struct str s)
{
    bool bracketed = s.n != 0 && s.p[0] == '[';
    uint64_t port = 0;
    if (bracketed) {
        struct str rest = str_from(s, 1);
        ptrdiff_t end = str_index(rest, ']');
        if (end < 0) {
            return false;
        }
        out->host = (struct str){rest.p, (size_t)end};
        s = str_from(rest, (size_t)end + 1);
        if (s.n != 0 && s.p[0] != ':') {
            return false;
        }
        out->port = s.n != 0 ? str_from(s, 1) : STR("");
    } else {
        ptrdiff_t colon = str_index(s, ':');
        out->host = colon >= 0 ? (struct str){s.p, (size_t)colon} : s;
        out->port = colon >= 0 ? str_from(s, (size_t)colon + 1) : STR("");
        out->host.n -= out->host.n > 1 && out->host.p[out->host.n - 1] == '.';
    }
    return is_host(out->host, bracketed) &&
           (out->port.n == 0 || (str_to_u64(out->port, &port) && port > 0 && port < 65536));
}

bool url_parse(struct url *out, struct str text)
{
    size_t at = 0;
    *out = (struct url){0};
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] <= ' ' || text.p[i] > '~' || text.p[i] == '\\') {
            return false;
        }
    }
    ptrdiff_t colon = str_index(text, ':');
    if (colon < 0 || !str_starts(str_from(text, (size_t)colon), "://")) {
        return false;
    }
    out->scheme = (struct str){text.p, (size_t)colon};
    struct str rest = str_from(text, (size_t)colon + 3);
    while (at < rest.n && strchr("/?#", rest.p[at]) == NULL) {
        at++;
    }
    out->path = str_from(rest, at);
    return is_scheme(out->scheme) && split_authority(out, (struct str){rest.p, at});
}

static void add_origin(struct buf *out, const struct url *u)
{
    bool v6 = str_index(u->host, ':') >= 0;
    buf_adds(out, u->scheme);
    buf_addf(out, "://%s" STR_FMT "%s", v6 ? "[" : "", STR_ARG(u->host), v6 ? "]" : "");
    if (u->port.n != 0) {
        buf_addf(out, ":" STR_FMT, STR_ARG(u->port));
    }
}

/// "mailto:x", "https://x": a word and a colon before any slash.
static bool has_scheme(struct str ref)
{
    size_t i = 0;
    while (i < ref.n && strchr("/?#:", ref.p[i]) == NULL) {
        i++;
    }
    return i != 0 && i < ref.n && ref.p[i] == ':';
}

void url_join(struct buf *out, const struct url *base, struct str ref)
{
    size_t path = 0, dir = 0;
    assert(base->host.n != 0);
    while (path < base->path.n && base->path.p[path] != '?' && base->path.p[path] != '#') {
        dir = base->path.p[path++] == '/' ? path : dir;
    }
    if (has_scheme(ref)) {
        buf_adds(out, ref);
        return;
    }
    if (str_starts(ref, "//")) {
        buf_addf(out, STR_FMT ":" STR_FMT, STR_ARG(base->scheme), STR_ARG(ref));
        return;
    }
    add_origin(out, base);
    if (ref.n == 0 || ref.p[0] == '?' || ref.p[0] == '#') {
        buf_add(out, base->path.p, path);
    } else if (ref.p[0] != '/') {
        for (; str_starts(ref, "./") || str_starts(ref, "../");
             ref = str_from(ref, ref.p[1] == '.' ? 3 : 2)) {
            for (dir -= ref.p[1] == '.' && dir > 1; dir > 1 && base->path.p[dir - 1] != '/';
                 dir--) {
            }
        }
        buf_add(out, base->path.p, dir);
        buf_addz(out, dir == 0 ? "/" : "");
    }
    buf_adds(out, ref);
}

// ---- escapes -------------------------------------------------------------------------------

void url_encode(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char b = (unsigned char)text.p[i];
        bool plain = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
                     (b != 0 && strchr("-._~", b) != NULL);
        buf_addf(out, plain ? "%c" : "%%%02X", b);
    }
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

void url_decode(struct buf *out, struct str text, bool plus)
{
    for (size_t i = 0; i < text.n; i++) {
        int high = text.p[i] == '%' && i + 2 < text.n ? hex_of(text.p[i + 1]) : -1;
        int low = high >= 0 ? hex_of(text.p[i + 2]) : -1;
        if (low >= 0) {
            buf_addc(out, (char)(high << 4 | low));
            i += 2;
        } else {
            buf_addc(out, plus && text.p[i] == '+' ? ' ' : text.p[i]);
        }
    }
}
