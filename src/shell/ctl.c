// The caller's side of a session's control socket.

#include "shell/ctl.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "client/dial.h"
#include "client/interrupt.h"
#include "shell/dir.h"

enum { CONNECT_MS = 5000, STATUS_MS = 2000 };

static int gone(struct err *e, const char *dir)
{
    return err_set(e, ERR_UNREACHABLE, "the shell of '%s' is gone", dir);
}

/// Wait until `fd` is ready after a call that failed with errno. 0, or a negative code.
static int wait_ready(int fd, short events, uint64_t deadline, const char *dir, struct err *e)
{
    struct pollfd p = {.fd = fd, .events = events};
    int rc = errno == EAGAIN ? interrupt_wait(&p, 1, deadline) : ERR_UNREACHABLE;
    return rc > 0         ? 0
           : rc == -EINTR ? err_set(e, rc, "interrupted")
           : rc == 0      ? err_set(e, ERR_TIMEOUT, "the shell of '%s' does not answer", dir)
                          : gone(e, dir);
}

static int send_all(int fd, struct str bytes, uint64_t deadline, const char *dir, struct err *e)
{
    int rc = 0;
    while (bytes.n != 0 && rc == 0) {
        ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
        rc = n > 0 ? 0 : wait_ready(fd, POLLOUT, deadline, dir, e);
    }
    return rc;
}

static int receive_all(int fd, struct buf *answer, uint64_t deadline, const char *dir,
                       struct err *e)
{
    char bytes[4096];
    int rc = 0;
    while (rc == 0) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n == 0) {
            return answer->n != 0 ? 0 : gone(e, dir);
        }
        buf_add(answer, bytes, n > 0 ? (size_t)n : 0);
        rc = n > 0 ? 0 : wait_ready(fd, POLLIN, deadline, dir, e);
    }
    return rc;
}

/// A failure that the wrapper reports, as ours.
static int check_answer(const struct buf *answer, const char *dir, struct err *e)
{
    struct arena a = {0};
    struct json *v = NULL;
    int rc = buf_ok(answer) ? json_parse(&v, &a, str_trim(buf_str(answer)), NULL, e)
                            : err_set(e, ERR_TOO_LARGE, "the shell of '%s' says too much", dir);
    int64_t code = json_int(json_get(v, "error_code"), 0);
    if (rc == 0 && code < 0) {
        struct str text = json_str(json_get(v, "error"), "it failed");
        rc = err_set(e, (int)code, STR_FMT, STR_ARG(text));
    }
    arena_fini(&a);
    return rc;
}

/// One question, whose answer may take `wait_ms`.
static int call(const char *dir, const char *op, const char *arg, uint64_t wait_ms,
                struct buf *answer, struct err *e)
{
    struct buf request = {.max = SIZE_MAX};
    char *sock = path_join(dir, "ctl.sock");
    int fd = dial_unix(sock, interrupt_deadline(CONNECT_MS), e);
    free(sock);
    if (fd < 0) {
        return fd == ERR_UNREACHABLE ? gone(e, dir) : fd;
    }
    uint64_t deadline = interrupt_deadline(wait_ms);
    struct jw w = {.out = &request};
    jw_obj(&w);
    jw_kstrz(&w, "op", op);
    if (arg != NULL) {
        jw_kstrz(&w, "arg", arg);
    }
    jw_end_obj(&w);
    buf_addc(&request, '\n');
    int rc = send_all(fd, buf_str(&request), deadline, dir, e);
    if (rc == 0) {
        rc = receive_all(fd, answer, deadline, dir, e);
    }
    buf_fini(&request);
    close(fd);
    return rc == 0 ? check_answer(answer, dir, e) : rc;
}

/// True when the session of `dir` answers, soon, and has this project: one that is stopped never does.
static bool has_project(const char *dir, const char *project)
{
    struct buf answer = {.max = CTL_ANSWER_MAX};
    struct arena a = {0};
    struct json *v = NULL;
    struct err e;
    bool found = shell_dir_is_private(dir) &&
                 call(dir, "status", NULL, STATUS_MS, &answer, &e) == 0 &&
                 json_parse(&v, &a, str_trim(buf_str(&answer)), NULL, &e) == 0 &&
                 str_eqz(json_get_text(v, "project"), project);
    arena_fini(&a);
    buf_fini(&answer);
    return found;
}

char *ctl_find(void)
{
    const char *file = getenv("AFLOAT_RELOAD_FILE");
    if (file == NULL || file[0] != '/') {
        return NULL;
    }
    char *dir = str_dup(path_dir(str_of(file)));
    char *sock = path_join(dir, "ctl.sock");
    bool there = shell_dir_is_private(dir) && access(sock, F_OK) == 0;
    free(sock);
    if (!there) {
        free(dir);
        dir = NULL;
    }
    return dir;
}

char *ctl_find_project(const char *runtime, const char *project)
{
    char *parent = path_join(runtime, "shell"), *found = NULL;
    struct folder f = folder_open(parent);
    while (shell_dir_is_private(parent) && found == NULL && folder_next(&f)) {
        char *path = path_join(parent, f.name);
        if (f.name[0] != '.' && has_project(path, project)) {
            found = xstrdup(path);
        }
        free(path);
    }
    folder_close(&f);
    free(parent);
    return found;
}

int ctl_call(const char *dir, const char *op, const char *arg, struct buf *answer, struct err *e)
{
    return call(dir, op, arg, CTL_WAIT_MS, answer, e);
}
