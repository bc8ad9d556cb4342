#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "client/holder.h"
#include "client/interrupt.h"
#include "client/start.h"
#include "unit/test.h"

static void use_home(struct home *h)
{
    unsetenv("AFLOAT_RUNTIME");
    CHECK_INT(home_resolve(h, test_dir(), NULL), 0);
}

static void write_lock(const struct home *h, long pid)
{
    char text[32];
    snprintf(text, sizeof text, "%ld\n", pid);
    int fd = open(h->lock, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(write(fd, text, strlen(text)) > 0);
    close(fd);
}

static bool has(char **env, const char *text)
{
    for (; *env != NULL; env++) {
        if (strcmp(*env, text) == 0) {
            return true;
        }
    }
    return false;
}

static size_t count(char **env)
{
    size_t n = 0;
    while (env[n] != NULL) {
        n++;
    }
    return n;
}

TEST(a_hub_gets_the_listed_variables_and_no_other)
{
    // clang-format off
    static const char *const given[] = {
        "HOME=/h", "PATH=/bin", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "AFLOAT_LOG=debug",
        "AFLOAT_HOME=/elsewhere", "AFLOAT_RUNTIME=/elsewhere/run", "SECRET_KEY=x", "AWS_SESSION=y",
        "SSH_AUTH_SOCK=/s", "AFLOAT_PROVIDER=p", "LD_PRELOAD=z", "HOMEX=no", "https_proxy=http://p",
    };
    // clang-format on
    char *env[ARRAY_LEN(given) + 1] = {0};
    struct arena a = {0};
    struct home h;
    use_home(&h);
    for (size_t i = 0; i < ARRAY_LEN(given); i++) {
        env[i] = arena_strdup(&a, str_of(given[i]));
    }
    char **got = start_environment(&h, env, &a);
    char *home = arena_printf(&a, "AFLOAT_HOME=%s", h.dir);
    char *runtime = arena_printf(&a, "AFLOAT_RUNTIME=%s", h.runtime);
    static const char *const kept[] = {"HOME=/h",          "PATH=/bin",
                                       "LC_ALL=C",         "XDG_RUNTIME_DIR=/r",
                                       "AFLOAT_LOG=debug", "https_proxy=http://p"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        CHECK(has(got, kept[i]));
    }
    CHECK(has(got, home));
    CHECK(has(got, runtime));
    CHECK_INT(count(got), ARRAY_LEN(kept) + 2);
    home_fini(&h);
    arena_fini(&a);
}

TEST(a_number_left_behind_is_nobodys_hub)
{
    struct home h;
    use_home(&h);
    CHECK_INT(holder_find(&h), 0);
    write_lock(&h, getppid()); // alive, ours, and not a hub
    CHECK_INT(holder_find(&h), 0);
    write_lock(&h, 1);
    CHECK_INT(holder_find(&h), 0);
    write_lock(&h, -5);
    CHECK_INT(holder_find(&h), 0);
    write_lock(&h, 0x7FFFFFF0);
    CHECK_INT(holder_find(&h), 0);
    home_fini(&h);
}

TEST(who_has_the_lock_open_under_its_number_is_the_hub)
{
    struct home h;
    use_home(&h);
    write_lock(&h, getpid());
    CHECK_INT(holder_find(&h), 0);
    int fd = open(h.lock, O_RDWR | O_CLOEXEC);
    CHECK_INT(holder_find(&h), getpid());
    close(fd);
    CHECK_INT(holder_find(&h), 0);
    home_fini(&h);
}

TEST(a_command_that_keeps_hubs_out_is_no_hub)
{
    struct home h;
    use_home(&h);
    write_lock(&h, getpid());
    int fd = open(h.lock, O_RDWR | O_APPEND | O_CLOEXEC);
    CHECK_INT(holder_find_tool(&h), 0);
    CHECK_INT(write(fd, "tool\n", 5), 5);
    CHECK_INT(holder_find_tool(&h), getpid());
    CHECK_INT(holder_find(&h), 0);
    close(fd);
    CHECK_INT(holder_find_tool(&h), 0);
    home_fini(&h);
}

TEST(the_end_of_a_process_is_waited_for)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(ends[1]);
        _exit(read(ends[0], &c, 1) == 0 ? 0 : 1);
    }
    CHECK_INT(holder_wait_gone(pid, interrupt_deadline(20)), ERR_TIMEOUT);
    close(ends[1]);
    CHECK_INT(holder_wait_gone(pid, 0), 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK_INT(holder_wait_gone(pid, 0), 0);
}

TEST(last_words_are_the_last_line_of_the_output_or_the_last_error_of_the_log)
{
    struct home h;
    use_home(&h);
    char *out = path_join(h.dir, "logs/hub.out");
    char *words = start_last_words(&h);
    CHECK(words == NULL);
    char *logs = path_join(h.dir, "logs");
    CHECK_INT(mkdir(logs, 0700), 0);
    CHECK_INT(path_write_atomic(h.log,
                                STR("2026-01-01T00:00:00.000Z error hub a=1\n"
                                    "2026-01-01T00:00:00.000Z error hub a=2\n"
                                    "2026-01-01T00:00:00.000Z info hub error a=3\n"),
                                0600, NULL),
              0);
    words = start_last_words(&h);
    CHECK_STR(words, "2026-01-01T00:00:00.000Z error hub a=2");
    free(words);
    CHECK_INT(path_write_atomic(out, STR("afloat: cannot x\n\nready socket=x\n"), 0600, NULL), 0);
    words = start_last_words(&h);
    CHECK_STR(words, "cannot x");
    free(words);
    free(logs);
    free(out);
    home_fini(&h);
}

TEST(last_words_are_those_of_the_last_hub_and_no_plugins)
{
    struct home h;
    use_home(&h);
    char *logs = path_join(h.dir, "logs");
    CHECK_INT(mkdir(logs, 0700), 0);
    CHECK_INT(
        path_write_atomic(h.log,
                          STR("2026-01-01T00:00:00.000Z error store disk=full\n"
                              "2026-01-01T00:00:01.000Z info hub ready version=1 pid=1 http=\n"
                              "2026-01-01T00:00:02.000Z error hub unit=y text=\"LOAD_FAILED\"\n"
                              "2026-01-01T00:00:03.000Z info http method=GET\n"),
                          0600, NULL),
        0);
    char *words = start_last_words(&h);
    CHECK_STR(words, "2026-01-01T00:00:03.000Z info http method=GET");
    free(words);
    free(logs);
    home_fini(&h);
}
