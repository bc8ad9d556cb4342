// Rendered environments in real shells.

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "env/merge.h"
#include "env/paths.h"
#include "env/render.h"
#include "env/result.h"
#include "lib/fault.h"
#include "unit/test.h"

static const struct {
    const char *program, *flags, *source;
} shells[] = {
    [ENV_BASH] = {"/bin/bash", "--noprofile --norc", "."},
    [ENV_ZSH] = {"/usr/bin/zsh", "-f", "."},
    [ENV_FISH] = {"/usr/bin/fish", "--no-config", "source"},
    [ENV_SH] = {"/bin/sh", "", "."},
};

static const char *const outer[] = {"PATH=/usr/bin:/bin", "OUTER=outside", "HOME=/nowhere",
                                    "LANG=C.UTF-8", NULL};

static char *file(const char *name)
{
    return path_join(test_dir(), name);
}

static void write_file(const char *name, struct str text)
{
    struct err e = {0};
    if (env_render_write(test_dir(), name, text, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

// ---- one shell ---------------------------------------------------------------------------------

static struct {
    enum env_dialect d;
    struct env_session *session;
    struct buf script; // what the shell will do
    struct buf out;    // what it printed
    struct arena arena;
    struct env_vars after; // its environment at the end
    uint64_t generation;
} sh;

static bool sh_open(enum env_dialect d)
{
    if (access(shells[d].program, X_OK) != 0) {
        return false;
    }
    sh.d = d;
    sh.session = env_session_new(outer);
    sh.generation = 0;
    buf_init(&sh.script, SIZE_MAX);
    buf_init(&sh.out, SIZE_MAX);
    env_vars_init(&sh.after, &sh.arena);
    struct buf prelude;
    buf_init(&prelude, SIZE_MAX);
    env_render_prelude(d, &prelude);
    write_file("prelude", buf_str(&prelude));
    buf_addf(&sh.script, "%s %s/prelude\n", shells[d].source, test_dir());
    buf_fini(&prelude);
    return true;
}

static void sh_close(void)
{
    env_session_free(sh.session);
    buf_fini(&sh.script);
    buf_fini(&sh.out);
    env_vars_fini(&sh.after);
    arena_fini(&sh.arena);
}

// Offer a result (it is given away; NULL takes everything back), apply and acknowledge it.
static void sh_offer(struct env_result *r)
{
    struct buf text;
    char name[32];
    buf_init(&text, SIZE_MAX);
    if (r != NULL) {
        r->generation = ++sh.generation;
    }
    env_session_render(sh.session, r, sh.d, &text);
    snprintf(name, sizeof name, "gen.%llu", (unsigned long long)(r != NULL ? sh.generation : 0));
    write_file(name, buf_str(&text));
    buf_fini(&text);
    env_result_unref(r);
}

static void sh_load(uint64_t generation)
{
    buf_addf(&sh.script, "__afloat_load %s/gen.%llu\n", test_dir(), (unsigned long long)generation);
}

static void sh_apply(struct env_result *r)
{
    bool back = r == NULL;
    sh_offer(r);
    sh_load(back ? 0 : sh.generation);
    env_session_applied(sh.session, back ? 0 : sh.generation);
}

// Run the script, then read what it left in the environment. Later runs start anew.
static void sh_run(void)
{
    char *script = file("script"), *env = file("environ"), *out = file("out");
    struct buf bytes;
    env_vars_fini(&sh.after);
    env_vars_init(&sh.after, &sh.arena);
    buf_clear(&sh.out);
    unlink(env);
    buf_addf(&sh.script, "/usr/bin/env -0 >%s\n", env);
    write_file("script", buf_str(&sh.script));
    char *line =
        xasprintf("env -i PATH=/usr/bin:/bin OUTER=outside HOME=/nowhere LANG=C.UTF-8 %s %s %s "
                  ">%s 2>&1 </dev/null",
                  shells[sh.d].program, shells[sh.d].flags, script, out);
    CHECK_INT(system(line), 0);
    buf_init(&bytes, SIZE_MAX);
    CHECK_INT(path_read(env, &bytes, NULL), 0);
    CHECK_INT(path_read(out, &sh.out, NULL), 0);
    for (struct str rest = buf_str(&bytes); rest.n != 0;) {
        struct str value = str_cut(&rest, '\0'), name = str_cut(&value, '=');
        map_set(&sh.after.map, name, arena_strdup(&sh.arena, value));
    }
    buf_fini(&bytes);
    free(line);
    free(script);
    free(env);
    free(out);
}

static const char *sh_get(const char *name)
{
    return env_vars_get(&sh.after, str_of(name));
}

#define CHECK_ENV(name, value)                                                                     \
    do {                                                                                           \
        const char *got_ = sh_get(name), *want_ = value;                                           \
        if (got_ == NULL ? want_ != NULL : want_ == NULL || strcmp(got_, want_) != 0) {            \
            test_fail(__FILE__, __LINE__, "%s: %s is \"%s\", not \"%s\"; it said: %s",             \
                      shells[sh.d].program, name, got_ != NULL ? got_ : "(unset)",                 \
                      want_ != NULL ? want_ : "(unset)", buf_z(&sh.out));                          \
        }                                                                                          \
    } while (0)

// ---- results -----------------------------------------------------------------------------------

// "A=1", "-GONE", "PATH<front:front", "PATH>back"; sorted by the caller.
static struct env_result *result(const char *const *words)
{
    struct env_result *r = env_result_new();
    for (; *words != NULL; words++) {
        struct str s = str_of(*words);
        size_t at = strcspn(*words, "=<>");
        const char *name = arena_strdup(&r->arena, (struct str){s.p, at});
        const char *rest = arena_strdup(&r->arena, str_from(s, at + 1));
        if (s.p[0] == '-') {
            vec_push(&r->unset, name + 1);
        } else if (s.p[at] == '=') {
            struct env_var v = {name, rest};
            vec_push(&r->set, v);
        } else {
            struct env_list l = {.name = name};
            l.items = env_paths_split(&r->arena, rest, &l.n);
            if (s.p[at] == '<') {
                vec_push(&r->prepend, l);
            } else {
                vec_push(&r->append, l);
            }
        }
    }
    return r;
}

#define RESULT(...) result((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING     result((const char *const[]){NULL})

#define FOR_EACH_SHELL(d)                                                                          \
    for (enum env_dialect d = 0; d <= ENV_SH; d++)                                                 \
        if (sh_open(d))

// ---- tests -------------------------------------------------------------------------------------

TEST(any_bytes_reach_the_shell_as_they_are)
{
    static const char *const fixed[] = {
        "",     "'",      "''",      "\\",           "\\'",      "a'b\\c'",
        "\n",   "\n\n",   " x\n",    "\r\n",         "\t",       "$(id)`id`$X${X}",
        "!!",   "-n",     "=",       "~/x",          "*",        "[a]?{b,c}",
        "\x01", "\x7f",   "\xff",    "\xc3\xa9",     "\xe2\x82", "a;b&c|d<e>f#g",
        "%s%n", "\"\"\"", "\x1b[0m", "\x01\x7f\x01", "(",        ")",
        "\\n",  "\\x41"};
    unsigned seed = 7;
    FOR_EACH_SHELL(d)
    {
        struct env_result *r = env_result_new();
        size_t n = ARRAY_LEN(fixed) + (size_t)test_loops(60);
        for (size_t i = 0; i < n; i++) {
            char *name = arena_printf(&r->arena, "R%05zu", i), random[80];
            size_t len = i < ARRAY_LEN(fixed) ? 0 : 1 + (size_t)rand_r(&seed) % (sizeof random - 1);
            for (size_t k = 0; k < len; k++) {
                random[k] = (char)(1 + rand_r(&seed) % 255);
            }
            struct str value = len != 0 ? (struct str){random, len} : str_of(fixed[i]);
            struct env_var v = {name, arena_strdup(&r->arena, value)};
            vec_push(&r->set, v);
        }
        env_result_ref(r);
        sh_apply(r);
        sh_run();
        vec_foreach (v, &r->set) {
            CHECK_ENV(v->name, v->value);
        }
        CHECK_STR(buf_z(&sh.out), "");
        env_result_unref(r);
        sh_close();
    }
}

TEST(values_of_any_bytes_are_recognised_as_ours)
{
    unsigned seed = 11;
    FOR_EACH_SHELL(d)
    {
        struct env_result *r = env_result_new();
        for (int i = 0; i < 40; i++) {
            char random[40];
            for (size_t k = 0; k < sizeof random - 1; k++) {
                random[k] = (char)(1 + rand_r(&seed) % 255);
            }
            struct env_var v = {arena_printf(&r->arena, "R%02d", i),
                                arena_strdup(&r->arena, (struct str){random, sizeof random - 1})};
            vec_push(&r->set, v);
        }
        sh_apply(r);
        sh_run();
        CHECK(sh_get("R00") != NULL);
        sh_apply(NOTHING);
        sh_run();
        CHECK_ENV("R00", NULL);
        CHECK_ENV("R39", NULL);
        CHECK_STR(buf_z(&sh.out), ""); // no notice: nobody changed them
        sh_close();
    }
}

TEST(removed_variables_go_back_to_the_outer_value_or_are_unset)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("NEW=1", "OUTER=inside", "-HOME"));
        sh_apply(RESULT("NEW=2", "OTHER=x"));
        sh_run();
        CHECK_ENV("NEW", "2");
        CHECK_ENV("OTHER", "x");
        CHECK_ENV("OUTER", "outside");
        CHECK_ENV("HOME", "/nowhere");
        CHECK_ENV("AFLOAT_ENV_GENERATION", "2");
        sh_apply(NULL);
        sh_run();
        CHECK_ENV("AFLOAT_ENV_GENERATION", NULL);
        sh_close();
    }
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("NEW=1", "OUTER=inside", "-HOME", "PATH</p"));
        sh_apply(NULL);
        sh_run();
        CHECK_ENV("NEW", NULL);
        CHECK_ENV("OUTER", "outside");
        CHECK_ENV("HOME", "/nowhere");
        CHECK_ENV("PATH", "/usr/bin:/bin");
        CHECK_ENV("AFLOAT_ENV_GENERATION", NULL);
        sh_close();
    }
}

static void sh_export(const char *name, const char *value)
{
    if (sh.d == ENV_FISH) {
        buf_addf(&sh.script, "set -gx %s '%s'\n", name, value);
    } else {
        buf_addf(&sh.script, "export %s='%s'\n", name, value);
    }
}

TEST(what_the_user_changed_wins_with_one_notice)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("A=1", "B=1", "OUTER=inside"));
        sh_export("A", "mine");
        sh_export("OUTER", "mine too");
        sh_apply(RESULT("A=2", "B=2", "OUTER=inside"));
        sh_apply(RESULT("A=3", "B=3", "OUTER=inside"));
        sh_apply(RESULT("B=3"));
        sh_run();
        CHECK_ENV("A", "mine");
        CHECK_ENV("B", "3");
        CHECK_ENV("OUTER", "mine too");
        CHECK_STR(buf_z(&sh.out), "afloat: A was changed in this shell and stays as it is\n"
                                  "afloat: OUTER was changed in this shell and stays as it is\n");
        sh_close();
    }
}

TEST(an_offer_that_was_skipped_or_not_acknowledged_does_no_harm)
{
    for (int skipped = 0; skipped < 2; skipped++) {
        FOR_EACH_SHELL(d)
        {
            sh_apply(RESULT("A=1", "PATH</p1"));
            sh_offer(RESULT("A=2", "GONE=2", "PATH</p2"));
            if (!skipped) {
                sh_load(2); // applied, but its acknowledgement is still on the way
            }
            sh_apply(RESULT("A=3", "PATH</p3"));
            sh_run();
            CHECK_ENV("A", "3");
            CHECK_ENV("GONE", NULL);
            CHECK_ENV("PATH", "/p3:/usr/bin:/bin");
            CHECK_STR(buf_z(&sh.out), "");
            sh_close();
        }
    }
}

TEST(only_our_elements_of_path_move)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("PATH</p/bin:/p/tools", "PATH>/p/last"));
        sh_export("PATH", "/mine:/p/bin:/p/tools:/usr/bin:/mine two:/bin:/p/last:/mine3");
        sh_apply(RESULT("PATH</p/tools:/q/bin"));
        sh_run();
        CHECK_ENV("PATH", "/mine:/p/tools:/q/bin:/usr/bin:/mine two:/bin:/mine3");
        sh_close();
    }
}

TEST(no_element_of_ours_is_ever_there_twice)
{
    FOR_EACH_SHELL(d)
    {
        sh_export("PATH", "/usr/bin:/p/bin:/bin:/p/bin");
        sh_apply(RESULT("PATH</p/bin:/p/x"));
        sh_apply(RESULT("PATH</p/x:/p/bin"));
        sh_run();
        CHECK_ENV("PATH", "/p/x:/p/bin:/usr/bin:/bin");
        sh_close();
    }
}

TEST(an_outer_element_that_we_moved_returns_to_its_place)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("PATH</p:/bin"));
        sh_apply(RESULT("PATH</p"));
        sh_run();
        CHECK_ENV("PATH", "/p:/usr/bin:/bin");
        sh_close();
    }
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("PATH</usr/bin:/p", "PATH>/bin"));
        sh_apply(NULL);
        sh_run();
        CHECK_ENV("PATH", "/usr/bin:/bin");
        sh_close();
    }
}

TEST(lists_other_than_path_and_lists_that_were_not_set)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("PYTHONPATH</p/a b:/p/*", "XDG_DATA_DIRS</p/share:/p/more"));
        sh_run();
        CHECK_ENV("PYTHONPATH", "/p/a b:/p/*");
        CHECK_ENV("XDG_DATA_DIRS", "/p/share:/p/more");
        sh_close();
    }
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("PYTHONPATH</p/a", "XDG_DATA_DIRS</p/share"));
        sh_export("XDG_DATA_DIRS", "/p/share:/user");
        sh_apply(NOTHING);
        sh_run();
        CHECK_ENV("PYTHONPATH", NULL); // it was not set outside
        CHECK_ENV("XDG_DATA_DIRS", "/user");
        sh_close();
    }
}

TEST(a_list_may_become_a_plain_value_and_back)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("MANPATH</p/man"));
        sh_apply(RESULT("MANPATH=/q/man:"));
        sh_run();
        CHECK(strncmp(sh_get("MANPATH"), "/q/man", 6) == 0);
        sh_apply(RESULT("MANPATH</r/man"));
        sh_run();
        CHECK_ENV("MANPATH", "/r/man");
        sh_close();
    }
}

TEST(our_elements_are_put_in_front_again)
{
    FOR_EACH_SHELL(d)
    {
        sh_apply(RESULT("PATH</p/bin:/p/x"));
        buf_addz(&sh.script, "__afloat_refront\n");  // nothing to do
        sh_export("PATH", "/rc:/usr/bin:/p/x:/bin"); // an rc file dropped one and moved the other
        buf_addz(&sh.script, "__afloat_refront\n");
        sh_run();
        CHECK_ENV("PATH", "/p/bin:/p/x:/rc:/usr/bin:/bin");
        sh_close();
    }
}

TEST(a_damaged_file_is_not_evaluated)
{
    FOR_EACH_SHELL(d)
    {
        struct buf text;
        char *path = file("gen.1");
        sh_offer(RESULT("A=1", "B=2"));
        buf_init(&text, SIZE_MAX);
        CHECK_INT(path_read(path, &text, NULL), 0);
        size_t whole = text.n;
        for (size_t cut = 1; cut <= 8; cut++) {
            char name[32];
            snprintf(name, sizeof name, "cut.%zu", cut);
            write_file(name, (struct str){text.p, whole * cut / 8 - (cut == 8 ? 2 : 0)});
            buf_addf(&sh.script, "__afloat_load %s/%s\n", test_dir(), name);
        }
        buf_addz(&text, ": more\n");
        write_file("longer", buf_str(&text));
        buf_addf(&sh.script, "__afloat_load %s/longer\n__afloat_load %s/none\n", test_dir(),
                 test_dir());
        sh_run();
        CHECK_ENV("A", NULL);
        CHECK_ENV("B", NULL);
        buf_fini(&text);
        free(path);
        sh_close();
    }
}

TEST(shell_options_of_the_user_do_no_harm)
{
    static const char *const options[] = {
        [ENV_BASH] = "set -u; set -f; set -o noclobber; IFS=x; shopt -s extglob nullglob\n",
        [ENV_ZSH] =
            "setopt nounset ksharrays shwordsplit rcquotes noclobber globsubst errreturn; IFS=x\n",
        [ENV_FISH] = "set -g IFS x\n",
        [ENV_SH] = "set -u; set -f; set -C; IFS=x\n",
    };
    FOR_EACH_SHELL(d)
    {
        buf_addz(&sh.script, options[d]);
        sh_apply(RESULT("A=x y", "B='$x'", "PATH</px/*:/xq"));
        sh_apply(RESULT("A=x z", "PATH</xq"));
        sh_run();
        CHECK_ENV("A", "x z");
        CHECK_ENV("B", NULL);
        CHECK_ENV("PATH", "/xq:/usr/bin:/bin");
        sh_close();
    }
}

TEST(a_read_only_variable_stops_nothing)
{
    for (enum env_dialect d = ENV_BASH; d <= ENV_ZSH; d++) {
        if (!sh_open(d)) {
            continue;
        }
        sh_apply(RESULT("A=1", "B=1", "C=1"));
        buf_addz(&sh.script, "readonly A C\n");
        sh_apply(RESULT("A=2", "B=2"));
        sh_apply(RESULT("A=3", "B=3"));
        sh_run();
        CHECK_ENV("A", "1");
        CHECK_ENV("B", "3");
        CHECK_ENV("C", "1");
        sh_close();
    }
}

TEST(applying_120_variables_forks_nothing_and_is_quick)
{
    char *clock = file("clock");
    FOR_EACH_SHELL(d)
    {
        struct env_result *r[2];
        for (int k = 0; k < 2; k++) {
            r[k] = env_result_new();
            for (int i = 0; i < 120; i++) {
                struct env_var v = {arena_printf(&r[k]->arena, "VAR_%03d", i),
                                    arena_printf(&r[k]->arena, "value %d of %d", k, i)};
                vec_push(&r[k]->set, v);
            }
        }
        sh_apply(r[0]);
        if (d == ENV_BASH || d == ENV_ZSH) {
            buf_addz(&sh.script, d == ENV_ZSH ? "zmodload zsh/datetime\n" : "");
            buf_addz(&sh.script, "a=$EPOCHREALTIME\n");
        }
        sh_apply(r[1]);
        if (d == ENV_BASH || d == ENV_ZSH) {
            buf_addf(&sh.script, "echo \"$a $EPOCHREALTIME\" >%s\n", clock);
        }
        sh_run();
        CHECK_ENV("VAR_119", "value 1 of 119");
        if (d == ENV_BASH || d == ENV_ZSH) {
            struct buf text;
            double a = 0, b = 0;
            buf_init(&text, 200);
            CHECK_INT(path_read(clock, &text, NULL), 0);
            CHECK_INT(sscanf(buf_z(&text), "%lf %lf", &a, &b), 2);
            printf("%s: apply of 120 variables %.2f ms\n", shells[d].program, (b - a) * 1000);
            CHECK(b - a < 0.1);
            buf_fini(&text);
            unlink(clock);
        }
        sh_close();
    }
    free(clock);
}

TEST(files_are_only_written_where_nobody_else_can_enter)
{
    struct err e = {0};
    char *open_dir = file("open"), *link = file("link"), *own = file("own");
    CHECK_INT(mkdir(open_dir, 0755), 0);
    CHECK_INT(chmod(open_dir, 0755), 0);
    CHECK_INT(mkdir(own, 0700), 0);
    CHECK_INT(symlink(own, link), 0);
    CHECK_INT(env_render_write(open_dir, "x", STR("text"), &e), ERR_DENIED);
    CHECK(env_render_write(link, "x", STR("text"), &e) != 0);
    CHECK(env_render_write("/no/such", "x", STR("text"), &e) != 0);
    CHECK_INT(env_render_write(own, "x", STR("text"), &e), 0);
    free(open_dir);
    free(link);
    free(own);
}

TEST(a_full_disk_leaves_the_old_file_and_nothing_else)
{
    char *own = file("own"), *old = file("own/env");
    struct err e = {0};
    struct buf text;
    unsigned long failed = 0;
    CHECK_INT(mkdir(own, 0700), 0);
    CHECK_INT(env_render_write(own, "env", STR("old"), &e), 0);
    for (unsigned long n = 1;; n++) {
        fault_at(n, ENOSPC, true);
        int rc = env_render_write(own, "env", STR("new"), &e);
        unsigned long hits = fault_hits();
        fault_off();
        if (hits == 0) {
            CHECK_INT(rc, 0);
            break;
        }
        failed++;
        CHECK(rc != 0);
        buf_init(&text, 100);
        CHECK_INT(path_read(old, &text, NULL), 0);
        CHECK(str_eqz(buf_str(&text), "old") ||
              str_eqz(buf_str(&text), "new")); // never half of one
        buf_fini(&text);
    }
    printf("points that failed: %lu\n", failed);
    CHECK(failed != 0);
    char *line = xasprintf("test \"$(ls -A %s)\" = env", own);
    CHECK_INT(system(line), 0);
    free(line);
    free(old);
    free(own);
}
