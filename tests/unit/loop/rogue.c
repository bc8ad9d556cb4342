// Programs that a supervisor has to deal with.
//
//     rogue thread SCRIPT    run the script as the child of a second thread
//     rogue hop N            N processes, each of which starts the next one and exits, for ever

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *run_script(void *arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGUSR1, SIG_DFL); // a shell cannot trap what was ignored when it began
        execl("/bin/sh", "sh", "-c", (const char *)arg, (char *)NULL);
        _exit(126);
    }
    waitpid(pid, NULL, 0);
    return NULL;
}

static int play_thread(char *script)
{
    pthread_t thread;
    signal(SIGUSR1, SIG_IGN); // meant for the script
    int rc = pthread_create(&thread, NULL, run_script, script);
    return rc != 0 ? rc : pthread_join(thread, NULL);
}

static _Noreturn void hop(void)
{
    for (;;) {
        pid_t next = fork();
        if (next != 0) {
            _exit(next < 0);
        }
        setsid();
    }
}

static int play_hop(int n)
{
    for (int i = 0; i < n; i++) {
        if (fork() == 0) {
            hop();
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "thread") == 0) {
        return play_thread(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "hop") == 0) {
        return play_hop((int)strtol(argv[2], NULL, 10));
    }
    return 2;
}
