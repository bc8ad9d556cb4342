// The address of a database.
//
// libpq reads the address itself; we add what it lacks:
//
//     no sslmode, all hosts local  ->  as libpq does it (TLS is no use there)
//     no sslmode, anything else    ->  verify-full, with the system's certificates where the user has
//                                      none of libpq's own
//     timeouts                     ->  a server that went silent is given up, not waited for
//
// A host that comes from the environment (PGHOST, a service file) counts as the rest does: what is not
// known to be local is not.

#include "pg/url.h"

#include <unistd.h>

#include "base/redact.h"
#include "pg/pq_api.h"

#define SYSTEM_ROOTS "/etc/ssl/certs/ca-certificates.crt"

static void add(struct pg_url *u, const char *key, const char *value)
{
    vec_push(&u->keys, xstrdup(key));
    vec_push(&u->values, xstrdup(value));
}

static const char *get(const PQconninfoOption *all, const char *key)
{
    for (const PQconninfoOption *o = all; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, key) == 0 && o->val != NULL && o->val[0] != '\0') {
            return o->val;
        }
    }
    return NULL;
}

static bool is_local(struct str host)
{
    bool number = str_starts(host, "127.") && strspn(host.p, "0123456789.") >= host.n;
    return number || host.n == 0 || host.p[0] == '/' || host.p[0] == '@' ||
           str_eqz(host, "localhost") || str_eqz(host, "::1");
}

/// Of a list "a,b"; none at all is the default socket.
static bool all_local(const char *hosts)
{
    struct str rest = str_of(hosts);
    while (rest.n != 0) {
        if (!is_local(str_cut(&rest, ','))) {
            return false;
        }
    }
    return true;
}

/// What the address says, else the environment, else NULL.
static const char *or_env(const char *value, const char *name)
{
    return value != NULL ? value : getenv(name);
}

static void add_roots(struct pg_url *u)
{
    const char *home = getenv("HOME");
    char *own = xasprintf("%s/.postgresql/root.crt", home != NULL ? home : "");
    if (access(own, R_OK) != 0 && access(SYSTEM_ROOTS, R_OK) == 0) {
        add(u, "sslrootcert", SYSTEM_ROOTS);
    }
    free(own);
}

static void fill(struct pg_url *u, const PQconninfoOption *all)
{
    static const char *const defaults[][2] = {
        {"connect_timeout", "4"},     {"tcp_user_timeout", "10000"}, {"keepalives_idle", "10"},
        {"keepalives_interval", "3"}, {"keepalives_count", "3"},     {"application_name", "afloat"},
        {"client_encoding", "UTF8"}};
    const char *host = or_env(get(all, "host"), "PGHOST");
    const char *addr = or_env(get(all, "hostaddr"), "PGHOSTADDR");
    const char *db = or_env(get(all, "dbname"), "PGDATABASE");
    bool service = or_env(get(all, "service"), "PGSERVICE") != NULL;
    for (const PQconninfoOption *o = all; o->keyword != NULL; o++) {
        if (o->val != NULL) {
            add(u, o->keyword, o->val);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
        if (get(all, defaults[i][0]) == NULL) {
            add(u, defaults[i][0], defaults[i][1]);
        }
    }
    u->local = !service && all_local(host) && all_local(addr);
    const char *mode = get(all, "sslmode");
    if (mode == NULL && !u->local) {
        add(u, "sslmode", mode = "verify-full");
    } else if (mode == NULL) {
        add(u, "sslmode", mode = "prefer");
    }
    if (str_starts(str_of(mode), "verify-") && get(all, "sslrootcert") == NULL) {
        add_roots(u);
    }
    u->shown = xasprintf("%s/%s", host != NULL ? host : addr != NULL ? addr : "", db ? db : "");
    if (get(all, "password") != NULL) {
        redact_add(STR("store password"), str_of(get(all, "password")));
    }
}

int pg_url_read(struct pg_url *out, const char *text, struct err *e)
{
    *out = (struct pg_url){0};
    const struct pq_api *pq = pq_api_get(e);
    if (pq == NULL) {
        return ERR_UNSUPPORTED;
    }
    struct str s = str_of(text);
    if (!str_starts(s, "postgresql://") && !str_starts(s, "postgres://")) {
        return err_set(e, ERR_INVALID,
                       "the address of the store must begin with postgresql:// ([store] url)");
    }
    PQconninfoOption *all = pq->conninfoParse(text, NULL);
    if (all == NULL) { // libpq's own words would quote the address
        return err_set(e, ERR_INVALID,
                       "the address of the store is not valid: [store] url must be "
                       "postgresql://USER@HOST:PORT/DATABASE");
    }
    fill(out, all);
    pq->conninfoFree(all);
    vec_push(&out->keys, NULL);
    vec_push(&out->values, NULL);
    return 0;
}

void pg_url_fini(struct pg_url *u)
{
    vec_fini_each(&u->keys, free);
    vec_fini_each(&u->values, free);
    free(u->shown);
    *u = (struct pg_url){0};
}
