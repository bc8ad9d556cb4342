// Disk full, read-only, input/output errors: every call that can fail does so once, one after the other, and
// then for good. A call that failed has changed nothing or everything; a call that succeeded is on the disk;
// afterwards the same work is done without trouble.

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "bot/catalog.h"
#include "bot/history_number.h"
#include "bot/import.h"
#include "bot/memory.h"
#include "bot/skillset.h"
#include "bot/workspace.h"
#include "lib/fault.h"
#include "unit/bot/home.h"

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

struct work {
    void (*before)(void);
    int (*run)(struct err *e);
    void (*after)(bool failed); // without faults; `failed` is what `run` said
};

static void clean(void)
{
    if (is_there(at("home"))) {
        CHECK_INT(path_remove_tree(at("home"), NULL), 0);
    }
}

static unsigned fail_each(const struct work *w, int error, bool forever)
{
    unsigned points = 0;
    for (unsigned long n = 1;; n++) {
        struct err e = {0};
        clean();
        make_dir("home");
        w->before();
        fault_at(n, error, forever);
        int rc = w->run(&e);
        fault_off();
        bool hit = fault_hits() != 0;
        CHECK(rc >= 0 || e.msg[0] != '\0');
        w->after(rc < 0);
        if (!hit) {
            CHECK_INT(rc, 0);
            return points;
        }
        points++;
    }
}

static void all_faults(const struct work *w)
{
    log_open(LOG_ERROR, quiet, NULL);
    unsigned points = fail_each(w, ENOSPC, false) + fail_each(w, ENOSPC, true) +
                      fail_each(w, EROFS, true) + fail_each(w, EIO, false);
    fprintf(stderr, "%u points failed\n", points);
    CHECK(points >= 16);
}

// ---- memory -------------------------------------------------------------------------------------

static void memory_before(void)
{
    put_file("home/w/memory.json", "{\"entries\": {\"old\": \"1\"}}");
}

static int memory_run(struct err *e)
{
    return memory_set(NULL, at("home/w"), STR("new"), STR("2"), NULL, e);
}

static void memory_after(bool failed)
{
    struct memory m;
    CHECK_INT(memory_load(&m, NULL, at("home/w"), NULL), 0);
    CHECK_STR(m.note, "");
    CHECK(memory_find(&m, STR("old")) != NULL);
    CHECK(failed || memory_find(&m, STR("new")) != NULL);
    memory_fini(&m);
    CHECK_INT(memory_run(NULL), 0);
    CHECK_INT(count_in(at("home/w")), 2); // the file and the lock
}

TEST(memory_is_whole_whatever_fails)
{
    all_faults(&(struct work){memory_before, memory_run, memory_after});
}

static void damaged_before(void)
{
    put_file("home/w/memory.json", "{\"precious");
}

static void damaged_after(bool failed)
{
    (void)failed;
    CHECK_INT(memory_run(NULL), 0);
    CHECK_INT(count_in(at("home/w")), 3); // the file, the lock, and what was set aside
    char command[1200];
    snprintf(command, sizeof command, "grep -q precious %s/memory.json.corrupt-*", at("home/w"));
    CHECK_INT(system(command), 0);
}

TEST(a_damaged_memory_is_never_lost_whatever_fails)
{
    log_open(LOG_ERROR, quiet, NULL);
    struct work w = {damaged_before, memory_run, damaged_after};
    unsigned points = fail_each(&w, ENOSPC, false) + fail_each(&w, EIO, true);
    fprintf(stderr, "%u points failed\n", points);
    CHECK(points >= 8);
}

// ---- bots ---------------------------------------------------------------------------------------

static void nothing(void)
{
}

static int create_run(struct err *e)
{
    return catalog_create(at("home"), "x", STR("d"), STR("Body."), e);
}

static void create_after(bool failed)
{
    bool there = is_there(at("home/bots/x/config.md"));
    CHECK(failed || there);
    if (there) { // whole, though the last sync may have failed
        CHECK(strstr(text_of(at("home/bots/x/config.md")), "+++\nBody.\n") != NULL);
    } else {
        CHECK_INT(create_run(NULL), 0);
    }
    CHECK_INT(count_in(at("home/bots/x")), 1);
}

TEST(a_bot_is_made_whole_or_not_at_all)
{
    all_faults(&(struct work){nothing, create_run, create_after});
}

static void patch_before(void)
{
    CHECK_INT(create_run(NULL), 0);
}

static int patch_run(struct err *e)
{
    return catalog_patch(at("home"), "x", NULL, STR("Other."), e);
}

static void patch_after(bool failed)
{
    const char *text = text_of(at("home/bots/x/config.md"));
    CHECK(strstr(text, failed ? "+++\n" : "+++\nOther.\n") != NULL);
    CHECK(strstr(text, "Body.") != NULL || strstr(text, "Other.") != NULL);
    CHECK_INT(count_in(at("home/bots/x")), 1);
    CHECK_INT(patch_run(NULL), 0);
}

TEST(a_changed_bot_is_the_old_or_the_new)
{
    all_faults(&(struct work){patch_before, patch_run, patch_after});
}

// ---- workspaces and numbers ---------------------------------------------------------------------

static uint64_t given;

static int number_run(struct err *e)
{
    struct workspace w;
    int rc = workspace_of_path(&w, at("home"), "b", &(struct workspace_project){.path = "/one/api"},
                               WORKSPACE_MAKE, e);
    rc = rc == 0 ? history_number_take(NULL, w.dir, &given, e) : rc;
    workspace_fini(&w);
    return rc;
}

static void number_after(bool failed)
{
    uint64_t first = given;
    CHECK_INT(number_run(NULL), 0);
    CHECK(failed || given > first);
    CHECK_INT(count_in(at("home/bots/b/workspaces")), 1); // not a second one for the same path
}

TEST(a_workspace_and_its_numbers_survive_whatever_fails)
{
    all_faults(&(struct work){nothing, number_run, number_after});
}

// ---- skills -------------------------------------------------------------------------------------

static void skill_before(void)
{
    put_file("home/skills/s.md", "the old one");
}

static int skill_run(struct err *e)
{
    struct skillset_new n = {STR("s"), STR("d"), STR("the new one")};
    return skillset_save(NULL, at("home"), NULL, &n, e);
}

static void skill_after(bool failed)
{
    const char *text = text_of(at("home/skills/s.md"));
    CHECK(strstr(text, "the new one") != NULL || (failed && strcmp(text, "the old one") == 0));
    CHECK_INT(count_in(at("home/skills")), 1);
    CHECK_INT(skill_run(NULL), 0);
}

TEST(a_saved_skill_is_the_old_or_the_new)
{
    all_faults(&(struct work){skill_before, skill_run, skill_after});
}

// ---- import -------------------------------------------------------------------------------------

static int import_run(struct err *e)
{
    struct import_report r = {0};
    int rc = import_openbot(&r, NULL, at("home"), at("open"), NULL, e);
    if (rc == 0 && r.counts[IMPORT_FAILED] != 0) {
        rc = err_set(e, ERR_INVALID, "%zu failed", r.counts[IMPORT_FAILED]);
    }
    import_report_fini(&r);
    return rc;
}

static void check_session(void)
{
    if (is_there(at("home/bots/x/workspaces/p/history/s1"))) { // whole
        CHECK(strstr(text_of(at("home/bots/x/workspaces/p/history/s1/metadata.json")),
                     "\"session_number\":4,") != NULL);
        CHECK(strstr(text_of(at("home/bots/x/workspaces/p/history/s1/events.jsonl")),
                     "turn.completed") != NULL);
    }
}

static void import_after(bool failed)
{
    (void)failed;
    check_session();
    CHECK_INT(import_run(NULL), 0); // what is missing comes with the next
    check_session();
    CHECK_STR(text_of(at("home/bots/x/config.md")), "Body.");
    CHECK_STR(text_of(at("home/skills/folder/SKILL.md")), "skill");
    CHECK_STR(text_of(at("home/skills/folder/more.md")), "more");
    CHECK(strstr(text_of(at("home/bots/x/workspaces/p/memory.json")), "\"k\": \"v\"") != NULL);
    CHECK_INT(count_in(at("home/bots/x/workspaces/p/history")), 1);
    CHECK_INT(count_in(at("home/skills")), 1);
}

TEST(an_import_takes_each_thing_whole_whatever_fails)
{
    put_file("open/skills/folder/SKILL.md", "skill");
    put_file("open/skills/folder/more.md", "more");
    put_file("open/bots/x/config.md", "Body.");
    put_file("open/bots/x/workspaces/p/memory.json", "{\"entries\": {\"k\": \"v\"}}");
    put_file("open/bots/x/workspaces/p/history/s1/metadata.json", "{\"session_number\": 4}");
    put_file("open/bots/x/workspaces/p/history/s1/events.jsonl",
             "{\"type\":\"message\",\"content\":\"x\"}\n");
    log_open(LOG_ERROR, quiet, NULL);
    struct work w = {nothing, import_run, import_after};
    unsigned points = fail_each(&w, ENOSPC, false) + fail_each(&w, EROFS, true);
    fprintf(stderr, "%u points failed\n", points);
    CHECK(points >= 60);
}
