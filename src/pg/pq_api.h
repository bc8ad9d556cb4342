#pragma once

#include <libpq-fe.h>

#include "base/err.h"

// libpq, loaded when the first connection is made and not before. Each member is the function of that
// name with `PQ` in front.

#define PQ_API(X)                                                                                  \
    X(conninfoParse)                                                                               \
    X(conninfoFree)                                                                                \
    X(connectdbParams)                                                                             \
    X(finish)                                                                                      \
    X(status)                                                                                      \
    X(socket)                                                                                      \
    X(errorMessage)                                                                                \
    X(serverVersion)                                                                               \
    X(setnonblocking)                                                                              \
    X(setNoticeReceiver)                                                                           \
    X(enterPipelineMode)                                                                           \
    X(sendPrepare)                                                                                 \
    X(sendQueryPrepared)                                                                           \
    X(sendQuery)                                                                                   \
    X(pipelineSync)                                                                                \
    X(consumeInput)                                                                                \
    X(isBusy)                                                                                      \
    X(flush)                                                                                       \
    X(getResult)                                                                                   \
    X(notifies)                                                                                    \
    X(freemem)                                                                                     \
    X(exec)                                                                                        \
    X(execParams)                                                                                  \
    X(resultStatus)                                                                                \
    X(resultErrorField)                                                                            \
    X(resultErrorMessage)                                                                          \
    X(ntuples)                                                                                     \
    X(getvalue)                                                                                    \
    X(getlength)                                                                                   \
    X(getisnull)                                                                                   \
    X(clear)

struct pq_api {
#define X(name) __typeof__(&PQ##name) name;
    PQ_API(X)
#undef X
};

/// The library, loaded by the first call; NULL with `e` filled in when it is missing or too old, and
/// the next call tries again. Once loaded it stays until the process ends. Any thread.
const struct pq_api *pq_api_get(struct err *e) MUST_CHECK;

/// The same from the shared object `soname` into `*out`, without remembering it.
int pq_api_load(struct pq_api *out, const char *soname, struct err *e) MUST_CHECK;
