#include <errno.h>
#include <unistd.h>

#include "base/time.h"
#include "env/spec.h"
#include "lib/fault.h"
#include "unit/env/rig.h"

TEST(every_key_of_env_toml_has_its_effect)
{
    rig_open();
    rig_write(".afloat/env.toml", "include = ['common.toml']\n"
                                  "dotenv = ['.env', '.env.local']\n"
                                  "watch = ['go.mod']\n"
                                  "[env]\n"
                                  "FOO = '1'\n"
                                  "N = 7\n"
                                  "YES = true\n"
                                  "HOME_BIN = '${HOME}/bin $HOME $${X}'\n"
                                  "CHAIN = '${FOO}-${FROM_DOTENV}-${COMMON}'\n"
                                  "OUTER = '${OUTER}+'\n"
                                  "ROOT = '${AFLOAT_PROJECT}'\n"
                                  "[path]\nprepend = ['bin', '/opt/x']\nappend = ['/last']\n"
                                  "[unset]\nnames = ['HOME']\n");
    rig_write(".afloat/common.toml",
              "[env]\nCOMMON = 'c'\nFOO = 'of common'\n[path]\nprepend = ['cbin']\n");
    rig_write(".env", "FROM_DOTENV=d\nFOO=of dotenv\n");
    struct env_result *r = rig_build();
    CHECK(r != NULL);
    CHECK_STR(rig_get(r, "FOO"), "1");
    CHECK_STR(rig_get(r, "N"), "7");
    CHECK_STR(rig_get(r, "YES"), "true");
    CHECK_STR(rig_get(r, "CHAIN"), "1-d-c");
    CHECK_STR(rig_get(r, "OUTER"), "outside+");
    CHECK_STR(rig_get(r, "ROOT"), rig.root);
    CHECK(rig_get(r, "AFLOAT_PROJECT") == NULL);
    CHECK(strstr(rig_get(r, "HOME_BIN"), "/bin $HOME ${X}") != NULL);
    CHECK_STR(rig_front(r, "PATH"), "$/bin /opt/x $/cbin");
    CHECK_INT(r->append.n, 1);
    CHECK_STR(r->append.p[0].items[0], "/last");
    CHECK(rig_unset(r, "HOME"));
    CHECK_INT(r->unset.n, 1);
    CHECK_STR(r->provider, "toml");
    rig_close();
}

TEST(every_file_opened_or_missed_is_an_input)
{
    rig_open();
    rig_write(".afloat/env.toml",
              "include = ['c.toml']\ndotenv = ['.env', '.no']\nwatch = ['m', 'd']\n");
    rig_write(".afloat/c.toml", "dotenv = ['.env.c']\n");
    rig_write(".env", "A=1");
    rig_write(".env.c", "B=1");
    rig_write("d/file", "");
    struct env_result *r = rig_build();
    CHECK(r != NULL);
    CHECK(rig_input(".afloat/env.toml", ENV_FILE));
    CHECK(rig_input(".afloat/c.toml", ENV_FILE));
    CHECK(rig_input(".env", ENV_FILE));
    CHECK(rig_input(".env.c", ENV_FILE));
    CHECK(rig_input(".no", ENV_MISSING));
    CHECK(rig_input("m", ENV_MISSING));
    CHECK(rig_input("d", ENV_DIR));
    CHECK(rig_input(".envrc", ENV_MISSING));
    CHECK(rig_input("devenv.nix", ENV_MISSING));
    CHECK(rig_input("flake.nix", ENV_MISSING));
    CHECK(rig_input("mise.toml", ENV_MISSING));
    rig_close();
}

TEST(a_file_behind_a_link_is_an_input_under_both_names)
{
    rig_open();
    rig_write("real/.env", "A=1");
    char *link = rig_path(".env");
    CHECK_INT(symlink("real/.env", link), 0);
    rig_write(".afloat/env.toml", "dotenv = ['.env']");
    CHECK(rig_build() != NULL);
    CHECK(rig_input(".env", ENV_FILE));
    CHECK(rig_input("real/.env", ENV_FILE));
    rig_write("real/.env", "A=2");
    rig_wait(&rig.ready, 2);
    CHECK_STR(rig_get(rig.result, "A"), "2");
    free(link);
    rig_close();
}

TEST(faults_of_env_toml_say_where)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"[env]\nA = 1\nA = 2\n", ".afloat/env.toml: line 3, column"},
        {"[env\n", ".afloat/env.toml: line 1"},
        {"pathh = 1", ".afloat/env.toml: line 1: unknown key 'pathh', did you mean 'path'?"},
        {"[env]\nA = [1]", ".afloat/env.toml: line 2: 'A' is array, not a string"},
        {"[env]\nPWD = '/'", ".afloat/env.toml: line 2: 'PWD' is not a name that can be set"},
        {"[env]\n'a-b' = '/'", ".afloat/env.toml: line 2: 'a-b' is not a name that can be set"},
        {"[env]\nA = '${'", ".afloat/env.toml: line 2: '${' needs a name"},
        {"[env]\nA = \"x\\u0000y\"", "'A' holds a NUL byte"},
        {"[path]\nprepand = ['x']", "unknown key of [path] 'prepand', did you mean 'prepend'?"},
        {"[path]\nprepend = 'x'", "'prepend' is not a list of strings"},
        {"[path]\nprepend = ['a:b']", "holds a colon"},
        {"[unset]\nnames = ['a b']", "'a b' is not a name that can be unset"},
        {"include = ['no.toml']", "cannot read '.afloat/no.toml', included by '.afloat/env.toml'"},
        {"include = ['env.toml']", "'.afloat/env.toml' includes itself"},
        {"script = 'no.sh'", "cannot read script 'no.sh'"},
        {"provider = 'nixx'", "unknown provider 'nixx': auto, toml, script"},
        {"provider = 'script'", "provider \"script\" needs the key 'script'"},
        {"provider = 'nix'", "provider \"nix\" needs a file 'flake.nix' in '"},
        {"dotenv = ['.bad']", ".bad: line 1: expected NAME=value"},
        {"[[task]]\nname = 'a'", "a task needs 'run', a string that is not empty"},
        {"[[task]]\nname = 'a'\nrun = 'x'\nafter = ['b']",
         "task 'a' names 'b', and there is no such"},
        {"[[task]]\nname = 'a'\nrun = 'x'\n[[task]]\nname = 'a'\nrun = 'y'",
         "there are two tasks 'a'"},
        {"[[task]]\nname = 'a'\nrun = 'x'\nafter = ['b']\n[[task]]\nname = 'b'\nrun = 'y'\nafter = "
         "['c']\n"
         "[[task]]\nname = 'c'\nrun = 'z'\nafter = ['a']\n",
         "tasks come after each other in a circle: 'a' after 'b' after 'c' after 'a'"},
        {"[[task]]\nname = 'a'\nrun = 'x'\nenv = {A = '${'}", "line 4: '${' needs a name"},
        {"[[task]]\nname = 'a'\nrun = 'x'\nbefore = ['a']",
         "tasks come after each other in a circle: 'a' after 'a'"},
    };
    struct buf many = {.max = SIZE_MAX};
    rig_open();
    rig_write(".bad", "bad");
    buf_addz(&many, "watch = [");
    for (int i = 0; i < 1025; i++) {
        buf_addf(&many, "'f%d',", i);
    }
    buf_addz(&many, "]");
    rig_write(".afloat/env.toml", buf_z(&many));
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "more than 1024 entries of 'watch': name a directory") != NULL);
    buf_fini(&many);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rig_write(".afloat/env.toml", rows[i].text);
        CHECK(rig_build() == NULL);
        if (strstr(rig.error, rows[i].message) == NULL) {
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, rig.error);
        }
    }
    rig_close();
}

TEST(a_project_is_the_nearest_directory_that_describes_one)
{
    struct env_project p;
    rig_open();
    rig_write("inner/.envrc", "");
    rig_write("inner/deep/er/x", "");
    rig_write(".afloat/env.toml", "");
    char *deep = rig_path("inner/deep/er"), *inner = rig_path("inner"), *none = rig_path("none");
    CHECK_INT(env_project_find(&p, deep, NULL), 0);
    CHECK_STR(p.root, inner);
    CHECK_STR(p.name, "inner");
    CHECK(p.found);
    env_project_fini(&p);
    CHECK_INT(env_project_find(&p, rig.root, NULL), 0);
    CHECK_STR(p.root, rig.root);
    env_project_fini(&p);
    CHECK_INT(env_project_find(&p, none, NULL), ERR_NOT_FOUND);
    CHECK_INT(env_project_find(&p, "/", NULL), 0);
    CHECK_STR(p.root, "/");
    CHECK(!p.found);
    env_project_fini(&p);
    free(deep);
    free(inner);
    free(none);
    rig_close();
}

TEST(a_toml_environment_is_built_in_a_few_milliseconds)
{
    struct buf text;
    uint64_t best = UINT64_MAX;
    rig_open();
    buf_init(&text, SIZE_MAX);
    buf_addz(&text, "[path]\nprepend = ['bin']\n[env]\n");
    for (int i = 0; i < 120; i++) {
        buf_addf(&text, "VAR_%d = '${HOME}/value-%d'\n", i, i);
    }
    rig_write(".afloat/env.toml", buf_z(&text));
    for (int i = 0; i < 10; i++) {
        uint64_t start = time_mono_ns();
        struct env_result *r = rig_build();
        best = MIN(best, time_mono_ns() - start);
        CHECK_INT(r->set.n, 120);
    }
    printf("env.toml with 120 variables: best of 10 %.2f ms\n", (double)best / 1e6);
    CHECK(best < 50000000); // ten times the budget: this build has sanitizers
    buf_fini(&text);
    rig_close();
}

TEST(a_disk_that_fails_anywhere_is_a_failure_and_no_crash)
{
    struct arena a = {0};
    struct env_vars vars;
    unsigned long failed = 0;
    rig_open();
    rig_write(".afloat/env.toml",
              "include = ['c.toml']\ndotenv = ['.env']\nscript = 'env.sh'\n[env]\nA = '1'\n");
    rig_write(".afloat/c.toml", "[env]\nB = '1'\n");
    rig_write(".env", "C=1\n");
    rig_write("env.sh", "true\n");
    env_vars_init(&vars, &a);
    env_vars_set(&vars, STR("PATH"), STR("/usr/bin"));
    for (unsigned long n = 1;; n++) {
        struct env_spec spec;
        struct err e = {0};
        fault_at(n, EIO, false);
        int rc = env_spec_read(&spec, rig.root, &vars, &e);
        unsigned long hits = fault_hits();
        fault_off();
        CHECK(spec.inputs.n != 0); // whatever failed, something can be watched
        env_spec_fini(&spec);
        if (hits == 0) {
            CHECK_INT(rc, 0);
            break;
        }
        failed++;
        CHECK(rc != 0 && e.msg[0] != '\0');
    }
    printf("points that failed: %lu\n", failed);
    CHECK(failed != 0);
    env_vars_fini(&vars);
    arena_fini(&a);
    rig_close();
}
