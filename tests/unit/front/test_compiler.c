// The compiler's process, with programs of our own in its place: what it does when it hangs, dies, talks nonsense or
// has nothing to do. The real one is used by tests/functional/test_front.py.

#include <stdlib.h>

#include "base/path.h"
#include "front/front_int.h"
#include "front_programs.h"
#include "loop/proc.h"
#include "unit/loop.h"

static struct test_clock hands;
static struct loop l;
static struct front *f;
static struct tree t;
static int done, failed, missing;
static char said[256];

/// Says hello as the service, then whatever `then` does with its input.
#define SERVICE(then)                                                                              \
    "#!/bin/sh\n[ \"$1\" = --version ] && { echo 1.2.3; exit; }\n"                                 \
    "[ \"$1\" = --service=1.2.3 ] || exit 9\nprintf '\\005\\000\\000\\0001.2.3'\n" then "\n"

static void begin(const char *script)
{
    struct err e = {0};
    char *path = path_join(test_dir(), "esbuild");
    CHECK_INT(script == NULL || path_write_atomic(path, str_of(script), 0700, &e) == 0, 1);
    free(path);
    path = xasprintf("%s:/usr/bin:/bin", test_dir());
    setenv("PATH", script != NULL ? path : "/nonexistent", 1);
    free(path);
    test_clock_init(&hands);
    CHECK_INT(proc_setup_at(FRONT_LAUNCHER, &e), 0);
    CHECK_INT(loop_init(&l, &hands.clock, &e), 0);
    tree_of_file(&t, "index.tsx", STR("export default 1;"));
    f = front_open(&l);
}

static void finish(void)
{
    front_close(f);
    TEST_LOOP_END(&l);
    tree_fini(&t);
    proc_teardown();
}

static void on_built(void *arg, struct front_output *out, const struct gen_diag *fault, bool none)
{
    (void)arg;
    done++;
    failed += fault != NULL;
    missing += none;
    CHECK((out == NULL) == (fault != NULL));
    snprintf(said, sizeof said, "%s", fault != NULL ? fault->message : "");
    front_output_unref(out);
}

static void build(void)
{
    front_build(f, &t, "index.tsx", on_built, NULL);
}

static void wait_for(int n)
{
    while (done < n) {
        loop_run_once(&l, true);
    }
}

TEST(a_missing_compiler_is_said_and_is_no_fault_of_the_plugin)
{
    begin(NULL);
    build();
    build();
    CHECK_INT(done, 0); // never from inside
    wait_for(2);
    CHECK_INT(missing, 2);
    CHECK(strstr(said, "no compiler") != NULL);
    finish();
}

TEST(one_that_dies_fails_its_builds_and_the_next_build_starts_another)
{
    begin(SERVICE("head -c 20 >/dev/null; echo 'out of luck' >&2; exit 3"));
    build();
    build();
    wait_for(2);
    CHECK_INT(failed, 2);
    CHECK_INT(missing, 0);
    CHECK(strstr(said, "out of luck") != NULL);
    build();
    wait_for(3);
    finish();
}

TEST(one_that_talks_nonsense_is_ended)
{
    begin(SERVICE("printf '\\003\\000\\000\\000abc'; exec sleep 1000"));
    build();
    wait_for(1);
    CHECK_INT(failed, 1);
    finish();
}

TEST(one_that_hangs_is_given_up_after_twenty_seconds)
{
    begin(SERVICE("exec sleep 1000"));
    build();
    for (int i = 0; i < 20; i++) {
        loop_run_once(&l, false);
    }
    CHECK_INT(done, 0);
    test_clock_advance(&hands, &l, 20000);
    wait_for(1);
    CHECK(strstr(said, "20 s") != NULL);
    test_clock_advance(&hands, &l, 5000); // it is killed at last
    finish();
}

TEST(closing_answers_what_is_under_way)
{
    begin(SERVICE("exec cat >/dev/null"));
    build();
    front_close(f);
    CHECK_INT(done, 1);
    CHECK_INT(failed, 1);
    loop_run(&l); // until its process is gone
    TEST_LOOP_END(&l);
    tree_fini(&t);
    proc_teardown();
}

/// Begin with a service that runs `before` and then answers a build with an empty function.
static void begin_good(const char *before)
{
    struct buf answer = {.max = SIZE_MAX};
    struct arena a = {0};
    struct json *v;
    char *file = path_join(test_dir(), "answer");
    CHECK_INT(
        json_parse(
            &v, &a,
            STR("{\"errors\":[],\"warnings\":[],\"outputFiles\":"
                "[{\"path\":\"/index.js\",\"contents\":\"function Chart() {}\",\"hash\":\"\"}]}"),
            NULL, NULL),
        0);
    packet__write(&answer, 1, false, v);
    CHECK_INT(path_write_atomic(file, buf_str(&answer), 0600, NULL), 0);
    char *script =
        xasprintf(SERVICE("cd '%s'; %s head -c 1 >/dev/null; cat answer; exec cat >/dev/null"),
                  test_dir(), before);
    begin(script);
    free(script);
    free(file);
    buf_fini(&answer);
    arena_fini(&a);
}

TEST(a_build_that_was_lost_with_its_process_gets_another)
{
    begin_good("[ -e was ] || { head -c 1 >/dev/null; : >was; exit 1; };");
    build();
    wait_for(1);
    CHECK_INT(failed, 0);
    test_clock_advance(&hands, &l, 60000); // it has nothing to do
    CHECK(!loop_run(&l));
    finish();
}

TEST(one_with_nothing_to_do_is_ended_after_a_minute)
{
    begin_good("");
    build();
    wait_for(1);
    CHECK_INT(failed, 0);
    test_clock_advance(&hands, &l, 59000);
    test_loop_settle(&l);
    CHECK(uv_loop_alive(&l.uv)); // it waits for the next build
    test_clock_advance(&hands, &l, 1000);
    CHECK(!loop_run(&l)); // nothing is left: it has ended, although nobody closed us
    finish();
}
