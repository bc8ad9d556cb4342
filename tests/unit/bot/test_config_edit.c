// Changing a config.md without losing what a person wrote.

#include "bot/config_edit.h"
#include "unit/test.h"

/// `text` with the keys of `json` (may be NULL) changed, or "error: ..."; lives until the next call.
static const char *edit(const char *text, const char *json, const char *instructions)
{
    static struct buf out;
    struct arena a = {0};
    struct json *keys = NULL;
    struct err e = {0};
    buf_fini(&out);
    buf_init(&out, SIZE_MAX);
    if (json != NULL) {
        CHECK_INT(json_parse(&keys, &a, str_of(json), NULL, NULL), 0);
    }
    if (bot_config_edit(&out, str_of(text), keys, str_of(instructions), &e) < 0) {
        buf_clear(&out);
        buf_addf(&out, "error: %s", e.msg);
    }
    arena_fini(&a);
    return buf_z(&out);
}

TEST(only_the_line_that_is_meant_changes)
{
    static const char text[] =
        "+++\n# mine\nmodel = \"a\"  # was b\n\nsleep_secs = 3 # short\n+++\nBody\n";
    CHECK_STR(edit(text, "{\"sleep_secs\": 9}", NULL),
              "+++\n# mine\nmodel = \"a\"  # was b\n\nsleep_secs = 9\n+++\nBody\n");
    CHECK_STR(edit(text, "{\"model\": null}", NULL),
              "+++\n# mine\n\nsleep_secs = 3 # short\n+++\nBody\n");
    CHECK_STR(edit(text, NULL, "New.\n\n"),
              "+++\n# mine\nmodel = \"a\"  # was b\n\nsleep_secs = 3 # short\n+++\nNew.\n");
    CHECK_STR(edit(text, NULL, NULL), text);
}

TEST(a_new_key_takes_the_place_of_its_comment)
{
    CHECK_STR(edit("+++\n# a\n# model = \"\"   # which\n# b\n[worktree]\n# merge = 1\n+++\nB\n",
                   "{\"model\": \"x\\\"y\\n\", \"merge\": \"auto\"}", NULL),
              "+++\nmerge = \"auto\"\n# a\nmodel = \"x\\\"y\\n\"\n# b\n[worktree]\n# merge = "
              "1\n+++\nB\n");
    CHECK_STR(edit("Body only\n", "{\"network\": true}", NULL),
              "+++\nnetwork = true\n+++\nBody only\n");
}

TEST(a_value_of_several_lines_goes_as_a_whole)
{
    CHECK_STR(edit("+++\nplugins = [\n  \"a\", # first\n  \"b\",\n]\nmodel = '''\nx\n+'''\n+++\n",
                   "{\"plugins\": [\"c\"], \"model\": \"m\"}", NULL),
              "+++\nplugins = [\"c\"]\nmodel = \"m\"\n+++\n");
}

TEST(the_worktree_is_changed_in_its_table)
{
    CHECK_STR(edit("+++\n[worktree]\nsetup = \"a\"\n+++\n",
                   "{\"worktree\": {\"setup\": [\"b\"], \"link\": [\"c\"]}}", NULL),
              "+++\n[worktree]\nlink = [\"c\"]\nsetup = [\"b\"]\n+++\n");
    CHECK_STR(edit("+++\nworktree = true\nmodel = \"m\"\n+++\n",
                   "{\"worktree\": {\"setup\": \"x\"}}", NULL),
              "+++\nmodel = \"m\"\n\n[worktree]\nsetup = \"x\"\n+++\n");
    CHECK_STR(edit("+++\n[worktree]\n+++\n", "{\"worktree\": false}", NULL),
              "+++\n[worktree]\nenabled = false\n+++\n");
    CHECK_STR(edit("+++\n+++\n", "{\"worktree\": false}", NULL), "+++\nworktree = false\n+++\n");
    CHECK(strncmp(edit("+++\nworktree = {link = [\"a\"]}\n+++\n", "{\"worktree\": false}", NULL),
                  "error: write [worktree]", 23) == 0);
}

TEST(what_cannot_be_a_setting_is_refused)
{
    CHECK_STR(edit("x", "{\"model\": 1.5}", NULL),
              "error: 'model' takes a string, a number, true, false or a list of strings");
    CHECK_STR(edit("x", "{\"a = 1\\nb\": 1}", NULL), "error: config.md has no key 'a = 1\nb'");
    CHECK_STR(edit("+++\nmodel = 1\n", "{}", NULL),
              "error: config.md has no line '+++' that closes its settings");
}

TEST(instructions_that_look_like_settings_stay_instructions)
{
    CHECK_STR(edit("old", NULL, "+++\nmodel = \"x\"\n+++\n"),
              "+++\n+++\n+++\nmodel = \"x\"\n+++\n");
}
