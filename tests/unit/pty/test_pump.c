#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pty/pty.h"
#include "pty/pump.h"
#include "unit/loop.h"

// A pump between two socket pairs that play the terminal and a pseudo-terminal in raw mode.

static struct loop l;
static struct pty pty;
static struct pump *pump;
static int keys, screen; // the far ends: what the user types on and looks at
static int near_in, near_out;
static int ends;
static enum pump_end how;

static void on_end(struct pump *p, enum pump_end h, void *arg)
{
    (void)p;
    (void)arg;
    how = h;
    ends++;
}

static void pair(int *near, int *far)
{
    int fds[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *near = fds[0];
    *far = fds[1];
}

static void begin(const struct pump_cb *cb)
{
    const struct winsize w = {.ws_row = 24, .ws_col = 80};
    struct termios t;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(pty_open(&pty, &w, NULL, NULL), 0);
    CHECK_INT(tcgetattr(pty.slave, &t), 0);
    cfmakeraw(&t);
    CHECK_INT(tcsetattr(pty.slave, TCSANOW, &t), 0);
    CHECK_INT(fcntl(pty.slave, F_SETFL, O_RDWR | O_NONBLOCK), 0);
    pair(&near_in, &keys);
    pair(&near_out, &screen);
    CHECK_INT(pump_open(&pump, &l, near_in, near_out, pty.master, cb, NULL, NULL), 0);
}

static void finish(void)
{
    pump_close(pump);
    TEST_LOOP_END(&l);
    pty_close(&pty);
    close(near_in);
    close(near_out);
    close(screen);
    if (keys >= 0) {
        close(keys);
    }
}

static const struct pump_cb plain = {.on_end = on_end};

/// A stream of bytes in which a lost, doubled or changed one shows.
static unsigned char byte_at(size_t i)
{
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u;
    return (unsigned char)((x ^ (x >> 29)) >> 13);
}

/// Send `total` bytes into `from` while taking them out of `to`; each must be the right one.
static void transfer(int from, int to, size_t total)
{
    unsigned char out[5000], in[9000];
    size_t sent = 0, got = 0;
    while (got < total) {
        size_t n = MIN(sizeof out, total - sent);
        for (size_t i = 0; i < n; i++) {
            out[i] = byte_at(sent + i);
        }
        ssize_t w = n != 0 ? write(from, out, n) : 0;
        sent += w > 0 ? (size_t)w : 0;
        loop_run_once(&l, false);
        ssize_t r = read(to, in, sizeof in);
        for (ssize_t i = 0; i < r; i++) {
            CHECK_INT(in[i], byte_at(got + (size_t)i));
        }
        got += r > 0 ? (size_t)r : 0;
    }
    CHECK_INT(got, total);
}

TEST(every_byte_comes_out_as_it_went_in_both_ways)
{
    size_t total = (size_t)test_loops(2) << 20;
    begin(&plain);
    transfer(pty.slave, screen, total);
    transfer(keys, pty.slave, total);
    finish();
}

/// Write into `fd` until neither it nor the pump takes more; returns how much went in.
static size_t stuff(int fd)
{
    static const char block[4096];
    size_t total = 0;
    int idle = 0;
    while (idle < 50) {
        ssize_t n = write(fd, block, sizeof block);
        idle = n > 0 ? 0 : idle + 1;
        total += n > 0 ? (size_t)n : 0;
        loop_run_once(&l, false);
        CHECK(total < (size_t)16 << 20);
    }
    return total;
}

TEST(a_screen_that_is_not_read_stops_the_program)
{
    begin(&plain);
    CHECK(stuff(pty.slave) > 4096);
    CHECK_INT(ends, 0);
    finish();
}

TEST(a_program_that_does_not_read_stops_the_keyboard)
{
    begin(&plain);
    CHECK(stuff(keys) > 4096);
    CHECK_INT(ends, 0);
    finish();
}

TEST(both_ways_full_is_no_deadlock)
{
    char bytes[65536];
    begin(&plain);
    stuff(pty.slave);
    stuff(keys);
    for (int i = 0; i < 200; i++) { // the screen is read again: keys must flow once it is
        while (read(screen, bytes, sizeof bytes) > 0) {
        }
        while (read(pty.slave, bytes, sizeof bytes) > 0) {
        }
        loop_run_once(&l, false);
    }
    transfer(keys, pty.slave, 10000);
    finish();
}

TEST(what_was_written_before_the_end_is_delivered)
{
    char bytes[300];
    begin(&plain);
    CHECK_INT(write(pty.slave, "last words", 10), 10);
    pump_finish(pump);
    while (ends == 0) {
        loop_run_once(&l, true);
    }
    CHECK_INT(how, PUMP_DRAINED);
    CHECK_INT(read(screen, bytes, sizeof bytes), 10);
    CHECK(memcmp(bytes, "last words", 10) == 0);
    finish();
}

TEST(the_end_waits_for_a_screen_that_is_slow)
{
    static char bytes[1000];
    begin(&plain);
    size_t total = stuff(pty.slave), seen = 0;
    pump_finish(pump);
    while (ends == 0) {
        ssize_t n = read(screen, bytes, sizeof bytes);
        seen += n > 0 ? (size_t)n : 0;
        loop_run_once(&l, false);
    }
    for (ssize_t n; (n = read(screen, bytes, sizeof bytes)) > 0;) {
        seen += (size_t)n;
    }
    CHECK_INT(seen, total);
    finish();
}

/// A background job that is never silent: whenever something was read there is more.
static void endless(struct str bytes, struct buf *to, void *arg)
{
    static const char block[1024];
    (void)arg;
    buf_adds(to, bytes);
    CHECK(write(pty.slave, block, sizeof block) > 0);
}

TEST(a_job_that_goes_on_writing_does_not_hold_back_the_end)
{
    static char bytes[65536];
    const struct pump_cb cb = {.on_end = on_end, .filter = endless};
    size_t seen = 0;
    begin(&cb);
    CHECK_INT(write(pty.slave, "x", 1), 1);
    pump_finish(pump);
    while (ends == 0) {
        ssize_t n = read(screen, bytes, sizeof bytes);
        seen += n > 0 ? (size_t)n : 0;
        CHECK(seen < (size_t)1 << 20);
        loop_run_once(&l, false);
    }
    CHECK_INT(how, PUMP_DRAINED);
    finish();
}

TEST(a_terminal_that_goes_away_ends_it_once)
{
    begin(&plain);
    close(keys);
    keys = -1;
    for (int i = 0; i < 100; i++) {
        loop_run_once(&l, false);
    }
    CHECK_INT(ends, 1);
    CHECK_INT(how, PUMP_HANGUP);
    finish();
}

TEST(paused_it_moves_nothing_and_loses_nothing)
{
    char bytes[64];
    begin(&plain);
    pump_pause(pump, true);
    CHECK_INT(write(pty.slave, "abc", 3), 3);
    for (int i = 0; i < 20; i++) {
        loop_run_once(&l, false);
    }
    CHECK(read(screen, bytes, sizeof bytes) < 0 && errno == EAGAIN);
    pump_pause(pump, false);
    loop_run_once(&l, true);
    CHECK_INT(read(screen, bytes, sizeof bytes), 3);
    finish();
}

static size_t kept;

/// Keeps every second byte until the next comes.
static void odd(struct str bytes, struct buf *to, void *arg)
{
    (void)arg;
    kept += bytes.n;
    while (kept >= 2) {
        buf_addz(to, "ab");
        kept -= 2;
    }
    if (bytes.n == 0 && kept != 0) {
        buf_addz(to, "a");
        kept = 0;
    }
}

TEST(a_filter_gives_out_what_it_kept_at_the_end)
{
    const struct pump_cb cb = {.on_end = on_end, .filter = odd};
    char bytes[64];
    begin(&cb);
    CHECK_INT(write(pty.slave, "abx", 3), 3);
    loop_run_once(&l, true);
    CHECK_INT(read(screen, bytes, sizeof bytes), 2);
    pump_inject(pump, STR("!"));
    CHECK_INT(read(screen, bytes, sizeof bytes), 1);
    pump_finish(pump);
    while (ends == 0) {
        loop_run_once(&l, true);
    }
    CHECK_INT(read(screen, bytes, sizeof bytes), 1);
    CHECK_INT(bytes[0], 'a');
    finish();
}
