// Which bots there are, and making, changing and deleting them.

#include <pthread.h>
#include <unistd.h>

#include "bot/catalog.h"
#include "unit/bot/home.h"

static const char *home(void)
{
    return at("home");
}

TEST(a_created_bot_is_listed_and_says_what_it_was_told)
{
    struct catalog c;
    struct catalog_bot *b;
    CHECK_INT(catalog_create(home(), "reviewer", STR("looks at \"code\"\nwell"),
                             STR("Review the last commit."), NULL),
              0);
    CHECK_INT(catalog_read(&c, home(), NULL, NULL, NULL), 0);
    catalog_judge(&c, NULL);
    CHECK_INT(c.list.n, 1);
    CHECK_INT(catalog_find(&c, STR("reviewer"), &b, NULL), 0);
    CHECK_INT(b->status, 0);
    CHECK_INT(b->diags.n, 0);
    CHECK_STR(b->config.description, "looks at \"code\"\nwell");
    CHECK_STR(b->config.instructions, "Review the last commit.");
    CHECK_STR(bot_origin_name(b->origin), "user");
    catalog_fini(&c);
}

TEST(every_key_of_a_new_bot_can_be_switched_on_by_taking_its_sign_away)
{
    struct bot_config c;
    struct config_diags d;
    struct err e = {0};
    struct buf text;
    CHECK_INT(catalog_create(home(), "x", STR(""), STR(""), NULL), 0);
    const char *old = text_of(at("home/bots/x/config.md"));
    buf_init(&text, SIZE_MAX);
    struct str rest = str_of(old);
    unsigned switched = 0;
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n');
        bool setting = str_starts(line, "# ") &&
                       (str_index(line, '=') > 0 || strstr(line.p, "[worktree]") == line.p + 2);
        bool is_switch = str_starts(line, "# worktree ="); // the table says the same
        if (setting && !is_switch) {
            line = str_from(line, 2);
            switched++;
        }
        buf_adds(&text, line);
        buf_addc(&text, '\n');
    }
    bot_config_init(&c);
    config_diags_init(&d);
    CHECK_INT(bot_config_parse(&c, buf_str(&text), "config.md", &d, &e), 0);
    CHECK_INT(d.n, 0);
    CHECK(switched >= 15);
    CHECK_STR(c.setup.p[0], "npm ci");
    config_diags_fini(&d);
    bot_config_fini(&c);
    buf_fini(&text);
}

TEST(create_never_overwrites)
{
    struct err e = {0};
    CHECK_INT(catalog_create(home(), "x", STR("one"), STR("first"), NULL), 0);
    CHECK_INT(catalog_create(home(), "x", STR("two"), STR("second"), &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "there is a bot 'x' already") != NULL);
    CHECK(strstr(text_of(at("home/bots/x/config.md")), "first") != NULL);
    CHECK_INT(catalog_create(home(), "../x", STR(""), STR(""), &e), ERR_INVALID);
    CHECK_INT(count_in(at("home/bots")), 1);
}

static void create_one(int i)
{
    char text[32];
    snprintf(text, sizeof text, "made by %d", i);
    int rc = catalog_create(home(), "x", STR(""), str_of(text), NULL);
    if (rc == 0) {
        CHECK(link(at("home/bots/x/config.md"), at("winner-%d", i)) == 0);
    } else {
        CHECK_INT(rc, ERR_CONFLICT);
    }
}

TEST(of_several_that_create_one_wins)
{
    make_dir("home");
    in_processes(8, create_one);
    size_t winners = 0;
    for (int i = 0; i < 8; i++) {
        char want[32];
        snprintf(want, sizeof want, "made by %d", i);
        if (is_there(at("winner-%d", i))) {
            winners++;
            CHECK(strstr(text_of(at("home/bots/x/config.md")), want) != NULL);
        }
    }
    CHECK_INT(winners, 1);
    CHECK_INT(count_in(at("home/bots/x")), 1); // nothing temporary is left
}

TEST(a_broken_bot_is_listed_with_its_error_and_does_not_hide_others)
{
    struct catalog c;
    struct catalog_bot *b;
    put_file("home/bots/bad/config.md", "+++\nmodel = 3\n+++\n");
    put_file("home/bots/good/config.md", "Do it.");
    put_file("home/bots/Wrong Name/config.md", "x");
    make_dir("home/bots/history-only/workspaces");
    CHECK_INT(catalog_read(&c, home(), NULL, NULL, NULL), 0);
    catalog_judge(&c, NULL);
    CHECK_INT(c.list.n, 2);
    CHECK_INT(catalog_find(&c, STR("bad"), &b, NULL), 0);
    CHECK_INT(b->status, ERR_PARSE);
    CHECK(strstr(b->err.msg, "bots/bad/config.md:2:9: expected a string") != NULL);
    CHECK_INT(catalog_find(&c, STR("good"), &b, NULL), 0);
    catalog_fini(&c);
}

TEST(a_bot_that_is_not_there_names_the_nearest)
{
    struct catalog c;
    struct catalog_bot *b;
    struct err e = {0};
    put_file("home/bots/reviewer/config.md", "x");
    CHECK_INT(catalog_read(&c, home(), NULL, NULL, NULL), 0);
    catalog_judge(&c, NULL);
    CHECK_INT(catalog_find(&c, STR("reviewr"), &b, &e), ERR_NOT_FOUND);
    CHECK_STR(e.msg, "there is no bot 'reviewr', did you mean 'reviewer'?");
    CHECK(b == NULL);
    catalog_fini(&c);
    CHECK_INT(catalog_read(&c, home(), NULL, "../../etc", &e), ERR_INVALID);
    catalog_fini(&c);
}

// ---- a project's --------------------------------------------------------------------------------

static void make_project(void)
{
    make_dir("repo/.git");
    put_file("repo/.afloat/bots/theirs/config.md", "Theirs.");
    put_file("repo/.afloat/bots/both/config.md", "Theirs of both.");
    put_file("home/bots/both/config.md", "Mine of both.");
}

static void trust_project(struct trust **t)
{
    struct trust_place p;
    struct trust_scan s;
    CHECK_INT(trust_open(t, home(), NULL), 0);
    CHECK_INT(trust_place_of(&p, home(), at("repo"), NULL), 0);
    CHECK_INT(trust_scan(&s, p.root, NULL), 0);
    CHECK_INT(trust_add(*t, &p, s.items.p, s.items.n, false, NULL), 0);
    trust_scan_fini(&s);
    trust_place_fini(&p);
}

TEST(a_projects_bot_counts_when_its_bytes_are_trusted)
{
    struct catalog c;
    struct trust *t;
    struct catalog_bot *b;
    struct err e = {0};
    make_project();
    CHECK_INT(trust_open(&t, home(), NULL), 0);
    CHECK_INT(catalog_read(&c, home(), at("repo"), NULL, NULL), 0);
    catalog_judge(&c, t);
    CHECK_INT(c.list.n, 1);
    CHECK_INT(catalog_find(&c, STR("theirs"), &b, &e), ERR_DENIED);
    CHECK(strstr(e.msg, "afloat trust") != NULL);
    catalog_fini(&c);
    trust_close(t);

    trust_project(&t);
    CHECK_INT(catalog_read(&c, home(), at("repo"), NULL, NULL), 0);
    put_file("repo/.afloat/bots/theirs/config.md", "Changed after it was read.");
    catalog_judge(&c, t);
    CHECK_INT(c.list.n, 2);
    CHECK_INT(catalog_find(&c, STR("theirs"), &b, NULL), 0);
    CHECK_STR(b->config.instructions, "Theirs."); // what was hashed is what is used
    CHECK_INT(catalog_find(&c, STR("both"), &b, NULL), 0);
    CHECK_STR(b->config.instructions, "Mine of both.");
    catalog_fini(&c);
    CHECK_INT(catalog_read(&c, home(), at("repo"), "theirs", NULL), 0);
    catalog_judge(&c, t);
    CHECK_INT(catalog_find(&c, STR("theirs"), &b, NULL), ERR_DENIED); // other bytes now
    catalog_fini(&c);
    trust_close(t);
}

// ---- changing -----------------------------------------------------------------------------------

static int patch(const char *json, const char *instructions, struct err *e)
{
    struct arena a = {0};
    struct json *keys;
    CHECK_INT(json_parse(&keys, &a, str_of(json), NULL, NULL), 0);
    int rc = catalog_patch(home(), "x", keys, str_of(instructions), e);
    arena_fini(&a);
    return rc;
}

TEST(a_patch_changes_what_it_names_or_nothing)
{
    struct err e = {0};
    CHECK_INT(catalog_create(home(), "x", STR("d"), STR("Body."), NULL), 0);
    CHECK_INT(patch("{\"model\": \"m\", \"merge\": \"never\"}", NULL, NULL), 0);
    const char *text = text_of(at("home/bots/x/config.md"));
    CHECK(strstr(text, "\nmodel = \"m\"\n") != NULL &&
          strstr(text, "\nmerge = \"never\"\n") != NULL);
    CHECK(strstr(text, "# sleep_secs = 30") != NULL); // comments stay
    CHECK_INT(patch("{\"merge\": \"maybe\", \"model\": \"n\"}", "New.", &e), ERR_INVALID);
    CHECK_INT(patch("{\"modle\": \"n\"}", NULL, &e), ERR_INVALID);
    CHECK(strstr(e.msg, "did you mean 'model'?") != NULL);
    CHECK_STR(text_of(at("home/bots/x/config.md")), text);
    CHECK_INT(patch("{}", "New.", NULL), 0);
    CHECK(strstr(text_of(at("home/bots/x/config.md")), "\n+++\nNew.\n") != NULL);
    CHECK_INT(catalog_patch(home(), "none", NULL, STR("x"), &e), ERR_NOT_FOUND);
}

TEST(a_deleted_bot_keeps_its_history_unless_told)
{
    char *where;
    struct err e = {0};
    CHECK_INT(catalog_create(home(), "x", STR(""), STR("Body."), NULL), 0);
    put_file("home/bots/x/skills/s.md", "skill");
    put_file("home/bots/x/workspaces/p/memory.json", "{}");
    CHECK_INT(catalog_delete(home(), "x", false, &where, NULL), 0);
    CHECK(!is_there(at("home/bots/x/config.md")) && !is_there(at("home/bots/x/skills")));
    CHECK(is_there(at("home/bots/x/workspaces/p/memory.json")));
    char kept[600];
    snprintf(kept, sizeof kept, "%s/skills/s.md", where);
    CHECK_STR(text_of(kept), "skill");
    free(where);
    CHECK_INT(catalog_delete(home(), "x", false, &where, &e), ERR_NOT_FOUND);
    CHECK(where == NULL);
    CHECK_INT(catalog_create(home(), "x", STR(""), STR("Again."), NULL), 0);
    CHECK_INT(catalog_delete(home(), "x", true, &where, NULL), 0);
    CHECK(!is_there(at("home/bots/x")));
    snprintf(kept, sizeof kept, "%s/workspaces/p/memory.json", where);
    CHECK(is_there(kept));
    free(where);
    CHECK_INT(catalog_delete(home(), "../home", true, &where, &e), ERR_INVALID);
}

// ---- at once ------------------------------------------------------------------------------------

struct deleter {
    pthread_t thread;
    pthread_barrier_t *together;
    const char *home;
    bool history;
    int rc;
};

static void *delete_it(void *arg)
{
    struct deleter *d = arg;
    pthread_barrier_wait(d->together);
    char *where;
    d->rc = catalog_delete(d->home, "x", d->history, &where, NULL);
    free(where);
    return NULL;
}

/// Delete bot "x" from several threads and check what they are told.
static void delete_together(const char *dir, bool history)
{
    struct deleter d[4];
    pthread_barrier_t together;
    int n_deleted = 0, n_missing = 0;
    pthread_barrier_init(&together, NULL, ARRAY_LEN(d));
    for (size_t i = 0; i < ARRAY_LEN(d); i++) {
        d[i] = (struct deleter){.together = &together, .home = dir, .history = history};
        CHECK_INT(pthread_create(&d[i].thread, NULL, delete_it, &d[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(d); i++) {
        pthread_join(d[i].thread, NULL);
        n_deleted += d[i].rc == 0;
        n_missing += d[i].rc == ERR_NOT_FOUND;
    }
    pthread_barrier_destroy(&together);
    CHECK_INT(n_deleted, 1);
    CHECK_INT(n_missing, (int)ARRAY_LEN(d) - 1);
}

TEST(of_several_who_delete_a_bot_at_once_one_did_it)
{
    char dir[600];
    snprintf(dir, sizeof dir, "%s", home());
    for (int i = 0; i < 200; i++) { // enough for two to look before one of them acts
        CHECK_INT(catalog_create(dir, "x", STR(""), STR("Body."), NULL), 0);
        delete_together(dir, false);
    }
}

TEST(of_several_who_delete_a_bot_and_its_history_at_once_one_did_it)
{
    char dir[600];
    snprintf(dir, sizeof dir, "%s", home());
    for (int i = 0; i < 200; i++) {
        CHECK_INT(catalog_create(dir, "x", STR(""), STR("Body."), NULL), 0);
        delete_together(dir, true);
    }
}
