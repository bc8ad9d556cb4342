// What a plugin in C was doing when a signal ended it.
//
// Runs inside a signal handler, on a stack of its own, in a process whose memory may be damaged: only the addresses are taken
// here. addr2line, which comes with the compiler, says which lines they are; where it is missing the functions' names are
// enough. Then the signal does what it would have done.

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "host/c_int.h"

enum { FRAMES = 48, SHOWN = 8, STACK = 64 * 1024 };

static char library[512];
static posix_spawn_file_actions_t to_stderr;

static void say(const char *text)
{
    ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n;
}

/// "0x1a2b" for addr2line.
static void write_hex(char out[20], uintptr_t v)
{
    static const char digits[] = "0123456789abcdef";
    char back[20];
    size_t n = 0, k = 2;
    do {
        back[n++] = digits[v & 15];
        v >>= 4;
    } while (v != 0);
    out[0] = '0';
    out[1] = 'x';
    while (n != 0) {
        out[k++] = back[--n];
    }
    out[k] = '\0';
}

/// The lines of `argv`'s addresses, by addr2line; the functions' names where that is missing.
static void say_lines(char **argv, const char *const *names, int n)
{
    pid_t pid;
    int status;
    bool found = posix_spawnp(&pid, "addr2line", &to_stderr, NULL, argv, environ) == 0 &&
                 waitpid(pid, &status, 0) == pid && status == 0;
    for (int i = 0; i < n && !found; i++) {
        say(names[i]);
        say("\n");
    }
}

/// Where the signal struck; all other addresses of a trace are those after a call.
static void *struck_at(const void *context)
{
#if defined(__x86_64__)
    return (void *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (void *)((const ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
    return NULL;
#endif
}

static void on_crash(int signum, siginfo_t *info, void *context)
{
    static char option[] = "-isfpe", program[] = "addr2line", hex[SHOWN][20];
    static char *argv[SHOWN + 4] = {program, option, library};
    static const char *names[SHOWN];
    void *frames[FRAMES], *struck = struck_at(context);
    int n = backtrace(frames, FRAMES), shown = 0;
    (void)info;
    for (int i = 0; i < n && shown < SHOWN; i++) {
        Dl_info at;
        if (dladdr(frames[i], &at) != 0 && at.dli_fname != NULL &&
            strcmp(at.dli_fname, library) == 0) {
            uintptr_t offset = (uintptr_t)frames[i] - (uintptr_t)at.dli_fbase;
            write_hex(hex[shown], frames[i] == struck ? offset : offset - 1);
            names[shown] = at.dli_sname != NULL ? at.dli_sname : "?";
            argv[3 + shown] = hex[shown];
            shown++;
        }
    }
    if (shown != 0) {
        say("at ");
        say_lines(argv, names, shown);
    }
    signal(signum, SIG_DFL);
    raise(signum);
}

void c_trace_crashes(const char *path)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    static char stack[STACK];
    void *warm[1];
    snprintf(library, sizeof library, "%s", path);
    posix_spawn_file_actions_init(&to_stderr);
    posix_spawn_file_actions_adddup2(&to_stderr, STDERR_FILENO, STDOUT_FILENO);
    (void)backtrace(warm, 1); // loads what it needs now, not inside the handler
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        sigaction(
            signals[i],
            &(struct sigaction){.sa_sigaction = on_crash, .sa_flags = SA_ONSTACK | SA_SIGINFO},
            NULL);
    }
}
