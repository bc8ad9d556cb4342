#include "env/dotenv.h"
#include "unit/test.h"

static struct arena arena;
static struct env_vars vars;

static void begin(void)
{
    env_vars_init(&vars, &arena);
    env_vars_set(&vars, STR("HOME"), STR("/home/u"));
}

static void finish(void)
{
    env_vars_fini(&vars);
    arena_fini(&arena);
}

static int read_text(const char *text, struct err *e)
{
    return env_dotenv_read(&vars, str_of(text), e);
}

#define CHECK_VAR(name, value) CHECK_STR(env_vars_get(&vars, STR(name)), value)

TEST(dotenv_takes_what_the_common_readers_agree_on)
{
    begin();
    CHECK_INT(read_text("\xef\xbb\xbf# comment\r\n"
                        "A=1\r\n"
                        "export B = two words  # comment\n"
                        "C='as it is: ${HOME} $(id) \\n # no comment' # comment\n"
                        "D=\"line\\nnext \\\"q\\\" ${HOME}/x \\${HOME} \\\\\"\n"
                        "E=\n"
                        "F=a#b\n"
                        "G='two\nlines'\n"
                        "H=$A`id`;rm\n"
                        "I=${A}${NO}!",
                        NULL),
              0);
    CHECK_VAR("A", "1");
    CHECK_VAR("B", "two words");
    CHECK_VAR("C", "as it is: ${HOME} $(id) \\n # no comment");
    CHECK_VAR("D", "line\nnext \"q\" /home/u/x ${HOME} \\");
    CHECK_VAR("E", "");
    CHECK_VAR("F", "a#b");
    CHECK_VAR("G", "two\nlines");
    CHECK_VAR("H", "$A`id`;rm");
    CHECK_VAR("I", "1!");
    finish();
}

TEST(dotenv_faults_name_the_line)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"A=1\nno equals\n", "line 2: expected NAME=value"},
        {"A=1\n\n1X=2\n", "line 3: expected NAME=value"},
        {"A='x\ny\n", "line 1: the quote ' is not closed"},
        {"A=\"x", "line 1: the quote \" is not closed"},
        {"A='x' y\n", "line 1: text after the closing quote"},
        {"A='x\ny' z\n", "line 2: text after the closing quote"},
        {"A=${B\n", "line 1: '${' needs a name and '}'; write '$${' for itself"},
        {"=x\n", "line 1: expected NAME=value"},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        CHECK_INT(read_text(rows[i].text, &e), ERR_PARSE);
        CHECK_STR(e.msg, rows[i].message);
    }
    struct err e = {0};
    CHECK_INT(env_dotenv_read(&vars, STR("A=x\0y\n"), &e), ERR_PARSE);
    CHECK_STR(e.msg, "line 1: a NUL byte");
    finish();
}

TEST(dotenv_never_sets_what_the_shell_lives_by)
{
    begin();
    CHECK_INT(
        read_text("PWD=/x\nBASH_ENV=/x\nPROMPT_COMMAND=id\nIFS=x\nAFLOAT_SHELL=2\nOK=1", NULL), 0);
    CHECK(env_vars_get(&vars, STR("PWD")) == NULL);
    CHECK(env_vars_get(&vars, STR("BASH_ENV")) == NULL);
    CHECK(env_vars_get(&vars, STR("PROMPT_COMMAND")) == NULL);
    CHECK(env_vars_get(&vars, STR("IFS")) == NULL);
    CHECK(env_vars_get(&vars, STR("AFLOAT_SHELL")) == NULL);
    CHECK_VAR("OK", "1");
    finish();
}

TEST(expansion_knows_braces_only)
{
    struct buf out;
    struct err e = {0};
    begin();
    buf_init(&out, SIZE_MAX);
    CHECK_INT(env_expand(&out, STR("${HOME}/$HOME $${HOME} $ ${NO}."), &vars, NULL), 0);
    CHECK_STR(buf_z(&out), "/home/u/$HOME ${HOME} $ .");
    CHECK_INT(env_expand(&out, STR("${A-b}"), &vars, &e), ERR_PARSE);
    CHECK_INT(env_expand(&out, STR("${"), &vars, &e), ERR_PARSE);
    buf_fini(&out);
    finish();
}

TEST(values_that_multiply_each_other_are_refused)
{
    struct buf text = {.max = SIZE_MAX};
    struct err e = {0};
    begin();
    buf_addf(&text, "A=%01024d\nB=", 0);
    for (int i = 0; i < 2048; i++) {
        buf_addz(&text, "${A}");
    }
    CHECK_INT(read_text(buf_z(&text), &e), ERR_PARSE);
    CHECK_STR(e.msg, "line 2: the value is larger than 1 MiB");
    CHECK(env_vars_get(&vars, STR("B")) == NULL);
    buf_clear(&text);
    buf_addf(&text, "C=%0524288d\n", 0);
    for (int i = 0; i < 200; i++) {
        buf_addf(&text, "D%d=${C}\n", i);
    }
    CHECK_INT(read_text(buf_z(&text), &e), ERR_PARSE);
    CHECK(strstr(e.msg, ": all values together take more than 64 MiB") != NULL);
    buf_fini(&text);
    finish();
}
