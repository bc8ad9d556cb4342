#pragma once

// the typecheck macros of curl.h know only calls by the plain name; ours go through pointers
#ifndef CURL_DISABLE_TYPECHECK
#define CURL_DISABLE_TYPECHECK
#endif
#include <curl/curl.h>

#include "base/err.h"

// libcurl, loaded when the first request is made and not before. Each member is the function of that
// name with `curl_` in front.

#define CURL_API(X)                                                                                \
    X(global_init)                                                                                 \
    X(version_info)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_pause)                                                                                  \
    X(easy_send)                                                                                   \
    X(easy_recv)                                                                                   \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(multi_init)                                                                                  \
    X(multi_setopt)                                                                                \
    X(multi_assign)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_socket_action)                                                                         \
    X(multi_info_read)                                                                             \
    X(multi_strerror)                                                                              \
    X(multi_cleanup)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(url)                                                                                         \
    X(url_set)                                                                                     \
    X(url_get)                                                                                     \
    X(url_strerror)                                                                                \
    X(url_cleanup)                                                                                 \
    X(free)

struct curl_api {
#define X(name) __typeof__(&curl_##name) name;
    CURL_API(X)
#undef X
};

/// The library, loaded and initialised by the first call; NULL with `e` filled in when it is missing
/// or too old, and the next call tries again. Once loaded it stays until the process ends.
/// Loop thread only.
const struct curl_api *curl_api_get(struct err *e) MUST_CHECK;

/// The same from the shared object `soname` into `*out`, without remembering it.
int curl_api_load(struct curl_api *out, const char *soname, struct err *e) MUST_CHECK;
