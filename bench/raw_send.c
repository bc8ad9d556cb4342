// The peer of the event-stream figures: the sends themselves and nothing else.
//
//     raw_send READERS SENDS BYTES
//
// One process does SENDS sends of BYTES to each of READERS Unix sockets; another drains them. Prints the
// CPU seconds of the sends.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void drain(const int *fds, long n)
{
    static char in[256 * 1024];
    struct epoll_event got[512];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    for (long i = 0; i < n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = fds[i]};
        epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev);
    }
    for (long open = n; open > 0;) {
        int k = epoll_wait(ep, got, 512, -1);
        for (int i = 0; i < k; i++) {
            if (recv(got[i].data.fd, in, sizeof in, MSG_DONTWAIT) == 0) {
                epoll_ctl(ep, EPOLL_CTL_DEL, got[i].data.fd, NULL);
                open--;
            }
        }
    }
}

static double cpu_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: raw_send READERS SENDS BYTES\n");
        return 2;
    }
    long n = strtol(argv[1], NULL, 10), sends = strtol(argv[2], NULL, 10);
    size_t bytes = (size_t)strtol(argv[3], NULL, 10);
    struct rlimit lim;
    getrlimit(RLIMIT_NOFILE, &lim);
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
    int *near = calloc((size_t)n, sizeof *near), *far = calloc((size_t)n, sizeof *far);
    for (long i = 0; i < n; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
            perror("raw_send: socketpair");
            return 1;
        }
        near[i] = pair[0];
        far[i] = pair[1];
    }
    pid_t child = fork();
    for (long i = 0; i < n; i++) {
        close(child == 0 ? near[i] : far[i]);
    }
    if (child == 0) {
        drain(far, n);
        _exit(0);
    }
    char *frame = malloc(bytes);
    memset(frame, 'x', bytes);
    double start = cpu_s();
    for (long done = 0; done < sends; done++) {
        for (long i = 0; i < n; i++) {
            if (send(near[i], frame, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
                perror("raw_send: send");
                return 1;
            }
        }
    }
    printf("%.3f\n", cpu_s() - start);
    fflush(stdout);
    for (long i = 0; i < n; i++) {
        close(near[i]);
    }
    waitpid(child, NULL, 0);
    return 0;
}
