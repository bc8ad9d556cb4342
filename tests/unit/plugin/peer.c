// A host that misbehaves in one way, named by its first argument. Speaks the protocol on descriptor 3
// with as little code as possible, and is not locked in: what it does the hub has to stand.

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *line)
{
    size_t n = strlen(line);
    if (write(3, line, n) != (ssize_t)n) {
        _exit(9);
    }
}

/// The next line of the hub, in `line`. Exits at its end.
static char line[1 << 20];

static void hear(void)
{
    size_t n = 0;
    while (n + 1 < sizeof line) {
        ssize_t got = read(3, line + n, 1);
        if (got <= 0) {
            _exit(0);
        }
        if (line[n++] == '\n') {
            break;
        }
    }
    line[n] = '\0';
}

static long id_of(void)
{
    const char *at = strstr(line, "\"id\":");
    return at != NULL ? strtol(at + 5, NULL, 10) : 0;
}

static void answer(void)
{
    char text[100];
    snprintf(text, sizeof text, "{\"type\":\"result\",\"id\":%ld,\"value\":\"ok\"}\n", id_of());
    say(text);
}

static _Noreturn void stay(void)
{
    for (;;) {
        pause();
    }
}

static void load(void)
{
    hear();
    say("{\"type\":\"register\",\"kind\":\"hook\",\"point\":\"on_final\",\"handler\":0}\n"
        "{\"type\":\"loaded\",\"metadata\":{}}\n");
}

static _Noreturn void serve(void)
{
    for (;;) {
        hear();
        if (strstr(line, "\"id\":") != NULL && strstr(line, "\"cancel\"") == NULL) {
            answer();
        }
    }
}

static _Noreturn void long_line(void)
{
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    load();
    for (int i = 0; i < 1600; i++) { // 100 MB
        if (write(3, block, sizeof block) < 0) {
            stay();
        }
    }
    stay();
}

static _Noreturn void flood(void)
{
    load();
    for (;;) {
        say("{\"type\":\"log\",\"level\":\"info\",\"text\":\"x\"}\n");
    }
}

static _Noreturn void stderr_flood(void)
{
    static char block[1 << 16];
    memset(block, 'e', sizeof block);
    load();
    for (;;) {
        if (write(2, block, sizeof block) < 0) {
            pause();
        }
    }
}

static _Noreturn void twice(void)
{
    load();
    for (;;) {
        hear();
        answer();
        answer();
        say("{\"type\":\"result\",\"id\":12345,\"value\":\"forged\"}\n");
    }
}

static _Noreturn void deaf(void)
{
    load();
    stay();
}

static _Noreturn void bomb(void)
{
    load();
    for (int i = 0; i < 200; i++) { // grandchildren that leave the session and hold everything open
        pid_t pid = fork();
        if (pid == 0) {
            setsid();
            stay();
        }
    }
    serve();
}

static _Noreturn void stubborn(void)
{
    signal(SIGTERM, SIG_IGN);
    load();
    for (;;) { // also when the hub hung up
        if (read(3, line, sizeof line) <= 0) {
            pause();
        }
    }
}

static _Noreturn void hang_up(void)
{
    load();
    close(3);
    stay();
}

static _Noreturn void crash(void)
{
    load();
    hear();
    fputs("last words\n", stderr);
    raise(SIGSEGV);
    _exit(1);
}

static _Noreturn void quit(void)
{
    load();
    hear();
    _exit(7);
}

static _Noreturn void silent(void)
{
    stay();
}

static _Noreturn void nonsense(void)
{
    load();
    say("this is not JSON\n");
    serve();
}

static _Noreturn void good(void)
{
    load();
    serve();
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"good", good},
    {"long_line", long_line},
    {"flood", flood},
    {"twice", twice},
    {"deaf", deaf},
    {"bomb", bomb},
    {"stubborn", stubborn},
    {"hang_up", hang_up},
    {"crash", crash},
    {"quit", quit},
    {"silent", silent},
    {"nonsense", nonsense},
    {"stderr_flood", stderr_flood},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
        }
    }
    return 3;
}
