// Skills: their fronts, and their directories.

#include <sys/stat.h>

#include "agent/skills.h"
#include "base/path.h"
#include "unit/test.h"

static int parse(const char *text, struct skill *out, struct arena *a)
{
    struct err e = {0};
    return skill_parse(out, str_of(text), STR("file"), a, &e);
}

TEST(a_front_of_toml_of_lines_or_none)
{
    static const struct {
        const char *text, *name, *description, *body;
    } cases[] = {
        {"+++\nname = \"x\"\ndescription = \"does x\"\n+++\nBody.\n", "x", "does x", "Body."},
        {"+++\n+++\nBody.", "file", "", "Body."},
        {"---\nname: y\ndescription: \"does: y\"\nother: z\n---\n\nBody.\n", "y", "does: y",
         "Body."},
        {"---\r\nname: y\r\n---\r\nBody.\r\n", "y", "", "Body."},
        {"\n# Title of it\n\nBody.", "file", "Title of it", "# Title of it\n\nBody."},
        {"", "file", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct skill sk;
        CHECK_INT(parse(cases[i].text, &sk, &a), 0);
        CHECK_SPAN(sk.name, cases[i].name);
        CHECK_SPAN(sk.description, cases[i].description);
        CHECK_SPAN(sk.body, cases[i].body);
        arena_fini(&a);
    }
}

TEST(a_front_that_is_not_closed_is_no_skill)
{
    static const char *const bad[] = {"+++\nname = \"x\"\n", "---\nname: x\n",
                                      "+++\nname = \n+++\n", "+++\nname = \"a\\nb\"\n+++\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct arena a = {0};
        struct skill sk;
        CHECK_INT(parse(bad[i], &sk, &a), ERR_PARSE);
        arena_fini(&a);
    }
}

static void put(const char *name, const char *text)
{
    char *path = path_join(test_dir(), name);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(path);
}

TEST(a_directory_gives_files_and_folders_by_name)
{
    struct skills s;
    char *folder = path_join(test_dir(), "big");
    CHECK_INT(mkdir(folder, 0700), 0);
    put("big/SKILL.md", "Big one.");
    put("big/more.md", "more");
    put("small.md", "---\ndescription: a small one\n---\nsmall");
    put("broken.md", "+++\n");
    put("notes.txt", "no skill");
    skills_init(&s);
    skills_read(&s, test_dir(), ".afloat/skills", true);
    CHECK_INT(s.list.n, 2);
    CHECK_SPAN(s.list.p[0].name, "big");
    CHECK_SPAN(s.list.p[0].body, "Big one.");
    CHECK_SPAN(s.list.p[0].path, ".afloat/skills/big");
    CHECK_INT(strlen(s.list.p[0].hash), 64);
    CHECK_SPAN(skills_find(&s, STR("small"))->description, "a small one");
    CHECK(skills_find(&s, STR("broken")) == NULL);
    CHECK_INT(s.faults.n, 1); // what is no Markdown is none either
    CHECK(str_ends(s.faults.p[0].file, "/broken.md"));
    CHECK_SPAN(s.faults.p[0].message, "the front matter of skill 'broken' is not closed");
    skills_fini(&s);
    free(folder);
}

TEST(a_long_first_line_is_cut_at_a_character)
{
    struct arena a = {0};
    struct skill sk;
    char text[400];
    memset(text, 'x', 199);
    snprintf(text + 199, sizeof text - 199, "\xC3\xA9 and more");
    CHECK_INT(parse(text, &sk, &a), 0);
    CHECK_INT(sk.description.n, 199);
    arena_fini(&a);
}
