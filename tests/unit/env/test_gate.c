// The gate with a real trust book.

#include <sys/stat.h>
#include <unistd.h>

#include "env/spec.h"
#include "unit/env/rig.h"

static struct env_gate gate;
static char *home;

static void begin(void)
{
    rig_open();
    home = path_join(test_dir(), "home");
    CHECK_INT(path_mkdirs(home, 0700, NULL), 0);
    env_gate_trust_init(&gate, home);
    rig.gate = &gate;
}

static void finish(void)
{
    rig_close();
    env_gate_trust_fini(&gate);
    free(home);
}

TEST(an_environment_is_used_after_it_was_allowed_and_only_as_it_was)
{
    begin();
    rig_write(".afloat/env.toml", "dotenv = ['.env']\n[env]\nA = '1'\n");
    rig_write(".env", "SECRET=1\n");
    CHECK(rig_build() == NULL);
    CHECK_INT(rig.code, ERR_DENIED);
    CHECK(strstr(rig.error, "is not trusted: look at it, then type 'afloat env allow'") != NULL);
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0); // the book is an input
    rig_wait(&rig.ready, 1);
    CHECK_STR(rig_get(rig.result, "A"), "1");
    unsigned before = rig.failed;
    rig_write(".env", "SECRET=2\n"); // a file that it reads counts too
    rig_wait(&rig.failed, before + 1);
    CHECK_INT(rig.code, ERR_DENIED);
    CHECK_STR(rig_get(env_coord_get_result(rig.coord), "SECRET"), "1");
    rig_write(".env", "SECRET=1\n"); // every hash once trusted stays trusted
    rig_wait(&rig.ready, 2);
    CHECK_INT(env_gate_deny(home, rig.root, NULL), 0);
    rig_wait(&rig.failed, before + 2);
    CHECK_INT(env_gate_deny(home, rig.root, NULL), ERR_NOT_FOUND);
    finish();
}

TEST(a_followed_project_stays_trusted_when_it_changes)
{
    begin();
    rig_write(".afloat/env.toml", "[env]\nA = '1'\n");
    CHECK_INT(env_gate_allow(home, rig.root, true, NULL), 0);
    CHECK(rig_build() != NULL);
    rig_write(".afloat/env.toml", "[env]\nA = '2'\n");
    rig_wait(&rig.ready, 2);
    CHECK_STR(rig_get(rig.result, "A"), "2");
    CHECK_INT(rig.failed, 0);
    finish();
}

TEST(a_project_without_files_of_ours_needs_no_trust)
{
    begin();
    CHECK(rig_build() != NULL);
    CHECK_INT(rig.result->set.n, 0);
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), ERR_NOT_FOUND);
    finish();
}

TEST(bytes_that_were_read_before_the_trusted_ones_returned_are_refused)
{
    struct arena a = {0};
    struct env_vars vars;
    struct env_spec spec;
    struct err e = {0};
    begin();
    rig_write(".afloat/env.toml", "[env]\nA = 'good'\n");
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0);
    env_vars_init(&vars, &a);
    rig_write(".afloat/env.toml", "[env]\nA = 'evil'\n");
    CHECK_INT(env_spec_read(&spec, rig.root, &vars, &e), 0);
    rig_write(".afloat/env.toml", "[env]\nA = 'good'\n"); // the book will find what it knows
    CHECK_INT(gate.check(&spec, gate.arg, &e), ERR_DENIED);
    env_spec_fini(&spec);
    CHECK_INT(env_spec_read(&spec, rig.root, &vars, &e), 0);
    CHECK_INT(gate.check(&spec, gate.arg, &e), 0);
    env_spec_fini(&spec);
    env_vars_fini(&vars);
    arena_fini(&a);
    finish();
}

TEST(what_a_script_sources_is_an_input_and_must_be_trusted)
{
    begin();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    rig_write("env.sh", "source lib/a.sh\n[ -f later.sh ] && . later.sh; true\n");
    rig_write("lib/a.sh", "export A=1\n");
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0);
    CHECK(rig_build() != NULL);
    CHECK_STR(rig_get(rig.result, "A"), "1");
    CHECK(rig_input("lib/a.sh", ENV_FILE));
    CHECK(rig_input("later.sh", ENV_MISSING));
    rig_write("lib/a.sh", "export A=2; touch ran\n"); // pulled from somewhere
    rig_wait(&rig.failed, 1);
    CHECK_INT(rig.code, ERR_DENIED);
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0);
    rig_wait(&rig.ready, 2);
    CHECK_STR(rig_get(rig.result, "A"), "2");
    finish();
}

TEST(a_script_cannot_source_what_nobody_has_looked_at)
{
    begin();
    rig_write(".afloat/env.toml", "script = 'env.sh'\n");
    rig_write("env.sh", "f=lib/a.sh; export S=1; source \"$f\"\n");
    rig_write("lib/a.sh", "touch ran; export A=1\n");
    char *ran = rig_path("ran");
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0);
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "'lib/a.sh' is sourced, and it is not among the trusted files") !=
          NULL);
    CHECK(access(ran, F_OK) != 0);                            // not one command of it
    CHECK_INT(env_gate_allow(home, rig.root, true, NULL), 0); // followed: it may, and is watched
    rig_wait(&rig.ready, 1);
    CHECK_STR(rig_get(rig.result, "A"), "1");
    CHECK(rig_input("lib/a.sh", ENV_FILE));
    char *list = rig_path(".afloat/state/sourced"), *lib = rig_path("lib/a.sh");
    struct buf sourced; // for those who keep sandboxed commands from writing it
    buf_init(&sourced, SIZE_MAX);
    CHECK_INT(path_read(list, &sourced, NULL), 0);
    CHECK(strstr(buf_z(&sourced), lib) != NULL);
    buf_fini(&sourced);
    free(list);
    free(lib);
    rig_idle(60);
    unsigned before = rig.ready;
    rig_write("lib/a.sh", "export A=2\n");
    rig_wait(&rig.ready, before + 1);
    CHECK_STR(rig_get(rig.result, "A"), "2");
    free(ran);
    finish();
}

TEST(nix_cannot_evaluate_what_nobody_has_looked_at)
{
    begin();
    char *program = rig_path("bin/nix"), *ran = rig_path("ran");
    rig_write("bin/nix",
              "#!/bin/sh\nfor f in flake.nix lib/a.nix link.nix mods/b.nix; do\n"
              "  echo \"evaluating file '/store/x-source/$f'\" >&2; done\n"
              "printf '{\"variables\":{\"shellHook\":{\"type\":\"exported\",\"value\":\"%s\"}}}' "
              "'touch ran'\n");
    CHECK_INT(chmod(program, 0755), 0);
    free((void *)(uintptr_t)rig.base[0]);
    rig.base[0] = xasprintf("PATH=%s/bin:/usr/bin:/bin", rig.root);
    rig_write("flake.nix", "import ./lib/a.nix ./linked.nix (./mods + file)\n");
    rig_write("lib/a.nix", "{ }\n");
    rig_write("link.nix", "{ }\n");
    rig_write("mods/b.nix", "{ }\n");
    char *link = rig_path("linked.nix");
    CHECK_INT(symlink("link.nix", link), 0); // nix names what it leads to
    CHECK(rig_build() == NULL);
    CHECK(strstr(rig.error, "is not trusted: look at it") != NULL); // without a .afloat, too
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0);
    rig_wait(&rig.failed, 2);
    CHECK_INT(rig.code, ERR_DENIED);
    CHECK(strstr(rig.error, "'mods/b.nix' is evaluated, and it is not among the trusted files") !=
          NULL);
    CHECK(access(ran, F_OK) != 0);
    CHECK_INT(env_gate_allow(home, rig.root, true, NULL), 0); // followed: it may, and is watched
    rig_wait(&rig.ready, 1);
    CHECK(rig_input("mods/b.nix", ENV_FILE));
    CHECK(access(ran, F_OK) == 0);
    char *list = rig_path(".afloat/state/evaluated"), *hidden = rig_path("mods/b.nix");
    struct buf evaluated; // for those who keep sandboxed commands from writing it
    buf_init(&evaluated, SIZE_MAX);
    CHECK_INT(path_read(list, &evaluated, NULL), 0);
    CHECK(strstr(buf_z(&evaluated), hidden) != NULL);
    CHECK(strstr(buf_z(&evaluated), "lib/a.nix") == NULL); // its name is in a text
    buf_fini(&evaluated);
    free(hidden);
    free(list);
    free(link);
    free(ran);
    free(program);
    finish();
}

/// Ask the gate about the project as it is now.
static int check(struct err *e)
{
    struct env_spec s;
    struct env_vars base;
    struct arena a = {0};
    char *path = xasprintf("PATH=%s/bin", rig.root);
    const char *const vars[] = {path, NULL};
    env_vars_init(&base, &a);
    env_vars_add_environ(&base, vars);
    CHECK_INT(env_spec_read(&s, rig.root, &base, NULL), 0);
    CHECK(s.delegate != NULL && strcmp(s.delegate, "mise") == 0);
    int rc = gate.check(&s, gate.arg, e);
    env_spec_fini(&s);
    env_vars_fini(&base);
    arena_fini(&a);
    free(path);
    return rc;
}

TEST(a_provider_that_appears_in_a_followed_project_is_asked_about_once)
{
    struct err e = {0};
    begin();
    rig_write(".afloat/env.toml", "[env]\nA = '1'\n");
    rig_write("bin/mise", "#!/bin/sh\n");
    char *program = path_join(rig.root, "bin/mise");
    CHECK_INT(chmod(program, 0755), 0);
    CHECK_INT(env_gate_allow(home, rig.root, true, NULL), 0);
    rig_write("mise.toml", "[env]\n"); // perhaps by an agent
    CHECK_INT(check(&e), ERR_DENIED);
    CHECK(strstr(e.msg, "mise.toml' was not there when you trusted it") != NULL);
    CHECK_INT(env_gate_allow(home, rig.root, false, NULL), 0);
    CHECK_INT(check(&e), 0);
    rig_write("mise.toml", "[env]\nB = '1'\n"); // it is followed from now on
    CHECK_INT(check(&e), 0);
    CHECK_INT(unlink(program), 0);
    free(program);
    finish();
}
