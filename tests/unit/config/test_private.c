// The token and the secrets: made once, replaced whole, refused when others could read them.

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "config/secrets.h"
#include "config/token.h"
#include "lib/fault.h"
#include "unit/test.h"

static char *in_dir(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

static void write_mode(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
    CHECK(chmod(path, mode) == 0);
}

static void check_mode(const char *path, mode_t mode)
{
    struct stat st;
    CHECK(stat(path, &st) == 0);
    CHECK_INT(st.st_mode & 07777, mode);
}

/// Start `n` processes that all wait for the same signal to go, run `work(i)` in each, and check
/// that all ended well.
static void at_once(int n, void (*work)(int i))
{
    int go[2];
    CHECK(test_dir() != NULL && pipe(go) == 0);
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            char c;
            close(go[1]);
            CHECK(read(go[0], &c, 1) == 0); // until the parent closes its end
            work(i);
            _exit(0);
        }
    }
    close(go[1]);
    for (int i = 0; i < n; i++) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    close(go[0]);
}

// ---- token ----------------------------------------------------------------------------------

TEST(a_token_is_made_once_with_mode_0600)
{
    char first[TOKEN_LEN + 1], second[TOKEN_LEN + 1];
    const char *path = in_dir("token");
    CHECK_INT(token_read(path, first, NULL), ERR_NOT_FOUND);
    umask(0);
    CHECK_INT(token_load(path, first, NULL), 0);
    CHECK_INT(strspn(first, "0123456789abcdef"), TOKEN_LEN);
    check_mode(path, 0600);
    CHECK_INT(token_load(path, second, NULL), 0);
    CHECK_STR(first, second);
}

static void report_token(int i)
{
    char token[TOKEN_LEN + 1];
    char name[20];
    snprintf(name, sizeof name, "got-%d", i);
    CHECK_INT(token_load(in_dir("token"), token, NULL), 0);
    write_mode(in_dir(name), token, 0600);
}

TEST(processes_that_make_a_token_at_once_get_the_same)
{
    char want[TOKEN_LEN + 1], got[TOKEN_LEN + 1];
    for (int round = 0; round < 10; round++) {
        unlink(in_dir("token"));
        at_once(8, report_token);
        CHECK_INT(token_read(in_dir("token"), want, NULL), 0);
        for (int i = 0; i < 8; i++) {
            char name[20];
            snprintf(name, sizeof name, "got-%d", i);
            CHECK_INT(token_read(in_dir(name), got, NULL), 0);
            CHECK_STR(got, want);
        }
    }
}

TEST(a_rotated_token_is_another_one)
{
    char first[TOKEN_LEN + 1], second[TOKEN_LEN + 1], read[TOKEN_LEN + 1];
    const char *path = in_dir("token");
    CHECK_INT(token_load(path, first, NULL), 0);
    CHECK_INT(token_rotate(path, second, NULL), 0);
    CHECK(strcmp(first, second) != 0);
    CHECK_INT(token_read(path, read, NULL), 0);
    CHECK_STR(read, second);
    check_mode(path, 0600);
}

TEST(a_token_file_that_others_can_read_is_refused_with_the_command)
{
    static const mode_t modes[] = {0640, 0604, 0644, 0620, 0666};
    char token[TOKEN_LEN + 1];
    const char *path = in_dir("token");
    CHECK_INT(token_load(path, token, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct err e = {0};
        CHECK(chmod(path, modes[i]) == 0);
        CHECK_INT(token_load(path, token, &e), ERR_DENIED);
        CHECK(strstr(e.msg, "chmod 600 '") != NULL && strstr(e.msg, path) != NULL);
    }
}

TEST(a_token_file_of_another_user_is_refused)
{
    if (geteuid() != 0) {
        test_skip("giving a file to another user needs root");
    }
    char token[TOKEN_LEN + 1];
    struct err e = {0};
    const char *path = in_dir("token");
    CHECK_INT(token_load(path, token, NULL), 0);
    CHECK(chown(path, 1, 1) == 0);
    CHECK_INT(token_load(path, token, &e), ERR_DENIED);
    CHECK(strstr(e.msg, "belongs to user 1") != NULL);
}

TEST(a_token_file_that_is_a_link_a_pipe_or_a_directory_is_refused)
{
    char token[TOKEN_LEN + 1], target[400];
    snprintf(target, sizeof target, "%s", in_dir("target"));
    CHECK_INT(token_load(target, token, NULL), 0);
    const char *path = in_dir("token");
    CHECK(symlink(target, path) == 0);
    CHECK_INT(token_load(path, token, NULL), ERR_DENIED);
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK_INT(token_load(path, token, NULL), ERR_DENIED);
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    CHECK_INT(token_load(path, token, NULL), ERR_DENIED);
}

TEST(a_token_file_without_a_token_is_said_so)
{
    static const char *const texts[] = {
        "",
        "\n",
        "abc\n",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeG",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
    };
    char token[TOKEN_LEN + 1];
    const char *path = in_dir("token");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = {0};
        write_mode(path, texts[i], 0600);
        CHECK_INT(token_load(path, token, &e), ERR_CORRUPT);
        CHECK(strstr(e.msg, "afloat token rotate") != NULL);
    }
    CHECK_INT(token_rotate(path, token, NULL), 0);
    CHECK_INT(token_read(path, token, NULL), 0);
}

TEST(a_rotation_that_fails_leaves_the_old_token)
{
    char old[TOKEN_LEN + 1], now[TOKEN_LEN + 1], new[TOKEN_LEN + 1];
    const char *path = in_dir("token");
    CHECK_INT(token_load(path, old, NULL), 0);
    unsigned failed = 0;
    for (unsigned long n = 1;; n++) {
        fault_at(n, ENOSPC, false);
        int rc = token_rotate(path, new, NULL);
        unsigned long hits = fault_hits();
        fault_off();
        CHECK_INT(token_read(path, now, NULL), 0);
        if (hits == 0) {
            CHECK_INT(rc, 0);
            break;
        }
        failed += rc != 0;
        if (rc == 0) {
            CHECK_STR(now, new);
        } else if (strcmp(now, old) != 0) {
            snprintf(old, sizeof old, "%s", now); // replaced, only the directory was not synced
        }
    }
    CHECK(failed >= 3); // open, write, fsync at least
}

TEST(a_first_token_that_cannot_be_written_leaves_no_file)
{
    char token[TOKEN_LEN + 1];
    const char *path = in_dir("token");
    fault_at(1, ENOSPC, true);
    CHECK(token_load(path, token, NULL) < 0);
    fault_off();
    CHECK(access(path, F_OK) != 0);
    CHECK_INT(token_load(path, token, NULL), 0);
}

// ---- secrets --------------------------------------------------------------------------------

static void check_secret(const char *path, const char *name, const char *want)
{
    char *value;
    CHECK_INT(secrets_get(path, name, &value, NULL), 0);
    CHECK_STR(value, want);
    free(value);
}

TEST(secrets_are_set_read_listed_and_removed)
{
    const char *path = in_dir("secrets.json");
    struct secret_names names;
    char *value;

    CHECK_INT(secrets_list(path, &names, NULL), 0);
    CHECK_INT(names.n, 0);
    secret_names_fini(&names);
    CHECK_INT(secrets_get(path, "A", &value, NULL), ERR_NOT_FOUND);
    CHECK(value == NULL);

    umask(0);
    CHECK_INT(secrets_set(path, "B", STR("two \"quoted\"\n\xc3\xa4"), NULL), 0);
    CHECK_INT(secrets_set(path, "A", STR("one"), NULL), 0);
    CHECK_INT(secrets_set(path, "A", STR("three"), NULL), 0);
    check_mode(path, 0600);
    check_secret(path, "A", "three");
    check_secret(path, "B", "two \"quoted\"\n\xc3\xa4");

    CHECK_INT(secrets_list(path, &names, NULL), 0);
    CHECK_INT(names.n, 2);
    CHECK_STR(names.p[0], "A");
    CHECK_STR(names.p[1], "B");
    secret_names_fini(&names);

    CHECK_INT(secrets_remove(path, "A", NULL), 0);
    CHECK_INT(secrets_remove(path, "A", NULL), ERR_NOT_FOUND);
    check_secret(path, "B", "two \"quoted\"\n\xc3\xa4");
}

TEST(bad_names_and_values_are_refused)
{
    static const char *const names[] = {"", "a b", "a/b", "\xc3\xa4", "a\n", "$x"};
    const char *path = in_dir("secrets.json");
    char longest[SECRET_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_INT(secrets_set(path, names[i], STR("v"), NULL), ERR_INVALID);
    }
    CHECK_INT(secrets_set(path, longest, STR("v"), NULL), ERR_INVALID);
    CHECK_INT(secrets_set(path, longest + 1, STR("v"), NULL), 0);
    CHECK_INT(secrets_set(path, "A", STR(""), NULL), ERR_INVALID);
    CHECK_INT(secrets_set(path, "A", STR("a\0b"), NULL), ERR_INVALID);
    CHECK_INT(secrets_set(path, "A", STR("\xff"), NULL), ERR_INVALID);
    char *big = xcalloc(1, SECRET_VALUE_MAX + 1);
    memset(big, 'x', SECRET_VALUE_MAX + 1);
    CHECK_INT(secrets_set(path, "A", (struct str){big, SECRET_VALUE_MAX + 1}, NULL), ERR_INVALID);
    CHECK_INT(secrets_set(path, "A", (struct str){big, SECRET_VALUE_MAX}, NULL), 0);
    free(big);
}

TEST(a_damaged_or_open_file_is_never_overwritten_nor_quoted)
{
    static const char *const texts[] = {"", "hunter2", "{\"A\":\"hunter2\"", "[\"hunter2\"]",
                                        "{\"A\": 1, \"B\": \"hunter2\"}"};
    const char *path = in_dir("secrets.json");
    char *value;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = {0};
        struct stat st;
        write_mode(path, texts[i], 0600);
        CHECK_INT(secrets_set(path, "A", STR("new"), &e), ERR_CORRUPT);
        CHECK(strstr(e.msg, "hunter2") == NULL && strstr(e.msg, path) != NULL);
        CHECK(stat(path, &st) == 0 && (size_t)st.st_size == strlen(texts[i]));
    }
    write_mode(path, "{\"A\": \"old\"}", 0644);
    CHECK_INT(secrets_set(path, "A", STR("new"), NULL), ERR_DENIED);
    CHECK_INT(secrets_get(path, "A", &value, NULL), ERR_DENIED);
    CHECK(chmod(path, 0600) == 0);
    check_secret(path, "A", "old");
}

enum { WRITERS = 6, EACH = 10 };

static void write_many(int i)
{
    for (int j = 0; j < EACH; j++) {
        char name[20];
        snprintf(name, sizeof name, "S-%d-%d", i, j);
        CHECK_INT(secrets_set(in_dir("secrets.json"), name, str_of(name), NULL), 0);
    }
}

TEST(writers_at_once_lose_nothing)
{
    at_once(WRITERS, write_many);
    struct secret_names names;
    CHECK_INT(secrets_list(in_dir("secrets.json"), &names, NULL), 0);
    CHECK_INT(names.n, WRITERS * EACH);
    secret_names_fini(&names);
    for (int i = 0; i < WRITERS; i++) {
        for (int j = 0; j < EACH; j++) {
            char name[20];
            snprintf(name, sizeof name, "S-%d-%d", i, j);
            check_secret(in_dir("secrets.json"), name, name);
        }
    }
    check_mode(in_dir("secrets.json"), 0600);
}

TEST(a_change_that_fails_leaves_a_whole_file)
{
    const char *path = in_dir("secrets.json");
    CHECK_INT(secrets_set(path, "KEEP", STR("kept"), NULL), 0);
    unsigned failed = 0;
    for (unsigned long n = 1;; n++) {
        CHECK_INT(secrets_set(path, "A", STR("old"), NULL), 0);
        fault_at(n, ENOSPC, n % 2 == 0);
        int rc = secrets_set(path, "A", STR("new"), NULL);
        unsigned long hits = fault_hits();
        fault_off();
        char *value;
        check_secret(path, "KEEP", "kept");
        CHECK_INT(secrets_get(path, "A", &value, NULL), 0);
        CHECK(strcmp(value, "new") == 0 || (rc != 0 && strcmp(value, "old") == 0));
        free(value);
        check_mode(path, 0600);
        failed += rc != 0;
        if (hits == 0) {
            CHECK_INT(rc, 0);
            break;
        }
    }
    CHECK(failed >= 5); // lock, open, read, write, fsync at least
}
