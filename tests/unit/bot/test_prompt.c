// The prompt of an iteration, byte for byte: golden/*.md.

#include "base/path.h"
#include "bot/prompt.h"
#include "unit/bot/home.h"

static void check_golden(const char *name, const struct buf *got)
{
    struct buf want;
    char *path = xasprintf("%s/tests/unit/bot/golden/%s.md", TEST_SOURCE_ROOT, name);
    buf_init(&want, SIZE_MAX);
    int rc = path_read(path, &want, NULL);
    if (rc < 0 || !str_eq(buf_str(&want), buf_str(got))) {
        fprintf(stderr, "---- %s is now:\n%s----\n", path, buf_z(got));
        test_fail(__FILE__, __LINE__, "'%s' differs", path);
    }
    buf_fini(&want);
    free(path);
}

static void fill(struct bot_prompt *p)
{
    static struct skill skills[2];
    static struct skillset_item items[2];
    static struct memory_entry memory[3];
    static struct history_row recent[7];
    static char summary[700];
    skills[0] = (struct skill){.name = STR("deploy"),
                               .description = STR("how to deploy"),
                               .body = STR("1. Push.\n2. Wait.")};
    skills[1] = (struct skill){.name = STR("empty")};
    items[0] = (struct skillset_item){SKILL_OF_BOT, &skills[0]};
    items[1] = (struct skillset_item){SKILL_OF_USER, &skills[1]};
    memory[0] = (struct memory_entry){.key = STR("branch"), .text = STR("main")};
    memory[1] = (struct memory_entry){.key = STR("count"), .text = STR("3")};
    memory[2] = (struct memory_entry){.key = STR("notes"),
                                      .text = STR("first line\n## Status\nlast line\n")};
    for (int i = 0; i < 7; i++) {
        recent[i] =
            (struct history_row){.number = (uint64_t)(12 - i), .summary = STR("Did something.")};
    }
    for (int i = 0; i < 300; i++) {
        memcpy(summary + 2 * i, "\xC3\xA9", 2);
    }
    recent[1].summary = (struct str){summary, 600};
    recent[2].summary = STR("Two\nlines.");
    *p = (struct bot_prompt){.instructions = "You review code.\n\nBe kind.\n",
                             .project = "api",
                             .session = 13,
                             .branch = "afloat/reviewer-0a1b2c3d",
                             .base = "main",
                             .skills = items,
                             .n_skills = 2,
                             .skills_dir = "/home/bots/carp/skills",
                             .memory = memory,
                             .n_memory = 3,
                             .input = STR("look at this\r\n\nand that\n"),
                             .recent = recent,
                             .n_recent = 7,
                             .stop_phrase = "ALL DONE"};
}

TEST(a_prompt_has_its_sections_in_order)
{
    struct bot_prompt p;
    struct buf out;
    fill(&p);
    buf_init(&out, BOT_PROMPT_BYTES);
    bot_prompt_write(&out, &p);
    check_golden("full", &out);
    buf_fini(&out);
}

TEST(sections_without_content_are_left_out)
{
    struct bot_prompt p = {.skills_dir = "/home/bots/carp/skills",
                           .instructions = "Do it.",
                           .project = "project",
                           .session = 1};
    struct buf out;
    buf_init(&out, BOT_PROMPT_BYTES);
    bot_prompt_write(&out, &p);
    check_golden("bare", &out);
    CHECK(strstr(buf_z(&out), "Branch") == NULL && strstr(buf_z(&out), "## Memory") == NULL);
    buf_fini(&out);
}

TEST(a_conversation_has_no_branch_and_no_end)
{
    struct bot_prompt p;
    struct buf out;
    fill(&p);
    buf_init(&out, BOT_PROMPT_BYTES);
    bot_prompt_write_chat(&out, &p);
    check_golden("chat", &out);
    CHECK(strstr(buf_z(&out), "session_complete") == NULL);
    buf_fini(&out);
}

TEST(a_prompt_above_the_limit_says_so)
{
    struct bot_prompt p;
    struct buf out;
    fill(&p);
    buf_init(&out, 500);
    bot_prompt_write(&out, &p);
    CHECK(!buf_ok(&out));
    buf_fini(&out);
}
