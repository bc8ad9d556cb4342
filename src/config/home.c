// The paths of all files, and whether it is safe to put secrets there.
//
//     --home, AFLOAT_HOME, ~/.afloat ──> dir      config, token, secrets, state, sessions, logs
//     AFLOAT_RUNTIME, dir/run (a home was named), $XDG_RUNTIME_DIR/afloat, dir/run
//                                    ──> runtime  sockets and the pid
//
// A named home keeps its sockets inside, so that a second hub on another home needs nothing but
// AFLOAT_HOME. Variables that are set but empty count as unset.
//
// Not done here: locking (hub.lock is taken by the hub), following a home that moves.

#include "config/home.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"

static const char *env_get(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && v[0] != '\0' ? v : NULL;
}

/// `path` with ~ expanded, made absolute against the working directory and cleaned up.
static int make_absolute(char **out, const char *path, struct err *e)
{
    char *expanded = path_expand_home(path);
    char *cwd = NULL;

    if (expanded[0] != '/' && (cwd = getcwd(NULL, 0)) == NULL) {
        int rc = err_sys(e, "cannot find the working directory that '%s' is relative to", path);
        free(expanded);
        return rc;
    }
    char *joined = path_join(cwd != NULL ? cwd : "/", expanded);
    *out = path_clean(joined);
    free(joined);
    free(cwd);
    free(expanded);
    return 0;
}

static int resolve_dir(struct home *h, const char *dir, struct err *e)
{
    if (dir != NULL && dir[0] == '\0') {
        return err_set(e, ERR_USAGE, "the home directory given is empty");
    }
    if (dir == NULL) {
        dir = env_get("AFLOAT_HOME");
    }
    h->dir_is_set = dir != NULL;
    if (dir != NULL) {
        return make_absolute(&h->dir, dir, e);
    }
    h->dir = path_expand_home("~/.afloat");
    return h->dir[0] == '/' ? 0
                            : err_set(e, ERR_INVALID,
                                      "cannot find your home directory: set HOME or AFLOAT_HOME");
}

static int resolve_runtime(struct home *h, struct err *e)
{
    const char *runtime = env_get("AFLOAT_RUNTIME");
    const char *xdg = env_get("XDG_RUNTIME_DIR");

    if (runtime != NULL) {
        return make_absolute(&h->runtime, runtime, e);
    }
    // a relative XDG_RUNTIME_DIR is to be ignored, says the XDG specification
    bool in_xdg = !h->dir_is_set && xdg != NULL && xdg[0] == '/';
    h->runtime = in_xdg ? path_join(xdg, "afloat") : path_join(h->dir, "run");
    return 0;
}

/// Create `path` if need be; then it must be a directory of ours that only we can write to.
static int prepare_dir(const char *what, const char *path, struct err *e)
{
    struct stat st;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        return err_set(e, -ENOTDIR, "the %s '%s' is not a directory", what, path);
    }
    int rc = path_mkdirs(path, 0700, e);
    if (rc < 0) {
        return err_prefix(e, "cannot prepare the %s", what);
    }
    if (stat(path, &st) < 0) {
        return err_sys(e, "cannot look at the %s '%s'", what, path);
    }
    if (st.st_uid != geteuid()) {
        return err_set(e, ERR_DENIED, "the %s belongs to user %u; run: sudo chown %u '%s'", what,
                       (unsigned)st.st_uid, (unsigned)geteuid(), path);
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return err_set(e, ERR_DENIED, "other users can write to the %s; run: chmod 700 '%s'", what,
                       path);
    }
    return 0;
}

int home_resolve(struct home *h, const char *dir, struct err *e)
{
    *h = (struct home){0};
    int rc = resolve_dir(h, dir, e);
    if (rc == 0) {
        rc = resolve_runtime(h, e);
    }
    if (rc < 0) {
        home_fini(h);
        return rc;
    }
    h->socket = path_join(h->runtime, "hub.sock");
    h->pid = path_join(h->runtime, "hub.pid");
    h->lock = path_join(h->dir, "hub.lock");
    h->config = path_join(h->dir, "config.toml");
    h->choices = path_join(h->dir, "choices.json");
    h->token = path_join(h->dir, "token");
    h->secrets = path_join(h->dir, "secrets.json");
    h->log = path_join(h->dir, "logs/hub.log");
    h->state = path_join(h->dir, "state");
    h->sessions = path_join(h->dir, "sessions");
    return 0;
}

void home_fini(struct home *h)
{
    char **const all[] = {&h->dir,     &h->runtime, &h->socket,  &h->pid, &h->lock,  &h->config,
                          &h->choices, &h->token,   &h->secrets, &h->log, &h->state, &h->sessions};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        free(*all[i]);
    }
    *h = (struct home){0};
}

int home_prepare(const struct home *h, struct err *e)
{
    char *logs = str_dup(path_dir(str_of(h->log)));
    const char *const inside[] = {logs, h->state, h->sessions};
    int rc = prepare_dir("home directory", h->dir, e);
    rc = rc == 0 ? prepare_dir("runtime directory", h->runtime, e) : rc;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(inside); i++) {
        rc = path_mkdirs(inside[i], 0700, e);
        if (rc == -ENOTDIR) {
            err_set(e, rc, "'%s' is not a directory; run 'afloat fsck --repair'", inside[i]);
        }
    }
    free(logs);
    return rc;
}
