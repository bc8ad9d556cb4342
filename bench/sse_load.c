// Load for `make bench`: many readers of one stream over the hub's Unix socket.
//
//     sse_load SOCKET READERS EVENTS RATE [BATCH [SESSION]]
//
// Opens READERS event streams, then posts EVENTS events of type user.bench: RATE a second, or with
// RATE 0 as fast as answers come, BATCH at a time in one write. Each event carries the time it was
// sent; every reader checks that it gets every event once and in order, and notes how late. Prints one
// JSON object; `chunks` and `bytes` are what the readers got on the wire, heads of streams left out;
// `hub_cpu_s` is what the hub used from the first post to the last event.
// EVENTS 0: connect, say `idle` on stdout, and hold the streams until stdin ends.
//
// With SESSION the readers follow that session, one message is sent to it, and its model is expected
// to say EVENTS marks. A mark is `#NUMBER@MICROSECONDS#`, the time by the monotonic clock.

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { READ_MAX = 256 * 1024, CARRY = 64 * 1024, BUCKETS = 100000 }; // buckets of 10 us

// Small, so that all of them stay in the cache: the load must not take the core that the hub needs.
struct reader {
    int fd;
    long next;      // number of the event expected next
    size_t n_carry; // bytes of an unfinished frame
    char *carry;    // NULL until a frame came in two pieces
};

static struct reader *readers;
static const char *session; // NULL: the readers follow /events
static long n_readers, n_events, lost, done_readers, received, chunks, bytes;
static unsigned long late[BUCKETS];

static void die(const char *what)
{
    fprintf(stderr, "sse_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int dial(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        die("connect");
    }
    return fd;
}

// CPU seconds that the process behind the Unix socket `fd` has used so far.
static double peer_cpu_s(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    char path[64], text[1024];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0) {
        die("no peer");
    }
    snprintf(path, sizeof path, "/proc/%d/stat", peer.pid);
    FILE *f = fopen(path, "r");
    size_t got = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    text[got] = '\0';
    const char *p = strrchr(text, ')'); // the fields behind the name: state is the third of all
    for (int field = 2; p != NULL && field < 14; field++) {
        p = strchr(p + 1, ' ');
    }
    if (p == NULL) {
        die(path);
    }
    fclose(f);
    char *end;
    long user = strtol(p, &end, 10), sys = strtol(end, NULL, 10);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static void send_all(int fd, const char *p, size_t n)
{
    while (n != 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0) {
            die("send");
        }
        p += k;
        n -= (size_t)k;
    }
}

static bool starts(const char *p, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

// One frame: perhaps an `id:` line, then its `event:` line, then its data.
static void note(struct reader *r, const char *frame, const char *end)
{
    const char *type = frame;
    if (starts(frame, end, "id: ")) {
        type = (const char *)memchr(frame, '\n', (size_t)(end - frame)) + 1;
    } else {
        chunks++;
        while (type < end && !starts(type, end, "event: ")) {
            type = (const char *)memchr(type, '\n', (size_t)(end - type)) + 1;
        }
    }
    lost += starts(type, end, "event: stream.gap");
    if (session != NULL && !starts(type, end, "event: message.delta")) {
        return; // the whole answer repeats the marks
    }
    while ((frame = memchr(frame, '#', (size_t)(end - frame))) != NULL) {
        char *at, *close;
        long number = strtol(frame + 1, &at, 10);
        int64_t us = now_us() - strtoll(at + 1, &close, 10);
        assert(*at == '@' && *close == '#');
        lost += number > r->next ? number - r->next : number < r->next;
        r->next = number + 1;
        received++;
        late[us / 10 < BUCKETS ? us / 10 : BUCKETS - 1]++;
        done_readers += r->next == n_events;
        frame = close + 1;
    }
}

// The end of the first frame in `p`: behind its empty line. NULL: it is not whole yet.
static char *frame_end(char *p, char *end)
{
    while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL && ++p < end) {
        if (*p == '\n') {
            return p + 1;
        }
    }
    return NULL;
}

// Takes whole frames; what is left is carried over, but not the line end of a chunk. What stands
// between two frames is the border of a chunk.
static void take(struct reader *r, char *p, char *end)
{
    for (char *next; (next = frame_end(p, end)) != NULL; p = next) {
        note(r, p, next);
    }
    r->n_carry = end - p == 2 && p[0] == '\r' ? 0 : (size_t)(end - p);
    assert(r->n_carry < CARRY);
    if (r->n_carry != 0) {
        r->carry = r->carry != NULL ? r->carry : malloc(CARRY);
        memcpy(r->carry, p, r->n_carry);
    }
}

static void on_readable(struct reader *r)
{
    static char in[CARRY + READ_MAX];
    if (r->n_carry != 0) {
        memcpy(in, r->carry, r->n_carry);
    }
    ssize_t n = recv(r->fd, in + r->n_carry, READ_MAX, MSG_DONTWAIT);
    if (n == 0) {
        fprintf(stderr, "sse_load: the hub closed a stream\n");
        exit(1);
    }
    if (n > 0) {
        bytes += n;
        take(r, in, in + r->n_carry + (size_t)n);
    } else if (errno != EAGAIN) {
        die("recv");
    }
}

static int connect_readers(const char *path)
{
    char what[128] = "/events?types=user.bench", get[256];
    if (session != NULL) {
        snprintf(what, sizeof what, "/session/%s/events", session);
    }
    int n_get = snprintf(get, sizeof get,
                         "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", what);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    readers = calloc((size_t)n_readers, sizeof *readers);
    for (long i = 0; i < n_readers; i++) {
        char head[1024];
        readers[i].fd = dial(path);
        send_all(readers[i].fd, get, (size_t)n_get);
        ssize_t n = recv(readers[i].fd, head, sizeof head - 1, 0);
        if (n <= 0 || strncmp(head, "HTTP/1.1 200", 12) != 0) {
            die("no event stream");
        }
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &readers[i]};
        epoll_ctl(ep, EPOLL_CTL_ADD, readers[i].fd, &ev);
    }
    return ep;
}

static size_t write_post(char *out, size_t room, long number)
{
    char path[128] = "/events", body[128] = "{\"text\":\"much\"}";
    if (session != NULL) {
        snprintf(path, sizeof path, "/session/%s/message", session);
    } else {
        snprintf(body, sizeof body, "{\"type\":\"user.bench\",\"data\":{\"mark\":\"#%ld@%lld#\"}}",
                 number, (long long)now_us());
    }
    int n = snprintf(out, room,
                     "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     path, strlen(body), body);
    return (size_t)n;
}

static double percentile(double share)
{
    unsigned long seen = 0, want = (unsigned long)(share * (double)received);
    for (int i = 0; i < BUCKETS; i++) {
        seen += late[i];
        if (seen > want) {
            return i / 100.0;
        }
    }
    return BUCKETS / 100.0;
}

static void run(const char *path, int ep, long rate, long batch)
{
    int post = dial(path);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL}, got[512];
    epoll_ctl(ep, EPOLL_CTL_ADD, post, &ev);
    long sent = 0, answered = 0, n_posts = session != NULL ? 1 : n_events;
    double cpu = peer_cpu_s(post);
    int64_t start = now_us(), quiet = start;
    while (done_readers < n_readers || answered < n_posts) {
        long due = rate != 0 ? (now_us() - start) * rate / 1000000 : answered + batch;
        if (rate == 0 && sent > answered) {
            due = sent; // the last batch is not answered yet
        }
        char out[64 * 1024];
        size_t n = 0;
        while (sent < due && sent < n_posts && n + 512 < sizeof out) {
            n += write_post(out + n, sizeof out - n, sent++);
        }
        send_all(post, out, n);
        int k = epoll_wait(ep, got, 512, rate != 0 && sent < n_posts ? 1 : 1000);
        for (int i = 0; i < k; i++) {
            if (got[i].data.ptr != NULL) {
                on_readable(got[i].data.ptr);
                continue;
            }
            char in[64 * 1024 + 1];
            ssize_t m = recv(post, in, sizeof in - 1, 0);
            if (m <= 0) {
                die("post");
            }
            in[m] = '\0';
            for (char *p = in; (p = strstr(p, "HTTP/1.1 20")) != NULL; p++) {
                answered++;
            }
        }
        quiet = k > 0 ? now_us() : quiet;
        if (now_us() - quiet > 20 * 1000000) {
            fprintf(stderr, "sse_load: nothing arrived for 20 s (%ld of %ld)\n", received,
                    n_events * n_readers);
            exit(1);
        }
    }
    printf("{\"readers\":%ld,\"events\":%ld,\"received\":%ld,\"lost\":%ld,\"p50_ms\":%.2f,"
           "\"p99_ms\":%.2f,\"max_ms\":%.2f,\"wall_s\":%.3f,\"chunks\":%ld,\"bytes\":%ld,"
           "\"hub_cpu_s\":%.2f}\n",
           n_readers, n_events, received, lost, percentile(0.5), percentile(0.99),
           percentile(0.999999999), (double)(now_us() - start) / 1e6, chunks, bytes,
           peer_cpu_s(post) - cpu);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: sse_load SOCKET READERS EVENTS RATE [BATCH [SESSION]]\n");
        return 2;
    }
    struct rlimit lim;
    getrlimit(RLIMIT_NOFILE, &lim);
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
    n_readers = strtol(argv[2], NULL, 10);
    n_events = strtol(argv[3], NULL, 10);
    session = argc > 6 ? argv[6] : NULL;
    int ep = connect_readers(argv[1]);
    if (n_events == 0) {
        puts("idle");
        fflush(stdout);
        while (getchar() != EOF) {
        }
        return 0;
    }
    run(argv[1], ep, strtol(argv[4], NULL, 10), argc > 5 ? strtol(argv[5], NULL, 10) : 1);
    return lost != 0;
}
