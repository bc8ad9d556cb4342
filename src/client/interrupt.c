// Ctrl-C as an error code instead of a sudden end.
//
// A command that follows a stream, holds a terminal without echo or owns a temporary directory has
// something to put back before it goes. Its signals are blocked all the time and let through by
// ppoll() alone: whenever a wait begins, a signal that came meanwhile ends it at once.

#include "client/interrupt.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>

#include "base/time.h"

static volatile sig_atomic_t seen; // a handler can reach nothing but a static
static sigset_t usual;             // the mask we were started with
static bool caught;

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

static void on_signal(int signum)
{
    seen = signum;
}

void interrupt_catch(void)
{
    assert(!caught);
    struct sigaction sa = {.sa_handler = on_signal};
    sigset_t block;
    sigemptyset(&block);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct sigaction old;
        sigaction(signals[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) { // nohup and background jobs of a shell keep their peace
            sigaction(signals[i], &sa, NULL);
        }
        sigaddset(&block, signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &block, &usual);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        sigdelset(&usual, signals[i]);
    }
    caught = true;
}

int interrupt_seen(void)
{
    return seen;
}

int interrupt_take(void)
{
    int signum = seen; // none can come in between: they are let through by ppoll() alone
    seen = 0;
    return signum;
}

int interrupt_raise(void)
{
    seen = SIGINT;
    return -EINTR;
}

uint64_t interrupt_deadline(uint64_t ms)
{
    return time_mono_ns() + ms * 1000000;
}

int interrupt_wait(struct pollfd *fds, nfds_t n, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = time_mono_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        struct timespec ts = {.tv_sec = (time_t)(left / 1000000000),
                              .tv_nsec = (long)(left % 1000000000)};
        int rc =
            seen != 0 ? -1 : ppoll(fds, n, deadline_ns != 0 ? &ts : NULL, caught ? &usual : NULL);
        if (seen != 0) {
            return -EINTR;
        }
        if (rc >= 0) {
            return rc > 0;
        }
        assert(errno == EINTR); // all other causes are bugs of the caller
    }
}

int interrupt_pause(unsigned ms)
{
    return interrupt_wait(NULL, 0, interrupt_deadline(ms));
}
