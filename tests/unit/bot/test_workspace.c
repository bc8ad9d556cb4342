// Slugs, and whose workspace is whose.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "bot/history_number.h"
#include "bot/workspace.h"
#include "unit/bot/home.h"

TEST(a_slug_is_the_last_part_of_the_path)
{
    static const char *const cases[][2] = {
        {"/x/backend_api", "backend-api"},
        {"/x/Backend--API/", "backend-api"},
        {"/x/.dotfiles", "dotfiles"},
        {"/", "project"},
        {"/x/\xD0\xBF\xD1\x80", "project"},
        {"/x/a  b..c", "a-b-c"},
        {"/x/caf\xC3\xA9"
         "1",
         "caf-1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char slug[SLUG_TEXT];
        CHECK_STR(slug_of(cases[i][0], slug), cases[i][1]);
        CHECK(slug_valid(str_of(slug)));
    }
}

TEST(a_long_name_leaves_room_for_the_digits)
{
    char path[300] = "/x/", slug[SLUG_TEXT], other[SLUG_TEXT];
    memset(path + 3, 'a', 200);
    slug_of(path, slug);
    slug_taken(path, 8, other);
    CHECK_INT(strlen(slug), 55);
    CHECK_INT(strlen(other), 64);
    CHECK(slug_valid(str_of(other)));
    CHECK_INT(strlen(slug_taken(path, SLUG_HASH_MAX, other)), 64);
}

static const char *slug_for(const char *path, enum workspace_how how)
{
    static char slugs[8][SLUG_TEXT];
    static unsigned next;
    struct workspace w;
    struct err e = {0};
    char *out = slugs[next++ % 8];
    int rc = workspace_of_path(&w, at("home"), "bot", &(struct workspace_project){.path = path},
                               how, &e);
    if (rc < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK(how == WORKSPACE_LOOK || w.exists);
    snprintf(out, SLUG_TEXT, "%s", w.slug);
    workspace_fini(&w);
    return out;
}

TEST(two_repositories_of_one_name_do_not_share)
{
    CHECK_STR(slug_for("/one/api", WORKSPACE_MAKE), "api");
    const char *second = slug_for("/two/api", WORKSPACE_MAKE);
    CHECK(strncmp(second, "api-", 4) == 0 && strlen(second) == 12);
    CHECK_STR(slug_for("/one/api", WORKSPACE_MAKE), "api");
    CHECK_STR(slug_for("/two/api", WORKSPACE_MAKE), second);
    CHECK_STR(slug_for("/three/Api", WORKSPACE_LOOK), slug_for("/three/Api", WORKSPACE_MAKE));
    CHECK_INT(count_in(at("home/bots/bot/workspaces")), 3);
}

TEST(a_repository_keeps_its_workspace_when_the_better_name_comes_free)
{
    slug_for("/one/api", WORKSPACE_MAKE);
    const char *second = slug_for("/two/api", WORKSPACE_MAKE);
    CHECK_INT(unlink(at("home/bots/bot/workspaces/api/workspace.json")), 0);
    CHECK_STR(slug_for("/two/api", WORKSPACE_MAKE), second);
    CHECK_STR(slug_for("/three/api", WORKSPACE_MAKE), "api"); // nobody's now
}

TEST(looking_makes_nothing)
{
    CHECK_STR(slug_for("/one/api", WORKSPACE_LOOK), "api");
    CHECK(!is_there(at("home")));
}

TEST(a_claim_that_cannot_be_read_is_somebody_elses)
{
    put_file("home/bots/bot/workspaces/api/workspace.json", "{\"path\":");
    CHECK(strcmp(slug_for("/one/api", WORKSPACE_MAKE), "api") != 0);
    CHECK_STR(text_of(at("home/bots/bot/workspaces/api/workspace.json")), "{\"path\":");
}

TEST(a_path_that_is_not_utf8_is_found_again)
{
    const char *first = slug_for("/one/\xFFx", WORKSPACE_MAKE);
    CHECK_STR(slug_for("/one/\xFFx", WORKSPACE_MAKE), first);
    CHECK(strcmp(slug_for("/one/\xFEx", WORKSPACE_MAKE), first) != 0);
}

TEST(a_project_can_be_named)
{
    struct workspace w;
    struct err e = {0};
    CHECK_INT(workspace_of_slug(&w, at("home"), "bot", "api", WORKSPACE_LOOK, NULL), 0);
    CHECK(!w.exists && w.path == NULL);
    CHECK_STR(w.rel, "bots/bot/workspaces/api");
    workspace_fini(&w);
    slug_for("/one/api", WORKSPACE_MAKE);
    CHECK_INT(workspace_of_slug(&w, at("home"), "bot", "api", WORKSPACE_LOOK, NULL), 0);
    CHECK(w.exists);
    CHECK_STR(w.path, "/one/api");
    workspace_fini(&w);
    CHECK_INT(workspace_of_slug(&w, at("home"), "bot", "../x", WORKSPACE_MAKE, &e), ERR_INVALID);
    workspace_fini(&w);
}

TEST(a_repository_is_known_by_the_address_of_its_remote)
{
    static const char *const cases[][2] = {
        {"[remote \"origin\"]\n\turl = git@Host.org:team/Api.git\n", "host.org/team/Api"},
        {"[remote \"origin\"]\n\turl = https://ann:pw@host.org/team/Api/\n", "host.org/team/Api"},
        {"[remote \"far\"]\n\turl = /srv/a.git\n[remote \"origin\"]\n\turl=ssh://git@h/b\n", "h/b"},
        {"[remote \"far\"]\n\turl = /srv/a.git\n[remote \"two\"]\n\turl=h:b\n", "/srv/a"},
        {"[branch \"x\"]\n\turl = h/b\n", NULL},
        {"[remote \"origin\"]\n\turl = ../there\n", NULL},
        {"[remote \"origin\"]\n\turl =\n\turl", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_file("git/config", cases[i][0]);
        char *got = workspace_remote(at("git"));
        CHECK((got == NULL) == (cases[i][1] == NULL));
        if (got != NULL && cases[i][1] != NULL) {
            CHECK_STR(got, cases[i][1]);
        }
        free(got);
    }
    CHECK(workspace_remote(at("nowhere")) == NULL);
}

static int round_no;

// Each process claims for a path of its own, all of one name, and for the one path that all share.
static void claim_both(int i)
{
    char path[64], shared[64];
    snprintf(path, sizeof path, "/p%d/api%d", i, round_no);
    put_file(path + 1, slug_for(path, WORKSPACE_MAKE));
    snprintf(shared, sizeof shared, "/all/lib%d", round_no);
    snprintf(path, sizeof path, "/shared%d-%d", i, round_no);
    put_file(path + 1, slug_for(shared, WORKSPACE_MAKE));
}

TEST(of_several_that_claim_at_once_each_gets_his_own)
{
    enum { N = 6 };
    int rounds = test_loops(6);
    for (round_no = 0; round_no < rounds; round_no++) {
        in_processes(N, claim_both);
        for (int i = 0; i < N; i++) {
            char want[32];
            for (int k = 0; k < i; k++) {
                CHECK(strcmp(text_of(at("p%d/api%d", i, round_no)),
                             text_of(at("p%d/api%d", k, round_no))) != 0);
            }
            snprintf(want, sizeof want, "lib%d", round_no);
            CHECK_STR(text_of(at("shared%d-%d", i, round_no)), want);
        }
        CHECK_INT(count_in(at("home/bots/bot/workspaces")), (round_no + 1) * (N + 1));
    }
}

TEST(a_bot_whose_name_leads_elsewhere_has_no_workspace)
{
    struct workspace w;
    CHECK_INT(workspace_of_path(&w, at("home"), "../x",
                                &(struct workspace_project){.path = "/one/api"}, WORKSPACE_MAKE,
                                NULL),
              ERR_INVALID);
    workspace_fini(&w);
    CHECK_INT(workspace_of_slug(&w, at("home"), "../x", "api", WORKSPACE_MAKE, NULL), ERR_INVALID);
    workspace_fini(&w);
    CHECK(!is_there(at("home")) && !is_there(at("x")));
}

// ---- the lock and numbers -----------------------------------------------------------------------

TEST(a_lock_that_is_held_is_not_waited_for_without_end)
{
    struct err e = {0};
    make_dir("w");
    int fd = open(at("w/lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(flock(fd, LOCK_EX), 0);
    CHECK_INT(workspace_lock(at("w"), &e), ERR_TIMEOUT);
    CHECK(strstr(e.msg, "another program holds") != NULL);
    close(fd);
    fd = workspace_lock(at("w"), &e);
    CHECK(fd >= 0);
    workspace_unlock(fd);
}

TEST(numbers_go_up_and_never_come_again)
{
    uint64_t n;
    make_dir("w");
    CHECK_INT(history_number_take(NULL, at("w"), &n, NULL), 0);
    CHECK_INT(n, 1);
    CHECK_INT(history_number_take(NULL, at("w"), &n, NULL), 0);
    CHECK_INT(n, 2);
    CHECK_INT(history_number_raise(NULL, at("w"), 40, NULL), 0);
    CHECK_INT(history_number_raise(NULL, at("w"), 7, NULL), 0);
    CHECK_INT(history_number_take(NULL, at("w"), &n, NULL), 0);
    CHECK_INT(n, 41);
}

TEST(a_lost_counter_begins_above_the_history)
{
    static const char *const lost[] = {"", "nine", "99999999999999999999999", "-4"};
    uint64_t n;
    put_file("w/history/a/metadata.json", "{\"session_number\": 12}");
    put_file("w/history/b/metadata.json", "{\"session_number\": 7}");
    put_file("w/history/c/metadata.json", "{");
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        put_file("w/session_number", lost[i]);
        CHECK_INT(history_number_take(NULL, at("w"), &n, NULL), 0);
        CHECK_INT(n, 13);
    }
}

enum { PROCESSES = 6, TAKEN = 12 };

static void take_numbers(int i)
{
    (void)i;
    for (int k = 0; k < TAKEN; k++) {
        uint64_t n;
        CHECK_INT(history_number_take(NULL, at("w"), &n, NULL), 0);
        int fd = open(at("taken-%llu", (unsigned long long)n), O_CREAT | O_EXCL | O_WRONLY, 0600);
        CHECK(fd >= 0); // nobody else has it
        close(fd);
    }
}

TEST(processes_that_take_numbers_at_once_never_get_the_same)
{
    make_dir("w");
    in_processes(PROCESSES, take_numbers);
    CHECK(is_there(at("taken-%d", 1)) && is_there(at("taken-%d", PROCESSES * TAKEN)));
    CHECK_STR(text_of(at("w/session_number")), "72\n");
}
