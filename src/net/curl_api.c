// libcurl by dlopen.
//
// Linked, libcurl brings some twenty shared objects into every start of every command, for a client
// that only the hub uses, and the hub only once a provider or a plugin asks. So nothing links it:
// the first request opens libcurl.so.4 and fills a table of functions (decision 007).
//
// Invariants:
//   - a table is either complete or not handed out.
//   - the library is never closed again: a thread of it may wait for a name server, and OpenSSL has handlers at exit.

#include "net/curl_api.h"

#include "base/library.h"

enum {
    VERSION_MIN =
        0x075700, // 7.87.0: CURLOPT_QUICK_EXIT; without it a cancel waits for name servers
    FEATURES = CURL_VERSION_SSL | CURL_VERSION_ASYNCHDNS,
};

static const struct library_function functions[] = {
#define X(name) {"curl_" #name, offsetof(struct curl_api, name)},
    CURL_API(X)
#undef X
};

static const struct library curl = {.use = "HTTPS",
                                    .name = "libcurl",
                                    .package = "libcurl4",
                                    .version = "7.87",
                                    .functions = functions,
                                    .n = ARRAY_LEN(functions)};

const struct curl_api *curl_api_get(struct err *e)
{
    static struct curl_api api;
    static bool loaded;
    if (!loaded) {
        loaded = curl_api_load(&api, "libcurl.so.4", e) == 0;
    }
    return loaded ? &api : NULL;
}

int curl_api_load(struct curl_api *out, const char *soname, struct err *e)
{
    int rc = library_load(out, &curl, soname, e);
    if (rc < 0) {
        return rc;
    }
    if (out->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(e, ERR_UNSUPPORTED, "libcurl cannot be initialised");
    }
    const curl_version_info_data *v = out->version_info(CURLVERSION_NOW);
    if (v->version_num < VERSION_MIN) {
        return err_set(e, ERR_UNSUPPORTED, "libcurl is '%s': install libcurl4 7.87 or newer",
                       v->version);
    }
    if ((v->features & FEATURES) != FEATURES) {
        return err_set(e, ERR_UNSUPPORTED, "libcurl '%s' lacks TLS or asynchronous name look-ups",
                       v->version);
    }
    return 0;
}
