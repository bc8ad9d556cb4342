// Skills: their fronts, and their directories.

#include <unistd.h>

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
    char *path = path_join(test_dir(), name), *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(dir);
    free(path);
}

TEST(a_directory_gives_files_and_folders_by_name)
{
    struct skills s;
    put("big/SKILL.md", "Big one.");
    put("big/more.md", "more");
    put("small.md", "---\ndescription: a small one\n---\nsmall");
    put("broken.md", "+++\n");
    put("notes.txt", "no skill");
    skills_init(&s);
    skills_read(&s, test_dir());
    CHECK_INT(s.list.n, 2);
    CHECK_SPAN(s.list.p[0].name, "big");
    CHECK_SPAN(s.list.p[0].body, "Big one.");
    CHECK(s.list.p[0].path.n == 0 && s.list.p[0].hash[0] == '\0');
    CHECK_SPAN(skills_find(&s, STR("small"))->description, "a small one");
    CHECK(skills_find(&s, STR("broken")) == NULL);
    CHECK_INT(s.faults.n, 1); // what is no Markdown is none either
    CHECK(str_ends(s.faults.p[0].file, "/broken.md"));
    CHECK_SPAN(s.faults.p[0].message, "the front matter of skill 'broken' is not closed");
    skills_fini(&s);
}

static void link_to(const char *target, const char *name)
{
    char *path = path_join(test_dir(), name);
    CHECK_INT(symlink(target, path), 0);
    free(path);
}

TEST(skills_of_a_project_are_in_the_project)
{
    struct skills s;
    put("outside/SKILL.md", "secret");
    put("root/docs/far.md", "far");
    put("root/.afloat/skills/big/SKILL.md", "Big one.");
    put("root/.afloat/skills/deep/more.md", "more");
    link_to("../../../../outside/SKILL.md", "root/.afloat/skills/deep/SKILL.md");
    link_to("../../docs/far.md", "root/.afloat/skills/far.md");
    link_to("../../../outside", "root/.afloat/skills/folder");
    link_to("../../../outside/SKILL.md", "root/.afloat/skills/leak.md");
    char *root = path_join(test_dir(), "root"), *real = realpath(root, NULL);
    skills_init(&s);
    skills_read_project(&s, real);
    CHECK_INT(s.list.n, 2);
    CHECK_SPAN(s.list.p[0].name, "big");
    CHECK_SPAN(s.list.p[0].path, ".afloat/skills/big");
    CHECK_INT(strlen(s.list.p[0].hash), 64);
    CHECK_SPAN(skills_find(&s, STR("far"))->body, "far");
    CHECK_INT(s.faults.n, 3);
    CHECK(str_ends(s.faults.p[0].file, "/.afloat/skills/deep"));
    CHECK_SPAN(s.faults.p[2].message, "it leads outside the project");
    skills_fini(&s);
    char *skills = path_join(root, ".afloat/skills");
    CHECK_INT(path_remove_tree(skills, NULL), 0);
    link_to("../../outside", "root/.afloat/skills");
    skills_init(&s);
    skills_read_project(&s, real);
    CHECK_INT(s.list.n, 0);
    skills_fini(&s);
    free(skills);
    free(real);
    free(root);
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
