// libpq by dlopen.
//
// Most hubs keep their store in files. They must not need libpq, nor load it and the OpenSSL and
// Kerberos that come with it. So nothing links it: the first connection opens libpq.so.5 and fills a
// table of functions, as with libcurl (decisions 007 and 014).
//
// Invariants:
//   - a table is either complete or not handed out.
//   - the library is never closed again.

#include "pg/pq_api.h"

#include <pthread.h>

#include "base/library.h"

static const struct library_function functions[] = {
#define X(name) {"PQ" #name, offsetof(struct pq_api, name)},
    PQ_API(X)
#undef X
};

static const struct library libpq = {.use = "a store in PostgreSQL",
                                     .name = "libpq",
                                     .package = "libpq5",
                                     .version = "14",
                                     .functions = functions,
                                     .n = ARRAY_LEN(functions)};

const struct pq_api *pq_api_get(struct err *e)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct pq_api api;
    static bool loaded;
    pthread_mutex_lock(&lock);
    if (!loaded) {
        loaded = pq_api_load(&api, "libpq.so.5", e) == 0;
    }
    bool ok = loaded;
    pthread_mutex_unlock(&lock);
    return ok ? &api : NULL;
}

int pq_api_load(struct pq_api *out, const char *soname, struct err *e)
{
    return library_load(out, &libpq, soname, e);
}
