// Where things lie, and which directories are refused.

#include <errno.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/home.h"
#include "unit/test.h"

static void env_set(const char *name, const char *value)
{
    CHECK((value != NULL ? setenv(name, value, 1) : unsetenv(name)) == 0);
}

struct row {
    const char *flag, *home_var, *runtime_var, *xdg, *user_home; // NULL: not set
    const char *dir, *runtime;
};

static const struct row rows[] = {
    {NULL, NULL, NULL, NULL, "/u", "/u/.afloat", "/u/.afloat/run"},
    {NULL, NULL, NULL, "/x", "/u", "/u/.afloat", "/x/afloat"},
    {NULL, NULL, NULL, "", "/u", "/u/.afloat", "/u/.afloat/run"},
    {NULL, NULL, NULL, "rel", "/u", "/u/.afloat", "/u/.afloat/run"},
    {NULL, NULL, "/r", "/x", "/u", "/u/.afloat", "/r"},
    {NULL, "/h", NULL, NULL, "/u", "/h", "/h/run"},
    {NULL, "/h", NULL, "/x", "/u", "/h", "/h/run"},
    {NULL, "/h", "/r", "/x", "/u", "/h", "/r"},
    {NULL, "", NULL, "/x", "/u", "/u/.afloat", "/x/afloat"},
    {NULL, "/h", "", "/x", "/u", "/h", "/h/run"},
    {NULL, "/h/", NULL, NULL, "/u", "/h", "/h/run"},
    {NULL, "~/h", NULL, NULL, "/u", "/u/h", "/u/h/run"},
    {"/f", NULL, NULL, "/x", "/u", "/f", "/f/run"},
    {"/f", "/h", NULL, "/x", "/u", "/f", "/f/run"},
    {"/f", "/h", "/r", "/x", "/u", "/f", "/r"},
};

TEST(homes_resolve_by_flag_then_variable_then_default)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        struct home h;
        env_set("AFLOAT_HOME", r->home_var);
        env_set("AFLOAT_RUNTIME", r->runtime_var);
        env_set("XDG_RUNTIME_DIR", r->xdg);
        env_set("HOME", r->user_home);
        CHECK_INT(home_resolve(&h, r->flag, NULL), 0);
        CHECK_STR(h.dir, r->dir);
        CHECK_STR(h.runtime, r->runtime);
        home_fini(&h);
    }
}

TEST(every_path_lies_where_the_contract_says)
{
    struct home h;
    env_set("AFLOAT_RUNTIME", "/r");
    CHECK_INT(home_resolve(&h, "/h", NULL), 0);
    CHECK(h.dir_is_set);
    CHECK_STR(h.socket, "/r/hub.sock");
    CHECK_STR(h.pid, "/r/hub.pid");
    CHECK_STR(h.lock, "/h/hub.lock");
    CHECK_STR(h.config, "/h/config.toml");
    CHECK_STR(h.choices, "/h/choices.json");
    CHECK_STR(h.token, "/h/token");
    CHECK_STR(h.secrets, "/h/secrets.json");
    CHECK_STR(h.log, "/h/logs/hub.log");
    CHECK_STR(h.state, "/h/state");
    CHECK_STR(h.sessions, "/h/sessions");
    home_fini(&h);
}

TEST(a_relative_home_is_made_absolute)
{
    char cwd[4096], want[4200];
    struct home h;
    CHECK(chdir(test_dir()) == 0 && getcwd(cwd, sizeof cwd) != NULL);
    env_set("AFLOAT_RUNTIME", "r");
    CHECK_INT(home_resolve(&h, "./a/../b", NULL), 0);
    snprintf(want, sizeof want, "%s/b", cwd);
    CHECK_STR(h.dir, want);
    snprintf(want, sizeof want, "%s/r", cwd);
    CHECK_STR(h.runtime, want);
    home_fini(&h);
}

TEST(an_empty_home_flag_is_refused)
{
    struct home h;
    CHECK_INT(home_resolve(&h, "", NULL), ERR_USAGE);
    CHECK(h.dir == NULL);
}

TEST(without_home_the_password_database_is_asked)
{
    struct passwd *pw = getpwuid(getuid());
    if (pw == NULL) {
        test_skip("this user is not in the password database");
    }
    char want[4200];
    struct home h;
    env_set("AFLOAT_HOME", NULL);
    env_set("HOME", NULL);
    CHECK_INT(home_resolve(&h, NULL, NULL), 0);
    snprintf(want, sizeof want, "%s%s.afloat", pw->pw_dir, strcmp(pw->pw_dir, "/") == 0 ? "" : "/");
    CHECK_STR(h.dir, want);
    CHECK(!h.dir_is_set);
    home_fini(&h);
}

// ---- directories ----------------------------------------------------------------------------

static void home_in(struct home *h, const char *name)
{
    char dir[400];
    env_set("AFLOAT_RUNTIME", NULL);
    snprintf(dir, sizeof dir, "%s/%s", test_dir(), name);
    CHECK_INT(home_resolve(h, dir, NULL), 0);
}

static void check_mode(const char *path, mode_t mode)
{
    struct stat st;
    CHECK(stat(path, &st) == 0);
    CHECK_INT(st.st_mode & 07777, mode);
}

TEST(directories_are_0700_whatever_the_umask)
{
    static const mode_t masks[] = {0, 022, 077, 0777};
    for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
        struct home h;
        char name[20];
        snprintf(name, sizeof name, "deep/er/%zu", i);
        home_in(&h, name);
        umask(masks[i]);
        CHECK_INT(home_prepare(&h, NULL), 0);
        CHECK_INT(home_prepare(&h, NULL), 0);
        umask(022);
        check_mode(h.dir, 0700);
        check_mode(h.runtime, 0700);
        check_mode(h.state, 0700);
        check_mode(h.sessions, 0700);
        home_fini(&h);
    }
}

/// Prepare must fail with `code` and a message that holds `text` and the name of `dir`.
static void check_refused(const struct home *h, int code, const char *text, const char *dir)
{
    struct err e = {0};
    CHECK_INT(home_prepare(h, &e), code);
    CHECK(strstr(e.msg, text) != NULL);
    CHECK(strstr(e.msg, dir) != NULL);
}

TEST(a_home_that_others_can_write_is_refused_with_the_command)
{
    static const mode_t modes[] = {0720, 0702, 0777, 01777};
    struct home h;
    home_in(&h, "home");
    CHECK_INT(home_prepare(&h, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        CHECK(chmod(h.dir, modes[i]) == 0);
        check_refused(&h, ERR_DENIED, "chmod 700 '", h.dir);
    }
    CHECK(chmod(h.dir, 0755) == 0);
    CHECK_INT(home_prepare(&h, NULL), 0);
    home_fini(&h);
}

TEST(a_runtime_directory_that_others_can_write_is_refused)
{
    struct home h;
    home_in(&h, "home");
    CHECK_INT(home_prepare(&h, NULL), 0);
    CHECK(chmod(h.runtime, 0777) == 0);
    check_refused(&h, ERR_DENIED, "chmod 700 '", h.runtime);
    home_fini(&h);
}

TEST(a_home_of_another_user_is_refused_with_the_command)
{
    if (geteuid() != 0) {
        test_skip("giving a directory to another user needs root");
    }
    struct home h;
    home_in(&h, "home");
    CHECK_INT(home_prepare(&h, NULL), 0);
    CHECK(chown(h.runtime, 1, 1) == 0);
    check_refused(&h, ERR_DENIED, "sudo chown 0 '", h.runtime);
    CHECK(chown(h.dir, 1, 1) == 0);
    check_refused(&h, ERR_DENIED, "belongs to user 1", h.dir);
    home_fini(&h);
}

TEST(a_home_that_is_a_file_is_said_so)
{
    struct home h;
    home_in(&h, "home");
    FILE *f = fopen(h.dir, "w");
    CHECK(f != NULL && fclose(f) == 0);
    check_refused(&h, -ENOTDIR, "is not a directory", h.dir);
    home_fini(&h);
}
