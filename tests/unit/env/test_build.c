// The builder with real programs: bash, direnv, and fakes of devenv, nix and mise that print what the
// real ones were recorded to print.

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "unit/env/rig.h"

// A program of that name in the project's `fake/`, which comes first in the outer PATH.
static void fake(const char *name, const char *script)
{
    char *rel = xasprintf("fake/%s", name), *text = xasprintf("#!/bin/sh\n%s\n", script);
    rig_write(rel, text);
    char *path = rig_path(rel);
    CHECK_INT(chmod(path, 0700), 0);
    free((void *)(uintptr_t)rig.base[0]);
    rig.base[0] = xasprintf("PATH=%s/fake:/usr/bin:/bin", rig.root);
    free(path);
    free(text);
    free(rel);
}

TEST(a_script_is_captured_before_and_after)
{
    rig_open();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n[env]\nSEEN = 'toml'\n");
    rig_write("env.sh", "echo to the person; echo and so >&2\n"
                        "export A=\"$SEEN-$(pwd)\" B=$'two\\nlines\\xff'\n"
                        "export EMPTY=\n"
                        "unset OUTER\n"
                        "NOT_EXPORTED=1\n"
                        "export PS1=x PROMPT_COMMAND=x\n"
                        "f() { :; }; export -f f\n"
                        "path_add bin tools\n"
                        "watch_file 'go \"mod' missing.txt\n"
                        "dotenv .env.script\n");
    rig_write("go \"mod", "");
    rig_write(".env.script",
              "export D1='single # q'\nD2=\"double\" # c\nD3=plain text # c\nbad line\n"
              "D4=$(touch ran) `touch ran`\n");
    struct env_result *r = rig_build();
    CHECK(r != NULL);
    CHECK_STR(r->provider, "script");
    char *a = xasprintf("toml-%s", rig.root), *ran = rig_path("ran");
    CHECK_STR(rig_get(r, "A"), a);
    CHECK_STR(rig_get(r, "B"), "two\nlines\xff");
    CHECK_STR(rig_get(r, "EMPTY"), "");
    CHECK_STR(rig_get(r, "SEEN"), "toml");
    CHECK_STR(rig_get(r, "D1"), "single # q");
    CHECK_STR(rig_get(r, "D2"), "double");
    CHECK_STR(rig_get(r, "D3"), "plain text");
    CHECK_STR(rig_get(r, "D4"), "$(touch ran) `touch ran`");
    CHECK(access(ran, F_OK) != 0);
    CHECK(rig_unset(r, "OUTER"));
    CHECK_INT(r->set.n, 8);
    CHECK_STR(rig_front(r, "PATH"), "$/bin $/tools");
    CHECK(rig_input("env.sh", ENV_FILE));
    CHECK(rig_input("go \"mod", ENV_FILE));
    CHECK(rig_input("missing.txt", ENV_FILE));
    CHECK(rig_input(".env.script", ENV_FILE));
    CHECK(str_starts(buf_str(&rig.log), "to the person\nand so\n"));
    free(a);
    free(ran);
    rig_close();
}

TEST(what_a_script_prints_is_never_evaluated)
{
    rig_open();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    rig_write("env.sh",
              "echo 'export EVIL=1'; echo '{\"v\":1,\"set\":{\"EVIL\":\"1\"}}'\nexport GOOD=1\n");
    struct env_result *r = rig_build();
    CHECK_STR(rig_get(r, "GOOD"), "1");
    CHECK(rig_get(r, "EVIL") == NULL);
    rig_close();
}

TEST(a_script_that_fails_is_a_clear_failure)
{
    static const char *const rows[][2] = {
        {"echo what went wrong >&2; exit 3", "script 'env.sh': 'bash' ended with status 3"},
        {"echo what went wrong >&2; return 2", "script 'env.sh': 'bash' ended with status 2"},
        {"echo what went wrong >&2; kill -9 $$", "script 'env.sh': 'bash' was ended by signal 9"},
        {"echo what went wrong >&2; builtin trap - EXIT",
         "the provider wrote no answer to descriptor 3"},
        {"echo what went wrong >&2; echo junk >&3", "provider's answer is invalid"},
        {"echo what went wrong >&2; exec 3>&-; true",
         "the provider wrote no answer to descriptor 3"},
    };
    rig_open();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rig_write("env.sh", rows[i][0]);
        CHECK(rig_build() == NULL);
        if (strstr(rig.error, rows[i][1]) == NULL || strstr(rig.error, "what went wrong") == NULL) {
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i][0], rig.error);
        }
    }
    rig_close();
}

TEST(a_script_keeps_its_own_trap_for_the_end)
{
    static const char *const rows[] = {
        "trap 'echo clean; rm tmp' EXIT; touch tmp; export S=1",
        "trap -- 'echo clean; rm tmp' 0; touch tmp; export S=1; exit 0",
        "trap 'echo clean; rm tmp' sigexit TERM; touch tmp; export S=1; trap - TERM",
    };
    rig_open();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *left = rig_path("tmp");
        buf_clear(&rig.log);
        rig_write("env.sh", rows[i]);
        struct env_result *r = rig_build();
        CHECK(r != NULL);
        CHECK_STR(rig_get(r, "S"), "1");
        CHECK_STR(buf_z(&rig.log), "clean\n");
        CHECK(access(left, F_OK) != 0);
        free(left);
    }
    rig_write("env.sh", "trap 'echo no' EXIT; trap - EXIT; export S=2");
    CHECK_STR(rig_get(rig_build(), "S"), "2");
    CHECK(strstr(buf_z(&rig.log), "no") == NULL);
    rig_close();
}

static void write_large(size_t size)
{
    char *value = xcalloc(1, size + 1);
    memset(value, 'x', size);
    char *text = xasprintf("[env]\nBIG = '%s'\n", value);
    rig_write(".afloat/env.toml", text);
    free(text);
    free(value);
}

TEST(an_environment_that_no_program_could_start_in_is_a_failed_build)
{
    rig_open();
    write_large(131072 - 5); // "BIG=" and the end: as much as the kernel takes
    CHECK(rig_build() != NULL);
    write_large(131072 - 4);
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "'BIG' has 131073 bytes") != NULL);
    char *many = xasprintf("x=$(head -c 20000 /dev/zero | tr '\\0' x)\n"
                           "for ((i = 0; i < %ld; i++)); do export V$i=$x; done; export BIG=$x.",
                           sysconf(_SC_ARG_MAX) / 20000);
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    rig_write("env.sh", many);
    free(many);
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "the environment has ") != NULL);
    CHECK(strstr(rig.error, "'BIG'") != NULL);
    rig_close();
}

TEST(nothing_is_run_until_the_project_is_trusted)
{
    rig_open();
    rig.trusted = false;
    rig_write(".afloat/env.toml", "script = 'env.sh'\n[env]\nA = '1'\n");
    rig_write("env.sh", "touch ran\n");
    CHECK(rig_build() == NULL);
    CHECK_INT(rig.code, ERR_DENIED);
    CHECK(strstr(rig.error, "afloat env allow") != NULL);
    char *ran = rig_path("ran");
    CHECK(access(ran, F_OK) != 0);
    CHECK(env_coord_get_result(rig.coord) == NULL);
    rig.trusted = true;
    CHECK(rig_build() != NULL);
    CHECK(access(ran, F_OK) == 0);
    free(ran);
    rig_close();
}

TEST(a_build_that_takes_too_long_is_ended_with_all_it_started)
{
    rig_open();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    rig_write("env.sh",
              "trap '' TERM; (setsid sleep 1000 & echo $! >sleeper); echo on it; sleep 1000");
    rig_start(NULL);
    env_coord_reload(rig.coord, true);
    char *sleeper = rig_path("sleeper");
    while (access(sleeper, F_OK) != 0 || strstr(buf_z(&rig.log), "on it") == NULL) {
        loop_run_once(&rig.loop, true);
    }
    env_coord_interrupt(rig.coord);
    rig_wait(&rig.failed, 1);
    CHECK_STR(rig.error, "interrupted\n");
    CHECK_INT(env_coord_get_state(rig.coord), ENV_FAILED);
    struct buf pid;
    buf_init(&pid, 100);
    CHECK_INT(path_read(sleeper, &pid, NULL), 0);
    int sleeper_pid = atoi(buf_z(&pid));
    while (kill(sleeper_pid, 0) == 0) { // KILL comes after the grace
        rig_idle(20);
    }
    buf_fini(&pid);
    free(sleeper);
    rig_close();
}

TEST(a_slow_provider_runs_out_of_time)
{
    rig_open();
    fake("mise", "echo still at it >&2; exec sleep 1000");
    rig_write("mise.toml", "");
    rig.timeout_ms = 300;
    rig_start(NULL);
    env_coord_reload(rig.coord, true);
    rig_wait(&rig.failed, 1);
    CHECK_INT(rig.code, ERR_TIMEOUT);
    CHECK(strstr(rig.error, "'mise' took longer than 0 s\nstill at it\n") != NULL);
    rig_close();
}

TEST(a_missing_or_babbling_delegate_is_a_clear_failure)
{
    rig_open();
    rig_write(".afloat/env.toml", "provider = 'mise'\n");
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "cannot start 'mise': it is not installed") != NULL);
    fake("mise", "echo Welcome to mise!");
    env_coord_close(rig.coord);
    rig.coord = NULL;
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "'mise' did not answer in JSON") != NULL);
    fake("mise", "echo trouble >&2; echo '{}'; exit 9");
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "'mise' ended with status 9\ntrouble") != NULL);
    fake("mise", "head -c 20000000 /dev/zero");
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "it printed more than 8 MiB") != NULL);
    rig_close();
}

TEST(mise_is_a_delegate)
{
    rig_open();
    fake("mise", "test \"$*\" = 'env --json' && cat recorded.json");
    rig_write("mise.toml", "[env]\nNODE_ENV = 'development'\n");
    rig_write("recorded.json",
              "{\n  \"NODE_ENV\": \"development\",\n  \"PATH\": "
              "\"/home/u/.local/share/mise/installs/node/20/bin:/usr/bin:/bin\"\n}\n");
    struct env_result *r = rig_build();
    CHECK_STR(r->provider, "mise");
    CHECK_STR(rig_get(r, "NODE_ENV"), "development");
    CHECK(strstr(rig_front(r, "PATH"), "/home/u/.local/share/mise/installs/node/20/bin") != NULL);
    CHECK(rig_input("mise.toml", ENV_FILE));
    CHECK(rig_input(".tool-versions", ENV_FILE));
    rig_close();
}

static const char nix_recorded[] =
    "{\"bashFunctions\":{\"buildPhase\":\" : \"},\"variables\":{"
    "\"GREETING\":{\"type\":\"exported\",\"value\":\"hello\"},"
    "\"HOME\":{\"type\":\"exported\",\"value\":\"/homeless-shelter\"},"
    "\"PATH\":{\"type\":\"exported\",\"value\":\"/nix/store/aaa-gcc/bin:/nix/store/bbb-bash/bin\"},"
    "\"buildInputs\":{\"type\":\"exported\",\"value\":\"\"},"
    "\"envHostHostHooks\":{\"type\":\"array\",\"value\":[\"x\"]},"
    "\"OPTIND\":{\"type\":\"var\",\"value\":\"1\"},"
    "\"NOT_EXPORTED\":{\"type\":\"var\",\"value\":\"1\"},"
    "\"XDG_DATA_DIRS\":{\"type\":\"exported\",\"value\":\"/nix/store/ccc/share\"}}}\n";

TEST(nix_and_devenv_are_delegates)
{
    static const char *const rows[][2] = {{"nix", "flake.nix"}, {"devenv", "devenv.nix"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rig_open();
        fake(rows[i][0],
             "test \"$1 $2\" = 'print-dev-env --json' && cat recorded.json; echo evaluating >&2");
        rig_write(rows[i][1], "{ }");
        rig_write("recorded.json", nix_recorded);
        rig_write(".afloat/env.toml", "[env]\nGREETING = '${GREETING} over'\n");
        struct env_result *r = rig_build();
        CHECK_STR(r->provider, rows[i][0]);
        CHECK_STR(rig_get(r, "GREETING"), "hello over"); // keys of env.toml lie on top
        CHECK_INT(r->set.n, 1);
        CHECK_INT(r->unset.n, 0);
        CHECK_STR(rig_front(r, "PATH"), "/nix/store/aaa-gcc/bin /nix/store/bbb-bash/bin");
        CHECK_STR(rig_front(r, "XDG_DATA_DIRS"), "/nix/store/ccc/share");
        CHECK(rig_input(rows[i][1], ENV_FILE));
        CHECK_STR(buf_z(&rig.log), "evaluating\n");
        rig_remove(rows[i][1]);
        rig_close();
    }
}

// As nix answers, with what `nix develop` runs at its start.
static const char nix_hooked[] =
    "{\"bashFunctions\":{\"greet\":\" export HELLO=\\\"hi $1 $name\\\" \",\"bad "
    "name\":\"(\"},\"variables\":{"
    "\"GREETING\":{\"type\":\"exported\",\"value\":\"hello\"},"
    "\"HOME\":{\"type\":\"exported\",\"value\":\"/homeless-shelter\"},"
    "\"name\":{\"type\":\"exported\",\"value\":\"ti'ny\"},"
    "\"shellHook\":{\"type\":\"exported\",\"value\":\"greet $GREETING\\necho said\\nexport "
    "AT=$HOME\"}}}\n";

TEST(the_shell_hook_of_nix_and_devenv_is_run)
{
    static const char *const rows[][2] = {{"nix", "flake.nix"}, {"devenv", "devenv.nix"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rig_open();
        fake(rows[i][0], "cat recorded.json");
        rig_write(rows[i][1], "{ }");
        rig_write("recorded.json", nix_hooked);
        rig_write(".afloat/env.toml", "[env]\nLATER = '${HELLO}!'\n");
        struct env_result *r = rig_build();
        CHECK(r != NULL);
        CHECK_STR(r->provider, rows[i][0]);
        CHECK_STR(rig_get(r, "HELLO"), "hi hello ti'ny");
        CHECK_STR(rig_get(r, "LATER"), "hi hello ti'ny!");
        CHECK_STR(rig_get(r, "AT"), test_dir()); // the person's, not the builder's
        CHECK(rig_get(r, "name") == NULL);
        CHECK_STR(buf_z(&rig.log), "said\n");
        CHECK_INT(r->functions.n, 1);
        CHECK_STR(r->functions.p[0].name, "greet");
        CHECK(strstr(r->functions.p[0].value, "export HELLO=") != NULL);
        rig_write("recorded.json", "{\"variables\":{\"shellHook\":{\"type\":\"exported\","
                                   "\"value\":\"exit 3\"}}}");
        CHECK(rig_build() == NULL);
        CHECK(strstr(rig.error, "shellHook: 'bash' ended with status 3") != NULL);
        rig_close();
    }
}

TEST(what_a_flake_imports_is_an_input)
{
    rig_open();
    fake("nix", "printf '{\"variables\":{\"A\":{\"type\":\"exported\",\"value\":\"%s\"}}}' "
                "\"$(cat mods/default.nix)\"");
    rig_write("flake.nix", "import ./shell.nix");
    rig_write("shell.nix", "import ./mods");
    rig_write("mods/default.nix", "1");
    CHECK_STR(rig_get(rig_build(), "A"), "1");
    CHECK(rig_input("shell.nix", ENV_FILE));
    rig_write("mods/default.nix", "2");
    rig_wait(&rig.ready, 2);
    CHECK_STR(rig_get(rig.result, "A"), "2");
    rig_close();
}

TEST(a_file_that_only_nix_knows_to_be_imported_is_an_input)
{
    rig_open();
    fake("nix", "from=/nix/store/abc-source; echo \"evaluating file '$from/flake.nix'\" >&2\n"
                "echo \"evaluating file '$from/mods/one.nix'\" >&2\n"
                "echo \"evaluating file '/nix/store/def-source/flake.nix'\" >&2; echo other >&2\n"
                "printf '{\"variables\":{\"A\":{\"type\":\"exported\",\"value\":\"%s\"}}}' "
                "\"$(cat mods/one.nix)\"");
    rig_write("flake.nix", "import (./mods + name)");
    rig_write("mods/one.nix", "1");
    CHECK_STR(rig_get(rig_build(), "A"), "1");
    CHECK(rig_input("mods/one.nix", ENV_FILE));
    CHECK(strncmp(buf_z(&rig.log), "other\n", 6) == 0);
    CHECK(strstr(buf_z(&rig.log), "evaluating") == NULL);
    rig_write("mods/one.nix", "2");
    do { // a file written just before the build is built once more, since it may have changed in it
        rig_wait(&rig.ready, rig.ready + 1);
    } while (strcmp(rig_get(rig.result, "A"), "2") != 0);
    rig_close();
}

TEST(a_script_has_a_place_for_its_state_that_is_no_input)
{
    rig_open();
    rig_write(".afloat/env.toml", "script = 'env.sh'\nwatch = ['.afloat/state']\n");
    rig_write("env.sh", "export S=$AFLOAT_STATE; echo $RANDOM > $AFLOAT_STATE/made; watch_file "
                        "$AFLOAT_STATE/made\n");
    struct env_result *r = rig_build();
    CHECK(r != NULL);
    char *state = rig_path(".afloat/state"), *made = rig_path(".afloat/state/made");
    CHECK(access(made, F_OK) == 0);
    size_t n;
    const struct env_input *in = env_coord_get_inputs(rig.coord, &n);
    for (size_t i = 0; i < n; i++) {
        CHECK(strncmp(in[i].path, state, strlen(state)) != 0);
    }
    rig_idle(100);
    CHECK_INT(rig.building, 1);
    free(made);
    free(state);
    rig_close();
}

TEST(a_delegate_that_is_not_installed_is_passed_over_by_auto)
{
    rig_open();
    free((void *)(uintptr_t)rig.base[0]);
    rig.base[0] = xasprintf("PATH=%s/empty", test_dir()); // whatever this machine has
    rig_write("flake.nix", "{ }");
    rig_write(".envrc", "");
    rig_write(".afloat/env.toml", "[env]\nA = '1'\n");
    struct env_result *r = rig_build();
    CHECK_STR(r->provider, "toml");
    CHECK_STR(rig_get(r, "A"), "1");
    rig_close();
}

static void direnv(const char *command)
{
    char *line = xasprintf("cd '%s' && HOME='%s' XDG_DATA_HOME='%s/data' direnv %s", rig.root,
                           test_dir(), test_dir(), command);
    CHECK_INT(system(line), 0);
    free(line);
}

TEST(direnv_without_an_envrc_is_a_clear_failure)
{
    rig_open();
    rig_write(".afloat/env.toml", "provider = 'direnv'\n[env]\nA = '1'\n");
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "provider \"direnv\" needs a file '.envrc' in '") != NULL);
    rig_close();
}

TEST(real_direnv_is_a_delegate_and_its_own_allow_list_decides)
{
    if (access("/usr/bin/direnv", X_OK) != 0) {
        test_skip("direnv is not installed");
    }
    rig_open();
    rig_write(".envrc", "export FROM=direnv\nPATH_add bin\nunset OUTER\nwatch_file later.txt\n"
                        "test -e later.txt && export LATER=\"$(cat later.txt)\"\ntrue\n");
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "is blocked") != NULL);
    direnv("allow"); // which is an input: the next build begins by itself
    rig_wait(&rig.ready, 1);
    CHECK_STR(rig.result->provider, "direnv");
    CHECK_STR(rig_get(rig.result, "FROM"), "direnv");
    CHECK_STR(rig_front(rig.result, "PATH"), "$/bin");
    CHECK(rig_unset(rig.result, "OUTER"));
    CHECK_INT(rig.result->set.n, 1);
    CHECK(rig_input("later.txt", ENV_MISSING));
    unsigned before = rig.ready;
    rig_write("later.txt", "now"); // a file of its watch list that appears
    rig_wait(&rig.ready, before + 1);
    CHECK_STR(rig_get(rig.result, "LATER"), "now");
    before = rig.ready;
    rig_remove(".envrc"); // without it there is nothing left of it
    rig_wait(&rig.ready, before + 1);
    CHECK_STR(rig.result->provider, "toml");
    CHECK_INT(rig.result->set.n + rig.result->unset.n + rig.result->prepend.n, 0);
    rig_close();
}
