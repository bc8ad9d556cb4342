// A program that replaces our process, and so has our terminal, parent, job and exit code.
//
// An interactive shell gets our rc files here too, for the marker and for the order of PATH. It has no
// session directory, and no process remains to remove files later. But nothing in them depends on a
// project: all such shells share one set, written anew each time.

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/path.h"
#include "base/visible.h"
#include "env/paths.h"
#include "env/result.h"
#include "shell/dir.h"
#include "shell/rc.h"
#include "shell/run_int.h"

enum { EXIT_CANNOT = 126, EXIT_MISSING = 127 };

/// Become the program, with `more` (or NULL) in its environment. Returns only when that failed.
static int become(const struct run *r, const char *const *argv, const char *const *more)
{
    sigset_t none;
    char **env = run__environ(r, more);
    environ = env;            // PATH is the environment's own
    signal(SIGPIPE, SIG_DFL); // the loop ignores it; a program does not expect that
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], (char *const *)(uintptr_t)argv); // leaves them as they are
    int code = errno == ENOENT || errno == ENOTDIR ? EXIT_MISSING : EXIT_CANNOT;
    visible_say("afloat: cannot run '%s': %s", argv[0], err_text(-errno));
    return code;
}

/// The directory of the rc files of shells without a session. They are the same for all of them, hold no
/// secret and stay: no process remains to remove them when the shell ends.
static const char *common_rc_dir(const struct run *r, struct arena *a, struct err *e)
{
    const char *parent = arena_printf(a, "%s/rc", r->o->home->runtime);
    const char *dir = arena_printf(a, "%s/%s", parent, r->o->marker ? "marker" : "plain");
    if (path_mkdirs(dir, 0700, e) < 0) {
        return NULL;
    }
    if (!shell_dir_is_private(parent)) {
        err_set(e, ERR_DENIED, "'%s' is a link or open to others; remove it", parent);
        return NULL;
    }
    return dir;
}

static int become_interactive(const struct run *r, struct err *e)
{
    enum env_dialect d;
    const char *program = run__shell(r->o, &d);
    struct rc_start how;
    struct arena a = {0};
    vec(const char *) env = {0};
    const char *dir = common_rc_dir(r, &a, e);
    int rc = dir == NULL ? e->code
                         : rc_prepare(&how, &a, dir, program, d, r->o->marker,
                                      (const char *const *)environ, e);
    if (rc == 0) {
        // what the environment puts in front of PATH, for the shell to put it there again after its rc files
        const struct env_list *front =
            r->result != NULL ? env_list_find(r->result->prepend.p, r->result->prepend.n, "PATH")
                              : NULL;
        for (size_t i = 0; how.env[i] != NULL; i++) {
            vec_push(&env, how.env[i]);
        }
        vec_push(&env, "AFLOAT_RELOAD_FILE="); // not that of the shell we were started from
        vec_push(&env,
                 arena_printf(&a, "__AFLOAT_FRONT=%s",
                              front != NULL ? env_paths_join(&a, front->items, front->n) : ""));
        vec_push(&env, NULL);
        rc = become(r, how.argv, env.p);
    }
    vec_fini(&env);
    arena_fini(&a);
    return rc;
}

bool become__is_interactive(const struct run *r)
{
    return r->o->words == NULL && r->o->string == NULL && isatty(STDIN_FILENO) &&
           isatty(STDERR_FILENO);
}

int become__run(const struct run *r, struct err *e)
{
    assert(r->o->words == NULL || r->o->string == NULL);
    enum env_dialect d;
    const char *shell = run__shell(r->o, &d);
    const char *const string[] = {shell, "-c", r->o->string, NULL};
    const char *const plain[] = {shell, NULL};
    if (become__is_interactive(r)) {
        return become_interactive(r, e);
    }
    return become(r,
                  r->o->words != NULL    ? (const char *const *)r->o->words
                  : r->o->string != NULL ? string
                                         : plain,
                  NULL);
}
