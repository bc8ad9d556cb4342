// A line that begins with '!': a command of the user's, in the session's directory and on the terminal,
// which is given back for so long. The model is not told.

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/chat_int.h"
#include "client/interrupt.h"

extern char **environ;

// Signals have their usual effect in the command, whatever we do with them.
static int spawn(struct chat *t, const char *line, pid_t *pid)
{
    const char *shell = getenv("SHELL");
    shell = shell != NULL && shell[0] == '/' ? shell : "/bin/sh";
    char *argv[] = {(char *)(uintptr_t)shell, (char[]){"-c"}, (char *)(uintptr_t)line, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (t->gauge.dir[0] == '/') {
        posix_spawn_file_actions_addchdir_np(&actions, t->gauge.dir);
    }
    int rc = posix_spawn(pid, shell, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

void chat__shell(struct chat *t, struct str line)
{
    struct out *o = &t->c->out;
    char *command = str_dup(line);
    int status = 0;
    pid_t pid;
    chat__screen_end(t);
    int rc = spawn(t, command, &pid);
    while (rc == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    chat__screen_begin(t);
    if (interrupt_pause(1) < 0 && interrupt_seen() == SIGINT) {
        interrupt_take(); // Ctrl-C was for the command
    }
    if (rc != 0) {
        out_error(o, "cannot run '%s': %s", command, err_text(-rc));
    } else if (WIFSIGNALED(status)) {
        out_note(o, "ended by signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        out_note(o, "exit code %d", WEXITSTATUS(status));
    }
    free(command);
}
