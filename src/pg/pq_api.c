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

#include <dlfcn.h>
#include <pthread.h>

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define X(name) {"PQ" #name, offsetof(struct pq_api, name)},
    PQ_API(X)
#undef X
};

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
    void *lib = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        return err_set(e, ERR_UNSUPPORTED,
                       "a store in PostgreSQL needs libpq: install libpq5 (cannot load '%s')",
                       soname);
    }
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *found = dlsym(lib, functions[i].name);
        if (found == NULL) {
            dlclose(lib); // nothing of it ran yet
            return err_set(e, ERR_UNSUPPORTED, "this libpq has no '%s': install libpq5 14 or newer",
                           functions[i].name);
        }
        memcpy((char *)out + functions[i].at, &found, sizeof found);
    }
    return 0;
}
