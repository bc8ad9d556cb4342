// Runs unit tests: all, or those whose name contains one of the arguments.

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/time.h"
#include "unit/test.h"

enum { SKIPPED = 77, HANG_S = 600, HANG_SOAK_S = 3600 };

static char own_dir[256]; // of the test that runs in this process
static pid_t own_pid;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (flag == FTW_DP || flag == FTW_D || flag == FTW_DNR) {
        chmod(path, 0700);
        return rmdir(path);
    }
    return unlink(path);
}

static void remove_own_dir(void)
{
    if (own_dir[0] != '\0' && getpid() == own_pid) {
        nftw(own_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

const char *test_dir(void)
{
    if (own_dir[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        snprintf(own_dir, sizeof own_dir, "%s/afloat-unit-XXXXXX", tmp != NULL ? tmp : "/tmp");
        if (mkdtemp(own_dir) == NULL) {
            test_fail(__FILE__, __LINE__, "mkdtemp: %s", strerror(errno));
        }
        own_pid = getpid();
        atexit(remove_own_dir);
    }
    return own_dir;
}

const char *test_data(void)
{
    static char path[4096];
    const char *set = getenv("AFLOAT_TEST_DATA");
    snprintf(path, sizeof path, "%s", set != NULL ? set : TEST_SOURCE_ROOT "/../shared/data");
    return access(path, R_OK) == 0 ? path : NULL;
}

uint64_t test_cpu_ns(void)
{
    struct timespec t;
    CHECK_INT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/// How long this thread has been ready without a processor; 0 where the kernel does not count it.
static uint64_t waited_ns(void)
{
    unsigned long long ns = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "re");
    if (f != NULL) {
        ns = fscanf(f, "%*u %llu", &ns) == 1 ? ns : 0;
        fclose(f);
    }
    return ns;
}

uint64_t test_own_ns(void)
{
    uint64_t waited, now;
    do { // until both are of one moment, so that it never goes back
        waited = waited_ns();
        now = time_mono_ns();
    } while (waited != waited_ns());
    return now - waited;
}

/// The sanitizer's own count, where there is one: it does not know mallinfo2(), and it keeps freed blocks for a while.
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t test_heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL) {
        return __sanitizer_get_current_allocated_bytes();
    }
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

int test_loops(int quick)
{
    const char *times = getenv("AFLOAT_LOOPS");
    return quick * (times != NULL ? (int)strtol(times, NULL, 10) : 1);
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    remove_own_dir();
    _exit(1);
}

void test_skip(const char *why)
{
    fprintf(stderr, "not run: %s\n", why);
    remove_own_dir();
    _exit(SKIPPED);
}

static int run(const struct test_entry *t)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(test_loops(1) > 1 ? HANG_SOAK_S : HANG_S); // who hangs dies of it and says so
        t->run();
        exit(0); // not _exit: leaks are looked for at exit
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "killed by signal %d\n", WTERMSIG(status));
        return 1;
    }
    return WEXITSTATUS(status);
}

static int wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strstr(name, argv[i]) != NULL) {
            return 1;
        }
    }
    return argc < 2;
}

/// Who runs us in the background ignores SIGINT for us; tests of signals mean the usual ones.
static void usual_signals(void)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        signal(signals[i], SIG_DFL);
    }
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;
    usual_signals();
    for (const struct test_entry *t = test_entries; t->name != NULL; t++) {
        if (!wanted(t->name, argc, argv)) {
            continue;
        }
        int rc = run(t);
        passed += rc == 0;
        skipped += rc == SKIPPED;
        if (rc != 0 && rc != SKIPPED) {
            failed++;
        }
        printf("%s %s\n", rc == 0 ? "ok  " : rc == SKIPPED ? "skip" : "FAIL", t->name);
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0 || passed + skipped == 0;
}
