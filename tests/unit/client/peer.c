#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "unit/test.h"

static int listen_on(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char *dir = str_dup(path_dir(str_of(path)));
    int dirfd = open(dir, O_PATH | O_DIRECTORY);
    struct str base = path_base(str_of(path));
    snprintf(sa.sun_path, sizeof sa.sun_path, "/proc/self/fd/%d/%.*s", dirfd, (int)base.n, base.p);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0);
    CHECK(listen(fd, 4) == 0);
    close(dirfd);
    free(dir);
    return fd;
}

static void take_request(int fd, const char *path, size_t body)
{
    static char text[1 << 16];
    size_t n = 0, want = sizeof text - 1;
    while (n < want) {
        ssize_t got = read(fd, text + n, want - n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
        const char *end = memmem(text, n, "\r\n\r\n", 4);
        want = end != NULL ? (size_t)(end + 4 - text) + body : want;
    }
    char *name = xasprintf("%s.request", path);
    CHECK(path_write_atomic(name, (struct str){text, n}, 0600, NULL) == 0);
    free(name);
}

static void send_pieces(int fd, const char *answer, size_t piece)
{
    for (struct str rest = str_of(answer); rest.n != 0;) {
        ssize_t n = send(fd, rest.p, rest.n < piece ? rest.n : piece, MSG_NOSIGNAL);
        if (n < 0) {
            return;
        }
        rest = str_from(rest, (size_t)n);
    }
}

static pid_t start(const char *path, const char *answer, size_t piece, size_t body, int silent)
{
    int fd = listen_on(path);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves nobody who holds its output
        int c = accept(fd, NULL, NULL);
        take_request(c, path, body);
        send_pieces(c, answer, piece);
        if (silent) {
            pause();
        }
        close(c);
        _exit(0);
    }
    close(fd);
    return pid;
}

pid_t peer_start(const char *path, const char *answer, size_t piece, size_t body)
{
    return start(path, answer, piece, body, 0);
}

pid_t peer_start_silent(const char *path, const char *answer)
{
    return start(path, answer, 4096, 0, 1);
}

static void wait_for_end(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
}

void peer_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    wait_for_end(pid);
}

const char *peer_request(pid_t pid, const char *path)
{
    static struct buf text;
    wait_for_end(pid);
    buf_fini(&text);
    buf_init(&text, 1 << 17);
    char *name = xasprintf("%s.request", path);
    CHECK(path_read(name, &text, NULL) == 0);
    free(name);
    return buf_z(&text);
}
