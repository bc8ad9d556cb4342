// The skills of a bot: where from, which wins, saving and removing.

#include "bot/skillset.h"
#include "unit/bot/home.h"

/// Every skill that counts as "name(origin):description;".
static const char *all(const char *bot, const char *dir, struct trust *t)
{
    static struct buf out;
    struct catalog c;
    struct catalog_bot *b = NULL;
    struct skillset s;
    buf_fini(&out);
    buf_init(&out, SIZE_MAX);
    CHECK_INT(catalog_read(&c, at("home"), dir, bot, NULL), 0);
    catalog_judge(&c, t);
    CHECK_INT(catalog_find(&c, str_of(bot), &b, NULL), 0);
    skillset_read(&s, NULL, at("home"), b, dir);
    skillset_judge(&s, t);
    vec_foreach (it, &s.list) {
        buf_addf(&out, STR_FMT "(%s):" STR_FMT ";", STR_ARG(it->skill->name),
                 skill_origin_name(it->origin), STR_ARG(it->skill->description));
    }
    skillset_fini(&s);
    catalog_fini(&c);
    return buf_z(&out);
}

static int save(const char *bot, const char *name, const char *description, const char *body,
                struct err *e)
{
    struct skillset_new n = {str_of(name), str_of(description), str_of(body)};
    return skillset_save(NULL, at("home"), bot, &n, e);
}

TEST(a_bots_own_skill_wins_over_the_users_and_that_over_the_projects)
{
    struct trust *t;
    struct trust_place p;
    struct trust_scan sc;
    put_file("home/bots/x/config.md", "x");
    put_file("home/bots/x/skills/a.md", "mine");
    put_file("home/skills/a.md", "the user's");
    put_file("home/skills/b/SKILL.md", "---\ndescription: user b\n---\n");
    make_dir("repo/.git");
    put_file("repo/.afloat/skills/b.md", "the project's");
    put_file("repo/.afloat/skills/c.md", "project c");
    CHECK_INT(trust_open(&t, at("home"), NULL), 0);
    CHECK_STR(all("x", at("repo"), t), "a(bot):mine;b(user):user b;");
    CHECK_INT(trust_place_of(&p, at("home"), at("repo"), NULL), 0);
    CHECK_INT(trust_scan(&sc, p.root, NULL), 0);
    CHECK_INT(trust_add(t, &p, sc.items.p, sc.items.n, false, NULL), 0);
    CHECK_STR(all("x", at("repo"), t), "a(bot):mine;b(user):user b;c(project):project c;");
    trust_scan_fini(&sc);
    trust_place_fini(&p);
    trust_close(t);
}

TEST(a_skill_that_others_can_write_is_not_followed)
{
    struct trust *t;
    struct trust_place p;
    put_file("home/bots/x/config.md", "x");
    make_dir("repo/.git");
    put_file("repo/.afloat/skills/a.md", "the user's");
    put_file("repo/.afloat/skills/b.md", "of others");
    CHECK_INT(chmod(at("repo/.afloat/skills/b.md"), 0666), 0);
    CHECK_INT(trust_open(&t, at("home"), NULL), 0);
    CHECK_INT(trust_place_of(&p, at("home"), at("repo"), NULL), 0);
    CHECK_INT(trust_add(t, &p, NULL, 0, true, NULL), 0);
    CHECK_STR(all("x", at("repo"), t), "a(project):the user's;");
    trust_place_fini(&p);
    trust_close(t);
}

TEST(a_broken_skill_is_told_and_stops_nothing)
{
    struct skillset s;
    put_file("home/skills/bad.md", "+++\nname = \n+++\n");
    put_file("home/skills/good.md", "good");
    put_file("home/skills/notes.txt", "no skill");
    skillset_read(&s, NULL, at("home"), NULL, NULL);
    skillset_judge(&s, NULL);
    CHECK_INT(s.list.n, 1);
    CHECK_INT(s.skills.faults.n, 1);
    CHECK(str_ends(s.skills.faults.p[0].file, "home/skills/bad.md"));
    CHECK(s.skills.faults.p[0].message.n != 0);
    skillset_fini(&s);
}

TEST(a_saved_skill_is_there_at_the_next_reading)
{
    put_file("home/bots/x/config.md", "x");
    CHECK_STR(all("x", NULL, NULL), "");
    CHECK_INT(save("x", "deploy", "how to\n\"deploy\": now", "1. Push.\n", NULL), 0);
    CHECK_STR(all("x", NULL, NULL), "deploy(bot):how to \"deploy\": now;");
    CHECK_STR(text_of(at("home/bots/x/skills/deploy.md")),
              "---\nname: deploy\ndescription: \"how to \"deploy\": now\"\n---\n\n1. Push.\n");
    CHECK_INT(save(NULL, "all", "for all", "---\nname: other\n---\nBody with a front.", NULL), 0);
    CHECK_STR(all("x", NULL, NULL), "all(user):for all;deploy(bot):how to \"deploy\": now;");
    CHECK(strstr(text_of(at("home/skills/all.md")), "other") == NULL);
}

TEST(a_skill_that_is_replaced_goes_to_the_trash)
{
    put_file("home/bots/x/config.md", "x");
    put_file("home/bots/x/skills/a/SKILL.md", "old in a folder");
    CHECK_INT(save("x", "a", "new", "new body", NULL), 0);
    CHECK_STR(all("x", NULL, NULL), "a(bot):new;");
    CHECK(!is_there(at("home/bots/x/skills/a")));
    CHECK_INT(count_in(at("home/trash")), 1);
    CHECK_INT(save("x", "a", "newer", "newer body", NULL), 0);
    CHECK_INT(count_in(at("home/trash")), 2);
    CHECK_STR(all("x", NULL, NULL), "a(bot):newer;");
}

TEST(hostile_names_and_empty_bodies_are_refused)
{
    static const char *const names[] = {"",    "../x", "a/b", ".a",       "A",
                                        "a b", "a\n",  "-a",  "\xC3\xA9", "a.md"};
    struct err e = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_INT(save("x", names[i], "d", "body", &e), ERR_INVALID);
    }
    CHECK_INT(save("x", "a", "d", " \n", &e), ERR_INVALID);
    CHECK_INT(save("x", "a", "d", "\xFF", &e), ERR_INVALID);
    CHECK_INT(save("../y", "a", "d", "body", &e), ERR_INVALID);
    CHECK(!is_there(at("home")));
}

TEST(a_removed_skill_is_in_the_trash)
{
    struct err e = {0};
    put_file("home/skills/a.md", "---\nname: other\n---\nbody");
    CHECK_INT(skillset_remove(NULL, at("home"), NULL, STR("a"), &e), ERR_NOT_FOUND);
    CHECK_INT(skillset_remove(NULL, at("home"), NULL, STR("other"), &e), 0);
    CHECK(!is_there(at("home/skills/a.md")));
    CHECK_INT(count_in(at("home/trash")), 1);
    CHECK_INT(skillset_remove(NULL, at("home"), NULL, STR("other"), &e), ERR_NOT_FOUND);
}
