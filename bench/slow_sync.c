// Every sync takes SLOW_SYNC_MS longer: a slow disk for `bench/run bots-sync`, loaded with LD_PRELOAD.
// Only the hub's own syncs count: what it starts does not get the variable (bench/bots.py).

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

enum { SLOW_SYNC_MS = 100 };

static int slow(const char *name, int fd)
{
    struct timespec pause = {.tv_nsec = SLOW_SYNC_MS * 1000000L};
    int (*real)(int);

    *(void **)&real = dlsym(RTLD_NEXT, name);
    nanosleep(&pause, NULL);
    return real(fd);
}

int fsync(int fd)
{
    return slow("fsync", fd);
}

int fdatasync(int fd)
{
    return slow("fdatasync", fd);
}
