// The names under which we may be addressed.
//
// A page of any site can make a browser send requests to 127.0.0.1, and its author can make a name
// resolve to that address (DNS rebinding). But such a page cannot choose the Host and Origin headers.
// So both are compared as a whole with a list: no suffixes, no wildcards, no other spellings of an
// address.

#include "server/server_int.h"

static bool consists_of(struct str s, const char *chars)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\0' || strchr(chars, s.p[i]) == NULL) {
            return false;
        }
    }
    return true;
}

// Split "name:port"; `port` is empty when there is none.
static bool split_host(struct str host, struct str *name, struct str *port)
{
    bool bracket = host.n != 0 && host.p[0] == '[';
    ptrdiff_t at = str_index(host, bracket ? ']' : ':');
    size_t end = at >= 0 ? (size_t)at + bracket : host.n;
    uint64_t n;
    *port = STR_NULL;
    *name = (struct str){host.p, end};
    if (end == host.n) {
        return true;
    }
    *port = str_from(host, end + 1);
    return host.p[end] == ':' && port->n <= 5 && str_to_u64(*port, &n) && n >= 1 && n <= 65535;
}

bool hosts__local(const struct hosts_local *h, struct str host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "afloat.localhost"};
    struct str name, port;
    if (h->port[0] == '\0' || !split_host(host, &name, &port)) {
        return false;
    }
    if (!str_eqz(port, h->port) && !(port.n == 0 && strcmp(h->port, "80") == 0)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_caseeqz(name, names[i])) {
            return true;
        }
    }
    return str_caseeqz(host, h->listen);
}

static const char *public_host(const struct hosts *h)
{
    return h->public_origin != NULL ? strstr(h->public_origin, "://") + 3 : NULL;
}

// "https://name[:port]" of an address, without the default port; NULL when `url` is no such address.
static char *origin_of(const char *url)
{
    struct str s = str_of(url), name, port;
    bool secure = str_starts(s, "https://");
    if (!secure && !str_starts(s, "http://")) {
        return NULL;
    }
    s = str_from(s, secure ? 8 : 7);
    struct str host = str_cut(&s, '/');
    if (!hosts__valid(host) || !split_host(host, &name, &port)) {
        return NULL;
    }
    bool usual = str_eqz(port, secure ? "443" : "80");
    return xasprintf("%s://" STR_FMT, secure ? "https" : "http", STR_ARG(usual ? name : host));
}

void hosts__fini(struct hosts *h)
{
    vec_fini_each(&h->allowed, free);
    free(h->public_origin);
    h->public_origin = NULL;
}

void hosts__set(struct hosts *h, const char *const *names, size_t n, const char *public_url,
                bool behind_proxy)
{
    hosts__fini(h);
    for (size_t i = 0; i < n; i++) {
        vec_push(&h->allowed, xstrdup(names[i]));
    }
    h->public_origin = behind_proxy && public_url != NULL ? origin_of(public_url) : NULL;
}

bool hosts__valid(struct str host)
{
    struct str name, port;
    if (host.n == 0 || host.n > 255 || !split_host(host, &name, &port) || name.n == 0) {
        return false;
    }
    if (name.p[0] == '[') {
        return name.n >= 4 && name.p[name.n - 1] == ']' &&
               consists_of((struct str){name.p + 1, name.n - 2}, "0123456789abcdefABCDEF:.");
    }
    return consists_of(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
}

bool hosts__allows(const struct hosts *h, struct str host)
{
    if (hosts__local(&h->local, host)) {
        return true;
    }
    for (size_t i = 0; i < h->allowed.n; i++) {
        if (str_caseeqz(host, h->allowed.p[i])) {
            return true;
        }
    }
    return public_host(h) != NULL && str_caseeqz(host, public_host(h));
}

bool hosts__allows_origin(const struct hosts *h, struct str origin)
{
    if (h->public_origin != NULL && str_caseeqz(origin, h->public_origin)) {
        return true;
    }
    if (!str_starts(origin, "http://")) {
        return false;
    }
    struct str host = str_from(origin, 7);
    if (public_host(h) != NULL && str_caseeqz(host, public_host(h))) {
        return false; // our public name, but not as https
    }
    return hosts__valid(host) && hosts__allows(h, host);
}

bool hosts__secure(const struct hosts *h, struct str host)
{
    return public_host(h) != NULL && str_caseeqz(host, public_host(h)) &&
           str_starts(str_of(h->public_origin), "https:");
}
